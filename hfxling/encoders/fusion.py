"""Fuse dense and sparse scores: each becomes CSLS with neighbours from training text, at unit variance; then add them.

The training vectors that serve as neighbours are kept with the weight, so that a single sentence can be scored. The sum
is an inner product again: of the dense vector joined with the sparse one, and two more components.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_array, hstack

from hfxling.files import atomic_path
from hfxling.sentences.neighbours import as_array, neighbour_means, unit

from .protocol import ROLES

FILE, TENSORS = "fusion.json", "fusion.safetensors"
CSLS_K = 10  # the value of the authors of CSLS
POOL = 1000  # training sentences per side that represent the rest
GRID = [0, *(1 / (1 + 2 ** (step / 2)) for step in range(14, -15, -1)), 1]  # even in the logarithm of the ratio of both
Vectors = tuple[np.ndarray, csr_array]  # (N, D) dense and (N, E) sparse ones of the same texts
Pools = Mapping[tuple[str, str], Vectors]  # by language and role


@dataclass(frozen=True)
class Fusion:
    """How much a dense and a sparse score count, and the vectors that serve as their neighbours."""

    weight: float  # of the dense score; the sparse one has 1 - weight
    # Standard deviations of both scores between sentences that do not translate each other.
    deviations: tuple[float, float]
    pools: Pools  # dense and sparse vectors of training text, of both languages in both roles
    lexical: str  # hash of the sparse encoder
    languages: tuple[str, str]
    pairs: int  # number of pairs that the weight was chosen on

    def vectors(self, dense, sparse: csr_array, language: str, role: str) -> csr_array:
        """(N, D + 2 + E) float32 vectors: the `parts`, side by side."""
        parts = self.parts(dense, sparse, language, role)
        return csr_array(hstack([csr_array(part) for part in parts], format="csr"))

    def parts(self, dense, sparse: csr_array, language: str, role: str) -> Vectors:
        """(N, D + 2) and (N, E) float32 vectors, whose inner products with those of the other role add up to the score.

        Args:
            dense: (N, D) vectors of any length.
            sparse: (N, E) vectors of the same texts in the same role.
            language: code of the texts' language; they are compared with texts in the other one.
            role: "query" or "document".
        """
        (other_language,) = {*self.languages} - {language}
        other_role = "document" if role == "query" else "query"
        dense, sparse = _ready((dense, sparse))
        of_dense, of_sparse = self.weight / self.deviations[0], (1 - self.weight) / self.deviations[1]
        dense_means, sparse_means = _hubness((dense, sparse), self.pools[other_language, other_role])
        hubness = (of_dense * dense_means + of_sparse * sparse_means)[:, None].astype(np.float32)
        one = np.ones_like(hubness)
        # CSLS of x and y, 2 x.y - r(x) - r(y), as the inner product of (2 x, -r(x), 1) and (y, 1, -r(y)).
        if role == "document":
            return np.hstack([dense, one, -hubness]), sparse
        dense, sparse = np.float32(2 * of_dense) * dense, np.float32(2 * of_sparse) * sparse
        return np.hstack([dense, -hubness, one]), csr_array(sparse)

    def check(self) -> None:
        """Refuse numbers that give no scores, or that would make scipy read outside its arrays."""
        if not 0 <= self.weight <= 1:
            raise ValueError(f"weight={self.weight} is not from 0 to 1")
        if len(self.deviations) != 2 or not np.isfinite(self.deviations).all() or min(self.deviations) <= 0:
            raise ValueError(f"deviations={self.deviations} are not two numbers above 0")
        if len(set(self.languages)) != 2 or len(self.languages) != 2:
            raise ValueError(f"languages={self.languages} are not two")
        widths = set()
        for key, (dense, sparse) in self.pools.items():
            sparse.check_format(full_check=True)
            if dense.ndim != 2 or len(dense) != sparse.shape[0] or not len(dense):
                raise ValueError(f"pool {'.'.join(key)}: {dense.shape} dense and {sparse.shape} sparse vectors")
            if not np.isfinite(dense).all() or not np.isfinite(sparse.data).all():
                raise ValueError(f"pool {'.'.join(key)} holds NaN or infinite numbers")
            widths.add((dense.shape[1], sparse.shape[1]))
        if len(widths) != 1:
            raise ValueError("pools of unequal width")

    def save(self, folder: str | Path) -> None:
        """Write `fusion.json` and `fusion.safetensors`, the pools, in the folder of the dense encoder."""
        content = {name: getattr(self, name) for name in ("weight", "deviations", "lexical", "languages", "pairs")}
        tensors = {}
        for key, (dense, sparse) in self.pools.items():
            key = ".".join(key)
            tensors[f"{key}.dense"] = dense.astype(np.float16)
            for name in ("data", "indices", "indptr"):
                tensors[f"{key}.sparse.{name}"] = getattr(sparse, name)
            tensors[f"{key}.sparse.shape"] = np.array(sparse.shape)
        with atomic_path(Path(folder) / TENSORS) as scratch:
            save_file(tensors, scratch)
        with atomic_path(Path(folder) / FILE) as scratch:
            scratch.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, lexical: str, name: str | None = None) -> Fusion:
        """Read what `save` wrote; `lexical` is the hash of the sparse encoder's weights, `name` is for errors."""
        folder, name = Path(folder), name or str(folder)
        if not (folder / FILE).is_file() or not (folder / TENSORS).is_file():
            raise FileNotFoundError(f"{name} has no {FILE} and {TENSORS}; give a folder that `hfxling fit` wrote.")
        try:
            content = json.loads((folder / FILE).read_text(encoding="utf-8"))
            tensors = load_file(folder / TENSORS)
            pools = {}
            for key in product(content["languages"], ROLES):
                stem = ".".join(key)
                parts = [tensors[f"{stem}.sparse.{part}"] for part in ("data", "indices", "indptr")]
                sparse = csr_array(tuple(parts), shape=tuple(tensors[f"{stem}.sparse.shape"].tolist()))
                pools[key] = tensors[f"{stem}.dense"].astype(np.float32), sparse
            content |= {field: tuple(content[field]) for field in ("deviations", "languages")}
            fusion = cls(pools=pools, **content)
            fusion.check()
        except Exception as error:
            raise ValueError(f"{name}: {FILE} or {TENSORS} is damaged ({error}); fit again.") from None
        if fusion.lexical != lexical:
            raise ValueError(
                f"{name}: its {FILE} was made for the lexical model {fusion.lexical}, not {lexical}; give that one, "
                "or fit again."
            )
        return fusion


def fit_fusion(
    folds: Sequence[Sequence[tuple[Vectors, Vectors, tuple[Vectors, Vectors]]]],
    pools: Pools,
    *,
    lexical: str,
    languages: Sequence[str],
) -> Fusion:
    """Choose the weight with which most queries find their translations, as far as this number of pairs can tell.

    Args:
        folds: of each fold and direction the vectors of queries, of their translations, row by row, and the pools of
            both sides, by models that did not learn from these pairs. Where no such models are at hand, folds of pairs
            that nobody learnt from.
        pools: of the models that will be used, `pool_rows` of the training text.
        lexical: hash of the sparse encoder that will be used.
        languages: codes of both languages.

    Returns:
        The fusion with the most even weights among those whose mean reciprocal rank is within one standard error of the
        largest (Breiman et al. 1984). With 50 pairs the largest can be that of one score alone, by chance.
    """
    scores, dense_unpaired, sparse_unpaired = [], [], []  # unpaired: scores of no translations
    for fold in folds:
        of_fold = []
        for source, target, of_pools in fold:
            vectors = [_ready(side) for side in (source, target, *of_pools)]
            dense, sparse = zip(*vectors)
            dense_scores, sparse_scores = _csls(*dense), _csls(*sparse)
            of_fold.append((dense_scores, sparse_scores))
            is_unpaired = ~np.eye(len(dense_scores), dtype=bool)
            dense_unpaired.append(dense_scores[is_unpaired])
            sparse_unpaired.append(sparse_scores[is_unpaired])
        scores.append(of_fold)
    deviations = spread(np.concatenate(dense_unpaired)), spread(np.concatenate(sparse_unpaired))
    reciprocal = {weight: _reciprocal_ranks(scores, weight, deviations) for weight in GRID}
    best = max(reciprocal.values(), key=np.mean)
    as_good = [weight for weight in GRID if not _is_worse(reciprocal[weight], best)]
    weight = min(as_good, key=lambda weight: abs(weight - 0.5))
    return Fusion(weight, deviations, stored(pools), lexical, tuple(languages), pairs=len(reciprocal[weight]))


def stored(pools: Pools) -> Pools:
    """Pools as `Fusion.save` keeps them: dense vectors at unit length, in half precision."""
    kept = {}
    for key, vectors in pools.items():
        dense, sparse = _ready(vectors)
        kept[key] = dense.astype(np.float16).astype(np.float32), sparse
    return kept


def pool_rows(count: int) -> np.ndarray:
    """At most `POOL` rows of `count` training pairs, drawn with a fixed seed."""
    return np.sort(np.random.default_rng(0).permutation(count)[:POOL])


def spread(values: np.ndarray) -> float:
    """Standard deviation from the quartiles, which a few pairs of very different lengths do not distort."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low) / 1.349 or 1.0  # the quartiles of a normal distribution lie 1.349 deviations apart


def _ready(vectors: Vectors) -> Vectors:
    return unit(vectors[0]), vectors[1].astype(np.float32)


def _hubness(kinds: Sequence, others: Sequence) -> list[np.ndarray]:
    """(N,) mean scores with the `CSLS_K` nearest vectors of the other side, for each kind or side."""
    return [neighbour_means(x, y, min(CSLS_K, y.shape[0]))[0] for x, y in zip(kinds, others)]


def _csls(queries, documents, of_queries, of_documents) -> np.ndarray:
    """(N, N) CSLS of one kind of vectors, with neighbours from the pools."""
    scores = queries @ documents.T
    of_rows, of_columns = _hubness((queries, documents), (of_documents, of_queries))
    return 2 * as_array(scores) - of_rows[:, None] - of_columns


def _reciprocal_ranks(scores: Sequence, weight: float, deviations: Sequence[float]) -> np.ndarray:
    """(N,) reciprocal ranks of the pairs of all folds, each the mean of its directions; ties count against it."""
    of_pairs = []
    for fold in scores:
        of_directions = []
        for dense, sparse in fold:
            fused = weight / deviations[0] * dense + (1 - weight) / deviations[1] * sparse
            of_directions.append(1 / (fused >= fused.diagonal()[:, None] - 1e-9).sum(1))
        of_pairs.append(np.mean(of_directions, axis=0))
    return np.concatenate(of_pairs)


def _is_worse(ranks: np.ndarray, best: np.ndarray) -> bool:
    """Whether (N,) reciprocal ranks are on average more than the standard error of the difference below the best."""
    lost = best - ranks
    return bool(lost.mean() > lost.std(ddof=1) / np.sqrt(len(lost)))
