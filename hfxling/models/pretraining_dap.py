"""Dual-alignment pre-training (Li et al. 2023): what training needs beyond a published folder."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from .configuration_dap import DapConfig
from .losses import shared_texts, translation_ranking_loss, vocabulary_cross_entropy
from .modeling_dap import DapModel
from .rtl import RtlHead, VocabularyHead
from .stock import StockOutput

# Both sides go through the encoder as one batch (larger matrix products, one gradient of each weight) where that pads
# the tokens to no more than this multiple.
_JOINT_PADDING = 1.1
_MASKED = 0.15  # share of tokens that TLM masks


@dataclass
class DapTrainingOutput(ModelOutput):
    """Output of `DapForPreTraining`: scalars in nats, a part that the objective lacks is None.

    Args:
        loss: weighted sum of the parts.
        loss_tr: translation ranking (eq. 5).
        loss_rtl: representation translation learning (eq. 6), mean over real target tokens.
        loss_tlm: translation language modelling (eq. 2), mean over masked tokens.
        source: (B, D) sentence vectors, where nothing but them was asked for.
        target: (B, D) the same.
    """

    loss: Tensor | None = None
    loss_tr: Tensor | None = None
    loss_rtl: Tensor | None = None
    loss_tlm: Tensor | None = None
    source: Tensor | None = None
    target: Tensor | None = None


@dataclass
class BatchPart:
    """What a chunk must know of the larger batch it belongs to.

    Args:
        source_slope: (B, D) gradient of the whole batch's ranking loss with respect to the chunk's source vectors.
        target_slope: (B, D) the same of the target vectors.
        rtl_tokens: `DapForPreTraining.rtl_tokens` of the whole batch.
        share: of the batch's pairs.
    """

    source_slope: Tensor
    target_slope: Tensor
    rtl_tokens: Tensor
    share: float


class DapForPreTraining(PreTrainedModel):
    """The dual encoder with what its objectives need while training; `.dap` is the model to publish.

    Args:
        config: says which objectives; see `DapConfig`.
        encoder: a loaded encoder; by default a new one after `config.encoder_config`.

    Attributes:
        row_gradients: the word embeddings' gradient comes as a sparse tensor of the rows that are used, not as a matrix
            of zeros for every look-up; for an optimizer that takes it (`RowAdamW`).
        one_pass: both sides always go through the encoder as one batch, and not only where that pads little. Processes
            that hold a piece of the weights each must run it equally often, whatever the lengths of their own texts.
    """

    config_class = DapConfig
    base_model_prefix = "dap"
    row_gradients = False
    one_pass = False

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
        self.post_init()  # gathers the next line's names from the parts
        # Accelerate's FSDP shards the encoder's layers one by one and keeps the rest, whole all through a forward pass,
        # with the root: the word embeddings too, whose weight `vocabulary_loss` reads.
        self._no_split_modules = {name for name in self._no_split_modules if not name.endswith("Embeddings")}

    def get_input_embeddings(self) -> None:
        """None, as these are no part of their own (FSDP would free their weight after the look-up)."""

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
        fields = base.config.head_dict() | fields
        size = None if shortlist is None else len(shortlist)
        model = cls(DapConfig(encoder_config=base.encoder.config, shortlist_size=size, **fields), base.encoder)
        if model.rtl is not None:
            model.rtl.copy_encoder(base.encoder, model.config.mask_token_id)
        if model.vocabulary is not None:
            model.vocabulary.copy_masked_lm(name, **hub_kwargs)
        if shortlist is not None and model.rtl is not None:
            model.set_shortlist(shortlist)
        return model

    def set_shortlist(self, ids: Tensor) -> None:
        """Restrict the RTL softmax to these token ids; exact as long as every token to be predicted is among them."""
        self.shortlist.copy_(ids)
        self.shortlist_index.fill_(-1)
        self.shortlist_index[ids] = torch.arange(len(ids), device=self.shortlist_index.device)

    def embed(self, source: dict[str, Tensor], target: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Token states (B, S, H) and (B, T, H), sentence vectors (B, H) of both sides."""
        # Said here and not once: DistributedDataParallel, which reads it when it wraps, reduces a dense gradient.
        self.dap.encoder.get_input_embeddings().sparse = self.row_gradients
        lengths = source["input_ids"].shape[1], target["input_ids"].shape[1]
        if self.one_pass or 2 * max(lengths) <= _JOINT_PADDING * sum(lengths):
            output = self.dap(*_stacked(source, target, self.dap.encoder.config.pad_token_id or 0))
            states = [x[:, :length] for x, length in zip(output.last_hidden_state.chunk(2), lengths)]
            vectors = output.pooled.chunk(2)
        else:
            outputs = [self.dap(side["input_ids"], side["attention_mask"]) for side in (source, target)]
            states, vectors = [x.last_hidden_state for x in outputs], [x.pooled for x in outputs]
        if self.projection is not None:
            vectors = [torch.tanh(self.projection(x)) for x in vectors]
        return *states, *vectors

    def ranking_loss(
        self, source: Tensor, target: Tensor, texts: Tensor, gather: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Eq. 5 on (B, D) vectors; pairs that share one of their (B, 2) `text_ids` are no negatives of each other.

        `gather` appends the other processes' rows, which are further negatives.
        """
        gather = gather or (lambda x: x)
        same = shared_texts(texts, gather(texts))
        settings = {"temperature": self.config.temperature, "margin": self.config.margin, "same": same}
        loss = translation_ranking_loss(source, gather(target), **settings)
        if self.config.ranking == "both":
            loss = (loss + translation_ranking_loss(target, gather(source), **settings)) / 2
        return loss

    def forward(
        self,
        source: dict[str, Tensor],
        target: dict[str, Tensor] | None = None,
        language: Tensor | None = None,
        gather: Callable[[Tensor], Tensor] | None = None,
        part: BatchPart | None = None,
        embed_only: bool = False,
    ) -> DapTrainingOutput | StockOutput:
        """Losses of a batch of pairs; row i of source (the non-English side) translates row i of target.

        Args:
            source: input_ids and attention_mask, (B, S), CLS first, padding on the right.
            target: the same, (B, T). Without it the output is `.dap`'s of the one side, for what must not go past a
                wrapper of this model.
            language: (B,) index of each source's language in `config.languages`; its first entry is the target's.
            gather: from this process' rows to all processes', its own first, with gradient.
            part: given when the pairs are one chunk of a larger batch (gradient caching). The chunks' gradients, and
                their RTL and TLM losses, then add up to the batch's.
            embed_only: the sentence vectors and no losses.
        """
        if target is None:
            return self.dap(**source)
        states, target_states, x, y = self.embed(source, target)
        if embed_only:
            return DapTrainingOutput(source=x, target=y)
        losses = {}
        if part is None:
            loss = losses["loss_tr"] = self.ranking_loss(x, y, text_ids(source, target), gather)
        else:  # linear in the vectors: its gradient is that of the whole batch's ranking loss, its value means nothing
            loss = (x * part.source_slope).sum() + (y * part.target_slope).sum()
        if self.rtl is not None:
            tokens = self.rtl_tokens(source, target, gather) if part is None else part.rtl_tokens
            losses["loss_rtl"] = self.rtl_loss(states, target_states, source, target, language) / tokens
            loss = loss + self.config.rtl_weight * losses["loss_rtl"]
        if self.with_tlm:
            losses["loss_tlm"] = self.tlm_loss(source, target) * (1 if part is None else part.share)
            loss = loss + losses["loss_tlm"]
        return DapTrainingOutput(loss=loss, **losses)

    def rtl_tokens(self, source: dict, target: dict, gather: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Tokens that RTL predicts in a batch, the mean over the processes (whose gradients are averaged)."""
        jobs = self._rtl_jobs(source, target)
        count = sum(self._hidden_counts(wanted["attention_mask"][rows]).sum() for _, wanted, rows in jobs)[None]
        return (gather(count) if gather else count).float().mean().clamp(min=1)

    def _rtl_jobs(self, source, target) -> list[tuple]:
        """(given side, side to predict, rows): the directions of Table 5; "both" alternates from row to row."""
        rows = slice(None)
        return {
            "xx-en": [(source, target, rows)],
            "en-xx": [(target, source, rows)],
            "both": [(source, target, slice(0, None, 2)), (target, source, slice(1, None, 2))],
        }[self.config.rtl_direction]

    def rtl_loss(
        self, states: Tensor, target_states: Tensor, source: dict, target: dict, language: Tensor | None = None
    ) -> Tensor:
        """Summed cross-entropy of eq. 6 over the tokens to predict."""
        common = None if language is None else torch.zeros_like(language)
        sides = (states, source, language), (target_states, target, common)
        predicting, labels = [], []
        for (given, inputs, from_language), (true, wanted, to_language), rows in self._rtl_jobs(*sides):
            target_mask = wanted["attention_mask"][rows]
            if not len(target_mask):
                continue
            shown = self.draw_shown(target_mask)
            outputs = self.rtl(
                given[rows],
                inputs["attention_mask"][rows],
                target_mask,
                shown=shown,
                target_states=true[rows],
                languages=None if language is None else (from_language[rows], to_language[rows]),
            )
            real = target_mask[:, 1:].bool()
            gold = wanted["input_ids"][rows][:, 1:][real]
            if shown is not None:
                hidden = ~shown[:, 1:][real]
                outputs, gold = outputs[hidden], gold[hidden]
            predicting.append(outputs)
            labels.append(gold)
        return self.vocabulary_loss(torch.cat(predicting), torch.cat(labels), use_shortlist=True)

    def tlm_loss(self, source: dict[str, Tensor], target: dict[str, Tensor]) -> Tensor:
        """Masked prediction on the concatenated pair (Conneau and Lample 2019), an extra pass through the encoder."""
        ids, mask = concatenate_pairs(source, target, self.dap.encoder.config.pad_token_id)
        special = torch.tensor(self.config.special_token_ids, device=ids.device)
        maskable = mask.bool() & ~torch.isin(ids, special)
        chosen = maskable & (torch.rand(ids.shape, device=ids.device) < _MASKED)
        if not chosen.any():  # nothing to learn from, but every parameter still gets its (zero) gradient
            chosen = maskable & (maskable.cumsum(1) == 1)
        # As BERT: of the chosen ones 80 % become [MASK], 10 % any token, 10 % stay.
        fate = torch.rand(ids.shape, device=ids.device)
        corrupted = torch.where(chosen & (fate < 0.8), self.config.mask_token_id, ids)
        any_token = torch.randint_like(ids, self.dap.encoder.config.vocab_size)
        corrupted = torch.where(chosen & (fate >= 0.9), any_token, corrupted)
        states = self.dap.encoder(input_ids=corrupted, attention_mask=mask).last_hidden_state
        labels = ids[chosen]
        return self.vocabulary_loss(states[chosen], labels) / max(1, len(labels))

    def vocabulary_loss(self, states: Tensor, labels: Tensor, use_shortlist: bool = False) -> Tensor:
        """Summed cross-entropy of vocabulary prediction at the given states, tied to the input embeddings."""
        weight, bias = self.dap.encoder.get_input_embeddings().weight, self.vocabulary.bias
        if use_shortlist and self.config.shortlist_size:
            # As rows: a matrix of gradients would wait all through the encoder's backward pass for the one of its own
            # look-up. A shard's view cannot take rows.
            weight = F.embedding(self.shortlist, weight, sparse=self.row_gradients or weight.is_leaf)
            bias = bias.index_select(0, self.shortlist)
            labels = self.shortlist_index[labels]
            if len(labels) and labels.min() < 0:
                raise ValueError("a token to be predicted is not in the shortlist: build it from all training text.")
        return vocabulary_cross_entropy(self.vocabulary(states), weight, bias, labels)

    def _hidden_counts(self, mask: Tensor) -> Tensor:
        """How many tokens of each sentence are reconstructed: rho of them, but at least one."""
        real = mask.sum(1) - 1  # without CLS
        return (self.config.rtl_ratio * real).round().long().clamp(min=1).minimum(real)

    def draw_shown(self, mask: Tensor) -> Tensor | None:
        """(B, T) target positions whose true state is given, drawn at random; None where all are reconstructed."""
        if self.config.rtl_ratio == 1:
            return None
        real = mask.bool() & (torch.arange(mask.shape[1], device=mask.device) > 0)
        draws = torch.rand(mask.shape, device=mask.device).masked_fill(~real, 2.0)  # CLS and padding come last
        rank = draws.argsort(1).argsort(1)
        return real & (rank >= self._hidden_counts(mask)[:, None])

    def _init_weights(self, module: nn.Module) -> None:
        """What `from_encoder` does not overwrite keeps torch's own initialisation."""


def text_ids(*sides: dict[str, Tensor]) -> Tensor:
    """(B, sides) numbers of the texts, equal where the encoder sees the same tokens, on every process.

    A polynomial of the ids modulo 2 ** 64; padding counts nothing, so the width of the batch does not matter.
    """
    numbers = []
    for side in sides:
        ids = side["input_ids"]
        powers = torch.full_like(ids[0], 6364136223846793005).cumprod(0)  # Knuth's multiplier for 64 bits
        numbers.append(((ids + 1) * side["attention_mask"] * powers).sum(1))  # + 1: id 0 counts, too
    return torch.stack(numbers, dim=1)


def _stacked(source: dict[str, Tensor], target: dict[str, Tensor], pad: int) -> list[Tensor]:
    """Both sides below each other, (2 B, S): ids and mask."""
    sides = (source, target)
    longest = max(side["input_ids"].shape[1] for side in sides)
    stacked = []
    for name, value in (("input_ids", pad), ("attention_mask", 0)):
        padded = [F.pad(side[name], (0, longest - side[name].shape[1]), value=value) for side in sides]
        stacked.append(torch.cat(padded))
    return stacked


def concatenate_pairs(source: dict[str, Tensor], target: dict[str, Tensor], pad: int) -> tuple[Tensor, Tensor]:
    """`[CLS] x [SEP] y [SEP]` of every pair, padded on the right: ids and mask."""
    joined = torch.cat([source["input_ids"], target["input_ids"][:, 1:]], dim=1)
    mask = torch.cat([source["attention_mask"], target["attention_mask"][:, 1:]], dim=1)
    order = mask.argsort(dim=1, descending=True, stable=True)  # real tokens first, in their order
    joined, mask = joined.gather(1, order), mask.gather(1, order)
    longest = int(mask.sum(1).max())
    return joined[:, :longest].masked_fill(mask[:, :longest] == 0, pad), mask[:, :longest]
