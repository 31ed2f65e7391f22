"""Shortened and quantised sentence vectors: what they cost in retrieval, for stores of millions of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hfxling.sentences.neighbours import unit_or_zero

from .results import EvalResult
from .retrieval import Ranking, gold_ranks, ranking_results, unlike_blanks

DIMENSIONS = (64, 128, 256)  # and all
PRECISIONS = ("float32", "int8", "binary")  # as sentence_transformers.quantize_embeddings has them
BITS = {"float32": 32, "int8": 8, "binary": 1}  # per component
MOST = 5000  # training sentences per side that give the range of int8


@dataclass(frozen=True, eq=False)
class FinalVectors:
    """A finished model's vectors of the two sides of a test set."""

    languages: tuple[str, str]
    test: Sequence[np.ndarray]  # (N, D) each, row i of the source translates row i of the target
    train: Sequence[np.ndarray]  # (M, D) each, of training text, for the ranges
    fields: dict  # of `EvalResult`: dataset, split, revision, model, seed


def short_vector_results(vectors: FinalVectors) -> list[EvalResult]:
    """P@1 by cosine with the first 64, 128, 256 and all components, each as float32, int8 and binary.

    Rows have the settings `dimensions`, `precision` and `bytes` of a vector; with int8 also the `range` of the codes.
    int8 codes are compared by cosine, bits by the number that agree; a vector of zeros is unlike all others.
    """
    width = vectors.test[0].shape[1]
    source, target = vectors.languages
    shorter = [dimensions for dimensions in DIMENSIONS if dimensions < width]
    rankings = []
    for dimensions in [*shorter, width]:
        test = _beginnings(vectors.test[0], dimensions), _beginnings(vectors.test[1], dimensions)
        most = 0.0
        for side in vectors.train:
            most = max(most, float(np.abs(_beginnings(side[:MOST], dimensions)).max()))
        most = round(most, 3)
        for precision in PRECISIONS:
            codes = coded(test[0], precision, most), coded(test[1], precision, most)
            there, back = gold_ranks(*unlike_blanks(*codes))
            settings = {"method": "cosine", "dimensions": dimensions, "precision": precision}
            settings["bytes"] = math.ceil(dimensions * BITS[precision] / 8)
            if precision == "int8":
                settings["range"] = most
            rankings.append(Ranking(f"{source}->{target}", there, settings))
            rankings.append(Ranking(f"{target}->{source}", back, settings))
    return ranking_results(rankings, ks=(1,), settings={"stage": "after"}, **vectors.fields)


def coded(vectors: np.ndarray, precision: str, most: float) -> np.ndarray:
    """(N, D) float32 vectors with the same cosines as the codes; rows of zeros stay zeros.

    Args:
        vectors: vectors of unit length.
        precision: one of `PRECISIONS`.
        most: int8 codes divide the range from -most to most, the same for all components. A range per component, as
            `calibration_embeddings` gives, would make weak components as heavy as strong ones: on NTREX zh-vi a CCA
            then finds half as many translations.
    """
    if precision == "float32":
        return vectors
    if precision == "int8":
        from sentence_transformers import quantize_embeddings

        ranges = np.repeat([[-most], [most]], vectors.shape[1], axis=1)
        codes = quantize_embeddings(vectors, "int8", ranges=ranges).astype(np.float32)
    else:
        codes = np.where(vectors > 0, np.float32(1), np.float32(-1))  # the signs, as quantize_embeddings takes them
    return codes * vectors.any(1, keepdims=True)


def _beginnings(vectors: np.ndarray, dimensions: int) -> np.ndarray:
    """The first components of every vector, at length one."""
    return unit_or_zero(np.asarray(vectors[:, :dimensions], np.float32))
