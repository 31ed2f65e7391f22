"""Scores of translations without references."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.faults import FLAGS, FaultFinder
from hfxling.data.pairs import Pairs, read_pairs
from hfxling.data.sources import name_of_pair
from hfxling.data.texts import picked
from hfxling.data.warn import COVERAGE_TEXTS, warn_of_coverage
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import Encoder, languages_of
from hfxling.evaluation.calibration import COSINE, LENGTHS, Calibration, fit_calibration, log_lengths
from hfxling.evaluation.results import format_table
from hfxling.files import atomic_path, check_text_file, is_stream
from hfxling.progress import bar
from hfxling.sentences.tables import to_tsv
from hfxling.verbs import FILE, Languages, Model, OutputFile, Result, Text, check_outputs, verb

if TYPE_CHECKING:
    from hfxling.encoders.sparse import LexicalEncoder

    Human = str | Sequence[float | None]
else:
    Human = str  # a command line names a column

logger = logging.getLogger(__name__)
BLOCK = 2_048  # pairs embedded at a time
LINKS = "links"
COLUMNS = {COSINE: "score", LINKS: LINKS}  # column of the output, by score

# Maps N sources and their N translations to (N,) values.
Scorer = Callable[[Sequence[str], Sequence[str]], np.ndarray]


@dataclass(frozen=True, repr=False)
class Scores(Result):
    """Scores and flags of N pairs.

    Attributes:
        scores: (N,) values by name: "cosine" of a model, "links" of a lexical one; NaN if a pair has none.
        flags: names of the faults of each pair; most pairs have none.
        calibrated: (N,) scores on the scale of human scores; None without a calibration.
        calibration: the calibration that gave them.
        is_fitted: whether the calibration was fitted in this run, and so is saved beside the scores.
        has_header: whether the output begins with column names, as the input did.
    """

    scores: dict[str, np.ndarray]
    flags: list[tuple[str, ...]]
    calibrated: np.ndarray | None = None
    calibration: Calibration | None = None
    is_fitted: bool = False
    has_header: bool = False

    def to_text(self) -> str:
        """A line per pair, in the order of the input: scores, flags and, with a calibration, the calibrated score."""
        columns: dict[str, Sequence] = {COLUMNS[name]: values for name, values in self.scores.items()}
        columns["flags"] = [",".join(names) for names in self.flags]
        if self.calibrated is not None:
            columns["calibrated"] = ["" if math.isnan(score) else f"{score:.4f}" for score in self.calibrated]
        text, _ = to_tsv(columns, header=self.has_header)
        return text

    def save(self, path: str | Path) -> None:
        """Write the text, and beside it, as `NAME.calibration.json`, a calibration that was fitted in this run."""
        check_text_file("path", path)
        with atomic_path(path) as scratch:
            scratch.write_text(self.to_text(), encoding="utf-8", newline="\n")
        if self.is_fitted and self.calibration and not is_stream(path):
            self.calibration.save(calibration_path(path))

    def table(self) -> str:
        """How often each flag occurs, and the error of the calibrated scores."""
        total = len(self.flags)
        counts = Counter(chain.from_iterable(self.flags))
        rows = [(flag.replace("_", " "), counts[flag], 100 * counts[flag] / total) for flag in FLAGS]
        table = f"{total} pairs\n{format_table(['flag', 'pairs', '% of pairs'], rows)}"
        if self.calibration is None:
            return table
        calibration = self.calibration
        errors = [(kind, error["mae"], error.get("pearson")) for kind, error in calibration.errors.items()]
        # More errors than those of two kinds and of the mean: several sets of features were compared.
        features = f" of {' + '.join(calibration.features)}" if len(calibration.errors) > 3 else ""
        title = f"{calibration.kind} calibration{features} on {calibration.pairs} pairs, errors by cross-validation"
        return f"{table}\n\n{title}\n{format_table(['calibration', 'mean absolute error', 'Pearson'], errors)}"


def calibration_path(output: str | Path) -> Path:
    """Where the calibration of a file of scores is written."""
    return Path(output).with_suffix(".calibration.json")


@verb
def quality(
    source: Text,
    target: Text | None = None,
    *,
    languages: Languages | None = None,
    model: Model | None = None,
    revision: str | None = None,
    lexical: Model | None = None,
    lexical_revision: str | None = None,
    human: Human | None = None,
    calibrate: str | Path | None = None,
    calibration: str | Path | None = None,
    skip_bad: bool = False,
    output: OutputFile | None = None,
    prompt: str | None = None,
    batch_size: int = 32,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Scores:
    """Score translations without references.

    The output has one line per pair, in the order of the input. It begins with the score: with `model` the cosine of
    the two embeddings, with `lexical` the score of the lexical model, with both options both scores. Then come the
    flags of faults: copy, wrong_language, truncated, too_long, repeated, empty; most pairs have none. With human scores
    of some pairs, or with the calibration of an earlier run, there is also a score on the human scale. The output has
    a header line if the input has one.

    Example:
        >>> scores = hfxling.quality("pairs.tsv", languages=("zh", "vi"), model="outputs/fit/model")
        >>> scores.scores["cosine"].mean(), scores.flags[0]

    Args:
        source: source texts, or a source that holds both sides, such as pairs.tsv or a data set with one column per
            language.
        target: translations of the source, line by line; leave it out if the source holds both sides.
        languages: codes of source and target; by default the model's first two.
        model: folder or Hub id of an encoder. If the folder holds heads for several language pairs, the head for these
            languages is used.
        revision: branch, tag or commit of the model.
        lexical: folder or Hub id of a lexical model, for its scores.
        lexical_revision: branch, tag or commit of the lexical model.
        human: column with human scores to calibrate on; cells may be empty.
        calibrate: file with that column, if it is not in the text itself.
        calibration: calibration.json of an earlier run, in place of human scores.
        skip_bad: give a pair with an empty side, or a malformed line, no score and the flag empty.
        output: file to write. A newly fitted calibration is written beside it, as NAME.calibration.json.
        prompt: text put before every sentence; by default the model's own prompt.
        batch_size: number of texts encoded at once.
        device: device to compute on; by default a GPU if there is one.
        trust_remote_code: allow the code in the model's repository to run.
        progress: show progress bars.

    Returns:
        Scores by name, flags, and the calibrated scores.

    Raises:
        ValueError: without a model or lexical model; for languages that it does not know, malformed lines, human scores
            that are not numbers, or a model that gives NaN.
        FileNotFoundError: if a text, model or calibration does not exist.
    """
    check_text_file("output", output)
    _check(languages, model, lexical, human, calibrate, calibration)
    if output is not None and human is not None and not is_stream(output):
        files = {"output": (FILE, output), "calibration": (FILE, calibration_path(output))}
        check_outputs(files, [source, target, calibrate])
    score_map = Calibration.load(calibration) if calibration is not None else None

    encoder = links = None
    if lexical is not None:
        links = load_encoder(None, lexical, lexical_revision=lexical_revision)
    if model is not None:
        encoder = load_encoder(
            head_of_pair(model, languages),
            revision=revision,
            prompt=prompt,
            batch_size=batch_size,
            device=device,
            trust_remote_code=trust_remote_code,
        )
    pair = languages_of(encoder or links, languages, needed=True)
    scorers = make_scorers(encoder, links, pair)
    model_name = None if encoder is None else encoder.name
    settings = {"model": model_name, "source_lang": pair[0], "target_lang": pair[1]}
    if links:
        settings["lexical"] = links.name
    if score_map:
        check_calibration(str(calibration), score_map, settings, scorers)

    column = human if isinstance(human, str) else None
    if calibrate is None:
        pairs = read_pairs(source, target, pair, skip_bad=skip_bad, column=column)
        gold = pairs
    else:
        pairs = read_pairs(source, target, pair, skip_bad=skip_bad)
        gold = read_pairs(calibrate, None, pair, skip_bad=skip_bad, column=column)
    gold_scores = None
    if human is not None:
        gold_scores = human_scores(gold, human if column is None else gold.values)

    whole = [sides for sides in zip(pairs.source, pairs.target) if all(sides)]
    if encoder:
        warn_of_coverage(getattr(encoder, "model", None), whole[:COVERAGE_TEXTS], pair)
    finder = FaultFinder.fit(whole, *pair)
    values, flags = judged(pairs, scorers, finder)
    if gold_scores is not None:
        of_gold = (values, flags) if gold is pairs else judged(gold, scorers, finder)
        score_map = fitted(*of_gold, gold_scores, settings)
    calibrated = np.asarray(score_map(values)) if score_map else None
    scores = {name: values[name] for name in COLUMNS if name in values}
    result = Scores(scores, flags, calibrated, score_map, gold_scores is not None, pairs.has_header)
    if output is not None:
        result.save(output)
        logger.info("scores: %s", output)
    _warn(result, pair, links)
    return result


def _check(
    languages: Languages | None,
    model: Model | None,
    lexical: Model | None,
    human: Human | None,
    calibrate: str | Path | None,
    calibration: str | Path | None,
) -> None:
    """Refuse what does not go together, before anything is loaded."""
    if languages is not None:
        languages_of(None, languages)  # refuses what is no language
    if model is None and lexical is None:
        raise ValueError("nothing to score pairs with: give a model, a lexical one, or both.")
    if calibrate is not None and not isinstance(human, str):
        raise ValueError("calibrate needs human: the column of human scores in that file.")
    if calibration is not None and human is not None:
        raise ValueError("calibration is from an earlier run and replaces human and calibrate; leave these out.")


def head_of_pair(model: Model, languages: Languages | None) -> Model:
    """The given model, or, in a folder with heads for several language pairs, the head for these languages."""
    if not isinstance(model, str | Path) or Path(model, "modules.json").is_file():
        return model
    heads = {path.parent.parent.name: path.parent for path in sorted(Path(model).glob("*/model/modules.json"))}
    if not heads:
        return model
    names = ", ".join(heads)
    if languages is None:
        raise ValueError(f"{model} has heads for {names}: give languages, such as zh vi.")
    source, target = languages
    for pair in ((source, target), (target, source)):
        if name_of_pair(pair) in heads:
            return str(heads[name_of_pair(pair)])
    raise ValueError(f"{model} has heads for {names}, none for {name_of_pair((source, target))}; train one.")


def make_scorers(encoder: Encoder | None, links: LexicalEncoder | None, languages: Languages) -> dict[str, Scorer]:
    """Functions that score pairs, by name; with links also the lengths of both sides, which calibrations use."""
    scorers: dict[str, Scorer] = {}
    if encoder:
        if encoder.method != "cosine":
            raise ValueError(f"model={encoder.name} has no dense vectors to take cosines of; give another model.")
        from sentence_transformers.util import pairwise_cos_sim

        for language in languages:
            encoder.route(language)

        def cosine(source: Sequence[str], target: Sequence[str]) -> np.ndarray:
            vectors = []
            for texts, language in zip((source, target), languages):
                vectors.append(encoder.encode(texts, language, progress=False))
            return pairwise_cos_sim(*vectors).numpy()

        scorers[COSINE] = cosine
    if links:
        links.model.check_pair(languages)
        scorers[LINKS] = lambda source, target: links.score(source, target, languages)
        scorers[LENGTHS[0]] = lambda source, target: log_lengths(source)
        scorers[LENGTHS[1]] = lambda source, target: log_lengths(target)
    return scorers


def check_calibration(path: str, calibration: Calibration, settings: Mapping, names: Iterable[str]) -> None:
    """Refuse a calibration that needs scores which are missing; warn if it is for another model or languages."""
    missing = calibration.features.keys() - set(names)
    if missing:
        features = " and ".join(calibration.features)
        parameter = "lexical" if LINKS in missing else "model"
        raise ValueError(f"{path} is a calibration of {features}: {' and '.join(sorted(missing))} needs {parameter}.")
    if calibration.settings != settings:
        logger.warning("%s was fitted for %s, not %s: its scores may be off", path, calibration.settings, settings)


def human_scores(pairs: Pairs, values: Sequence) -> np.ndarray:
    """(N,) human scores; NaN for a missing one, given as None, NaN or an empty cell."""
    if len(values) != len(pairs):
        raise ValueError(
            f"{len(values)} human scores for {len(pairs)} pairs: give one per pair (None if there is none), or a "
            "column's name."
        )
    scores = np.full(len(pairs), math.nan)
    for row, value in enumerate(values):
        is_missing = value is None or (isinstance(value, float | np.floating) and math.isnan(value))
        if is_missing or not str(value).strip():
            continue
        with suppress(TypeError, ValueError):
            scores[row] = float(value)
        if not math.isfinite(scores[row]):
            place = f"{' and '.join(pairs.files) or pairs.name}, line {pairs.lines[row]}"
            raise ValueError(
                f"{place}: human score {value!r} is not a number; correct it, or give None or an empty cell."
            )
    return scores


def judged(
    pairs: Pairs, scorers: Mapping[str, Scorer], finder: FaultFinder
) -> tuple[dict[str, np.ndarray], list[tuple[str, ...]]]:
    """(N,) values by name, and the flags of each pair; NaN and the flag "empty" if a side is empty."""
    values = {name: np.full(len(pairs), math.nan) for name in scorers}
    flags: list[tuple[str, ...]] = []
    with bar(total=len(pairs), unit="pairs") as progress:
        for start in range(0, len(pairs), BLOCK):
            sound = []
            for row in range(start, min(start + BLOCK, len(pairs))):
                is_sound = bool(pairs.source[row] and pairs.target[row])
                flags.append(finder.flags(pairs.source[row], pairs.target[row]) if is_sound else ("empty",))
                if is_sound:
                    sound.append(row)
            if sound:
                source, target = picked(sound, pairs.source, pairs.target)
                for name, score in scorers.items():
                    values[name][sound] = score(source, target)
            progress.update(len(flags) - start)
    return values, flags


def fitted(
    values: Mapping[str, np.ndarray], flags: Sequence[tuple[str, ...]], human: np.ndarray, settings: Mapping
) -> Calibration:
    """A calibration fitted on the pairs that have a human score, all model scores, and no flag."""
    is_used = np.isfinite(human) & np.array([not names for names in flags])
    for of_pairs in values.values():
        is_used &= ~np.isnan(of_pairs)
    features = {name: of_pairs[is_used] for name, of_pairs in values.items()}
    return fit_calibration(features, human[is_used], settings=dict(settings))


def _warn(result: Scores, languages: Languages, links: LexicalEncoder | None) -> None:
    """Warn if scores mean little."""
    total = len(result.flags)
    if links:
        is_sound = np.array(["empty" not in flags for flags in result.flags])
        unknown = np.count_nonzero(np.isnan(result.scores[LINKS]) & is_sound)
        if unknown:
            message = "%d of %d pairs have a side in which %s knows no segment; their score from it is empty"
            logger.warning(message, unknown, total, links.name)
    foreign = sum("wrong_language" in flags for flags in result.flags)
    if foreign > total / 2:
        logger.warning("most targets are not in %r; check the languages", languages[1])
