"""Translation quality without references: a score for every pair of a file, and the faults that it cannot see.

hfxling quality --model DIR_OR_ID --data pairs.tsv --source_lang en --target_lang de [--output scores.tsv]
hfxling quality --lexical DIR_OR_ID [--model DIR_OR_ID] --data ...

A model folder of heads for language pairs, as the disentangler recipe writes it, gives the head of the two languages.
Writes one line for every pair, in the file's order: with --model the cosine of the two embeddings, with --lexical the
link score of a lexical encoder, with both both; the flags of faults (copy, wrong_language, truncated, too_long,
repeated, empty; none for most); and, with --human, --calibrate or --calibration, the score on the scale of human
scores, of cosine and links together where there are both. The output has a header line where the input has one.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

from hfxling.arguments import key, parse_arguments
from hfxling.data.faults import FLAGS, FaultFinder
from hfxling.data.parallel import check_languages
from hfxling.data.readers import Request
from hfxling.data.sources import Pair, name_of_pair
from hfxling.evaluation.calibration import COSINE, LENGTHS, Calibration, fit_calibration, log_lengths
from hfxling.evaluation.results import format_table
from hfxling.files import atomic_path, check_apart

from .model import ModelArguments
from .pairs import COVERAGE_TEXTS, read_request, read_sides, warn_of_coverage

logger = logging.getLogger(__name__)
BLOCK = 2_048  # pairs embedded at a time
Row = tuple[str, str, float | None]  # source, target ("" where there is none), human score
Judged = tuple[dict[str, float], tuple[str, ...], float | None]  # each score, flags, human score
Scorers = dict[str, Callable[[tuple[str, ...], tuple[str, ...]], np.ndarray]]  # sources and targets to (N,) scores
LINKS = "links"
COLUMNS = {COSINE: "score", LINKS: LINKS}


@dataclass(kw_only=True)
class QualityArguments(ModelArguments):
    """Pairs, their languages, and human scores."""

    model: str | None = key("folder or Hub id; may be left out with --lexical", None)
    lexical: str | None = key("lexical encoder, folder or Hub id, whose link scores are to be written", None)
    lexical_revision: str | None = key("branch, tag or commit of the lexical encoder", None)
    data: str = key("FILE (TSV, CSV, JSONL, Parquet; #1,0 picks its columns) or FILE+FILE (line-aligned text)")
    source_lang: str = key("language code of the source side, e.g. en")
    target_lang: str = key("language code of the translations, e.g. de")
    output: str | None = key("file to write; by default DATA.scores.tsv", None, writes="file")
    human: str | None = key("column of human scores to calibrate with; may have gaps", None)
    calibrate: str | None = key("FILE with that column, if it is not in data", None)
    calibration: str | None = key("calibration of an earlier run, in place of scores", None)
    skip_bad: bool = key("lines with a fault get an empty score and flag empty", False)

    def __post_init__(self):
        check_languages(self.source_lang, self.target_lang)
        if not (self.model or self.lexical):
            raise ValueError("nothing to score pairs with: give --model, --lexical, or both")
        if self.calibrate and not self.human:
            raise ValueError("--calibrate FILE needs --human COLUMN: the column of human scores in that file")
        if self.calibration and self.human:
            raise ValueError("--calibration takes an earlier run's calibration; leave out --human and --calibrate")


def main(argv: list[str] | None = None) -> Path:
    (args,) = parse_arguments((QualityArguments,), argv, prog="hfxling quality", description=__doc__)
    calibration = Calibration.load(args.calibration) if args.calibration else None
    languages = (args.source_lang, args.target_lang)
    args.model = args.model and of_pair(args.model, languages)
    request = read_request(args.data, languages, None if args.calibrate else args.human)
    output = Path(args.output or f"{request.paths[0]}.scores.tsv")
    outputs = {"output": output}
    if args.human:
        outputs["calibration"] = output.with_suffix(".calibration.json")
    check_apart(outputs, [args.data, args.calibrate, args.calibration])
    counter = count()  # the first pass checks the whole file before anything is embedded
    seen = zip(tqdm(read_pairs(request, args.skip_bad), unit=" pairs checked", disable=None), counter)
    finder = FaultFinder.fit(((source, target) for (_, (source, target, _)), _ in seen if source), *languages)
    lines = next(counter)
    start = [pair for _, pair in islice(read_pairs(request, args.skip_bad), COVERAGE_TEXTS)]
    scorers = load_scorers(args, start)
    settings = {"model": args.model, "source_lang": args.source_lang, "target_lang": args.target_lang}
    settings |= {"lexical": args.lexical} if args.lexical else {}
    if calibration:
        check_calibration(args.calibration, calibration, settings, scorers)
    if args.calibrate:
        gold = read_pairs(read_request(args.calibrate, languages, args.human), args.skip_bad)
        calibration = fitted(judge(scorers, finder, gold), settings)
    pairs = tqdm(read_pairs(request, args.skip_bad), total=lines, unit=" pairs", disable=None)
    judged = list(judge(scorers, finder, pairs))
    if args.human and not args.calibrate:
        calibration = fitted(judged, settings)
    header = next(read_pairs(request, args.skip_bad))[0] > 1
    write(output, judged, [name for name in COLUMNS if name in scorers], calibration, header=header)
    if args.human:
        calibration.save(output.with_suffix(".calibration.json"))
    counts = Counter(flag for _, flags, _ in judged for flag in flags)
    print(summary(counts, lines, calibration))
    logger.info("scores: %s", output)
    unknown = sum(math.isnan(scores.get(LINKS, 0.0)) and "empty" not in flags for scores, flags, _ in judged)
    if unknown:
        told = (unknown, lines, args.lexical)
        logger.warning("%d of %d pairs have a side of which %s knows no segment; their link score is empty", *told)
    if counts["wrong_language"] > lines / 2:
        logger.warning("most targets are not in %r; check --source_lang and --target_lang", args.target_lang)
    return output


def of_pair(name: str, languages: Pair) -> str:
    """The model that is asked for; of a folder with a head for each of several language pairs, in either order, theirs.

    Raises:
        ValueError: heads for other language pairs only.
    """
    heads = {path.parent.parent.name: path.parent for path in sorted(Path(name).glob("*/model/modules.json"))}
    if not heads or Path(name, "modules.json").is_file():
        return name
    found = next((heads[pair] for pair in map(name_of_pair, (languages, languages[::-1])) if pair in heads), None)
    if found is None:
        raise ValueError(f"{name} has heads for {', '.join(heads)}, none for {name_of_pair(languages)}; train one")
    return str(found)


def read_pairs(request: Request, skip_bad: bool) -> Iterator[tuple[int, Row]]:
    """Yield (line, pair) for every line but a header; a line with a fault is refused, or empty with `skip_bad`."""
    for number, *sides, human in read_sides(request, skip_bad=skip_bad):
        place = f"{' and '.join(request.paths)}, {request.unit} {number}"
        if not all(sides) and not skip_bad:
            side = "target" if sides[0] else "source"
            told = f"{place}: the {side} side is empty (zero-width characters are no text)"
            raise ValueError(f"{told}; fill it in or --skip_bad")
        yield number, (*(sides if all(sides) else ("", "")), _human(human, place))


def _human(value: object, place: str) -> float | None:
    if value is None or not str(value).strip():
        return None
    with suppress(TypeError, ValueError):
        if math.isfinite(score := float(value)):
            return score
    raise ValueError(f"{place}: human score {value!r} is not a number; correct it or leave it empty")


def load_scorers(args: QualityArguments, start: list[Row]) -> Scorers:
    """What scores pairs, by name, and beside links their lengths; `start` shows whether the encoder covers them."""
    languages, found = (args.source_lang, args.target_lang), {}
    if args.lexical:
        from hfxling.encoders.sparse import LexicalEncoder

        lexical = LexicalEncoder(args.lexical, args.lexical_revision)
        lexical.model.check_pair(languages)
    if args.model:
        from sentence_transformers.util import pairwise_cos_sim

        encoder = args.encoder()
        for lang in languages:
            encoder.route(lang)
        texts = ((source, target) for source, target, _ in start if source)
        warn_of_coverage(encoder.model, texts, languages)

        def cosine(*sides: tuple[str, ...]) -> np.ndarray:
            vectors = (encoder.encode(texts, lang, progress=False) for texts, lang in zip(sides, languages))
            return pairwise_cos_sim(*vectors).numpy()

        found[COSINE] = cosine
    if args.lexical:
        found[LINKS] = lambda source, target: lexical.score(source, target, languages)
        found |= {name: lambda *sides, side=side: log_lengths(sides[side]) for side, name in enumerate(LENGTHS)}
    return found


def check_calibration(path: str, calibration: Calibration, settings: dict, names: Iterable[str]) -> None:
    """Refuse a calibration of scores that there are none of; warn of one for another model or other languages."""
    if missing := calibration.features.keys() - set(names):
        lacks = " and ".join(sorted(missing))
        option = "--lexical" if LINKS in missing else "--model"
        raise ValueError(f"{path} is a calibration of {' and '.join(calibration.features)}: {lacks} needs {option}")
    if calibration.settings != settings:
        logger.warning("%s was fitted for %s, not %s: its scores may be off", path, calibration.settings, settings)


def judge(scorers: Scorers, finder: FaultFinder, rows: Iterable[tuple[int, Row]]) -> Iterator[Judged]:
    """Yield what is found of each row, block by block; NaN and "empty" where a side is empty."""
    rows = iter(rows)
    while block := [pair for _, pair in islice(rows, BLOCK)]:
        found = {name: np.full(len(block), math.nan) for name in scorers}
        sound = [i for i, (source, _, _) in enumerate(block) if source]
        for name, score in scorers.items() if sound else ():
            found[name][sound] = score(*zip(*(block[i][:2] for i in sound)))
        for i, (source, target, human) in enumerate(block):
            scores = {name: float(of[i]) for name, of in found.items()}
            yield scores, finder.flags(source, target) if source else ("empty",), human


def fitted(judged: Iterable[Judged], settings: dict) -> Calibration:
    """A map fitted on the pairs that have a human score, every score, and no flag."""
    pairs = [(scores, human) for scores, flags, human in judged if human is not None and not flags]
    pairs = [pair for pair in pairs if not any(map(math.isnan, pair[0].values()))]
    names = pairs[0][0] if pairs else [COSINE]
    values = {name: [scores[name] for scores, _ in pairs] for name in names}
    return fit_calibration(values, [human for _, human in pairs], settings=settings)


def write(path: Path, judged: list[Judged], names: list[str], calibration: Calibration | None, header: bool) -> None:
    """A line for each pair: scores, flags and, with a calibration, the calibrated score."""
    with atomic_path(path) as scratch, scratch.open("w", encoding="utf-8", newline="\n") as file:
        if header:
            columns = [*(COLUMNS[name] for name in names), "flags", *(["calibrated"] if calibration else [])]
            file.write("\t".join(columns) + "\n")
        for scores, flags, _ in judged:
            cells = [_cell(scores[name], ".6f") for name in names] + [",".join(flags)]
            cells += [_cell(float(calibration(scores)), ".4f")] if calibration else []
            file.write("\t".join(cells) + "\n")


def _cell(value: float, form: str) -> str:
    return "" if math.isnan(value) else format(value, form)


def summary(counts: Counter, lines: int, calibration: Calibration | None) -> str:
    """Flags at a glance, and how far a calibrated score is off."""
    table = format_table(["flag", "pairs", "% of pairs"], [(f, counts[f], 100 * counts[f] / lines) for f in FLAGS])
    if calibration is None:
        return f"{lines} pairs\n{table}"
    rows = [(kind, error["mae"], error.get("pearson")) for kind, error in calibration.errors.items()]
    errors = format_table(["calibration", "mean absolute error", "Pearson"], rows)
    used = f" of {' + '.join(calibration.features)}" if len(calibration.errors) > 3 else ""
    told = f"{calibration.kind} calibration{used} on {calibration.pairs} pairs, errors by cross-validation"
    return f"{lines} pairs\n{table}\n\n{told}\n{errors}"
