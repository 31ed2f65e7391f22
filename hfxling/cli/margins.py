"""How much better the sides of given pairs fit each other than other sentences of the same text."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from hfxling.data.features import cached_features
from hfxling.mining.blocks import Neighbours, both_ways, bytes_of
from hfxling.mining.engine import MARGINS, SELECTIONS, check_choices, paired_margins, select
from hfxling.mining.fusion import ROLES

from .model import FusedEncoder
from .pairs import COVERAGE_TEXTS, warn_of_coverage, warn_of_hubs

if TYPE_CHECKING:
    from hfxling.encoding import LexicalEncoder, SentenceEncoder

    from .clean import CleanArguments

logger = logging.getLogger(__name__)
_CHUNK = 2_048  # pairs whose links are held at once


class PairScores(NamedTuple):
    """What is known of P pairs."""

    score: np.ndarray  # (P,) margins
    links: np.ndarray | None  # (P,) link scores with a lexical encoder; NaN where it knows nothing of a side
    elsewhere: np.ndarray  # (P,) whether a side is the mutual best match of another text, and clearly so


class PairScorer:
    """A model, a lexical encoder or both, for pairs of two languages.

    Raises:
        ValueError: an unknown margin or memory, a model that is not for these languages.
        FileNotFoundError: no such model.
    """

    def __init__(self, args: CleanArguments):
        check_choices(args.margin or MARGINS[0], SELECTIONS[0])
        bytes_of(args.memory)
        self.args, self.languages = args, (args.source_lang, args.target_lang)
        self.encoder = args.scorer()
        self.dense: SentenceEncoder | None = getattr(self.encoder, "dense", None if args.lexical else self.encoder)
        self.lexical: LexicalEncoder | None = getattr(self.encoder, "lexical", self.encoder) if args.lexical else None
        self.margin = args.margin or ("distance" if self.lexical else "ratio")
        if self.lexical:
            self.lexical.model.check_pair(self.languages)
        for language, role in zip(self.languages, ROLES) if self.dense else ():
            self.dense.route(language, role)
        if isinstance(self.encoder, FusedEncoder) and {*self.languages} != {*self.encoder.languages}:
            known = " and ".join(self.encoder.languages)
            raise ValueError(f"{self.encoder.label} is for {known}, not {' and '.join(self.languages)}.")

    def __call__(self, source: Sequence[str], target: Sequence[str]) -> PairScores:
        """Scores of pairs.

        Raises:
            ValueError: fewer distinct texts than neighbours.
        """
        args, texts, rows = self.args, [], []
        for side in (source, target):  # a text that stands in many pairs is one neighbour
            number = {text: row for row, text in enumerate(dict.fromkeys(side))}
            texts.append(list(number))
            rows.append(np.array([number[text] for text in side], np.int64))
        if args.k > (smaller := min(map(len, texts))):
            raise ValueError(f"k={args.k} neighbours, but {smaller} distinct texts are left of a side; give fewer.")
        if self.dense:
            warn_of_coverage(self.dense.model, islice(zip(source, target), COVERAGE_TEXTS), self.languages)
        vectors = [self._vectors(*side) for side in zip(texts, self.languages, ROLES)]
        found = both_ways(*vectors, args.k, memory=args.memory, device=args.device)
        score = paired_margins(*vectors, tuple(rows), *found, self.margin)
        best = [select(*found, self.margin, way) for way in ("forward", "backward")]
        warn_of_hubs([mined[way][np.argsort(mined[1 - way])] for mined, way in zip(best, (1, 0))], texts)
        return PairScores(score, self._links(source, target), self._elsewhere(found, rows, score))

    def _vectors(self, texts: list[str], language: str, role: str):
        """Vectors of one kind, or the parts of fused ones, whose inner products add up."""
        if not self.dense:
            return self.lexical.encode(texts, language, role)
        dense, about = self.dense, {"model": self.dense.label, "revision": self.dense.revision}
        about |= {"route": dense.route(language, role), "prompt": dense.prompt}
        vectors = cached_features(
            texts,
            lambda batch: dense.encode(batch, language, role, progress=False),
            key=about,
            shape=(dense.model.get_embedding_dimension(),),
            cache_dir=self.args.cache_dir,
            description=f"encode {language}",
        )
        if not self.lexical:
            return vectors
        fused = self.encoder.fusion.vectors(vectors, self.lexical.encode(texts, language, role), language, role)
        width = vectors.shape[1]
        return [fused[:, :width].toarray(), csr_array(fused[:, width:])]

    def _links(self, source: Sequence[str], target: Sequence[str]) -> np.ndarray | None:
        if not self.lexical:
            return None
        parts = (slice(start, start + _CHUNK) for start in range(0, len(source), _CHUNK))
        return np.concatenate([self.lexical.score(source[part], target[part], self.languages) for part in parts])

    def _elsewhere(
        self, found: tuple[Neighbours, Neighbours], rows: Sequence[np.ndarray], score: np.ndarray
    ) -> np.ndarray:
        """Whether either side is another text's mutual best match, by a better margin than its own pair has."""
        mined = select(*found, self.margin, "mutual")
        is_bad = np.zeros(len(score), bool)
        for side, other in ((0, 1), (1, 0)):
            best = np.full(len(found[side].rows), -1)
            better = np.full(len(best), -np.inf)
            best[mined[side]], better[mined[side]] = mined[other], mined.score
            is_bad |= (best[rows[side]] != rows[other]) & (better[rows[side]] > score)
        return is_bad
