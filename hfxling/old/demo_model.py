"""What the page of `hfxling demo` can show of a model: text in, numbers and words out, nothing of the page itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from hfxling.data.faults import FaultFinder
from hfxling.data.sample import LANGUAGES
from hfxling.data.texts import Texts
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fused import FusedEncoder
from hfxling.encoders.haystack import Haystack
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.evaluation.plots import project_2d
from hfxling.missing import one_line_where_missing
from hfxling.models.loading import stored_kind
from hfxling.models.modeling_lexical import HUB, LENGTH, ROLES, LexicalModel
from hfxling.sentences.bitext import ScoredPair, flagged, write_pairs
from hfxling.sentences.mine import mine_haystack
from hfxling.sentences.neighbours import nearest
from hfxling.words.aligner import Aligner, AlignerModel, load_aligner
from hfxling.words.prior import load_prior

from .model import ShownArguments

MAX_LINES, MAX_LETTERS = 1_000, 2_000  # of a text, and of one of its lines: what a CPU does while somebody waits
MAX_FOREIGN = 0.5  # of the lines that may be in another language
NAMES = {HUB: "what any sentence gets here", LENGTH: "how unlike the lengths are"}
Pair = tuple[str, str]


@dataclass(frozen=True)
class Hits:
    """Sentences and their nearest candidates."""

    sentences: list[str]
    candidates: list[str]
    places: np.ndarray  # (Q, k) rows of candidates, the nearest first
    scores: np.ndarray  # (Q, k)
    points: list[np.ndarray]  # (Q, 2) and (C, 2), where the picture has them


@dataclass(frozen=True)
class Links:
    """Which parts of two sentences belong together, and why."""

    source: list[str]
    target: list[str]
    weights: np.ndarray  # (S, T), 0 or more
    framed: set[tuple[int, int]]  # what counts as linked
    reasons: dict[tuple[int, int], list[tuple[str, float]]]  # what makes the weight of a cell
    terms: list[tuple[str, float]] = field(default_factory=list)  # what makes the score of the pair, largest first
    score: float | None = None


class ShownModel:
    """A model of any method, with whatever of the page it can serve.

    Attributes:
        encoder: what compares sentences.
        languages: those that can be chosen.
        pair: source and target language to begin with.
        has_links: whether it says which words belong together.

    Raises:
        ValueError: no model of ours or sentence-transformers', or a language that it lacks.
        FileNotFoundError: no such folder or Hub id.
    """

    def __init__(self, args: ShownArguments):
        self.args, self.aligner = args, None
        self.hub_kwargs = {"revision": args.model_revision} if args.model_revision else {}
        kind = kind_of(args.model, **self.hub_kwargs) if args.model else None
        if kind == LexicalModel.config_class.model_type and not args.lexical:
            self.args = args = replace(args, model=None, lexical=args.model)
        self.encoder = args.scorer()
        if kind == AlignerModel.config_class.model_type:
            self.aligner = load_aligner(args.model, **self.hub_kwargs)
        self.lexical: LexicalEncoder | None = getattr(self.encoder, "lexical", self.encoder if args.lexical else None)
        self.has_links = bool(self.lexical or self.aligner)
        known = list(self.aligner[0].config.languages if self.aligner else self.encoder.languages)
        first, second, *_ = [*known, None, None] if known else ("zh", "vi")
        self.pair = (args.source_lang or first, args.target_lang or second)
        self.languages = known or list(dict.fromkeys((*LANGUAGES, *self.pair)))
        for name, lang in zip(("source_lang", "target_lang"), self.pair):
            if lang not in self.languages:
                raise ValueError(f"{name}={lang!r} is none of the model's languages: {', '.join(self.languages)}.")

    @property
    def label(self) -> str:
        """The model's name."""
        return self.encoder.label

    @cached_property
    def drawn(self) -> SentenceEncoder:
        """What the picture's vectors are of: dense ones, that of links their static ones."""
        if isinstance(self.encoder, LexicalEncoder):
            return SentenceEncoder(self.encoder.name, self.args.model_revision, device=self.args.device)
        return self.encoder.dense if isinstance(self.encoder, FusedEncoder) else self.encoder

    def nearest(self, sentences: str, candidates: str, pair: Pair, top: int = 3) -> Hits:
        """The candidates that translate sentences best, both one a line.

        Raises:
            ValueError: text that is empty, too long or in another language.
        """
        sides = self._read(sentences, candidates, pair, ("sentences", "candidates"))
        asked = [*zip(sides, pair, ROLES)]
        vectors = [self.encoder.encode(*side, progress=False) for side in asked]
        places, scores = nearest(*vectors, min(top, len(sides[1])), self.encoder.method)
        if self.drawn is not self.encoder:
            vectors = [self.drawn.encode(*side, progress=False) for side in asked]
        return Hits(*sides, places, scores, project_2d(*vectors))

    def links(self, source: str, target: str, pair: Pair) -> Links:
        """What belongs together in a sentence and its translation; raises as `nearest`."""
        sides = [" ".join(text.split()) for text in (source, target)]
        self._read(*sides, pair, ("sentence", "translation"))
        return explained(self.lexical.model, *sides, pair) if self.lexical else self._attended(*sides, pair)

    def mine(self, source: str, target: str, pair: Pair, path: str | Path) -> list[ScoredPair]:
        """Pairs of two texts, the best first, as `hfxling mine --margin distance` finds them; also written as TSV.

        Raises as `nearest`.
        """
        texts = self._read(source, target, pair, ("first text", "second text"))
        sides = [Texts(name, list(range(1, len(text) + 1)), text) for name, text in zip(("source", "target"), texts)]
        with TemporaryDirectory(prefix="hfxling-") as folder:
            haystack = Haystack(sides, self.encoder, pair, cache_dir=folder, device=self.args.device)
            k = min(4, len(texts[0]), len(texts[1]))
            mined = mine_haystack(haystack, Path(folder, "parts"), k=k, margin="distance")
        rows = flagged(mined, sides, pair)
        write_pairs(path, rows)
        return rows

    def _read(self, source: str, target: str, pair: Pair, names: Pair) -> list[list[str]]:
        """Lines of two texts."""
        if pair[0] == pair[1]:
            raise ValueError(f"Both languages are {pair[0]!r}. Choose two.")
        sides = [lines_of(text, f"the {name}") for text, name in zip((source, target), names)]
        for side, order, name in zip(sides, (pair[::-1], pair), names):
            check_language(side, order, f"the {name}")
        return sides

    def _attended(self, source: str, target: str, pair: Pair) -> Links:
        """The links of an aligner, with the weights of its attention."""
        model, vocabularies = self.aligner
        prior = load_prior(self.args.model, model.config, pair, **self.hub_kwargs)
        (line,) = Aligner(model, vocabularies, pair, units="segments", prior=prior)([source], [target])
        forward, backward, similarity = (x[0] for x in (line.soft.forward, line.soft.backward, line.soft.similarity))
        words = ([span.text for span in side] for side in (line.source, line.target))
        weights = (forward + backward) / 2
        reasons = {
            (i, j): [
                (f"attention to {pair[0]}", float(forward[i, j])),
                (f"attention to {pair[1]}", float(backward[i, j])),
                ("cosine of the vectors", float(similarity[i, j])),
            ]
            for i, j in {*map(tuple, np.argwhere(weights >= 0.01).tolist()), *line.links}
        }
        return Links(*words, weights, {*line.links}, reasons)


def kind_of(name: str, **hub_kwargs) -> str | None:
    """The model_type of a folder or Hub model; None where it has no config.json, as stock static encoders."""
    if (Path(name) / "modules.json").is_file() and not (Path(name) / "config.json").is_file():
        return None
    with one_line_where_missing(name, "model", "a model"):
        return stored_kind(name, hub_kwargs)


def lines_of(text: str, name: str) -> list[str]:
    """Lines that hold text; ValueError for none, for more than a page is for, for one that is no sentence."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"There is no text in {name}. Write something, one sentence a line.")
    if len(lines) > MAX_LINES:
        told = "On your own machine hfxling mine takes any number of them."
        raise ValueError(f"{name.capitalize()}: {len(lines):,} lines, and this page takes {MAX_LINES:,}. {told}")
    longest = max(range(len(lines)), key=lambda row: len(lines[row]))
    if len(lines[longest]) > MAX_LETTERS:
        told = f"Line {longest + 1} has {len(lines[longest]):,} letters"
        raise ValueError(f"{name.capitalize()}: {told.lower()}, and a sentence here {MAX_LETTERS:,}. Put one a line.")
    return lines


def check_language(lines: Sequence[str], pair: Pair, name: str) -> None:
    """Refuse text that is for the most part in another language than the second of the pair."""
    finder = FaultFinder(*pair)
    foreign = [row for row, line in enumerate(lines) if finder.is_foreign(line)]
    if len(foreign) > MAX_FOREIGN * len(lines):
        first = lines[foreign[0]]
        shown = first if len(first) <= 40 else f"{first[:40]}..."
        told = "it looks" if len(lines) == 1 else f"{len(foreign):,} of its {len(lines):,} lines look"
        raise ValueError(
            f"{name.capitalize()} should be in {pair[1]!r}, but {told} like another language ({shown!r}). "
            "Give other text, or choose another language above."
        )


def explained(model: LexicalModel, source: str, target: str, pair: Pair) -> Links:
    """What makes a sparse score, on the segments of the model's first view.

    A longer segment of another view lies over several of these, which share what it adds.
    """
    units, owners = [], []
    for text, lang in zip((source, target), pair):
        views = [each.encode(text, add_special_tokens=False) for each in model.tokenizers[lang]]
        spans = views[0].offsets
        units.append([text[start:end] for start, end in spans])
        owner: dict[str, set[int]] = defaultdict(set)
        for view in views:
            for token, (start, end) in zip(view.tokens, view.offsets):
                owner[token].update(i for i, span in enumerate(spans) if start < span[1] and span[0] < end)
        owners.append(owner)
    weights, reasons = np.zeros((len(units[0]), len(units[1]))), defaultdict(list)
    terms = model.explain(source, target, pair)
    for term in terms:
        cells = list(product(sorted(owners[0][term.source]), sorted(owners[1][term.target])))
        for cell in cells:
            weights[cell] += term.contribution / len(cells)
            reasons[cell].append((f"{term.source} → {term.target}", term.contribution / len(cells)))
    told = [(NAMES.get(term.source, f"{term.source} → {term.target}"), term.contribution) for term in terms]
    return Links(*units, weights, set(), dict(reasons), told, sum(term.contribution for term in terms))
