"""What a page of make_page.py costs: translations found first with its cut and with 8 bits, by dimensions, and sizes.

python examples/phone/measure.py --data ../shared/data/ntrex [--pairs zh-vi lo-zh] [--dimensions 1024 512 256]

Models are learnt from lines 1 to 1543 of NTREX-128, lines 1544 to 1997 are the test. P@1 in %, source to target / back.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from make_page import make_page, read_static
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

import hfxling
from hfxling.console import run
from hfxling.data.pairs import read_pairs
from hfxling.evaluation.results import format_table
from hfxling.evaluation.retrieval import gold_ranks, hits_at, unlike_blanks

TRAIN, TEST = "1-1543", "1544-1997"


def measure(data: Path, languages: tuple[str, str], dimensions: list[int], folder: Path) -> list[list]:
    """A row of the table for each form."""
    train, test = (
        read_pairs(*(f"{data / lang}.txt@{part}" for lang in languages), languages) for part in (TRAIN, TEST)
    )
    model = hfxling.fit_lexical(train.source, train.target, languages, progress=False)
    hfxling.save_lexical(model, folder / "model")
    name, sides = "-".join(languages), (test.source, test.target)
    table, _ = read_static(folder / "model")
    original = SentenceTransformer(str(folder / "model"))
    size = megabytes(folder / "model" / "0_StaticEmbedding")
    rows = []
    for kept in dimensions:
        make_page(folder / "model", folder / "page", dimensions=kept)
        tokenizer = Tokenizer.from_file(str(folder / "page" / "model2vec" / "tokenizer.json"))
        ids = [[row.ids for row in tokenizer.encode_batch(side)] for side in sides]
        session = onnxruntime.InferenceSession(folder / "page" / "model.onnx", providers=["CPUExecutionProvider"])
        forms = {
            "original, float32": ([original.encode(side)[:, :kept] for side in sides], size * kept / table.shape[1]),
            "WordPiece, float32": ([sums(table[:, :kept], side) for side in ids], size * kept / table.shape[1]),
            "WordPiece, int8": ([graph_vectors(session, side) for side in ids], megabytes(folder / "page")),
        }
        for form, (vectors, form_size) in forms.items():
            found = [hits_at(ranks, 1).mean() for ranks in gold_ranks(*unlike_blanks(*vectors))]
            rows.append([name, kept, form, " / ".join(f"{hits:.1f}" for hits in found), f"{form_size:.1f}"])
    return rows


def sums(table: np.ndarray, ids: list[list[int]]) -> np.ndarray:
    """(N, D) sums of the pieces' vectors."""
    return np.stack([table[row].sum(axis=0) for row in ids])


def graph_vectors(session: onnxruntime.InferenceSession, ids: list[list[int]]) -> np.ndarray:
    """(N, D) vectors of model.onnx, text by text as on the page."""
    rows = [np.array([[0, *row]], np.int32) for row in ids]
    return np.concatenate([session.run(None, {"input_ids": row})[0] for row in rows])


def megabytes(folder: Path) -> float:
    """Of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default="../shared/data/ntrex", help="folder with zh.txt and others")
    parser.add_argument("--pairs", nargs="+", default=["zh-vi", "lo-zh"])
    parser.add_argument("--dimensions", nargs="+", type=int, default=[1024, 512, 256])
    options = parser.parse_args()
    rows = []
    for pair in options.pairs:
        with tempfile.TemporaryDirectory(prefix="hfxling-phone-") as folder:
            rows += measure(options.data, tuple(pair.split("-")), options.dimensions, Path(folder))
    print(format_table(["pair", "dimensions", "form", "P@1", "MB"], rows))


if __name__ == "__main__":
    run(main)
