"""Tests of a sentence encoder during and after training: retrieval on held-out text and Tatoeba, and word links."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.codes import base_code
from hfxling.data.corpus import Corpus
from hfxling.data.parallel import sides_of
from hfxling.data.pharaoh import AlignedPair, Link, read_aligned
from hfxling.data.sources import Pair, Source, joined, pair_files, read_sources
from hfxling.evaluation.alignment import alignment_results, count_links
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.items import Items
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import Ranking, hits_at, rank_translations, ranking_results
from hfxling.evaluation.short_vectors import FinalVectors
from hfxling.evaluation.tatoeba import load_tatoeba, rank_tatoeba, tatoeba_results
from hfxling.files import content_hash
from hfxling.sentences.neighbours import unit_or_zero
from hfxling.words.links import itermax_links

from .arguments import DapArguments
from .data import spread

if TYPE_CHECKING:
    from datasets import Dataset

SAMPLED = 500  # training pairs of a language pair from which the spread of its components is estimated
Embed = Callable[[list[str]], np.ndarray]
TokenStates = Callable[[Sequence[Sequence[str]]], list[np.ndarray]]
Rankings = dict[str, dict[str, list[Ranking]]]
DEVELOPMENT = "development"  # the set of training pairs that were held out
GOLD_LINKS = "gold links"  # all sets of gold links


class HeldOut:
    """Test text, to be ranked and linked by any encoder; a language pair that a test source lacks is left out."""

    def __init__(self, recipe: DapArguments):
        self.pairs, self.pivot = recipe.language_pairs, recipe.pivot
        self.sets: dict[str, dict[str, Dataset]] = {}  # by name and source language
        for text in recipe.test_sources():
            source = Source.parse(text)
            of_source = {}
            for pair in self.pairs:
                parts, _ = read_sources([source], pair, recipe.test_split)
                if parts:
                    of_source[pair[0]] = parts[0]
            if not of_source:
                raise ValueError(f"test_data={text!r} has no text of {', '.join(recipe.pairs)}; check its spelling.")
            of_name = self.sets.setdefault(source.name, {})  # parts of one collection are one set
            for lang, part in of_source.items():
                of_name[lang] = joined([of_name[lang], part]) if lang in of_name else part
        self.tatoeba = load_tatoeba(recipe.tatoeba) if recipe.tatoeba else {}
        self.tatoeba_name = "tatoeba"
        self.gold: dict[Pair, list[AlignedPair]] = {}
        for pair, path in pair_files("gold", recipe.gold).items():
            self.gold[pair] = read_aligned(path)

    def thinned(self, count: int | None) -> HeldOut:
        """Tests with `count` pairs of each Tatoeba language and a quarter as many with gold links, evenly spaced.

        Development pairs are left out, because they are for choices between finished runs.
        """
        if count is None:
            return self
        other = copy.copy(self)
        other.sets = {name: of_set for name, of_set in self.sets.items() if name != DEVELOPMENT}
        other.tatoeba_name = f"tatoeba, {count} pairs a language"
        other.tatoeba, other.gold = {}, {}
        for lang, pairs in self.tatoeba.items():
            other.tatoeba[lang] = pairs.select(spread(len(pairs), count))
        for pair, gold in self.gold.items():
            other.gold[pair] = [gold[i] for i in spread(len(gold), count // 4)]
        return other

    def tests(self) -> dict[Pair, Dataset]:
        """All test text by language pair; training text must not contain it."""
        of_tatoeba = {base_code(name): texts for name, texts in self.tatoeba.items()}
        tests = {}
        for pair in self.pairs:
            parts = [texts[pair[0]] for texts in self.sets.values() if pair[0] in texts]
            if base_code(pair[0]) in of_tatoeba:
                parts.append(of_tatoeba[base_code(pair[0])])
            if parts:
                tests[pair] = joined([part.select_columns(["source", "target"]) for part in parts])
        return tests

    def rank(self, embed: Embed) -> Rankings:
        """Rankings of every set and language, in both directions."""
        rankings = {}
        for name, pairs in self.sets.items():
            rankings[name] = {}
            for lang, data in pairs.items():
                sides = [embed(side) for side in sides_of(data)]
                rankings[name][lang] = rank_translations(*sides, source_lang=lang, target_lang=self.pivot)
        if self.tatoeba:
            rankings["tatoeba"] = rank_tatoeba(self.tatoeba, embed)
        return rankings

    def link(self, token_states: TokenStates) -> dict[Pair, list[set[Link]]]:
        """Word links of every gold set."""
        return {pair: word_links(gold, token_states) for pair, gold in self.gold.items()}

    def final_vectors(self, embed: Embed, corpus: Corpus, fields: dict) -> list[FinalVectors]:
        """Vectors of the test text without Tatoeba, and of some training text; `fields` are those of `EvalResult`."""
        train = {}
        for pair in corpus.pairs:
            some = pair.train.select(range(min(SAMPLED, len(pair.train))))
            train[pair.languages] = [embed(side) for side in sides_of(some)]
        vectors = []
        for name, pairs in self.sets.items():
            if name == DEVELOPMENT:
                continue
            for lang, data in pairs.items():
                languages, sides = (lang, self.pivot), sides_of(data)
                of_text = {"dataset": name, "split": "test", "revision": content_hash(*sides)} | fields
                test = [embed(side) for side in sides]
                vectors.append(FinalVectors(languages, test, train[languages], of_text))
        return vectors

    def results(self, rankings: Rankings, baseline: Rankings | None = None, **fields) -> list[EvalResult]:
        """The rankings as result rows, tested against `baseline` if it is given; `fields` are those of `EvalResult`."""
        rows = []
        for name, by_language in rankings.items():
            before = baseline[name] if baseline else None
            if name == "tatoeba":
                groups = self._by_training({lang: base_code(lang) for lang in self.tatoeba})
                of_text = {"groups": groups, "dataset": self.tatoeba_name}
                rows += tatoeba_results(self.tatoeba, by_language, baseline=before, **of_text, **fields)
                continue
            for lang, ranked in by_language.items():
                data = self.sets[name][lang]
                of_text = {"dataset": name, "split": "test", "revision": content_hash(*sides_of(data))}
                before_of_lang = before[lang] if before else None
                rows += ranking_results(ranked, ks=(1,), baseline=before_of_lang, **of_text, **fields)
            if name == DEVELOPMENT:
                rows += self._averaged(by_language, **fields)
        return rows

    def link_results(self, links: dict[Pair, list[set[Link]]], **fields) -> list[EvalResult]:
        """AER of the links, and its mean over the sets of trained and over those of untrained languages."""
        others = {}  # for every language pair, the language that is not the pivot
        for pair in self.gold:
            others[pair] = pair[1] if pair[0] == self.pivot else pair[0]
        return link_results(links, self.gold, self._by_training(others), **fields)

    def _averaged(self, rankings: dict[str, list[Ranking]], **fields) -> list[EvalResult]:
        """Mean P@1 over all languages, which have equally many development pairs."""
        rows, settings = [], fields.pop("settings", {})
        to_pivot, from_pivot = zip(*rankings.values())  # each language's rankings are those of both directions
        for direction, ranked in ((f"xx->{self.pivot}", to_pivot), (f"{self.pivot}->xx", from_pivot)):
            hits = np.concatenate([hits_at(ranking.ranks, 1) for ranking in ranked])
            rows.append(
                mean_result(
                    "P@1 avg",
                    hits,
                    direction=direction,
                    dataset=DEVELOPMENT,
                    split="train",
                    settings=ranked[0].settings | settings,
                    **fields,
                )
            )
        return rows

    def _by_training(self, codes: dict) -> dict[str, list]:
        """The names in `codes` (name -> language code) with training text, and those without."""
        sources = {base_code(source) for source, _ in self.pairs}
        groups = {"trained": [], "untrained": []}
        for name, code in codes.items():
            groups["trained" if code in sources else "untrained"].append(name)
        return {group: names for group, names in groups.items() if names}


def word_links(gold: Sequence[AlignedPair], token_states: TokenStates) -> list[set[Link]]:
    """Links of every pair by IterMax (Jalili Sabet et al. 2020) over the cosines of the words' vectors.

    Gold links are not looked at. A word without a vector, which has a NaN row in `token_states`, gets no link.
    """
    states = token_states([pair.source for pair in gold] + [pair.target for pair in gold])
    source_states, target_states = states[: len(gold)], states[len(gold) :]
    links = []
    for source, target in zip(source_states, target_states):
        source_units, target_units = unit_or_zero(source), unit_or_zero(target)
        cosines = source_units.astype(np.float64) @ target_units.astype(np.float64).T
        cosines = np.nan_to_num(cosines, nan=-1.0)
        (hard,) = itermax_links(cosines[None], np.array([cosines.shape]))
        links.append(set(map(tuple, np.argwhere(hard).tolist())))
    return links


def link_results(
    links: Mapping[Pair, Sequence[set[Link]]],
    gold: Mapping[Pair, Sequence[AlignedPair]],
    groups: Mapping[str, Sequence[Pair]],
    *,
    settings: dict,
    **fields,
) -> list[EvalResult]:
    """AER of every set, and the unweighted mean over the sets of each group (name -> language pairs)."""
    rows, settings = {}, settings | {"method": "itermax"}
    for pair, pairs in gold.items():
        measured = alignment_results(links[pair], pairs, dataset=GOLD_LINKS, split="test", settings=settings, **fields)
        row = next(row for row in measured if row.metric == "AER")
        # AER is 100 - F1 of these counts, so it can be tested like an F1.
        sure_hits, possible_hits, predicted, sure = count_links(links[pair], pairs).T
        items = Items("F1", (np.stack([sure_hits + possible_hits, 2 * predicted, 2 * sure], 1),))
        rows[pair] = replace(row, direction="->".join(pair), items=items)
    means = []
    for group, members in groups.items():
        value, n = np.mean([rows[pair].value for pair in members]), sum(rows[pair].n for pair in members)
        of_group = settings | {"languages": group, "average_of": ["-".join(pair) for pair in members]}
        means.append(EvalResult(f"AER avg-{group}", value, n, GOLD_LINKS, "test", settings=of_group, **fields))
    return [*rows.values(), *means]
