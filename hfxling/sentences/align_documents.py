"""Sentences of two texts that translate each other, one or several with one or several, document by document."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfxling.data.codes import written_like
from hfxling.data.documents import UNSPACED
from hfxling.data.pairs import is_source
from hfxling.data.parallel import BLANK
from hfxling.data.readers import read_lines
from hfxling.data.texts import as_list
from hfxling.data.warn import warn_of_foreign
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import ROLES, Encoder, languages_of
from hfxling.evaluation.results import format_table
from hfxling.progress import bar
from hfxling.verbs import Languages, Model, OutputFile, Result, verb

from . import beads
from .beads import MAX_JOINED, Bead
from .tables import check_table, columns_of, to_tsv, write_tables

logger = logging.getLogger(__name__)
MOST_JOINED = 16  # time and memory grow with the square
COLUMNS = ("source_document", "target_document", "source_lines", "target_lines", "score", "source", "target")
if TYPE_CHECKING:
    Documents = str | Path | Sequence[str] | Sequence[Sequence[str]]
else:
    Documents = Any  # a command line gives a file


@dataclass
class DocumentText:
    """The sentences of one side."""

    sentences: list[str]  # of all documents
    lines: list[int]  # line number of each in its file, from 1; of text in memory the number among all sentences
    documents: list[range]  # positions of each document's sentences
    language: str | None = None  # its code

    def joined(self, part: Sequence[int]) -> str:
        """Neighbouring sentences as one text."""
        if not part:
            return ""
        space = "" if written_like(self.language or "") in UNSPACED else " "
        return space.join(self.sentences[part[0] : part[-1] + 1])


@dataclass(frozen=True, repr=False)
class AlignedDocuments(Result):
    """All sentences of both texts, each in exactly one row.

    Attributes:
        rows: values of COLUMNS: numbers of the documents from 1 (None without a partner); line numbers, separated by
            spaces; score (how far the pair is above random ones; 0 without a translation); joined texts.
        beads: the same groups as positions of the sentences.
    """

    rows: list[tuple]
    beads: list[Bead]

    def table(self) -> str:
        """The number of rows of each kind, and their mean scores."""
        counts: Counter[tuple[int, int]] = Counter()
        sums: Counter[tuple[int, int]] = Counter()
        for bead in self.beads:
            kind = (len(bead.source), len(bead.target))
            counts[kind] += 1
            sums[kind] += bead.score
        table = []
        for kind, count in counts.most_common():
            mean = sums[kind] / count if all(kind) else None
            table.append([f"{kind[0]}-{kind[1]}", count, mean])
        return f"{format_table(['sentences', 'groups', 'mean score'], table)}\n\n{len(self.rows)} rows"

    def to_text(self) -> str:
        """The rows as TSV, with a header line."""
        return to_tsv(self._columns())[0]

    def save(self, path: str | Path) -> None:
        """Write the rows as .tsv or .parquet; ValueError for another ending."""
        check_table(path, "groups")
        write_tables((path, self._columns(), True))

    def _columns(self) -> dict[str, list]:
        return columns_of(COLUMNS, self.rows)


@verb
def align_documents(
    source: Documents,
    target: Documents,
    *,
    model: Model | None = None,
    lexical: Model | None = None,
    languages: Languages | None = None,
    pair_documents: bool = False,
    max_joined: int = MAX_JOINED,
    output: OutputFile | None = None,
    revision: str | None = None,
    lexical_revision: str | None = None,
    prompt: str | None = None,
    batch_size: int = 32,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = True,
) -> AlignedDocuments:
    """Align the sentences of texts that translate each other.

    The documents stand in the same order in both texts, unless `pair_documents` finds out which ones belong together.
    The order of the sentences in a document is kept; sentences may be missing, split or joined on either side.

    Example:
        >>> found = hfxling.align_documents("book.zh", "book.vi", lexical="outputs/fit/model", output="aligned.tsv")

    Args:
        source: text file (plain, .gz, .xz or .bz2) with one sentence a line and an empty line between documents; or a
            list of documents, each a list of sentences; or the sentences of one document (generators are read, too).
        target: the translations, given in the same way.
        model: folder or Hub id of any model that sentence-transformers loads, or a loaded one.
        lexical: folder or Hub id of a lexical model, or a loaded one. By itself its score is used alone. With a model
            the two scores are fused into one; the model then needs a fusion.json that was made for this lexical model
            (hfxling fit --choose fused writes both).
        languages: language codes of source and target; by default the model's first two.
        pair_documents: find out which documents belong together, as their order differs or some have no translation.
        max_joined: largest number of sentences of a side that are joined, 1 to 16.
        output: .tsv or .parquet file for the groups of sentences.
        revision: branch, tag or commit of the model on the Hub.
        lexical_revision: branch, tag or commit of the lexical model on the Hub.
        prompt: text put before every sentence; by default the model's own prompt.
        batch_size: number of texts encoded at once.
        device: device for the computation, such as cpu or cuda; by default a GPU if there is one.
        trust_remote_code: allow the code in the model's repository to run, which models on several layers need.
        progress: show a progress bar.

    Returns:
        A row for each group of sentences that translate each other, and one for each sentence without a translation.

    Raises:
        ValueError: no sentences, unequal numbers of documents, an output with another ending, languages that the model
            does not know, or vectors with NaN.
        FileNotFoundError: a model or file that does not exist.
    """
    if not 1 <= max_joined <= MOST_JOINED:
        raise ValueError(f"max_joined={max_joined}: give 1 to {MOST_JOINED}.")
    if output is not None:
        check_table(output, "groups")
    if languages is not None:
        languages = languages_of(None, languages)
    texts = [read_documents(source, "source"), read_documents(target, "target")]
    counts = len(texts[0].documents), len(texts[1].documents)
    if counts[0] != counts[1] and not pair_documents:
        raise ValueError(
            f"{source if is_source(source) else 'source'} has {counts[0]} documents, "
            f"{target if is_source(target) else 'target'} has {counts[1]}; give the same number in the same order, or "
            "--pair_documents."
        )
    encoder = load_encoder(
        model,
        lexical,
        revision=revision,
        lexical_revision=lexical_revision,
        prompt=prompt,
        batch_size=batch_size,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    pair = languages_of(encoder, languages)
    if None not in pair:
        warn_of_foreign([text.sentences for text in texts], pair)
    for text, language, role in zip(texts, pair, ROLES):
        encoder.route(language, role)
        text.language = language
    total = max_joined * (len(texts[0].sentences) + len(texts[1].sentences))
    rows, beads_of_all = [], []
    with bar(total=total, unit="texts") as shown:
        sides = [vectors_of(text, encoder, role, shown) for text, role in zip(texts, ROLES)]
        paired: list[tuple[int | None, int | None]] = [(i, i) for i in range(counts[0])]
        if pair_documents:
            both = (texts[0].documents, texts[1].documents)
            paired = with_unpaired(beads.match_documents(*sides, both, method=encoder.method), counts)
        spans = []
        for i, j in paired:
            of_source = range(0) if i is None else texts[0].documents[i]
            of_target = range(0) if j is None else texts[1].documents[j]
            spans.append((of_source, of_target))
        aligned = beads.align_documents(*sides, spans, method=encoder.method, max_joined=max_joined)
        for documents, document_beads in zip(paired, aligned):
            for bead in document_beads:
                beads_of_all.append(bead)
                rows.append(_row(documents, bead, texts))
    result = AlignedDocuments(rows, beads_of_all)
    if output is not None:
        result.save(output)
        logger.info("aligned groups: %s", output)
    return result


def read_documents(text: Documents, name: str = "text") -> DocumentText:
    """The sentences of each document; `name` is what errors call a text in memory."""
    if is_source(text):
        name = str(text)
        parts = _split_by_empty_lines(list(read_lines(name)))
    else:
        parts = _given(text, name)
    sentences, numbers, documents = [], [], []
    for part in parts:
        start = len(sentences)
        for number, line in part:
            sentences.append(" ".join(line.split()))
            numbers.append(number)
        documents.append(range(start, len(sentences)))
    if not sentences:
        raise ValueError(f"{name}: no sentence in it; give one sentence a line, an empty line between documents.")
    return DocumentText(sentences, numbers, documents)


def _split_by_empty_lines(lines: Sequence[tuple[int, str]]) -> list[list[tuple[int, str]]]:
    """Numbered sentences of each document; lines with only invisible characters count as empty."""
    documents: list[list[tuple[int, str]]] = []
    is_new = True
    for number, line in lines:
        has_text = bool(line.strip(BLANK))
        if has_text and is_new:
            documents.append([])
        if has_text:
            documents[-1].append((number, line))
        is_new = not has_text
    return documents


def _given(text: Iterable, name: str) -> list[list[tuple[int, str]]]:
    """Numbered sentences of documents in memory, without empty ones; each document needs one that is not empty."""
    documents = as_list(text)
    if documents and isinstance(documents[0], str):
        documents = [documents]
    parts = []
    count = 0
    for place, document in enumerate(documents, 1):
        if isinstance(document, str):  # it would be read letter by letter
            raise ValueError(f"{name}: document {place} is {document[:30]!r}; give a list of sentences.")
        part = []
        for sentence in document:
            count += 1
            if not isinstance(sentence, str):
                raise ValueError(f"{name}: sentence {count} is {sentence!r}; give text.")
            if sentence.strip(BLANK):
                part.append((count, sentence))
        if not part:
            raise ValueError(f"{name}: document {place} has no sentence; leave it out, and its translation.")
        parts.append(part)
    return parts


def vectors_of(text: DocumentText, encoder: Encoder, role: str, shown: Any = None) -> beads.Encode:
    """The function that `hfxling.sentences.beads` needs: vectors of joined sentences by where they begin and end."""

    def vectors(spans: beads.Spans) -> beads.Vectors:
        joined = [text.joined(range(*span)) for span in spans]
        encoded = encoder.encode(joined, text.language, role, progress=False)
        if shown is not None:
            shown.update(len(spans))
        return encoded

    return vectors


def with_unpaired(pairs: Sequence[tuple[int, int]], counts: Sequence[int]) -> list[tuple[int | None, int | None]]:
    """The pairs, then the documents that are in no pair."""
    sources, targets = set(range(counts[0])), set(range(counts[1]))
    for i, j in pairs:
        sources.discard(i)
        targets.discard(j)
    rows: list[tuple[int | None, int | None]] = list(pairs)
    rows += [(i, None) for i in sorted(sources)]
    rows += [(None, j) for j in sorted(targets)]
    return rows


def _row(pair: tuple[int | None, int | None], bead: Bead, texts: Sequence[DocumentText]) -> tuple:
    documents = [None if i is None else i + 1 for i in pair]
    lines, joined = [], []
    for text, part in zip(texts, (bead.source, bead.target)):
        lines.append(" ".join(str(text.lines[i]) for i in part))
        joined.append(text.joined(part))
    return (*documents, *lines, round(bead.score, 6), *joined)
