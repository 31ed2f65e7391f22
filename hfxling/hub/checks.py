"""What is refused before anything is published: pickles, paths and secrets in files, licences, a base nobody has."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import HTTPError

from hfxling.data.licences import release_fault

from .index import is_hub_id
from .record import CARD, RECORD, folder_files
from .upload import one_line

logger = logging.getLogger(__name__)

_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".h5", ".msgpack")
_SECRET = re.compile(
    r"\bhf_[A-Za-z0-9]{16,}|\bapi_org_[A-Za-z0-9]{16,}|\bgh[pousr]_[A-Za-z0-9]{30,}|\bsk-[A-Za-z0-9_-]{20,}"
    r"|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_ROOTS = ("home", "root", "Users", "mnt", "media", "tmp", "var", "opt", "srv", "data", "scratch", "work", "workspace")
_TALKING = (CARD, RECORD, "config.yaml")  # files that are written of a run; code and vocabularies have slashes too
_LEAST_TOKEN = 8  # letters; a shorter one is a word of a test
_LARGEST = 20_000_000  # bytes of a text that is looked through for secrets


def text_faults(files: Mapping[str, Path | bytes]) -> list[str]:
    """File and line of whatever must not be public: local paths, tokens and keys; the file of every pickle."""
    faults = [
        f"{name}: is a pickle, which runs code when it is read; publish safetensors"
        for name in files
        if name.endswith(_PICKLES)
    ]
    token = get_token() or ""
    for name, content in files.items():
        for number, line in _lines(content):
            if _SECRET.search(line) or (len(token) >= _LEAST_TOKEN and token in line):
                faults.append(
                    f"{name}, line {number}: holds a token or a key; take it out, and revoke it if it was shown"
                )
            elif name in _TALKING and (path := local_path(line)):
                faults.append(
                    f"{name}, line {number}: {path!r} is a path of this machine; give --names {path}=ITS_PUBLIC_NAME"
                )
    return faults


def _lines(content: Path | bytes) -> Iterator[tuple[int, str]]:
    data = b""
    if isinstance(content, bytes) or content.stat().st_size <= _LARGEST:
        data = content if isinstance(content, bytes) else content.read_bytes()
    try:
        text = "" if b"\0" in data[:8192] else data.decode("utf-8")
    except UnicodeDecodeError:
        return
    yield from enumerate(text.splitlines(), 1)


def local_path(line: str) -> str | None:
    """The first path in a line that means nothing elsewhere: absolute, of the home folder, or above the current one."""
    first = (Path(place).resolve().parts[1:2] for place in (Path.home(), Path.cwd(), tempfile.gettempdir()))
    roots = "|".join(map(re.escape, {*_ROOTS, *(part[0] for part in first if part)}))
    pattern = rf"""(?<![\w./:-])(?:file://)?(/(?:{roots})/[^\s"'`,+@=()]+|[A-Za-z]:\\\\?[^\s"'`,]+|~/[^\s"'`,+@]+|\.\./[^\s"'`,+@=]*)"""
    match = re.search(pattern, line) or re.search(r"""(?<=[+=])((?:/|\.\./)[^\s"'`,+@=]+/[^\s"'`,+@=]+)""", line)
    return match[1] if match else None


def release_faults(card: Mapping, licence_of_base: str | None) -> list[str]:
    """Why a model may not be released: its licence against those of its text and its base, a base nobody can get.

    Args:
        card: fields of `CardInfo`.
        licence_of_base: of the base model; None where it states none.
    """
    parts = {f"the text {data['name']!r}": data.get("licence") for data in card["train_data"]}
    base, faults = card["base_model"], []
    if is_hub_id(base):
        parts[f"the base model {base!r}"] = licence_of_base
    elif is_local(base):
        faults.append(local_base(base))
    fault = release_fault(card["licence"], parts)
    return faults + [f"licence: {fault}"] * bool(fault)


def is_local(base: str) -> bool:
    """Whether a base model is a folder, and not said to be none."""
    return not is_hub_id(base) and " " not in base


def local_base(base: str) -> str:
    """What is said of one."""
    told = f"give --names {base}=ITS_HUB_ID, or publish it first"
    return f"base_model: {base!r} is a local folder, which no reader has; {told}"


def base_licence(base: str, api: HfApi) -> str | None:
    """The licence that the Hub states of a model; None where it states none or cannot be asked, which is logged."""
    if not is_hub_id(base):
        return None
    try:
        found = api.model_info(base).card_data
    except (HTTPError, OSError, ValueError) as error:
        logger.warning("%s: the Hub cannot be asked what licence it is under (%s)", base, one_line(error))
        return None
    licence = found.get("license") if found else None
    return licence[0] if isinstance(licence, Sequence) and not isinstance(licence, str) else licence


def folder_contents(folder: Path) -> dict[str, Path | bytes]:
    """The files of a folder that are published, by name."""
    return {name: path for name, path in folder_files(folder).items() if name != ".gitattributes"}
