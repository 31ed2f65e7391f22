"""One YAML file and the command line, read into dataclasses; and the one place that decides what errors look like."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import enum
import inspect
import json
import logging
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

# Where a run kept its files, how it was shown, and secrets: no part of how a model was made.
NOT_PUBLISHED = {
    *("output_dir", "logging_dir", "cache_dir", "hub_token", "resume_from_checkpoint", "disable_tqdm", "use_cpu"),
    *("report_to", "debug", "dataloader_pin_memory"),
}
# The Trainer's own arguments that --help shows beside those which a recipe sets; --help-all shows every one.
_OF_THE_TRAINER = (
    *("output_dir", "learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size", "seed", "bf16"),
    *("resume_from_checkpoint", "push_to_hub", "hub_model_id", "report_to", "use_cpu", "eval_strategy"),
    *("save_steps", "logging_steps"),
)
_HELP = ("-h", "--help", "--help-all")
_GENERAL = {
    "--config": {"metavar": "FILE", "help": "YAML file of key: value lines; the command line wins over it"},
    "--traceback": {"action": "store_true", "help": "show all of an error, not one line"},
    "--help": {"action": "store_true", "help": "this page"},
}


def parse_arguments(
    types: Sequence[type],
    argv: Sequence[str] | None = None,
    *,
    defaults: dict | None = None,
    description: str = "",
    prog: str | None = None,
) -> tuple:
    """Read `--config FILE.yaml` and `--key value ...` into one instance of each dataclass; the command line wins.

    A field with the metadata `positional` also takes words without a key, in the fields' order; one that is a list
    takes all that are left. Words after `--` are never keys. `--help` shows the fields in a group for each dataclass,
    titled by the first line of its docstring, and ends the process with status 0.

    Args:
        types: dataclasses whose fields are the keys; later ones may be `transformers.TrainingArguments`.
        argv: the arguments; by default those of the process.
        defaults: values below the YAML's, for keys whose dataclass default does not fit the recipe.
        description: shown by --help.
        prog: name of the program in --help; by default its file.

    Raises:
        ValueError: for an unknown key (the nearest known one is named), a missing or mistyped value, a broken YAML.
        FileNotFoundError: when the YAML file does not exist.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    end = argv.index("--") if "--" in argv else len(argv)
    known = [field.name for field in _fields(types)]
    words, rest = [_with_underscores(word, known) for word in argv[:end]], argv[end + 1 :]
    given = {key: value for key, value in (defaults or {}).items() if value is not None}
    given |= {key: value for key, value in _yaml_content(words, known).items() if value is not None}
    parser = _parser(types, given, "--help-all" in words, description=description, prog=prog)
    if not {*_HELP}.isdisjoint(words):
        parser.print_help()
        sys.exit(0)
    values, unknown = parser.parse_known_args(as_tokens(given))
    if unknown:
        raise ValueError(_unknown_key(unknown[0], known, "the defaults"))
    values, left = parser.parse_known_args(words, values)
    for word in left:
        if word.startswith("-") and len(word) > 1 and " " not in word:
            raise ValueError(_unknown_key(word, known, "the command line"))
    values = vars(values) | _by_position(types, left + rest)
    missing = [f for f in _fields(types) if _default(f) is dataclasses.MISSING and f.name not in values]
    if missing:
        raise ValueError(f"the following arguments are required: {', '.join(map(_name, missing))}; see --help.")
    return tuple(type_(**{f.name: values[f.name] for f in _fields([type_]) if f.name in values}) for type_ in types)


def run_recipe(main: Callable[[], Any], argv: Sequence[str] | None = None) -> None:
    """Run a recipe's or a command's main; the one place that decides what a user sees of messages and errors.

    Messages of the logger "hfxling" go to standard error. What a user can cause (ValueError, FileNotFoundError) ends
    in one line and exit status 2, any other error in one line and status 1; `--traceback` shows all of it. Ctrl-C and
    a reader that closed its end of a pipe end quietly, with 130 and 141 as in a shell.

    Args:
        main: the program.
        argv: the arguments it was started with; by default those of the process.
    """
    logger, handler = logging.getLogger("hfxling"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Message())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or else the interpreter's last flush complains
        sys.exit(141)
    except Exception as error:
        is_users = isinstance(error, ValueError | FileNotFoundError)
        if "--traceback" in (sys.argv if argv is None else argv):
            traceback.print_exc()
        else:
            told = [str(error)] if is_users else [*traceback.format_exception_only(error), "(--traceback shows all)"]
            logger.error(" ".join(" ".join(told).split()))
        sys.exit(2 if is_users else 1)
    finally:
        logger.removeHandler(handler)


def resolved(*arguments: Any) -> dict[str, Any]:
    """All values that differ from their dataclass default, for the record that is published with a model."""
    record = {}
    for instance in arguments:
        for field in _fields([type(instance)]):
            value = getattr(instance, field.name)
            value = value.value if isinstance(value, enum.Enum) else value
            plain = isinstance(value, str | int | float | list | dict | None)
            if plain and value != _default(field) and field.name not in NOT_PUBLISHED:
                record[field.name] = value
    return record


def as_tokens(values: dict[str, Any]) -> list[str]:
    """Values in the form of command-line arguments; None is left out."""
    tokens = []
    for key, value in values.items():
        if value is None:
            continue
        tokens.append(f"--{key}")
        if isinstance(value, dict):
            tokens.append(json.dumps(value))
        else:
            tokens += map(str, value if isinstance(value, list) else [value])
    return tokens


class _Message(logging.Formatter):
    """A line a message, with its level where that is worth knowing."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno <= logging.INFO else f"{record.levelname.lower()}: {text}"


# What there is to give -----------------------------------------------------------------------------
def _fields(types: Sequence[type]) -> Iterator[dataclasses.Field]:
    return (field for type_ in types for field in dataclasses.fields(type_) if field.init)


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_list(field: dataclasses.Field) -> bool:
    return str(field.type).startswith("list")


def _name(field: dataclasses.Field) -> str:
    return field.name.upper() if field.metadata.get("positional") else f"--{field.name}"


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=32, width=min(120, shutil.get_terminal_size().columns))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see --help.")


def _parser(types: Sequence[type], given: dict, show_all: bool, **about: Any) -> argparse.ArgumentParser:
    """A parser that sets only what it is given, with the groups that --help shows."""
    about |= {"add_help": False, "allow_abbrev": False, "argument_default": argparse.SUPPRESS}
    parser, groups = _Parser(**about, formatter_class=_HelpFormatter), {}
    parser.usage = _usage(parser.prog, types, given)
    for type_ in types:
        hints = get_type_hints(type_)
        for field in _fields([type_]):
            owner = next(base for base in type_.__mro__ if field.name in inspect.get_annotations(base))
            title, is_ours = _title(owner), not owner.__module__.startswith("transformers.")
            if title not in groups:
                groups[title] = parser.add_argument_group(title)
            is_shown = is_ours or show_all or field.name in given or field.name in _OF_THE_TRAINER
            help_ = _help(field, given) if is_shown else argparse.SUPPRESS
            groups[title].add_argument(f"--{field.name}", help=help_, **_reader(hints[field.name], field))
    group = parser.add_argument_group("General")
    for name, options in _GENERAL.items():
        group.add_argument(name, **options)
    return parser


def _title(owner: type) -> str:
    """The first line of a docstring; dataclasses without one have a made-up docstring that starts with their name."""
    if owner.__module__.startswith("transformers."):
        return f"The Trainer's (transformers.{owner.__name__}; --help-all shows all of them)"
    line = (owner.__doc__ or "").strip().partition("\n")[0]
    return owner.__name__ if not line or line.startswith(f"{owner.__name__}(") else line.removesuffix(".")


def _usage(prog: str, types: Sequence[type], given: dict) -> str:
    parts = [prog]
    for field in sorted(_fields(types), key=lambda field: not field.metadata.get("positional")):
        is_required = _default(field) is dataclasses.MISSING and field.name not in given
        word = field.name.upper() + (" ..." if _is_list(field) else "")
        if field.metadata.get("positional"):
            parts.append(word if is_required else f"[{word}]")
        elif is_required:
            parts.append(f"--{field.name} {word}")
    return " ".join([*parts, "[--KEY VALUE ...]"]).replace("%", "%%")


def _help(field: dataclasses.Field, given: dict) -> str:
    """The field's help with the default that holds for this program."""
    text, value = field.metadata.get("help", ""), given.get(field.name, _default(field))
    value = value.value if isinstance(value, enum.Enum) else value
    if value is dataclasses.MISSING:
        return f"{text} (required)"
    if value is None or value in ("", [], ()):
        return text or " "
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    shown = json.dumps(value) if isinstance(value, dict | bool) else str(value)
    return f"{text} (default: {shown.replace('%', '%%')})"


def _reader(hint: Any, field: dataclasses.Field) -> dict[str, Any]:
    """How argparse reads a field of this type. Text stands for unions that know it: TrainingArguments convert it."""
    options = {key: field.metadata[key] for key in ("choices", "nargs", "const") if key in field.metadata}
    if field.name == "resume_from_checkpoint":  # alone it means the last one
        options |= {"nargs": "?", "const": "true"}
    if get_origin(hint) in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        hint = kinds[0] if len(kinds) == 1 else _text_or_truth_value if {str, bool} <= {*kinds} else str
    if get_origin(hint) is list:
        return {"type": get_args(hint)[0], "nargs": "+"} | options
    if hint is bool:
        return {"type": _truth_value, "nargs": "?", "const": True} | options
    return {"type": json.loads if dict in (hint, get_origin(hint)) else hint} | options


def _text_or_truth_value(text: str) -> str | bool:
    return {"true": True, "false": False}.get(text.lower(), text)


def _truth_value(text: str) -> bool:
    if text.lower() not in ("true", "yes", "t", "y", "1", "false", "no", "f", "n", "0"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() in ("true", "yes", "t", "y", "1")


# What was given -----------------------------------------------------------------------------
def _with_underscores(word: str, known: Sequence[str]) -> str:
    """`--source-lang` is `--source_lang`."""
    name, equals, value = word.partition("=")
    spelt = name[2:].replace("-", "_")
    return f"--{spelt}{equals}{value}" if name.startswith("--") and spelt in known else word


def _by_position(types: Sequence[type], words: list[str]) -> dict[str, Any]:
    """Words without a key, given to the positional fields."""
    values: dict[str, Any] = {}
    for field in _fields(types):
        if field.metadata.get("positional") and words:
            values[field.name], words = (words, []) if _is_list(field) else (words[0], words[1:])
    if words:
        raise ValueError(f"unexpected argument {words[0]!r}; see --help.")
    return values


def read_yaml(path: Path) -> dict[str, Any]:
    """Keys and values of a configuration.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no valid YAML, or no lines of the form 'key: value'.
    """
    import yaml

    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such configuration; the recipes' own are in recipes/configs/.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid YAML ({error}).") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: need lines of the form 'key: value', got {type(content).__name__}.")
    return content


def _yaml_content(words: list[str], known: Sequence[str]) -> dict[str, Any]:
    """Keys and values of the file that --config names."""
    paths = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "--config"]
    paths += [word.partition("=")[2] for word in words if word.startswith("--config=")]
    if not paths:
        return {}
    path = Path(paths[-1])
    content = read_yaml(path)
    for key in content:
        if key not in known:
            raise ValueError(_unknown_key(str(key), known, str(path)))
    return content


def _unknown_key(word: str, known: Sequence[str], where: str) -> str:
    key = word.lstrip("-").partition("=")[0]
    near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.0)
    return f"unknown key {key!r} in {where}; the nearest known one is {near[0]!r}; see --help for all."
