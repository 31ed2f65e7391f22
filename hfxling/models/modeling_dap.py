"""The dual encoder of dual-alignment pre-training (Li et al. 2023): all that inference needs."""

import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoModel, PreTrainedModel
from transformers.utils import ModelOutput

from .configuration_dap import DapConfig
from .stock import StockModel


@dataclass
class DapOutput(ModelOutput):
    """Output of `DapModel`.

    Args:
        last_hidden_state: (B, S, H) token states of the last layer.
        pooled: (B, H) the CLS state (or what `pooling` says).
        sentence_embedding: (B, H) the same at unit length.
    """

    last_hidden_state: Tensor | None = None
    pooled: Tensor | None = None
    sentence_embedding: Tensor | None = None


class DapModel(StockModel):
    """The dual encoder: on disk a plain encoder with stock sentence-transformers modules beside it.

    Any Bert, XLM-R or similar checkpoint loads as one, the authors' published ones among them.
    """

    config_class = DapConfig
    base_model_prefix = stock_key = "dap"
    any_encoder = True

    def __init__(self, config: DapConfig, encoder: PreTrainedModel | None = None):
        super().__init__(config)
        self.encoder = AutoModel.from_config(copy.deepcopy(config.encoder_config)) if encoder is None else encoder
        self.post_init()

    def stock_steps(self) -> list[tuple]:
        """Unit length after pooling (see `stock.py`)."""
        return [("Normalize", None)]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        return_dict: bool = True,
        **kwargs,
    ) -> DapOutput | tuple:
        """Embed token ids (B, S); `kwargs` are further encoder inputs, such as `token_type_ids`."""
        states, pooled = self.pooled_features(input_ids, attention_mask, **kwargs)
        output = DapOutput(last_hidden_state=states, pooled=pooled, sentence_embedding=F.normalize(pooled, dim=-1))
        return output if return_dict else output.to_tuple()

    @classmethod
    def from_pretrained(cls, name, *args, pooling: str | None = None, **kwargs):
        """Load a published DAP model or any plain encoder, from a folder or the Hub, as float32 unless told otherwise.

        Args:
            name: Hub id or folder.
            *args: as for `PreTrainedModel.from_pretrained`.
            pooling: instead of the published one; a plain encoder's is "cls".
            **kwargs: as for `PreTrainedModel.from_pretrained`.

        Raises:
            ValueError: for a checkpoint that lacks weights of its encoder, or a published folder that is not whole.
        """
        loaded = super().from_pretrained(name, *args, **({"dtype": torch.float32} | kwargs))
        if pooling is not None:
            (loaded[0] if isinstance(loaded, tuple) else loaded).config.pooling = pooling
        return loaded
