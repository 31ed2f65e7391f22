"""What makes one head for many language pairs worse than one each: parts of the head and of the loss, taken one by one.

python benchmarks/disentangler_joint.py [--data ../shared/data/mlqe] [--encoder ../shared/models/mini-labse]

Heads of MLQE's training text, scored on its development sets. Every head sees every pair's rows equally often, so a
shared one is not trained for longer. "own" heads share nothing, "shared" ones all, "own biases" only the matrix,
"another pair's" are the own ones of the next pair in the list; "centred" vectors have had the mean of their pair and
side taken away. Figures beside the rows: how far the own heads point the same way (cosine of their changes from the
start, mean over pairs of heads), and the first step of the shared one (cosine of the language pairs' gradients). Runs
that are done are kept: a stopped one goes on with the others.
"""

import os
from collections.abc import Sequence
from itertools import combinations

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from harness import earlier_rows, parser, report_rows, write_rows
from torch import Tensor

from hfxling.console import run as run_recipe
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.similarity import correlation_results, cosines
from hfxling.methods import disentangler
from hfxling.models.losses import split_losses
from hfxling.models.modeling_disentangler import START

TITLE = "Own heads and shared ones: Pearson with human scores on MLQE's development sets"
WEIGHTS = {"intra": (1, 1, 0, 0), "inter": (0, 0, 1, 1), "its meaning term alone": (1, 0, 0, 0)}
OTHER = "another pair's"
HEADS = ("own", "shared", "own biases", "own, centred", "shared, centred")
LABELS = [f"{term}, {heads}" for term in WEIGHTS for heads in (HEADS[0], OTHER, *HEADS[1:])]
BATCH, RATE = 512, 1e-3  # as in the study of the objectives


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "disentangler_joint")
    options.add_argument("--data", default="../shared/data/mlqe", help="folder of MLQE")
    options.add_argument("--encoder", default="../shared/models/mini-labse", help="folder or Hub id of the encoder")
    options.add_argument("--pairs", nargs="+", default=["en-de", "en-zh", "ro-en", "et-en", "ne-en", "si-en"])
    options.add_argument("--epochs", type=int, default=30, help="number of epochs over each pair's rows")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument(
        "--max_train_pairs", type=int, help="most training pairs of each language pair; by default all"
    )
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    told = disentangler.Arguments(
        pairs=args.pairs,
        train_data=[f"{args.data}/{{source}}-{{target}}.train.tsv.gz"],
        max_train_pairs=args.max_train_pairs,
        base_model=args.encoder,
        qe=args.data,
        qe_split="dev",
    )
    prepared = disentangler.prepare([told])
    settings = vars(args) | {"name": "disentangler_joint"}
    about = {"title": TITLE, "labels": LABELS, "metrics": ["Pearson avg"]}
    results = earlier_rows(settings, "seeds") or untrained(prepared)
    done = {(row.settings["row"], row.seed) for row in results if "row" in row.settings}
    for seed in range(args.seeds):
        for term in WEIGHTS:
            for heads in HEADS:
                if (f"{term}, {heads}", seed) not in done:
                    results += measure(prepared, term, heads, args.epochs, seed)
                    write_rows("disentangler_joint", results, settings, **about)
    figures = {
        f"{name}, {row.settings['row']}": row.settings[name]
        for row in results
        if row.metric == "Pearson avg" and row.seed == 0
        for name in ("gradient_cosine", "change_cosine")
        if name in row.settings
    }
    return report_rows("disentangler_joint", results, settings, figures=figures, **about)


def untrained(prepared) -> list[EvalResult]:
    scores = [cosines(*sides) for sides in prepared.scored]
    return correlation_results(prepared.corpus.scored, scores, settings={"stage": "before"}, model=prepared.model)


def measure(prepared, term: str, heads: str, epochs: int, seed: int) -> list[EvalResult]:
    """Rows of one way to share heads; of own ones also what another pair's would do."""
    means = [[side.mean(0) if "centred" in heads else 0.0 for side in sides] for sides in prepared.train]
    train = [_pairs(sides, mean) for sides, mean in zip(prepared.train, means)]
    maps, about = fit(train, WEIGHTS[term], heads.split(",")[0], epochs, seed)
    rows = scored(prepared, maps, means, {"row": f"{term}, {heads}"} | about, seed)
    if heads == "own":
        rows += scored(prepared, maps[1:] + maps[:1], means, {"row": f"{term}, {OTHER}"} | about, seed)
    return rows


def scored(prepared, maps: Sequence, means: Sequence, about: dict, seed: int) -> list[EvalResult]:
    """Rows of what the maps of the language pairs give for their test sets."""
    names = [pair.languages for pair in prepared.corpus.pairs]
    scores = []
    for test, sides in zip(prepared.corpus.scored, prepared.scored):
        pair = names.index(tuple(test.direction.split("->")))
        matrix, bias = maps[pair]
        parts = _pairs(sides, means[pair]) @ matrix.T + bias
        scores.append(cosines(*parts.unbind(1)))
    before = [cosines(*sides) for sides in prepared.scored]
    settings = {"stage": "after"} | about
    return correlation_results(
        prepared.corpus.scored, scores, baseline=before, settings=settings, model=prepared.model, seed=seed
    )


def _pairs(sides: Sequence[np.ndarray], means: Sequence) -> Tensor:
    """(N, 2, D) vectors of both sides less a mean each."""
    return torch.from_numpy(np.stack([np.asarray(side, np.float32) - mean for side, mean in zip(sides, means)], 1))


def fit(
    train: Sequence[Tensor], weights: Sequence[float], shared: str, epochs: int, seed: int
) -> tuple[list[tuple[Tensor, Tensor]], dict[str, float]]:
    """Matrix and bias of every pair, and how alike what the pairs want is.

    Args:
        train: (N, 2, D) vectors of every language pair.
        weights: of the four terms.
        shared: "own", "shared" or "own biases".
        epochs: of every pair's rows; a step is a batch of one pair, all pairs take turns.
        seed: of the batches.
    """
    size, rng = train[0].shape[2], np.random.default_rng(seed)
    start = START * torch.eye(size)
    matrices = [start.clone().requires_grad_() for _ in (train if shared == "own" else train[:1])]
    biases = [torch.zeros(size).requires_grad_() for _ in (train[:1] if shared == "shared" else train)]
    maps = [(matrices[i % len(matrices)], biases[i % len(biases)]) for i in range(len(train))]
    optimizer = torch.optim.Adam([*matrices, *biases], lr=RATE)
    terms = torch.tensor(weights, dtype=torch.float32)
    for _ in range(epochs):
        plan = [(i, rows) for i, pairs in enumerate(train) for rows in _batches(len(pairs), rng)]
        for i, rows in (plan[k] for k in rng.permutation(len(plan))):
            pooled = train[i][rows]
            pooled = torch.cat([pooled, pooled[:1]])  # the last row's partner is the first
            matrix, bias = maps[i]
            loss = split_losses(pooled, pooled @ matrix.T + bias) @ terms
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    about = {"gradient_cosine": _alike([_slope(pairs, start, terms) for pairs in train])}
    if shared == "own":
        about["change_cosine"] = _alike([matrix.detach() - start for matrix in matrices])
    return [(matrix.detach(), bias.detach()) for matrix, bias in maps], about


def _batches(count: int, rng: np.random.Generator) -> list[np.ndarray]:
    return np.array_split(rng.permutation(count), max(1, count // BATCH))


def _slope(pairs: Tensor, start: Tensor, terms: Tensor) -> Tensor:
    """Gradient of the loss over all of a pair's rows with respect to the matrix at the start."""
    matrix = start.clone().requires_grad_()
    (split_losses(pairs, pairs @ matrix.T) @ terms).backward()
    return matrix.grad


def _alike(matrices: Sequence[Tensor]) -> float:
    """Mean cosine between any two of the matrices."""
    units = [matrix.flatten() / matrix.norm() for matrix in matrices]
    return round(float(np.mean([a @ b for a, b in combinations(units, 2)])), 3)


if __name__ == "__main__":
    run_recipe(main)
