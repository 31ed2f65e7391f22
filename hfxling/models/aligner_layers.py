"""The parts of the word aligner: embeddings, encoder, decoders, attention (Zhang et al. 2024, eqs. 1-10).

Sentences are padded on the right. Every LSTM here runs in one direction over unpacked sequences, which keeps it on the
fast path of the CPU library; a right-to-left one reads sequences that were reversed within their length, so no state
ever depends on padding.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .configuration_aligner import AlignerConfig

PAD, UNK, BOS, EOS = range(4)
PRIOR_FLOOR = 1e-3  # a link that the prior excludes stays possible


def reversal(lengths: Tensor, width: int) -> Tensor:
    """(B, width) positions that reverse each sequence within its length and leave its padding where it is."""
    positions = torch.arange(width, device=lengths.device)
    mirrored = lengths[:, None] - 1 - positions
    return torch.where(mirrored >= 0, mirrored, positions)


def permute(states: Tensor, positions: Tensor) -> Tensor:
    """Reorder (B, S, H) states, or (B, S) ids, by (B, S) positions."""
    if states.dim() == 2:
        return states.gather(1, positions)
    rows = positions + positions.shape[1] * torch.arange(len(positions), device=positions.device)[:, None]
    return F.embedding(rows, states.flatten(0, 1))  # seven times as fast as gather, forward and backward


def framed(word_ids: Tensor, lengths: Tensor) -> Tensor:
    """(B, S+2) ids: beginning of sentence, the words, end of sentence, padding."""
    ids = F.pad(word_ids, (1, 1), value=PAD)
    ids[:, 0] = BOS
    return ids.scatter(1, lengths[:, None] + 1, EOS)


def attention(queries: Tensor, keys: Tensor, mask: Tensor, prior: Tensor | None = None) -> Tensor:
    """Attention weights (B, T, S), eq. 9: softmax of dot products over real source positions.

    Args:
        queries: (B, T, H) decoder states.
        keys: (B, S, H) encoder states.
        mask: (B, S), 1 at real positions.
        prior: (B, T, S) probabilities that the softmax is to start from, instead of equal ones.
    """
    scores = torch.bmm(queries, keys.transpose(1, 2)).float()
    if prior is not None:
        scores = scores + prior.clamp(min=PRIOR_FLOOR).log()
    # Not -inf: of a sentence without words the softmax would be NaN.
    return scores.masked_fill(~mask.bool()[:, None], torch.finfo(scores.dtype).min).softmax(-1).to(keys.dtype)


def fast_dropout(states: Tensor, p: float, training: bool) -> Tensor:
    """Dropout with p rounded to 1/256, from one random byte an entry: on a CPU drawing is most of dropout's cost."""
    dropped = round(256 * p)  # of the 256 values of a byte
    if not training or not dropped:
        return states
    # One draw of 64 bits is eight bytes, each for one entry.
    draws = torch.randint(-(2**63), 2**63 - 1, (states.numel() // 8 + 1,), device=states.device)
    is_kept = draws.view(torch.uint8)[: states.numel()].view(states.shape) >= dropped
    scale = 256 / (256 - dropped)  # the expected value stays
    return states * (is_kept * scale).to(states.dtype)


class WordEmbedding(nn.Module):
    """One table of word vectors a language plus the mean of each word's piece vectors, which all share (eq. 10)."""

    def __init__(self, config: AlignerConfig):
        super().__init__()
        self.words = nn.ModuleDict()
        self.pieces = nn.Embedding(config.piece_vocab_size, config.size, padding_idx=PAD)
        for language, words in config.vocab_sizes.items():
            # The prefix keeps codes such as "to" from meeting attributes of modules.
            self.words[f"of_{language}"] = nn.Embedding(words, config.size, padding_idx=PAD)
            self.register_buffer(f"piece_ids_{language}", torch.zeros(words, config.pieces_per_word, dtype=torch.long))

    def piece_ids(self, language: str) -> Tensor:
        """(V, P) piece ids of every word, padded with 0."""
        return self.get_buffer(f"piece_ids_{language}")

    def table(self, language: str) -> Tensor:
        """(V, H) vectors of all words of a language."""
        return self.words[f"of_{language}"].weight + self._piece_means(self.piece_ids(language))

    def forward(self, word_ids: Tensor, language: str) -> Tensor:
        """(B, S, H) vectors of the words that occur, without computing the others."""
        means = self._piece_means(self.piece_ids(language)[word_ids.flatten()])
        return self.words[f"of_{language}"](word_ids) + means.view(*word_ids.shape, -1)

    def _piece_means(self, piece_ids: Tensor) -> Tensor:
        # `padding_idx` keeps padding out of the count, too; a word without pieces gets zeros.
        return F.embedding_bag(piece_ids, self.pieces.weight, mode="mean", padding_idx=PAD)


class Encoder(nn.Module):
    """The BiLSTM that all languages share (eq. 2): half the width in each direction."""

    def __init__(self, config: AlignerConfig):
        super().__init__()
        self.left_to_right, self.right_to_left = nn.ModuleList(), nn.ModuleList()
        for layers in (self.left_to_right, self.right_to_left):
            layers.extend(nn.LSTM(config.size, config.size // 2, batch_first=True) for _ in range(config.layers))

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        """(B, S, H) static vectors to (B, S, H) contextual ones; those at padding mean nothing."""
        backwards = reversal(lengths, states.shape[1])
        for forward, backward in zip(self.left_to_right, self.right_to_left):
            left, _ = forward(states)
            right, _ = backward(permute(states, backwards))
            states = torch.cat([left, permute(right, backwards)], dim=-1)
        return states


class Decoder(nn.Module):
    """The two LSTMs of one target language (eqs. 5 and 7); neither sees the source, attention comes after them."""

    def __init__(self, config: AlignerConfig):
        super().__init__()
        self.left_to_right = nn.LSTM(config.size, config.size, config.layers, batch_first=True)
        self.right_to_left = nn.LSTM(config.size, config.size, config.layers, batch_first=True)

    def forward(self, vectors: Tensor, right_to_left: bool) -> Tensor:
        """(B, T+1, H) vectors of the words before to (B, T+1, H) states that predict the next word."""
        states, _ = (self.right_to_left if right_to_left else self.left_to_right)(vectors)
        return states
