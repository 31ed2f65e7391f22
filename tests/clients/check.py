"""Every kind of folder that hfxling writes, read by older clients: equal vectors, nothing printed.

    python tests/clients/check.py PYTHON

writes tiny folders of every method and variant with today's environment (the one that runs this), reads them there and
with PYTHON, the interpreter of another environment, and compares: with sentence-transformers, those that have a module
of ours with its flag, and an ONNX graph with fastembed. Sparse and contextual vectors need the method's own code, which
is for today's transformers: an older one has to refuse them. `make test-clients` makes that environment.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import torch
from methods import TEXTS, Published, needs_flag, open_doors, publish_all

from hfxling.hub.onnx import FOLDER, MODEL, load_models, write_onnx

TOLERANCE = 1e-6
ONNX_TOLERANCE = 1e-5
VERSIONS = "import sentence_transformers as s, transformers as t; print(s.__version__, '+', t.__version__)"
OWN_CODE = {"contextual": "aligner", "sparse": "lexical"}  # doors that run the code in the folder, and whose they are
GRAPHS = ("siamese_raw_input", "dap_xlm_roberta")


def main() -> int:
    torch.set_num_threads(1)
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        root, pythons = Path(scratch), (sys.executable, os.path.abspath(sys.argv[1]))
        written = publish_all(root)
        found: list[dict] = []
        for python in pythons:
            run = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True, cwd=scratch)
            print("sentence-transformers + transformers", run.stdout.strip())
            flagged = {name for name in written if needs_flag(root / name)}
            plain = {name: each for name, each in written.items() if name not in flagged}
            vectors = stock_vectors(root, plain, "sentence-transformers", python)
            vectors |= stock_vectors(root, {name: written[name] for name in flagged}, "with the flag", python)
            found.append(vectors)
        worst = 0.0
        for name, published in written.items():
            gap = max(differences(published, *(vectors[name] for vectors in found)))
            worst = max(worst, gap)
            print(f"{'ok' if gap < TOLERANCE else 'DIFFERS':9}{name:45}{gap:.1e}")
        print(
            f"{len(written)} folders, {len(flagged)} of them with the flag, largest difference {worst:.1e}, no warning."
        )
        wrong += worst >= TOLERANCE
        for door, method in OWN_CODE.items():
            wrong += not own_code(root, {k: each for k, each in written.items() if k.startswith(method)}, door, pythons)
        for name in GRAPHS:
            wrong += not graph(root / name, written[name], pythons[1])
    return int(wrong > 0)


def stock_vectors(root: Path, written: dict[str, Published], door: str, python: str) -> dict[str, dict]:
    """By folder and language."""
    return {name: doors[door] for name, doors in open_doors(root, written, [door], python).items()}


def differences(published: Published, today: dict, old: dict) -> list[float]:
    """Of today's client from the model, of the old one from the model and from today's."""
    return [
        float((torch.tensor(x[language]) - torch.as_tensor(y)).abs().max())
        for language, vectors in published.stock.items()
        for x, y in ((today, vectors), (old, vectors), (old, today[language]))
    ]


def own_code(root: Path, written: dict[str, Published], door: str, pythons: tuple[str, str]) -> bool:
    """Whether today's client gives the model's vectors, and the old one an error."""
    found = open_doors(root, written, [door], pythons[0])
    gaps = [
        float((torch.tensor(rows) - written[name].vectors[language]).abs().max())
        for name, doors in found.items()
        for language, rows in doors[door].items()
    ]
    try:
        open_doors(root, written, [door], pythons[1])
        refused = False
    except AssertionError as error:
        refused = "ImportError" in str(error) or "ModuleNotFoundError" in str(error)
    right = max(gaps) < 1e-5 and refused
    told = "today's clients alone, older ones refuse" if refused else "an older client does not refuse"
    print(f"{'ok' if right else 'WRONG':9}{door} vectors of {len(written)} folders: {told}; {max(gaps):.1e}")
    return right


def graph(folder: Path, published: Published, python: str) -> bool:
    """Whether fastembed gives the vectors of a folder's ONNX graph."""
    (model,) = load_models(folder).values()
    write_onnx(model, folder / FOLDER / MODEL)
    width = published.stock[""].shape[1]
    command = [python, str(Path(__file__).with_name("fastembed_door.py")), str(folder), str(width), *TEXTS]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder.parent)
    if run.returncode:
        print(f"WRONG    fastembed, {folder.name}: {run.stderr.strip().splitlines()[-1]}")
        return False
    rows = torch.tensor([[float(x) for x in line.split()] for line in run.stdout.splitlines()])
    gap = float((rows - published.stock[""]).abs().max())
    print(f"{'ok' if gap < ONNX_TOLERANCE else 'DIFFERS':9}fastembed, {folder.name:34}{gap:.1e}")
    return gap < ONNX_TOLERANCE


if __name__ == "__main__":
    raise SystemExit(main())
