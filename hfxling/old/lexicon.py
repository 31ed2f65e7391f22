"""A bilingual word list out of a trained aligner, with scores and example sentences, for a human to check.

hfxling lexicon train.lo train.zh --model DIR --output lo-zh.tsv [--dictionary gold.tsv]

Words come from the source file, most frequent first; translations are the nearest target words by CSLS (K = 3), words
and frequent runs of segments ("runs": Chinese words are several characters). `--by` says what makes words near: the
model's static embeddings, how often a statistical aligner links them in the files given (the default where the model
was trained with a statistical prior), or both. `--dictionary` prints P@1, P@5 and coverage.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from hfxling.arguments import key, parse_arguments
from hfxling.data.readers import read_lines
from hfxling.data.segment import EOS, Encoding, Vocabulary
from hfxling.evaluation.results import EvalResult, format_table
from hfxling.evaluation.word_translation import (
    WordTable,
    lexicon_results,
    link_vectors,
    read_dictionary,
    score_lexicon,
    translate,
    word_table,
)
from hfxling.files import atomic_path

from .align import language_pair

if TYPE_CHECKING:
    from hfxling.models.modeling_aligner import AlignerModel

EXAMPLES = 2
BY = ("static", "links", "both")
COLUMNS = ["word", "count", "rank", "translation", "score", "together"]
logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class LexiconArguments:
    """Text, model and list."""

    source: str = key("text file, one sentence a line", positional=True)
    target: str = key("its translation, line by line", positional=True)
    model: str = key("folder or Hub id of an aligner")
    output: str = key("TSV file", writes="file")
    source_lang: str | None = key("by default the model's first language", None)
    target_lang: str | None = key("by default the model's second language", None)
    top: int = key("translations of each word", 3, least=1)
    min_count: int = key("occurrences that a word or run needs", 3, least=1)
    runs: int = key("segments at most of a word made of several; 1 for none", 3, least=1)
    by: str | None = key("static embeddings, links, or both; see above", None)
    dictionary: str | None = key("TSV: word TAB translation [TAB origin], to be scored against", None)
    origin: str | None = key("only dictionary lines of this origin, e.g. concept", None)

    def __post_init__(self):
        if self.by not in (None, *BY):
            raise ValueError(f"by={self.by!r} is not one of {', '.join(BY)}.")


def main(argv: list[str] | None = None) -> list[EvalResult]:
    (args,) = parse_arguments((LexiconArguments,), argv, prog="hfxling lexicon", description=__doc__)
    from hfxling.words.aligner import load_aligner

    model, loaded = load_aligner(args.model)
    pair = language_pair(args.source_lang, args.target_lang, model.config.languages)
    for lang in pair:
        model.check_language(lang)
    vocabularies = [loaded[lang] for lang in pair]
    lines = [[text for _, text in read_lines(path)] for path in (args.source, args.target)]
    if len(lines[0]) != len(lines[1]):
        raise ValueError(f"{args.source} has {len(lines[0])} lines, {args.target} {len(lines[1])}; give aligned files.")
    encoded = [vocabulary.encode_batch(side) for vocabulary, side in zip(vocabularies, lines)]
    places = [occurrences(side, args.runs) for side in encoded]
    counts = [runs(side, args.min_count) for side in places]
    dictionary = read_dictionary(args.dictionary, origin=args.origin) if args.dictionary else {}
    extra = [[*dictionary], sorted({t for translations in dictionary.values() for t in translations})]
    known = {"-".join(order) for order in (pair, pair[::-1])} & set(model.config.priors)
    vectors = word_vectors(model, pair, vocabularies, encoded, args.by or ("links" if known else "static"))
    tables = [word_table(v, x, [*count, *more]) for v, x, count, more in zip(vocabularies, vectors, counts, extra)]
    write_list(args, lines, places, counts, tables)
    results = []
    if dictionary:
        scores = score_lexicon(dictionary, *tables)
        fields = {"dataset": args.dictionary, "split": "all", "direction": "->".join(pair), "model": args.model}
        results = lexicon_results(scores, dictionary, **fields)
        print(format_table(["metric, %", "value", "words"], [(row.metric, row.value, row.n) for row in results]))
    return results


def word_vectors(
    model: AlignerModel, pair: tuple[str, str], vocabularies: list[Vocabulary], encoded: list[list[Encoding]], by: str
) -> Sequence[np.ndarray]:
    """What words are compared by, for source and target."""
    from hfxling.words.pairs import EncodedPairs
    from hfxling.words.prior import translation_counts

    static = [model.static_table(lang).detach().numpy() for lang in pair]
    if by == "static":
        return static
    counts = translation_counts(EncodedPairs(pair, *([row.ids for row in side] for side in encoded)), vocabularies)
    return link_vectors(counts, static if by == "both" else None)


def occurrences(encoded: Sequence[Encoding], longest: int) -> dict[str, set[int]]:
    """Words that are at least one letter and nothing else, and runs of them without gaps: text -> their lines."""
    places: dict[str, set[int]] = {}
    for number, row in enumerate(encoded):
        for start in range(len(row.ids)):
            text, end = "", row.spans[start].start
            for id_, span in zip(row.ids[start : start + longest], row.spans[start : start + longest]):
                if id_ <= EOS or span.start > end or not any(map(str.isalpha, span.text)):
                    break
                text, end = text + span.text, span.end
                places.setdefault(text, set()).add(number)
    return places


def runs(places: dict[str, set[int]], min_count: int) -> dict[str, int]:
    """Words and runs of `occurrences` that enough lines have, the most frequent first: text -> lines."""
    counts = Counter({text: len(lines) for text, lines in places.items()})
    return {text: count for text, count in counts.most_common() if count >= min_count}


def write_list(
    args: LexiconArguments, lines: list, places: list[dict], counts: list[dict], tables: list[WordTable]
) -> None:
    """One row for each translation: the pairs that hold both words, the shortest of them as examples."""
    source, target = tables
    row_of = {word: row for row, word in reversed([*enumerate(source.words)])}
    asked = [word for word in counts[0] if word in row_of]
    if not asked:
        raise ValueError(f"{args.source}: no known word occurs {args.min_count} times; lower --min_count.")
    found, scores = translate(source.vectors[[row_of[word] for word in asked]], source, target, top=args.top)
    header = [*COLUMNS, *(f"example {i + 1} {side}" for i in range(EXAMPLES) for side in ("source", "target"))]
    rows = ["\t".join(header)]
    for word, candidates, values in tqdm(zip(asked, found, scores), total=len(asked), unit=" words", disable=None):
        for rank, (candidate, score) in enumerate(zip(candidates, values), 1):
            translation = target.words[candidate]
            together = places[0][word] & places[1].get(translation, set())
            shown = sorted(together, key=lambda i: (len(lines[0][i]) + len(lines[1][i]), i))[:EXAMPLES]
            examples = [side[i].strip().replace("\t", " ") for i in shown for side in lines]
            cells = [word, counts[0][word], rank, translation, f"{score:.4f}", len(together), *examples]
            rows.append("\t".join(map(str, cells + [""] * (len(header) - len(cells)))))
    with atomic_path(args.output) as scratch:
        scratch.write_text("\n".join(rows) + "\n", encoding="utf-8")
    logger.info("%d words, %d translations: %s", len(asked), len(rows) - 1, args.output)
