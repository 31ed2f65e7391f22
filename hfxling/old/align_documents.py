"""Sentences of two texts that translate each other, one or several with one or several, document by document.

hfxling align-documents book.zh book.vi --lexical DIR --output beads.tsv
hfxling align-documents news.zh news.vi --model ID --output beads.parquet --pair_documents

One sentence a line, an empty line between documents. The documents stand in the same order in both files, unless
--pair_documents finds out which ones belong together. Order within a document is kept; sentences may be missing, split
or joined on either side. Every sentence is in one row of the output: numbers of the documents, line numbers in the
files, score (what the pair lies above random ones; 0 without a translation), joined texts.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from hfxling.arguments import key, parse_arguments
from hfxling.data.documents import UNSPACED
from hfxling.data.readers import read_lines, suffix_of
from hfxling.evaluation.results import format_table
from hfxling.files import atomic_path
from hfxling.sentences.beads import MAX_JOINED, Bead, align_documents, match_documents

from .model import FusedArguments

COLUMNS = ("source_document", "target_document", "source_lines", "target_lines", "score", "source", "target")


@dataclass(kw_only=True)
class AlignDocumentsArguments(FusedArguments):
    """Texts and beads."""

    source: str = key("text file, .gz or not: one sentence a line, an empty line between documents", positional=True)
    target: str = key("the same of the translations", positional=True)
    output: str = key("TSV file, or .parquet", writes="file")
    source_lang: str | None = key("by default the model's first", None)
    target_lang: str | None = key("by default the model's second", None)
    pair_documents: bool = key("documents are not in the same order, or some have no translation", False)
    max_joined: int = key("most sentences a side that are taken together", MAX_JOINED)

    def __post_init__(self):
        super().__post_init__()
        if self.max_joined < 1:
            raise ValueError(f"max_joined={self.max_joined}: give 1 or more.")
        if suffix_of(self.output) not in (".tsv", ".parquet") or self.output.lower().endswith(".gz"):
            raise ValueError(f"output={self.output!r}: beads are written as .tsv or .parquet; give such a name.")


@dataclass(frozen=True)
class Text:
    """The sentences of one side."""

    sentences: list[str]
    lines: list[int]  # of each sentence in the file, from 1
    documents: list[range]  # positions of their sentences
    lang: str | None

    def joined(self, part: Sequence[int]) -> str:
        """Sentences as one text."""
        space = "" if (self.lang or "").partition("-")[0] in UNSPACED else " "
        return space.join(self.sentences[part[0] : part[-1] + 1]) if part else ""


def main(argv: list[str] | None = None) -> None:
    (args,) = parse_arguments((AlignDocumentsArguments,), argv, prog="hfxling align-documents", description=__doc__)
    files = [read_documents(path) for path in (args.source, args.target)]
    counts = [len(documents) for _, _, documents in files]
    if counts[0] != counts[1] and not args.pair_documents:
        what = f"{args.source} has {counts[0]} documents, {args.target} {counts[1]}"
        raise ValueError(f"{what}; give as many in the same order, or --pair_documents.")
    encoder = args.scorer()
    languages = [*encoder.languages, None, None]
    chosen = args.source_lang or languages[0], args.target_lang or languages[1]
    texts = [Text(*file, lang) for file, lang in zip(files, chosen)]
    about = args.max_joined * sum(len(text.sentences) for text in texts)  # texts to be encoded
    bar = tqdm(total=about, unit="text", disable=not sys.stderr.isatty())
    sides = [vectors_of(text, encoder.encode, role, bar) for text, role in zip(texts, ("query", "document"))]
    numbers = [(i, i) for i in range(counts[0])]
    if args.pair_documents:
        numbers = with_unpaired(match_documents(*sides, [x.documents for x in texts], method=encoder.method), counts)
    pairs = [tuple(range(0) if i is None else text.documents[i] for text, i in zip(texts, pair)) for pair in numbers]
    found = align_documents(*sides, pairs, method=encoder.method, max_joined=args.max_joined)
    rows = [(pair, bead) for pair, beads in zip(numbers, found) for bead in beads]
    bar.close()
    write(Path(args.output), rows, texts)
    print(f"{summary([bead for _, bead in rows])}\n\n{len(rows)} rows: {args.output}")


def read_documents(path: str) -> tuple[list[str], list[int], list[range]]:
    """Sentences, their line numbers, and positions of the sentences of each document.

    Raises:
        ValueError: no sentence in it, and as `read_lines`.
    """
    sentences, lines, starts, is_new = [], [], [], True
    for number, line in read_lines(path):
        if text := " ".join(line.split()):
            starts += [len(sentences)] if is_new else []
            sentences.append(text)
            lines.append(number)
        is_new = not text
    if not sentences:
        raise ValueError(f"{path}: no sentence in it; give one sentence a line, an empty line between documents.")
    return sentences, lines, [*map(range, starts, [*starts[1:], len(sentences)])]


def vectors_of(text: Text, encode: Callable, role: str, bar: tqdm | None = None) -> Callable:
    """What `hfxling.sentences.beads` asks for: vectors of joined sentences by where they begin and end."""

    def vectors(spans):
        found = encode([text.joined(range(*span)) for span in spans], text.lang, role, progress=False)
        if bar is not None:
            bar.update(len(spans))
        return found

    return vectors


def with_unpaired(pairs: Sequence[tuple[int, int]], counts: Sequence[int]) -> list[tuple[int | None, int | None]]:
    """The pairs and after them the documents in none."""
    source, target = (sorted({*range(count)} - {*side}) for count, side in zip(counts, zip(*pairs)))
    return [*pairs, *((i, None) for i in source), *((None, i) for i in target)]


def write(output: Path, rows: Sequence[tuple[tuple, Bead]], texts: Sequence[Text]) -> None:
    """The beads as TSV or Parquet; documents and lines are counted from 1, the lines of a side separated by spaces."""
    table = [
        (
            *(None if i is None else i + 1 for i in pair),
            *(" ".join(str(text.lines[i]) for i in part) for text, part in zip(texts, bead[:2])),
            round(bead.score, 6),
            *(text.joined(part) for text, part in zip(texts, bead[:2])),
        )
        for pair, bead in rows
    ]
    with atomic_path(output) as scratch:
        if output.suffix.lower() == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.table(dict(zip(COLUMNS, map(list, zip(*table))))), scratch)
        else:
            with open(scratch, "w", encoding="utf-8", newline="\n") as file:
                options = {"delimiter": "\t", "lineterminator": "\n", "quoting": csv.QUOTE_NONE, "quotechar": None}
                csv.writer(file, **options).writerows([COLUMNS, *table])


def summary(beads: Sequence[Bead]) -> str:
    """A table: how many beads there are of each kind, and their mean scores."""
    kinds = Counter(f"{len(bead.source)}-{len(bead.target)}" for bead in beads)
    rows = []
    for kind, count in kinds.most_common():
        scores = [bead.score for bead in beads if kind == f"{len(bead.source)}-{len(bead.target)}"]
        rows.append([kind, count, None if "0" in kind.split("-") else sum(scores) / count])
    return format_table(["sentences", "beads", "mean score"], rows)
