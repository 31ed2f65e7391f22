"""What a text-embeddings-inference server (1.9) makes of a folder, read as that server reads it.

It takes config.json, tokenizer.json, sentence_bert_config.json, 1_Pooling and the Dense modules that modules.json has,
applies these in a row after pooling and normalises at the end. A Normalize between them it passes over without a word;
of a modules.json with any other module, such as a Router, it reads no Dense at all and still serves vectors.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModel

from hfxling.models.pooling import pool

# Encoders that it has code for, on a CPU or a GPU.
ENCODERS = ("bert", "camembert", "distilbert", "gemma3_text", "gte", "llama", "mistral", "modernbert", "mpnet")
ENCODERS += ("nomic_bert", "qwen2", "qwen3", "roberta", "xlm-roberta")
MODULES = ("Transformer", "Pooling", "Dense", "Normalize")
ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": torch.nn.Identity(),
    "torch.nn.modules.activation.Tanh": torch.nn.Tanh(),
}
POOLING = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_lasttoken": "last"}
TOLERANCE = 1e-5
PROBES = ("Today it rains.", "今天下雨，明天也下。", "Hôm nay trời mưa.", "ມື້ນີ້ຝົນຕົກ", "a long text, " * 200, "")


def server_fault(folder: str | Path) -> str:
    """Why the server refuses a folder or gives other vectors than sentence-transformers; "" where it gives the same.

    Where it would start, the folder is read both ways, and the vectors of a few texts are compared.
    """
    folder = Path(folder)
    fault = _refused(folder)
    if fault or _gap(folder) < TOLERANCE:
        return fault
    return "the server passes over the Normalize before a Dense module, which gives other vectors"


def _refused(folder: Path) -> str:
    """What the server has no code for, or would leave out."""
    if not (folder / "modules.json").is_file():
        return "there is no encoder in it"
    modules = _modules(folder)
    kinds = [module["type"].removeprefix("sentence_transformers.models.") for module in modules]
    if "Router" in kinds:
        routes = _read(folder / modules[kinds.index("Router")]["path"] / "router_config.json")["structure"]
        languages = [name for name in routes if (folder / name / "modules.json").is_file()]
        branches = f": serve a branch, `--revision {languages[-1]}`" if languages else ""
        return f"it treats its languages differently, and the server cannot be told one{branches}"
    if unknown := [kind for kind in kinds if kind not in MODULES]:
        return f"the server knows no module {unknown[0].rsplit('.', 1)[-1]}"
    if kinds[:2] != ["Transformer", "Pooling"]:
        return "it does not start with an encoder and its pooling"
    config = _read(folder / "config.json")
    if config["model_type"] not in ENCODERS:
        return f"the server has no code for {config['model_type']} encoders"
    for name in _dense(folder):
        activation = _read(folder / name / "config.json")["activation_function"]
        if activation not in ACTIVATIONS:
            return f"the server knows no {activation.rsplit('.', 1)[-1]} after a map"
    prompts = _read(folder / "config_sentence_transformers.json")
    if prompts.get("default_prompt_name"):
        return f"the server puts no prompt before texts unless `--default-prompt-name {prompts['default_prompt_name']}`"
    return ""


def _gap(folder: Path) -> float:
    """Largest difference of a component between both readings of the probes."""
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(str(folder), device="cpu").encode(list(PROBES), show_progress_bar=False)
    return float(np.abs(ServedModel(folder)(PROBES) - expected).max())


class ServedModel:
    """A folder that the server starts with, as it computes vectors: text by text, without padding.

    The one difference: it computes GELU by its tanh approximation, which moves vectors by more than rounding does.
    """

    def __init__(self, folder: str | Path):
        folder = Path(folder)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(_read(folder / "sentence_bert_config.json")["max_seq_length"])
        chosen = _read(folder / "1_Pooling" / "config.json")
        self.pooling = next(mode for flag, mode in POOLING.items() if chosen[flag])
        self.encoder = AutoModel.from_pretrained(folder, trust_remote_code=False, dtype=torch.float32).eval()
        is_known = all(
            module["type"].removeprefix("sentence_transformers.models.") in MODULES for module in _modules(folder)
        )
        self.maps = []
        for name in _dense(folder) if is_known else ():
            tensors = load_file(folder / name / "model.safetensors")
            activation = ACTIVATIONS[_read(folder / name / "config.json")["activation_function"]]
            self.maps.append((tensors["linear.weight"].float(), tensors.get("linear.bias"), activation))

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(N, D) unit vectors."""
        vectors = []
        for text in texts:
            ids = torch.tensor([self.tokenizer.encode(text).ids])
            mask = torch.ones_like(ids)
            states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            vector = pool(states, mask, self.pooling)
            for weight, bias, activation in self.maps:
                vector = activation(F.linear(vector, weight, bias))
            vectors.append(F.normalize(vector, dim=-1))
        return torch.cat(vectors).numpy()


def _modules(folder: Path) -> list[dict]:
    return _read(folder / "modules.json")


def _dense(folder: Path) -> list[str]:
    return [module["path"] for module in _modules(folder) if module["type"] == "sentence_transformers.models.Dense"]


def _read(path: Path):
    return json.loads(path.read_text(encoding="utf-8"))
