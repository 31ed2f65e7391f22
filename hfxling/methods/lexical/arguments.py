"""The settings of word links, and all options of the lexical recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hfxling.arguments import key
from hfxling.data.corpus import TEXT_KEYS, TextArguments
from hfxling.data.segment import BUILT_IN
from hfxling.data.sources import Pair, name_of_pair, parse_pair
from hfxling.values import check_counts, check_least, named_entries

# Nothing is trained by gradient; the Trainer's arguments say where the folder goes and which seed is used.
TRAINING_DEFAULTS = {"output_dir": "outputs/lexical"}
# fine: short segments, that is single Chinese and Japanese characters, few pieces in Lao and Thai, Vietnamese
# syllables, else pieces. coarse: longer ones, that is pieces in Vietnamese and where words are not written apart, else
# words.
FINE, COARSE = "fine", "coarse"
VIEWS = (FINE, COARSE, *BUILT_IN)
_MOST = 1000  # the largest weight or power: far beyond what helps, far below what overflows


@dataclass(frozen=True)
class LinkSettings:
    """Segments, word links, and the scores and vectors made from them."""

    views: list[str] = key(f"ways to cut the text, whose scores add up; any of {', '.join(VIEWS)}", [FINE, COARSE])
    view_weights: list[float] = key("weight of each view's score; default: 1 for the first, 0.5 for the others", [])
    segmenters: list[str] = key("built-in segmenter of a language in the first view, e.g. lo=whitespace", [])
    vocab_size: int | None = key("most segments of a language, where segments are learnt", None)
    max_words: int = key("most segments read of a training sentence", 150)
    lexicon: list[str] = key("word lists, e.g. lo-zh=FILE; each line has a word, a tab and its translation", [])
    mixture: float = key("odds of translation against background; 4 is 0.8 against 0.2", 4.0)
    hub_weight: float = key(
        "how much of the score that a text gets with any sentence is subtracted from its scores; 0: nothing", 1.0
    )
    length_prior: float = key(
        "penalty for an unlikely length, per squared standard deviation of the length ratio, in standard deviations of "
        "the score; 0: none",
        0.1,
    )
    min_ratio: float = key("drop links whose P(t|s) / bg(t) is smaller than this", 4.0)
    static_power: float = key("static vectors weight a segment by its count to this power; 0: no weights", 0.5)
    static_mixture: float = key("factor of P(t|s) / bg(t) in the logarithm that static vectors factorise", 0.01)
    static_decay: float = key("power of a component's strength in static vectors; 0.5 is a plain factorisation", 0.75)
    rank: int = key("most dimensions of the static vectors", 1024)

    def __post_init__(self):
        if not self.views or len(set(self.views)) < len(self.views) or not set(self.views) <= set(VIEWS):
            raise ValueError(f"views={self.views}: give at least one of {', '.join(VIEWS)}, each once.")
        if not self.view_weights:
            weights = [1.0] + [0.5] * (len(self.views) - 1)
            object.__setattr__(self, "view_weights", weights)  # the class is frozen
        if len(self.view_weights) != len(self.views):
            raise ValueError(f"view_weights={self.view_weights}: give one weight for each of views={self.views}.")
        if not all(0 < weight <= _MOST for weight in self.view_weights):
            raise ValueError(f"view_weights={self.view_weights}: give weights above 0 and up to {_MOST}.")
        check_counts(1, vocab_size=self.vocab_size, max_words=self.max_words, rank=self.rank)
        check_least(0, length_prior=self.length_prior, hub_weight=self.hub_weight, min_ratio=self.min_ratio)
        check_least(0, static_power=self.static_power, static_decay=self.static_decay)
        for name in ("length_prior", "hub_weight", "static_power", "static_decay"):
            if getattr(self, name) > _MOST:
                raise ValueError(f"{name}={getattr(self, name)}: give {_MOST} or less.")
        for name in ("mixture", "static_mixture"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be more than 0.")

    def segmenter_choices(self, languages: Sequence[str]) -> dict[str, str]:
        """Language code -> segmenter, for text in these languages."""
        chosen = named_entries("segmenters", self.segmenters, "lo=words")
        for language, segmenter in chosen.items():
            if language not in languages or segmenter not in BUILT_IN:
                allowed = f"one of {', '.join(BUILT_IN)} for one of {', '.join(languages)}"
                raise ValueError(f"segmenters: {language}={segmenter}: give {allowed}, e.g. {languages[0]}=words.")
        return chosen

    def lexicon_files(self, pairs: Sequence[Pair]) -> dict[Pair, str]:
        """(source, target) language -> file of its word list; an entry without a pair is for the text's only pair."""
        names = ", ".join(name_of_pair(pair) for pair in pairs)
        files = {}
        for entry in self.lexicon:
            name, _, path = entry.rpartition("=")
            if not name and len(pairs) > 1:
                raise ValueError(f"lexicon={entry!r}: which of {names} is it for? Write it like zh-vi=FILE.")
            pair = parse_pair(name) if name else pairs[0]
            if pair not in pairs and pair[::-1] not in pairs:
                raise ValueError(f"lexicon={entry!r}: {name} is not among the text's pairs, {names}; leave it out.")
            files[pair] = path
        return files


@dataclass(frozen=True)
class LexicalArguments(LinkSettings, TextArguments):
    """The encoder that helps to count links, and tests beside those on the test text."""

    encoder: str | None = key(
        "folder or Hub id of an encoder whose word similarities help to learn the links; default: none", None
    )
    encoder_revision: str | None = key("branch, tag or commit of the encoder on the Hub", None)
    folds: int = key(
        "also test on the training text, cut into this many parts, each left out of training in turn; 0: do not", 0
    )
    distractors: list[str] = key(
        "with folds: text files with further candidates, one sentence a line, e.g. zh=FILE", []
    )

    def __post_init__(self):
        TextArguments.__post_init__(self)
        LinkSettings.__post_init__(self)
        check_counts(0, folds=self.folds)
        if self.folds == 1 or (self.distractors and not self.folds):
            raise ValueError(f"folds={self.folds}, distractors={self.distractors}: give 2 folds or more, or neither.")
        # These refuse bad values now, before the text is read.
        self.segmenter_choices(self.languages)
        self.lexicon_files(self.language_pairs)
        self.distractor_files()

    def distractor_files(self) -> dict[str, str]:
        """Language code -> file of further candidates."""
        files = named_entries("distractors", self.distractors, "zh=FILE")
        if not set(files) <= set(self.languages):
            allowed = f"at most one file for each of {', '.join(self.languages)}, e.g. {self.languages[0]}=FILE"
            raise ValueError(f"distractors={self.distractors}: give {allowed}.")
        return files

    def shared_key(self) -> tuple:
        """The same for runs that share text and segments, and the links' counts with them."""
        names = (*TEXT_KEYS, "views", "segmenters", "vocab_size", "max_words", "lexicon", "folds", "distractors")
        return self.key_of((*names, "encoder", "encoder_revision"))
