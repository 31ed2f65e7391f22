"""Configuration of the lexical model: sentences as bags of segments and of what these are linked to."""

from transformers import PreTrainedConfig

LENGTH_DIMS = 3  # of the length prior: (-a^2, 2a, -1) of a query meets (1, b, b^2) of a document, -(a - b)^2


class LexicalConfig(PreTrainedConfig):
    """What a lexical model computes; the links themselves are its weights.

    Args:
        languages: codes.
        vocab_sizes: of each language the number of its segments in each view.
        links: for "SOURCE:TARGET", in both orders, how many links are stored in each view.
        views: names of the ways in which the text is cut, each with links and a score of its own; scores add up.
        view_weights: what the score of each view counts.
        hub_weight: of what is taken from every text for being likely given anything.
        hub_neighbours: from how many sentences of the other language, those that make it likeliest, that is taken.
        anchors: of each language how many such sentences there are, and how many segments they have in each view.
        mixture: c of log(1 + c P(t|s) / bg(t)): the odds of translation against background, 0.8 to 0.2 by default.
        length_scale: what one squared standard deviation of the length ratio takes from the score; 0 for none.
        length_sigma: standard deviation of the log length ratio of translations.
        length_means: of each language the log length, in segments of the first view, of the same content.
        balance: factor between a text's own weights and those of its links. It cancels in every inner product; with it
            the largest weights are those that matter most, so that few dimensions can be kept.
        encoder: Hub id of the encoder that the links were learnt with. Vectors of sentences do without it;
            `hfxling.align_words` heeds it beside the links.
        encoder_revision: branch, tag or commit of it.

    Raises:
        ValueError: for fields that contradict each other.
    """

    model_type = "hfxling-lexical"

    languages: list[str] | None = None
    vocab_sizes: dict[str, list[int]] | None = None
    links: dict[str, list[int]] | None = None
    views: list[str] | None = None
    view_weights: list[float] | None = None
    mixture: float = 4.0
    hub_weight: float = 0.0
    hub_neighbours: int = 4
    anchors: dict[str, list[int]] | None = None
    length_scale: float = 0.0
    length_sigma: float = 1.0
    length_means: dict[str, float] | None = None
    balance: float = 1.0
    encoder: str | None = None
    encoder_revision: str | None = None

    def __post_init__(self, **kwargs):
        self.vocab_sizes, self.links = dict(self.vocab_sizes or {}), dict(self.links or {})
        self.languages = list(self.languages or self.vocab_sizes)
        self.views = list(self.views or ["pieces"])
        self.view_weights = list(self.view_weights or [1.0] * len(self.views))
        self.length_means = dict(self.length_means or dict.fromkeys(self.languages, 0.0))
        self.anchors = dict(self.anchors or {language: [0] * (len(self.views) + 1) for language in self.languages})
        for name in ("vocab_sizes", "length_means", "anchors"):
            if set(getattr(self, name)) != set(self.languages):
                raise ValueError(f"{name}={getattr(self, name)}: give one for each of languages={self.languages}.")
        counts = [*self.vocab_sizes.values(), *self.links.values(), self.view_weights]
        counts += [count[1:] for count in self.anchors.values()]
        if any(len(count) != len(self.views) for count in counts):
            raise ValueError(f"vocab_sizes, links and view_weights: give one number for each of views={self.views}.")
        for key in self.links:
            source, _, target = key.partition(":")
            is_pair = source != target and {source, target} <= {*self.languages}
            if not is_pair or f"{target}:{source}" not in self.links:
                raise ValueError(f"links={key!r}: give two of {', '.join(self.languages)} as SOURCE:TARGET, both ways.")
        if min(self.mixture, self.length_sigma, self.balance, self.hub_neighbours) <= 0:
            raise ValueError("mixture, length_sigma, balance and hub_neighbours must be more than 0.")
        if min(self.length_scale, self.hub_weight) < 0:
            raise ValueError("length_scale and hub_weight must not be less than 0.")
        super().__post_init__(**kwargs)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Source and target of all links."""
        return [tuple(key.split(":")) for key in self.links]

    @property
    def hidden_size(self) -> int:
        """Width of a sentence vector: every segment as a query's and as a document's, and `extra_dims`."""
        return 2 * sum(map(sum, self.vocab_sizes.values())) + self.extra_dims

    @property
    def extra_dims(self) -> int:
        """The last dimensions: of the length prior, and for each language of how likely texts are given any of it."""
        return LENGTH_DIMS + 2 * len(self.languages)
