r"""Runs of the word aligner in the paper's regime side by side: P@1, AER, curves, paired tests, where attention stands.

for weight in 0 1; do for seed in 0 1 2; do
    python recipes/aligner.py --config recipes/configs/aligner/paper_lo_zh.yaml --contrastive_weight $weight \
        --seed $seed --output_dir outputs/aligner_paper/$weight-$seed [--resume_from_checkpoint true]
done; done
python benchmarks/aligner_paper.py outputs/aligner_paper/* --statistical --name aligner_paper_lo_zh

Every folder is a run's output_dir, told apart by what its results.json says. Rows are measured on stored models, P@1 by
both protocols and AER where the run has gold links. Rows of other runs that the results file has stay in it, with every
word's hits: the runs need not stand side by side. All carry the paired test against the base model, hits averaged over
the seeds, those that both have. Attention: of the links that the statistical aligner is sure of (both directions' mean
over --sure), the share at which both words attend most to each other. With --statistical also rows of links learnt from
the same text, counted as in lexicon_baselines.py: ours and those of three eflomal runs.
"""

import json
import os
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from align_baselines import eflomal
from harness import earlier_rows, parser, report_rows
from lexicon_baselines import expected_tables, rival_tables, sampled_tables, translated
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.corpus import load_corpus
from hfxling.data.sources import pair_files
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.significance import paired_test
from hfxling.evaluation.word_translation import protocol_results, read_dictionary
from hfxling.methods.aligner.arguments import AlignerArguments
from hfxling.methods.aligner.data import encode_pairs, learn_priors
from hfxling.methods.aligner.evaluate import gold_rows
from hfxling.words.aligner import load_aligner
from hfxling.words.pairs import EncodedPairs, pad

BASE = "base (Wada et al.)"
CSLS_KS = ("P@1", "P@5")
SAMPLES = 10  # short runs of eflomal whose links are counted, as in lexicon_baselines.py
STATISTICAL = {
    ("statistical links, expected", None): expected_tables,
    **{("eflomal, sampled", seed): lambda *text: sampled_tables(SAMPLES, *text) for seed in range(3)},
    **{("eflomal, hard", seed): partial(rival_tables, eflomal) for seed in range(3)},
}
LINKS = {label for label, _ in STATISTICAL}
_BATCH = 50  # sentence pairs


def main(argv: list[str] | None = None) -> dict[str, dict]:
    options = parser(__doc__, "NAME")
    options.add_argument("folders", nargs="+", help="output_dir of each run")
    options.add_argument("--sure", type=float, default=0.9, help="least probability of a confident link")
    options.add_argument(
        "--statistical", action="store_true", help="also measure links learnt from the first run's text"
    )
    options.add_argument("--name", default="aligner_paper_lo_zh", help="name of the results file")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    runs = [json.loads((Path(folder) / "model/results.json").read_text(encoding="utf-8")) for folder in args.folders]
    folders = [Path(folder) / "model" for folder in args.folders]
    results = [row for folder, run in zip(folders, runs) for row in measure(folder, run, args.sure)]
    results += statistical(folders[0], runs[0]) if args.statistical else []
    measured = {(row.settings["row"], row.seed) for row in results}
    earlier = earlier_rows(vars(args), "folders", "statistical")
    results += [row for row in earlier if (row.settings["row"], row.seed) not in measured]
    results = sorted(results, key=lambda row: (place(row.settings["row"]), row.seed or 0))
    results = [replace(row, settings=row.settings | compared(row, results)) for row in results]
    pairs = " ".join(runs[0]["settings"]["pairs"])
    epochs, size = runs[0]["reached"]["epochs"], runs[0]["card"]["configuration"].get("size", 500)
    title = f"{pairs}, {epochs:.0f} epochs in the paper's regime, {size} units"
    labels = sorted({row.settings["row"] for row in results}, key=place)
    metrics = [metric for metric in ("P@1", "AER", "attention") if any(row.metric == metric for row in results)]
    about = {"title": title, "labels": labels, "metrics": metrics, "shown": len(metrics), "with_items": True}
    return report_rows("aligner_paper", results, vars(args), **about)


def label_of(args: AlignerArguments) -> str:
    """Of a run, as Table V names it."""
    if not args.contrastive_weight:
        return BASE
    return f"{args.negatives}, {args.contrastive_pooling}"


def place(label: str) -> tuple:
    """In the order of a table: the base model, its variants, links."""
    return label in LINKS, label != BASE, label


def arguments_of(run: dict) -> AlignerArguments:
    """Of a run's stored settings, which are the Trainer's, too."""
    known = AlignerArguments.__dataclass_fields__
    return AlignerArguments(**{name: value for name, value in run["settings"].items() if name in known})


def statistical(folder: Path, run: dict) -> list[EvalResult]:
    """Rows of links that are learnt from the text of a run, in its words."""
    args, (_, vocabularies) = arguments_of(run), load_aligner(str(folder))
    files = pair_files("dictionaries", args.dictionaries)
    return [
        row
        for text in encode_pairs(load_corpus(args), vocabularies, max_words=args.max_words)
        if text.languages in files
        for row in translated(text, vocabularies, read_dictionary(files[text.languages]), STATISTICAL, "words")
    ]


def measure(folder: Path, run: dict, sure: float) -> list[EvalResult]:
    """Rows of one run, its curve among them as stage "during"."""
    args = arguments_of(run)
    model, vocabularies = load_aligner(str(folder))
    text = " ".join(f"{lang}={vocabulary.segmenter}" for lang, vocabulary in vocabularies.items())
    spent = round(run["reached"]["cpu_seconds"])
    about = {"stage": "after", "row": label_of(args), "text": text, "train_cpu_s": spent}
    about |= {name: value for name, value in run["reached"].items() if name == "contrastive_share"}
    rows = []
    for languages, path in pair_files("dictionaries", args.dictionaries).items():
        fields = {"dataset": f"dictionary {'-'.join(languages)}", "split": "test", "direction": "->".join(languages)}
        words, static = zip(*((vocabularies[lang], model.static_table(lang)) for lang in languages))
        found = protocol_results(read_dictionary(path), words, static, settings=about, **fields)
        rows += [row for row in found if row.metric in CSLS_KS]
    gold = pair_files("gold", args.gold)
    rows += [row for row in gold_rows(gold, model, vocabularies, **about) if row.metric == "AER"]
    rows += [point for row in rows if row.metric != "P@5" for point in curve_of(run, row)]
    for text in encode_pairs(load_corpus(args), vocabularies, max_words=args.max_words):
        hits = 100.0 * attended(model, text, *learn_priors([text], vocabularies), sure)
        fields = {"dataset": f"confident links {'-'.join(text.languages)}", "split": "train"}
        rows.append(replace(mean_result("attention", hits, settings=about, **fields), items=None))
    return [replace(row, seed=run["results"][0]["seed"]) for row in rows]


def curve_of(run: dict, row: EvalResult) -> list[EvalResult]:
    """A row of every evaluation in passing."""
    name = f"{row.dataset} {row.settings.get('protocol') or row.settings['decoding']}"
    key = "_".join(filter(None, (name, row.direction, row.metric)))
    about = row.settings | {"stage": "during"}
    return [
        EvalResult(
            row.metric,
            point[key],
            row.n,
            row.dataset,
            row.split,
            row.direction,
            settings=about | {name: round(point[name], 1) for name in ("epoch", "cpu_seconds", "score")},
        )
        for point in run.get("curve", ())
    ]


def attended(model, text: EncodedPairs, prior, sure: float) -> np.ndarray:
    """(N,) whether the words of each confident link attend most to each other, 0 or 1."""
    hits = []
    for start in range(0, len(text.source), _BATCH):
        sides = [side[start : start + _BATCH] for side in (text.source, text.target)]
        states = model.align_states(*map(pad, sides), text.languages)
        both = zip(states.target_to_source.numpy(), states.source_to_target.numpy(), prior.posteriors(*sides), *sides)
        for to_source, to_target, (forward, backward), source, target in both:
            at = to_source[: len(target), : len(source)].argmax(1), to_target[: len(source), : len(target)].argmax(1)
            for i, j in zip(*np.nonzero((forward + backward) / 2 > sure)):
                hits.append(at[0][j] == i and at[1][i] == j)
    return np.array(hits, float)


def compared(row: EvalResult, results: list[EvalResult]) -> dict:
    """The paired test of a row's system against the base model on the same words, hits averaged over their seeds."""
    if row.settings["row"] == BASE or row.metric != "P@1" or row.settings["stage"] != "after":
        return {}
    hits = {row.settings["row"]: {}, BASE: {}}
    for other in results:
        same = (other.metric, other.dataset) == (row.metric, row.dataset) and other.settings["stage"] == "after"
        if same and other.settings["protocol"] == row.settings["protocol"] and other.settings["row"] in hits:
            hits[other.settings["row"]][other.seed] = other.items.groups[0][:, 0]
    own, base = hits.values()
    if row.settings["row"] not in LINKS:  # whose draws have nothing to do with the seeds of training
        own, base = ({seed: of_seed[seed] for seed in own.keys() & base.keys()} for of_seed in (own, base))
    if not base:
        return {}
    test = paired_test(*(np.mean([*of_seed.values()], axis=0) for of_seed in (own, base)))
    return {"paired": {"with": BASE, "seeds": sorted(base)} | asdict(test)}


if __name__ == "__main__":
    run_recipe(main)
