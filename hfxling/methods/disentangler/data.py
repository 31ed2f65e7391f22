"""Text and vectors of a disentangler run: from the frozen encoder through the cache, or from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedConfig

from hfxling.data.corpus import Corpus, PairText, load_corpus
from hfxling.data.scored import read_qe, read_sts17
from hfxling.data.sources import Pair, name_of_pair
from hfxling.encoders.frozen import FrozenEncoder
from hfxling.encoders.identity import model_name
from hfxling.methods.frozen import Sides, check_vectors, coverage_line, given_vectors, training_vectors

from .arguments import DisentanglerArguments


@dataclass
class Prepared:
    """Text and vectors of runs: encoded once, shared by all rows and seeds of a study.

    Attributes:
        corpus: the text.
        train: (source, target) vectors of each language pair, (N, D) each.
        scored: the same of each test set with human scores.
        parallel: the same of the test text of each of `tested`.
        tested: the pairs that have test text.
        kind: of the encoder, "encoder" or "llm".
        model: name of the encoder, for the results.
    """

    corpus: Corpus
    train: list[Sides]
    scored: list[Sides]
    parallel: list[Sides]
    tested: list[PairText]
    kind: str
    model: str

    @property
    def hidden_size(self) -> int:
        """D."""
        return self.train[0][0].shape[1]


def prepare(rows: Sequence[DisentanglerArguments], training_args=None) -> Prepared:
    """Read all text and the vectors of it, from the encoder through the cache, or from files.

    Warns when the encoder's vocabulary does not cover a language.

    Args:
        rows: arguments of runs that share text and vectors.
        training_args: of the Trainer, with evaluation and checkpoints for early stopping.

    Raises:
        ValueError: for settings that early stopping cannot work with, malformed text or vectors (see `load_corpus`,
            `load_vectors`), or fewer than two pairs.
        FileNotFoundError: for a file, folder or encoder that is not there.
    """
    first = rows[0]
    if training_args is not None and not training_args.load_best_model_at_end:
        raise ValueError("early stopping needs load_best_model_at_end with evaluation and checkpoints every epoch.")
    if training_args is not None and not (training_args.num_train_epochs or training_args.max_steps > 0):
        raise ValueError("num_train_epochs=0: a split that is not trained splits nothing; give more than 0.")
    scored = [
        *(read_qe(first.qe, split=first.qe_split) if first.qe else ()),
        *(read_sts17(first.sts) if first.sts else ()),
    ]
    if first.one_head_a_pair:
        scored = [test for test in scored if number_of_pair(first.language_pairs, test.direction) is not None]
        if not (scored or first.test_sources()):
            raise ValueError(f"no test set is of {', '.join(first.pairs)}; give others, or --heads joint.")
    corpus = load_corpus(first, scored=scored)
    for pair in corpus.pairs:
        if len(pair.train) < 2:
            name = name_of_pair(pair.languages)
            raise ValueError(f"pair {name}: {len(pair.train)} training pair is left of {pair.read}; give more text.")
    tested = [pair for pair in corpus.pairs if len(pair.test)]
    names, texts = [], []
    for test in scored:
        names.append(test.direction.replace("->", "-"))
        texts.append((test.source, test.target))
    for pair in tested:
        names.append(name_of_pair(pair.languages))
        texts.append((pair.test["source"], pair.test["target"]))
    kind = first.encoder_kind
    if first.train_vectors:
        train = [training_vectors(first, pair) for pair in corpus.pairs]
        vectors = []
        for name, sides in zip(names, texts):
            vectors.append(given_vectors("test_vectors", first.test_vectors, name, len(sides[0])))
        check_vectors(first, [*train, *vectors], [(*sides, given) for sides, given in zip(texts, vectors)])
        kind = kind_of(first.pooling, None) if kind == "auto" else kind
    else:
        encoder = first.encoder()
        corpus.coverage = coverage_line(encoder, _texts_by_language(corpus))
        train = []
        for pair in corpus.pairs:
            train.append(_encoded(encoder, (pair.train["source"], pair.train["target"]), first.cache_dir))
        vectors = [_encoded(encoder, sides, first.cache_dir) for sides in texts]
        kind = kind_of(first.pooling, encoder.model.config) if kind == "auto" else kind
    count = len(scored)
    return Prepared(corpus, train, vectors[:count], vectors[count:], tested, kind, model_name(first.base_model))


def _encoded(encoder: FrozenEncoder, sides: Sequence[Sequence[str]], cache_dir: str) -> Sides:
    """Vectors of both sides."""
    return encoder.features(sides[0], cache_dir)[:, 0], encoder.features(sides[1], cache_dir)[:, 0]


def _texts_by_language(corpus: Corpus) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = {}
    for pair in corpus.pairs:
        for side, language in zip(("source", "target"), pair.languages):
            texts.setdefault(language, []).extend(pair.train[side])
    return texts


def number_of_pair(pairs: Sequence[Pair], direction: str) -> int | None:
    """Which of the pairs a test set such as "en->de" or "en-es-wmt" is of, whatever its direction; None for none."""
    languages = set(direction.replace("->", "-").split("-")[:2])
    for number, pair in enumerate(pairs):
        if set(pair) == languages:
            return number
    return None


def kind_of(pooling: str, config: PreTrainedConfig | None) -> str:
    """An LLM's vector is that of its last token; vectors without an encoder's config count as an encoder's."""
    is_causal = any(name.endswith("ForCausalLM") for name in getattr(config, "architectures", None) or ())
    return "llm" if is_causal or (pooling == "last" and config is not None) else "encoder"
