"""Word links of two line-aligned files by a trained aligner.

python recipes/align.py SOURCE TARGET --model DIR [--source_lang lo --target_lang zh] > links

Writes one line of Pharaoh links (`i-j`, positions of words from 0) for every pair. `--spans FILE.jsonl` adds the places
of linked words in the original lines, `--heatmap FILE.png --pair 3` a picture of one pair. `--fit_confidence GOLD.tsv
--confidence FILE.json` learns from gold links how sure a link is; with that file, `--spans` carry a probability for
each link and `--min_confidence` drops doubtful ones.
"""

import argparse
import json
import sys
from collections.abc import Iterator

import numpy as np

from hfxling.alignment.aligner import UNITS, AlignedLine, Aligner, default_method, load_aligner
from hfxling.alignment.confidence import (
    LinkConfidence,
    cross_validated,
    expected_calibration_error,
    gather,
    link_features,
)
from hfxling.alignment.links import METHODS
from hfxling.alignment.prior import load_prior
from hfxling.arguments import run_recipe
from hfxling.data.pharaoh import format_links, read_aligned, write_links
from hfxling.data.readers import read_lines
from hfxling.evaluation.alignment import alignment_results
from hfxling.evaluation.results import format_table
from hfxling.files import atomic_path


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", help="text file, one sentence a line")
    parser.add_argument("target", nargs="?", help="its translation, line by line")
    parser.add_argument("--model", required=True, help="folder or Hub id")
    parser.add_argument("--source_lang", help="by default the model's first language")
    parser.add_argument("--target_lang", help="by default the model's second language")
    parser.add_argument(
        "--symmetrize",
        choices=METHODS,
        help="how links are decided; by default mean with a prior, else grow-diag-final-and",
    )
    parser.add_argument("--units", default="words", choices=UNITS, help="white-space words, or the model's segments")
    parser.add_argument("--null", type=float, default=0.0, help="weight up to which a word's best partner is no link")
    parser.add_argument("--batch_size", type=int, help="pairs at a time; by default as many as fit, the same links")
    parser.add_argument("--output", help="links file; by default standard output")
    parser.add_argument("--spans", help="JSON lines file with the places of the linked words in the original lines")
    parser.add_argument("--heatmap", help="PNG of one pair's soft alignment")
    parser.add_argument("--pair", type=int, default=1, help="line number of the pair for --heatmap, from 1")
    parser.add_argument("--fit_confidence", help="gold file: source TAB target TAB links; needs --confidence")
    parser.add_argument("--confidence", help="JSON file of a fitted confidence")
    parser.add_argument("--min_confidence", type=float, default=0.0, help="drop links with a lower probability")
    args = parser.parse_args(argv)
    check(args)

    model, vocabularies = load_aligner(args.model)
    languages = model.config.languages
    pair = (args.source_lang or languages[0], args.target_lang or languages[min(1, len(languages) - 1)])
    prior = load_prior(args.model, model.config, pair)
    args.symmetrize = args.symmetrize or default_method(prior)
    aligner = Aligner(model, vocabularies, pair, units=args.units, method=args.symmetrize, null=args.null, prior=prior)
    if args.fit_confidence:
        fit_confidence(args, aligner)
        return
    confidence = LinkConfidence.load(args.confidence) if args.confidence else None
    lines = [[text for _, text in read_lines(path)] for path in (args.source, args.target)]
    write(args, aligner, confidence, lines)


def check(args: argparse.Namespace) -> None:
    """Combinations that make no sense, before anything is loaded."""
    if args.fit_confidence:
        if not args.confidence or args.units != "words":
            raise ValueError("--fit_confidence GOLD needs --confidence FILE to write to, and --units words.")
    elif not (args.source and args.target):
        raise ValueError("give a source and a target file, or --fit_confidence GOLD.")
    if args.min_confidence and not args.confidence:
        raise ValueError("--min_confidence needs --confidence FILE; fit one with --fit_confidence GOLD.")


def fit_confidence(args: argparse.Namespace, aligner: Aligner) -> None:
    """Learn a confidence from gold links, and say how good links and confidence are on sentences it had not seen."""
    gold = read_aligned(args.fit_confidence)
    lines = list(aligner([" ".join(pair.source) for pair in gold], [" ".join(pair.target) for pair in gold]))
    features, right, groups = gather(lines, gold)
    error = expected_calibration_error(cross_validated(features, right, groups), right)
    about = {"method": args.symmetrize, "languages": aligner.languages, "pairs": len(gold), "links": len(right)}
    about["expected_calibration_error"] = error
    LinkConfidence.fit(features, right, groups, **about).save(args.confidence)
    rows = alignment_results([line.links for line in lines], gold, dataset=args.fit_confidence, split="gold")
    table = [(row.metric, row.value, f"{row.low:.1f}-{row.high:.1f}") for row in rows]
    print(format_table(["metric, %", "value", "95 %"], table))
    print(f"expected calibration error, 5-fold, 10 bins: {error:.3f}\nwritten: {args.confidence}")


def write(
    args: argparse.Namespace, aligner: Aligner, confidence: LinkConfidence | None, lines: list[list[str]]
) -> None:
    """Align, and write links, spans and picture."""
    if not 1 <= args.pair <= len(lines[0]) and args.heatmap:
        raise ValueError(f"--pair {args.pair} is outside the lines 1-{len(lines[0])} of {args.source}.")
    all_links, records = [], []
    for number, aligned in enumerate(aligner(*lines, batch_size=args.batch_size), 1):
        scored = list(scored_links(aligned, confidence, args.min_confidence))
        all_links.append([link for link, _ in scored])
        if args.spans:
            records.append(json.dumps(record(aligned, scored, confidence is not None), ensure_ascii=False))
        if args.heatmap and number == args.pair:
            draw(args.heatmap, aligned, all_links[-1])
    if args.spans:
        with atomic_path(args.spans) as scratch:
            scratch.write_text("".join(f"{row}\n" for row in records), encoding="utf-8")
    if args.output:
        write_links(args.output, all_links)
    else:
        sys.stdout.writelines(f"{format_links(links)}\n" for links in all_links)


def scored_links(aligned: AlignedLine, confidence: LinkConfidence | None, least: float) -> Iterator[tuple]:
    """(link, probability) of the links that are sure enough; the probability is 1 where none was learnt."""
    probabilities = confidence(link_features(aligned)) if confidence else np.ones(len(aligned.links))
    return ((link, p) for link, p in zip(aligned.links, probabilities.tolist()) if p >= least)


def record(aligned: AlignedLine, scored: list[tuple], with_confidence: bool) -> dict:
    """One pair's links with the places of their words: `line[start:end]` of the original line is the text."""
    links = []
    for (i, j), probability in scored:
        source, target = aligned.source[i], aligned.target[j]
        link = {"link": [i, j], "source": [source.start, source.end], "target": [target.start, target.end]}
        links.append(link | ({"confidence": round(probability, 4)} if with_confidence else {}))
    units = {"source": aligned.source, "target": aligned.target}
    return {side: [[span.start, span.end] for span in spans] for side, spans in units.items()} | {"links": links}


def draw(path: str, aligned: AlignedLine, links: list[tuple[int, int]]) -> None:
    """The mean of both directions' weights."""
    from hfxling.evaluation.heatmap import draw_alignment

    weights = (aligned.soft.forward[0] + aligned.soft.backward[0]) / 2
    draw_alignment(path, weights, [s.text for s in aligned.source], [s.text for s in aligned.target], links)


if __name__ == "__main__":
    run_recipe(main)
