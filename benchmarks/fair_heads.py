"""Every head at its best: settings of each are chosen on development pairs, with equally many tries for both losses.

python benchmarks/fair_heads.py --data ../shared/data/ntrex --models ../shared/models [--encoders mini-xlm:0]

Training lines of NTREX (1 to 1543, as `siamese.py` filters them) are 4/5 to fit on and the last 1/5 to choose by: mean
reciprocal rank, both directions. First learning rate, inputs (plain, centred, whitened) and one map or two, all of them
together; then one after the other, what was best being kept: margin with pool (of in-batch softmax the temperature),
epochs, dropout, bias, `normalize_input`, `normalize_output`, and the learning rate again. Whether the outputs are
centred, by training means, is chosen with each. Closed forms choose whether their inputs are centred or whitened too,
and their own settings by cross-validation on what they are fitted on.

What was chosen is fitted on all training lines and meets the 454 test lines: three seeds of trained heads, all kinds of
centring. Shown beside it are both losses at every kind of input, each with the best learning rate there; `chosen` with
one switch turned; and the paper's settings. `tests` compare P@1, the mean of both directions and of the seeds, line by
line, with those of the centred encoder and of the head that is best on development pairs, Holm-corrected over all of an
encoder's. Every fit is kept in outputs/fair_heads: a run that was stopped goes on. Remove that to measure anew.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from harness import earlier_file, minutes_of, minutes_unknown, parser
from transformers import TrainingArguments
from transformers.utils import logging

from hfxling.arguments import narrowed
from hfxling.console import run as run_recipe
from hfxling.evaluation.results import EvalResult, format_table, read_results, write_results
from hfxling.evaluation.retrieval import CENTERINGS, Ranking, hits_at, ranking_results
from hfxling.evaluation.significance import holm, paired_test
from hfxling.files import atomic_path, content_hash
from hfxling.methods.frozen import PairVectors
from hfxling.methods.heads import rank_pair
from hfxling.methods.siamese.arguments import HeadSettings, SiameseArguments
from hfxling.methods.siamese.closed_form import CLOSED_FORMS
from hfxling.methods.siamese.data import Prepared, prepare
from hfxling.methods.siamese.train import fit as fit_head
from hfxling.methods.siamese.train import plain_output, unit_layers
from hfxling.models import SiameseHead

TITLE = "Heads on frozen layers, each at the settings that its development pairs choose"
SEEDS = (0, 1, 2)
CENTRED = "encoder, centred"
TRAINER = ("learning_rate", "num_train_epochs")  # settings that are the Trainer's
START = {
    "contrastive": {"negatives": "worst", "pool_size": 8, "margin": 1.0, "dropout": 0.2, "normalize_output": False},
    "infonce": {"temperature": 0.05, "dropout": 0.0},
}
COMMON = {"learning_rate": 1e-3, "num_train_epochs": 15, "bias": False, "normalize_input": True}
INPUTS = [
    {"inputs": inputs, "per_language": two} for inputs, two in product(("plain", "centred", "whitened"), (False, True))
]
RATES = [{"learning_rate": rate} for rate in (3e-4, 1e-3, 3e-3)]
POOLS = [{"margin": margin, "pool_size": size} for margin, size in product((0.5, 1.0, 1.4), (2, 8, 32))]
AXES = {
    "contrastive": [POOLS],
    "infonce": [[{"temperature": value} for value in (0.01, 0.02, 0.05, 0.1, 0.2)]],
}
LATER = [
    [{"num_train_epochs": count} for count in (15, 40, 100)],
    [{"dropout": share} for share in (0.0, 0.2)],
    *([{name: value} for value in (False, True)] for name in ("bias", "normalize_input", "normalize_output")),
    [{"learning_rate": rate} for rate in (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)],
]
CLOSED = [{"center_input": False}, *({"center_input": True, "input_power": power} for power in (0.0, 0.25, 0.5))]
KEPT = Path("outputs/fair_heads")  # every fit
PRINTED = {"normalize_input": False, "learning_rate": 5e-6, "num_train_epochs": 70, "fit": "contrastive"}


@dataclass
class Search:
    """Heads on one layer of one encoder, and what they reached.

    Attributes:
        name: of the encoder and its layer.
        args: with what all heads share.
        prepared: text and vectors.
        tried: development scores by settings, of this and other encoders.
        rows: result rows, of this and other encoders.
        tests: of heads, of this and other encoders.
        save: writes the results file.
        hits: P@1 of every test line, mean of seeds and directions, by head and centring.
    """

    name: str
    args: SiameseArguments
    prepared: Prepared
    tried: dict[str, dict[str, float]]
    rows: list[EvalResult]
    tests: list[dict]
    save: Callable
    hits: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    def vectors(self) -> PairVectors:
        """Of all training and test lines."""
        return self.prepared.of(self.args.layer_index, self.args.pooling)

    def fitted(self, settings: dict, vectors: PairVectors, texts: list[str], seed: int) -> list[Ranking]:
        """Rankings of a head's outputs under every centring, kept in `KEPT`."""
        text = self.prepared.corpus.test_fields(self.prepared.text)["revision"]
        key = content_hash([self.name, text, str(len(texts)), str(seed), json.dumps(settings, sort_keys=True)])
        path = KEPT / f"{key}.json"
        if path.is_file():
            kept = json.loads(path.read_text(encoding="utf-8"))
            return [Ranking(direction, np.array(ranks), about) for direction, ranks, about in kept]
        rankings = self.fit(settings, vectors, texts, seed)
        with atomic_path(path) as scratch:
            content = [(x.direction, x.ranks.tolist(), x.settings) for x in rankings]
            scratch.write_text(json.dumps(content), encoding="utf-8")
        return rankings

    def fit(self, settings: dict, vectors: PairVectors, texts: list[str], seed: int) -> list[Ranking]:
        """The same, fitted."""
        own = {name: value for name, value in settings.items() if name not in TRAINER}
        args = replace(self.args, **own)
        told = {name: settings[name] for name in TRAINER if name in settings}
        quiet = {"logging_strategy": "no", "save_strategy": "no", "disable_tqdm": True, "report_to": "none"}
        quiet |= {"lr_scheduler_type": "constant", "per_device_train_batch_size": 64, "use_cpu": True}
        training_args = TrainingArguments(str(KEPT), seed=seed, **quiet, **told)
        head, _ = fit_head(vectors, texts, narrowed(HeadSettings, args), training_args)
        return self.rank(vectors, head)

    def rank(self, vectors: PairVectors, head: SiameseHead | None) -> list[Ranking]:
        """Rankings of a head's outputs, or of the encoder's own vectors, under every centring."""

        def embed(side: np.ndarray, language: str) -> np.ndarray:
            return unit_layers(side, vectors.layers) if head is None else plain_output(head, side, language)

        return rank_pair(vectors, embed, similarities=self.args.similarities, centerings=CENTERINGS)

    def score(self, settings: dict) -> dict[str, float]:
        """Mean reciprocal rank on development pairs, in %, by centring."""
        key = json.dumps([self.name, settings], sort_keys=True)
        if key not in self.tried:
            vectors, texts = self.vectors(), self.prepared.text.train["target"][:]
            cut = round(0.8 * len(texts))
            train, test = (tuple(side[part] for side in vectors.train) for part in (slice(cut), slice(cut, None)))
            found: dict[str, list] = {}
            for ranking in self.fitted(settings, replace(vectors, train=train, test=test), texts[:cut], seed=0):
                found.setdefault(ranking.settings["centering"], []).append((1 / ranking.ranks).mean())
            self.tried[key] = {name: round(100 * float(np.mean(values)), 3) for name, values in found.items()}
            self.save(self)
        return self.tried[key]

    def best(self, settings: dict, choices: list[dict]) -> dict:
        """The settings with the best of the choices; the first of equals."""
        return max((settings | choice for choice in choices), key=lambda each: self.reached(each)[0])

    def reached(self, settings: dict) -> tuple[float, str]:
        """The best score that a model can carry, and its centring."""
        scores = self.score(settings)
        centering = max(("none", "train"), key=scores.get)
        return scores[centering], centering

    def chosen(self) -> dict[str, dict]:
        """Settings of every head that is measured, by its name."""
        heads, others = {"auto": {"fit": "auto"}}, {}
        for fit in CLOSED_FORMS:
            heads[fit] = self.best({"fit": fit}, CLOSED[:1] if fit == "discriminant" else CLOSED)
        for fit in START:
            start = {"fit": fit} | COMMON | START[fit]
            for where in INPUTS:
                maps = "two maps" if where["per_language"] else "one map"
                others[f"{fit}, {where['inputs']}, {maps}"] = self.best(start | where, RATES)
            settings = self.best({}, [others[name] for name in others if name.startswith(fit)])
            for axis in AXES[fit] + LATER:
                if {*axis[0]} <= {*settings}:
                    settings = self.best(settings, axis)
            heads[f"{fit}, chosen"] = settings
        best = heads["contrastive, chosen"]
        for switch in ("bias", "normalize_input", "normalize_output"):
            heads[f"contrastive, chosen, {switch} {not best[switch]}"] = best | {switch: not best[switch]}
        for negatives in ("worst", "random"):
            heads[f"contrastive as printed, {negatives}"] = PRINTED | {"negatives": negatives}
        return heads | others

    def measure(self) -> None:
        """Rows of the test lines of every head, and their tests."""
        vectors, texts = self.vectors(), self.prepared.text.train["target"][:]
        fields = self.prepared.corpus.test_fields(self.prepared.text) | {"model": self.name}
        before = self.rank(vectors, None)
        self.keep("encoder", [before], [{}], fields, stage="before")
        self.hits[CENTRED, "train"] = self.hits["encoder", "train"]
        told = {"encoder": {"centring": "none"}, CENTRED: {"centring": "train"}}
        for head, settings in self.chosen().items():
            seeds = SEEDS if settings["fit"] in START else SEEDS[:1]
            told[head] = {"seeds": len(seeds), "centring": "none" if head == "auto" else "train"}
            if head in CLOSED_FORMS or head.partition(", ")[0] in START:
                told[head]["development"], told[head]["centring"] = self.reached(settings)
            found = [self.fitted(settings, vectors, texts, seed) for seed in seeds]
            self.keep(head, found, [settings | {"seed": seed} for seed in seeds], fields, stage="after")
            self.tests[:] = [test for test in self.tests if test["encoder"] != self.name] + self.compare(told)
            self.save(self)

    def keep(self, head: str, found: list[list[Ranking]], about: list[dict], fields: dict, stage: str) -> None:
        """Add the rows of a head's runs, and their hits."""
        label = {"row": f"{self.name} {head}", "stage": stage}
        for rankings, settings in zip(found, about):
            more = label | {"head": {k: v for k, v in settings.items() if k != "seed"}}
            self.rows += ranking_results(rankings, settings=more, seed=settings.get("seed"), **fields)
        for centering in ("none", "train", "corpus"):
            of_seeds = [[hits_at(x.ranks, 1) for x in each if x.settings["centering"] == centering] for each in found]
            self.hits[head, centering] = np.mean(of_seeds, axis=(0, 1))

    def compare(self, told: dict[str, dict]) -> list[dict]:
        """Every head against the centred encoder and the head that is best on development pairs, Holm-corrected."""
        hits = {head: self.hits[head, about["centring"]] for head, about in told.items()}
        best = max(told, key=lambda head: told[head].get("development", 0))
        tests = []
        for head, other in product(told, (CENTRED, best)):
            if head != other:
                place = {"encoder": self.name, "head": head, "n": len(hits[head]), **told[head]}
                place |= {"P@1": round(float(hits[head].mean()), 2), "against": other}
                tests.append(place | {k: short(v) for k, v in vars(paired_test(hits[head], hits[other])).items()})
        for test, p_value in zip(tests, holm([test["p_value"] for test in tests])):
            test["p_holm"] = short(p_value)
        return tests


def short(value: float) -> float:
    """To four digits."""
    return float(f"{value:.4g}")


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "fair_heads")
    options.add_argument("--data", default="../shared/data/ntrex", help="folder with LANG.txt files")
    options.add_argument("--models", default="../shared/models", help="folder of the encoders")
    options.add_argument(
        "--encoders", nargs="+", default=["mini-xlm:0", "mini-labse:6"], help="encoders, as NAME:LAYER"
    )
    options.add_argument("--pair", default="zh-vi", help="source and target language")
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    path = Path(args.results_dir) / f"fair_heads_{args.pair.replace('-', '_')}.json"
    content = earlier_file(path)
    if not content and KEPT.is_dir():
        minutes_unknown(path)
    tried, tests = content.get("tried", {}), content.get("tests", [])
    rows = read_results(path) if content else []

    def save(search: Search) -> None:
        labels = dict.fromkeys(row.settings["row"] for row in search.rows)
        about = {"title": f"{TITLE}, NTREX {args.pair}", "rows": [{"label": label} for label in labels]}
        about |= {"paper_columns": [], "show": {"metric": ["P@1"]}, "tests": tests, "tried": tried}
        about |= minutes_of(path)
        settings = {"pair": args.pair, "data": Path(args.data).name}
        write_results(path, search.rows, recipe="benchmarks/fair_heads.py", settings=settings, extra=about)

    for encoder in args.encoders:
        name, _, layer = encoder.partition(":")
        text = f"{args.data}/{{source}}.txt+{args.data}/{{target}}.txt"
        shared = {"pairs": [args.pair], "base_model": f"{args.models}/{name}", "similarities": ["cosine"]}
        own = SiameseArguments(train_data=[f"{text}@1-1543"], test_data=[f"{text}@1544-1997"], layer=layer, **shared)
        label = f"{name} {layer}"
        rows = [row for row in rows if row.model != label]
        Search(label, own, prepare([own]), tried, rows, tests, save).measure()
    header = ["encoder", "head", "centring", "P@1", "against", "difference", "low", "high", "p_holm"]
    print(format_table(header, [[test[name] for name in header] for test in tests]))
    figures = {f"{test['encoder']} {test['head']}": test["P@1"] for test in tests}
    print(json.dumps({"name": "fair_heads", "figures": figures, "settings": vars(args)}))
    return figures


if __name__ == "__main__":
    run_recipe(main)
