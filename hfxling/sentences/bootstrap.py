"""From two texts, and a hundred pairs or an encoder, to a bitext and models."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfxling.data.filters import plain
from hfxling.data.pairs import IN_MEMORY, is_source, read_heaps
from hfxling.data.texts import Texts, check_texts
from hfxling.data.warn import COVERAGE_TEXTS, warn_of_coverage, warn_of_foreign
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import Encoder, languages_of
from hfxling.evaluation.results import EvalResult, format_table, read_results
from hfxling.files import atomic_path, files_of
from hfxling.hub.record import RECORD
from hfxling.values import check_counts
from hfxling.verbs import CacheFolder, Languages, Model, ReplacedFolder, Result, Text, verb

from .bitext import Dedup, Filter, ScoredPair, columns, flagged, read_known, without
from .neighbours import Vectors, bytes_of
from .precision import LEAST, check_wanted
from .tables import write_tables

if TYPE_CHECKING:
    from hfxling.models.modeling_lexical import LexicalModel
    from hfxling.selection.select import Selection

    from .grow import Round

logger = logging.getLogger(__name__)
LEAST_SENTENCES = 20  # distinct sentences of each text
MOST_SHARED = 0.5  # share of the smaller text's sentences that the other text may contain, too
# What the cards of the models call the text.
MINED = "mined pairs"
SEED_AND_MINED = "seed and mined pairs"
MOST_FOREIGN = 0.5  # share of a text's sentences that may be in another language


@dataclass(frozen=True, repr=False)
class Bootstrapped(Result):
    """The result of bootstrapping.

    Attributes:
        pairs: score, texts, line numbers and flags of each pair of the wanted precision, best first.
        model: a lexical model, if nothing is fused.
        fused: what `select` makes of the encoder and the pairs (a head on it, and links), or None.
        rounds: what each round found.
        settings: the settings of the run.
        best: the round that found the pairs.
    """

    pairs: list[ScoredPair]
    model: LexicalModel | None
    fused: Selection | None
    rounds: list[Round]
    settings: dict[str, Any]
    best: Round | None = None

    def table(self) -> str:
        """One line for each round, then the number of pairs."""
        header = ["round", "learnt from", "mined", "kept", "precision, %", "95 %"]
        lines = []
        for each in self.rounds:
            estimate, interval = None, ""
            if each.estimate:
                estimate = 100 * each.estimate.precision
                interval = f"{100 * each.estimate.low:.1f} to {100 * each.estimate.high:.1f}"
            lines.append([each.number, each.learnt, each.mined, each.strict, estimate, interval])
        return f"{format_table(header, lines)}\n{len(self.pairs)} pairs"

    def save(self, folder: str | Path) -> None:
        """Write pairs.tsv, the models as `fit` does, and rounds.json, which lists the files that are ours."""
        from hfxling.fit import save_lexical
        from hfxling.hub.folder import rewrite_record

        with atomic_path(folder) as scratch:
            scratch.mkdir()
            learnt_from = SEED_AND_MINED if self.settings.get("seed_pairs") else MINED
            if self.fused is None:
                self.model.origin["train_data"][0]["name"] = learnt_from
                save_lexical(self.model, scratch / "model")
                folders = [scratch / "model"]
            else:
                self.fused.text.corpus.name = learnt_from
                folders = self.fused.save(scratch, "fused").values()
            for each in folders:
                rewrite_record(each, [*read_results(each / RECORD), *self._estimate()], {})
            write_tables((scratch / "pairs.tsv", columns(self.pairs), True))
            record = {
                "settings": self.settings,
                "rounds": [dataclasses.asdict(each) for each in self.rounds],
                "files": sorted(files_of(scratch)),
            }
            text = json.dumps(record, indent=2, ensure_ascii=False)
            (scratch / "rounds.json").write_text(text + "\n", encoding="utf-8")

    def _estimate(self) -> list[EvalResult]:
        """The precision of the pairs as a row for the models' cards; [] if it is not known."""
        estimate = None if self.best is None else self.best.estimate
        if estimate is None:
            return []
        row = EvalResult(
            "estimated precision",
            100 * estimate.precision,
            self.best.strict,
            MINED,
            "of the wanted precision",
            direction="->".join(self.settings["languages"]),
            low=100 * estimate.low,
            high=100 * estimate.high,
            settings={"stage": "after"},
        )
        return [row]


@verb
def bootstrap(
    source: Text,
    target: Text | None = None,
    *,
    languages: Languages,
    seed_pairs: list[str] | None = None,
    model: Model | None = None,
    output: ReplacedFolder | None = None,
    rounds: int = 5,
    precision: float = 0.95,
    dedup: Dedup | None = None,
    filters: Sequence[Filter] = (),
    memory: str = "4GiB",
    seed: int = 42,
    revision: str | None = None,
    prompt: str | None = None,
    cache_dir: CacheFolder = "outputs/features",
    batch_size: int = 32,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Bootstrapped:
    """Make a bitext and a model from two texts.

    The first pairs are found by an encoder that knows both languages, by word links of known pairs, or by both. A
    lexical model, and a head on the encoder, learn from these pairs and find more, and so on, until there are hardly
    more good pairs. Then the pairs are written, and the model that `hfxling fit` makes of the pairs that were learnt
    from last (the known ones and all that are right by an estimated 70 %): the encoder with its head, and the lexical
    model.

    Example:
        >>> found = hfxling.bootstrap("a.zh", "b.vi", seed_pairs="seed.tsv", languages=("zh", "vi"))
        >>> found.save("outputs/bootstrap")

    Args:
        source: text in the first language: FILE (plain, .gz, .xz or .bz2), TABLE#COLUMN, a Hub id, or a list of
            sentences.
        target: text in the other language, given in the same way; leave it out if the source holds both languages.
        languages: language codes of source and target, such as zh vi.
        seed_pairs: known pairs, at least 100 without a model: sources of pairs (FILE.tsv, A.zh+B.vi), or a list of
            texts and a list of their translations.
        model: folder or Hub id of an encoder with dense vectors, or a loaded one.
        output: folder for pairs.tsv, rounds.json and a folder called model. Without an encoder, that is a lexical
            model. With one, it is an encoder, and the lexical model it is fused with is in lexical/model.
        rounds: largest number of rounds after the first one.
        precision: share of the pairs that should be right, 0 to 1.
        dedup: side whose repeated texts are dropped, source, target or both: of each normalised text only the best pair
            is kept.
        filters: flags for which a pair is dropped; all means any flag.
        memory: memory that the search may use beside the vectors.
        seed: random seed of folds and models.
        revision: branch, tag or commit of the model on the Hub.
        prompt: text put before every sentence; by default the model's own prompt.
        cache_dir: folder where the model's vectors are kept.
        batch_size: number of texts encoded at once.
        device: device for the computation, such as cpu or cuda; by default a GPU if there is one.
        trust_remote_code: allow the code in the model's repository to run.
        progress: show progress bars.

    Returns:
        The pairs, the models, and what each round found.

    Raises:
        ValueError: neither a model nor 100 known pairs, two texts of one language or of few sentences, a precision that
            is not a share, or a model that finds hardly any pair.
        FileNotFoundError: a text or model that does not exist.
    """
    from hfxling.selection.select import has_layers

    from .grow import grow

    pair = languages_of(None, languages)
    check_wanted(precision)
    bytes_of(memory)
    check_counts(0, rounds=rounds)
    if seed_pairs is None and model is None:
        raise ValueError("give --seed_pairs (100 or more), a --model that knows both languages, or both.")
    encoder = None
    if model is not None:
        encoder = load_encoder(
            model,
            revision=revision,
            prompt=prompt,
            batch_size=batch_size,
            device=device,
            trust_remote_code=trust_remote_code,
        )
        if encoder.method != "cosine":
            raise ValueError(f"model: {encoder.label} has sparse vectors; give an encoder with dense ones.")
        if can_have_head(encoder):
            has_layers(encoder.name, revision)  # refuses now what `select` would refuse after all rounds
    settings = {
        "source": _name(source),
        "target": _name(target),
        "seed_pairs": _names_of_known(seed_pairs),
        "model": None if encoder is None else encoder.label,
        "model_revision": None if encoder is None else encoder.revision,
        "languages": list(pair),
        "rounds": rounds,
        "precision": precision,
        "dedup": dedup,
        "filters": list(filters),
        "memory": memory,
        "seed": seed,
    }
    known: tuple[list[str], list[str]] = ([], [])
    if seed_pairs is not None:
        known = read_known(seed_pairs, pair, least=LEAST if encoder is None else 1)
    sides = []
    for heap, known_texts in zip(read_heaps(source, target, pair), known):
        check_texts(heap.texts, f"{heap.name}: text")
        sides.append(without(heap, known_texts))
    check_heaps(sides, pair)
    vectors = None
    if encoder is not None:
        vectors = _vectors(sides, pair, encoder, cache_dir=cache_dir, device=device, batch_size=batch_size)

    def report(this: Round, *_) -> None:
        logger.info("round %d: %d pairs mined, %d kept", this.number, this.mined, this.strict)

    texts = (sides[0].texts, sides[1].texts)
    grown = grow(
        texts,
        pair,
        vectors=vectors,
        known=known,
        report=report,
        rounds=rounds,
        precision=precision,
        seed=seed,
        memory=memory,
    )
    rows = flagged(grown.pairs, sides, pair, filters=filters, dedup=dedup)
    if not rows:
        logger.warning(
            "no pair reaches the wanted precision without a filtered flag, so the table is empty; the models learn "
            "from %d known pairs and %d likely ones. Ask for a lower --precision or fewer --filters",
            len(known[0]),
            len(grown.learnt.score),
        )
    learnt = []
    for known_texts, side, rows_of_side in zip(known, texts, grown.learnt):  # the third of `learnt`, scores, is left
        learnt.append([*known_texts, *(side[row] for row in rows_of_side)])
    links, fused = models_of(learnt, pair, encoder, revision, seed, cache_dir, device)
    result = Bootstrapped(rows, links, fused, grown.rounds, settings, grown.best)
    if output is not None:
        result.save(output)
        logger.info("pairs: %s; model: %s", Path(output, "pairs.tsv"), Path(output, "model"))
    return result


def _name(text: Any) -> str | None:
    """The name of a text in records: its source, or that it was in memory."""
    if text is None:
        return None
    return str(text) if is_source(text) else IN_MEMORY


def _names_of_known(known: Any) -> str | list[str] | None:
    """The same of known pairs, which may be several sources."""
    if known is None or is_source(known) or not all(is_source(part) for part in known):
        return _name(known)
    return [str(part) for part in known]


def check_heaps(sides: Sequence[Texts], languages: tuple[str, str]) -> None:
    """Raise ValueError for texts that nothing can be made of; warn if much is in another language."""
    distinct = []
    for side in sides:
        texts = {plain(text) for text in side.texts}
        distinct.append(texts)
        if len(texts) < LEAST_SENTENCES:
            raise ValueError(
                f"{side.name}: {len(texts)} distinct sentences of {len(side.texts)}; give {LEAST_SENTENCES} or more of "
                "each language."
            )
    shared = len(distinct[0] & distinct[1])
    smaller = min(map(len, distinct))
    if shared > MOST_SHARED * smaller:
        raise ValueError(
            f"{sides[0].name} and {sides[1].name} share {shared} of {smaller} sentences: copies are not translations; "
            "give one text of each language."
        )
    shares = warn_of_foreign([side.texts for side in sides], languages)
    for side, language, share in zip(sides, languages, shares):
        if share > MOST_FOREIGN:
            raise ValueError(
                f"{side.name}: {100 * share:.0f} % of the sentences are not in {language!r}; give a text of that "
                "language, or other --languages."
            )


def _vectors(sides: Sequence[Texts], languages: tuple[str, str], encoder: Encoder, **options: Any) -> list[Vectors]:
    """An encoder's vectors of both texts, with a warning if its vocabulary lacks a language; options of `Haystack`."""
    from hfxling.encoders.haystack import Haystack  # loads torch

    some = [side.texts[:COVERAGE_TEXTS] for side in sides]
    warn_of_coverage(getattr(encoder, "model", None), zip(*some), languages)
    haystack = Haystack(sides, encoder, languages, **options)
    return [parts[0] for parts in haystack.vectors()]


def models_of(
    learnt: Sequence[list[str]],
    languages: tuple[str, str],
    encoder: Encoder | None,
    revision: str | None = None,
    seed: int = 42,
    cache_dir: str | Path = "outputs/features",
    device: str | None = None,
) -> tuple[LexicalModel | None, Selection | None]:
    """A lexical model or, with an encoder, the result of `hfxling fit --choose fused`; the other one is None."""
    from hfxling.encoders.dense import runs_code  # loads torch
    from hfxling.fit import fit_lexical
    from hfxling.selection.select import select

    if encoder is None or not can_have_head(encoder):
        if encoder is not None:
            logger.info("no head is learnt on %s, as it is in memory or has parts for languages", encoder.label)
        return fit_lexical(*learnt, languages, seed=seed, progress=False), None
    fused = select(
        *learnt,
        languages=languages,
        model=encoder.name,
        revision=revision,
        prompt=encoder.prompt,
        only=["fused"],
        choose="fused",
        output=None,
        seed=seed,
        device=device,
        cache_dir=cache_dir,
        trust_remote_code=runs_code(encoder.model),  # the user has allowed it
    )
    return None, fused


def can_have_head(encoder: Encoder) -> bool:
    """Whether `hfxling fit` can learn a head on it: an encoder with a name, without parts for languages or roles."""
    from hfxling.encoders.dense import SentenceEncoder  # loads torch

    return isinstance(encoder, SentenceEncoder) and not encoder.is_in_memory and not encoder.routes
