"""Tatoeba retrieval: the 36 languages of XTREME (Hu et al. 2020) against English, both directions, with averages.

The test sets are LASER's (Artetxe and Schwenk 2019, `data/tatoeba/v1`), one per language, each with its own English
side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.parallel import load_parallel, sides_of
from hfxling.data.sources import Source
from hfxling.files import content_hash

from .averages import macro_average
from .items import mean_items
from .results import EvalResult, interval_told
from .retrieval import Ranking, hits_at, rank_translations, ranking_results

if TYPE_CHECKING:
    from datasets import Dataset

ENGLISH = "eng"
HUB_SET = "mteb/tatoeba-bitext-mining:{source}-eng"
# Languages by ISO 639-3, as the test sets are named.
XTREME = (
    *("afr", "ara", "ben", "bul", "cmn", "deu", "ell", "est", "eus", "fin", "fra", "heb", "hin", "hun", "ind", "ita"),
    *("jav", "jpn", "kat", "kaz", "kor", "mal", "mar", "nld", "pes", "por", "rus", "spa", "swh", "tam", "tel", "tgl"),
    *("tha", "tur", "urd", "vie"),
)
FEWER_THAN_1000 = ("jav", "kat", "kaz", "mal", "swh", "tam", "tel", "tha")
# XNLI's languages, which LASER is tested on. The paper (Li et al. 2023) does not list them; with these 14 and these 28
# the averages of its tables 7 and 8 agree with its table 1.
LASER = ("ara", "bul", "cmn", "deu", "ell", "fra", "hin", "rus", "spa", "swh", "tha", "tur", "urd", "vie")
GROUPS = {14: LASER, 28: tuple(lang for lang in XTREME if lang not in FEWER_THAN_1000), 36: XTREME}

Embed = Callable[[list[str]], np.ndarray]


def load_tatoeba(
    data: str | Path = HUB_SET, languages: Sequence[str] | None = XTREME, *, split: str = "test"
) -> dict[str, Dataset]:
    """Read the test sets: language -> dataset with the columns source (that language) and target (English).

    Args:
        data: a folder of line-aligned `{lang}-eng.{lang}` and `{lang}-eng.eng` files, or a source of text for
            `hfxling.data.sources` with {source} in place of the language: XTREME's own is
            "google/xtreme:tatoeba.{source}#source_sentence,target_sentence" with the split "validation".
        languages: ISO 639-3 codes; a folder may have others than XTREME's. None takes all that the folder has, or else
            XTREME's. Those of XTREME that a folder lacks are left out; `tatoeba_results` names them.
        split: split of a Hub dataset.

    Raises:
        ValueError: for an unknown language, a source without {source}, or malformed data, see `load_parallel`.
        FileNotFoundError: for a folder without any of the languages, or if there is no such dataset.
    """
    present = []
    for path in sorted(Path(data).glob("*-eng.*")):
        lang, _, suffix = path.name.partition("-eng.")
        if lang == suffix:
            present.append(lang)
    languages = languages or present or XTREME
    for lang in languages:
        if lang not in XTREME and lang not in present:
            known = " ".join(dict.fromkeys((*XTREME, *present)))
            raise ValueError(f"language {lang!r} is not in the test set; give some of: {known} (ISO 639-3).")
    if not Path(data).is_dir():
        source = Source.parse(str(data))
        if "{source}" not in source.data:
            problem = "has no {source} in place of the language's code"
            raise ValueError(f"{source.data!r} {problem}; give a folder, or a Hub id such as {HUB_SET!r}.")
        return {lang: source.load((lang, ENGLISH), split=split) for lang in languages}
    sets = {}
    for lang in languages:
        paths = [Path(data) / f"{lang}-eng.{side}" for side in (lang, ENGLISH)]
        if any(path.is_file() for path in paths):
            sets[lang] = load_parallel(paths, lang, ENGLISH)
    if not sets:
        raise FileNotFoundError(
            f"{data} holds no test set of {' '.join(languages)}; its files must be named deu-eng.deu and deu-eng.eng."
        )
    return sets


def rank_tatoeba(
    pairs: Mapping[str, Dataset], embed: Embed, *, methods: Sequence[str] = ("cosine",)
) -> dict[str, list[Ranking]]:
    """Rank every sentence's translation within its own test set, in both directions; ties count against the model.

    `embed` (N texts -> (N, D) vectors) is called once, with each distinct text once, as the English sides share many
    sentences. It may sort the texts by length itself. `methods` are any of "cosine", "csls".
    """
    row_of: dict[str, int] = {}
    for dataset in pairs.values():
        for text in chain(*sides_of(dataset)):
            row_of.setdefault(text, len(row_of))
    vectors = np.asarray(embed(list(row_of)))
    rankings = {}
    for lang, dataset in pairs.items():
        source, target = (vectors[[row_of[text] for text in side]] for side in sides_of(dataset))
        rankings[lang] = rank_translations(
            source, target, source_lang=lang, target_lang=ENGLISH, methods=methods, csls_k=min(10, len(dataset))
        )
    return rankings


def tatoeba_results(
    pairs: Mapping[str, Dataset],
    rankings: Mapping[str, Sequence[Ranking]],
    *,
    baseline: Mapping[str, Sequence[Ranking]] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    **fields,
) -> list[EvalResult]:
    """Accuracy (P@1) per language and direction, and the averages over 14, 28 and 36 languages, with 95% intervals.

    An average counts all languages equally, whatever their size, and appears only if all its languages were measured;
    `settings["missing"]` of every row names those that were not. `groups` are further averages: name -> languages. Each
    row's `revision` is the content hash of its texts. With another model's rankings as `baseline`, the rows of each
    language hold the paired test against it. `fields` are further fields of `EvalResult`: model, model_revision, seed,
    settings.
    """
    fields = {"dataset": "tatoeba", "split": "test"} | fields
    missing = [lang for lang in XTREME if lang not in rankings]
    settings = dict(fields.pop("settings", {}))
    if missing:
        settings["missing"] = missing
    hashes = {lang: content_hash(*sides_of(pairs[lang])) for lang in rankings}
    rows = []
    for lang, ranked in rankings.items():
        theirs = None if baseline is None else baseline[lang]
        rows += ranking_results(ranked, ks=(1,), baseline=theirs, settings=settings, revision=hashes[lang], **fields)
    for size, languages in (GROUPS | (groups or {})).items():
        if not set(languages) <= set(rankings):
            continue
        revision = content_hash([hashes[lang] for lang in languages])
        for ranked in zip(*(rankings[lang] for lang in languages)):  # one direction and method in all languages
            hits = [hits_at(one.ranks, 1) for one in ranked]
            value, (low, high) = macro_average(hits)
            direction = f"xx->{ENGLISH}" if ranked[0].direction.endswith(ENGLISH) else f"{ENGLISH}->xx"
            row = EvalResult(
                f"P@1 avg-{size}",
                value,
                sum(map(len, hits)),
                direction=direction,
                low=low,
                high=high,
                revision=revision,
                settings={**ranked[0].settings, **settings, "languages": size},
                items=mean_items(*hits),
                **fields,
            )
            rows.append(row)
    return rows


def tatoeba_table(rows: Sequence[EvalResult]) -> tuple[list[str], list[list]]:
    """Headers and rows for `format_table`: one row per language, averages last, both directions with intervals."""
    cells: dict[tuple, list] = {}
    for row in rows:
        size = row.settings.get("languages")
        name = f"{size} langs" if size else row.direction.replace(f"->{ENGLISH}", "").replace(f"{ENGLISH}->", "")
        method = row.settings["method"]
        cell = cells.setdefault((name, method), [name, method, row.n])
        cell += [row.value, interval_told(row.low, row.high)]
    headers = ["language", "similarity", "pairs", "xx->en", "95 %", "en->xx", "95 %"]
    return headers, list(cells.values())
