"""A model's folder for runtimes other than torch, and what each of them costs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.pairs import Pairs, read_pairs
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult, format_table, read_results
from hfxling.evaluation.retrieval import gold_ranks, hits_at
from hfxling.evaluation.significance import PairedTest, paired_test
from hfxling.files import alone_in, content_hash, scratch_in, uninterrupted
from hfxling.hub.record import RECORD
from hfxling.verbs import Languages, Text, verb

if TYPE_CHECKING:
    from hfxling.hub import onnx as graph
    from hfxling.models.stock import StockModel

MOST_LOST = 1.0  # percentage points of P@1, both directions, that weights of 8 bits may cost
TORCH, FLOAT, INT8 = "torch", "onnx", "onnx int8"
Graphs = dict[str, dict[str, Path]]  # by form and language, "" where one is for all


@dataclass
class Exported:
    """What was written, and what it costs.

    Attributes:
        files: the graphs.
        figures: by form (torch, onnx, onnx int8): megabytes and sentences per CPU second; {} without pairs.
        is_int8_kept: whether weights of 8 bits were good enough; None where none were asked for.
        costs: a table of size, speed and retrieval; "" without pairs.
    """

    files: list[Path]
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    is_int8_kept: bool | None = None
    costs: str = ""

    def table(self) -> str:
        """What every form costs, then the files."""
        lines = [self.costs] if self.costs else []
        if self.is_int8_kept is False:
            lines.append(f"weights of 8 bits cost more than {MOST_LOST:g} percentage point: they are not kept.")
        lines += map(str, self.files)
        return "\n".join(lines)


@verb
def export(
    model: str | Path,
    *,
    int8: bool = False,
    source: Text | None = None,
    target: Text | None = None,
    languages: Languages | None = None,
) -> Exported:
    """A model's folder for other runtimes.

    Writes onnx/model.onnx into the folder: encoder, pooling, maps and norm in one graph, from token ids to the output
    sentence_embedding, for onnxruntime, fastembed and text-embeddings-inference. A model that treats its languages
    differently gets one a language, LANG/onnx/model.onnx, which a push puts on the branch LANG. results.json and the
    card are written anew: what was measured, and who reads the graph.

    Example:
        >>> pairs = {"source": "my.zh", "target": "my.vi", "languages": ("zh", "vi")}
        >>> print(hfxling.export("outputs/zh-vi-sf/model", int8=True, **pairs).table())

    Args:
        model: folder of the model.
        int8: write also onnx/model_int8.onnx, whose weights have 8 bits; it needs sentence pairs to measure by, and is
            kept only where it finds at most 1 % of their translations less.
        source: sentences to measure by, a file or a source of both sides; pairs that the model was not trained on tell
            best.
        target: their translations, where `source` does not have them.
        languages: codes of source and target, such as zh vi; by default the model's first two.

    Returns:
        The graphs, with size and speed where pairs are given.

    Raises:
        ValueError: `int8` without pairs, languages that the model does not know, malformed text, a
            folder without an encoder and stock modules, packages that are not installed.
        FileNotFoundError: no model there, no such text.
    """
    if source is None and target is not None:
        raise ValueError("target without source: give the sentences that these translate.")
    if int8 and source is None:
        raise ValueError("int8 needs sentence pairs that say what 8 bits cost: give source and target.")
    if languages is not None and (len(languages) != 2 or languages[0] == languages[1]):
        raise ValueError(f"languages={list(languages)}: give the codes of the pairs' two languages, such as zh vi.")
    from hfxling.hub import onnx as graph  # loads torch

    graph.check_packages()
    folder = Path(model)
    models = graph.load_models(folder)
    costs = None
    if source is not None:
        languages = _languages(models, languages, folder)
        costs = Costs(folder, models, read_pairs(source, target, languages), languages)
    exported = Exported([])
    with alone_in(folder, f"model={folder}"), scratch_in(folder, "onnx") as scratch:
        graphs = _write_graphs(models, scratch, int8)
        if costs is not None:
            costs.measure(graphs)
            exported.figures = costs.figures
            exported.costs = costs.table()
        if int8:
            exported.is_int8_kept = costs.lost(INT8) <= MOST_LOST
            if not exported.is_int8_kept:
                del graphs[INT8]
        with uninterrupted():  # a graph without its record would be taken for somebody else's
            exported.files = _place(graphs, folder)
            _record(folder, costs, [*graphs])
    return exported


def _languages(models: Mapping[str, StockModel], languages: Languages | None, folder: Path) -> Languages:
    """The languages that are given, or else the model's first two."""
    if languages is None:
        known = getattr(next(iter(models.values())).config, "languages", None) or [*models]
        if len(known) < 2:
            raise ValueError(f"{folder} names no languages: give languages, such as zh vi.")
        return known[0], known[1]
    is_routed = "" not in models
    if is_routed and not {*languages} <= {*models}:
        raise ValueError(f"languages={list(languages)}: {folder} is for {', '.join(models)}.")
    return languages[0], languages[1]


def _write_graphs(models: Mapping[str, StockModel], scratch: Path, int8: bool) -> Graphs:
    """All graphs in a folder that goes again."""
    from hfxling.hub import onnx as graph

    graphs: Graphs = {FLOAT: {}}
    for language, model in models.items():
        path = scratch / language / graph.MODEL
        graph.write_onnx(model, path)
        graphs[FLOAT][language] = path
    if int8:
        graphs[INT8] = {}
        for language, path in graphs[FLOAT].items():
            graphs[INT8][language] = path.with_name(graph.INT8)
            graph.write_int8(path, graphs[INT8][language])
    return graphs


def _place(graphs: Graphs, folder: Path) -> list[Path]:
    """Move graphs to where they belong, with the second file that large weights are in; earlier ones go."""
    from hfxling.hub import onnx as graph

    placed = []
    for language in graphs[FLOAT]:
        target = folder / language / graph.FOLDER
        target.mkdir(parents=True, exist_ok=True)
        for name in (graph.MODEL, graph.INT8):
            for earlier in graph.graph_files(target / name):
                earlier.unlink(missing_ok=True)
        for paths in graphs.values():
            for part in graph.graph_files(paths[language]):
                os.replace(part, target / part.name)
            placed.append(target / paths[language].name)
    return placed


class Costs:
    """What torch and every graph cost: size, speed, and retrieval of sentence pairs.

    Args:
        folder: of the model, with its tokenizer.
        models: as `hfxling.hub.onnx.load_models` gives them.
        pairs: N sentence pairs.
        languages: of the pairs.

    Attributes:
        figures: megabytes and sentences per CPU second, by form.
        rows: P@1 of every form in both directions, graphs tested against torch.
        changes: P@1 of every graph less torch's, both directions together, with its interval.
    """

    def __init__(self, folder: Path, models: Mapping[str, StockModel], pairs: Pairs, languages: Languages):
        self.folder = folder
        self.models = models
        self.sides = (pairs.source, pairs.target)
        self.dataset = pairs.name
        self.languages = languages
        source, target = languages
        self.directions = (f"{source}->{target}", f"{target}->{source}")
        self.figures: dict[str, dict[str, float]] = {}
        self.rows: dict[str, list[EvalResult]] = {}
        self.changes: dict[str, PairedTest] = {}
        self._hits: dict[str, list[np.ndarray]] = {}  # by form, one a direction: (N,) 100 where the pair was found

    def measure(self, graphs: Graphs) -> None:
        """Measure torch, and then the graphs against it."""
        from hfxling.hub import onnx as graph

        runs = {language: graph.torch_run(model) for language, model in self.models.items()}
        weights = next(iter(self.models.values())).state_dict().values()
        self._measure(TORCH, runs, sum(tensor.nbytes for tensor in weights))
        for form, paths in graphs.items():
            runs = {language: graph.onnx_run(path) for language, path in paths.items()}
            parts = graph.graph_files(next(iter(paths.values())))
            self._measure(form, runs, sum(part.stat().st_size for part in parts))

    def _measure(self, form: str, runs: Mapping[str, graph.Run], size: int) -> None:
        from hfxling.hub import onnx as graph

        prompt = getattr(next(iter(self.models.values())).config, "prompt", None)
        encoders = []
        for language, side in zip(self.languages, self.sides):
            encode = graph.TokenEncoder(runs.get(language) or runs[""], self.folder, prompt)
            encode(side[:8])  # the first call takes longer
            encoders.append(encode)
        start = time.process_time()
        vectors = [encode(side) for encode, side in zip(encoders, self.sides)]
        seconds = max(time.process_time() - start, 1e-9)
        self.figures[form] = {
            "sentences_per_cpu_s": round(2 * len(self.sides[0]) / seconds, 1),
            "megabytes": round(size / 1e6, 1),
        }
        hits = [hits_at(ranks, 1) for ranks in gold_ranks(*vectors)]
        self._hits[form] = hits
        if form != TORCH:
            self.changes[form] = paired_test(np.concatenate(hits), np.concatenate(self._hits[TORCH]))
        self.rows[form] = []
        for direction, hits_of_form, hits_of_torch in zip(self.directions, hits, self._hits[TORCH]):
            row = mean_result(
                "P@1",
                hits_of_form,
                baseline=None if form == TORCH else hits_of_torch,
                dataset=self.dataset,
                split="pairs of the export",
                revision=content_hash(*self.sides),
                direction=direction,
                settings={"stage": "after", "method": "cosine", "runtime": form},
            )
            self.rows[form].append(row)

    def lost(self, form: str) -> float:
        """Percentage points of P@1, both directions."""
        return -self.changes[form].difference

    def table(self) -> str:
        """A line a form."""
        lines = []
        for form, figures in self.figures.items():
            scores = [f"{hits.mean():.1f}" for hits in self._hits[form]]
            test = self.changes.get(form)
            change = f"{test.difference:+.2f} [{test.low:+.2f}, {test.high:+.2f}]" if test else None
            lines.append([form, figures["megabytes"], figures["sentences_per_cpu_s"], *scores, change])
        return format_table(["", "MB", "sentences/CPU s", *self.directions, "change"], lines)

    def for_record(self) -> dict[str, dict]:
        """The figures by form, those of graphs with the difference to torch."""
        entries = {form: dict(figures) for form, figures in self.figures.items()}
        for form, change in self.changes.items():
            entries[form]["change"] = asdict(change)
        return entries


def _record(folder: Path, costs: Costs | None, forms: Sequence[str]) -> None:
    """Write results.json and card of a folder anew, where it has any, with its graphs and what they give.

    Sentences that were added to the card by hand stay.
    """
    from hfxling.hub.folder import rewrite_record

    record = folder / RECORD
    if not record.is_file():
        return
    rows = [row for row in read_results(record) if "runtime" not in row.settings]
    runtimes = None
    if costs is not None:
        for form in (TORCH, *forms):
            rows += costs.rows[form]
        runtimes = costs.for_record()
    rewrite_record(folder, rows, {"runtimes": runtimes})
