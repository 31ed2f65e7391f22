"""One YAML file and the command line, read into dataclasses."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

# Where a run kept its files, how it was shown, and secrets: no part of how a model was made.
_NOT_PUBLISHED = {"output_dir", "logging_dir", "cache_dir", "hub_token", "resume_from_checkpoint", "disable_tqdm"}


def parse_arguments(
    types: Sequence[type], argv: Sequence[str] | None = None, *, defaults: dict | None = None, description: str = ""
) -> tuple:
    """Read `--config FILE.yaml` and `--key value ...` into one instance of each dataclass; the command line wins.

    Args:
        types: dataclasses whose fields are the keys; later ones may be `transformers.TrainingArguments`.
        argv: the arguments; by default those of the process.
        defaults: values below the YAML's, for keys whose dataclass default does not fit the recipe.
        description: shown by --help.

    Raises:
        ValueError: for an unknown key (the nearest known one is named), a missing or mistyped value, a broken YAML.
        FileNotFoundError: when the YAML file does not exist.
    """
    from transformers import HfArgumentParser

    class Parser(HfArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise ValueError(f"{message}; see --help.")

    argv = list(sys.argv[1:] if argv is None else argv)
    parser = Parser(list(types), description=description, allow_abbrev=False)
    parser.add_argument("--config", help="YAML file of key: value lines; the command line wins over it")
    known = sorted(field.name for type_ in types for field in dataclasses.fields(type_) if field.init)
    given = as_tokens(defaults or {}) + _yaml_tokens(argv, known) + argv
    *parsed, namespace, unknown = parser.parse_args_into_dataclasses(given, return_remaining_strings=True)
    del namespace
    if unknown:
        raise ValueError(_unknown_key(unknown[0].removeprefix("--").split("=")[0], known, "the command line"))
    return tuple(parsed)


def run_recipe(main: Callable[[], Any]) -> None:
    """Run a recipe's main; what a user can cause ends in one line and exit status 2, without a traceback."""
    try:
        main()
    except (ValueError, FileNotFoundError) as error:
        sys.exit(_fail(error))


def resolved(*arguments: Any) -> dict[str, Any]:
    """All values that differ from their dataclass default, for the record that is published with a model."""
    record = {}
    for instance in arguments:
        for field in dataclasses.fields(instance):
            value = getattr(instance, field.name)
            value = value.value if isinstance(value, enum.Enum) else value
            default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            plain = isinstance(value, str | int | float | list | dict | None)
            if field.init and plain and value != default and field.name not in _NOT_PUBLISHED:
                record[field.name] = value
    return record


def _fail(error: Exception) -> int:
    sys.stderr.write(f"error: {' '.join(str(error).split())}\n")
    return 2


def _yaml_tokens(argv: list[str], known: list[str]) -> list[str]:
    """The YAML file's content in the form of command-line arguments, so that both are converted by the same code."""
    paths = [argv[i + 1] for i, word in enumerate(argv[:-1]) if word == "--config"]
    paths += [word.partition("=")[2] for word in argv if word.startswith("--config=")]
    if not paths:
        return []
    path = Path(paths[-1])
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such configuration; the recipes' own are in recipes/configs/.")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not valid YAML ({error}).") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: need lines of the form 'key: value', got {type(content).__name__}.")
    for key in content:
        if key not in known:
            raise ValueError(_unknown_key(str(key), known, str(path)))
    return as_tokens(content)


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


def _unknown_key(key: str, known: list[str], where: str) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
    return f"unknown key {key!r} in {where}; the nearest known one is {near[0]!r}; see --help for all."
