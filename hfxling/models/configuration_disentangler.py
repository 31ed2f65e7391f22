"""Configuration of the meaning/language disentangler (Nonomura et al.)."""

from .stock import StockConfig

PARTS = ("meaning", "language")


class DisentanglerConfig(StockConfig):
    """What a disentangler is: a frozen encoder (or none), pooling, and one linear map to the meaning part.

    Args:
        encoder_config: config of the encoder; None for a split that works on vectors alone.
        hidden_size: D, the width of the vectors in and out; taken from `encoder_config` where there is one.
        layer: `hidden_states` entry that is pooled; None, the last one, in the paper.
        pooling: "cls" (paper: LaBSE), "mean" (multilingual-e5) or "last" (Qwen3-Embedding).
        prompt: put before every text, such as the "Instruct: ... Query: " of instruction-tuned embedders, see
            `StockConfig`.
        bias: whether the map has one; the paper says "one linear layer".
        normalize_input: length-normalise the pooled vectors first; not stated in the paper (docs/disentangler.md).
        part: which of the two the map gives and `sentence_embedding` is: "meaning", or "language" for the other folder
            (`DisentanglerModel.exchanged`). What remains of the vector is the other part.

    Raises:
        ValueError: for an unknown pooling or part, or a width below 1.
    """

    model_type = "hfxling-disentangler"
    head_fields = ("hidden_size", "layer", "pooling", "prompt", "bias", "normalize_input", "part")

    bias: bool = True
    normalize_input: bool = False
    part: str = "meaning"

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.check_choices(part=PARTS)
        if self.hidden_size < 1:
            raise ValueError(f"hidden_size={self.hidden_size}: the vectors need at least one dimension.")
