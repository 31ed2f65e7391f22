"""The five methods. Importing this package registers them with transformers' Auto classes."""

from transformers import AutoConfig, AutoModel

from .configuration_aligner import AlignerConfig
from .configuration_dap import DapConfig
from .configuration_disentangler import DisentanglerConfig
from .configuration_lexical import LexicalConfig
from .configuration_siamese import SiameseConfig
from .modeling_aligner import AlignerModel
from .modeling_dap import DapModel
from .modeling_disentangler import DisentanglerHead, DisentanglerModel
from .modeling_lexical import LexicalModel
from .modeling_siamese import SiameseHead, SiameseModel
from .pretraining_dap import DapForPreTraining

__all__ = ["AlignerConfig", "AlignerModel", "DapConfig", "DapForPreTraining", "DapModel", "DisentanglerConfig"]
__all__ += ["DisentanglerHead", "DisentanglerModel", "LexicalConfig", "LexicalModel"]
__all__ += ["SiameseConfig", "SiameseHead", "SiameseModel"]

MODELS = (SiameseModel, DapModel, DisentanglerModel, AlignerModel, LexicalModel)
for model in MODELS:
    AutoConfig.register(model.config_class.model_type, model.config_class)
    AutoModel.register(model.config_class, model)
    model.config_class.register_for_auto_class()
    model.register_for_auto_class("AutoModel")  # so that saving copies the code next to the weights
