"""Mining of translations hidden in two sets of sentences (BUCC): F1 with a threshold from the training split.

The functions take vectors, never a model. A source sentence is paired with its best target by margin (Artetxe and
Schwenk 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from hfxling.data.readers import read_lines
from hfxling.files import content_hash

from .averages import mean_result
from .items import Items
from .results import EvalResult
from .retrieval import blanks_marked
from .significance import PairedTest, error_interval, jackknife_error, ratio_interval

Mined = tuple[np.ndarray, np.ndarray, np.ndarray]  # (P,) source rows, target rows and scores
SPLITS = ("training", "test")
SWAPS = 10_000  # random swaps in the test of two F1


@dataclass(frozen=True, eq=False)
class Comparable:
    """Sentences of two languages, some of which translate each other."""

    source: list[str]
    target: list[str]
    gold: np.ndarray  # (G, 2) rows of source and target

    @cached_property
    def revision(self) -> str:
        """Hash of text and gold."""
        return content_hash(self.source, self.target, map(str, self.gold.ravel().tolist()))


def read_bucc(folder: str | Path, languages: tuple[str, str], split: str) -> Comparable:
    r"""Read `{pair}.{split}.{lang}`, lines of `id\ttext`, and `{pair}.{split}.gold`, lines of `id\tid`.

    The pair is `zh-en` or `en-zh`, and the gold ids are in its order. The split is "training", "test" or another one of
    the folder.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: for a line of another format, an id that occurs twice, a gold id that the text lacks (the message
            names the line), or no gold pair.
    """
    folder, pairs = Path(folder), ("-".join(languages), "-".join(languages[::-1]))
    present = [pair for pair in pairs if (folder / f"{pair}.{split}.gold").is_file()]
    if not present:
        what = f"{pairs[0]}.{split}.gold with the text {pairs[0]}.{split}.{languages[0]} and .{languages[1]}"
        raise FileNotFoundError(f"{folder}: no {what}; give a folder with files named like BUCC's.")
    pair = present[0]
    texts, rows = {}, {}
    for lang in languages:
        path = folder / f"{pair}.{split}.{lang}"
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file; BUCC has one for each language and one of gold pairs.")
        entries = _two_columns(path, "id TAB text")
        rows[lang] = {}
        for row, (number, key, _) in enumerate(entries):
            if key in rows[lang]:
                raise ValueError(f"{path}, line {number}: id {key!r} occurs twice; give each sentence its own id.")
            rows[lang][key] = row
        texts[lang] = [text for *_, text in entries]
    path = folder / f"{pair}.{split}.gold"
    languages_of_columns = languages if pair == pairs[0] else languages[::-1]
    gold = []
    for number, *keys in _two_columns(path, "id TAB id"):
        row_of = {}
        for lang, key in zip(languages_of_columns, keys):
            if key not in rows[lang]:
                raise ValueError(
                    f"{path}, line {number}: no {lang} sentence has the id {key!r}; check file and order of columns."
                )
            row_of[lang] = rows[lang][key]
        gold.append([row_of[languages[0]], row_of[languages[1]]])
    return Comparable(texts[languages[0]], texts[languages[1]], np.array(gold))


def _two_columns(path: Path, form: str) -> list[tuple[int, str, str]]:
    """Line number and columns of each line that is not empty."""
    rows = []
    for number, line in read_lines(str(path)):
        cells = line.split("\t", 1)
        if len(cells) == 2 and all(cell.strip() for cell in cells):
            rows.append((number, cells[0].strip(), cells[1].strip()))
        elif line.strip():
            raise ValueError(f"{path}, line {number}: {line[:40]!r} is not {form}; write lines as BUCC does.")
    if not rows:
        raise ValueError(f"{path} has no line of the form {form}; check the file.")
    return rows


def mine_margin(source, target, *, k: int = 4, method: str = "cosine") -> Mined:
    """The best target of every source sentence by margin over the means of both sides' `k` nearest neighbours.

    For cosines the margin is the ratio cos(x, y) / (r(x) + r(y)) * 2; for inner products ("dot"), which have no scale
    of their own, it is the difference. Useless vectors get figures, too: a mean of zero is no error. Texts without a
    vector, whose row is zero, are in no pair.
    """
    from hfxling.sentences.blocks import both_ways  # torch with it

    source, target, is_blank = blanks_marked(source, target, method)
    # Matrices in a list are compared by inner product, whatever their kind.
    sides = (source, target) if method == "cosine" else ([source], [target])
    (columns, forward), backward = both_ways(*sides, min(k, source.shape[0], target.shape[0]))
    level = (forward.mean(1)[:, None] + backward.scores.mean(1)[columns]) / 2
    margins = forward - level if method == "dot" else forward / np.where(np.abs(level) > 1e-9, level, 1e-9)
    margins[is_blank[0][:, None] | is_blank[1][columns]] = -np.inf
    best = margins.argmax(1)
    rows = np.flatnonzero(margins.max(1) > -np.inf)
    best = best[rows]
    return rows, columns[rows, best], margins[rows, best]


def pair_counts(mined: Mined, bitext: Comparable, threshold: float = -np.inf) -> np.ndarray:
    """(N, 3) counts of right, found and wanted pairs per source sentence, without found ones below the threshold."""
    is_mined = mined[2] >= threshold
    rows, columns = mined[0][is_mined], mined[1][is_mined]
    counts = np.zeros((len(bitext.source), 3), np.int64)
    # Not +=, which counts a repeated row only once: gold pairs may share a source sentence.
    np.add.at(counts[:, 0], rows[_is_gold(rows, columns, bitext)], 1)
    np.add.at(counts[:, 1], rows, 1)
    np.add.at(counts[:, 2], bitext.gold[:, 0], 1)
    return counts


def best_threshold(mined: Mined, bitext: Comparable) -> float:
    """The threshold with the best F1: half-way between the last score kept and the first one dropped."""
    if not len(mined[2]):
        raise ValueError("the model has no vector for any sentence of the training split; give another model.")
    order = np.argsort(-mined[2], kind="stable")
    scores, right = mined[2][order], _is_gold(mined[0][order], mined[1][order], bitext)
    # F1 = 2 right / (found + wanted), of the best 1, 2, 3, ... pairs
    f1 = 2 * right.cumsum() / (np.arange(1, len(right) + 1) + len(bitext.gold))
    f1[:-1][scores[:-1] == scores[1:]] = -1  # a threshold keeps all ties or none
    last = int(f1.argmax())
    if last + 1 == len(scores):
        return float(scores[last])
    return float((scores[last] + scores[last + 1]) / 2)


def scores_of(counts: np.ndarray) -> np.ndarray:
    """(..., 3) precision, recall and F1 in percent from (..., 3) sums of right, found and wanted pairs."""
    right, mined, wanted = np.moveaxis(np.asarray(counts, np.float64), -1, 0)
    parts = [right / np.maximum(mined, 1), right / np.maximum(wanted, 1), 2 * right / np.maximum(mined + wanted, 1)]
    return 100 * np.stack(parts, -1)


def f1_of(counts: np.ndarray) -> np.ndarray:
    """(...) F1 in percent, as `scores_of`."""
    return scores_of(counts)[..., 2]


def gold_only(source, target, method: str = "cosine") -> np.ndarray:
    """(G,) F1 in percent of each gold target if row i's nearest of the G gold targets is taken as its translation.

    The mean is what mteb calls F1 on BUCC: all sentences have a translation, and there is no threshold.
    """
    source, target, is_blank = blanks_marked(source, target, method)
    from hfxling.sentences.blocks import nearest  # loads torch

    taken = nearest(source, target, 1, method)[0][:, 0]
    takes = ~is_blank[0] & ~is_blank[1][taken]  # a text without a vector takes nothing
    right = takes & (taken == np.arange(len(taken)))
    # Each target is a class, wanted once and taken any number of times: F1 = 2 right / (wanted + taken).
    return 200.0 * right / (1 + np.bincount(taken[takes], minlength=len(taken)))


def mining_results(
    bitexts: tuple[Comparable, Comparable],
    vectors: tuple[tuple, tuple],
    *,
    k: int = 4,
    method: str = "cosine",
    **fields,
) -> list[EvalResult]:
    """F1, precision and recall on the test split with a threshold from the training split; and mteb's variant.

    `vectors` are source and target vectors of training and test split, `k` and `method` as for `mine_margin`, `fields`
    those of `EvalResult`: dataset, direction, model, settings.
    """
    threshold = best_threshold(mine_margin(*vectors[0], k=k, method=method), bitexts[0])
    counts = pair_counts(mine_margin(*vectors[1], k=k, method=method), bitexts[1], threshold)
    settings = fields.pop("settings", {}) | {"method": method}
    with_threshold = settings | {"threshold": threshold, "threshold_from": bitexts[0].revision}
    fields |= {"revision": bitexts[1].revision, "split": "test"}
    precision, recall, f1 = scores_of(counts.sum(0))
    low, high = ratio_interval(f1, jackknife_error(f1_of, counts), len(counts))
    gold = bitexts[1].gold
    n = len(gold)
    source, target = vectors[1]
    of_gold = gold_only(source[gold[:, 0]], target[gold[:, 1]], method)
    of_mined = fields | {"settings": with_threshold}
    return [
        EvalResult("mining F1", f1, n, low=low, high=high, items=Items("F1", (counts,)), **of_mined),
        EvalResult("mining precision", precision, n, **of_mined),
        EvalResult("mining recall", recall, n, **of_mined),
        mean_result("gold-only F1 (mteb)", of_gold, **fields | {"settings": settings}),
    ]


def f1_test(a: np.ndarray, b: np.ndarray) -> PairedTest:
    """Compare two F1 on the same sentences, in points: test by swapping sentences' outcomes, interval by jackknife.

    `a` and `b` are (N, 3) counts of `pair_counts` for two models.
    """

    def differences(sums: np.ndarray) -> np.ndarray:
        return f1_of(sums[..., :3]) - f1_of(sums[..., 3:])

    both = np.hstack([a, b])
    difference = float(differences(both.sum(0)))
    low, high = error_interval(difference, jackknife_error(differences, both), len(both))
    # Sentences with the same counts are swapped as a group; a binomial draw says how many of them.
    kinds, counts = np.unique(both, axis=0, return_counts=True)
    rng = np.random.default_rng(0)
    swapped = np.stack([rng.binomial(count, 0.5, size=SWAPS) for count in counts], 1)
    moved = swapped @ (kinds[:, 3:] - kinds[:, :3])
    flipped = np.abs(differences(both.sum(0) + np.hstack([moved, -moved])))
    p_value = (1 + np.count_nonzero(flipped >= abs(difference) - 1e-9)) / (SWAPS + 1)
    return PairedTest(difference, low, high, 1.0 if (a == b).all() else float(p_value))


def _is_gold(rows: np.ndarray, columns: np.ndarray, bitext: Comparable) -> np.ndarray:
    """(P,) mask of the pairs that are gold pairs."""
    width = len(bitext.target)
    return np.isin(rows * width + columns, bitext.gold[:, 0] * width + bitext.gold[:, 1])
