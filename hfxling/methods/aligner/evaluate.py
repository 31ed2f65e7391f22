"""Tests of an aligner: dictionaries and gold links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array
from sklearn.preprocessing import MultiLabelBinarizer

from hfxling.data.pharaoh import read_aligned, texts_of
from hfxling.data.sample import dictionary as sample_dictionary
from hfxling.data.segment import EOS, Vocabulary, normalize
from hfxling.data.sources import SAMPLE, Pair, pair_files
from hfxling.evaluation.alignment import alignment_results
from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.word_translation import (
    Dictionary,
    link_vectors,
    protocol_results,
    read_dictionary,
    score_lexicon,
    word_table,
)
from hfxling.methods.trainer import Evaluator
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.words.aligner import Aligner, LineAligner
from hfxling.words.joint import JointAligner, View
from hfxling.words.links import agreement
from hfxling.words.pairs import EncodedPairs
from hfxling.words.prior import LinkPrior

from .arguments import AlignerArguments

GOLD_METHODS = ("grow-diag-final-and", "mean", "itermax")  # ways of decoding links that are tested
Dictionaries = dict[Pair, Dictionary]


def dice_dictionary(
    source: Sequence[Sequence[str]],
    target: Sequence[Sequence[str]],
    *,
    min_dice: float = 0.8,
    min_count: int = 3,
    max_pairs: int = 5000,
) -> list[tuple[str, str]]:
    """Word pairs by Dice coefficient, 2 n(s, t) / (n(s) + n(t)), counted in sentence pairs.

    The defaults are those of the preceding paper's script (Wada et al. 2021). The dictionary serves to choose between
    models without gold links: P@1 against it rises while training helps. Word pairs with the same spelling (numbers,
    names) are left out, because in a model whose words share their pieces' vectors even an untrained one finds them.

    Args:
        source: words of each source sentence.
        target: words of each target sentence, row by row the translations.
        min_dice: least coefficient, 0..1.
        min_count: least number of sentence pairs that have both words.
        max_pairs: most word pairs; those that occur together most often are kept.

    Returns:
        (source word, target word), the most frequent first; a word may be in several of them.
    """
    (source_words, left), (target_words, right) = _occurrences(source), _occurrences(target)
    together = (left.T @ right).tocoo()
    counts = together.data
    totals = left.sum(0)[together.coords[0]] + right.sum(0)[together.coords[1]]
    dice = 2 * counts / totals
    same = np.array(source_words)[together.coords[0]] == np.array(target_words)[together.coords[1]]
    kept = np.flatnonzero((counts >= min_count) & (dice >= min_dice) & ~same)
    rows, columns = together.coords[0][kept], together.coords[1][kept]
    order = np.lexsort((columns, rows, -dice[kept], -counts[kept]))[:max_pairs]
    return [(source_words[rows[i]], target_words[columns[i]]) for i in order]


def _occurrences(sentences: Sequence[Sequence[str]]):
    """The words, sorted, and a sparse (sentences, words) matrix of ones."""
    binarizer = MultiLabelBinarizer(sparse_output=True)
    matrix = csr_array(binarizer.fit_transform(sentences))
    return binarizer.classes_.tolist(), matrix


def dice_dictionaries(pairs: Sequence[EncodedPairs], vocabularies: Mapping[str, Vocabulary]) -> Dictionaries:
    """The pseudo-dictionary of every language pair's training text, by which models are chosen without gold links."""
    dictionaries: dict[Pair, dict[str, set[str]]] = {}
    for corpus in pairs:
        source_lang, target_lang = corpus.languages
        source_words = _segments(corpus.source, vocabularies[source_lang])
        target_words = _segments(corpus.target, vocabularies[target_lang])
        for source, target in dice_dictionary(source_words, target_words):
            dictionaries.setdefault(corpus.languages, {}).setdefault(source, set()).add(target)
    return dictionaries


def _segments(sentences: Sequence[Sequence[int]], vocabulary: Vocabulary) -> list[list[str]]:
    """The text of the segments of every sentence, without special ones."""
    segments = []
    for ids in sentences:
        segments.append([vocabulary.words[i] for i in ids if i > EOS])  # EOS is the last of the special ones
    return segments


def dictionary_evaluator(
    vocabularies: Mapping[str, Vocabulary], dictionaries: Dictionaries, name: str = "Dice"
) -> Evaluator:
    """P@1 of the static vectors on each dictionary by CSLS, without intervals, as the Trainer runs it in passing."""

    def evaluate(model: AlignerModel) -> list[EvalResult]:
        rows = []
        for languages, dictionary in dictionaries.items():
            tables = [word_table(*of_language) for of_language in zip(*_static(model, vocabularies, languages))]
            ranks = score_lexicon(dictionary, *tables).ranks
            value = 100.0 * np.mean(ranks <= 1)
            rows.append(EvalResult("P@1", value, len(ranks), name, "train", direction="->".join(languages)))
        return rows

    return evaluate


@dataclass(frozen=True)
class Tests:
    """What an aligner is tested on, by (source, target) language."""

    dictionaries: Dictionaries
    gold: Mapping[Pair, str]  # files of gold links


def tests_of(arguments: AlignerArguments) -> Tests:
    """The dictionaries and gold links that a recipe names; the embedded corpus comes with its own dictionaries."""
    dictionaries: Dictionaries = {}
    for pair, path in pair_files("dictionaries", arguments.dictionaries).items():
        dictionaries[pair] = read_dictionary(path)
    if arguments.train_data == [SAMPLE]:
        for pair in arguments.language_pairs:
            if pair not in dictionaries:
                entries: dict[str, set[str]] = {}
                for source, target in sample_dictionary(*pair):
                    entries.setdefault(normalize(source), set()).add(normalize(target))
                dictionaries[pair] = entries
    return Tests(dictionaries, pair_files("gold", arguments.gold))


def _static(model: AlignerModel, vocabularies: Mapping[str, Vocabulary], languages: Pair) -> tuple[list, list]:
    """Vocabularies and static vectors of both languages."""
    return [vocabularies[lang] for lang in languages], [model.static_table(lang).cpu() for lang in languages]


def watcher(tests: Tests, vocabularies: Mapping[str, Vocabulary], priors: Sequence[LinkPrior] = ()) -> Evaluator:
    """P@1 on every dictionary by every protocol, and AER on every file of gold links, for a curve."""

    def watch(model: AlignerModel) -> list[EvalResult]:
        rows = []
        for row in evaluate(tests, model, vocabularies, priors):
            if row.metric in ("P@1", "AER"):
                how = row.settings["protocol" if row.metric == "P@1" else "decoding"]
                rows.append(replace(row, dataset=f"{row.dataset} {how}"))  # the name of the row in the log
        return rows

    return watch


def evaluate(
    tests: Tests,
    model: AlignerModel,
    vocabularies: Mapping[str, Vocabulary],
    priors: Sequence[LinkPrior] = (),
    counts: Mapping | None = None,
    **settings,
) -> list[EvalResult]:
    """P@1, P@5 and coverage of the static vectors on every dictionary, and AER on every file of gold links.

    If the counts of statistical links are given (`dictionary_counts`), words are also translated by these, and by both
    together. Gold links are decoded in the ways of `GOLD_METHODS`. If there is a prior, they are also decoded by it
    alone, and by the one of prior and network whose directions agree more on that text. `settings` go into all rows.
    """
    rows = []
    for (source, target), entries in tests.dictionaries.items():
        _check_languages("dictionaries", (source, target), vocabularies)
        words, static = _static(model, vocabularies, (source, target))
        fields = {"dataset": f"dictionary {source}-{target}", "split": "test", "direction": f"{source}->{target}"}
        rows += protocol_results(entries, words, static, settings=settings, **fields)
        if counts and (source, target) in counts:
            links = counts[source, target]
            vectors = {"links alone": link_vectors(links), "with links": link_vectors(links, static)}
            for decoding, both in vectors.items():
                how = {"decoding": decoding, **settings}
                measured = protocol_results(entries, words, both, settings=how, **fields)
                rows += [row for row in measured if row.metric.startswith("P@")]  # the coverage is the same
    return rows + gold_rows(tests.gold, model, vocabularies, priors, **settings)


def gold_rows(
    gold: Mapping[Pair, str],
    model: AlignerModel,
    vocabularies: Mapping[str, Vocabulary],
    priors: Sequence[LinkPrior] = (),
    **settings,
) -> list[EvalResult]:
    """`gold_results` of every file and way of decoding."""
    rows = []
    by_pair = {prior.languages: prior for prior in priors}
    for pair, path in gold.items():
        _check_languages("gold", pair, vocabularies)
        prior = by_pair.get(pair)
        for method in GOLD_METHODS:
            aligner = Aligner(model, vocabularies, pair, method=method, prior=prior)
            rows += gold_results(aligner, path, decoding=method, **settings)
        if prior is not None:
            view = View([vocabularies[language] for language in pair], [prior])
            alone = JointAligner(pair, [view], method="mean")
            rows += gold_results(alone, path, decoding="prior alone", **settings)
            network = Aligner(model, vocabularies, pair, method="mean", prior=prior)
            sides = texts_of(read_aligned(path))  # without looking at the gold links
            surer = max((alone, network), key=lambda aligner: _agreement(aligner, *sides))
            rows += gold_results(surer, path, decoding="by agreement", **settings)
    return rows


def _agreement(aligner: LineAligner, source: Sequence[str], target: Sequence[str]) -> float:
    """How much an aligner's two directions agree on a text."""
    return agreement(line.soft for line in aligner(source, target))


def gold_results(aligner: LineAligner, path: str, **settings) -> list[EvalResult]:
    """AER, precision, recall and F1 on a file of gold links."""
    gold = read_aligned(path)
    lines = list(aligner(*texts_of(gold)))
    return alignment_results(
        [line.links for line in lines], gold, dataset=f"gold {Path(path).stem}", split="test", settings=settings
    )


def _check_languages(name: str, pair: tuple[str, str], vocabularies: Mapping[str, Vocabulary]) -> None:
    if not set(pair) <= set(vocabularies):
        raise ValueError(f"{name}: {'-'.join(pair)}: the model only knows {', '.join(vocabularies)}.")
