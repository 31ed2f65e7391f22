"""The RTL head of DAP: predicts a sentence from the token states of its translation (Li et al. 2023, eq. 4 and 6)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel
from transformers.activations import ACT2FN
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.xlm_roberta.modeling_xlm_roberta import XLMRobertaLayer

from .loading import quiet_loading

LAYERS = {"bert": BertLayer, "xlm-roberta": XLMRobertaLayer}


class VocabularyHead(nn.Module):
    """The masked-LM head without its own output matrix: (N, H) states to (N, H) states that meet the embeddings."""

    def __init__(self, config: PreTrainedConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        # transformers' XLM-R head has gelu whatever the configuration says, BERT's the configured function.
        self.activation = ACT2FN["gelu" if config.model_type == "xlm-roberta" else config.hidden_act]
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, states: Tensor) -> Tensor:
        """(N, H) to (N, H)."""
        return self.norm(self.activation(self.dense(states)))

    @torch.no_grad()
    def copy_masked_lm(self, name: str, **hub_kwargs) -> None:
        """Take over the head of a BERT or XLM-R checkpoint where it has one; otherwise this one stays new."""
        with quiet_loading():
            hub_kwargs |= {"trust_remote_code": False, "output_loading_info": True, "dtype": torch.float32}
            model, info = AutoModelForMaskedLM.from_pretrained(name, **hub_kwargs)
        if any("dense" in key for key in info["missing_keys"]):  # transformers made a head up
            return
        head = model.cls.predictions.transform if hasattr(model, "cls") else model.lm_head
        self.dense.load_state_dict(head.dense.state_dict())
        self.norm.load_state_dict((head.LayerNorm if hasattr(head, "LayerNorm") else head.layer_norm).state_dict())
        self.bias.copy_(model.get_output_embeddings().bias)


class RtlHead(nn.Module):
    """K transformer layers over a sentence's token states and placeholders for its translation.

    The placeholders carry embeddings of their own (position, segment, language where asked), applied once. They are the
    same for every pair, so the first layer projects them once a batch; the last layer is computed at target positions
    only, its feed-forward part at the real ones only.

    Args:
        config: of the encoder.
        layers: K.
        languages: number of language embeddings, 0 for none.
    """

    def __init__(self, config: PreTrainedConfig, layers: int = 2, languages: int = 0):
        super().__init__()
        if config.model_type not in LAYERS:
            raise ValueError(
                f"an RTL head needs an encoder of type {' or '.join(LAYERS)}, not {config.model_type!r}; "
                "objective='tr' works with any."
            )
        size = config.hidden_size
        self.layers = nn.ModuleList(RtlLayer(config) for _ in range(layers))
        self.mask_embedding = nn.Parameter(torch.zeros(size))
        self.segment_embedding = nn.Parameter(torch.zeros(size))
        # XLM-R counts positions from padding_idx + 1.
        self.offset = config.pad_token_id + 1 if config.model_type == "xlm-roberta" else 0
        self.position_embeddings = nn.Parameter(torch.zeros(config.max_position_embeddings - self.offset, size))
        self.norm = nn.LayerNorm(size, eps=config.layer_norm_eps)
        self.language_embeddings = nn.Parameter(torch.zeros(languages, size)) if languages else None

    @torch.no_grad()
    def copy_encoder(self, encoder: PreTrainedModel, mask_token_id: int) -> None:
        """Start from the encoder: its last K layers and its embeddings of position, segment and [MASK]."""
        for layer, of_encoder in zip(self.layers, encoder.encoder.layer[-len(self.layers) :]):
            layer.load_state_dict(of_encoder.state_dict())
        embeddings = encoder.embeddings
        self.mask_embedding.copy_(embeddings.word_embeddings.weight[mask_token_id])
        self.segment_embedding.copy_(embeddings.token_type_embeddings.weight[-1])  # BERT's second segment, XLM-R's only
        self.position_embeddings.copy_(embeddings.position_embeddings.weight[self.offset :])
        self.norm.load_state_dict(embeddings.LayerNorm.state_dict())

    def forward(
        self,
        states: Tensor,
        mask: Tensor,
        target_mask: Tensor,
        *,
        shown: Tensor | None = None,
        target_states: Tensor | None = None,
        languages: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        """States at the real target positions, row by row.

        Args:
            states: (B, S, H) token states of the given sentences, CLS first; padding on the right.
            mask: (B, S), 1 at real tokens.
            target_mask: (B, T), 1 at real tokens of the sentences to predict, CLS first.
            shown: (B, T) bool, positions whose true state is given (rho < 1); they are computed like the others.
            target_states: (B, T, H) encoder states of the targets, where `shown` is given.
            languages: (B,) indices of the given and of the predicted sentence's language.

        Returns:
            (N, H), N = number of real target tokens without CLS.
        """
        states, mask, real = states[:, 1:], mask[:, 1:].bool(), target_mask[:, 1:].bool()  # all without CLS
        length = real.shape[1]
        placeholders = self.mask_embedding + self.segment_embedding + self.position_embeddings[1 : length + 1]
        if languages is not None and self.language_embeddings is not None:
            given, wanted = (self.language_embeddings[indices][:, None] for indices in languages)
            states, placeholders = states + given, placeholders + wanted
            if shown is not None:
                target_states = target_states + wanted
        target = self.norm(placeholders if placeholders.ndim == 3 else placeholders[None])
        if shown is not None:
            target = torch.where(shown[:, 1:, None], target_states[:, 1:], target)
        attended = torch.cat([mask, real], dim=1)[:, None, None]
        for layer in self.layers[:-1]:
            states, target = layer(states, target, attended)
        return self.layers[-1](states, target, attended, real)


class RtlLayer(nn.Module):
    """A layer of the encoder, under the same weight names, that keeps source and target positions apart."""

    def __init__(self, config: PreTrainedConfig):
        super().__init__()
        layer = LAYERS[config.model_type](config)
        self.attention, self.intermediate, self.output = layer.attention, layer.intermediate, layer.output
        self.heads, self.dropout = config.num_attention_heads, config.attention_probs_dropout_prob

    def forward(self, states: Tensor, target: Tensor, attended: Tensor, real: Tensor | None = None) -> tuple | Tensor:
        """Attend from all positions, or from the targets alone in the last layer.

        Args:
            states: (B, S, H).
            target: (B, T, H), or (1, T, H) where all pairs have the same.
            attended: (B, 1, 1, S + T) bool.
            real: (B, T) bool, given in the last layer: only these positions are computed.

        Returns:
            Both states anew; in the last layer the (N, H) real target states, row by row.
        """
        projections = self.attention.self
        key = _join(projections.key(states), projections.key(target))
        value = _join(projections.value(states), projections.value(target))
        if real is None:
            query = _join(projections.query(states), projections.query(target))
        else:
            query = projections.query(target).expand(len(states), -1, -1)
        split = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (query, key, value))
        dropout = self.dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(*split, attn_mask=attended, dropout_p=dropout)
        context = context.transpose(1, 2).flatten(2)
        if real is not None:
            return self._rest(context[real], target.expand(len(states), -1, -1)[real])
        x = self._rest(context, _join(states, target))
        return x[:, : states.shape[1]], x[:, states.shape[1] :]

    def _rest(self, context: Tensor, states: Tensor) -> Tensor:
        """Output projection and feed-forward part, both with residual and norm."""
        states = self.attention.output(context, states)
        return self.output(self.intermediate(states), states)


def _join(states: Tensor, target: Tensor) -> Tensor:
    """(B, S, H) and (B or 1, T, H) to (B, S + T, H)."""
    return torch.cat([states, target.expand(len(states), -1, -1)], dim=1)
