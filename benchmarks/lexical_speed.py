"""What a lexical model costs: to fit, in memory, to encode with, on disk.

python benchmarks/lexical_speed.py --data ../shared/data [--encoder ../shared/models/mini-labse] [--pairs 100000]

- Fits, each in a fresh process on one thread: NTREX zh-vi, lines 1 to 1543; and English with German, Spanish and French
  of DATA/anki as one side (no single pair has 100,000 real pairs), drawn from all three alike, whole and quartered
  twice. `fit_exponent` is the slope of log CPU seconds over log tokens through these three: at most 1 is linear in
  tokens. Sentences of anki have a fifth of the tokens of news, which is why the seconds per token differ.
- Encoding everyday text, both sides of DATA/vi-zh/train.tsv, with the NTREX model: the static vectors through
  `SentenceTransformer.encode` in batches of --batch_size and of the 32 that are its default, the tokenizer of the same
  model by itself (its ids read, as they must be), sparse vectors straight to CSR (Chinese as queries and Vietnamese as
  documents, as one side of a search each; and both as queries), and a neural encoder on a sample.
  Interleaved, after a warm-up, medians of the repeats; `static_over_tokenizer` is the ratio of neighbouring runs.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("RAYON_NUM_THREADS", "1")  # of the tokenizers library
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from harness import machine, parser, peak_mib, report, timed
from ntrex import LINES, read_text
from sentence_transformers import SentenceTransformer
from tqdm.auto import tqdm
from transformers.utils import logging

from hfxling import fit_lexical, save_lexical
from hfxling.console import run as run_recipe
from hfxling.data.sources import load_pairs
from hfxling.evaluation.results import format_table
from hfxling.models.modeling_lexical import ROLES, LexicalModel
from hfxling.progress import hide_loading_bars

TITLE = "What a lexical model costs to fit, to keep and to encode with"
GOALS = {
    "fit_exponent": "<= 1",
    "static_per_s": ">= 20000",
    "static_over_tokenizer": ">= 0.6",
    "sparse_per_s": ">= 10000",
}
LANGUAGES = ("zh", "vi")
MIXED = ("de", "es", "fr")  # that together are the other side of English
PARTS = (16, 4, 1)  # of the large text that are fitted, as divisors
SAMPLE = 512  # sentences for the neural encoder


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "lexical_speed")
    options.add_argument(
        "--data", type=Path, default=Path("../shared/data"), help="folder with ntrex/, anki/ and vi-zh/"
    )
    options.add_argument(
        "--encoder", default="../shared/models/mini-labse", help="folder or Hub id of an encoder, for comparison"
    )
    options.add_argument("--pairs", type=int, default=100000, help="number of pairs in the large text (default 100000)")
    options.add_argument("--batch_size", type=int, default=2048, help="batch size of static vectors (default 2048)")
    options.add_argument("--repeats", type=int, default=5, help="number of interleaved repeats of encoding (default 5)")
    options.add_argument("--fit", type=int, help=argparse.SUPPRESS)  # a fresh process: so many pairs, 0 for NTREX
    options.add_argument("--folder", help=argparse.SUPPRESS)  # where it writes the model
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    hide_loading_bars()
    if args.fit is not None:
        return fit(args.data, args.fit, args.folder)
    with tempfile.TemporaryDirectory() as folder:
        news = fresh_fit(args, 0, folder)
        parts = [fresh_fit(args, args.pairs // part) for part in PARTS]
        figures = {"fit_ntrex": news} | {f"fit_{part['pairs']}": part for part in parts}
        seconds, tokens = ([part[name] for part in parts] for name in ("cpu_s", "tokens"))
        figures["fit_exponent"] = round(exponent(tokens, seconds), 3)
        figures |= encode(args, folder)
    settings = {
        "large_text": f"anki, en to {'+'.join(MIXED)} as one language, {args.pairs} pairs drawn (seed 0)",
        "everyday_text": "vi-zh/train.tsv, both sides",
        "batch_size": args.batch_size,
        "repeats": args.repeats,
        "encoder": Path(args.encoder).name,
    } | machine()
    path = f"{args.results_dir}/lexical_speed.json"
    return report("lexical_speed", figures, settings, title=TITLE, path=path, goals=GOALS)


def fit(data: Path, count: int, folder: str | None) -> dict:
    """Fit on so many pairs, or NTREX for none; print what it took."""
    pair = (*LANGUAGES,) if not count else ("en", "de")
    text = news(data) if not count else mixed(data, count)
    libraries = peak_mib()
    models: list[LexicalModel] = []
    cpu, wall = timed(lambda: models.append(fit_lexical(*text, pair, progress=False)))
    tokenizers = [models[0].tokenizers[lang][0] for lang in pair]
    found = {
        "pairs": len(text[0]),
        "tokens": sum(len(row.ids) for each, side in zip(tokenizers, text) for row in each.encode_batch(side)),
        "cpu_s": round(cpu, 2),
        "wall_s": round(wall, 2),
        "peak_mib": round(peak_mib()),
        "libraries_mib": round(libraries),
    }
    if folder:
        save_lexical(models[0], folder)
    print(json.dumps(found))
    return found


def fresh_fit(args: argparse.Namespace, count: int, folder: str | None = None) -> dict:
    """`fit` in a process of its own."""
    command = [sys.executable, __file__, "--data", str(args.data), "--fit", str(count)]
    done = subprocess.run([*command, *(["--folder", folder] if folder else [])], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def news(data: Path) -> tuple[list[str], list[str]]:
    """The training lines of NTREX."""
    lines = read_text(data / "ntrex", "-".join(LANGUAGES))
    return tuple(lines[lang][:LINES] for lang in LANGUAGES)


def mixed(data: Path, count: int) -> tuple[list[str], list[str]]:
    """English sentences and translations into several languages, in random order."""
    rows = []
    for lang in MIXED:
        with gzip.open(data / "anki" / f"en-{lang}.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
            rows += [line.rstrip("\n").split("\t") for line in file]
    if count > len(rows):
        raise ValueError(f"--pairs {count}: anki has {len(rows)} of {', '.join(MIXED)}; give at most that many.")
    order = np.random.default_rng(0).permutation(len(rows))[:count]
    source, target = zip(*(rows[i] for i in order))
    return list(source), list(target)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Power of the sizes that the seconds grow with, by least squares of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def encode(args: argparse.Namespace, folder: str) -> dict:
    """Sentences per second of every way to encode, the model's size."""
    table = load_pairs([f"{args.data}/vi-zh/train.tsv"], ("vi", "zh"))
    texts = {"vi": list(table["source"]), "zh": list(table["target"])}
    static, sparse = SentenceTransformer(folder, device="cpu"), LexicalModel.from_pretrained(folder).eval()
    neural, tokenizer = SentenceTransformer(args.encoder, device="cpu"), static[0].tokenizer
    sample = [text for side in texts.values() for text in side[: SAMPLE // 2]]

    role_of = dict(zip(LANGUAGES, ROLES))

    def both(run: Callable) -> Callable:
        return lambda: [run(lang, side) for lang, side in texts.items()]

    ways = {
        "tokenizer": both(lambda _, side: [row.ids for row in tokenizer.encode_batch(side, add_special_tokens=False)]),
        "static": both(lambda _, side: static.encode(side, batch_size=args.batch_size, show_progress_bar=False)),
        "static_batch_32": both(lambda _, side: static.encode(side, show_progress_bar=False)),
        "sparse": both(lambda lang, side: sparse.encode(side, lang, role_of[lang])),
        "sparse_query": both(lambda lang, side: sparse.encode(side, lang)),
        "encoder": lambda: neural.encode(sample, show_progress_bar=False),
    }
    counts = dict.fromkeys(ways, sum(map(len, texts.values()))) | {"encoder": len(sample)}
    rates = sentence_rates(ways, counts, args.repeats)
    ratio = rates["static"][:, 0] / rates["tokenizer"][:, 0]
    print(format_table(["", "sentences / CPU s", "/ wall s"], [[k, *np.median(v, axis=0)] for k, v in rates.items()]))
    figures = {f"{name}_per_s": round(float(np.median(found[:, 0]))) for name, found in rates.items()}
    weights = {name: Path(folder) / name / "model.safetensors" for name in ("0_StaticEmbedding", "")}
    return figures | {
        "static_over_tokenizer": round(float(np.median(ratio)), 3),
        "static_over_encoder": round(figures["static_per_s"] / figures["encoder_per_s"], 1),
        "static_dims": static.get_sentence_embedding_dimension(),
        "sparse_active_dims": round(sparse.encode(texts["vi"][:1000], "vi").nnz / 1000),
        "static_mb": round(weights["0_StaticEmbedding"].stat().st_size / 1e6, 2),
        "links_mb": round(weights[""].stat().st_size / 1e6, 2),
        "folder_mb": round(sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6, 2),
    }


def sentence_rates(ways: dict[str, Callable], counts: dict[str, int], repeats: int) -> dict[str, np.ndarray]:
    """(repeats, 2) sentences per CPU and wall second of each way, interleaved, after a warm-up."""
    for run in ways.values():
        run()
    seconds: dict[str, list] = {name: [] for name in ways}
    for _ in tqdm(range(repeats), desc="encode"):
        for name, run in ways.items():
            seconds[name].append(timed(run))
    return {name: counts[name] / np.array(found) for name, found in seconds.items()}


if __name__ == "__main__":
    run_recipe(main)
