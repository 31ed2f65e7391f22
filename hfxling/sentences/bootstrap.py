"""From two heaps of text, and a hundred pairs or an encoder, to a bitext and a model."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hfxling.data.pairs import IN_MEMORY, is_source, read_heaps
from hfxling.data.parallel import check_languages
from hfxling.data.texts import check_texts
from hfxling.encoders.haystack import Haystack
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import languages_of
from hfxling.evaluation.results import format_table
from hfxling.files import atomic_path, files_of
from hfxling.verbs import Languages, Model, OutputFolder, ReplacedFolder, Text, verb

from .bitext import ScoredPair, check_dropping, flagged, read_known, without, write_pairs
from .engine import Mined
from .neighbours import bytes_of
from .precision import LEAST, check_wanted

if TYPE_CHECKING:
    from hfxling.methods.lexical.bootstrap import Round
    from hfxling.models.modeling_lexical import LexicalModel

    from .unseeded import UnseededRound

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bootstrapped:
    """What bootstrapping ends with.

    Attributes:
        pairs: score, texts, line numbers and flags of each pair of the wanted precision, best first.
        model: a lexical encoder (docs/lexical.md).
        rounds: what each round found.
        settings: that it was done with.
    """

    pairs: list[ScoredPair]
    model: LexicalModel
    rounds: list[Round | UnseededRound]
    settings: dict[str, Any]

    def table(self) -> str:
        """A line a round, then the number of pairs."""
        return f"{rounds_table(self.rounds)}\n{len(self.pairs)} pairs"

    def save(self, folder: str | Path) -> None:
        """Write pairs.tsv, the model into `model`, and rounds.json, which says what of the folder is ours."""
        from hfxling.fit import save_lexical

        with atomic_path(folder) as scratch:
            scratch.mkdir()
            save_lexical(self.model, scratch / "model")
            write_pairs(scratch / "pairs.tsv", self.pairs)
            record = {
                "settings": self.settings,
                "rounds": [dataclasses.asdict(each) for each in self.rounds],
                "files": sorted(files_of(scratch)),
            }
            text = json.dumps(record, indent=2, ensure_ascii=False)
            (scratch / "rounds.json").write_text(text + "\n", encoding="utf-8")


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
    unpaired: float | None = None,
    dedup: str | None = None,
    filters: Sequence[str] = (),
    memory: str = "4GiB",
    seed: int = 42,
    revision: str | None = None,
    prompt: str | None = None,
    cache_dir: OutputFolder = "outputs/features",
    batch_size: int = 32,
    device: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = True,
) -> Bootstrapped:
    """A bitext and a model out of two heaps of text.

    Links are learnt from the seed pairs, pairs are mined with them, links are learnt from seed and pairs, and again,
    until hidden seed pairs stop gaining. With a model that knows both languages no pair need be known: it finds the
    first ones, links are learnt from these, and both find more.

    Example:
        >>> found = hfxling.bootstrap("a.zh", "b.vi", seed_pairs="seed.tsv", languages=("zh", "vi"))
        >>> found.save("outputs/bootstrap")

    Args:
        source: text: FILE (.gz or not), TABLE#COLUMN, a Hub id, or a list of sentences.
        target: the same of the other language; may be left out where the source has both.
        languages: codes of both, such as zh vi.
        seed_pairs: known pairs, at least 100 without a model: sources of pairs, or a list of texts and one of their
            translations.
        model: folder or Hub id of an encoder with dense vectors, or a loaded one.
        output: folder of pairs.tsv, the model and rounds.json.
        rounds: at most, after the first, that learns from the seed alone.
        precision: share of right pairs that is wanted of the bitext.
        unpaired: assumed share of sources without a translation; by default estimated, as it is with a model.
        dedup: source, target or both: keep the best pair of each normalised text.
        filters: drop pairs with these flags, or with all.
        memory: that the search may use beside the vectors.
        seed: of folds and models.
        revision: branch, tag or commit of the model on the Hub.
        prompt: put before every text; by default the model's own.
        cache_dir: where the model's vectors are kept.
        batch_size: texts encoded at once.
        device: by default a GPU when there is one.
        trust_remote_code: run the code of the model's repository.
        progress: show bars.

    Returns:
        Pairs, model and rounds.

    Raises:
        ValueError: neither model nor 100 seed pairs, text of nothing else, shares that are none, a model that finds
            hardly a pair.
        FileNotFoundError: no such text or model.
    """
    pair = languages_of(None, languages)
    check_languages(*pair)
    check_wanted(precision, unpaired, 100)
    bytes_of(memory)
    check_dropping(dedup, filters)
    if rounds < 0:
        raise ValueError(f"rounds={rounds}: give 0 or more.")
    if seed_pairs is None and model is None:
        raise ValueError("give --seed_pairs, 100 or more, or a --model that knows both languages, or both.")
    if model is not None and unpaired is not None:
        raise ValueError("unpaired: with a model it is estimated; leave it out.")
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
    settings = {
        "source": _name(source),
        "target": _name(target),
        "seed_pairs": _name(seed_pairs),
        "model": None if encoder is None else encoder.label,
        "model_revision": None if encoder is None else encoder.revision,
        "languages": list(pair),
        "rounds": rounds,
        "precision": precision,
        "unpaired": unpaired,
        "dedup": dedup,
        "filters": list(filters),
        "memory": memory,
        "seed": seed,
    }
    known: tuple[list[str], list[str]] = ([], [])
    if seed_pairs is not None:
        known = read_known(seed_pairs, pair, precision, unpaired, least=LEAST if encoder is None else 1)
    sides = []
    for heap, own in zip(read_heaps(source, target, pair), known):
        check_texts(heap.texts, f"{heap.name}: text")
        sides.append(without(heap, own))
    found_rounds: list[Round | UnseededRound] = []

    def report(this: Round | UnseededRound, _: Mined) -> None:
        found_rounds.append(this)
        logger.info("%s", rounds_table([this]))

    options = {"rounds": rounds, "precision": precision, "seed": seed, "memory": memory, "report": report}
    if encoder is None:
        from hfxling.methods.lexical import LinkSettings
        from hfxling.methods.lexical.bootstrap import bootstrap as learn_and_mine

        texts = [side.texts for side in sides]
        found = learn_and_mine(LinkSettings(), pair, known, *texts, unpaired=unpaired, **options)
    else:
        from .unseeded import grow

        haystack = Haystack(sides, encoder, pair, cache_dir=cache_dir, device=device, batch_size=batch_size)
        vectors = [parts[0] for parts in haystack.vectors()]
        found = grow(vectors, [side.texts for side in sides], pair, seed_pairs=known, **options)
    rows = flagged(found.pairs, sides, pair, filters=filters, dedup=dedup)
    result = Bootstrapped(rows, found.model, found_rounds, settings)
    if output is not None:
        result.save(output)
        logger.info("pairs: %s; model: %s", Path(output, "pairs.tsv"), Path(output, "model"))
    return result


def _name(text: Any) -> str | list[str] | None:
    """What text is called in records: its source, or that it was in memory."""
    if text is None or is_source(text):
        return None if text is None else str(text)
    is_sources = len(text) and all(is_source(part) and Path(part.partition("@")[0]).exists() for part in text)
    return [str(part) for part in text] if is_sources else IN_MEMORY


def rounds_table(rounds: Sequence[Round | UnseededRound]) -> str:
    """A line a round; without seed pairs nothing was hidden."""
    header = ["round", "learnt from", "hidden seed found, %", "mined", "of the wanted precision", "estimated, %"]
    lines = []
    for each in rounds:
        interval = ""
        if each.estimate:
            low, high = 100 * each.estimate.low, 100 * each.estimate.high
            interval = f"{100 * each.estimate.precision:.0f} ({low:.0f} to {high:.0f})"
        found = 100 * each.found if hasattr(each, "found") else None
        lines.append([each.number, each.learnt, found, each.mined, each.strict, interval])
    return format_table(header, lines)
