"""Contrastive BiLSTM word aligner (Zhang et al. 2024) on the encoder-decoder of Wada et al. (2021)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.utils import ModelOutput, can_return_tuple

from .aligner_layers import PAD, Decoder, Encoder, WordEmbedding, attention, fast_dropout, framed, permute, reversal
from .configuration_aligner import AlignerConfig
from .loading import hub_kwargs_of, load_whole, stored_config
from .losses import multi_view_contrastive_loss, vocabulary_cross_entropy
from .pooling import pool

DIRECTIONS = (0, 1)  # of a decoder: left to right, right to left
SIDES = (0, 1)  # of a pair: source, target


@dataclass
class AlignerOutput(ModelOutput):
    """Output of `AlignerModel`.

    Args:
        last_hidden_state: (B, S, H) contextual word vectors u (eq. 2).
        static: (B, S, H) static word vectors r (eqs. 1 and 10).
        sentence_embedding: (B, H) mean of the contextual vectors over the words, at unit length.
    """

    last_hidden_state: Tensor | None = None
    static: Tensor | None = None
    sentence_embedding: Tensor | None = None


@dataclass
class AlignStates(ModelOutput):
    """What links are read from; rows and columns at padding are zero.

    Args:
        target_to_source: (B, T, S) attention of each target word over the source words, mean over both decoders.
        source_to_target: (B, S, T) the same with the sides exchanged.
        source_contextual: (B, S, H) contextual vectors u.
        target_contextual: (B, T, H)
    """

    target_to_source: Tensor | None = None
    source_to_target: Tensor | None = None
    source_contextual: Tensor | None = None
    target_contextual: Tensor | None = None


@dataclass
class AlignerLoss(ModelOutput):
    """Scalars in nats a sentence pair, of the parts that were asked for.

    Args:
        loss: their sum, the contrastive part with its weight.
        loss_translation: negative log-likelihood of both sentences given the other one (eqs. 4 and 6).
        loss_reconstruction: the same given the sentence itself.
        loss_contrastive: eq. 16, unweighted; None for the base model.
    """

    loss: Tensor | None = None
    loss_translation: Tensor | None = None
    loss_reconstruction: Tensor | None = None
    loss_contrastive: Tensor | None = None


@dataclass
class _Side:
    """One sentence side of a batch on its way through the network."""

    language: str
    ids: Tensor  # (B, S)
    mask: Tensor  # (B, S)
    table: Tensor | None = None  # (V, H), only where words are predicted
    static: Tensor | None = None  # r, (B, S, H)
    contextual: Tensor | None = None  # u, (B, S, H)

    @property
    def lengths(self) -> Tensor:
        return self.mask.sum(1)


def _projection(size: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))


class AlignerModel(PreTrainedModel):
    """Shared BiLSTM encoder, two LSTM decoders a language, attention, tied output layer.

    A side of a batch is {"word_ids": (B, S) ids into the own vocabulary of its language, "mask": (B, S)}, padded on the
    right.

    Args:
        config: sizes and loss.
        piece_ids: of every language, (V, P) or narrower: the pieces of each vocabulary word, ids into the shared piece
            vocabulary, padded with 0. A checkpoint carries them.
    """

    config_class = AlignerConfig
    base_model_prefix = "aligner"
    main_input_name = "input_ids"

    def __init__(self, config: AlignerConfig, piece_ids: Mapping[str, Tensor] | None = None):
        super().__init__(config)
        self.embedding = WordEmbedding(config)
        self.encoder = Encoder(config)
        self.decoders = nn.ModuleDict({f"of_{language}": Decoder(config) for language in config.languages})
        self.output = nn.Linear(config.size, config.size, bias=False)  # W of eq. 8, shared by languages and directions
        if config.contrastive_weight:  # the map g of eq. 11
            self.query, self.key = _projection(config.size), _projection(config.size)
        self.post_init()
        for language, table in (piece_ids or {}).items():
            self.embedding.piece_ids(language)[:, : table.shape[1]] = table

    @classmethod
    def from_pretrained(cls, name, *args, **kwargs):
        """Load a published folder or Hub repository.

        Raises:
            ValueError: for a folder of another kind, tensors that are missing, left over or of another shape than the
                configuration says, or pieces that the model does not have.
        """
        hub_kwargs = hub_kwargs_of(kwargs)
        kind = stored_config(name, hub_kwargs).get("model_type")
        if kind != cls.config_class.model_type:
            raise ValueError(f"{str(name)!r} is no aligner: its config.json says model_type={kind!r}.")
        model, _ = load_whole(super().from_pretrained, name, *args, **kwargs)
        for language in model.config.languages:
            pieces = model.embedding.piece_ids(language)
            if pieces.numel() and not 0 <= int(pieces.min()) <= int(pieces.max()) < model.config.piece_vocab_size:
                raise ValueError(f"{str(name)!r}: piece_ids_{language} is damaged; fetch or publish it again.")
        return model

    def _init_weights(self, module: nn.Module) -> None:
        """Uniform in [-0.1, 0.1], biases included, as Wada et al. do."""
        for parameter in module.parameters(recurse=False):
            init.uniform_(parameter, -0.1, 0.1)
        if isinstance(module, nn.Embedding):
            init.zeros_(module.weight[PAD])

    def check_language(self, language: str | None) -> None:
        """Raise the ValueError that names the languages when `language` is none of them."""
        if language not in self.config.languages:
            raise ValueError(f"language={language!r} is not one of this model's: {', '.join(self.config.languages)}.")

    @can_return_tuple
    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, language: str | None = None, **kwargs
    ) -> AlignerOutput:
        """Static and contextual word vectors, and a sentence vector.

        Args:
            input_ids: (B, S) word ids of one language, without beginning and end of sentence.
            attention_mask: (B, S), padding on the right; by default every id but 0 is real.
            language: of the whole batch.
            **kwargs: ignored (tokenizers give more than is needed).

        Raises:
            ValueError: for a missing or unknown language, or padding on the left.
        """
        side = self._side({"word_ids": input_ids, "mask": attention_mask}, language)
        if (side.mask.diff(dim=1) > 0).any():
            raise ValueError("the attention mask has padding before words: pad on the right (padding_side='right').")
        self._encode(side)
        sentence = F.normalize(pool(side.contextual, side.mask), dim=-1)
        return AlignerOutput(last_hidden_state=side.contextual, static=side.static, sentence_embedding=sentence)

    @torch.no_grad()
    def static_table(self, language: str) -> Tensor:
        """(V, H) static vectors of all words of a language, row = word id (eq. 10)."""
        self.check_language(language)
        return self.embedding.table(language)

    @torch.no_grad()
    def align_states(
        self, source: Mapping, target: Mapping, languages: Sequence[str], prior: Sequence[Tensor] | None = None
    ) -> AlignStates:
        """Attention in both directions and word vectors of a batch of sentence pairs.

        A pair's result depends neither on the other pairs nor on the padding.

        Args:
            source: side of the batch with B sentences.
            target: side with their translations.
            languages: codes of source and target.
            prior: as for `pair_loss`, where the model was trained with one.

        Raises:
            ValueError: for an unknown language.
        """
        sides = [self._side(batch, language) for batch, language in zip((source, target), languages)]
        for side in sides:
            self._encode(side)
        expected = self._expected(sides, prior)
        target_to_source = self._word_attention(sides[1], sides[0], expected.get((0, 1)))
        source_to_target = self._word_attention(sides[0], sides[1], expected.get((1, 0)))
        contextual = [side.contextual * side.mask[:, :, None] for side in sides]
        return AlignStates(target_to_source, source_to_target, *contextual)

    def _expected(self, sides: Sequence[_Side], prior: Sequence[Tensor] | None) -> dict[tuple[int, int], Tensor]:
        """(B, T, S) prior of (encoded side, decoded side); a sentence that is reconstructed looks at its own words."""
        if prior is None:
            return {}
        expected = {(0, 1): prior[0].transpose(1, 2), (1, 0): prior[1]}
        for number, side in enumerate(sides):
            expected[number, number] = torch.eye(side.ids.shape[1], device=side.ids.device)[None]
        return expected

    def _in_decoding_order(self, expected: Tensor | None, reader: _Side, directions: Sequence[int]) -> Tensor | None:
        """(B, T, S) prior in the order of the decoders' states, (B, D(T+1), S); a sentence's end has none."""
        if expected is None:
            return None
        expected = expected.expand(len(reader.ids), -1, -1)
        ordered = []
        for right_to_left in directions:
            rows = permute(expected, reversal(reader.lengths, expected.shape[1])) if right_to_left else expected
            # The row of the end is zero: `attention` raises all of it to the floor, which its softmax cancels.
            ordered.append(F.pad(rows, (0, 0, 0, 1)))
        return torch.cat(ordered, dim=1)

    def _word_attention(self, reader: _Side, read: _Side, expected: Tensor | None) -> Tensor:
        """(B, T, S): where the states that predict each word of `reader` look in `read`, mean over both decoders."""
        states, _ = self._decode(reader, DIRECTIONS)
        prior = self._in_decoding_order(expected, reader, DIRECTIONS)
        weights = attention(states, read.contextual, read.mask, prior)
        # The second decoder's states follow those of the first; each predicts one more than the words, the end.
        words, width = reader.ids.shape[1], states.shape[1] // 2
        forward, backward = weights[:, :words], weights[:, width : width + words]
        backward = permute(backward, reversal(reader.lengths, words))
        return (forward + backward) / 2 * reader.mask[:, :, None]

    def pair_loss(
        self,
        source: Mapping[str, Tensor],
        target: Mapping[str, Tensor],
        languages: Sequence[str],
        *,
        prior: Sequence[Tensor] | None = None,
        encode: Sequence[int] = SIDES,
        directions: Sequence[int] = DIRECTIONS,
    ) -> AlignerLoss:
        """Likelihood of both sides given each encoded one, plus the contrastive term (eqs. 4, 6 and 16).

        The encoder reads each side once for translation and reconstruction, and each decoder runs once for both: it
        does not see the source. Attention serves both directions in one call; words are predicted at real positions.

        Args:
            source: side of the batch with B sentences.
            target: side with their translations.
            languages: codes of source and target.
            prior: two (B, S, T), the probabilities that a target word comes from a source word and vice versa: what
                the attention starts from instead of equal weights (not part of the paper).
            encode: sides that the encoder reads; both is the whole loss, one is an update of Wada et al.
            directions: decoders that run, 0 left to right and 1 right to left.

        Raises:
            ValueError: for an unknown language.
        """
        sides = [self._side(batch, language) for batch, language in zip((source, target), languages)]
        for side in sides:
            side.table = self.embedding.table(side.language)
        for i in encode:
            self._encode(sides[i])
        expected = self._expected(sides, prior)
        translations, reconstructions, decoded = [], [], []
        for t, side in enumerate(sides):
            states, gold = self._decode(side, directions)
            decoded.append((states, gold != PAD))
            for s in encode:
                ordered = self._in_decoding_order(expected.get((s, t)), side, directions)
                part = self._negative_log_likelihood(side, states, gold, sides[s], ordered)
                (reconstructions if s == t else translations).append(part)
        translation, reconstruction = sum(translations), sum(reconstructions)
        loss, contrastive = translation + reconstruction, None
        if self.config.contrastive_weight:
            contrastive = self._contrastive({i: sides[i] for i in encode}, decoded)
            loss = loss + self.config.contrastive_weight * contrastive
        return AlignerLoss(loss, translation, reconstruction, contrastive)

    def _decode(self, side: _Side, directions: Sequence[int]) -> tuple[Tensor, Tensor]:
        """(B, D(S+1), H) states that predict words and end of sentence in each direction, and the (B, D(S+1)) ids."""
        decoder = self.decoders[f"of_{side.language}"]
        forwards = framed(side.ids, side.lengths)
        backwards = permute(forwards, reversal(side.lengths + 2, forwards.shape[1]))
        states, gold = [], []
        for direction in directions:
            ids = backwards if direction else forwards
            states.append(decoder(self._look_up(side, ids[:, :-1]), bool(direction)))
            gold.append(ids[:, 1:])
        return torch.cat(states, dim=1), torch.cat(gold, dim=1)

    def _negative_log_likelihood(
        self, side: _Side, states: Tensor, gold: Tensor, source: _Side, prior: Tensor | None
    ) -> Tensor:
        """Eqs. 8 and 9, summed over the words and directions, mean over the sentences."""
        weights = attention(states, source.contextual, source.mask, prior)
        context = torch.bmm(weights, source.contextual + source.static)  # u_bar + r_bar: the weights are the same
        real = gold.flatten().nonzero().squeeze(1)
        rows = self._dropout(F.embedding(real, (context + states).flatten(0, 1)))
        table = side.table[1:]  # padding is no word that could be predicted
        words = gold.flatten()[real] - 1
        projected, no_bias = self.output(rows), table.new_zeros(len(table))  # eq. 8 has W alone
        # In the table's float32, as what docs/aligner.md shows was measured: bfloat16 rounds logits to three digits.
        with torch.autocast(rows.device.type, enabled=False):
            loss = vocabulary_cross_entropy(projected, table, no_bias, words)
        return loss / len(gold)

    def _contrastive(self, sources: Mapping[int, _Side], decoded: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Eq. 16, summed over every encoded side and decoded side.

        A translation counts as the mean of both directions (eqs. 12 and 13), a reconstruction in one, without
        intra-view negatives. (The conditions s = t and s != t are exchanged in the printed eq. 16.)
        """
        encoded = {s: self._views(side.contextual, side.mask) for s, side in sources.items()}
        decoded = [self._views(states, real) for states, real in decoded]
        temperature, with_intra = self.config.temperature, self.config.negatives == "inter+intra"
        losses = []
        for s, (source_query, source_key) in encoded.items():
            for t, (target_query, target_key) in enumerate(decoded):
                if s == t:
                    losses.append(multi_view_contrastive_loss(source_query, target_key, None, temperature))
                    continue
                intra = (source_key, target_key) if with_intra else (None, None)
                losses.append(multi_view_contrastive_loss(source_query, target_key, intra[0], temperature) / 2)
                losses.append(multi_view_contrastive_loss(target_query, source_key, intra[1], temperature) / 2)
        return sum(losses)

    def _views(self, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """(B, H) pooled states, projected as queries and as keys."""
        if self.config.contrastive_pooling == "max":
            pooled = states.masked_fill(~mask.bool()[:, :, None], -torch.inf).amax(1)
        else:
            pooled = pool(states, mask)
        return self.query(pooled), self.key(pooled)

    def _side(self, batch: Mapping[str, Tensor | None], language: str | None) -> _Side:
        self.check_language(language)
        ids, mask = batch["word_ids"], batch.get("mask")
        mask = (ids != PAD if mask is None else mask).long()
        return _Side(language, ids * mask, mask)

    def _encode(self, side: _Side) -> None:
        vectors = self._look_up(side, side.ids)
        side.static, side.contextual = vectors, self.encoder(vectors, side.lengths)

    def _look_up(self, side: _Side, ids: Tensor) -> Tensor:
        vectors = self.embedding(ids, side.language) if side.table is None else F.embedding(ids, side.table)
        return self._dropout(vectors)

    def _dropout(self, vectors: Tensor) -> Tensor:
        return fast_dropout(vectors, self.config.dropout, self.training)
