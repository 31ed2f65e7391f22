"""Checks before publishing: pickles, local paths and secrets in files, licences, a base model that readers can get."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HTTPError

from hfxling import models
from hfxling.data.licences import release_fault

from .contents import findings
from .index import is_hub_id
from .record import CARD, RECORD, folder_files
from .upload import Content, one_line, read_content

logger = logging.getLogger(__name__)

_ROOTS = ("home", "root", "Users", "mnt", "media", "tmp", "var", "opt", "srv", "data", "scratch", "work", "workspace")
ADAPTER = "adapter/adapter_config.json"
# Files that describe a run; only these are searched for paths, as code and vocabularies have slashes, too.
_TALKING = (CARD, RECORD, "config.yaml", ADAPTER)


def text_faults(files: Mapping[str, Content]) -> list[str]:
    """A line for everything that must not be public: pickles, tokens and keys, links out of the folder, local paths."""
    faults = []
    paths: dict[str, list[str]] = {}  # the places of each path of this machine
    for name, content in files.items():
        link_fault = _link_fault(name, content) if isinstance(content, Path) and content.is_symlink() else ""
        if link_fault:
            faults.append(f"{name}: {link_fault}")
            continue
        secrets = findings(name, content)
        for finding in secrets:
            place = name if finding.line is None else f"{name}, line {finding.line}"
            faults.append(f"{place}: {finding.what}")
        if not secrets and name in _TALKING:
            for path, lines in _paths_in(content).items():
                paths.setdefault(path, []).append(f"{name}, {_lines_told(lines)}")
    for path, places in paths.items():
        where = "; ".join(places)
        faults.append(f"{path!r} is a path of this machine ({where}); give --names {path}=ITS_PUBLIC_NAME")
    return faults


def _link_fault(name: str, path: Path) -> str:
    """What is wrong with a link; "" if it leads to a file of its own folder."""
    if not path.is_file():
        return "is a link that leads to no file; put the files themselves there, or remove it"
    folder = path.parents[len(Path(name).parts) - 1]
    if not path.resolve().is_relative_to(folder.resolve()):
        return "is a link to a file elsewhere; put the file itself there"
    return ""


def _paths_in(content: Content) -> dict[str, list[int]]:
    """The line numbers of every path of this machine in a file that describes a run."""
    lines: dict[str, list[int]] = {}
    for number, line in enumerate(read_content(content).decode("utf-8", "replace").splitlines(), 1):
        path = local_path(line)
        if path:
            lines.setdefault(path, []).append(number)
    return lines


def _lines_told(numbers: Sequence[int]) -> str:
    """E.g. "line 7" or "lines 7, 9"."""
    return f"line{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def code_faults(files: Mapping[str, Content]) -> list[str]:
    """A line for every code file that is not this package's own, as checking the folder would run it."""
    code_of_package = {path.name: path.read_bytes() for path in Path(models.__file__).parent.glob("*.py")}
    faults = []
    for name, content in files.items():
        is_code = name.lower().endswith((".py", ".pyc", ".pyd", ".so", ".dll", ".dylib"))
        if is_code and code_of_package.get(Path(name).name) != read_content(content):
            faults.append(
                f"{name}: is code that this hfxling did not write, and checking the folder would run it; look at it, "
                "and give --trust_remote_code if you trust it"
            )
    return faults


def local_path(line: str) -> str | None:
    """The first path in a line that is only valid here: absolute, in the home folder, or above the current folder."""
    roots = set(_ROOTS)  # first parts of absolute paths: the usual ones, and those of this machine
    for place in (Path.home(), Path.cwd(), tempfile.gettempdir()):
        roots.update(Path(place).resolve().parts[1:2])
    roots = "|".join(map(re.escape, roots))
    pattern = rf"""(?<![\w./:-])(?:file://)?(/(?:{roots})/[^\s"'`,+@=()]+|[A-Za-z]:\\\\?[^\s"'`,]+|~/[^\s"'`,+@]+|\.\./[^\s"'`,+@=]*)"""
    match = re.search(pattern, line) or re.search(r"""(?<=[+=])((?:/|\.\./)[^\s"'`,+@=]+/[^\s"'`,+@=]+)""", line)
    return match[1] if match else None


def release_faults(card: Mapping, licence_of_base: str | None) -> list[str]:
    """Why a model may not be released, from the fields of its `CardInfo`: its licence does not fit those of its text
    and base (None if the base states none), or nobody can get the base.
    """
    parts = {f"the text {data['name']!r}": data.get("licence") for data in card["train_data"]}
    faults = []
    base = card["base_model"]
    if is_hub_id(base):
        parts[f"the base model {base!r}"] = licence_of_base
    elif " " not in base:  # a name with spaces says that there is none
        remedy = f"give --names {base}=ITS_HUB_ID, or publish it first"
        faults.append(f"base_model: {base!r} is a local folder, which readers do not have; {remedy}")
    fault = release_fault(card["licence"], parts)
    if fault:
        faults.append(f"licence: {fault}")
    return faults


def base_licence(base: str, api: HfApi) -> str | None:
    """The licence that the Hub states for a model; None if it states none, or cannot be asked (with a warning)."""
    if not is_hub_id(base):
        return None
    try:
        card = api.model_info(base).card_data
    except (HTTPError, OSError, ValueError) as error:
        logger.warning("%s: the Hub did not say which licence it has (%s)", base, one_line(error))
        return None
    licence = card.get("license") if card else None
    return licence[0] if isinstance(licence, Sequence) and not isinstance(licence, str) else licence


def folder_contents(folder: Path) -> dict[str, Content]:
    """The files of a folder to publish, by name; also links that lead to no file, which the checks then refuse."""
    contents: dict[str, Content] = {}
    for name, path in folder_files(folder).items():
        if name != ".gitattributes":
            contents[name] = path
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() and not path.is_file():
            contents[path.relative_to(folder).as_posix()] = path
    return contents
