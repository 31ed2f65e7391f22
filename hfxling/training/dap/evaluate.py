"""Retrieval on held-out text while and after a sentence encoder is trained: parallel test text, Tatoeba."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hfxling.evaluation.results import EvalResult, format_table
from hfxling.evaluation.retrieval import Ranking, rank_translations, ranking_results
from hfxling.evaluation.tatoeba import load_tatoeba, rank_tatoeba, tatoeba_results
from hfxling.files import content_hash

from .arguments import HeldOutArguments, Source

if TYPE_CHECKING:
    from datasets import Dataset


Embed = Callable[[list[str]], np.ndarray]
Rankings = dict[str, dict[str, list[Ranking]]]
_TATOEBA_CODES = (
    "af-afr ar-ara bn-ben bg-bul zh-cmn de-deu el-ell et-est eu-eus fi-fin fr-fra he-heb hi-hin hu-hun id-ind it-ita "
    "jv-jav ja-jpn ka-kat kk-kaz ko-kor ml-mal mr-mar nl-nld fa-pes pt-por ru-rus es-spa sw-swh ta-tam te-tel tl-tgl "
    "th-tha tr-tur ur-urd vi-vie"
)
TATOEBA_CODES = dict(code.split("-") for code in _TATOEBA_CODES.split())  # ISO 639-1 to the test sets' ISO 639-3


class HeldOut:
    """Test text, ranked by any embedder.

    Args:
        args: what is tested on.
        languages: codes of the non-English sides; a language that a test source lacks is left out of it.
        pivot: the other side's code.

    Attributes:
        sets: test set name -> language -> pairs.

    Raises:
        ValueError: for test text that is malformed or has none of the languages.
    """

    def __init__(self, args: HeldOutArguments, languages: Sequence[str], pivot: str = "en"):
        self.pivot = pivot
        self.sets: dict[str, dict[str, Dataset]] = {}
        for template in args.test_data:
            source = Source.parse(template)
            found = {}
            for lang in languages:
                try:
                    found[lang] = source.fill(lang, pivot).load(lang, pivot, split=args.test_split, streaming=False)
                except FileNotFoundError:
                    continue
            if not found:
                raise ValueError(f"test_data={template!r} has none of {', '.join(languages)}; check its spelling.")
            self.sets[_name(template)] = found
        self.tatoeba = load_tatoeba(args.tatoeba) if args.tatoeba else {}

    def guard(self) -> dict[str, Dataset]:
        """Test pairs by the training languages' codes, for the leakage gate."""
        from datasets import concatenate_datasets

        known = dict(self.sets)
        known["tatoeba"] = {code: self.tatoeba[name] for code, name in TATOEBA_CODES.items() if name in self.tatoeba}
        languages = dict.fromkeys(lang for pairs in known.values() for lang in pairs)
        columns = ["source", "target"]
        return {
            lang: concatenate_datasets([p[lang].select_columns(columns) for p in known.values() if lang in p])
            for lang in languages
        }

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


def before_and_after(results: Sequence[EvalResult]) -> str:
    """P@1 before and after training as a table, a set and direction a line."""
    cells: dict[tuple, dict[str, EvalResult]] = {}
    for row in results:
        cells.setdefault((row.dataset, row.direction, row.metric, row.n), {})[row.settings["stage"]] = row
    table = []
    for key, stages in cells.items():
        before, after = stages.get("before"), stages.get("after")
        interval = f"{after.low:.1f}-{after.high:.1f}" if after else None
        table.append([*key, before and before.value, after and after.value, interval])
    return format_table(["test set", "direction", "metric", "n", "before", "after", "95 %"], table)


def _name(template: str) -> str:
    """The template's folder, or the id of a Hub set."""
    data = Source.parse(template).data.partition("+")[0]
    parts = data.split("/")
    return parts[-2] if len(parts) > 2 else data.partition(":")[0]
