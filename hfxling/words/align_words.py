"""Word links of line-aligned text, each with a score: its probability, by weights learnt from gold links."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hfxling.data.pairs import Pairs, Text
from hfxling.data.pharaoh import Link, format_links
from hfxling.data.segment import Span
from hfxling.encoders.identity import identity
from hfxling.evaluation.plots import can_draw, draw_alignment
from hfxling.evaluation.results import format_table
from hfxling.files import atomic_path, check_text_file, content_hash
from hfxling.parts import claim, parts_beside, readable, remove_parts
from hfxling.progress import bar
from hfxling.sentences.neighbours import Dtype
from hfxling.values import check_counts
from hfxling.verbs import Languages, Model, OutputFile, Result, check_revisions, verb

from .links import Layer, Method, Units

if TYPE_CHECKING:
    from .aligner import AlignedLine, LineAligner

logger = logging.getLogger(__name__)
_PART = 10_000  # pairs; a run that was stopped continues after the last whole part
_PLAN = 10  # seconds that a plan measures at least
_FEW = 100  # pairs that a plan begins with


@dataclass(frozen=True)
class PairLinks:
    """Links of one sentence pair.

    Attributes:
        source: units of the source line; `line[span.start:span.end]` is where one stands in it.
        target: units of the target line.
        links: (position of source unit, position of target unit), from 0, sorted.
        scores: score of every link, 0..1: the probability that it is right, by the weights of `probability.py`; with a
            trained aligner the mean weight that both directions give it.
        source_null: for every source unit the probability that it has no link; [] with a trained aligner.
        target_null: the same for every target unit.
    """

    source: Sequence[Span]
    target: Sequence[Span]
    links: list[Link]
    scores: list[float]
    source_null: Sequence[float] = ()
    target_null: Sequence[float] = ()


@dataclass(frozen=True, repr=False)
class WordLinks(Result):
    """Links of line-aligned text, pair by pair.

    Attributes:
        languages: codes of source and target.
        method: how the links were decided.
        pairs: one entry for each sentence pair.
        with_scores: whether `to_text` and `save` write scores by default.
    """

    languages: Languages
    method: str
    pairs: list[PairLinks]
    with_scores: bool = False

    @property
    def links(self) -> list[list[Link]]:
        """The links of every pair."""
        return [pair.links for pair in self.pairs]

    @property
    def scores(self) -> list[list[float]]:
        """The scores of every pair's links."""
        return [pair.scores for pair in self.pairs]

    def to_text(self, *, with_scores: bool | None = None) -> str:
        """Pharaoh links, `i-j` counted from 0 (with scores `i-j:0.97`), one line for each pair."""
        if not (self.with_scores if with_scores is None else with_scores):
            return "".join(f"{format_links(links)}\n" for links in self.links)
        lines = []
        for pair in self.pairs:
            scored = [f"{i}-{j}:{score:.2f}" for (i, j), score in zip(pair.links, pair.scores)]
            lines.append(" ".join(scored) + "\n")
        return "".join(lines)

    def save(self, path: str | Path, *, with_scores: bool | None = None) -> None:
        """Write the links as `to_text` gives them or, if the file ends in `.jsonl` or `.tsv`, in that format.

        A TSV file has a row for each link: pair from 1, i, j, source unit, target unit, score. A JSONL file has a line
        for each pair: places of all units, links with places and scores, and the probability that a unit has no link.
        """
        check_text_file("path", path)
        ending = Path(path).suffix.lower()
        with atomic_path(path) as scratch, open(scratch, "w", encoding="utf-8") as file:
            if ending == ".jsonl":
                for pair in self.pairs:
                    file.write(json.dumps(self._record(pair), ensure_ascii=False) + "\n")
            elif ending == ".tsv":
                file.write("pair\ti\tj\tsource\ttarget\tscore\n")
                for number, pair in enumerate(self.pairs, 1):
                    for (i, j), score in zip(pair.links, pair.scores):
                        words = f"{pair.source[i].text}\t{pair.target[j].text}"
                        file.write(f"{number}\t{i}\t{j}\t{words}\t{score:.4f}\n")
            else:
                file.write(self.to_text(with_scores=with_scores))

    def _record(self, pair: PairLinks) -> dict[str, list]:
        source = [[span.start, span.end] for span in pair.source]
        target = [[span.start, span.end] for span in pair.target]
        links = []
        for (i, j), score in zip(pair.links, pair.scores):
            links.append({"link": [i, j], "source": source[i], "target": target[j], "score": round(score, 4)})
        record = {"source": source, "target": target, "links": links}
        if pair.source_null or pair.target_null:
            record["source_null"] = [round(share, 4) for share in pair.source_null]
            record["target_null"] = [round(share, 4) for share in pair.target_null]
        return record

    def table(self) -> str:
        """The number of pairs and links."""
        count = sum(map(len, self.links))
        return f"{len(self.pairs)} pairs {'-'.join(self.languages)}, {count} links by {self.method}"


@dataclass(frozen=True, repr=False)
class AlignmentPlan(Result):
    """What aligning a text will take, measured on its first pairs.

    Attributes:
        pairs: number of pairs of the text.
        learning: hours of learning.
        aligning: hours of aligning.
        memory: bytes of the links, which are all in memory at the end.
        disk: bytes of the parts beside the output, from which a stopped run continues.
        measured: number of pairs that this was measured on.
        seconds: how long the measurement took.
    """

    pairs: int
    learning: float
    aligning: float
    memory: int
    disk: int
    measured: int
    seconds: float

    def table(self) -> str:
        """One line for each need."""
        lines = [
            ("pairs", str(self.pairs)),
            ("learning", f"{60 * self.learning:.1f} minutes"),
            ("aligning", f"{60 * self.aligning:.1f} minutes"),
            ("memory", f"{self.memory / 2**20:.0f} MiB of links, beside text and model"),
            ("disk", f"{self.disk / 2**20:.0f} MiB of parts beside the output, until all is done"),
            ("measured on", f"{self.measured} pairs in {self.seconds:.0f} seconds"),
        ]
        return format_table(["what", "how much"], lines)


@verb
def align_words(
    source: Text,
    target: Text | None = None,
    *,
    languages: Languages | None = None,
    model: Model | None = None,
    links: Any = None,
    learn: bool = True,
    revision: str | None = None,
    links_revision: str | None = None,
    encoder_of_links: bool = True,
    layer: Layer | None = None,
    prompt: str | None = None,
    device: str | None = None,
    dtype: Dtype = "float32",
    symmetrize: Method | None = None,
    units: Units | None = None,
    min_confidence: float = 0.0,
    output: OutputFile | None = None,
    with_scores: bool = False,
    heatmap: OutputFile | None = None,
    pair: int = 1,
    batch_size: int | None = None,
    plan: bool = False,
    progress: bool = True,
) -> WordLinks | AlignmentPlan:
    """Link the words of line-aligned text.

    Each sentence pair gets links `i-j` between positions of its words, counted from 0, and every link gets a score.
    Without a model the links are learnt from the text itself; a few hundred pairs are enough. With a multilingual
    encoder as the model, text and encoder find them together, which is far better. An encoder can also align by itself,
    without learning from the text: `learn=False`. With more than 10,000 pairs, parts are kept in OUTPUT.hfxling-parts
    until all are done, so that a run that was stopped continues.

    Example:
        >>> encoder = "intfloat/multilingual-e5-small"
        >>> result = hfxling.align_words(chinese, vietnamese, languages=("zh", "vi"), model=encoder)
        >>> result.links[0], result.scores[0]
        >>> hfxling.align_words("train.lo", "train.zh", model="outputs/lo-zh/model", output="links.txt")

    Args:
        source: source sentences, a file of them, or a source of both sides; a pair with an empty side has no links.
        target: the translations, line by line.
        languages: language codes of source and target; by default the first two of the model or the links.
        model: folder or Hub id of a multilingual encoder (of sentence-transformers or transformers, or one of ours), an
            aligner or a lexical model, or a loaded one; by default links are learnt from the text alone.
        links: folder or Hub id of a lexical model or an aligner, or a loaded one, whose links are used; by default
            links are learnt from the text.
        learn: learn from the text: the links if none are given, otherwise how far links jump.
        revision: branch, tag or commit of the model on the Hub.
        links_revision: branch, tag or commit of the links on the Hub.
        encoder_of_links: also use the encoder that the given links were learnt with, if there was one and the model is
            no encoder.
        layer: layer of the encoder, where 0 is the embeddings; or agreement: the layer by which links of both
            directions agree most in the first 200 pairs. By default a layer known to suit the encoder's depth, or
            agreement for other depths.
        prompt: text put before every sentence for the encoder; by default the model's own prompt.
        device: device for the encoder, such as cpu or cuda; by default a GPU if there is one.
        dtype: number format of the encoder's computation; bfloat16 is faster on GPUs and on some processors.
        symmetrize: how links are decided; argmax, itermax and softmax compare vectors alone. By default probability,
            but for a trained aligner mean, or itermax if it was trained without a prior.
        units: what links are between: words (set apart by white space), segments (those of the links) or characters. By
            default words; if Chinese, Thai or Lao text is not split, segments (characters with an encoder alone).
        min_confidence: lowest score of the links that are kept, 0 to 1.
        output: file for the links, one line for each pair. With the ending .jsonl it also has scores and the places of
            all units in the original lines; with .tsv it has one row for each link.
        with_scores: write a score behind every link, such as 0-0:0.97.
        heatmap: PNG file for a picture of one pair's weights.
        pair: number of the pair in the heatmap, from 1.
        batch_size: number of pairs aligned at once, by default as many as fit; the links do not depend on it.
        plan: only tell how much time and memory aligning would take.
        progress: show a progress bar.

    Returns:
        Links, scores and places of the units; with `plan`, what aligning would take.

    Raises:
        ValueError: text, languages or options that do not fit, another kind of model, or a heatmap without matplotlib
            installed.
        FileNotFoundError: a file or model that does not exist.
    """
    check_text_file("output", output)
    check_revisions(revision=(model, revision), links_revision=(links, links_revision))
    check_counts(1, batch_size=batch_size)
    if heatmap is not None and not can_draw():
        raise ValueError(f"heatmap={str(heatmap)!r} needs matplotlib: pip install 'hfxling[eval]'.")
    if not 0 <= min_confidence <= 1:
        raise ValueError(f"min_confidence={min_confidence}: give a probability, 0 to 1.")
    options = {
        "model": model,
        "links": links,
        "learn": learn,
        "revision": revision,
        "links_revision": links_revision,
        "encoder_of_links": encoder_of_links,
        "layer": layer,
        "prompt": prompt,
        "device": device,
        "dtype": dtype,
        "units": units,
        "method": symmetrize,
    }

    def scored(aligner: LineAligner, source: Sequence[str], target: Sequence[str]) -> list[PairLinks]:
        lines = aligner(source, target, batch_size=batch_size)
        return [_scored(line, min_confidence) for line in lines]

    from .sources import open_aligner  # loads torch

    if plan:
        return plan_of(partial(open_aligner, source, target, languages, **options), scored)
    aligner, text = open_aligner(source, target, languages, **options)
    if heatmap is not None:
        _check_pair(pair, text)
    # Models are told apart by their content, not by their names, and the device does not change the links.
    settings = {name: str(value) for name, value in options.items() if name not in ("model", "links", "device")}
    settings |= {"languages": list(aligner.languages), "min_confidence": min_confidence, "version": version("hfxling")}
    parts = _parts_of(text, output, (model, revision), (links, links_revision), settings)
    pairs = _aligned(aligner, text, parts, scored)
    result = WordLinks(aligner.languages, aligner.method, pairs, with_scores)
    if output is not None:
        result.save(output)
    if heatmap is not None:
        (line,) = aligner([text.source[pair - 1]], [text.target[pair - 1]])
        source_units = [span.text for span in line.source]
        target_units = [span.text for span in line.target]
        draw_alignment(heatmap, _weights(line), source_units, target_units, pairs[pair - 1].links)
    if parts is not None:
        remove_parts(parts, ["links_*.jsonl"])
    return result


def _aligned(
    aligner: LineAligner, text: Pairs, parts: Path | None, scored: Callable[..., list[PairLinks]]
) -> list[PairLinks]:
    """The links of all pairs, part by part; parts that are in the folder already are read from it."""
    from .joint import JointAligner

    # An encoder learns the means of both languages from the first pairs that it reads. So these are never skipped,
    # unless links were learnt with it: then it has read pairs before.
    learns_means = isinstance(aligner, JointAligner) and aligner.kind in ("encoder", "saved and encoder")
    pairs: list[PairLinks] = []
    with bar(total=len(text), unit="pairs") as shown:
        for start in range(0, len(text), _PART):
            lines = text.source[start : start + _PART], text.target[start : start + _PART]
            align = partial(scored, aligner, *lines)
            is_kept = parts is not None and not (start == 0 and learns_means)
            pairs += _kept(parts / f"links_{start}.jsonl", align) if is_kept else align()
            shown.update(len(lines[0]))
    return pairs


def _parts_of(
    text: Pairs,
    output: str | Path | None,
    model: tuple[Any, str | None],
    links: tuple[Any, str | None],
    settings: dict[str, Any],
) -> Path | None:
    """The folder for a long text's links while it is aligned; None for short texts and loaded models."""
    folder = parts_beside(output)
    if folder is None or len(text) <= _PART:
        return None
    models = []
    for name, revision in (model, links):
        if isinstance(name, str | Path):
            models.append(identity(name, revision))
        elif name is not None:
            return None
    key = settings | {
        "text": content_hash(text.source, text.target),
        "models": models,
        "part": _PART,
    }
    claim(folder, key)
    return folder


def _kept(path: Path, align: Callable[[], list[PairLinks]]) -> list[PairLinks]:
    """The links of a part, from its file, or computed by `align` and written there."""
    if path.is_file():
        with readable(path):
            return [_unpacked(json.loads(record)) for record in path.read_text(encoding="utf-8").splitlines()]
    pairs = align()
    with atomic_path(path) as scratch, open(scratch, "w", encoding="utf-8") as file:
        for pair in pairs:
            file.write(json.dumps(_packed(pair)) + "\n")
    return pairs


def _packed(pair: PairLinks) -> list:
    """A pair as JSON holds it."""
    return [pair.source, pair.target, pair.links, pair.scores, list(pair.source_null), list(pair.target_null)]


def _unpacked(record: list) -> PairLinks:
    """What `_packed` made of a pair."""
    source, target, links, *scores = record
    source = [Span(*span) for span in source]
    target = [Span(*span) for span in target]
    return PairLinks(source, target, [(i, j) for i, j in links], *scores)


def _check_pair(pair: int, text: Pairs) -> None:
    """Refuse a pair that no heatmap can be drawn of, before anything is aligned."""
    if not 1 <= pair <= len(text):
        raise ValueError(f"pair={pair} is outside the pairs 1-{len(text)} of {text.name}.")
    if not (text.source[pair - 1].strip() and text.target[pair - 1].strip()):
        raise ValueError(f"pair={pair} has an empty side, so there is nothing to draw; give another for the heatmap.")


def _scored(line: AlignedLine, least: float) -> PairLinks:
    """The links of a pair that score at least `least`."""
    if not line.links:
        scores: Sequence[float] = []
    else:
        i, j = np.array(line.links).T
        matrix = _weights(line) if line.probability is None else line.probability[0]
        scores = matrix[i, j].tolist()
    links, link_scores = [], []
    for link, score in zip(line.links, scores):
        if score >= least:
            links.append(link)
            link_scores.append(score)
    if line.probability is None:
        return PairLinks(line.source, line.target, links, link_scores)
    no_link = 1 - line.probability[0]  # products over a unit's links, as if these were independent
    return PairLinks(line.source, line.target, links, link_scores, no_link.prod(1).tolist(), no_link.prod(0).tolist())


def _weights(line: AlignedLine) -> np.ndarray:
    """(S, T) mean of both directions."""
    return (line.soft.forward[0] + line.soft.backward[0]) / 2


def plan_of(
    opened: Callable[..., tuple[LineAligner, Pairs]],
    scored: Callable[[LineAligner, Sequence[str], Sequence[str]], list[PairLinks]],
) -> AlignmentPlan:
    """What aligning will take, measured now on growing samples.

    `opened` is `open_aligner` without its `first`; `scored` makes links of some pairs.
    """
    from .joint import JointAligner

    size = _FEW
    while True:
        start = time.perf_counter()
        aligner, text = opened(first=size)
        learnt = time.perf_counter()
        if isinstance(aligner, JointAligner):
            aligner.forget()  # else nothing would be read again, though most pairs of a long text are new
        pairs = scored(aligner, text.source, text.target)
        learning, aligning = learnt - start, time.perf_counter() - learnt
        count = len(text) + text.left_out
        size = len(pairs)
        if learning + aligning > _PLAN or size == count:
            break
        size = min(2 * size, count)
    stored = objects = 0
    for pair in pairs:
        stored += len(json.dumps(_packed(pair)))
        objects += _bytes_of(pair)
    times_aligned = count / size
    times_learnt = max(size, min(count, _most_learnt_from(aligner))) / size
    return AlignmentPlan(
        count,
        learning * times_learnt / 3600,
        aligning * times_aligned / 3600,
        int(objects * times_aligned),
        int(stored * times_aligned),
        size,
        learning + aligning,
    )


def _most_learnt_from(aligner: LineAligner) -> float:
    """Largest number of pairs that opening an aligner learns from."""
    from .joint import LEARN_FROM, JointAligner
    from .sources import JUMPS_FROM

    if not isinstance(aligner, JointAligner):
        return 0
    return {"links": np.inf, "links and encoder": LEARN_FROM}.get(aligner.kind, JUMPS_FROM)


def _bytes_of(pair: PairLinks) -> int:
    """Approximate size of a pair's links in memory: numbers of 32 bytes, units of three fields and their text."""
    units = [*pair.source, *pair.target]
    numbers = len(pair.scores) + len(pair.source_null) + len(pair.target_null)
    return 600 + 32 * numbers + 72 * len(pair.links) + sum(176 + 2 * len(unit.text) for unit in units)
