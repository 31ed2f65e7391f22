"""Sentence pairs with human scores: the WMT20 quality estimation task (MLQE) and SemEval-2017 Task 1 (STS17)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hfxling.files import content_hash

from .readers import Request, read_rows


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Sentence pairs with human scores.

    Attributes:
        dataset: e.g. "WMT20 QE".
        split: e.g. "test20".
        direction: e.g. "en->de"; the file's name for STS.
        source: N texts.
        target: N texts.
        scores: (N,) human scores, higher is better or more alike.
        apart: left out of averages.
    """

    dataset: str
    split: str
    direction: str
    source: list[str]
    target: list[str]
    scores: np.ndarray
    apart: bool = False

    def result_fields(self) -> dict:
        """The fields of `EvalResult` that say what was tested on."""
        revision = content_hash(self.source, self.target, map(str, self.scores.tolist()))
        return {"dataset": self.dataset, "split": self.split, "direction": self.direction, "revision": revision}


def read_scored(
    path: str | Path,
    *,
    dataset: str,
    split: str,
    direction: str,
    columns: tuple[str, str] = ("source", "target"),
    score_column: str = "score",
    apart: bool = False,
) -> ScoredPairs:
    """Read a TSV, CSV, JSONL or Parquet file with two text columns and a column of numbers.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a missing column, an empty text or a score that is no finite number, with its line; fewer than four
            rows, or scores that are all the same.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file of scored pairs; check the path.")
    request = Request((str(path),), *columns, columns, score_column, None, False)
    source, target, scores = [], [], []
    for line, *texts, score in read_rows(request):
        for text, name in zip(texts, columns):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"{path}, {request.unit} {line}: {name} is empty; fill it in or remove the row.")
        try:
            number = float(score)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise ValueError(
                f"{path}, {request.unit} {line}: {score_column}={score!r} is no finite number; correct it."
            )
        source.append(texts[0].strip())
        target.append(texts[1].strip())
        scores.append(number)
    if len(scores) < 4 or len(set(scores)) == 1:
        raise ValueError(f"{path}: {len(scores)} rows with {len(set(scores))} scores have no correlation; give more.")
    return ScoredPairs(dataset, split, direction, source, target, np.array(scores), apart)


def read_qe(folder: str | Path, *, split: str = "test20") -> list[ScoredPairs]:
    """WMT20 QE, task 1: the files `en-de.test20.tsv`, ... of MLQE; gold is the mean of the annotators' z-scores.

    Raises:
        FileNotFoundError: when the folder has no file of that split.
        ValueError: for what `read_scored` refuses.
    """
    paths = sorted(Path(folder).glob(f"*-*.{split}.tsv"))
    if not paths:
        raise FileNotFoundError(f"{folder}: no files like en-de.{split}.tsv; give the folder of MLQE.")
    return [
        read_scored(
            path,
            dataset="WMT20 QE",
            split=split,
            direction=path.name.split(".")[0].replace("-", "->"),
            score_column="z_mean",
        )
        for path in paths
    ]


def read_sts17(folder: str | Path) -> list[ScoredPairs]:
    """SemEval-2017 Task 1: the files `en-tr.tsv`, ...; en-es-wmt, which is long news text, stays out of averages.

    Raises:
        FileNotFoundError: when the folder has no such file.
        ValueError: for what `read_scored` refuses.
    """
    paths = sorted(Path(folder).glob("*-*.tsv"))
    if not paths:
        raise FileNotFoundError(f"{folder}: no files like en-tr.tsv; give the folder of STS17.")
    return [
        read_scored(
            path,
            dataset="STS17",
            split="test",
            direction=path.stem,
            columns=("sentence1", "sentence2"),
            apart=path.stem.endswith("-wmt"),
        )
        for path in paths
    ]
