"""Every kind of folder that hfxling writes, read by older clients: equal vectors, nothing printed.

    python tests/clients/check.py PYTHON

writes tiny folders of every method and variant with today's environment (the one that runs this), reads them there and
with PYTHON, the interpreter of another environment, and compares. Sparse vectors, and heads on several
layers, need the method's own code, which is for today's transformers: an older one has to refuse them. The snippets
that cards have for LangChain and fastembed run there as they stand, on a stand-in Hub. `make test-clients` makes that
environment.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import torch
from hub_server import HubServer
from methods import LANGUAGES, Published, needs_flag, open_doors, publish_all, tokenizer_of, tokens

from hfxling.hub.onnx import FOLDER, MODEL, load_models, write_onnx
from hfxling.hub.record import folder_files
from hfxling.hub.snippets import FASTEMBED, LANGCHAIN, client_snippets, clients_of, example, width_of

TOLERANCE = 1e-6
ONNX_TOLERANCE = 1e-5
VERSIONS = "import sentence_transformers as s, transformers as t; print(s.__version__, '+', t.__version__)"
# Doors that run the code in the folder, and the folders that have them.
OWN_CODE = {
    "sparse": lambda folder: folder.name.startswith("lexical"),
    "with the flag": needs_flag,
}
# Folders whose snippets are run: plain ones, and for LangChain some that must be told a language.
SNIPPETS = {
    LANGCHAIN: ["siamese_paper", "disentangler_prompt", "siamese_per_language", "aligner_lo_and_zh"],
    FASTEMBED: ["siamese_raw_input", "dap_xlm_roberta", "siamese_two_layers_shared"],
}


def main() -> int:
    torch.set_num_threads(1)
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        root, pythons = Path(scratch), (sys.executable, os.path.abspath(sys.argv[1]))
        written = publish_all(root)
        plain = {name: each for name, each in written.items() if not needs_flag(root / name)}
        found: list[dict] = []
        for python in pythons:
            run = subprocess.run([python, "-c", VERSIONS], capture_output=True, text=True, check=True, cwd=scratch)
            print("sentence-transformers + transformers", run.stdout.strip())
            found.append(stock_vectors(root, plain, "sentence-transformers", python))
        worst = 0.0
        for name, published in plain.items():
            gap = max(differences(published, *(vectors[name] for vectors in found)))
            worst = max(worst, gap)
            print(f"{'ok' if gap < TOLERANCE else 'DIFFERS':9}{name:45}{gap:.1e}")
        print(f"{len(plain)} folders, largest difference {worst:.1e}, no warning.")
        wrong += worst >= TOLERANCE
        for door, has_it in OWN_CODE.items():
            wrong += not own_code(root, {k: each for k, each in written.items() if has_it(root / k)}, door, pythons)
        for name in SNIPPETS[FASTEMBED]:
            (model,) = load_models(root / name).values()
            write_onnx(model, root / name / FOLDER / MODEL)
        for client, names in SNIPPETS.items():
            wrong += snippets(root, written, client, names, pythons[1])
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
        refused = any(f"{kind}Error" in str(error) for kind in ("Import", "ModuleNotFound", "FileNotFound"))
    right = max(gaps) < 1e-5 and refused
    told = "today's clients alone, older ones refuse" if refused else "an older client does not refuse"
    print(f"{'ok' if right else 'WRONG':9}{door} vectors of {len(written)} folders: {told}; {max(gaps):.1e}")
    return right


def snippets(root: Path, written: dict[str, Published], client: str, names: list[str], python: str) -> int:
    """How many of a client's snippets, as cards have them, give other vectors than the model; on the stand-in Hub."""
    with HubServer() as hub:
        jobs = {}
        for name in names:
            folder = root / name
            hub.put(f"org/{name}", {key: path.read_bytes() for key, path in folder_files(folder).items()})
            told = client_snippets(clients_of(folder), LANGUAGES, width_of(folder))[client]
            jobs[name] = told.replace("{repo}", f"org/{name}")
        (root / "snippets.json").write_text(json.dumps(jobs), encoding="utf-8")
        command = [python, "-P", str(Path(__file__).with_name("snippet_door.py")), "snippets.json"]
        environment = hub.env(root / client) | {"FASTEMBED_CACHE_PATH": str(root / "fastembed")}
        run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    if run.returncode:
        print(f"WRONG    {client}: {run.stderr.strip().splitlines()[-1]}")
        return len(names)
    wrong = 0
    for name, found in json.loads(run.stdout.splitlines()[-1]).items():
        vectors = torch.cat([torch.tensor(rows) for rows in found.values()])
        own = torch.cat([own_vectors(root / name, written[name], side) for side in (0, 1)])
        gap = float((vectors - own).abs().max())
        wrong += gap >= ONNX_TOLERANCE
        print(f"{'ok' if gap < ONNX_TOLERANCE else 'DIFFERS':9}{client}, {name:{43 - len(client)}}{gap:.1e}")
    return wrong


@torch.inference_mode()
def own_vectors(folder: Path, published: Published, side: int) -> torch.Tensor:
    """(1, D) vector of the snippet's first or second text; in the model's languages, where it has parts for them."""
    model, method = published.model, published.method
    routes = [language for language in published.stock if language]
    language = (*routes, *routes)[side] if routes else ""
    text = example(language or LANGUAGES[side])
    inputs = tokens(model, tokenizer_of(folder, language), [text], language)
    return method.static(model, **inputs) if method.static else model(**inputs).sentence_embedding


if __name__ == "__main__":
    raise SystemExit(main())
