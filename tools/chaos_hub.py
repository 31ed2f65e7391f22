"""What is published, verified, exported and shown: tables of `chaos.py`. A stand-in for the Hub is in reach."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from chaos_runs import HUB, Hub, Outcome, as_words
from chaos_table import DISAGREES, WELL, Case, Table

TOKEN = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"
SECRETS = {
    "Hub": TOKEN,
    "GitHub": "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8",
    "GitHub, fine": "github_pat_" + "1A" * 11 + "_" + "b2C3d4E5f6G7h8I9" * 3 + "J0k1L2m3N4p",
    "GitLab": "glpat-" + "x1Y2z3W4v5U6t7S8r9Q0",
    "AWS": "AKIA" + "Z7Y6X5W4V3U2T1S2",
    "private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\n-----END RSA PRIVATE KEY-----",
    "address": "https://me:passw0rdpassw0rd@example.org/data",
}


def _tar(content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        entry = tarfile.TarInfo("notes.txt")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def _zip(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("notes.txt", content)
    return file.getvalue()


def _parquet(content: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["a", content]}), file)
    return file.getvalue()


def _npy(things: list) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(things, object), allow_pickle=True)
    return file.getvalue()


_HELD = f"note: {TOKEN} of mine"
_PICKLE = pickle.dumps({"a": [1, 2]})
# (name of a file in the folder, its content): each must be named, and nothing may leave.
HELD = [(f"notes{number}.txt", f"a\n{secret}\n".encode()) for number, secret in enumerate(SECRETS.values())]
HELD += [
    ("long.tsv", b"a\tb\n" * 2_000_000 + _HELD.encode()),
    ("notes.txt.gz", gzip.compress(_HELD.encode())),
    ("notes.txt.bz2", bz2.compress(_HELD.encode())),
    ("notes.txt.xz", lzma.compress(_HELD.encode())),
    ("notes.tgz", _tar(_HELD.encode())),
    ("notes.zip", _zip(_HELD.encode())),
    ("twice.zip", _zip(gzip.compress(_HELD.encode()))),
    ("notes.parquet", _parquet(_HELD)),
    ("latin.txt", f"câu {_HELD}".encode("latin-1")),
    ("utf16.txt", _HELD.encode("utf-16")),
    ("utf16be.txt", _HELD.encode("utf-16-be")),
    ("utf32.txt", _HELD.encode("utf-32")),
    (".env", f"HF_TOKEN={TOKEN}".encode()),
    ("deep/er/notes.md", _HELD.encode()),
    ("EVIL.PKL", _PICKLE),
    ("x.pt", _PICKLE),
    ("x.pth.tar", _PICKLE),
    ("innocent.txt", _PICKLE),
    ("old.dat", pickle.dumps([1, 2, "three"], protocol=0)),
    ("things.npy", _npy([{"a": 1}])),
    ("x.zip", _zip(_PICKLE)),
]


def code(model: Path) -> None:
    """Code that is not ours, which leaves a mark where it runs."""
    path = model / "modeling_siamese.py"
    path.write_text(f"open({str(model.parent / 'ran')!r}, 'w')\n" + path.read_text())


def outward_link(model: Path) -> None:
    """A link that leads out of the folder."""
    os.symlink("/etc/hostname", model / "notes.txt")


def outward_folder(model: Path) -> None:
    """A linked folder that leads out of it."""
    os.symlink(model.parent.parent, model / "more")


def own_path(model: Path) -> None:
    """A path of this machine in the card."""
    card = model / "README.md"
    card.write_text(card.read_text() + f"\nSee {Path.home()}/secret/data.tsv.\n")


def bare(model: Path) -> None:
    """No record."""
    (model / "results.json").unlink()


def wrong_figure(model: Path) -> None:
    """A figure in the card that was never measured."""
    card = model / "README.md"
    card.write_text(card.read_text() + "\n| P@1 | 99.87 |\n")


def other_weights(model: Path) -> None:
    """A byte of the weights is another."""
    path = model / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 255
    path.write_bytes(content)


def record(content: str) -> Callable[[Path], None]:
    """Something else as the record."""

    def odd_record(model: Path) -> None:
        (model / "results.json").write_text(content)

    odd_record.__name__ = f"record {content[:24]}"
    return odd_record


def of_record(key: str, value: object) -> Callable[[Path], None]:
    """A record with another value."""

    def odd_value(model: Path) -> None:
        path = model / "results.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))

    odd_value.__name__ = f"record {key}={value!r}"
    return odd_value


ODD = ["[]", "null", "3", '"a"', "[" * 100_000, '{"a":' * 100_000, "{", "", '{"results": 3}']
ODD_RECORDS = [record(content) for content in ODD]
ODD_RECORDS += [
    of_record("results", [3]),
    of_record("results", [{"metric": "P@1"}]),
    of_record("files", [1, 2]),
    of_record("files", {"../../etc/passwd": "0"}),
    of_record("card", 3),
    of_record("card", {"languages": "../../../ESC"}),
]
# (changes of the folder, words): a model that is not published.
SPOILT = [
    (code, ("modeling_siamese.py",)),
    (outward_link, ("notes.txt",)),
    (outward_folder, ("more",)),
    (own_path, ("README.md|card|path",)),
    (bare, ("results.json",)),
    (wrong_figure, ("99.87",)),
    (other_weights, ("model.safetensors|damaged|results.json",)),
]
# (options, words): what publish, verify, export and demo refuse before anything else.
REFUSED = [
    ("publish", {"": "model"}, ("repo",)),
    ("publish", {"": "model", "repo": "x"}, ("namespace/name",)),
    ("publish", {"": "model", "repo": "org/a\nb"}, ("repo",)),
    ("publish", {"": "model", "repo": "../../x"}, ("repo",)),
    ("publish", {"": "nowhere", "repo": "org/x"}, ("nowhere",)),
    ("publish", {"": "TEXT", "repo": "org/x"}, ("results.json|record",)),
    ("publish", {"": "model", "repo": "org/x", "licence": "mine"}, ("licence",)),
    ("publish", {"": "model", "repo": "org/x", "names": ["a"]}, ("LOCAL=PUBLIC",)),
    ("publish", {"": "TEXT/train.tsv", "repo": "org/x", "dataset": True}, ("languages|licence",)),
    ("publish", {"": "nowhere.tsv", "repo": "org/x", "dataset": True, "languages": ["zh", "vi"]}, ("nowhere.tsv",)),
    ("verify", {"": "nowhere"}, ("nowhere",)),
    ("verify", {"": "org/nothing"}, ("org/nothing",)),
    ("verify", {"": "TEXT"}, ("results.json|record",)),
    ("verify", {"": "model", "tolerance": -1}, ("tolerance",)),
    ("verify", {"": "model", "root": "nowhere"}, ("nowhere",)),
    ("export", {"": "nowhere"}, ("nowhere",)),
    ("export", {"": "TEXT"}, ("text",)),
    ("export", {"": "model", "int8": True}, ("pairs",)),
    ("export", {"": "model", "source": "nobody.tsv", "languages": ["zh", "vi"]}, ("nobody.tsv",)),
    ("export", {"": "model", "source": "TEXT/test.tsv", "languages": ["zh", "ko"]}, ("ko",)),
    ("export", {"": "model", "source": "TEXT/test.tsv", "languages": ["zh", "zh"]}, ("zh",)),
    ("export", {"": "MODELS/aligner"}, ("aligner",)),
    ("demo", {}, ("model",)),
    ("demo", {"": "model", "port": 0}, ("port",)),
    ("demo", {"": "model", "port": 99_999}, ("port",)),
    ("demo", {"": "model", "space": "out"}, ("Hub",)),
    ("demo", {"": "org/a\nsdk: static", "space": "out"}, ("Hub",)),
    ("demo", {"": "org/a", "lexical": "org/b\nx: y", "space": "out"}, ("Hub",)),
    ("demo", {"": "org/a", "space": "out", "candidates": "TEXT/test.vi"}, ("candidates",)),
    ("demo", {"": "org/a", "space": "TEXT"}, ("did not write",)),
    ("demo", {"": "org/a", "space": "FILE"}, ("is a file",)),
    ("demo", {"": "nowhere"}, ("nowhere",)),
    ("demo", {"": "model", "candidates": "nobody.txt"}, ("nobody.txt",)),
    ("demo", {"": "model", "languages": ["zh", "ko"]}, ("ko",)),
]
# What a repository holds already as its record, when a model is published into it.
REMOTE = ["[]", "null", "3", "{", "[" * 100_000, '{"card": 3}', '{"results": [3]}']
# Addresses that hold a secret, which no message may repeat.
ADDRESSES = [
    "https://me:s3cretpassword@huggingface.co/org/a",
    f"https://huggingface.co/org/a?token={TOKEN}",
    "org/a?access_token=s3cretpassword",
    f"{TOKEN}/a",
]
# (command or recipe, option): that read a model.
READERS = [("encode", "model"), ("mine", "lexical"), ("evaluate", "model")]
READERS += [("align", "model"), ("clean", "model"), ("fit", "model"), ("nearest", "model"), ("explain", "model")]
READERS += [("siamese", "base_model"), ("dap", "base_model"), ("verify", ""), ("export", "")]


def cases(table: Table) -> Iterator[Case]:
    """All of these."""
    for name, content in table.some(HELD):
        yield unpublished(table, name, holding(name, content), (Path(name).name,))
    for change, told in SPOILT:
        yield unpublished(table, change.__name__, change, told)
    for content in REMOTE:
        yield published_over(table, content)
    yield of_both(table)
    yield not_measured(table)
    for change in table.some(ODD_RECORDS):
        yield disagreeing(table, change, ("results.json|record|figures|card",))
    for change in (other_weights, wrong_figure, bare):
        yield disagreeing(table, change, ("model.safetensors|99.87|results.json",))
    for program, options, told in table.some(REFUSED):
        yield with_a_model(table, f"{program} {options}", table.words(program, options), told)
    for address in ADDRESSES:
        for program, option in table.some(READERS):
            case = table.case(f"{option} with a secret", program, {option: address}, ("Hub|neither|no model there",))
            case.check = tells_a_secret
            yield case


def with_a_model(
    table: Table, name: str, words: list[str], told: tuple, change: Callable[[Path], None] | None = None
) -> Case:
    """A command beside the Hub, with a model that may be changed."""

    def prepare(folder: Path) -> None:
        shutil.copytree(table.work / "models" / "siamese", folder / "model")
        if change is not None:
            change(folder / "model")

    return Case(name, words, told, prepare, place=HUB)


def holding(name: str, content: bytes) -> Callable[[Path], None]:
    """Put a file into a model's folder."""

    def put(model: Path) -> None:
        (model / name).parent.mkdir(parents=True, exist_ok=True)
        (model / name).write_bytes(content)

    return put


def publishing(table: Table, repository: str) -> list[str]:
    """Words with which a sound model is published."""
    names = [f"{table.work}/text/=text/", f"{table.work}/models/encoder=org/base"]
    options = {"": "model", "repo": repository, "names": names, "licence": "cc0-1.0", "base_licence": "cc0-1.0"}
    return as_words("publish", options)


def unpublished(table: Table, name: str, change: Callable[[Path], None], told: tuple) -> Case:
    """A model that is refused, and of which nothing leaves."""
    repository = table.new_repository()
    case = with_a_model(table, f"publish {name}", publishing(table, repository), told, change)

    def check(folder: Path, _: Outcome) -> str | None:
        has_left = ("models", repository) in Hub.open().server.repos
        return "silent" if has_left or (folder / "ran").exists() else None

    case.check = check
    return case


def published_over(table: Table, content: str) -> Case:
    """A sound model, into a repository whose record is odd."""
    repository = table.new_repository()

    def put(model: Path) -> None:
        Hub.open().server.put(repository, {"results.json": content.encode()})

    case = with_a_model(table, f"publish over {content[:20]}", publishing(table, repository), (), put)
    case.kind = WELL
    return case


def of_both(table: Table) -> Case:
    """What `hfxling fit` made without a licence, which is named when it is published; its card names its partner."""
    repository = table.new_repository()
    names = [f"{table.work}/text/=text/", "../../models/encoder=org/base"]
    options = {"": "fit/model", "repo": repository, "names": names, "licence": "cc0-1.0", "base_licence": "cc0-1.0"}
    card = ("license: cc0-1.0", "zh-vi-lexical", '"lexical": "org/zh-vi-lexical"', "With its lexical model")

    def prepare(folder: Path) -> None:
        shutil.copytree(table.work / "models" / "fit", folder / "fit")

    def check(_: Path, outcome: Outcome) -> str | None:
        server = Hub.open().server
        if ("models", repository) not in server.repos:
            return "silent"
        text = server.files(repository)["README.md"].decode()
        missing = [words for words in card if words not in text]
        return "unclear" if missing or "not both measured" in text else None

    case = Case("publish a fused model with a licence", as_words("publish", options), (), prepare, place=HUB)
    case.kind, case.check = WELL, check
    return case


def not_measured(table: Table) -> Case:
    """A folder whose figures only training gives: nobody may say that they agree."""

    def check(_: Path, outcome: Outcome) -> str | None:
        return "silent" if "all agree" in outcome.out else None

    words = as_words("verify", {"": table.work / "models" / "fit" / "model"})
    case = Case("verify what only training gives", words, ("0 of", "nothing is known"), place=HUB)
    case.kind, case.check = WELL, check
    return case


def disagreeing(table: Table, change: Callable[[Path], None], told: tuple) -> Case:
    """A folder that is not what its card says."""
    case = with_a_model(table, f"verify {change.__name__}", as_words("verify", {"": "model"}), told, change)
    case.kind = DISAGREES
    return case


def tells_a_secret(folder: Path, outcome: Outcome) -> str | None:
    """Whether something that was said holds it."""
    said = outcome.out + outcome.err
    return "unclear" if "s3cret" in said or TOKEN in said else None
