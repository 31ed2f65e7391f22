"""The word aligner step by step: text, vocabularies, batches, training under a CPU budget, the best state kept."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_callback import ExportableState

from hfxling.data.dice import dice_dictionary
from hfxling.data.segment import EOS, Vocabulary, learn_vocabularies
from hfxling.evaluation.lexicon import Dictionary, score_lexicon, word_table
from hfxling.evaluation.results import EvalResult
from hfxling.files import atomic_path
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import AlignerModel

from .aligner_batches import UPDATES, EncodedPairs, PairBatches
from .aligner_init import INITS, init_from_cooccurrence
from .corpus import Corpus, CorpusArguments, load_corpus
from .trainer import Evaluator, XlingTrainer

Dictionaries = dict[tuple[str, str], Dictionary]  # by (source, target) language

BEST = "best.safetensors"
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
        metadata={"help": "further pairs for the same model, e.g. lo-th=lo.txt,th.txt; same lines as the first"},
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
    init: str = field(default="random", metadata={"help": "of word vectors: random (paper), or cooccurrence"})
    updates: str = field(default="one", metadata={"help": "per batch: one, or four as Wada et al.'s scripts"})
    dictionaries: list[str] = field(
        default_factory=list, metadata={"help": "for testing, e.g. lo-zh=lo-zh.tsv; word TAB translation lines"}
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
        self.segmenter_choices(), self.dictionary_paths()
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
            further.append(dataclasses.replace(first, **changed, test_data=None))
        return [first, *further]

    def dictionary_paths(self) -> dict[tuple[str, str], str]:
        """(source, target) language -> file."""
        paths = {}
        for entry in self.dictionaries:
            pair, _, path = entry.partition("=")
            source, _, target = pair.partition("-")
            if not (source and target and path):
                raise ValueError(f"dictionaries: {entry!r} is not of the form lo-zh=FILE.")
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
    return [load_corpus(pair, seed) for pair in args.pair_arguments()]


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
    """Word ids of one split; what is longer is cut, pairs with a side that has no word are left out."""
    encoded = []
    for corpus in corpora:
        rows = getattr(corpus, split)
        languages = rows["source_lang"][0], rows["target_lang"][0]
        sides = [
            [row.ids[:max_words] for row in vocabularies[lang].encode_batch(list(rows[side]))]
            for lang, side in zip(languages, ("source", "target"))
        ]
        kept = [pair for pair in zip(*sides) if all(pair)]
        encoded.append(EncodedPairs(languages, *map(list, zip(*kept))))
    return encoded


def new_model(
    args: AlignerArguments, vocabularies: Mapping[str, Vocabulary], pairs: Sequence[EncodedPairs] = ()
) -> AlignerModel:
    """An untrained aligner for these vocabularies; `init="cooccurrence"` reads its first word vectors off `pairs`."""
    tables = {lang: torch.from_numpy(vocabulary.piece_ids()[0]) for lang, vocabulary in vocabularies.items()}
    config = AlignerConfig(
        vocab_sizes={lang: len(vocabulary) for lang, vocabulary in vocabularies.items()},
        piece_vocab_size=max(int(table.max()) for table in tables.values()) + 1,
        pieces_per_word=max(table.shape[1] for table in tables.values()),
        **args.network(),
    )
    model = AlignerModel(config, tables)
    if args.init == "cooccurrence" and pairs:
        init_from_cooccurrence(model, pairs)
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


class AlignerObjective(nn.Module):
    """An aligner whose forward is its loss: what the Trainer trains."""

    def __init__(self, aligner: AlignerModel):
        super().__init__()
        self.aligner = aligner

    def forward(self, **batch) -> dict[str, Tensor]:
        """{"loss": scalar, "loss_translation": ..., "loss_reconstruction": ..., "loss_contrastive": ...}."""
        return dict(self.aligner.pair_loss(**batch))


class CpuBudget(TrainerCallback, ExportableState):
    """Ends training cleanly when this process has used its CPU seconds; a resumed run goes on counting.

    Args:
        limit: seconds of CPU time from the first step on, scoring included; None only counts.
    """

    def __init__(self, limit: float | None = None):
        self.limit, self.before = limit, 0.0
        self.start = time.process_time()

    @property
    def used(self) -> float:
        """CPU seconds since training began."""
        return self.before + time.process_time() - self.start

    def state(self) -> dict:
        """What a checkpoint keeps."""
        return {"args": {"limit": self.limit}, "attributes": {"before": self.used}}

    def on_train_begin(self, args, state, control, **kwargs):
        """Start counting, where the checkpoint left off."""
        stored = (state.stateful_callbacks or {}).get(type(self).__name__) if state.global_step else None
        self.before = stored["attributes"]["before"] if stored else 0.0
        self.start = time.process_time()

    def on_step_end(self, args, state, control, **kwargs):
        """Stop when the budget is spent; the Trainer ends the epoch there."""
        if self.limit is not None and self.used >= self.limit:
            control.should_training_stop = True


class ScoreEvery(TrainerCallback):
    """Asks for an evaluation after every so many epochs and at the end."""

    def __init__(self, epochs: int):
        self.epochs = epochs

    def on_epoch_end(self, args, state, control, **kwargs):
        """The epoch count is a float; it falls short of the next whole number when training was stopped."""
        last = control.should_training_stop or state.global_step >= state.max_steps
        control.should_evaluate = last or round(state.epoch) % self.epochs == 0


class AlignerTrainer(XlingTrainer):
    """Keeps the weights that the evaluators score highest.

    The score is the mean of their rows. The best weights lie in `output_dir`/best.safetensors, with their score.

    Args:
        budget: counts CPU seconds.
        *args: as for `XlingTrainer`.
        **kwargs: as for `XlingTrainer`.
    """

    def __init__(self, *args, budget: CpuBudget, **kwargs):
        super().__init__(*args, **kwargs)
        self.budget = budget
        self.scores: list[tuple[float, float, float]] = []  # (epoch, CPU seconds, score)

    def evaluate(self, *args, **kwargs) -> dict[str, float]:
        """Score; write the weights where the score is the best so far."""
        used = self.budget.used
        metrics = super().evaluate(*args, **kwargs)
        if self.last_results:
            score = float(np.mean([row.value for row in self.last_results]))
            self.scores.append((self.state.epoch or 0.0, used, score))
            if score > best_score(self.args.output_dir):
                weights = {name: value.cpu() for name, value in self.model.aligner.state_dict().items()}
                with atomic_path(Path(self.args.output_dir) / BEST) as scratch:
                    save_file(weights, scratch, {"score": repr(score)})
        return metrics


def best_score(folder: str | Path) -> float:
    """Score of the weights kept in a folder, minus infinity where there are none."""
    path = Path(folder) / BEST
    if not path.is_file():
        return -float("inf")
    with safe_open(path, "pt") as file:
        return float(file.metadata()["score"])


def train_aligner(
    args: AlignerArguments,
    training_args: TrainingArguments,
    model: AlignerModel,
    pairs: Sequence[EncodedPairs],
    evaluators: Sequence[Evaluator] = (),
) -> dict:
    """Train, and leave the model with the weights of the best score (the last ones without evaluators).

    Args:
        args: updates, CPU budget and how often to score.
        training_args: of the Trainer; its batch size is in pairs.
        model: changed in place.
        pairs: training text.
        evaluators: called with the model; the mean of their rows is the score.

    Returns:
        steps, epochs, CPU seconds, all scores, the best one.

    Raises:
        ValueError: for bf16 on a processor that cannot run an LSTM in it.
    """
    if training_args.bf16:
        _check_bfloat16(training_args.device)
    set_seed(training_args.seed)
    batches = PairBatches(
        pairs, training_args.per_device_train_batch_size, updates=args.updates, seed=training_args.seed
    )
    budget = CpuBudget(args.cpu_seconds)
    trainer = AlignerTrainer(
        AlignerObjective(model.train()),
        _batchwise(training_args),
        train_dataset=batches,
        data_collator=lambda items: items[0],
        evaluators=[lambda objective, run=evaluator: run(objective.aligner) for evaluator in evaluators],
        callbacks=[budget, ScoreEvery(args.evaluate_every)],
        budget=budget,
    )
    best = Path(training_args.output_dir) / BEST
    if not training_args.resume_from_checkpoint:
        best.unlink(missing_ok=True)
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    record = {"steps": trainer.state.global_step, "epochs": trainer.state.epoch, "cpu_seconds": budget.used}
    if best.is_file():
        model.load_state_dict(load_file(best))
        record["best_score"] = best_score(best.parent)
    model.eval().to("cpu")
    return record | {"scores": trainer.scores}


def _batchwise(training_args: TrainingArguments) -> TrainingArguments:
    """The Trainer's arguments where an item of the dataset is a whole batch, in the dataset's own order."""
    changed = copy.copy(training_args)
    changed.per_device_train_batch_size = 1
    changed.train_sampling_strategy = "sequential"
    changed.remove_unused_columns = False
    changed.push_to_hub = False
    return changed


def _check_bfloat16(device: torch.device) -> None:
    """Try: which processors can is the CPU library's secret, and it fails from deep inside."""
    lstm = nn.LSTM(2, 2, batch_first=True).to(device)
    try:
        with torch.autocast(device.type, torch.bfloat16):
            lstm(torch.zeros(1, 1, 2, device=device))
    except RuntimeError:
        raise ValueError("bf16=True: this processor has no LSTM in bfloat16; leave --bf16 out.") from None
