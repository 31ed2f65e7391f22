"""Configuration of the meaning/language disentangler (Nonomura et al.)."""

from transformers import AutoConfig, PreTrainedConfig

from .pooling import POOLING_MODES

PARTS = ("meaning", "language")
_DISENTANGLER_FIELDS = ("hidden_size", "layer", "pooling", "prompt", "bias", "normalize_input", "part")


class DisentanglerConfig(PreTrainedConfig):
    """What a disentangler is: a frozen encoder (or none), pooling, and one linear map to the meaning part.

    Args:
        encoder_config: config of the encoder; None for a split that works on vectors alone.
        hidden_size: D, the width of the vectors in and out; taken from `encoder_config` where there is one.
        layer: `hidden_states` entry that is pooled; None, the last one, in the paper.
        pooling: "cls" (paper: LaBSE), "mean" (multilingual-e5) or "last" (Qwen3-Embedding).
        prompt: put before every text, such as the "Instruct: ... Query: " of instruction-tuned embedders.
            sentence-transformers applies it by itself; whoever calls the model with token ids puts it before the text.
        bias: whether the map has one; the paper says "one linear layer".
        normalize_input: length-normalise the pooled vectors first; not stated in the paper, and no gain where it was
            measured (docs/disentangler.md).
        part: which of the two the map gives and `sentence_embedding` is: "meaning", or "language" for the other folder
            (`DisentanglerModel.exchanged`). What remains of the vector is the other part.

    Raises:
        ValueError: for an unknown pooling or part, or a width below 1.
    """

    model_type = "hfxling-disentangler"
    sub_configs = {"encoder_config": AutoConfig}  # noqa: RUF012 - transformers reads it from the class

    encoder_config: dict | PreTrainedConfig | None = None
    hidden_size: int = 768
    layer: int | str | None = None
    pooling: str = "cls"
    prompt: str | None = None
    bias: bool = True
    normalize_input: bool = False
    part: str = "meaning"

    def __post_init__(self, **kwargs):
        if isinstance(self.encoder_config, dict):
            model_type = self.encoder_config["model_type"]
            self.encoder_config = AutoConfig.for_model(model_type, **self.encoder_config)
        if self.encoder_config is not None:
            self.hidden_size = self.encoder_config.hidden_size
            self.max_position_embeddings = getattr(self.encoder_config, "max_position_embeddings", None)
        if self.pooling not in POOLING_MODES:
            raise ValueError(f"pooling={self.pooling!r} is not one of {', '.join(POOLING_MODES)}.")
        if self.part not in PARTS:
            raise ValueError(f"part={self.part!r} is not one of {', '.join(PARTS)}.")
        if self.hidden_size < 1:
            raise ValueError(f"hidden_size={self.hidden_size}: the vectors need at least one dimension.")
        super().__post_init__(**kwargs)

    def head_dict(self) -> dict:
        """The fields that describe the head: stored under "disentangler" in the encoder's config.json."""
        return {name: getattr(self, name) for name in _DISENTANGLER_FIELDS}
