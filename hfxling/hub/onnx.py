"""A published folder's encoder, pooling, maps and norm as one ONNX graph, in float32 and with 8-bit weights."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer

from hfxling.encoders.frozen import length_sorted
from hfxling.encoders.identity import read_json
from hfxling.files import atomic_path
from hfxling.models import MODELS
from hfxling.models.stock import StockModel

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
FOLDER, MODEL, INT8 = "onnx", "model.onnx", "model_int8.onnx"
OUTPUT = "sentence_embedding"
Run = Callable[[Tensor, Tensor], np.ndarray]  # token ids and mask, (B, S) each, to (B, D) vectors
TOLERANCE = 1e-4  # between ONNX's float32 vectors and torch's
_LARGEST = 1_800_000_000  # bytes of weights that fit into a single file, with room for the graph
_BATCH, _LENGTH = 3, 7  # of the texts that the graph is traced with; later batches may have any size


class _Pipeline(nn.Module):
    """Token ids to unit sentence vectors."""

    def __init__(self, model: StockModel):
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.model(input_ids=input_ids, attention_mask=attention_mask).sentence_embedding


def check_packages() -> None:
    """Raise a ValueError that says what to install."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ValueError(f"ONNX needs {', '.join(missing)}: pip install 'hfxling[onnx]'.")


def load_models(folder: str | Path) -> dict[str, StockModel]:
    """The models of a folder that can become graphs: one under "", or one per language under its code."""
    folder = Path(folder)
    config = read_json(folder / "config.json")
    if not config and not (folder / "modules.json").is_file():
        raise FileNotFoundError(f"{folder}: no model there; give a folder that a recipe or `hfxling fit` wrote.")
    kinds = {kind.stock_key: kind for kind in MODELS if issubclass(kind, StockModel)}
    keys = [key for key in kinds if key in config]
    if not keys:
        listed = ", ".join(kinds)
        raise ValueError(
            f"{folder} cannot be exported, as it is no encoder with a head of its own ({listed}); a head that was "
            "appended to all modules of another model cannot be exported, either."
        )
    model = kinds[keys[0]].from_pretrained(folder).float().eval()
    if not getattr(model.config, "needs_language", False):
        return {"": model}
    return {language: model.for_language(language) for language in model.config.languages}


def write_onnx(model: StockModel, path: Path) -> None:
    """Write the graph: from input_ids and attention_mask, (B, S) int64, to sentence_embedding, (B, D) of unit length.

    Weights that do not fit into a single file go into a second one beside it.
    """
    ids = torch.randint(5, 50, (_BATCH, _LENGTH))
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0  # a padded text, so that the comparison below shows whether the graph uses the mask
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".onnx", dir=path.parent) as folder, _quiet():
        scratch = Path(folder, path.name)
        program = torch.onnx.export(
            _Pipeline(model),
            (ids, mask),
            input_names=["input_ids", "attention_mask"],
            output_names=[OUTPUT],
            dynamic_shapes={"input_ids": sizes, "attention_mask": sizes},
            dynamo=True,
            verbose=False,
        )
        for node in program.model.graph.all_nodes():
            node.metadata_props.clear()  # places in the code, with folders of this machine
        size = sum(tensor.nbytes for tensor in model.state_dict().values())
        program.save(scratch, external_data=size > _LARGEST)
        wider = torch.randint(5, 50, (2, 11))
        ours, theirs = torch_run(model), onnx_run(scratch)
        for inputs in ((ids, mask), (wider, torch.ones_like(wider))):
            gap = float(np.abs(theirs(*inputs) - ours(*inputs)).max())
            if not gap < TOLERANCE:
                raise ValueError(f"onnxruntime's vectors differ by {gap:.1e}: this encoder cannot be exported.")
        for part in graph_files(scratch)[::-1]:  # the graph after its weights
            os.replace(part, path.with_name(part.name))


def graph_files(path: Path) -> list[Path]:
    """A graph's file, and the second file for large weights, if there is one."""
    return [path, *sorted(path.parent.glob(f"{path.name}.*"))]


def write_int8(source: Path, path: Path) -> None:
    """Write a copy of a graph with 8-bit weights, with a scale for each column of a matrix.

    Weights use half of the range: processors that add 8-bit products in 16 bits (x86 without VNNI) would overflow with
    the full range, and give other vectors than the machine that measured the file.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(source)
    del graph.graph.value_info[:]  # shapes noted by the exporter, which quantisation would find contradictory
    with atomic_path(path) as scratch, _quiet():
        quantize_dynamic(graph, scratch, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)


class TokenEncoder:
    """Texts to vectors by `torch_run` or `onnx_run`, in the same batches; the tokenizer comes from the folder.

    The prompt is put before every text here, as a graph begins after the tokenizer.
    """

    def __init__(self, run: Run, folder: Path, prompt: str | None = None):
        self.run, self.prompt = run, prompt or ""
        self.tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D) float32 unit vectors."""
        texts = [self.prompt + text for text in texts]
        ids = self.tokenizer(texts, truncation=True, return_attention_mask=False)["input_ids"]
        vectors = np.empty(len(texts), object)
        for rows, inputs in length_sorted(self.tokenizer, ids, "cpu"):
            for row, vector in zip(rows, self.run(inputs["input_ids"], inputs["attention_mask"])):
                vectors[row] = vector
        return np.stack(vectors)


def torch_run(model: StockModel) -> Run:
    """A function that computes the model's vectors with torch."""
    pipeline = _Pipeline(model)

    @torch.inference_mode()
    def run(ids: Tensor, mask: Tensor) -> np.ndarray:
        return pipeline(ids, mask).numpy()

    return run


def onnx_run(path: Path) -> Run:
    """A function that computes a graph's vectors with onnxruntime, with as many threads as torch has."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda ids, mask: session.run([OUTPUT], {"input_ids": ids.numpy(), "attention_mask": mask.numpy()})[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence exporter and quantiser, whose messages are about their internals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
