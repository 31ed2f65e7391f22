"""A folder as text-embeddings-inference (1.9) reads it, for comparing its vectors with sentence-transformers'."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoModel

from hfxling.hub.served import MODULES
from hfxling.models.pooling import pool

ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": torch.nn.Identity(),
    "torch.nn.modules.activation.Tanh": torch.nn.Tanh(),
}
POOLING = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean", "pooling_mode_lasttoken": "last"}
PROBES = ("Today it rains.", "今天下雨，明天也下。", "Hôm nay trời mưa.", "ມື້ນີ້ຝົນຕົກ", "a long text, " * 200, "")


class ServedModel:
    """A folder that the server starts with, as it computes vectors: text by text, without padding.

    The one difference: it computes GELU by its tanh approximation, which moves vectors by more than rounding does.
    """

    def __init__(self, folder):
        folder = Path(folder)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(_read(folder / "sentence_bert_config.json")["max_seq_length"])
        chosen = _read(folder / "1_Pooling" / "config.json")
        self.pooling = next(mode for flag, mode in POOLING.items() if chosen[flag])
        self.encoder = AutoModel.from_pretrained(folder, trust_remote_code=False, dtype=torch.float32).eval()
        modules = _read(folder / "modules.json")
        kinds = [module["type"].removeprefix("sentence_transformers.models.") for module in modules]
        self.maps = []
        for module, kind in zip(modules, kinds):
            if kind == "Dense" and {*kinds} <= {*MODULES}:
                tensors = load_file(folder / module["path"] / "model.safetensors")
                activation = ACTIVATIONS[_read(folder / module["path"] / "config.json")["activation_function"]]
                self.maps.append((tensors["linear.weight"].float(), tensors.get("linear.bias"), activation))

    @torch.inference_mode()
    def __call__(self, texts):
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


def _read(path):
    return json.loads(path.read_text(encoding="utf-8"))
