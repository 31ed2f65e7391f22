"""Dual-alignment pre-training: translation ranking plus representation translation learning (Li et al. 2023)."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForMaskedLM, PreTrainedConfig, PreTrainedModel
from transformers.dynamic_module_utils import custom_object_save
from transformers.utils import ModelOutput

from .configuration_dap import DapConfig
from .encoder import load_encoder, quiet_loading
from .losses import translation_ranking_loss, vocabulary_cross_entropy
from .pooling import pool
from .rtl import RtlHead, VocabularyHead
from .stock import write_stock_modules

_HUB_KWARGS = ("revision", "token", "cache_dir", "local_files_only", "force_download", "proxies", "subfolder")


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


@dataclass
class DapTrainingOutput(ModelOutput):
    """Output of `DapForPreTraining`: scalars in nats, a part that the objective lacks is None.

    Args:
        loss: weighted sum of the parts.
        loss_tr: translation ranking (eq. 5).
        loss_rtl: representation translation learning (eq. 6), mean over real target tokens.
        loss_tlm: translation language modelling (eq. 2), mean over masked tokens.
    """

    loss: Tensor | None = None
    loss_tr: Tensor | None = None
    loss_rtl: Tensor | None = None
    loss_tlm: Tensor | None = None


class DapModel(PreTrainedModel):
    """The dual encoder: on disk a plain encoder with stock sentence-transformers modules beside it.

    Any Bert, XLM-R or similar checkpoint loads as one, the authors' published ones among them.
    """

    config_class = DapConfig
    base_model_prefix = "dap"
    main_input_name = "input_ids"

    def __init__(self, config: DapConfig, encoder: PreTrainedModel | None = None):
        super().__init__(config)
        self.encoder = AutoModel.from_config(copy.deepcopy(config.encoder_config)) if encoder is None else encoder
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        return_dict: bool = True,
        **kwargs,
    ) -> DapOutput | tuple:
        """Embed token ids (B, S); `kwargs` are further encoder inputs, such as `token_type_ids`."""
        attention_mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **kwargs).last_hidden_state
        pooled = pool(states, attention_mask, self.config.pooling)
        output = DapOutput(last_hidden_state=states, pooled=pooled, sentence_embedding=F.normalize(pooled, dim=-1))
        return output if return_dict else output.to_tuple()

    @classmethod
    def from_pretrained(cls, name, *args, config: PreTrainedConfig | None = None, **kwargs):
        """Load a published DAP model or any plain encoder (pooling: CLS), from a folder or the Hub.

        Raises:
            ValueError: for a checkpoint that lacks weights of its encoder.
        """
        hub_kwargs = {key: kwargs[key] for key in _HUB_KWARGS if key in kwargs}
        stored, _ = PreTrainedConfig.get_config_dict(str(name), **hub_kwargs)
        kwargs.pop("trust_remote_code", None)
        with_info = kwargs.pop("output_loading_info", False)
        fields = stored.get("dap", {}) | {key: kwargs.pop(key) for key in ("pooling",) if key in kwargs}
        encoder = load_encoder(str(name), **({"dtype": torch.float32} | kwargs))
        model = cls(DapConfig(encoder_config=encoder.config, **fields), encoder).eval()
        model.name_or_path = str(name)
        return (model, {"missing_keys": set(), "unexpected_keys": set()}) if with_info else model

    def save_pretrained(self, save_directory: str | Path, push_to_hub: bool = False, **kwargs) -> None:
        """Write the encoder to the root and the stock modules beside it (`hfxling.export` adds the tokenizer)."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.encoder.config.dap = self.config.model_dict()
        self.encoder.config.auto_map = {"AutoModel": f"{Path(__file__).stem}.{type(self).__name__}"}
        custom_object_save(self, folder)
        write_stock_modules(
            folder, [("Normalize", None)], hidden_size=self.config.hidden_size, pooling=self.config.pooling
        )
        self.encoder.save_pretrained(folder, **kwargs)
        if push_to_hub:
            self.push_to_hub(**kwargs)


class DapForPreTraining(PreTrainedModel):
    """The dual encoder with what its objectives need while training; `.dap` is the model to publish.

    Args:
        config: says which objectives; see `DapConfig`.
        encoder: a loaded encoder; by default a new one after `config.encoder_config`.
    """

    config_class = DapConfig
    base_model_prefix = "dap"
    main_input_name = "source"

    def __init__(self, config: DapConfig, encoder: PreTrainedModel | None = None):
        super().__init__(config)
        self.dap = DapModel(config, encoder)
        parts = config.objective.split("+")
        encoder_config, size = self.dap.encoder.config, config.hidden_size
        self.rtl = RtlHead(encoder_config, config.rtl_layers, len(config.languages)) if "rtl" in parts else None
        self.vocabulary = VocabularyHead(encoder_config) if {"rtl", "tlm"} & set(parts) else None
        self.with_tlm = "tlm" in parts
        self.projection = nn.Linear(size, size) if config.project_cls else None
        if config.shortlist_size and self.rtl is not None:
            self.register_buffer("shortlist", torch.zeros(config.shortlist_size, dtype=torch.long))
            self.register_buffer("shortlist_index", torch.full((encoder_config.vocab_size,), -1))
        self.post_init()

    @classmethod
    def from_encoder(
        cls, name: str, *, shortlist: Tensor | None = None, hub_kwargs: dict | None = None, **fields
    ) -> "DapForPreTraining":
        """Start from a checkpoint of the Hub or a folder, its masked-LM head included where it has one.

        Args:
            name: Hub id or folder of the encoder, or of a published DAP model.
            shortlist: (V',) the token ids that occur on the sides to reconstruct; see `set_shortlist`.
            hub_kwargs: `revision`, `token`, `cache_dir`, ...
            **fields: of `DapConfig`.
        """
        hub_kwargs = hub_kwargs or {}
        base = DapModel.from_pretrained(name, **hub_kwargs)
        fields = base.config.model_dict() | fields
        size = None if shortlist is None else len(shortlist)
        config = DapConfig(encoder_config=base.encoder.config, shortlist_size=size, **fields)
        model = cls(config, base.encoder)
        if model.rtl is not None:
            model.rtl.copy_encoder(base.encoder, model.config.mask_token_id)
        if model.vocabulary is not None:
            _copy_masked_lm_head(model.vocabulary, name, hub_kwargs)
        if shortlist is not None and model.rtl is not None:
            model.set_shortlist(shortlist)
        return model

    def set_shortlist(self, ids: Tensor) -> None:
        """Restrict the RTL softmax to these token ids; exact as long as every token to be predicted is among them."""
        ids = torch.as_tensor(ids).unique()
        if len(ids) != len(self.shortlist):
            raise ValueError(
                f"{len(ids)} distinct ids for a shortlist of {len(self.shortlist)} (config.shortlist_size)."
            )
        self.shortlist.copy_(ids)
        self.shortlist_index.fill_(-1)
        self.shortlist_index[ids] = torch.arange(len(ids), device=self.shortlist_index.device)

    def embed(self, source: dict[str, Tensor], target: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Token states (B, S, H) and (B, T, H), sentence vectors (B, H) of both sides."""
        outputs = [self.dap(side["input_ids"], side["attention_mask"]) for side in (source, target)]
        vectors = [output.pooled for output in outputs]
        if self.projection is not None:
            vectors = [torch.tanh(self.projection(x)) for x in vectors]
        return outputs[0].last_hidden_state, outputs[1].last_hidden_state, *vectors

    def ranking_loss(self, source: Tensor, target: Tensor, gather: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Eq. 5 on (B, D) vectors; `gather` appends the other processes' vectors as further negatives."""
        gather = gather or (lambda x: x)
        settings = {"temperature": self.config.temperature, "margin": self.config.margin}
        loss = translation_ranking_loss(source, gather(target), **settings)
        if self.config.ranking == "both":
            loss = (loss + translation_ranking_loss(target, gather(source), **settings)) / 2
        return loss

    def forward(
        self,
        source: dict[str, Tensor],
        target: dict[str, Tensor],
        language: Tensor | None = None,
        gather: Callable[[Tensor], Tensor] | None = None,
        ranking_slopes: tuple[Tensor, Tensor] | None = None,
        rtl_tokens: Tensor | None = None,
    ) -> DapTrainingOutput:
        """Losses of a batch of pairs; row i of source (the non-English side) translates row i of target.

        Args:
            source: input_ids and attention_mask, (B, S), CLS first, padding on the right.
            target: the same, (B, T).
            language: (B,) index of each source's language in `config.languages`; its first entry is the target's.
            gather: from this process' rows to all processes', its own first, with gradient (`training.distributed`).
            ranking_slopes: gradients of the ranking loss with respect to both sides' sentence vectors, when this is one
                chunk of a larger batch (gradient caching): `loss` then has the right gradient and no meaningful value.
            rtl_tokens: number of tokens to predict in that larger batch, over all processes.
        """
        states, target_states, x, y = self.embed(source, target)
        parts = {}
        if ranking_slopes is None:
            loss = parts["loss_tr"] = self.ranking_loss(x, y, gather)
        else:
            loss = (x * ranking_slopes[0]).sum() + (y * ranking_slopes[1]).sum()
        if self.rtl is not None:
            summed, count = self.rtl_loss(states, target_states, source, target, language)
            counts = gather(count[None]) if gather and rtl_tokens is None else count[None]
            world = len(counts)  # gradients are averaged over the processes: weigh this one's share back
            parts["loss_rtl"] = summed * world / (counts.sum() if rtl_tokens is None else rtl_tokens).clamp(min=1)
            loss = loss + self.config.rtl_weight * parts["loss_rtl"]
        if self.with_tlm:
            parts["loss_tlm"] = self.tlm_loss(source, target)
            loss = loss + self.config.tlm_weight * parts["loss_tlm"]
        return DapTrainingOutput(loss=loss, **parts)

    def rtl_loss(
        self,
        states: Tensor,
        target_states: Tensor,
        source: dict[str, Tensor],
        target: dict[str, Tensor],
        language: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Summed cross-entropy of eq. 6 over the tokens to predict, and their number."""
        forward, backward = (states, source), (target_states, target)
        batch = torch.arange(len(states), device=states.device)
        jobs = {"xx-en": [(forward, backward, batch)], "en-xx": [(backward, forward, batch)]}
        jobs["both"] = [(forward, backward, batch[::2]), (backward, forward, batch[1::2])]
        found, labels = [], []
        for (given, inputs), (true, wanted), rows in jobs[self.config.rtl_direction]:
            if not len(rows):
                continue
            mask, target_mask, ids = inputs["attention_mask"][rows], wanted["attention_mask"][rows], wanted["input_ids"]
            languages = None
            if language is not None and self.rtl.language_embeddings is not None:
                common = torch.zeros_like(language)
                pair = (language, common) if inputs is source else (common, language)
                languages = (pair[0][rows], pair[1][rows])
            shown = self._shown(target_mask)
            outputs = self.rtl(
                given[rows],
                mask,
                target_mask,
                shown=shown,
                target_states=None if shown is None else true[rows],
                languages=languages,
            )
            real = target_mask[:, 1:].bool()
            kept = None if shown is None else ~shown[:, 1:][real]
            found.append(outputs if kept is None else outputs[kept])
            labels.append(ids[rows][:, 1:][real] if kept is None else ids[rows][:, 1:][real][kept])
        return self._predict(torch.cat(found), torch.cat(labels), use_shortlist=True), torch.tensor(
            sum(map(len, labels)), device=states.device
        )

    def tlm_loss(self, source: dict[str, Tensor], target: dict[str, Tensor]) -> Tensor:
        """Masked prediction on the concatenated pair (Conneau and Lample 2019), an extra pass through the encoder."""
        ids, mask = _concatenate(source, target, self.dap.encoder.config.pad_token_id)
        special = torch.tensor(self.config.special_token_ids, device=ids.device)
        maskable = mask.bool() & ~torch.isin(ids, special)
        chosen = maskable & (torch.rand(ids.shape, device=ids.device) < self.config.mlm_probability)
        if not chosen.any():  # nothing to learn from, but every parameter still gets its (zero) gradient
            chosen = maskable & (maskable.cumsum(1) == 1)
        fate = torch.rand(ids.shape, device=ids.device)
        corrupted = torch.where(chosen & (fate < 0.8), self.config.mask_token_id, ids)
        other = torch.randint_like(ids, self.dap.encoder.config.vocab_size)
        corrupted = torch.where(chosen & (fate >= 0.9), other, corrupted)
        states = self.dap.encoder(input_ids=corrupted, attention_mask=mask).last_hidden_state
        labels = ids[chosen]
        return self._predict(states[chosen], labels) / max(1, len(labels))

    def _predict(self, states: Tensor, labels: Tensor, use_shortlist: bool = False) -> Tensor:
        """Summed cross-entropy of vocabulary prediction at the given states, tied to the input embeddings."""
        weight, bias = self.dap.encoder.get_input_embeddings().weight, self.vocabulary.bias
        if use_shortlist and self.config.shortlist_size:
            weight, bias = weight.index_select(0, self.shortlist), bias.index_select(0, self.shortlist)
            labels = self.shortlist_index[labels]
            if len(labels) and labels.min() < 0:
                raise ValueError("a token to be predicted is not in the shortlist: build it from all training text.")
        return vocabulary_cross_entropy(self.vocabulary(states), weight, bias, labels)

    def _shown(self, target_mask: Tensor) -> Tensor | None:
        """Target positions whose true state is given; at least one a sentence stays hidden."""
        if self.config.rtl_ratio == 1:
            return None
        real = target_mask.bool() & (torch.arange(target_mask.shape[1], device=target_mask.device) > 0)
        draw = torch.rand(target_mask.shape, device=target_mask.device).masked_fill(~real, 2.0)
        return real & (draw >= self.config.rtl_ratio) & (draw > draw.min(1, keepdim=True).values)

    def _init_weights(self, module: nn.Module) -> None:
        """What `from_encoder` does not overwrite keeps torch's own initialisation."""


def _concatenate(source: dict[str, Tensor], target: dict[str, Tensor], pad: int) -> tuple[Tensor, Tensor]:
    """`[CLS] x [SEP] y [SEP]` of every pair, padded on the right: ids and mask."""
    joined = torch.cat([source["input_ids"], target["input_ids"][:, 1:]], dim=1)
    mask = torch.cat([source["attention_mask"], target["attention_mask"][:, 1:]], dim=1)
    order = mask.argsort(dim=1, descending=True, stable=True)  # real tokens first, in their order
    joined, mask = joined.gather(1, order), mask.gather(1, order)
    longest = int(mask.sum(1).max())
    return joined[:, :longest].masked_fill(mask[:, :longest] == 0, pad), mask[:, :longest]


def _copy_masked_lm_head(head: VocabularyHead, name: str, hub_kwargs: dict) -> None:
    """From the checkpoint where it has a masked-LM head; otherwise the head stays new."""
    with quiet_loading():
        model, info = AutoModelForMaskedLM.from_pretrained(
            name, trust_remote_code=False, output_loading_info=True, dtype=torch.float32, **hub_kwargs
        )
    if not any("dense" in key for key in info["missing_keys"]):
        head.copy_masked_lm(model)
