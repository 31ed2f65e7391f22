"""Sentence pairs with human scores: the WMT20 quality estimation task (MLQE) and SemEval-2017 Task 1 (STS17)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hfxling.files import content_hash

from .parallel import checked_rows
from .readers import Request, finite


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Sentence pairs with human scores."""

    dataset: str  # e.g. "WMT20 QE"
    split: str  # e.g. "test20"
    direction: str  # e.g. "en->de"; for STS the file's name
    source: list[str]
    target: list[str]
    scores: np.ndarray  # (N,) human scores; higher is better, or more alike
    apart: bool = False  # left out of averages

    def result_fields(self) -> dict:
        """The fields of `EvalResult` that say what was tested on."""
        revision = content_hash(self.source, self.target, map(str, self.scores.tolist()))
        return {"dataset": self.dataset, "split": self.split, "direction": self.direction, "revision": revision}


def read_scored(
    path: str | Path, *, columns: tuple[str, str] = ("source", "target"), score_column: str = "score", **fields
) -> ScoredPairs:
    """Read a TSV, CSV, JSONL or Parquet file with two text columns and a column of numbers.

    `fields` are fields of `ScoredPairs`: dataset, split, direction, apart.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file of scored pairs; check the path.")
    request = Request((str(path),), *columns, columns, score_column)
    source, target, scores = [], [], []
    for line, *texts, score in checked_rows(request):
        number = finite(score)
        if not math.isfinite(number):
            where = f"{path}, {request.unit} {line}"
            raise ValueError(f"{where}: {score_column}={score!r} is not a finite number; correct it.")
        source.append(texts[0])
        target.append(texts[1])
        scores.append(number)
    if len(scores) < 4 or len(set(scores)) == 1:
        raise ValueError(f"{path}: {len(scores)} rows with {len(set(scores))} scores have no correlation; give more.")
    return ScoredPairs(source=source, target=target, scores=np.array(scores), **fields)


def read_qe(folder: str | Path, *, split: str = "test20") -> list[ScoredPairs]:
    """WMT20 QE, task 1: the files `en-de.test20.tsv`, ... of MLQE; gold is the mean of the annotators' z-scores."""
    sets = []
    for path in _files(folder, f".{split}.tsv", "en-de", "MLQE"):
        direction = path.name.split(".")[0].replace("-", "->")
        sets.append(read_scored(path, direction=direction, dataset="WMT20 QE", split=split, score_column="z_mean"))
    return sets


def read_sts17(folder: str | Path) -> list[ScoredPairs]:
    """SemEval-2017 Task 1: the files `en-tr.tsv`, ...; en-es-wmt, which is long news text, is left out of averages."""
    sets = []
    for path in _files(folder, ".tsv", "en-tr", "STS17"):
        scored = read_scored(
            path,
            columns=("sentence1", "sentence2"),
            dataset="STS17",
            split="test",
            direction=path.stem,
            apart=path.stem.endswith("-wmt"),
        )
        sets.append(scored)
    return sets


def _files(folder: str | Path, ending: str, example: str, name: str) -> list[Path]:
    paths = sorted(Path(folder).glob(f"*-*{ending}"))
    if not paths:
        raise FileNotFoundError(f"{folder}: no files like {example}{ending}; give the folder of {name}.")
    return paths
