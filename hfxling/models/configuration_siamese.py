"""Configuration of the siamese linear head (Huang et al. 2023)."""

from .stock import StockConfig

HEADS = ("linear", "tanh", "relu", "tanh2")
CENTERINGS = ("none", "train")


class SiameseConfig(StockConfig):
    """What a siamese model is: a frozen encoder cut after one layer, pooling, and a head.

    Args:
        encoder_config: config of the (cut) encoder; None for a head that works on vectors alone.
        hidden_size: H, the width of the vectors in and out; taken from `encoder_config` where there is one.
        layer: which `hidden_states` entry is pooled; 7 in the paper for mBERT. "all" is the mean over the layers, None
            the last layer. Several, as a list in rising order: the vectors of each stand side by side.
        pooling: "mean" (paper), "cls" or "last".
        languages: codes, source language first; needed for `per_language`, `center_input` and `centering="train"`. With
            one alone the model is for texts of that language, and need not be told so (`SiameseModel.for_language`).
        per_language: one affine map a language (closed forms such as CCA) instead of one shared map (the paper).
        head: "linear" (paper's best), "tanh", "relu" or "tanh2" (two layers): Table 6 of the paper.
        bias: whether the head's linear layers have one; not stated in the paper.
        dropout: on the head's output while training; 0.2 in the paper.
        normalize_input: length-normalise the pooled vectors first, those of each layer for itself.
        center_input: subtract the mean of the language, learnt from training data, from them, weaken the directions in
            which they vary most, and normalise again.
        centering: "train": subtract the mean of the language, learnt from training data, from the normalised output.
        output_size: width of the vectors that come out; None: as wide as they go in.
        prompt: put before every text, see `StockConfig`.

    Raises:
        ValueError: for a value that is not allowed, naming those that are.
    """

    model_type = "hfxling-siamese"
    head_fields = (
        *("hidden_size", "layer", "pooling", "languages", "per_language", "head", "bias", "dropout"),
        *("normalize_input", "center_input", "centering", "output_size", "prompt"),
    )

    layer: int | str | list[int] | None = 7
    pooling: str = "mean"
    languages: list[str] | None = None
    per_language: bool = False
    head: str = "linear"
    bias: bool = False
    dropout: float = 0.2
    normalize_input: bool = True
    center_input: bool = False
    centering: str = "none"
    output_size: int | None = None

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.languages = list(self.languages or [])
        self.check_choices(head=HEADS)
        if self.centering not in CENTERINGS:
            raise ValueError(
                f"centering={self.centering!r} is not one of {', '.join(CENTERINGS)} "
                '("corpus" belongs to evaluation: a model cannot carry the mean of text it has not seen).'
            )
        if isinstance(self.layer, (list, tuple)):
            self.layer = list(self.layer)
            if len(self.layer) < 2 or self.layer != sorted({*self.layer}):
                raise ValueError(f"layer={self.layer}: several layers are two or more in rising order, such as 0,3,6.")
        if not self.normalize_input and (self.center_input or self.parts > 1):
            raise ValueError("center_input=True and several layers are for vectors of length 1: set normalize_input.")
        if self.has_parts and not self.languages:
            raise ValueError(
                f"languages={self.languages}: per_language, center_input and centering='train' need the languages' "
                'codes, for example ["zh", "vi"].'
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} is outside [0, 1).")

    @property
    def has_parts(self) -> bool:
        """Whether the languages have maps or means of their own."""
        return self.per_language or self.center_input or self.centering != "none"

    @property
    def needs_language(self) -> bool:
        """Whether a vector can only be computed when its language is known."""
        return self.has_parts and len(self.languages) > 1

    @property
    def parts(self) -> int:
        """How many layers' vectors stand side by side."""
        return len(self.layer) if isinstance(self.layer, list) else 1

    @property
    def input_size(self) -> int:
        """Width of the vectors that the head maps."""
        return self.hidden_size * self.parts
