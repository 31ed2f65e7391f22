"""The dual encoder of dual-alignment pre-training (Li et al. 2023): all that inference needs."""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoModel, PreTrainedModel

from .configuration_dap import DapConfig
from .stock import StockModel, StockOutput


class DapModel(StockModel):
    """The dual encoder: on disk a plain encoder with stock sentence-transformers modules beside it.

    Any Bert, XLM-R or similar checkpoint loads as one, the authors' published ones among them.
    """

    config_class = DapConfig
    base_model_prefix = stock_key = "dap"
    any_encoder = True

    def __init__(self, config: DapConfig, encoder: PreTrainedModel | None = None):
        super().__init__(config, encoder or AutoModel.from_config(copy.deepcopy(config.encoder_config)))

    def stock_steps(self) -> list[tuple]:
        """Unit length after pooling (see `stock.py`)."""
        return [("Normalize", None)]

    def output(self, states: Tensor | None, pooled: Tensor, language: str | None) -> StockOutput:
        """The pooled vectors at unit length; there is no head."""
        return StockOutput(states, pooled, F.normalize(pooled, dim=-1))

    @classmethod
    def from_pretrained(cls, name, *args, pooling: str | None = None, **kwargs):
        """As `StockModel.from_pretrained`, and for any plain encoder, in float32 unless told otherwise.

        `pooling` is taken instead of the published one; a plain encoder's is "cls".
        """
        model = super().from_pretrained(name, *args, **({"dtype": torch.float32} | kwargs))
        if pooling is not None:
            model.config.pooling = pooling
        return model
