"""How much better the sides of given pairs fit each other than other sentences of the same text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hfxling.data.filters import count_words
from hfxling.data.texts import Texts
from hfxling.data.warn import warn_of_hubs
from hfxling.encoders.fused import FusedEncoder
from hfxling.encoders.haystack import Haystack
from hfxling.encoders.protocol import ROLES
from hfxling.sentences.blocks import both_ways
from hfxling.sentences.engine import MARGINS, SELECTIONS, check_choices, length_weights, paired_margins, select
from hfxling.sentences.neighbours import DTYPES, Neighbours, bytes_of

from .model import FusedArguments
from .pairs import COVERAGE_TEXTS, warn_of_coverage

if TYPE_CHECKING:
    from hfxling.encoders.dense import SentenceEncoder
    from hfxling.encoders.sparse import LexicalEncoder

# Chosen on 4,000 pairs of vi-zh training text, everyday sentences with many near-repetitions, a fifth of the targets
# shuffled, links of 4,000 other pairs: 97 % of these and 1.6 % of the good pairs are dropped (with 0: 98 and 8.2 %).
CLEARLY = 3.0
_CHUNK = 2_048  # pairs whose links are held at once


class PairScores(NamedTuple):
    """What is known of P pairs."""

    score: np.ndarray  # (P,) margins
    links: np.ndarray | None  # (P,) link scores with a lexical encoder; NaN where it knows nothing of a side
    elsewhere: np.ndarray  # (P,) whether a side is the mutual best match of another text, and clearly so


class PairScorer:
    """A model, a lexical encoder or both, for pairs of two languages.

    Args:
        args: those of `hfxling clean`.

    Raises:
        ValueError: an unknown margin, dtype or memory, a model that is not for these languages.
        FileNotFoundError: no such model.
    """

    def __init__(self, args: FusedArguments):
        check_choices(args.margin or MARGINS[0], SELECTIONS[0])
        bytes_of(args.memory)
        if args.dtype not in DTYPES:
            raise ValueError(f"dtype={args.dtype!r} is not one of {', '.join(DTYPES)}.")
        self.args, self.languages = args, (args.source_lang, args.target_lang)
        self.encoder = args.scorer()
        self.dense: SentenceEncoder | None = getattr(self.encoder, "dense", None if args.lexical else self.encoder)
        self.lexical: LexicalEncoder | None = getattr(self.encoder, "lexical", self.encoder) if args.lexical else None
        if self.lexical:
            self.lexical.model.check_pair(self.languages)
        for language, role in zip(self.languages, ROLES):
            if self.dense:
                self.dense.route(language, role)
            if isinstance(self.encoder, FusedEncoder):
                self.encoder.role(language)

    def __call__(self, source: Sequence[str], target: Sequence[str]) -> PairScores:
        """Scores of pairs.

        Raises:
            ValueError: fewer distinct texts than neighbours, and as `hfxling.sentences.mine_vectors`.
        """
        args, sides, rows = self.args, [], []
        for texts, language in zip((source, target), self.languages):
            number = {text: row for row, text in enumerate(dict.fromkeys(texts))}  # one neighbour, however many pairs
            sides.append(Texts(language, [0] * len(number), list(number)))
            rows.append(np.array([number[text] for text in texts], np.int64))
        if args.k > (smaller := min(len(side.texts) for side in sides)):
            raise ValueError(f"k={args.k} neighbours, but {smaller} distinct texts are left of a side; give fewer.")
        if self.dense:
            warn_of_coverage(self.dense.model, islice(zip(source, target), COVERAGE_TEXTS), self.languages)
        haystack = Haystack(
            sides,
            self.encoder,
            self.languages,
            candidates=args.candidates,
            cache_dir=args.cache_dir,
            memory=args.memory,
            dtype=args.dtype,
            device=args.device,
            batch_size=args.batch_size,
        )
        haystack.check_disk(args.k)
        margin, vectors = args.margin or haystack.margin, haystack.vectors()
        ready = (parts[0] if len(parts) == 1 else parts for parts in vectors)
        found = haystack.rescored(both_ways(*ready, haystack.kept(args.k), **haystack.search_options), args.k)
        score = paired_margins(*haystack.readers(vectors), tuple(rows), *found, margin)
        targets, sources = (select(*found, margin, way) for way in ("forward", "backward"))
        best = [targets.target[np.argsort(targets.source)], sources.source[np.argsort(sources.target)]]
        warn_of_hubs(best, [side.texts for side in sides])
        is_moved = elsewhere(found, rows, score, margin)
        if args.lexical and margin != "ratio":  # as `hfxling mine` has it
            lengths = ([count_words(text, lang) for text in side.texts] for side, lang in zip(sides, self.languages))
            score = score * length_weights(*(np.array(side)[of] for side, of in zip(lengths, rows)))
        return PairScores(score, self._links(source, target), is_moved)

    def _links(self, source: Sequence[str], target: Sequence[str]) -> np.ndarray | None:
        if not self.lexical:
            return None
        parts = (slice(start, start + _CHUNK) for start in range(0, len(source), _CHUNK))
        return np.concatenate([self.lexical.score(source[part], target[part], self.languages) for part in parts])


def elsewhere(
    found: tuple[Neighbours, Neighbours], rows: Sequence[np.ndarray], score: np.ndarray, margin: str
) -> np.ndarray:
    """(P,) whether either side is another text's mutual best match, by a clearly better margin than its own pair has.

    Of near-repetitions ("Yes." and "Yes, sir.") either translation may be the better match, by a little. Clear is what
    exceeds the pair's own margin by `CLEARLY` robust standard deviations of the margins of mutual best matches.
    """
    mined = select(*found, margin, "mutual")
    spread = 1.4826 * np.median(np.abs(mined.score - np.median(mined.score)))
    is_bad = np.zeros(len(score), bool)
    for side, other in ((0, 1), (1, 0)):
        best = np.full(len(found[side].rows), -1)
        better = np.full(len(best), -np.inf)
        best[mined[side]], better[mined[side]] = mined[other], mined.score
        is_bad |= (best[rows[side]] != rows[other]) & (better[rows[side]] > score + CLEARLY * spread)
    return is_bad
