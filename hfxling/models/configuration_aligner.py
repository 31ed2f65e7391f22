"""Configuration of the contrastive BiLSTM word aligner (Zhang et al. 2024, on the model of Wada et al. 2021)."""

import math

from transformers import PreTrainedConfig

NEGATIVES = ("inter", "inter+intra")
CONTRASTIVE_POOLING = ("avg", "max")


class AlignerConfig(PreTrainedConfig):
    """What an aligner is: one shared encoder, one pair of decoders and one vocabulary a language.

    Args:
        languages: codes; any number of them, trained on any of their pairs.
        vocab_sizes: number of words of each language, the four special ones included (0 padding, 1 unknown, 2 beginning
            and 3 end of sentence).
        piece_vocab_size: subword pieces that all languages share (eq. 10), 0 being padding.
        pieces_per_word: P, the most pieces a word has.
        size: H, width of embeddings and states; 500 in the paper. Even: the encoder has half of it in each direction.
        layers: of encoder and decoders; 1 in the paper.
        dropout: on embeddings and on the decoders' outputs while training; 0.5 in Wada et al.'s scripts.
        contrastive_weight: of eq. 16 beside the likelihoods; 0 is the base model of Wada et al., 1 the paper's sum.
        temperature: tau of eq. 11, divides the cosine; 0.5 in the paper.
        negatives: "inter" (other sentences of the other side) or "inter+intra" (and of the own side), eq. 12.
        contrastive_pooling: "avg" (paper's default) or "max" over real positions.
        priors: language pairs such as "lo-zh" whose attention was trained to start from a statistical aligner's links,
            which lie in prior_lo-zh.safetensors; none in the paper.

    Raises:
        ValueError: for a value that is not allowed, naming those that are.
    """

    model_type = "hfxling-aligner"

    languages: list[str] | None = None
    vocab_sizes: dict[str, int] | None = None
    piece_vocab_size: int = 1
    pieces_per_word: int = 1
    size: int = 500
    layers: int = 1
    dropout: float = 0.5
    contrastive_weight: float = 1.0
    temperature: float = 0.5
    negatives: str = "inter"
    contrastive_pooling: str = "avg"
    priors: list[str] | None = None

    def __post_init__(self, **kwargs):
        self.vocab_sizes = dict(self.vocab_sizes or {})
        self.languages = list(self.languages or self.vocab_sizes)
        self.priors = list(self.priors or [])
        if set(self.languages) != set(self.vocab_sizes):
            raise ValueError(f"vocab_sizes={self.vocab_sizes}: give one size for each of languages={self.languages}.")
        if self.size < 2 or self.size % 2:
            raise ValueError(f"size={self.size}: give an even number, each direction of the encoder has half of it.")
        if self.layers < 1:
            raise ValueError(f"layers={self.layers}: give at least 1.")
        if not 0 <= self.dropout <= 0.99:  # more rounds to 1 in 256 steps
            raise ValueError(f"dropout={self.dropout} is outside [0, 0.99].")
        if not (0 <= self.contrastive_weight < math.inf and 0 < self.temperature < math.inf):
            raise ValueError(
                f"contrastive_weight={self.contrastive_weight} must be >= 0 and temperature={self.temperature} > 0."
            )
        for name, allowed in {"negatives": NEGATIVES, "contrastive_pooling": CONTRASTIVE_POOLING}.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(allowed)}.")
        super().__post_init__(**kwargs)

    @property
    def hidden_size(self) -> int:
        """H, under the name that other libraries look for."""
        return self.size
