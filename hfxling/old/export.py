"""A model's folder for runtimes other than torch.

hfxling export DIR --onnx [--int8] [--pairs my.zh my.vi --languages zh vi]

Writes onnx/model.onnx into the folder: encoder, pooling, maps and norm in one graph, from token ids to the output
sentence_embedding, for onnxruntime, fastembed and text-embeddings-inference. A model that treats its languages
differently gets one a language, LANG/onnx/model.onnx, which a push puts on the branch LANG. With --int8 also
model_int8.onnx, whose weights have 8 bits; it is kept only where it finds at most 1 % of your pairs' translations less.
Pairs that the model was not trained on tell best. results.json and the card are written anew: what was measured, and
who reads the graph.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from hfxling.arguments import key, parse_arguments

if TYPE_CHECKING:
    from hfxling.evaluation.results import EvalResult
    from hfxling.models.stock import StockModel

MOST_LOST = 1.0  # percentage points of P@1, both directions, that weights of 8 bits may cost
WRITTEN_ANEW = {"results", "versions", "recipe", "settings", "card", "files", "digest", "runtimes"}  # of results.json
TORCH, FLOAT, INT8 = "torch", "onnx", "onnx int8"
Graphs = dict[str, dict[str, Path]]  # by form and language, "" where one is for all


@dataclass(kw_only=True)
class ExportArguments:
    """The folder, and what becomes of it."""

    model: str = key("folder of the model", positional=True)
    onnx: bool = key("write the ONNX graph", False)
    int8: bool = key("and one with weights of 8 bits; needs --pairs", False)
    pairs: list[str] = key("sentence pairs to measure by, as for `hfxling fit`: two files, or a source of both", [])
    languages: list[str] = key("codes of their languages", [])

    def __post_init__(self):
        if not self.onnx:
            raise ValueError("nothing to write: give --onnx, and --int8 for a smaller copy.")
        if self.int8 and not self.pairs:
            raise ValueError("--int8 needs --pairs: sentence pairs that say what 8 bits cost.")
        if self.pairs and (len(self.languages) != 2 or self.languages[0] == self.languages[1]):
            raise ValueError(f"languages={self.languages}: give the codes of the pairs' two languages, such as zh vi.")
        if len(self.pairs) > 2:
            raise ValueError(f"{len(self.pairs)} files: give two line-aligned ones, or one with both sides.")


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    (args,) = parse_arguments((ExportArguments,), argv, prog="hfxling export", description=__doc__)
    from hfxling.hub import onnx

    onnx.check_packages()
    folder, models = Path(args.model), onnx.load_models(args.model)
    if args.pairs and "" not in models and not {*args.languages} <= {*models}:
        raise ValueError(f"languages={args.languages}: {folder} is for {', '.join(models)}.")
    measure = Measure(args, folder, models) if args.pairs else None
    with TemporaryDirectory(prefix=".onnx", dir=folder) as scratch:
        graphs: Graphs = {FLOAT: {lang: Path(scratch, lang, onnx.MODEL) for lang in models}}
        for lang, model in models.items():
            onnx.write_onnx(model, graphs[FLOAT][lang])
        if args.int8:
            graphs[INT8] = {lang: path.with_name(onnx.INT8) for lang, path in graphs[FLOAT].items()}
            for lang, path in graphs[FLOAT].items():
                onnx.write_int8(path, graphs[INT8][lang])
        if measure:
            measure.run(graphs)
            print(measure.table())
            if args.int8 and measure.lost(INT8) > MOST_LOST:
                print(f"weights of 8 bits cost more than {MOST_LOST:g} percentage point: they are not kept.")
                del graphs[INT8]
        place(graphs, folder)
    record(folder, measure, [*graphs])
    return measure.figures if measure else {}


def place(graphs: Graphs, folder: Path) -> None:
    """Move graphs to where they belong, with the second file that large weights are in; earlier ones go."""
    from hfxling.hub.onnx import FOLDER, INT8, MODEL, graph_files

    for lang in next(iter(graphs.values())):
        target = folder / lang / FOLDER
        target.mkdir(parents=True, exist_ok=True)
        for earlier in (part for name in (MODEL, INT8) for part in graph_files(target / Path(name).name)):
            earlier.unlink(missing_ok=True)
        for path in (paths[lang] for paths in graphs.values()):
            for part in graph_files(path):
                os.replace(part, target / part.name)
            print(target / path.name)


class Measure:
    """Retrieval of the pairs by torch and by every graph, its size and its speed.

    Attributes:
        figures: megabytes, sentences a CPU second and the seconds' ratio to torch, by form.
        rows: P@1 of every graph, tested against torch.

    Raises:
        ValueError: malformed text, or none of the pair.
        FileNotFoundError: text that is not there.
    """

    def __init__(self, args: ExportArguments, folder: Path, models: Mapping[str, StockModel]):
        from hfxling.data.sources import Source, load_pairs

        source = "+".join(args.pairs)
        found = load_pairs([source], tuple(args.languages))
        self.sides, self.dataset = [list(found[side]) for side in ("source", "target")], Source.parse(source).name
        self.languages, self.folder, self.models = args.languages, folder, models
        self.hits: dict[str, list[np.ndarray]] = {}
        self.figures: dict[str, dict[str, float]] = {}
        self.rows: dict[str, list[EvalResult]] = {}

    def run(self, graphs: Graphs) -> None:
        """Measure torch, and then the graphs against it."""
        from hfxling.hub.onnx import graph_files, onnx_run, torch_run

        self._measure(TORCH, {lang: torch_run(model) for lang, model in self.models.items()})
        tensors = next(iter(self.models.values())).state_dict().values()
        self.figures[TORCH]["megabytes"] = round(sum(tensor.nbytes for tensor in tensors) / 1e6, 1)
        for form, paths in graphs.items():
            self._measure(form, {lang: onnx_run(path) for lang, path in paths.items()})
            parts = graph_files(next(iter(paths.values())))
            self.figures[form]["megabytes"] = round(sum(part.stat().st_size for part in parts) / 1e6, 1)

    def _measure(self, form: str, runs: Mapping) -> None:
        from hfxling.evaluation.averages import mean_result
        from hfxling.evaluation.retrieval import gold_ranks, hits_at
        from hfxling.files import content_hash
        from hfxling.hub.onnx import TokenEncoder

        prompt = getattr(next(iter(self.models.values())).config, "prompt", None)
        encoders = [TokenEncoder(runs.get(lang) or runs[""], self.folder, prompt) for lang in self.languages]
        for encode, side in zip(encoders, self.sides):  # the first call takes longer
            encode(side[:8])
        start = time.process_time()
        vectors = [encode(side) for encode, side in zip(encoders, self.sides)]
        seconds = time.process_time() - start
        self.figures[form] = {"sentences_per_cpu_s": round(2 * len(self.sides[0]) / max(seconds, 1e-9), 1)}
        self.hits[form] = [hits_at(ranks, 1) for ranks in gold_ranks(*vectors)]
        fields = {"dataset": self.dataset, "split": "pairs of the export", "revision": content_hash(*self.sides)}
        for hits, before, ways in zip(
            self.hits[form], self.hits[TORCH], (self.languages, self.languages[::-1]), strict=True
        ):
            settings = {"stage": "after", "method": "cosine", "runtime": form}
            about = fields | {"direction": "->".join(ways), "settings": settings}
            row = mean_result("P@1", hits, baseline=None if form == TORCH else before, **about)
            self.rows.setdefault(form, []).append(row)

    def difference(self, form: str):
        """P@1 of a graph less torch's, both directions, with its interval."""
        from hfxling.evaluation.significance import paired_test

        return paired_test(*(np.concatenate(self.hits[name]) for name in (form, TORCH)))

    def lost(self, form: str) -> float:
        """Percentage points of P@1, both directions."""
        return -self.difference(form).difference

    def table(self) -> str:
        """A line a form."""
        from hfxling.evaluation.results import format_table

        lines = []
        for form, figures in self.figures.items():
            found = [f"{hits.mean():.1f}" for hits in self.hits[form]]
            test = self.difference(form) if form != TORCH else None
            change = f"{test.difference:+.2f} [{test.low:+.2f}, {test.high:+.2f}]" if test else None
            lines.append([form, figures["megabytes"], figures["sentences_per_cpu_s"], *found, change])
        ways = ["->".join(pair) for pair in (self.languages, self.languages[::-1])]
        return format_table(["", "MB", "sentences/CPU s", *ways, "change"], lines)

    def told(self) -> dict[str, dict]:
        """The figures with the difference to torch, by form."""
        changes = {form: {"change": asdict(self.difference(form))} for form in self.figures if form != TORCH}
        return {form: figures | changes.get(form, {}) for form, figures in self.figures.items()}


def record(folder: Path, measure: Measure | None, forms: Sequence[str]) -> None:
    """Write the results.json and card of a folder anew, where it has any, with its graphs and what they give.

    Sentences that were added to the card by hand stay.
    """
    from hfxling.evaluation.results import read_results
    from hfxling.hub.card import CardInfo, moved, render_card
    from hfxling.hub.folder import write_record

    path, card = folder / "results.json", folder / "README.md"
    if not path.is_file():
        return
    content, rows = json.loads(path.read_text(encoding="utf-8")), read_results(path)
    before = render_card(rows, CardInfo(**content["card"]))
    written = card.read_text(encoding="utf-8") if card.is_file() else before
    rows = [row for row in rows if "runtime" not in row.settings]
    extra = {name: value for name, value in content.items() if name not in WRITTEN_ANEW}
    if measure:
        rows += [row for form in (TORCH, *forms) for row in measure.rows[form]]
        extra["runtimes"] = measure.told()
    write_record(folder, rows, CardInfo(**content["card"]), recipe=content["recipe"], extra=extra)
    card.write_text(moved(written, before, card.read_text(encoding="utf-8")), encoding="utf-8")
