"""What a linear classifier can tell from sentence vectors: here, the language of the text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hfxling.sentences.neighbours import unit

from .averages import mean_result
from .results import EvalResult


def language_probe(vectors, languages: Sequence[str], groups) -> np.ndarray:
    """Train a logistic regression to tell the language of unit vectors, and test it on 30 % of the groups.

    Args:
        vectors: (N, D) sentence vectors, of any length.
        languages: the N languages.
        groups: (N,) groups that stay on one side of the split, such as the number of the pair: the translation of a
            test sentence must not be in the training part.

    Returns:
        (M,) True if the language of a held-out vector was recognised; the mean is the accuracy.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupShuffleSplit
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    vectors, languages = unit(vectors), np.asarray(languages)
    if len(set(languages.tolist())) < 2 or len(np.unique(groups)) < 4:
        raise ValueError("A language probe needs at least two languages and four groups; give more text.")
    train, test = next(GroupShuffleSplit(1, test_size=0.3, random_state=0).split(vectors, groups=groups))
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))
    classifier.fit(vectors[train], languages[train])
    return classifier.predict(vectors[test]) == languages[test]


def probe_result(
    vectors,
    languages: Sequence[str],
    groups,
    *,
    baseline=None,
    metric: str = "language accuracy",
    settings: dict | None = None,
    **fields,
) -> EvalResult:
    """Accuracy of `language_probe` in percent, with its 95 % interval.

    `baseline` are another system's vectors of the same sentences; the row then holds the paired test. `settings` are
    added to the row's, which also say what guessing the most frequent language reaches; `fields` are those of
    `EvalResult`: dataset, split, revision, model, seed.
    """
    hits = 100.0 * language_probe(vectors, languages, groups)
    theirs = None if baseline is None else 100.0 * language_probe(baseline, languages, groups)
    counts = np.unique(np.asarray(languages), return_counts=True)[1]
    row_settings = {**(settings or {}), "guessing": round(100 * float(counts.max() / counts.sum()), 2)}
    return mean_result(metric, hits, baseline=theirs, settings=row_settings, **fields)
