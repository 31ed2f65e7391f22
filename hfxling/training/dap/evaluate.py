"""Retrieval on held-out text while and after a sentence encoder is trained: parallel test text, Tatoeba."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.corpus import Corpus
from hfxling.data.sources import Pair, Source, joined, read_sources
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import Ranking, rank_translations, ranking_results
from hfxling.evaluation.short_vectors import FinalVectors
from hfxling.evaluation.tatoeba import CODES, load_tatoeba, rank_tatoeba, tatoeba_results
from hfxling.files import content_hash

from .arguments import DapArguments

if TYPE_CHECKING:
    from datasets import Dataset

SAMPLED = 500  # training pairs of a language pair that say how wide its components spread
Embed = Callable[[list[str]], np.ndarray]
Rankings = dict[str, dict[str, list[Ranking]]]


class HeldOut:
    """Test text, ranked by any embedder.

    Args:
        args: what is tested on, in which language pairs; a pair that a test source lacks is left out of it.

    Attributes:
        sets: test set name -> source language -> pairs.

    Raises:
        ValueError: for test text that is malformed or has none of the pairs.
        FileNotFoundError: for a file or folder that is not there.
    """

    def __init__(self, args: DapArguments):
        self.pairs, self.pivot = args.language_pairs, args.pivot
        self.sets: dict[str, dict[str, Dataset]] = {}
        for text in args.test_sources():
            source = Source.parse(text)
            found = {pair: read_sources([source], pair, args.test_split)[0] for pair in self.pairs}
            if not any(found.values()):
                raise ValueError(f"test_data={text!r} has none of {', '.join(args.pairs)}; check its spelling.")
            self.sets[source.name] = {pair[0]: parts[0] for pair, parts in found.items() if parts}
        self.tatoeba = load_tatoeba(args.tatoeba) if args.tatoeba else {}

    def tests(self) -> dict[Pair, Dataset]:
        """All test text by language pair: training text is kept free of it."""
        known = dict(self.sets)
        known["tatoeba"] = {code: self.tatoeba[name] for name, code in CODES.items() if name in self.tatoeba}
        columns = ["source", "target"]
        found = {
            pair: [texts[pair[0]].select_columns(columns) for texts in known.values() if pair[0] in texts]
            for pair in self.pairs
        }
        return {pair: joined(parts) for pair, parts in found.items() if parts}

    def rank(self, embed: Embed) -> Rankings:
        """Rankings of every set and language, both directions."""
        rankings = {
            name: {
                lang: rank_translations(
                    embed(data["source"][:]), embed(data["target"][:]), source_lang=lang, target_lang=self.pivot
                )
                for lang, data in pairs.items()
            }
            for name, pairs in self.sets.items()
        }
        return rankings | ({"tatoeba": rank_tatoeba(self.tatoeba, embed)} if self.tatoeba else {})

    def final_vectors(self, embed: Embed, corpus: Corpus, fields: dict) -> list[FinalVectors]:
        """Vectors of the test text, Tatoeba left out, and of some of the training text; `fields` of `EvalResult`."""
        train = {
            pair.languages: [embed([row[side] for row in islice(pair.train, SAMPLED)]) for side in ("source", "target")]
            for pair in corpus.pairs
        }
        found = []
        for name, pairs in self.sets.items():
            for lang, data in pairs.items():
                sides = [data["source"][:], data["target"][:]]
                about = {"dataset": name, "split": "test", "revision": content_hash(*sides)} | fields
                languages = (lang, self.pivot)
                found.append(FinalVectors(languages, [embed(side) for side in sides], train[languages], about))
        return found

    def results(self, rankings: Rankings, baseline: Rankings | None = None, **fields) -> list[EvalResult]:
        """The rankings as result rows, tested against `baseline` where one is given; `fields` as for `EvalResult`."""
        rows = []
        for name, by_language in rankings.items():
            theirs = baseline and baseline[name]
            if name == "tatoeba":
                rows += tatoeba_results(self.tatoeba, by_language, baseline=theirs, **fields)
                continue
            for lang, ranked in by_language.items():
                data = self.sets[name][lang]
                about = {"dataset": name, "split": "test", "revision": content_hash(data["source"], data["target"])}
                rows += ranking_results(ranked, ks=(1,), baseline=theirs and theirs[lang], **about, **fields)
        return rows
