"""The word aligner step by step: text, vocabularies, batches, training under a CPU budget, the best state kept."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from transformers import TrainingArguments

from hfxling.data.dice import dice_dictionary
from hfxling.data.pharaoh import read_aligned
from hfxling.data.sample import dictionary as sample_dictionary
from hfxling.data.segment import EOS, Vocabulary, learn_vocabularies, normalize
from hfxling.evaluation.alignment import alignment_results
from hfxling.evaluation.lexicon import (
    Dictionary,
    lexicon_results,
    link_vectors,
    read_dictionary,
    score_lexicon,
    word_table,
)
from hfxling.evaluation.results import EvalResult
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import AlignerModel

from .align import Aligner, default_method
from .aligner_batches import UPDATES, EncodedPairs
from .aligner_init import INITS, init_from_links
from .aligner_trainer import train_aligner
from .confidence import cross_validated, expected_calibration_error, gather
from .corpus import Corpus, CorpusArguments, load_corpus
from .link_prior import LinkPrior, translation_counts, word_classes
from .trainer import Evaluator

GOLD_METHODS = ("grow-diag-final-and", "mean", "itermax")  # of links that are tested
Dictionaries = dict[tuple[str, str], Dictionary]  # by (source, target) language

# Settings of the Trainer that the aligner wants and transformers' defaults do not give. Adam without weight decay,
# clipped at 5, batches of 16: Wada et al. Their learning rate is 1e-3, the paper's 2e-5; docs/results.md compares.
TRAINING_DEFAULTS = {
    "num_train_epochs": 200,
    "per_device_train_batch_size": 16,
    "learning_rate": 4e-3,
    "lr_scheduler_type": "constant",
    "max_grad_norm": 5.0,
    "optim": "adamw_torch_fused",
    "logging_steps": 100,
    "save_steps": 2000,
    "save_total_limit": 1,
    "dataloader_pin_memory": torch.cuda.is_available(),
    "report_to": "none",
}


@dataclass
class AlignerArguments(CorpusArguments):
    """The text, the vocabularies, the network and how it is trained."""

    model: str | None = field(default=None, metadata={"help": "folder or Hub id of an aligner to go on training"})
    extra_pairs: list[str] = field(
        default_factory=list,
        metadata={"help": "further text for the same model, e.g. lo-th=lo.txt,th.txt; same lines as the first"},
    )
    vocab_size: int | None = field(default=None, metadata={"help": "words of a language at most; default by segmenter"})
    min_count: int | None = field(default=None, metadata={"help": "occurrences a word needs; default by segmenter"})
    pieces: int = field(default=8000, metadata={"help": "subword pieces that the languages share, at most (eq. 10)"})
    segmenters: list[str] = field(
        default_factory=list, metadata={"help": "e.g. lo=whitespace, where it is not the language's default"}
    )
    max_words: int = field(default=150, metadata={"help": "segments kept of a training sentence"})
    size: int = field(default=500, metadata={"help": "width of embeddings and states (paper: 500)"})
    layers: int = field(default=1, metadata={"help": "of encoder and decoders"})
    dropout: float = field(default=0.5, metadata={"help": "on embeddings and decoder outputs"})
    contrastive_weight: float = field(default=1.0, metadata={"help": "0 is the base model (Wada et al.)"})
    temperature: float = field(default=0.5, metadata={"help": "of the contrastive loss (paper: 0.5)"})
    negatives: str = field(default="inter", metadata={"help": "inter or inter+intra"})
    contrastive_pooling: str = field(default="avg", metadata={"help": "avg or max"})
    init: str = field(default="random", metadata={"help": "of word vectors: random (paper), or links"})
    prior: bool = field(
        default=False, metadata={"help": "attention starts from the links of a statistical aligner (not in the paper)"}
    )
    updates: str = field(default="one", metadata={"help": "per batch: one, or four as Wada et al.'s scripts"})
    dictionaries: list[str] = field(
        default_factory=list, metadata={"help": "for testing, e.g. lo-zh=lo-zh.tsv; word TAB translation lines"}
    )
    gold: list[str] = field(
        default_factory=list, metadata={"help": "gold links for testing, e.g. zh-en=gold.tsv: source, target, links"}
    )
    cpu_seconds: float | None = field(default=None, metadata={"help": "stop training after this much CPU time"})
    evaluate_every: int = field(default=5, metadata={"help": "epochs between two scores; the best state is kept"})

    def __post_init__(self):
        if self.updates not in UPDATES:
            raise ValueError(f"updates={self.updates!r} is not one of {', '.join(UPDATES)}.")
        if self.init not in INITS:
            raise ValueError(f"init={self.init!r} is not one of {', '.join(INITS)}.")
        for name in ("evaluate_every", "max_words", "cpu_seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value} must be more than 0.")
        self.pair_arguments()  # these three refuse bad values, here and not after the text was read
        self.segmenter_choices(), self.pair_files("dictionaries"), self.pair_files("gold")
        AlignerConfig(vocab_sizes={self.source_lang: 5, self.target_lang: 5}, **self.network())

    def network(self) -> dict:
        """The fields of `AlignerConfig` that do not follow from the text."""
        names = ("size", "layers", "dropout", "contrastive_weight", "temperature", "negatives", "contrastive_pooling")
        return {name: getattr(self, name) for name in names}

    def pair_arguments(self) -> list[CorpusArguments]:
        """One set of corpus arguments a language pair, the main one first."""
        names = [f.name for f in dataclasses.fields(CorpusArguments)]
        first = CorpusArguments(**{name: getattr(self, name) for name in names})
        further = []
        for entry in self.extra_pairs:
            pair, _, files = entry.partition("=")
            source, _, target = pair.partition("-")
            if not (source and target and files):
                raise ValueError(f"extra_pairs: {entry!r} is not of the form lo-th=FILE,FILE (or lo-th=sample).")
            changed = {"source_lang": source, "target_lang": target, "train_data": files.split(","), "data_name": None}
            changed |= {"source_column": None, "target_column": None}
            further.append(dataclasses.replace(first, **changed, test_data=None))
        return [first, *further]

    def pair_files(self, name: str) -> dict[tuple[str, str], str]:
        """(source, target) language -> file, of `dictionaries` or `gold`."""
        paths = {}
        for entry in getattr(self, name):
            pair, _, path = entry.partition("=")
            source, _, target = pair.partition("-")
            if not (source and target and path):
                raise ValueError(f"{name}: {entry!r} is not of the form lo-zh=FILE.")
            paths[source, target] = path
        return paths

    def segmenter_choices(self) -> dict[str, str]:
        """Language code -> segmenter."""
        for entry in self.segmenters:
            if not all(entry.partition("=")):
                raise ValueError(f"segmenters: {entry!r} is not of the form lo=whitespace.")
        return dict(entry.split("=", 1) for entry in self.segmenters)


def load_corpora(args: AlignerArguments, seed: int = 0) -> list[Corpus]:
    """Filtered text of every language pair; what the test text holds is in no training text (see `load_corpus`)."""
    return [load_corpus(pair, seed, test_needed=False) for pair in args.pair_arguments()]


def training_lines(corpora: Sequence[Corpus]) -> dict[str, list[str]]:
    """Language code -> its distinct training sentences, from all pairs."""
    lines: dict[str, dict[str, None]] = {}
    for corpus in corpora:
        for side in ("source", "target"):
            lines.setdefault(corpus.train[f"{side}_lang"][0], {}).update(dict.fromkeys(corpus.train[side]))
    return {lang: list(texts) for lang, texts in lines.items()}


def learn_corpus_vocabularies(args: AlignerArguments, corpora: Sequence[Corpus]) -> dict[str, Vocabulary]:
    """A vocabulary a language and the pieces they share, from the training text."""
    sizes = {"size": args.vocab_size, "min_count": args.min_count, "pieces": args.pieces}
    return learn_vocabularies(training_lines(corpora), segmenters=args.segmenter_choices(), **sizes)


def encode_pairs(
    corpora: Sequence[Corpus], vocabularies: Mapping[str, Vocabulary], *, split: str = "train", max_words: int = 150
) -> list[EncodedPairs]:
    """Word ids of one split, by language pair; what is longer is cut, pairs with an empty side are left out."""
    encoded: dict[tuple[str, str], EncodedPairs] = {}
    for corpus in corpora:
        rows = getattr(corpus, split)
        languages = corpus.train["source_lang"][0], corpus.train["target_lang"][0]
        sides = [
            [row.ids[:max_words] for row in vocabularies[lang].encode_batch(list(rows[side]))]
            for lang, side in zip(languages, ("source", "target"))
        ]
        pairs = encoded.setdefault(languages, EncodedPairs(languages, [], []))
        for source, target in zip(*sides):
            if source and target:
                pairs.source.append(source)
                pairs.target.append(target)
    return list(encoded.values())


def learn_priors(pairs: Sequence[EncodedPairs], vocabularies: Mapping[str, Vocabulary]) -> list[LinkPrior]:
    """A statistical aligner for every language pair's training text."""
    classes = {lang: word_classes(vocabulary) for lang, vocabulary in vocabularies.items()}
    return [LinkPrior.learn(corpus, [classes[lang] for lang in corpus.languages]) for corpus in pairs]


def new_model(
    args: AlignerArguments,
    vocabularies: Mapping[str, Vocabulary],
    pairs: Sequence[EncodedPairs] = (),
    priors: Sequence[LinkPrior] = (),
) -> AlignerModel:
    """An untrained aligner for these vocabularies; `init="links"` reads its first word vectors off pairs and priors."""
    tables = {lang: torch.from_numpy(vocabulary.piece_ids()[0]) for lang, vocabulary in vocabularies.items()}
    config = AlignerConfig(
        vocab_sizes={lang: len(vocabulary) for lang, vocabulary in vocabularies.items()},
        piece_vocab_size=max(int(table.max()) for table in tables.values()) + 1,
        pieces_per_word=max(table.shape[1] for table in tables.values()),
        priors=["-".join(prior.languages) for prior in priors] if args.prior else [],
        **args.network(),
    )
    model = AlignerModel(config, tables)
    if args.init == "links":
        init_from_links(model, pairs, priors)
    return model


def dice_dictionaries(pairs: Sequence[EncodedPairs], vocabularies: Mapping[str, Vocabulary]) -> Dictionaries:
    """The pseudo-dictionary of every language pair's training text: what a model without gold is chosen by."""
    found: dict[tuple[str, str], dict[str, set[str]]] = {}
    for corpus in pairs:
        words = (
            [[vocabularies[lang].words[i] for i in row if i > EOS] for row in side]
            for lang, side in zip(corpus.languages, (corpus.source, corpus.target))
        )
        for source, target in dice_dictionary(*words):
            found.setdefault(corpus.languages, {}).setdefault(source, set()).add(target)
    return found


def dictionary_evaluator(
    vocabularies: Mapping[str, Vocabulary], dictionaries: Dictionaries, name: str = "Dice"
) -> Evaluator:
    """P@1 of the static vectors on each dictionary by CSLS, as the Trainer runs it in passing: no intervals."""

    def evaluate(model: AlignerModel) -> list[EvalResult]:
        rows = []
        for languages, dictionary in dictionaries.items():
            tables = [word_table(vocabularies[lang], model.static_table(lang)) for lang in languages]
            ranks = score_lexicon(dictionary, *tables).ranks
            value = 100.0 * np.mean(ranks <= 1)
            rows.append(EvalResult("P@1", value, len(ranks), name, "train", direction="->".join(languages)))
        return rows

    return evaluate


def fit(
    args: AlignerArguments,
    training_args: TrainingArguments,
    model: AlignerModel,
    vocabularies: Mapping[str, Vocabulary],
    pairs: Sequence[EncodedPairs],
    priors: Sequence[LinkPrior] = (),
) -> dict:
    """Train; the state that scores best on the Dice dictionary is kept (see `train_aligner`).

    The last one is where there is no such dictionary, or where the start knew it by heart (`init="links"`). No epochs
    leave the model as it is.
    """
    if not training_args.num_train_epochs:
        return {"steps": 0, "epochs": 0.0, "cpu_seconds": 0.0, "scores": []}
    dice = dice_dictionaries(pairs, vocabularies) if args.init == "random" else {}
    evaluators = [dictionary_evaluator(vocabularies, dice)] if dice else []
    return train_aligner(args, training_args, model, pairs, evaluators, priors)


def test_dictionaries(args: AlignerArguments) -> Dictionaries:
    """The dictionaries to test on; the embedded corpus brings its own."""
    found: Dictionaries = {pair: read_dictionary(path) for pair, path in args.pair_files("dictionaries").items()}
    pair = (args.source_lang, args.target_lang)
    if args.train_data == ["sample"] and pair not in found:
        entries: dict[str, set[str]] = {}
        for source, target in sample_dictionary(*pair):
            entries.setdefault(normalize(source), set()).add(normalize(target))
        found[pair] = entries
    return found


def dictionary_counts(
    args: AlignerArguments, pairs: Sequence[EncodedPairs], vocabularies: Mapping[str, Vocabulary]
) -> dict[tuple[str, str], object]:
    """Statistical link counts of the training text for the dictionaries whose languages it has, in either order."""
    counts = {}
    for corpus in pairs:
        for pair in {corpus.languages, corpus.languages[::-1]} & test_dictionaries(args).keys():
            found = translation_counts(corpus, [vocabularies[lang] for lang in corpus.languages])
            counts[pair] = found if pair == corpus.languages else found.T
    return counts


def evaluate(
    args: AlignerArguments,
    model: AlignerModel,
    vocabularies: Mapping[str, Vocabulary],
    priors: Sequence[LinkPrior] = (),
    counts: Mapping | None = None,
    **about,
) -> list[EvalResult]:
    """P@1, P@5 and coverage of the static vectors on every dictionary, and AER and ECE on every file of gold links.

    Words are also translated by statistical links, and by both together, where their counts are given. Gold links are
    decoded in the ways of `GOLD_METHODS`, and by the prior alone where there is one.

    Args:
        args: name the files.
        model: in evaluation mode.
        vocabularies: of its languages.
        priors: what its attention starts from.
        counts: from `dictionary_counts`.
        **about: settings of the rows.

    Raises:
        ValueError: a file of languages that the model does not have.
    """
    rows = []
    for (source, target), entries in test_dictionaries(args).items():
        _check_languages("dictionaries", (source, target), vocabularies)
        sides = (source, entries), (target, sorted(set().union(*entries.values())))
        static = [model.static_table(lang).cpu() for lang in (source, target)]
        vectors = {"": static}
        if counts and (source, target) in counts:
            links = counts[source, target]
            vectors |= {"links alone": link_vectors(links), "with links": link_vectors(links, static)}
        fields = {"dataset": f"dictionary {source}-{target}", "split": "test", "direction": f"{source}->{target}"}
        for decoding, both in vectors.items():
            tables = [word_table(vocabularies[lang], x, words) for (lang, words), x in zip(sides, both)]
            settings = {"method": "csls"} | ({"decoding": decoding} if decoding else {}) | about
            found = lexicon_results(score_lexicon(entries, *tables), entries, settings=settings, **fields)
            rows += [row for row in found if not decoding or row.metric.startswith("P@")]  # the coverage is the same
    by_pair = {prior.languages: prior for prior in priors}
    for pair, path in args.pair_files("gold").items():
        _check_languages("gold", pair, vocabularies)
        prior = by_pair.get(pair)
        for method in GOLD_METHODS:
            aligner = Aligner(model, vocabularies, pair, method=method, prior=prior)
            rows += gold_results(aligner, path, decoding=method, **about)
        if prior is not None:
            aligner = Aligner(prior, vocabularies, pair, method="mean", prior=prior)
            rows += gold_results(aligner, path, decoding="prior alone", **about)
    return rows


def gold_results(aligner: Aligner, path: str, **settings) -> list[EvalResult]:
    """AER, precision, recall and F1 on a file of gold links.

    Where links are decided in the default way, also the calibration error (ECE, 0..1) of a confidence in them, over 5
    folds of the file; files with too few right or wrong links for that have none.
    """
    gold = read_aligned(path)
    lines = list(aligner([" ".join(pair.source) for pair in gold], [" ".join(pair.target) for pair in gold]))
    fields = {"dataset": f"gold {Path(path).stem}", "split": "test", "settings": settings}
    rows = alignment_results([line.links for line in lines], gold, **fields)
    if settings["decoding"] == default_method(aligner.prior):
        features, right, groups = gather(lines, gold)
        with contextlib.suppress(ValueError):
            error = expected_calibration_error(cross_validated(features, right, groups), right)
            rows.append(EvalResult("ECE", error, len(right), unit="", revision=rows[0].revision, **fields))
    return rows


def _check_languages(name: str, pair: tuple[str, str], vocabularies: Mapping[str, Vocabulary]) -> None:
    if not set(pair) <= set(vocabularies):
        raise ValueError(f"{name}: {'-'.join(pair)}: the model has {', '.join(vocabularies)} only.")


ARGUMENTS = AlignerArguments  # for studies


def study_row(args: AlignerArguments, training_args: TrainingArguments, cache: dict) -> list[EvalResult]:
    """One run of a study; text, vocabularies and the statistical aligners are shared.

    Where there is test text, P@1 on its own Dice dictionary is among the results: settings are chosen by that.
    """
    names = [*CorpusArguments.__dataclass_fields__, "extra_pairs", "vocab_size", "min_count", "pieces", "segmenters"]
    key = json.dumps([getattr(args, name) for name in [*names, "max_words"]])
    if key not in cache:
        corpora = load_corpora(args, training_args.seed)
        vocabularies = learn_corpus_vocabularies(args, corpora)
        pairs = encode_pairs(corpora, vocabularies, max_words=args.max_words)
        held_out = [side for side in encode_pairs(corpora, vocabularies, split="test") if side.source]
        priors, counts = learn_priors(pairs, vocabularies), dictionary_counts(args, pairs, vocabularies)
        cache[key] = vocabularies, pairs, held_out, priors, counts
    vocabularies, pairs, held_out, priors, counts = cache[key]
    torch.manual_seed(training_args.seed)
    model = new_model(args, vocabularies, pairs, priors).eval()
    used = priors if args.prior else []
    record = fit(args, training_args, model, vocabularies, pairs, used)
    spent = {"stage": "after", "steps": record["steps"], "train_cpu_s": round(record["cpu_seconds"], 1)}
    known = counts if args.prior else None
    results = evaluate(args, model, vocabularies, used, known, **spent, **args.network())
    if held_out:
        dice = dictionary_evaluator(vocabularies, dice_dictionaries(held_out, vocabularies), "Dice, held-out text")
        results += [dataclasses.replace(row, split="test", settings=row.settings | spent) for row in dice(model)]
    return results
