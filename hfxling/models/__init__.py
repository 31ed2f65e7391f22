"""The four methods. Importing this package registers them with transformers' Auto classes."""

from transformers import AutoConfig, AutoModel

from .configuration_aligner import AlignerConfig
from .configuration_dap import DapConfig
from .configuration_disentangler import DisentanglerConfig
from .configuration_siamese import SiameseConfig
from .modeling_aligner import AlignerModel, AlignerOutput
from .modeling_dap import DapModel, DapOutput
from .modeling_disentangler import DisentanglerHead, DisentanglerModel, DisentanglerOutput
from .modeling_siamese import SiameseHead, SiameseModel, SiameseOutput
from .pretraining_dap import DapForPreTraining, DapTrainingOutput

__all__ = [
    "AlignerConfig",
    "AlignerModel",
    "AlignerOutput",
    "DapConfig",
    "DapForPreTraining",
    "DapModel",
    "DapOutput",
    "DapTrainingOutput",
    "DisentanglerConfig",
    "DisentanglerHead",
    "DisentanglerModel",
    "DisentanglerOutput",
    "SiameseConfig",
    "SiameseHead",
    "SiameseModel",
    "SiameseOutput",
]

METHODS = (
    (SiameseConfig, SiameseModel),
    (DapConfig, DapModel),
    (DisentanglerConfig, DisentanglerModel),
    (AlignerConfig, AlignerModel),
)
for config, model in METHODS:
    AutoConfig.register(config.model_type, config)
    AutoModel.register(config, model)
    config.register_for_auto_class()
    model.register_for_auto_class("AutoModel")  # so that saving copies the code next to the weights
