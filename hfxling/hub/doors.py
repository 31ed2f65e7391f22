"""Open a folder as its readers will, in a fresh process, first without hfxling, and compare the vectors.

A door is one way to load a folder, such as sentence-transformers or the class of hfxling.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from hfxling.encoders.identity import needs_code, read_json
from hfxling.files import files_of
from hfxling.models import MODELS
from hfxling.models.stock import StockModel

from .snippets import example, routed_languages

_SCRIPT = Path(__file__).with_name("door_script.py")  # run, not imported: it loads sentence-transformers
_DOORS = ("sentence-transformers", "with the flag", "sparse", "remote code", "hfxling")
_STOCK = _DOORS[:2]
_CLASSES = {model.__name__.removesuffix("Model").lower(): model for model in MODELS}
_FLAG = "pooling.NormalizeParts"  # the module that sentence-transformers lacks
TOLERANCE = 1e-5
_SOUND: set[tuple] = set()  # folders that opened without a fault: path, method, size and time of every file


def door_faults(folder: Path, method: str) -> list[str]:
    """A line for every door of a folder that does not open, or gives other vectors than the method's own class.

    A folder that opened without a fault and has not changed since (as after a dry run) is not opened again.
    """
    folder = folder.resolve()
    files = []
    for name in sorted(files_of(folder)):
        state = (folder / name).lstat()
        files.append((name, state.st_size, state.st_mtime_ns))
    state = folder, method, tuple(files)
    if state in _SOUND:
        return []
    faults = _faults_of(folder, method)
    if not faults:
        _SOUND.add(state)
    return faults


def _faults_of(folder: Path, method: str) -> list[str]:
    cls = _CLASSES[method]
    if _is_appended(folder, cls):  # it has only one door
        doors = [_DOORS[1] if needs_code(str(folder)) else _DOORS[0]]
        is_stock = False
        languages = routed_languages(folder)
        job = {}
    else:
        config = cls.from_pretrained(folder).config
        if not (folder / "modules.json").is_file():  # a head for ready-made vectors: its class is the only door
            return []
        doors = _DOORS
        is_stock = issubclass(cls, StockModel)
        languages = config.languages if getattr(config, "needs_language", not is_stock) else []
        job = {"class": cls.__name__, "prompt": getattr(config, "prompt", None)}
    job["texts"] = {lang: [example(lang), example("en")] for lang in languages or [""]}
    job["has_routes"] = any(folder.rglob("router_config.json"))
    try:
        vectors = _opened(folder, job, doors)
    except RuntimeError as error:
        return [f"loading: {error}"]
    faults = []
    for door in doors:
        faults += _compared(door, vectors, folder, is_stock)
    return faults


def _is_appended(folder: Path, cls: type) -> bool:
    """Whether it is a head behind the modules of another model, which only sentence-transformers reads."""
    if not (folder / "modules.json").is_file() or not issubclass(cls, StockModel) or cls.any_encoder:
        return False
    config = read_json(folder / "config.json")
    return cls.stock_key not in config and config.get("model_type") != cls.config_class.model_type


def _compared(door: str, by_door: Mapping[str, Mapping], folder: Path, is_stock: bool) -> list[str]:
    """What is wrong with the vectors of a door; only some methods' stock modules give the same ones as the class."""
    if not by_door[door]:
        modules = (folder / "modules.json").read_text(encoding="utf-8")
        must_open = door in ("remote code", "hfxling") or (door == _DOORS[0] and _FLAG not in modules)
        return [f"loading by {door!r}: gives no vectors"] if must_open else []
    faults = []
    for language, vectors in by_door[door].items():
        vectors = np.asarray(vectors, dtype=np.float64)
        if not np.isfinite(vectors).all():
            faults.append(f"loading by {door!r}: gives vectors that are not finite, language {language or 'any'}")
        elif is_stock or door not in _STOCK:
            gap = np.abs(vectors - np.asarray(by_door["hfxling"][language])).max()
            if gap > TOLERANCE:
                faults.append(
                    f"loading by {door!r}: {gap:.1e} from the method's own vectors, language {language or 'any'}"
                )
    return faults


def _opened(folder: Path, job: dict, doors: Sequence[str]) -> dict[str, dict]:
    """Vectors by door and language, from a process without network; RuntimeError with its message if it fails."""
    package = str(Path(__file__).parents[2])
    with TemporaryDirectory(prefix="hfxling-") as scratch:
        place = Path(scratch)
        (place / "model").symlink_to(folder, target_is_directory=True)
        (place / "jobs.json").write_text(json.dumps({"model": job}), encoding="utf-8")
        quiet = {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HOME": scratch, "HFXLING": package}
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "HF_TOKEN")} | quiet
        command = [sys.executable, "-P", str(_SCRIPT), *doors]  # -P: no imports from the script's folder
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        raise RuntimeError(f"the folder does not open in a fresh process ({said[-1][:300]})")
    return json.loads(done.stdout.splitlines()[-1])["model"]
