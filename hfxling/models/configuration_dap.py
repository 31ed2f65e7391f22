"""Configuration of dual-alignment pre-training (Li et al. 2023)."""

from .stock import StockConfig

OBJECTIVES = ("tr", "tr+rtl", "tr+tlm", "tr+rtl+tlm")
RTL_DIRECTIONS = ("xx-en", "en-xx", "both")
RANKING_DIRECTIONS = ("forward", "both")


class DapConfig(StockConfig):
    """A dual encoder and, for training, the representation translation head; eq. numbers are those of the paper.

    Args:
        encoder_config: config of the Bert or XLM-R encoder.
        pooling: "cls" (paper), "mean" or "last" of the last layer.
        objective: "tr", "tr+rtl" (DAP), "tr+tlm" or all three.
        temperature: divides the cosine in eq. 5; 0.05 in the authors' released code.
        margin: additive margin on the true pair's cosine; 0 in the paper.
        ranking: "both" averages source -> target and target -> source, "forward" ranks source -> target only (the
            released code; eq. 5).
        project_cls: a linear layer and tanh on the CLS vector while training (the released code; not in the paper).
        rtl_layers: K, transformer layers of the RTL head; 2 in the paper.
        rtl_direction: which side is reconstructed; "xx-en" (paper) predicts the target, "en-xx" the source, "both" half
            of the batch each (Table 5).
        rtl_ratio: rho, the share of target tokens that is reconstructed while the others are shown; 1 in the paper.
        rtl_weight: of the RTL loss; 1 in the paper (eq. 7), 0.1 in the released code.
        languages: codes, the common (English) side first; the head then gets language embeddings (Table 5).
        mask_token_id: of the tokenizer.
        special_token_ids: of the tokenizer; never masked by TLM.
        prompt: put before every text, see `StockConfig`.
        shortlist_size: number of token ids the RTL softmax is restricted to; None for the whole vocabulary.

    Raises:
        ValueError: for a value that is not allowed, naming those that are.
    """

    model_type = "hfxling-dap"
    head_fields = ("pooling", "prompt")  # the rest is for training

    objective: str = "tr+rtl"
    temperature: float = 0.05
    margin: float = 0.0
    ranking: str = "both"
    project_cls: bool = False
    rtl_layers: int = 2
    rtl_direction: str = "xx-en"
    rtl_ratio: float = 1.0
    rtl_weight: float = 1.0
    languages: list[str] | None = None
    mask_token_id: int | None = None
    special_token_ids: list[int] | None = None
    shortlist_size: int | None = None

    def __post_init__(self, **kwargs):
        super().__post_init__(**kwargs)
        self.languages = list(self.languages or [])
        self.check_choices(objective=OBJECTIVES, rtl_direction=RTL_DIRECTIONS, ranking=RANKING_DIRECTIONS)
        if self.temperature <= 0 or self.margin < 0:
            raise ValueError(f"temperature={self.temperature}, margin={self.margin}: need > 0 and >= 0.")
        if not 0 < self.rtl_ratio <= 1:
            raise ValueError(f"rtl_ratio={self.rtl_ratio}: need (0, 1].")
        depth = getattr(self.encoder_config, "num_hidden_layers", None)
        if depth is not None and not 1 <= self.rtl_layers <= depth:
            raise ValueError(f"rtl_layers={self.rtl_layers}: the head is copied from the encoder's {depth} layers.")
