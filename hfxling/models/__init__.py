"""The four methods. Importing this package registers them with transformers' Auto classes."""

from transformers import AutoConfig, AutoModel

from .configuration_dap import DapConfig
from .configuration_siamese import SiameseConfig
from .modeling_dap import DapForPreTraining, DapModel, DapOutput, DapTrainingOutput
from .modeling_siamese import SiameseHead, SiameseModel, SiameseOutput

__all__ = [
    "DapConfig",
    "DapForPreTraining",
    "DapModel",
    "DapOutput",
    "DapTrainingOutput",
    "SiameseConfig",
    "SiameseHead",
    "SiameseModel",
    "SiameseOutput",
]

for config, model in ((SiameseConfig, SiameseModel), (DapConfig, DapModel)):
    AutoConfig.register(config.model_type, config)
    AutoModel.register(config, model)
    config.register_for_auto_class()
    model.register_for_auto_class("AutoModel")  # so that saving copies the code next to the weights
