"""Error messages about models that are missing or damaged, missing devices, and packages that are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Packages that only some verbs need: package -> the extra of hfxling that installs it.
EXTRAS = {"accelerate": "train", "datasets": "train", "peft": "train", "evaluate": "eval"}


@contextmanager
def one_line_where_missing(
    name: str, what: str = "base_model", kind: str = "an encoder with its tokenizer"
) -> Iterator[None]:
    """Turn any error in a block that loads the Hub id or folder `name` into an error of one line.

    `what` is the argument that named it, `kind` says what the folder should hold.

    Raises:
        FileNotFoundError: if there is nothing of that name, or a file is missing in it.
        ValueError: if it is damaged or of another kind; errors of this package pass as they are.
    """
    try:
        yield
    except OSError as error:
        problem = f"is neither the folder of {kind} nor found on the Hub ({_cause(error)})"
        raise FileNotFoundError(f"{what}={str(name)!r} {problem}; check the name and the connection.") from error
    except Exception as error:  # libraries have many errors for a file that is cut off, empty or the wrong one
        if _is_ours(error):
            raise
        if "trust_remote_code" in str(error):
            raise ValueError(
                f"{what}={str(name)!r} brings code of its own; look at it, and if you trust it, give "
                "trust_remote_code=True, or, if there is no such option, the model that SentenceTransformer loads with "
                "it."
            ) from error
        problem = f"cannot be read as {kind} ({_cause(error)})"
        raise ValueError(f"{what}={str(name)!r} {problem}; fetch or publish it again, or name another.") from error


def _is_ours(error: Exception) -> bool:
    """Whether this package raised the error, with a message that is meant for users."""
    raised_at = error.__traceback__
    while raised_at is not None and raised_at.tb_next is not None:
        raised_at = raised_at.tb_next
    module = raised_at.tb_frame.f_globals.get("__name__", "") if raised_at else ""
    return isinstance(error, ValueError) and module.partition(".")[0] == __name__.partition(".")[0]


def _cause(error: Exception) -> str:
    """The first line of a library's message, shortened; with the error's type if the message alone is unclear."""
    text = next(iter(str(error).strip().splitlines()), "")
    text = text if len(text) <= 200 else f"{text[:200]}..."
    return text if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: {text}"


def check_model(what: str, model: Any, *kinds: type) -> None:
    """Refuse what is neither the name of a model nor a loaded model of these kinds."""
    if isinstance(model, (str, Path, *kinds)):
        return
    loaded = " or ".join(kind.__name__ for kind in kinds)
    hint = "; give a loaded LexicalModel as lexical" if type(model).__name__ == "LexicalModel" else ""
    raise ValueError(f"{what} is of type {type(model).__name__}: give a folder, a Hub id or a loaded {loaded}{hint}.")


def check_device(device: str | None) -> None:
    """Refuse a device that does not exist, and name those that do; None is accepted."""
    import torch

    try:
        torch.empty(0, device=device or "cpu")
    except (RuntimeError, AssertionError, NotImplementedError, ImportError):
        known = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        if torch.backends.mps.is_available():
            known.append("mps")
        raise ValueError(f"device={device!r} is not available; this machine has {', '.join(known)}.") from None


@contextmanager
def extra_named(who: str) -> Iterator[None]:
    """If a package that `who` needs is missing, say which extra installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        message = f"{who} needs the package {error.name}: pip install 'hfxling[{EXTRAS[error.name]}]'."
        raise ModuleNotFoundError(message, name=error.name) from None
