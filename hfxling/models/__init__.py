"""The four methods. Importing this package registers them with transformers' Auto classes."""

from transformers import AutoConfig, AutoModel

from .configuration_siamese import SiameseConfig
from .modeling_siamese import SiameseHead, SiameseModel, SiameseOutput

__all__ = ["SiameseConfig", "SiameseHead", "SiameseModel", "SiameseOutput"]

AutoConfig.register(SiameseConfig.model_type, SiameseConfig)
AutoModel.register(SiameseConfig, SiameseModel)
SiameseConfig.register_for_auto_class()
SiameseModel.register_for_auto_class("AutoModel")  # so that saving copies the code next to the weights
