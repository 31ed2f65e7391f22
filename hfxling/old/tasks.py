"""What `hfxling evaluate` can measure: a table of small functions, text and a model in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hfxling.data.documents import join_paragraphs
from hfxling.data.pharaoh import read_aligned
from hfxling.data.scored import read_qe, read_sts17
from hfxling.data.sources import load_pairs
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.comparison import matched, paired
from hfxling.evaluation.geometry import geometry_results
from hfxling.evaluation.mining import SPLITS, mine_margin, mining_results, read_bucc
from hfxling.evaluation.plots import can_draw, plot_bars, scatter_tokens
from hfxling.evaluation.probes import probe_result
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.retrieval import Ranking, gold_ranks, hits_at, rank_translations, ranking_results
from hfxling.evaluation.similarity import correlation_results, cosines
from hfxling.evaluation.spoilt import Spoiler
from hfxling.evaluation.tatoeba import CODES, ENGLISH, load_tatoeba, rank_tatoeba, tatoeba_results
from hfxling.evaluation.tokens import sample_pairs, token_results, token_scores
from hfxling.files import content_hash

Arguments = Any  # those of `hfxling.old.evaluate`
Encoder = Any  # what has the attributes and `encode` of `hfxling.encoders.SentenceEncoder`
Rows = list[EvalResult]
PAIR = ("source_lang", "target_lang", "data")


@dataclass(frozen=True)
class Task:
    """One way to measure a model.

    `load` reads the text and gives it with its hash: bad text is found before a model is loaded. `measure` takes the
    arguments, the text, the model, a model to compare with or None, and fields of `EvalResult`.
    """

    load: Callable[[Arguments, list[str]], tuple[Any, str]]
    measure: Callable[[Arguments, Any, Encoder, Encoder | None, dict], Rows]
    needs: tuple[str, ...] = PAIR  # arguments that it cannot do without
    dense: bool = False  # whether sparse vectors will not do
    files: int = 0  # files of vectors a side that can stand for the model; 0: a model must be there


def against(rows: Rows, theirs: Rows) -> Rows:
    """Rows whose settings carry the paired test against another model's as "paired"."""
    tests = {id(row): asdict(paired(row.items, other.items)) for row, other in matched(rows, theirs)}
    return [
        replace(row, settings=row.settings | {"paired": tests[id(row)]}) if id(row) in tests else row for row in rows
    ]


def one_model(measure: Callable[[Arguments, Any, Encoder, dict], Rows]):
    """A function that measures one model, as `Task.measure`."""

    def both(args, data, encoder, baseline, about):
        rows = measure(args, data, encoder, {**about})
        if not baseline:
            return rows
        its = {"model": baseline.label, "model_revision": baseline.revision}
        return against(rows, measure(args, data, baseline, about | its))

    return both


def _sides(encoder: Encoder, source: Sequence[str], target: Sequence[str], langs: Sequence[str], alike: bool = False):
    """Vectors of both sides; where they are `alike`, neither is a query unless the model has two kinds of vectors."""
    plain = alike and not encoder.routes and encoder.method == "cosine"
    roles = (None, None) if plain else ("query", "document")
    return [encoder.encode(texts, lang, role) for texts, lang, role in zip((source, target), langs, roles)]


def _methods(args: Arguments, encoder: Encoder) -> list[str]:
    return args.methods if encoder.method == "cosine" else [encoder.method]


def _parallel(args: Arguments, data: list[str]):
    pairs = load_pairs(data, (args.source_lang, args.target_lang), split=args.split)
    return pairs, content_hash(pairs["source"], pairs["target"])


def _paragraphs(args: Arguments, data: list[str]):
    pairs = join_paragraphs(_parallel(args, data)[0])
    return pairs, content_hash(pairs["source"], pairs["target"])


def _tatoeba_text(args: Arguments, data: list[str]):
    pairs = load_tatoeba(*data[:1], languages=args.languages or None, split=args.split)
    return pairs, content_hash(*(text for dataset in pairs.values() for text in (dataset["source"], dataset["target"])))


def _rank_tatoeba(args: Arguments, pairs: dict, encoder: Encoder) -> dict[str, list[Ranking]]:
    if not encoder.routes and encoder.method == "cosine":
        return rank_tatoeba(pairs, encoder.encode, methods=args.methods)
    ranked, names = {}, {"methods": _methods(args, encoder), "target_lang": ENGLISH}
    for lang, dataset in pairs.items():
        routes = [code if code in encoder.routes else CODES.get(code, code) for code in (lang, ENGLISH)]
        vectors = _sides(encoder, dataset["source"], dataset["target"], routes)
        ranked[lang] = rank_translations(*vectors, source_lang=lang, **names)
    return ranked


def tatoeba(args: Arguments, pairs: dict, encoder: Encoder, about: dict) -> Rows:
    """Languages against English, with the averages over 14, 28 and 36."""
    about.pop("revision")  # every language has its own
    rows = tatoeba_results(pairs, _rank_tatoeba(args, pairs, encoder), **about)
    if path := _picture(args, "tatoeba", about["model"]):
        plot_bars(path, [row for row in rows if "languages" not in row.settings])
    return rows


def retrieval(args: Arguments, pairs, encoder: Encoder, about: dict) -> Rows:
    """Each text's own translation among all of them."""
    langs = args.source_lang, args.target_lang
    options = {"methods": _methods(args, encoder), "centering": args.centering, "csls_k": min(10, len(pairs))}
    vectors = _sides(encoder, pairs["source"], pairs["target"], langs)
    return ranking_results(rank_translations(*vectors, source_lang=langs[0], target_lang=langs[1], **options), **about)


def _bucc(args: Arguments, data: list[str]):
    bitexts = tuple(read_bucc(data[0], (args.source_lang, args.target_lang), split) for split in SPLITS)
    return bitexts, content_hash(bitext.revision for bitext in bitexts)


def mining(args: Arguments, bitexts: tuple, encoder: Encoder, about: dict) -> Rows:
    """Pairs hidden in two piles of sentences."""
    langs, k = (args.source_lang, args.target_lang), args.neighbours
    vectors = tuple(tuple(_sides(encoder, bitext.source, bitext.target, langs)) for bitext in bitexts)
    about |= {"direction": "->".join(langs), "settings": about["settings"] | {"k": k}}
    return mining_results(
        bitexts, vectors, partial(mine_margin, k=k, method=encoder.method), method=encoder.method, **about
    )


def mining_hard(args: Arguments, pairs, encoder: Encoder, about: dict) -> Rows:
    """Translations among copies of all targets with another number in them."""
    langs, target = (args.source_lang, args.target_lang), pairs["target"][:]
    spoiler = Spoiler(target, langs[1])
    copies = [spoiler.number(text) for text in target]
    with_number = np.array([copy is not None for copy in copies])
    if not with_number.any():
        raise ValueError(f"task mining-hard: none of the {len(target)} target texts has a number; give other text.")
    pool = [*target, *(copy for copy in copies if copy is not None)]
    source, everything = _sides(encoder, pairs["source"], pool, langs)
    hard, _ = gold_ranks(source, everything, method=encoder.method)
    easy, _ = gold_ranks(source, everything[: len(target)], method=encoder.method)
    settings = about.pop("settings") | {"method": encoder.method, "copies": int(with_number.sum())}
    about |= {"direction": "->".join(langs), "settings": settings}
    return [
        mean_result("P@1 among copies", hits_at(hard, 1), **about),
        mean_result("P@1 among copies, with numbers", hits_at(hard, 1)[with_number], **about),
        mean_result("P@1, with numbers", hits_at(easy, 1)[with_number], **about),
    ]


def _scored(read: Callable, args: Arguments, data: list[str]):
    sets = read(args, data[0])
    return sets, content_hash(pairs.result_fields()["revision"] for pairs in sets)


def similarity(args: Arguments, sets: list, encoder: Encoder, about: dict) -> Rows:
    """Correlation of cosines, or of sparse inner products, with human scores."""
    scores = []
    for pairs in sets:
        langs = pairs.direction.replace("->", "-").split("-")[:2]
        source, target = _sides(encoder, pairs.source, pairs.target, langs, alike=True)
        scores.append(source.multiply(target).sum(1) if encoder.method == "dot" else cosines(source, target))
    own = {"dataset", "split", "revision"}  # what the sets say better
    rows = correlation_results(sets, scores, **{key: value for key, value in about.items() if key not in own})
    if path := _picture(args, about["settings"]["task"], about["model"]):
        plot_bars(path, [row for row in rows if row.metric == "Pearson"])
    return rows


def geometry(args: Arguments, pairs, encoder: Encoder, about: dict) -> Rows:
    """How near translations lie, and how evenly everything."""
    langs = args.source_lang, args.target_lang
    vectors = _sides(encoder, pairs["source"], pairs["target"], langs, alike=True)
    if path := _picture(args, "geometry", encoder.label):
        scatter_tokens(path, {encoder.label: tuple([side[:500]] for side in vectors)}, langs)
    return geometry_results([vectors], direction="-".join(langs), **about)


def probe(args: Arguments, pairs, encoder: Encoder, about: dict) -> Rows:
    """How well a linear classifier tells the language of held-out vectors."""
    langs, n = (args.source_lang, args.target_lang), len(pairs)
    vectors = _sides(encoder, pairs["source"], pairs["target"], langs, alike=True)
    names, groups = np.repeat(langs, n), np.tile(np.arange(n), 2)
    return [probe_result(np.concatenate(vectors), names, groups, direction="-".join(langs), **about)]


def _linked(args: Arguments, data: list[str]):
    langs = args.source_lang, args.target_lang
    pairs = sample_pairs(*langs, args.split) if data == ["sample"] else read_aligned(data[0])
    hashed = [[" ".join(getattr(pair, side)) for pair in pairs] for side in ("source", "target")]
    return pairs, content_hash(*hashed, [repr((sorted(pair.sure), sorted(pair.possible))) for pair in pairs])


def tokens(args: Arguments, pairs: list, encoder: Encoder, baseline: Encoder | None, about: dict) -> Rows:
    """Cosine of gold-linked words against unlinked ones, with a picture."""
    langs, sides = (args.source_lang, args.target_lang), {}

    def score(title: str, model: Encoder):
        def states(sentences):
            found = model.word_states(sentences, args.layer)
            sides[title] = (found[: len(pairs)], found[len(pairs) :])
            return found

        return token_scores(pairs, states)

    theirs = score(f"baseline: {baseline.label}", baseline) if baseline else None
    about |= {"direction": "->".join(langs)}
    rows = token_results(score(encoder.label, encoder), baseline=theirs, **about)
    if path := _picture(args, "tokens", encoder.label):
        scatter_tokens(path, sides, langs)
    return rows


def _picture(args: Arguments, name: str, label: str) -> Path | None:
    """Where a picture of a model goes; None without matplotlib."""
    if not can_draw():
        return None
    return Path(args.output) / f"{name}-{label.replace('/', '-')}.png"


TASKS: dict[str, Task] = {
    "tatoeba": Task(_tatoeba_text, one_model(tatoeba), needs=()),
    "retrieval": Task(_parallel, one_model(retrieval), files=1),
    "documents": Task(_paragraphs, one_model(retrieval), files=1),
    "mining": Task(_bucc, one_model(mining), files=2),
    "mining-hard": Task(_parallel, one_model(mining_hard)),
    "sts17": Task(partial(_scored, lambda _, folder: read_sts17(folder)), one_model(similarity), needs=("data",)),
    "qe": Task(
        partial(_scored, lambda args, folder: read_qe(folder, split=args.qe_split)),
        one_model(similarity),
        needs=("data",),
    ),
    "geometry": Task(_parallel, one_model(geometry), dense=True, files=1),
    "probe": Task(_parallel, one_model(probe), dense=True, files=1),
    "tokens": Task(_linked, tokens, dense=True),
}
