"""What all verbs share: types of their parameters, and checks that run before anything else."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from hfxling.files import alone_in, alone_with, check_apart, check_place, check_replaceable
from hfxling.missing import check_device, extra_named
from hfxling.progress import hidden, without_loading_bars

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from hfxling.encoders.protocol import Encoder

FILE, FOLDER, WHOLE_FOLDER = "file to write", "folder to write into", "folder to write as a whole"
CACHE = "folder that several runs may share"

Text = str | Path | Sequence[str]  # a source of text (docs/text.md), or texts in memory
Languages = tuple[str, str]  # codes of source and target
if TYPE_CHECKING:
    Model = str | Path | SentenceTransformer | Encoder
else:
    Model = Any  # on the command line a folder or Hub id
OutputFile = Annotated[str | Path, FILE]
OutputFolder = Annotated[str | Path, FOLDER]  # it may hold other files
ReplacedFolder = Annotated[str | Path, WHOLE_FOLDER]  # it may not
CacheFolder = Annotated[str | Path, CACHE]

Verb = TypeVar("Verb", bound=Callable)


class Result:
    """The result of a verb; its `repr` is its table, so that a notebook's cell shows it."""

    table: Callable[[], str]

    def __repr__(self) -> str:
        return self.table()


def verb(function: Verb) -> Verb:
    """Make a function a verb, whose arguments are checked before it runs.

    A value must be one of those that its parameter's type lists (`Literal`), or a number if the type is one; the device
    must exist. Outputs must be writable; they must not be inputs, nor replace a folder that hfxling did not write. No
    file is written twice, or by two runs at once. `~` means the home folder. `progress=False` hides all progress bars;
    those of transformers for loading and saving are always hidden.

    Raises:
        ValueError: for a value that is not listed or not a number, or a missing device; for an output that cannot be
            written, is read, would replace files that are not ours, or is being written by another run.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__name__}() {error}") from None
        bound.apply_defaults()
        values = bound.arguments
        hints = get_type_hints(function, include_extras=True)
        for name, value in values.items():
            _check_value(name, value, hints.get(name))
        if values.get("device") is not None:
            check_device(values["device"])
        outputs = _outputs(hints, values)
        for name in outputs:
            values[name] = _expanded(values[name])
        inputs = []
        for name, value in values.items():
            is_several = signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL  # *source
            for one in value if is_several else [value]:
                if name not in outputs and not _are_sentences(one, hints.get(name)):
                    inputs.append(one)
        check_outputs({name: (kind, values[name]) for name, kind in outputs.items()}, inputs)
        with ExitStack() as held:
            for name, kind in outputs.items():
                if kind == CACHE:
                    continue
                hold = alone_in if kind == FOLDER else alone_with
                for place in _listed(values[name]):
                    held.enter_context(hold(place, f"{name}={place}"))
            held.enter_context(without_loading_bars(of_later_imports="model" in hints))
            held.enter_context(hidden(not values.get("progress", True)))
            held.enter_context(extra_named(function.__name__))
            return function(*bound.args, **bound.kwargs)

    return checked


def _are_sentences(value: Any, hint: Any) -> bool:
    """Whether a value is text in memory, which names no files even if a sentence looks like a file name."""
    return Sequence[str] in get_args(hint) and not isinstance(value, str | Path)


def check_outputs(outputs: dict[str, tuple[str, Any]], inputs: Sequence[Any]) -> None:
    """Refuse outputs that cannot be written, or must not be, such as inputs (`hfxling.files.check_apart`).

    `outputs` maps a parameter to its kind (`FILE`, `FOLDER`, `WHOLE_FOLDER` or `CACHE`) and its path or paths.
    """
    files: dict[str, str | Path] = {}
    for name, (kind, value) in outputs.items():
        places = _listed(value)
        for number, place in enumerate(places, 1):
            check_place(name, place, is_folder=kind != FILE)
            if kind == FILE:
                files[name if len(places) == 1 else f"{name} {number}"] = place
            elif kind == WHOLE_FOLDER:
                check_replaceable(place, inputs)
    check_apart(files, inputs)


def _check_value(name: str, value: Any, hint: Any) -> None:
    """Refuse a value that `Literal[...]` or `Sequence[Literal[...]]` does not list, or that is no number of its type.

    Any of these hints may have `| None`.
    """
    if NoneType in get_args(hint):
        if value is None:
            return
        hints = [each for each in get_args(hint) if each is not NoneType]
        hint = hints[0] if len(hints) == 1 else None
    if get_origin(hint) is Literal:
        _check_choice(name, value, get_args(hint))
    elif get_origin(hint) is Sequence and get_origin(get_args(hint)[0]) is Literal:
        check_list(name, value)
        for each in value:
            _check_choice(name, each, get_args(get_args(hint)[0]))
    elif hint is int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise ValueError(f"{name}={value!r}: give a whole number.")
    elif hint is float and (isinstance(value, bool) or not isinstance(value, Real)):
        raise ValueError(f"{name}={value!r}: give a number.")


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not one of {', '.join(choices)}.")


def check_revisions(**given: tuple[Any, str | None]) -> None:
    """Refuse a revision (or another option of a model) without the model; `given` has both, by the option's name."""
    for name, (model, revision) in given.items():
        if revision is not None and model is None:
            raise ValueError(f"{name}={revision!r} is for a model, but none is given; leave it out.")


def check_list(name: str, value: Any) -> None:
    """Refuse a string instead of a list of strings, which would be read letter by letter, and what is no list."""
    if isinstance(value, dict) or value is None:
        raise ValueError(f"{name}={value!r}: give a list.")
    if isinstance(value, str):
        raise ValueError(f"{name}={value!r}: give a list, such as [{value!r}].")


def _outputs(hints: dict[str, Any], values: dict[str, Any]) -> dict[str, str]:
    """The kind of every parameter that names a place to write to."""
    kinds = {}
    for name, hint in hints.items():
        kind = output_kind(hint)
        if kind is not None and values.get(name) is not None:
            kinds[name] = kind
    return kinds


def output_kind(hint: Any) -> str | None:
    """The kind of place that a parameter's type names: `OutputFile | None`, `list[OutputFile]` and so on."""
    if get_origin(hint) is Annotated:
        for mark in get_args(hint)[1:]:
            if mark in (FILE, FOLDER, WHOLE_FOLDER, CACHE):
                return mark
    for part in get_args(hint):
        if not isinstance(part, str):
            kind = output_kind(part)
            if kind is not None:
                return kind
    return None


def _listed(value: Any) -> list:
    return list(value) if isinstance(value, list | tuple) else [value]


def _expanded(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [Path(place).expanduser() for place in value]
    return Path(value).expanduser()
