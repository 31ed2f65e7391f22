"""Cross-lingual sentence retrieval: does a sentence find its own translation among all the others?

The functions take arrays of sentence vectors, never a model, so that every encoder runs through the same code. Row i of
the source translates row i of the target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hfxling.sentences.neighbours import TIE, blank_rows, exact_scores, ranking_vectors, reaching, score_blocks, unit

from .averages import mean_result
from .results import EvalResult

CENTERINGS = ("none", "train", "corpus")
ENCODER = "encoder"  # name of the untrained encoder among rows of models that were trained from it


@dataclass(frozen=True, eq=False)
class Ranking:
    """The ranks of the queries' own translations in one direction."""

    direction: str  # e.g. "zh->vi"
    ranks: np.ndarray  # (N,) 1-based, query by query
    settings: dict  # method and centring, `csls_k` for CSLS, `candidates` if there are more of them than queries


def language_mean(x) -> np.ndarray:
    """(D,) mean of the unit vectors of one language, without rows of zeros: what `postprocess` subtracts."""
    is_blank = blank_rows(x)
    if is_blank.any():
        x = np.asarray(x)[~is_blank]
        if not len(x):
            return np.zeros(x.shape[1], np.float32)
    return unit(x).mean(axis=0, dtype=np.float64).astype(np.float32)


def postprocess(x, mean=None) -> np.ndarray:
    """The steps ["unit", "center", "unit"] on (N, D) vectors of one language, `mean` being from `language_mean`.

    Without a mean, the vectors are only length-normalised. Rows of zeros stay zeros.

    Raises:
        ValueError: for a mean of another dimension; for rows with NaN or infinite numbers, or that are zero after
            centring.
    """
    is_blank = blank_rows(x)
    if is_blank.any():
        ready = np.zeros(np.shape(x), np.float32)
        if not is_blank.all():
            ready[~is_blank] = postprocess(np.asarray(x)[~is_blank], mean)
        return ready
    x = unit(x)
    if mean is None:
        return x
    mean = np.asarray(mean, dtype=np.float32)
    if mean.shape != x.shape[1:]:
        raise ValueError(f"The language mean has shape {mean.shape}, but the vectors need {x.shape[1:]}.")
    x -= mean
    return unit(x)


def gold_ranks(
    source, target, *, method: str = "cosine", csls_k: int = 10, block_size: int = 1000
) -> tuple[np.ndarray, np.ndarray]:
    """Rank every sentence's own translation among all candidates, in both directions at once.

    The similarity matrix is computed once, block by block, and never held as a whole. A rank is the number of
    candidates that are at least as similar as the translation, which is included, so ties count against the model.
    Close calls are decided in float64, so that ranks do not depend on the block size or the machine's matrix product. A
    row of zeros, of a text without a vector, is similar to nothing, so its translation is never found, either. Inner
    products are taken as they are.

    Args:
        source: (N, D) sentence vectors, of any length.
        target: (M, D), M >= N; row i < N translates source row i, later rows are further candidates for the sources.
        method: "cosine", "dot" (see `nearest`), or "csls": 2 cos(x, y) minus the mean cosines of x's and of y's
            `csls_k` nearest neighbours on the other side (all N and M rows), which takes one more pass.
        csls_k: number of neighbours for CSLS; 10 is the value of its authors.
        block_size: number of rows and columns of a block.

    Returns:
        Source-to-target ranks among M targets and target-to-source ranks among N sources, both (N,) int64 and 1-based.
        A text without a vector, or whose translation has none, gets the rank after the last one.

    Raises:
        ValueError: for shapes that do not fit, vectors with NaN or infinite numbers, an unknown method, or a `csls_k`
            larger than the data.
    """
    source, target, is_blank = blanks_marked(source, target, method)
    source, target = ranking_vectors(source, target, method, csls_k=csls_k, block_size=block_size)
    n = source.shape[0]
    if target.shape[0] < n:
        raise ValueError(f"{n} source rows need at least {n} target rows, got {target.shape[0]}.")
    gold = exact_scores(source, target, np.arange(n), np.arange(n)) - TIE[method]
    forward, backward = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for rows, columns, block in score_blocks(source, target, block_size):
        if rows.start == columns.start:  # blocks are square, so these hold the diagonal
            np.fill_diagonal(block, np.inf)  # the translation itself counts once, whatever the rounding
        forward[rows] += _count_per_row(reaching(block, gold[rows, None], source[rows], target[columns]))
        if columns.start < n:  # targets from row n on are only candidates
            columns = slice(columns.start, min(columns.stop, n))
            block = block[:, : columns.stop - columns.start]
            backward[columns] += _count_per_column(reaching(block, gold[columns], source[rows], target[columns]))
    is_missed = is_blank[0] | is_blank[1][:n]
    forward[is_missed] = target.shape[0] + 1  # after all others, so that no k finds it
    backward[is_missed] = n + 1
    return forward, backward


def blanks_marked(source, target, method: str) -> tuple:
    """Both sides' vectors, and (N,) and (M,) masks of the rows of zeros, which cosines get as unlike all others."""
    if method == "dot":
        return source, target, [np.zeros(source.shape[0], bool), np.zeros(target.shape[0], bool)]
    is_blank = [blank_rows(source), blank_rows(target)]
    if is_blank[0].any() or is_blank[1].any():
        source, target = unlike_blanks(np.asarray(source), np.asarray(target))
    return source, target, is_blank


def unlike_blanks(source: np.ndarray, target: np.ndarray) -> list[np.ndarray]:
    """(N, D + 2) vectors in which a text without known segments (a row of zeros) is unlike the whole other side."""
    unlike = []
    for side, vectors in enumerate((source, target)):
        marks = np.zeros((len(vectors), 2), vectors.dtype)  # one component per side, so that blanks never match
        marks[:, side] = ~vectors.any(1)
        unlike.append(np.hstack([vectors, marks]))
    return unlike


def hits_at(ranks, k: int) -> np.ndarray:
    """(N,) 100 if a rank is `k` or better, else 0: P@k in percent, query by query."""
    if k < 1:
        raise ValueError(f"P@{k} does not exist; k starts at 1.")
    return 100.0 * (np.asarray(ranks) <= k)


def rank_translations(
    source,
    target,
    *,
    source_lang: str,
    target_lang: str,
    methods: Sequence[str] = ("cosine",),
    centering: str = "none",
    means: tuple[np.ndarray, np.ndarray] | None = None,
    csls_k: int = 10,
) -> list[Ranking]:
    """Post-process the vectors and rank both directions under every method.

    Args:
        source: (N, D) sentence vectors.
        target: (M, D), M >= N, as for `gold_ranks`.
        source_lang: code of the source language, for the rankings' names.
        target_lang: code of the target language.
        methods: any of "cosine", "csls"; or "dot" alone, which takes the vectors as they are, also scipy's sparse ones.
        centering: "none"; "train" subtracts `means`, learned from training text; "corpus" subtracts the means of the
            given vectors, which uses the test text and is impossible for a single sentence.
        means: `language_mean` of the training text of source and target; only for "train", which requires them.
        csls_k: number of neighbours for CSLS.

    Raises:
        ValueError: for an unknown centring, "train" without both means, "dot" with another method or centring, and
            whatever `gold_ranks` refuses.
    """
    if centering not in CENTERINGS:
        raise ValueError(f"centering={centering!r} is not one of {', '.join(CENTERINGS)}.")
    if centering == "none":
        means = None, None
    elif centering == "corpus":
        means = language_mean(source), language_mean(target)
    elif means is None or any(mean is None for mean in means):
        raise ValueError(
            f"centering='train' needs means of both {source_lang} and {target_lang}, learned from training text "
            "(language_mean); give them, or choose centering='none' or 'corpus'."
        )
    if "dot" in methods and (len(methods) > 1 or centering != "none"):
        raise ValueError("method 'dot' takes the vectors as they are: give no other method, and centering='none'.")
    if "dot" not in methods:
        source, target = postprocess(source, means[0]), postprocess(target, means[1])
    extra = {"candidates": target.shape[0]} if target.shape[0] > source.shape[0] else {}
    rankings = []
    for method in methods:
        settings = {"method": method, "centering": centering}
        if method == "csls":
            settings["csls_k"] = csls_k
        forward, backward = gold_ranks(source, target, method=method, csls_k=csls_k)
        rankings.append(Ranking(f"{source_lang}->{target_lang}", forward, settings | extra))
        rankings.append(Ranking(f"{target_lang}->{source_lang}", backward, settings))
    return rankings


def ranking_results(
    rankings: Sequence[Ranking],
    *,
    ks: Sequence[int] = (1, 5),
    baseline: Sequence[Ranking] | None = None,
    settings: Mapping | None = None,
    **fields,
) -> list[EvalResult]:
    """Rankings as result rows: P@k in percent with its 95% interval.

    Args:
        rankings: from `rank_translations`.
        ks: values of k; there is a row for each.
        baseline: another model's rankings of the same queries by the same methods; each row's settings then hold the
            paired test against it, in percentage points, as "paired".
        settings: added to every row's settings, e.g. {"stage": "after"}.
        **fields: further `EvalResult` fields: dataset, split, revision, model, model_revision, seed.
    """
    if baseline is not None:
        ours = [(ranking.direction, ranking.settings) for ranking in rankings]
        if ours != [(ranking.direction, ranking.settings) for ranking in baseline]:
            raise ValueError("The baseline has other directions, methods or centering; rank both models the same way.")
    rows = []
    for i, ranking in enumerate(rankings):
        for k in ks:
            theirs = None if baseline is None else hits_at(baseline[i].ranks, k)
            rows.append(
                mean_result(
                    f"P@{k}",
                    hits_at(ranking.ranks, k),
                    baseline=theirs,
                    direction=ranking.direction,
                    settings={**ranking.settings, **(settings or {})},
                    **fields,
                )
            )
    return rows


def before_after_results(
    hits: Mapping[str, Sequence[np.ndarray]], languages: tuple[str, str], *, settings: Mapping | None = None, **fields
) -> list[EvalResult]:
    """P@1 in both directions of trained models and of the untrained encoder, against which they are tested.

    Args:
        hits: by model name, for source to target and back, (N,) 100 if a translation was found, else 0; under `ENCODER`
            those of the untrained encoder, if there is one.
        languages: codes of source and target.
        settings: added to every row's, which also state stage and name.
        **fields: further `EvalResult` fields: dataset, split, revision, model, seed.
    """
    rows = []
    for name, ways in hits.items():
        is_before = name == ENCODER
        of_row = {"settings": {"stage": "before" if is_before else "after", "row": name, **(settings or {})}}
        for direction, pair in enumerate((languages, languages[::-1])):
            if not is_before and ENCODER in hits:
                of_row["baseline"] = hits[ENCODER][direction]
            rows.append(mean_result("P@1", ways[direction], direction="->".join(pair), **of_row, **fields))
    return rows


def retrieval_results(
    source,
    target,
    *,
    source_lang: str,
    target_lang: str,
    methods: Sequence[str] = ("cosine",),
    centering: str = "none",
    means: tuple[np.ndarray, np.ndarray] | None = None,
    csls_k: int = 10,
    **fields,
) -> list[EvalResult]:
    """P@k in both directions as result rows with 95% intervals; ties count as misses.

    Args:
        source: (N, D) sentence vectors.
        target: (M, D) vectors, M >= N; row i < N translates source row i, later rows are further candidates.
        source_lang: code of the source language.
        target_lang: code of the target language.
        methods: any of "cosine", "csls"; or "dot" alone, for sparse vectors, too.
        centering: "none"; "train", which subtracts `means`; or "corpus", which subtracts the means of these vectors.
        means: means of source and target training vectors, for "train".
        csls_k: number of neighbours for CSLS.
        **fields: further arguments of `ranking_results`, and fields of `EvalResult` (dataset, split, model, ...).
    """
    return ranking_results(
        rank_translations(
            source,
            target,
            source_lang=source_lang,
            target_lang=target_lang,
            methods=methods,
            centering=centering,
            means=means,
            csls_k=csls_k,
        ),
        **fields,
    )


def _count_per_row(mask: np.ndarray) -> np.ndarray:
    return np.bitwise_count(np.packbits(mask, axis=1)).sum(axis=1, dtype=np.int64)  # 3 x faster than mask.sum


def _count_per_column(mask: np.ndarray) -> np.ndarray:
    # A byte counts to 255: summing 255 rows at a time in bytes is 8 x faster than mask.sum.
    bytes_ = mask.view(np.uint8)
    starts = range(0, len(mask), 255)
    return sum(bytes_[i : i + 255].sum(axis=0, dtype=np.uint8).astype(np.int64) for i in starts)
