"""A model's folder for runtimes other than torch, and what each of them costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hfxling.data.pairs import read_pairs
from hfxling.encoders.protocol import languages_of
from hfxling.files import alone_in, scratch_in, uninterrupted
from hfxling.verbs import Languages, Result, Text, verb

if TYPE_CHECKING:
    from hfxling.models.stock import StockModel

MOST_LOST = 1.0  # percentage points of P@1, both directions, that weights of 8 bits may cost


@dataclass(repr=False)
class Exported(Result):
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
    """Export a model's folder for other runtimes.

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
    if languages is not None:
        languages_of(None, languages)  # refuses what is no language
    from .graphs import INT8, Costs, place_graphs, record_graphs, write_graphs  # loads torch
    from .onnx import check_packages, load_models

    check_packages()
    folder = Path(model)
    models = load_models(folder)
    costs = None
    if source is not None:
        languages = _languages(models, languages, folder)
        costs = Costs(folder, models, read_pairs(source, target, languages), languages)
    exported = Exported([])
    with alone_in(folder, f"model={folder}"), scratch_in(folder, "onnx") as scratch:
        graphs = write_graphs(models, scratch, int8)
        if costs is not None:
            costs.measure(graphs)
            exported.figures = costs.figures
            exported.costs = costs.table()
        if int8:
            exported.is_int8_kept = costs.lost(INT8) <= MOST_LOST
            if not exported.is_int8_kept:
                del graphs[INT8]
        with uninterrupted():  # a graph without its record would be taken for somebody else's
            exported.files = place_graphs(graphs, folder)
            record_graphs(folder, costs, [*graphs])
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
