"""Read a YAML file and the command line into the dataclasses of a recipe."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import inspect
import json
import math
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

from hfxling.files import check_place

Settings = TypeVar("Settings")
# Where a run kept its files, what it displayed, and secrets: they say nothing about how a model was made.
NOT_PUBLISHED = {
    *("output_dir", "logging_dir", "cache_dir", "hub_token", "resume_from_checkpoint", "disable_tqdm", "use_cpu"),
    *("report_to", "debug", "dataloader_pin_memory"),
}
_MOST_VALUES = 100_000  # in a configuration
# The Trainer's arguments that --help shows beside those that a recipe sets; --help-all shows all.
_OF_THE_TRAINER = (
    *("output_dir", "learning_rate", "num_train_epochs", "max_steps", "per_device_train_batch_size", "seed", "bf16"),
    *("resume_from_checkpoint", "push_to_hub", "hub_model_id", "report_to", "use_cpu", "eval_strategy"),
    *("save_steps", "logging_steps"),
)


def key(help_: str, default: Any = dataclasses.MISSING, **metadata: Any) -> Any:
    """A field of a dataclass for `parse_arguments`, with its text for --help and its default; required without one."""
    metadata["help"] = help_
    if isinstance(default, list):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def parse_arguments(
    types: Sequence[type],
    argv: Sequence[str] | None = None,
    *,
    defaults: dict | None = None,
    description: str = "",
) -> tuple:
    """Read `--config FILE.yaml` and `--key value ...` into one instance of each dataclass; the command line wins.

    A field's metadata may have `help`, `least` (minimum of a number) and `writes` (a folder is written there); the
    latter two are checked before anything else. `--help` shows a group for each dataclass, with the first line of its
    docstring as title, and ends the process with status 0.

    Args:
        types: dataclasses whose fields are the keys; later ones may be `transformers.TrainingArguments`.
        argv: the arguments; by default those of the process.
        defaults: values for keys whose dataclass default does not fit the recipe; the YAML file wins over them.
        description: text shown by --help.

    Raises:
        ValueError: for an unknown key (the message names the nearest known one), a missing, mistyped or impossible
            value, or a broken YAML file.
        FileNotFoundError: if the YAML file does not exist.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    asked, words = _with_general(_Parser(add_help=False, allow_abbrev=False)).parse_known_args(argv)
    fields: dict[str, dataclasses.Field] = {}
    hints: dict[str, Any] = {}
    for type_ in types:
        hints_of_type = _hints(type_)
        for field in _fields(type_):
            fields[field.name] = field
            hints[field.name] = hints_of_type[field.name]
    values_of_file = plain_values(defaults or {}, hints, "the defaults")
    if asked.config:
        values_of_file |= plain_values(read_yaml(Path(asked.config)), hints, asked.config)
    parser = _parser(types, values_of_file, description, show_all=asked.help_all)
    if asked.help or asked.help_all:
        parser.print_help()
        sys.exit(0)
    words = [with_underscores(word) for word in words]
    # The file's values are parsed as words, too, so that both are converted alike; the command line overwrites them.
    from_file = parser.parse_args(as_tokens(values_of_file))
    parsed, unread = parser.parse_known_args(words, from_file)
    for word in unread:
        if word.startswith("-"):
            unknown = unknown_key(word.lstrip("-").partition("=")[0], fields, "the command line")
            raise ValueError(f"{unknown}; see --help for all.")
        raise ValueError(f"unexpected argument {word!r}; see --help.")
    values = vars(parsed)
    missing = []
    for name, field in fields.items():
        if _is_required(field) and name not in values:
            missing.append(f"--{name}")
    if missing:
        raise ValueError(f"the following arguments are required: {', '.join(missing)}; see --help.")
    for name in fields.keys() & values.keys():
        _check_value(name, values[name], fields[name].metadata)
    instances = []
    for type_ in types:
        of_type = {field.name: values[field.name] for field in _fields(type_) if field.name in values}
        instances.append(type_(**of_type))
    return tuple(instances)


def resolved(*arguments: Any) -> dict[str, Any]:
    """All values that differ from their dataclass defaults, for the record that is published with a model."""
    record = {}
    for instance in arguments:
        for field in _fields(type(instance)):
            value = getattr(instance, field.name)
            value = getattr(value, "value", value)  # of an enumeration
            is_plain = isinstance(value, str | int | float | list | dict | None)
            if is_plain and value != _default(field) and field.name not in NOT_PUBLISHED:
                record[field.name] = value
    return record


def narrowed(kind: type[Settings], arguments: Any) -> Settings:
    """An instance of a dataclass with its fields' values from arguments that have more fields."""
    return kind(**{field.name: getattr(arguments, field.name) for field in _fields(kind)})


def as_tokens(values: dict[str, Any]) -> list[str]:
    """Values as command-line arguments; None is left out."""
    tokens = []
    for key, value in values.items():
        if value is not None and value != []:  # an option of several values has none by default
            value = json.dumps(value) if isinstance(value, dict) else value
            tokens += [f"--{key}", *map(str, value if isinstance(value, list) else [value])]
    return tokens


def read_yaml(path: Path) -> dict[str, Any]:
    """Keys and values of a YAML configuration; raises FileNotFoundError, or ValueError for any other file."""
    import yaml

    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such configuration file; those of the recipes are in recipes/configs/.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid YAML ({error}).") from None
    except RecursionError:
        raise ValueError(f"{path}: not valid YAML (it is nested too deeply).") from None
    if _size(content, {}) > _MOST_VALUES:
        raise ValueError(f"{path}: more than {_MOST_VALUES:,} values after resolving its aliases; leave these out.")
    if not isinstance(content, dict):
        raise ValueError(f"{path}: need lines of the form 'key: value', got {type(content).__name__}.")
    return content


def _size(value: Any, sizes: dict[int, int]) -> int:
    """Number of values after resolving all aliases; an alias inside itself counts as too many."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in sizes:
        sizes[id(value)] = _MOST_VALUES + 1  # until it is known
        parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        sizes[id(value)] = 1 + sum(_size(part, sizes) for part in parts)
    return sizes[id(value)]


def plain_values(content: Mapping[str, Any], hints: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values of a configuration without None; `hints` are the types of all known keys.

    Raises:
        ValueError: for an unknown key, and for what YAML reads differently from what was meant: an unquoted no, a list
            instead of one value, lists in lists.
    """
    for name, value in content.items():
        if name not in hints:
            raise ValueError(f"{unknown_key(str(name), hints, where)}; see --help for all.")
        kinds = {get_origin(hints[name])}
        for kind in get_args(hints[name]) or [hints[name]]:
            kinds.add(get_origin(kind) or kind)
        values = value if isinstance(value, list) else [value]
        if isinstance(value, list) and not any(map(_is_of_several, kinds)):
            joined = ",".join(map(str, value))
            raise ValueError(f"{where}: {name}: {value} is a list; give one value, such as {joined!r}.")
        truths = [each for each in values if isinstance(each, bool)]
        if truths and not kinds & {bool, dict} and name != "resume_from_checkpoint":
            why = f"is {truths[0]} in YAML, like no, yes, on and off without quotes"
            raise ValueError(f'{where}: {name}: a value {why}; write "no" in quotes if you mean the word.')
        if any(isinstance(each, dict | list) for each in values) and dict not in kinds:
            raise ValueError(f"{where}: {name}: {value} is nested; give plain values without keys or further lists.")
    return {name: value for name, value in content.items() if value is not None}


def _is_of_several(kind: Any) -> bool:
    """Whether a type holds several values: a list, a tuple, a sequence."""
    return isinstance(kind, type) and issubclass(kind, Sequence) and not issubclass(kind, str)


def _check_value(name: str, value: Any, metadata: Mapping[str, Any]) -> None:
    """Refuse a number below the field's minimum, and a folder that cannot be written."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, float) and math.isnan(each):
            raise ValueError(f"{name}={value}: give a number.")
        if "least" in metadata and each < metadata["least"]:
            raise ValueError(f"{name}={value}: give {metadata['least']} or more.")
    if metadata.get("writes") and value is not None:
        check_place(name, value, is_folder=True)


def with_underscores(word: str) -> str:
    """An option spelt like its field: `--max-steps=5` becomes `--max_steps=5`; any other word stays as it is."""
    option = re.match(r"--([\w-]+)(?==|$)", word)
    if option is None:
        return word
    return f"--{option[1].replace('-', '_')}{word[option.end() :]}"


def unknown_key(key: str, known: Iterable[str], where: str) -> str:
    """The message about an unknown key."""
    near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.0)
    return f"unknown key {key!r} in {where}; the nearest known one is {near[0]!r}"


def _fields(type_: type) -> list[dataclasses.Field]:
    return [field for field in dataclasses.fields(type_) if field.init]


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_required(field: dataclasses.Field) -> bool:
    return _default(field) is dataclasses.MISSING


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see --help.")


def _with_general(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The same parser with the keys that every program has."""
    group = parser.add_argument_group("General")
    group.add_argument("--config", metavar="FILE", help="YAML file of key: value lines; the command line wins over it")
    group.add_argument("--traceback", action="store_true", help="show the whole error, not one line")
    group.add_argument("--verbose", action="store_true", help="explain how something was chosen")
    group.add_argument("-h", "--help", action="store_true", help="this page")
    group.add_argument("--help-all", action="store_true", help=argparse.SUPPRESS)
    return parser


def _parser(types: Sequence[type], given: dict, description: str, *, show_all: bool) -> argparse.ArgumentParser:
    """A parser that sets only the given keys, with the groups that --help shows."""
    width = min(120, shutil.get_terminal_size().columns)
    parser = _Parser(
        usage=_usage(types, given),
        description=description,
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=32, width=width),
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    groups: dict[str, Any] = {}
    for type_ in types:
        hints, owners = _hints(type_), _owners(type_)
        for field in _fields(type_):
            owner = owners[field.name]
            is_ours = not owner.__module__.startswith("transformers.")
            title = owner.__doc__.strip().partition("\n")[0].removesuffix(".")
            if not is_ours:
                title = f"The Trainer's (transformers.{owner.__name__}; --help-all shows all of them)"
            if title not in groups:
                groups[title] = parser.add_argument_group(title)
            is_shown = is_ours or show_all or field.name in given or field.name in _OF_THE_TRAINER
            help_ = _help(field, given) if is_shown else argparse.SUPPRESS
            groups[title].add_argument(f"--{field.name}", help=help_, **_reader(hints[field.name], field.name))
    return _with_general(parser)


@cache
def _hints(type_: type) -> dict[str, Any]:
    """The types of a dataclass's fields; cached, as a study needs them for every row."""
    return get_type_hints(type_)


@cache
def _owners(type_: type) -> dict[str, type]:
    """The class that declares each field of a dataclass: itself or a base class."""
    owners = {}
    for base in reversed(type_.__mro__):
        owners |= dict.fromkeys(inspect.get_annotations(base), base)
    return owners


def _usage(types: Sequence[type], given: dict) -> str:
    required = []
    for type_ in types:
        for field in _fields(type_):
            if _is_required(field) and field.name not in given:
                several = " ..." if str(field.type).startswith("list") else ""
                required.append(f"--{field.name} {field.name.upper()}{several}")
    return " ".join(["%(prog)s", *required, "[--KEY VALUE ...]"])


def _help(field: dataclasses.Field, given: dict) -> str:
    """The field's help with its default in this program."""
    text, value = field.metadata.get("help", ""), given.get(field.name, _default(field))
    value = getattr(value, "value", value)  # of an enumeration
    if value is dataclasses.MISSING:
        return f"{text} (required)"
    if value in (None, "", [], ()):
        return text or " "
    value = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
    shown = json.dumps(value) if isinstance(value, dict | bool) else str(value)
    return f"{text} (default: {shown.replace('%', '%%')})"


def _reader(hint: Any, name: str) -> dict[str, Any]:
    """The options by which argparse reads a field of this type."""
    if name == "resume_from_checkpoint":  # without a value it means the last one
        return {"nargs": "?", "const": "true"}
    if get_origin(hint) in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        if len(kinds) > 1:  # TrainingArguments convert the text
            return {"type": _truth_value if {str, bool} <= {*kinds} else str}
        (hint,) = kinds
    if hint is bool:
        # `_truth_value` returns other words as they are, and `choices` then refuses them.
        return {"type": _truth_value, "nargs": "?", "const": True, "choices": (True, False), "metavar": name.upper()}
    if get_origin(hint) is list:
        return {"type": get_args(hint)[0], "nargs": "+"}
    if dict in (hint, get_origin(hint)):
        return {"type": json.loads}
    return {"type": hint}


def _truth_value(text: str) -> str | bool:
    words = dict.fromkeys(("true", "yes", "t", "y", "1"), True) | dict.fromkeys(("false", "no", "f", "n", "0"), False)
    return words.get(text.lower(), text)
