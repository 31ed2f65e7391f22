"""Which of the models that `hfxling fit` can write finds most translations: README's table, and Tatoeba.

python benchmarks/retrieval_table.py --data ../shared/data --encoder me5-small [--pairs zh-vi lo-zh] [--minutes 60]

Every model is fitted on training text (NTREX lines 1 to 1543; the first 2,000 pairs of vi-zh, everyday text; all pairs
of anki for Tatoeba), all settings chosen there by `hfxling fit`, written, loaded again and measured on test text (NTREX
lines 1544 to 1997; vi-zh test; Tatoeba, of which anki has nothing). P@1 by cosine or inner product; ties are misses;
no CSLS but what models carry from their training text. With --distractors candidates are the test sentences and as many
others of the target language from the other folders. Every text is kept when it is measured: a run that was stopped
goes on with the others.
"""

import gzip
import os
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from encoders import encoder_folder
from harness import earlier_rows, parser, report_rows, timed, write_rows
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.sources import load_pairs
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fused import FusedEncoder
from hfxling.encoders.fusion import ROLES
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import Ranking, gold_ranks, language_mean, postprocess, ranking_results, unlike_blanks
from hfxling.files import content_hash, weights_hash
from hfxling.selection.select import Selection, select

TITLE = "Retrieval by what can be fitted on a few thousand pairs"
TATOEBA_TITLE = "Tatoeba by what can be fitted on 2,000 to 40,000 short pairs of anki"
EVERYDAY = "vi-zh everyday"
PAIRS = ("zh-vi", "lo-zh", "th-zh", "id-zh", "lo-th", EVERYDAY)
# Languages of anki: Tatoeba's code, and xx->en of mBERT+DAP (Li et al. 2023, Table 7), from up to 1M pairs a language.
TATOEBA = {"ar": ("ara", 91.8), "bn": ("ben", 89.3), "de": ("deu", 99.1), "es": ("spa", 98.4), "fr": ("fra", 95.5)}
TATOEBA |= {"hi": ("hin", 96.8), "id": ("ind", 95.9), "ja": ("jpn", 96.7), "ko": ("kor", 93.2), "nl": ("nld", 96.6)}
TATOEBA |= {"th": ("tha", 96.9), "tl": ("tgl", 70.1), "tr": ("tur", 98.5), "vi": ("vie", 97.5), "zh": ("cmn", 95.4)}
LABELS = {  # and what each is called in `hfxling fit`
    "encoder without its prompt": "encoder",
    "encoder": "encoder",
    "encoder, centred": "encoder",
    "one layer + head": "head",
    "several layers + head": "layers",
    "static": "static",
    "sparse": "sparse",
    "fused": "fused",
    "fine-tuned": "finetuned",
    "fused with the fine-tuned": "finetuned_fused",
}
BEST = (
    "static",
    "sparse",
    "fused",
    "fine-tuned",
    "fused with the fine-tuned",
)  # that are measured among distractors, too
FIGURES = {  # by name: text and model
    "sparse_zh_vi": ("zh-vi", "sparse"),
    "sparse_lo_zh": ("lo-zh", "sparse"),
    "sparse_everyday_2k": (EVERYDAY, "sparse"),
    "sparse_zh_vi_20k": ("zh-vi + 20000", "sparse"),
    "sparse_lo_zh_20k": ("lo-zh + 20000", "sparse"),
    "static1024_zh_vi": ("zh-vi", "static"),
    "static1024_lo_zh": ("lo-zh", "static"),
    "layers_zh_vi": ("zh-vi", "several layers + head"),
    "fused_zh_vi": ("zh-vi", "fused"),
    "static_zh_vi": ("zh-vi", "static"),
    "static_lo_zh": ("lo-zh", "static"),
    "fused_zh_vi_20k": ("zh-vi + 20000", "fused with the fine-tuned"),
    "fused_lo_zh_20k": ("lo-zh + 20000", "fused with the fine-tuned"),
}
# Other text of each language, in the folders of the data: TSV files with the column, or plain text.
OTHER = {
    "vi": ("alt/ja-vi.train.tsv.gz#1", "vi-zh/train.tsv#0", "anki/en-vi.tsv.gz#1"),
    "zh": ("vi-zh/train.tsv#1", "anki/en-zh.tsv.gz#1"),
}
DISTRACTORS = {"zh-vi": "vi", "lo-zh": "zh"}

TIMED = 64  # sentences of each side, by which speed is told

Embed = Callable[[list[str], str, str], object]  # texts, language and role to vectors


class Memory:
    """Vectors that dense encoders have computed: several systems of a table share their dense part.

    Attributes:
        is_on: off while speed is measured.
    """

    def __init__(self):
        self.is_on = True
        self._vectors: dict[tuple, np.ndarray] = {}

    def of(self, name: str, **options) -> SentenceEncoder:
        """The encoder of a folder or Hub id, which encodes a text once; the same weights with the same prompt share."""
        encoder = SentenceEncoder(name, **options)
        model = weights_hash(name) if Path(name).is_dir() else name
        plain_encode = encoder.encode

        def encode(texts: list[str], language: str | None = None, role: str | None = None, **more) -> np.ndarray:
            if not self.is_on:
                return plain_encode(texts, language, role, **more)
            keys = [(model, encoder.prompt, language, text) for text in texts]
            missing = [text for key, text in zip(keys, texts) if key not in self._vectors]
            if missing:
                for text, vector in zip(missing, plain_encode(missing, language, role, **more)):
                    self._vectors[model, encoder.prompt, language, text] = vector
            return np.stack([self._vectors[key] for key in keys])

        encoder.encode = encode
        return encoder


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "NAME")
    options.add_argument("--data", default="../shared/data", help="folder with ntrex/, vi-zh/ and others")
    options.add_argument("--encoder", default="me5-small", help="encoder: me5-small, or a folder or Hub id")
    options.add_argument("--minutes", type=float, default=60, help="time for what competes, as in hfxling fit")
    options.add_argument("--pairs", nargs="*", default=PAIRS, help="language pairs of the table")
    options.add_argument("--tatoeba", nargs="*", default=[*TATOEBA], help="languages to test with English on Tatoeba")
    options.add_argument(
        "--distractors",
        type=int,
        default=20_000,
        help="number of other sentences of the target language among the candidates",
    )
    options.add_argument("--seed", type=int, default=42)
    options.add_argument("--device", help="device, such as cpu or cuda (default: a GPU if there is one)")
    options.add_argument("--models", help="folder in which the models are kept; by default they are deleted")
    options.add_argument("--name", default="retrieval_table", help="name of the results file")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    figures = {}
    for title, names, suffix in ((TATOEBA_TITLE, args.tatoeba, "_tatoeba"), (TITLE, args.pairs, "")):
        names = [f"{lang}-en" for lang in names] if suffix else names
        settings = vars(args) | {"name": f"{args.name}{suffix}"}
        del settings["models"]
        about = {"title": title, "labels": [*LABELS], "metrics": ["P@1"]}
        found = measured(names, args, settings, about)
        by_place = {(row.dataset, row.settings["row"]): round(row.value, 2) for row in forward(found)}
        figures |= {name: by_place[place] for name, place in FIGURES.items() if place in by_place}
        if not suffix and found:
            figures |= of_both_ways(found)
        if suffix and found:
            fused = {name: value for (name, row), value in by_place.items() if row == "fused"}
            figures |= {"tatoeba_fused": round(float(np.mean([*fused.values()])), 2), "tatoeba_languages": len(fused)}
        if found:
            report_rows("retrieval_table", found, settings, **about, figures=figures)
    return figures


def of_both_ways(results: list[EvalResult]) -> dict[str, float]:
    """The best model of each language pair by its mean of both ways, and the fine-tuned one of lo-zh."""
    ways: dict[str, dict[str, list[float]]] = {}
    for row in results:
        if row.metric == "P@1" and "candidates" not in row.settings:
            ways.setdefault(row.dataset, {}).setdefault(row.settings["row"], []).append(row.value)
    figures, best = {}, []
    for by_label in ways.values():
        best += max(by_label.values(), key=np.mean)
    figures["best_min"], figures["best_mean"] = round(min(best), 2), round(float(np.mean(best)), 2)
    if "fine-tuned" in ways.get("lo-zh", {}):
        figures["finetuned_lo_zh_min"] = round(min(ways["lo-zh"]["fine-tuned"]), 2)
    return figures


def measured(names: list[str], args, settings: dict, about: dict) -> list[EvalResult]:
    """Rows of all texts, those of an earlier run with them."""
    results = earlier_rows(settings, "pairs", "tatoeba", "device")
    for name in names:
        if not any(row.dataset == name for row in results):
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(args.models, name.replace(" ", "-")) if args.models else Path(scratch)
                results += measure(name, args, folder)
            write_rows("retrieval_table", results, settings, **about)
        told = (f"{row.settings['row']} {row.value:.1f}" for row in forward(results) if row.dataset == name)
        print(f"{name}: {', '.join(told)}", flush=True)
    return results


def forward(results: list[EvalResult]) -> list[EvalResult]:
    """P@1 from source to target."""
    return [x for x in results if x.metric == "P@1" and x.direction == x.settings["first"]]


def measure(name: str, args, folder: Path) -> list[EvalResult]:
    """Fit everything on one text, and rank its test text."""
    pair = tuple(name.split()[0].split("-"))
    train, test = text_of(name, pair, Path(args.data))
    only = ["fused"] if pair[1] == "en" else []
    encoder = encoder_folder(args.encoder)
    options = {"only": only, "minutes": args.minutes, "output": None, "seed": args.seed, "device": args.device}
    selection = select(train, languages=pair, model=encoder, **options)
    print(selection.table(), flush=True)
    memory = Memory()
    systems = fitted(selection, encoder, folder, memory)
    found = load_pairs([test], pair)
    sides = [list(found[side]) for side in ("source", "target")]
    others = distractors(Path(args.data), DISTRACTORS[name], args.distractors, sides[1]) if name in DISTRACTORS else []
    rows = []
    for label, embed in systems.items():
        more = {"row": label, "stage": "after", "first": "->".join(pair), "pairs": len(selection.text)}
        memory.is_on = False
        seconds = min(timed(embed, sides[i][:TIMED], pair[i], ROLES[i])[0] for i in (0, 1, 0, 1))
        memory.is_on = True
        more["sentences_per_cpu_s"] = round(min(TIMED, len(sides[0])) / seconds)
        more["megabytes"] = round(selection.candidate(LABELS[label]).megabytes, 1)
        more["chosen"] = LABELS[label] == selection.winner.name and label not in ("encoder", "encoder, centred")
        fields = {"split": "test", "revision": content_hash(*sides), "seed": args.seed, "model": label}
        ways = []
        for way in ((0, 1), (1, 0)):
            vectors = [embed(sides[side], pair[side], role) for side, role in zip(way, ROLES)]
            ways.append(Ranking("->".join(pair[side] for side in way), *ranked(*vectors)))
            if others and way == (0, 1) and label in BEST:
                many = embed([*sides[1], *others], pair[1], ROLES[1])
                one = Ranking(ways[0].direction, *ranked(vectors[0], many))
                about = {"settings": more | {"candidates": many.shape[0]}, "dataset": f"{name} + {len(others)}"}
                rows += ranking_results([one], **fields, **about)
        rows += ranking_results(ways, settings=more, dataset=name, **fields)
    return rows


def ranked(queries, documents) -> tuple[np.ndarray, dict]:
    """Ranks of the queries' translations, and how they were found: by cosine, or inner product of sparse vectors."""
    if isinstance(queries, np.ndarray):
        return gold_ranks(*unlike_blanks(queries, documents))[0], {"similarity": "cosine"}
    return gold_ranks(queries, documents, method="dot")[0], {"similarity": "inner product"}


def text_of(name: str, pair: tuple[str, str], data: Path) -> tuple[str, str]:
    """Sources of training and test text."""
    if name == EVERYDAY:
        return f"{data}/vi-zh/train.tsv@1-2000#0,1", f"{data}/vi-zh/test.tsv#0,1"
    if pair[1] == "en":
        code = TATOEBA[pair[0]][0]
        both = "+".join(f"{data}/tatoeba/{code}-eng.{side}" for side in (code, "eng"))
        return f"{data}/anki/en-{pair[0]}.tsv.gz#1,0", both
    both = "+".join(f"{data}/ntrex/{lang}.txt" for lang in pair)
    return f"{both}@1-1543", f"{both}@1544-1997"


def fitted(selection: Selection, encoder: str, folder: Path, memory: Memory) -> dict[str, Embed]:
    """Every system of `LABELS` that competed, from the folders that `hfxling fit` writes."""
    written = {}
    for candidate in selection.candidates:
        if candidate.name in ("head", "layers", "fused", "finetuned", "finetuned_fused"):
            paths = selection.save(folder / candidate.name, candidate.name)
            written[candidate.name] = {name: str(path) for name, path in paths.items()}
    plain = memory.of(encoder)
    links = next(paths["lexical"] for paths in written.values() if "lexical" in paths)
    sparse = LexicalEncoder(links)
    dense = {name: memory.of(paths["folder"], trust_remote_code=True) for name, paths in written.items()}
    means = {
        lang: language_mean(plain.encode(side))
        for lang, side in zip(selection.languages, map(selection.text.texts, (0, 1)))
    }
    static = SentenceEncoder(links)
    bare = memory.of(encoder, prompt="")
    systems = {
        "encoder without its prompt": lambda texts, lang, role: bare.encode(texts),
        "encoder": lambda texts, lang, role: plain.encode(texts),
        "encoder, centred": lambda texts, lang, role: postprocess(plain.encode(texts), means[lang]),
        "static": by_language(static),
        "sparse": sparse.encode,
    }
    if "fused" in written:
        systems["fused"] = FusedEncoder(dense["fused"], sparse).encode
    if plain.prompt is None:
        del systems["encoder without its prompt"]
    if "finetuned_fused" in written:
        systems["fused with the fine-tuned"] = FusedEncoder(dense["finetuned_fused"], sparse).encode
    for label, name in LABELS.items():
        if name in dense and "fused" not in name:
            systems[label] = by_language(dense[name])
    return {label: systems[label] for label in LABELS if label in systems}


def by_language(model: SentenceEncoder) -> Embed:
    """Its vectors; the language is told only to a model that wants to know it."""
    return model.encode if model.routes else lambda texts, lang, role: model.encode(texts)


def distractors(data: Path, lang: str, count: int, test: list[str]) -> list[str]:
    """Sentences of the language from other text, none of them a test sentence."""
    found = set()
    for entry in OTHER[lang]:
        name, _, column = entry.partition("#")
        with (gzip.open if name.endswith(".gz") else open)(data / name, "rt", encoding="utf-8", newline="\n") as file:
            for line in file:
                cells = line.rstrip("\n").split("\t")
                found.add(cells[int(column or 0)].strip() if len(cells) > int(column or 0) else "")
    kept = sorted(found - {"", *test})
    random.Random(7).shuffle(kept)
    return kept[:count]


if __name__ == "__main__":
    run_recipe(main)
