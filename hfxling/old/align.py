"""Word links of two line-aligned files by a trained aligner.

hfxling align SOURCE TARGET --model DIR [--source_lang lo --target_lang zh] > links

Writes one line of Pharaoh links (`i-j`, positions of words from 0) for every pair. `--spans FILE.jsonl` adds the places
of linked words in the original lines, `--heatmap FILE.png --pair 3` a picture of one pair. `--fit_confidence GOLD.tsv
--confidence FILE.json` learns from gold links how sure a link is; with that file, `--spans` carry a probability for
each link and `--min_confidence` drops doubtful ones.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from hfxling.arguments import key, parse_arguments
from hfxling.data.pharaoh import format_links, read_aligned, write_links
from hfxling.data.readers import read_lines
from hfxling.evaluation.alignment import alignment_results
from hfxling.evaluation.plots import can_draw, draw_alignment
from hfxling.evaluation.results import format_table, interval_told
from hfxling.files import atomic_path, check_apart
from hfxling.words.links import METHODS, UNITS

if TYPE_CHECKING:
    from hfxling.words.aligner import AlignedLine, Aligner
    from hfxling.words.confidence import LinkConfidence

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class AlignArguments:
    """Text, model and links."""

    source: str | None = key("text file, one sentence a line", None, positional=True)
    target: str | None = key("its translation, line by line", None, positional=True)
    model: str = key("folder or Hub id of an aligner")
    source_lang: str | None = key("by default the model's first language", None)
    target_lang: str | None = key("by default the model's second language", None)
    symmetrize: str | None = key(
        f"how links are decided: {', '.join(METHODS)}; by default mean with a prior, else itermax", None
    )
    units: str = key("words (between white space), or the model's segments", "words")
    null: float = key("weight up to which a word's best partner is no link", 0.0, least=0)
    batch_size: int | None = key("pairs at a time; by default as many as fit, the same links", None, least=1)
    output: str | None = key("links file; by default standard output", None, writes="file")
    spans: str | None = key(
        "JSON lines file with the places of the linked words in the original lines", None, writes="file"
    )
    heatmap: str | None = key("PNG of one pair's soft alignment", None, writes="file")
    pair: int = key("line number of the pair for --heatmap, from 1", 1, least=1)
    fit_confidence: str | None = key("gold file: source TAB target TAB links; needs --confidence", None)
    confidence: str | None = key("JSON file of a fitted confidence", None)
    min_confidence: float = key("drop links with a lower probability", 0.0, least=0)

    def __post_init__(self):
        if self.symmetrize not in (None, *METHODS):
            raise ValueError(f"symmetrize={self.symmetrize!r} is not one of {', '.join(METHODS)}.")
        if self.units not in UNITS:
            raise ValueError(f"units={self.units!r} is not one of {', '.join(UNITS)}.")
        if self.fit_confidence:
            if not self.confidence or self.units != "words":
                raise ValueError("--fit_confidence GOLD needs --confidence FILE to write to, and --units words.")
        elif not (self.source and self.target):
            raise ValueError("give a source and a target file, or --fit_confidence GOLD.")
        if self.heatmap and not can_draw():
            raise ValueError(f"heatmap={self.heatmap!r} needs matplotlib: pip install 'hfxling[eval]'.")
        if self.min_confidence and not self.confidence:
            raise ValueError("--min_confidence needs --confidence FILE; fit one with --fit_confidence GOLD.")


def main(argv: list[str] | None = None) -> None:
    (args,) = parse_arguments((AlignArguments,), argv, prog="hfxling align", description=__doc__)
    from hfxling.words.aligner import Aligner, load_aligner
    from hfxling.words.confidence import LinkConfidence
    from hfxling.words.prior import load_prior

    model, vocabularies = load_aligner(args.model)
    pair = language_pair(args.source_lang, args.target_lang, model.config.languages)
    prior = load_prior(args.model, model.config, pair)
    aligner = Aligner(model, vocabularies, pair, units=args.units, method=args.symmetrize, null=args.null, prior=prior)
    if args.fit_confidence:
        check_apart({"confidence": args.confidence}, [args.fit_confidence])
        fit_confidence(args, aligner)
        return
    confidence = LinkConfidence.load(args.confidence) if args.confidence else None
    if confidence and (fitted := confidence.settings.get("method", aligner.method)) != aligner.method:
        told = f"give --symmetrize {fitted}, or fit one for {aligner.method}"
        raise ValueError(f"{args.confidence} was fitted on links by {fitted}, not by {aligner.method}; {told}.")
    lines = [[text for _, text in read_lines(path)] for path in (args.source, args.target)]
    if not any(lines):
        raise ValueError(f"{args.source} and {args.target}: no line in them; give aligned text.")
    write(args, aligner, confidence, lines)


def language_pair(source_lang: str | None, target_lang: str | None, known: Sequence[str]) -> tuple[str, str]:
    """What was asked for, or else a model's first two languages."""
    return source_lang or known[0], target_lang or known[min(1, len(known) - 1)]


def fit_confidence(args: AlignArguments, aligner: Aligner) -> None:
    """Learn a confidence from gold links, and say how good links and confidence are on sentences it had not seen."""
    from hfxling.words.confidence import LinkConfidence, cross_validated, expected_calibration_error, gather

    gold = read_aligned(args.fit_confidence)
    found = aligner([" ".join(pair.source) for pair in gold], [" ".join(pair.target) for pair in gold])
    lines = list(tqdm(found, total=len(gold), unit=" pairs", disable=None))
    features, right, groups = gather(lines, gold)
    error = expected_calibration_error(cross_validated(features, right, groups), right)
    about = {"method": aligner.method, "languages": aligner.languages, "pairs": len(gold), "links": len(right)}
    LinkConfidence.fit(features, right, groups, **about, expected_calibration_error=error).save(args.confidence)
    rows = alignment_results([line.links for line in lines], gold, dataset=args.fit_confidence, split="gold")
    table = [(row.metric, row.value, interval_told(row.low, row.high)) for row in rows]
    print(format_table(["metric, %", "value", "95 %"], table))
    print(f"expected calibration error, 5-fold, 10 bins: {error:.3f}")
    logger.info("written: %s", args.confidence)


def write(args: AlignArguments, aligner: Aligner, confidence: LinkConfidence | None, lines: list[list[str]]) -> None:
    """Align, and write links, spans and picture."""
    from hfxling.words.confidence import link_features

    if not 1 <= args.pair <= len(lines[0]) and args.heatmap:
        raise ValueError(f"--pair {args.pair} is outside the lines 1-{len(lines[0])} of {args.source}.")
    all_links, records = [], []
    found = tqdm(aligner(*lines, batch_size=args.batch_size), total=len(lines[0]), unit=" pairs", disable=None)
    for number, aligned in enumerate(found, 1):
        sure = confidence(link_features(aligned)) if confidence else np.ones(len(aligned.links))
        scored = [(link, p) for link, p in zip(aligned.links, sure.tolist()) if p >= args.min_confidence]
        all_links.append([link for link, _ in scored])
        if args.spans:
            records.append(json.dumps(record(aligned, scored, confidence is not None), ensure_ascii=False))
        if args.heatmap and number == args.pair:
            words = ([span.text for span in spans] for spans in (aligned.source, aligned.target))
            mean = (aligned.soft.forward[0] + aligned.soft.backward[0]) / 2
            draw_alignment(args.heatmap, mean, *words, all_links[-1])
    if args.spans:
        with atomic_path(args.spans) as scratch:
            scratch.write_text("".join(f"{row}\n" for row in records), encoding="utf-8")
    if args.output:
        write_links(args.output, all_links)
    else:
        sys.stdout.writelines(f"{format_links(links)}\n" for links in all_links)


def record(aligned: AlignedLine, scored: list[tuple], with_confidence: bool) -> dict:
    """One pair's links with the places of their words: `line[start:end]` of the original line is the text."""
    links = []
    for (i, j), probability in scored:
        source, target = aligned.source[i], aligned.target[j]
        link = {"link": [i, j], "source": [source.start, source.end], "target": [target.start, target.end]}
        links.append(link | ({"confidence": round(probability, 4)} if with_confidence else {}))
    source, target = ([[span.start, span.end] for span in spans] for spans in (aligned.source, aligned.target))
    return {"source": source, "target": target, "links": links}
