"""Word links as a filter for OpusFilter 3 (pip install opusfilter hfxling): it keeps pairs whose words match.

`hfxling fit train.lo train.zh --languages lo zh` writes the links to outputs/fit/model. In OpusFilter's configuration,
with this file where Python finds it (PYTHONPATH=examples):

    - type: filter
      parameters:
        inputs: [raw.lo, raw.zh]
        outputs: [kept.lo, kept.zh]
        filters:
          - WordLinksFilter: {links: outputs/fit/model, languages: [lo, zh], threshold: 0}
            module: opusfilter_words

The score is that of `hfxling quality --lexical`; higher is better. Most translations are above 0, and most other pairs
are below. A step of type score writes the scores instead, from which you can choose another threshold.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import islice

from opusfilter import CLEAN_HIGH, FilterABC

import hfxling

CHUNK = 10_000  # pairs scored at a time
EMPTY = -100.0  # score of a pair with an empty side, as OpusFilter's own WordAlignFilter gives it


class WordLinksFilter(FilterABC):
    """Scores pairs by the word links of a model that `hfxling fit` wrote.

    Args:
        links: folder or Hub id of a lexical model.
        languages: codes of the first and the second side.
        threshold: lowest score of a pair that is kept.
        kwargs: arguments of every filter, `name` and `workdir`.
    """

    score_direction = CLEAN_HIGH
    accept_threshold = -math.inf
    reject_threshold = math.inf

    def __init__(self, links: str, languages: list[str], threshold: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.links, self.languages, self.threshold = links, tuple(languages), threshold

    def score(self, pairs: Iterable[tuple[str, str]]) -> Iterator[float]:
        """The score of each pair."""
        for chunk in chunks(pairs):
            source, target = [list(side) for side in zip(*chunk)]
            judged = hfxling.quality(
                source, target, languages=self.languages, lexical=self.links, skip_bad=True, progress=False
            )
            for score in judged.scores["links"]:
                yield EMPTY if math.isnan(score) else float(score)

    def accept(self, score: float) -> bool:
        """Whether a pair with this score is kept."""
        return score >= self.threshold

    def filter(self, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """The pairs that are kept."""
        for chunk in chunks(pairs):
            for pair, score in zip(chunk, self.score(chunk)):
                if self.accept(score):
                    yield pair

    def filterfalse(self, pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """The pairs that are dropped."""
        for chunk in chunks(pairs):
            for pair, score in zip(chunk, self.score(chunk)):
                if not self.accept(score):
                    yield pair


def chunks(pairs: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """The pairs in lists of `CHUNK`."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, CHUNK)):
        yield chunk
