"""The `hfxling` command: every verb of the package, with options made from the function's signature and docstring.

This uses cyclopts: of the libraries tried (jsonargparse, cyclopts, typer, tyro) only cyclopts reads signatures and
Google docstrings, takes lists without quoting and YAML values with unknown keys refused, names the nearest option, and
starts in 0.06 s. Nothing is computed here.
"""

from __future__ import annotations

import difflib
import shlex
import sys
from collections import deque
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import hfxling
from hfxling.commands import COMMANDS, load_verb
from hfxling.console import check_words, run
from hfxling.missing import extra_named

if TYPE_CHECKING:
    from cyclopts import MissingArgumentError

# Two options that together mean --languages.
_SIDES = ("--source_lang", "--target_lang")


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command that `argv` (by default that of the process) begins with, or list all commands."""
    words = list(sys.argv[1:] if argv is None else argv)
    run(lambda: _run(words), argv)


def _run(words: list[str]) -> None:
    check_words(words)
    name, *rest = words or ["--help"]
    if name in ("-h", "--help"):
        print(_overview())
    elif name == "--version":
        print(f"hfxling {hfxling.__version__}")
    elif name not in COMMANDS:
        nearest = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown command {name!r}; the nearest is {nearest!r}, all are {', '.join(COMMANDS)}.")
    else:
        _call(name, load_verb(name), rest)


def _overview() -> str:
    lines = ["usage: hfxling COMMAND [--OPTION VALUE ...]", ""]
    for name, command in COMMANDS.items():
        lines.append(f"  {name:<17}{command.summary}")
    lines += [
        "",
        "hfxling COMMAND --help shows a command's options; every command is a function, too: hfxling.mine(...).",
        "--verbose explains how something was chosen, --traceback shows the whole error.",
    ]
    return "\n".join(lines)


def _call(name: str, verb: Callable, words: list[str]) -> None:
    """Parse the words, call the verb, and show its result."""
    from cyclopts import App, CycloptsError, MissingArgumentError, Parameter, UnusedCliTokensError

    words, config = _prepared(words, verb)
    app = App(
        name=f"hfxling {name}",
        version_flags=[],
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        default_parameter=Parameter(
            name_transform=str,  # --some_name, as everywhere in the documentation
            negative_bool="no_",
            negative_iterable="",
            negative_none="",
            consume_multiple=True,
            show_default=_default_told,
        ),
        config=_config(config, verb) if config else [],
    )
    app["--help"].group = app.group_parameters  # not in a group of its own
    arguments: dict[str, Any] = {}

    @app.default
    @wraps(verb)
    def called(*args: Any, **kwargs: Any) -> Any:
        arguments.update(kwargs)
        return verb(*args, **kwargs)

    try:
        with extra_named(f"hfxling {name}"):
            result = app(words)
    except CycloptsError as error:
        if isinstance(error, MissingArgumentError):
            line = _missing(error)
        elif isinstance(error, UnusedCliTokensError):
            line = f"unexpected {' '.join(map(shlex.quote, error.unused_tokens))}"
            if name == "evaluate":  # its first argument is the model, that of others is text
                line += ": text goes to --source and --target"
        else:
            line = " ".join(str(error).split()).removeprefix('Command "').rstrip(".")
        raise ValueError(f"{line}; see hfxling {name} --help.") from None
    if result is not None:
        _show(result, arguments.get("output"))


def _missing(error: MissingArgumentError) -> str:
    """The message about an option that is missing or has too few values."""
    option = error.argument.name
    example = " (such as --languages zh vi)" if option == "--languages" else ""
    if error.keyword is None and not error.tokens_so_far:
        unknown = [word.partition("=")[0] for word in error.unused_tokens or () if word.startswith("--")]
        return f"{option} is missing{example}" + (f", and {unknown[0]} is unknown" if unknown else "")
    count, _ = error.argument.token_count()
    return f"{option} needs {'a value' if count == 1 else f'{count} values'}{example}"


def _default_told(value: Any) -> str | None:
    """A default as it would be typed; None if the option is left out by default."""
    if value is None or value is False or value == ():
        return None
    if isinstance(value, tuple | list):
        return " ".join(map(str, value))
    return str(value)


def _prepared(words: list[str], verb: Callable) -> tuple[list[str], str | None]:
    """The words in the form that cyclopts reads, and the file of --config.

    `--some-name` becomes `--some_name`, `--flag true` becomes `--flag=true`, and `--source_lang A --target_lang B`
    becomes `--languages A B`. --traceback and --verbose are for `hfxling.console.run`. Nothing after `--` is changed.
    """
    flags = {f"--{name}" for name, hint in get_type_hints(verb).items() if hint is bool}
    end = words.index("--") if "--" in words else len(words)
    queue = deque("/dev/stdin" if word == "-" else word for word in words[:end])  # cyclopts reads - as an option
    ready: list[str] = []
    config = None
    sides: dict[str, str] = {}

    def value_of(option: str, mark: str, value: str) -> str:
        if mark:
            return value
        if not queue:
            raise ValueError(f"{option} needs a value.")
        return queue.popleft()

    while queue:
        word = queue.popleft()
        if not word.startswith("--"):
            ready.append(word)
            continue
        option, mark, value = word.partition("=")
        option = "--" + option.removeprefix("--").replace("-", "_")
        if option in ("--traceback", "--verbose"):
            continue
        elif option == "--config":
            config = value_of(option, mark, value)
        elif option in _SIDES:
            sides[option] = value_of(option, mark, value)
        elif option in flags and not mark and queue and queue[0].lower() in ("true", "false"):
            ready.append(f"{option}={queue.popleft()}")
        else:
            ready.append(option + mark + value)
    if sides:
        if len(sides) < 2:
            raise ValueError("--source_lang and --target_lang go together; or give --languages, such as zh vi.")
        ready += ["--languages", *(sides[option] for option in _SIDES)]
    return ready + words[end:], config


def _config(path: str, verb: Callable) -> list:
    """Values of a YAML file, which the command line overrides."""
    from cyclopts.config import Dict

    from hfxling.arguments import plain_values, read_yaml

    hints = get_type_hints(verb)
    del hints["return"]
    values = plain_values(read_yaml(Path(path)), hints, path)
    return [Dict(values, use_commands_as_keys=False, source=path)]


def _show(result: Any, output: Any) -> None:
    """Print a result: its text, if it was not written to a file, and its table, to stderr if stdout has text."""
    from hfxling.files import is_stream

    text = result.to_text() if output is None and hasattr(result, "to_text") else None
    table = result.table() if hasattr(result, "table") else ""
    if sys.stdout is None and output is None and (text or table):
        raise ValueError("standard output is closed; open it, or give --output if the command has that option.")
    if text is not None:
        print(text, end="", flush=True)
    places = output if isinstance(output, list | tuple) else [output]
    is_taken = text is not None or any(place is not None and is_stream(place) for place in places)
    if table:
        print(table, file=sys.stderr if is_taken else sys.stdout)
    status = getattr(result, "exit_status", 0)
    if status:
        raise SystemExit(status)
