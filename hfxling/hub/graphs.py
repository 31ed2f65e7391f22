"""The graphs of a model for `hfxling.export`: write them, compare them with torch, put them in place, record them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from hfxling.data.pairs import Pairs
from hfxling.data.sources import Pair
from hfxling.encoders.identity import training_text
from hfxling.evaluation.averages import mean_result
from hfxling.evaluation.results import EvalResult, format_table, read_results
from hfxling.evaluation.retrieval import gold_ranks, hits_at
from hfxling.evaluation.significance import PairedTest, paired_test
from hfxling.files import content_hash
from hfxling.hub import onnx as graph
from hfxling.hub.folder import rewrite_record
from hfxling.hub.record import RECORD
from hfxling.models.stock import StockModel

logger = logging.getLogger(__name__)

TORCH, FLOAT, INT8 = "torch", "onnx", "onnx int8"
Graphs = dict[str, dict[str, Path]]  # by form and language; "" if one graph is for all


def write_graphs(models: Mapping[str, StockModel], scratch: Path, int8: bool) -> Graphs:
    """Write all graphs into a temporary folder."""
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


def place_graphs(graphs: Graphs, folder: Path) -> list[Path]:
    """Move graphs to their places, with the second file for large weights; earlier graphs are removed."""
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

    `models` come from `hfxling.hub.onnx.load_models` for the folder.

    Attributes:
        figures: megabytes and sentences per CPU second, by form.
        rows: P@1 of every form in both directions; graphs are tested against torch.
        changes: P@1 of every graph minus torch's, over both directions, with its interval.
    """

    def __init__(self, folder: Path, models: Mapping[str, StockModel], pairs: Pairs, languages: Pair):
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
        self._hits: dict[str, list[np.ndarray]] = {}  # by form, one per direction: (N,) 100 if the pair was found

    def measure(self, graphs: Graphs) -> None:
        """Measure torch, and then the graphs against it."""
        runs = {language: graph.torch_run(model) for language, model in self.models.items()}
        weights = next(iter(self.models.values())).state_dict().values()
        self._measure(TORCH, runs, sum(tensor.nbytes for tensor in weights))
        for form, paths in graphs.items():
            runs = {language: graph.onnx_run(path) for language, path in paths.items()}
            parts = graph.graph_files(next(iter(paths.values())))
            self._measure(form, runs, sum(part.stat().st_size for part in parts))

    def _measure(self, form: str, runs: Mapping[str, graph.Run], size: int) -> None:
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
            self.changes[form] = paired_test(np.mean(hits, axis=0), np.mean(self._hits[TORCH], axis=0))
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
        """Percentage points of P@1 that a form loses, over both directions."""
        return -self.changes[form].difference

    def table(self) -> str:
        """One line per form."""
        lines = []
        for form, figures in self.figures.items():
            scores = [f"{hits.mean():.1f}" for hits in self._hits[form]]
            test = self.changes.get(form)
            change = f"{test.difference:+.2f} [{test.low:+.2f}, {test.high:+.2f}]" if test else None
            lines.append([form, figures["megabytes"], figures["sentences_per_cpu_s"], *scores, change])
        return format_table(["", "MB", "sentences/CPU s", *self.directions, "change"], lines)

    def for_record(self) -> dict[str, dict]:
        """The figures by form; those of graphs with the difference to torch."""
        entries = {form: dict(figures) for form, figures in self.figures.items()}
        for form, change in self.changes.items():
            entries[form]["change"] = asdict(change)
        return entries


def record_graphs(folder: Path, costs: Costs | None, forms: Sequence[str]) -> None:
    """Rewrite results.json and card of a folder, if it has them, with its graphs and their figures.

    Sentences that were added to the card by hand stay.
    """
    record = folder / RECORD
    if not record.is_file():
        return
    rows = [row for row in read_results(record) if "runtime" not in row.settings]
    runtimes = None
    if costs is not None:
        if content_hash(*costs.sides) in training_text(str(folder)):
            logger.info("the model has learnt from these pairs: their P@1 is not added to the card")
        else:
            for form in (TORCH, *forms):
                rows += costs.rows[form]
        runtimes = costs.for_record()
    rewrite_record(folder, rows, {"runtimes": runtimes})
