"""Encoders of the Hub, cut after the layer that is needed."""

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding, PreTrainedModel

from .loading import hub_kwargs_of, load_whole

# Encoder-decoders whose encoder stands alone; its stack ends in a norm that every cut repeats.
ENCODER_OF_SEQ2SEQ = ("t5", "mt5", "umt5")


Layer = int | str | list[int] | None  # index into `hidden_states`, several of them, "all" (their mean), None: the last


def load_encoder(name: str, layer: Layer = None, *, spare: bool = True, **kwargs) -> PreTrainedModel:
    """Load an encoder so that its `last_hidden_state` is the wanted layer; the layers above are not even built.

    Args:
        name: Hub id or folder of a Bert, XLM-R, XLM, DistilBert, (m)T5 or similar encoder.
        layer: index into `hidden_states`: 0 is the embedding output, k the output of block k; of several the deepest
            counts. None and "all" keep every layer. In the T5 family the stack's final norm follows the chosen layer
            too: the raw residual stream is dominated by a few huge components.
        spare: whether the checkpoint may hold more than the encoder (layers above, a prediction head) or less (its
            pooler, which is unused); False for folders of our own.
        **kwargs: passed on to `from_pretrained` (`revision`, `token`, `cache_dir`, `dtype`, ...).

    Raises:
        ValueError: when the model has a decoder that is not taken off, the layer does not exist or the checkpoint lacks
            weights of the layers that are kept, or has them in another shape.
    """
    hub_kwargs = hub_kwargs_of(kwargs)
    config = AutoConfig.from_pretrained(name, trust_remote_code=False, **hub_kwargs)
    if getattr(config, "is_encoder_decoder", False) and config.model_type not in ENCODER_OF_SEQ2SEQ:
        raise ValueError(
            f"{str(name)!r} ({config.model_type}) is an encoder with a decoder, and only those of "
            f"{', '.join(ENCODER_OF_SEQ2SEQ)} come apart here: give an encoder of sentences, such as XLM-R's family."
        )
    depth = config.num_hidden_layers
    is_list = isinstance(layer, (list, tuple))
    if (is_list or layer == "all") and config.model_type in ENCODER_OF_SEQ2SEQ:
        raise ValueError(
            f"layer={layer!r}: the layers of {str(name)!r} ({config.model_type}) share a final norm, which no stock "
            f"module repeats; choose one of 0..{depth}."
        )
    deepest = max(layer) if is_list else layer
    if deepest not in (None, "all"):
        if not (isinstance(deepest, int) and 0 <= deepest <= depth):
            raise ValueError(
                f"layer={deepest!r} is outside hidden_states 0..{depth} of {str(name)!r} (0 = embedding output, "
                '"all" = mean over the layers): choose one of these or a deeper encoder.'
            )
        config.num_hidden_layers = deepest
    auto_class = AutoModelForTextEncoding if config.model_type in ENCODER_OF_SEQ2SEQ else AutoModel
    kwargs |= {"config": config, "trust_remote_code": False}
    model, info = load_whole(auto_class.from_pretrained, name, spare=spare, **kwargs)
    for key in info["missing_keys"]:  # an unused pooler: zeros, so that two loads give the same folder
        torch.nn.init.zeros_(model.get_parameter(key))
    return model.eval()


def hidden_states(encoder: PreTrainedModel, inputs: dict[str, Tensor]) -> tuple[Tensor, ...]:
    """All layers' token states, (B, S, H) each: entry k equals the output of the encoder cut after layer k."""
    outputs = encoder(**inputs, output_hidden_states=True)
    states = outputs.hidden_states or (outputs.last_hidden_state,)  # an encoder without a layer collects none
    if encoder.config.model_type in ENCODER_OF_SEQ2SEQ:
        norm = encoder.encoder.final_layer_norm
        states = (*(norm(state) for state in states[:-1]), states[-1])  # the stack normed its last one
    return states


def layer_states(encoder: PreTrainedModel, inputs: dict[str, Tensor], layer: Layer = None) -> Tensor:
    """Token states (B, S, H) of an encoder that `load_encoder` cut: its last layer, or the mean of all for "all".

    Those of several layers stand side by side, (B, S, layers * H).
    """
    if isinstance(layer, list):
        states = hidden_states(encoder, inputs)
        return torch.cat([states[i] for i in layer], dim=-1)
    if layer == "all":
        # Without the embedding output, which WeightedLayerPooling (`stock.py`) leaves out, too.
        return torch.stack(hidden_states(encoder, inputs)[1:]).mean(0)
    return encoder(**inputs).last_hidden_state
