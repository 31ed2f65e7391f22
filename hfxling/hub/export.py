"""Export a model's folder for runtimes other than torch, and measure what each of them costs."""

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

MOST_LOST = 1.0  # percentage points of P@1, over both directions, that 8-bit weights may cost


@dataclass(repr=False)
class Exported(Result):
    """What was written, and what it costs.

    Attributes:
        files: the graphs.
        figures: megabytes and sentences per CPU second, by form (torch, onnx, onnx int8); {} without pairs.
        is_int8_kept: whether 8-bit weights were good enough; None without `int8`.
        costs: a table of size, speed and retrieval; "" without pairs.
    """

    files: list[Path]
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    is_int8_kept: bool | None = None
    costs: str = ""

    def table(self) -> str:
        """What each form costs, then the files."""
        lines = [self.costs] if self.costs else []
        if self.is_int8_kept is False:
            lines.append(f"8-bit weights cost more than {MOST_LOST:g} percentage point of P@1: they are not kept.")
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

    This adds onnx/model.onnx to the folder: one graph with encoder, pooling, maps and norm, from token ids to the
    output sentence_embedding, for onnxruntime, fastembed and text-embeddings-inference. A model that treats its
    languages differently gets one graph per language, LANG/onnx/model.onnx, which `hfxling publish` puts on the branch
    LANG. results.json and the card are rewritten to say what was measured and which programs read the graph.

    Example:
        >>> pairs = {"source": "my.zh", "target": "my.vi", "languages": ("zh", "vi")}
        >>> print(hfxling.export("outputs/zh-vi-sf/model", int8=True, **pairs).table())

    Args:
        model: folder of the model.
        int8: also write onnx/model_int8.onnx, with 8-bit weights. It needs sentence pairs to measure on, and is kept
            only if it costs at most 1 percentage point of P@1.
        source: sentences to measure on: a file, or a source that holds both sides. Pairs that the model was not
            trained on are best.
        target: translations of the source, if the source does not hold both sides.
        languages: codes of source and target, such as zh vi; by default the model's first two.

    Returns:
        The graphs, with size and speed if pairs were given.

    Raises:
        ValueError: for `int8` without pairs, languages that the model does not know, malformed text, a folder that is
            not made of an encoder and stock modules, or packages that are not installed.
        FileNotFoundError: if the model or text does not exist.
    """
    if source is None and target is not None:
        raise ValueError("target without source: give the source sentences, too.")
    if int8 and source is None:
        raise ValueError("int8 needs sentence pairs to measure what it costs: give source and target.")
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
        with uninterrupted():  # a graph that is not in the record would count as a file that is not ours
            exported.files = place_graphs(graphs, folder)
            record_graphs(folder, costs, [*graphs])
    return exported


def _languages(models: Mapping[str, StockModel], languages: Languages | None, folder: Path) -> Languages:
    """The given languages, or else the model's first two."""
    if languages is None:
        known = getattr(next(iter(models.values())).config, "languages", None) or [*models]
        if len(known) < 2:
            raise ValueError(f"{folder} names no languages: give languages, such as zh vi.")
        return known[0], known[1]
    is_routed = "" not in models
    if is_routed and not {*languages} <= {*models}:
        raise ValueError(f"languages={list(languages)}: {folder} is for {', '.join(models)}.")
    return languages[0], languages[1]
