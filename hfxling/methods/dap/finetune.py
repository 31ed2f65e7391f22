"""Translation ranking on a few thousand pairs, as it competes in `hfxling fit`.

It trains low-rank adapters on the encoder's linear layers, which are a file of 3 MB on top of a named encoder.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from transformers import TrainerCallback, TrainingArguments

from hfxling.arguments import narrowed
from hfxling.data.corpus import Corpus
from hfxling.data.parallel import sides_of
from hfxling.encoders.frozen import SentenceEmbedder, load_tokenizer, token_limit
from hfxling.encoders.identity import identity
from hfxling.evaluation.retrieval import gold_ranks
from hfxling.files import atomic_path, content_hash
from hfxling.hub.writing import export
from hfxling.missing import one_line_where_missing
from hfxling.models.modeling_dap import DapModel
from hfxling.models.pretraining_dap import DapForPreTraining
from hfxling.progress import bar

from .arguments import DapArguments, DapSettings
from .train import build_model, fit, published_model

logger = logging.getLogger(__name__)
Ranks = tuple[np.ndarray, np.ndarray]

EPOCHS = 2
BATCH = 32  # pairs; every other pair of a batch is a negative
LONGEST = 128  # tokens kept of a text in training
RANK = 8  # of the adapters
RATE = 1e-3  # learning rate of the adapters
MEASURED = 3  # steps after the first by which the time of all is told


def finetuning(
    model: str,
    pairs: Sequence[str],
    *,
    revision: str | None = None,
    pooling: str = "mean",
    prompt: str | None = None,
    **text,
) -> DapArguments:
    """The options of DAP's recipe for few pairs and a sentence encoder; `text` has the options of `TextArguments`."""
    return DapArguments(
        pairs=list(pairs),
        base_model=model,
        base_revision=revision,
        pooling=pooling,
        prompt=prompt,
        centering="auto",  # results/dap_study_me5_centering.json: with few pairs there are few steps to lose
        objective="tr",
        lora=RANK,
        freeze_embeddings=True,
        max_length=LONGEST,
        max_train_pairs=None,
        **text,
    )


def schedule(
    pairs: int, folder: str, *, epochs: int, seed: int, device: str | None, is_tested: bool
) -> TrainingArguments:
    """The Trainer's arguments for `pairs` pairs; a batch has at most a quarter of them.

    By default a GPU is used if there is one. `is_tested` says that pairs are left out and tested after every epoch.
    """
    batch = max(2, min(BATCH, pairs // 4))
    is_on_gpu = device != "cpu" and torch.cuda.is_available()
    with_bf16 = torch.cuda.is_bf16_supported() if is_on_gpu else bf16_is_faster()
    return TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=batch,
        num_train_epochs=epochs,
        learning_rate=RATE,
        warmup_steps=max(1, pairs * epochs // batch // 10),
        lr_scheduler_type="linear",
        weight_decay=0.01,
        bf16=with_bf16,
        eval_strategy="steps" if is_tested else "no",
        eval_steps=max(1, pairs // batch),  # an epoch: DAP's batches know steps only
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        report_to="none",
        remove_unused_columns=False,
        dataloader_pin_memory=is_on_gpu,
        use_cpu=not is_on_gpu,
        seed=seed,
    )


@cache
def bf16_is_faster() -> bool:
    """Whether this processor multiplies matrices faster in bfloat16 than in float32.

    This is timed once per process, because some processors have the instructions but take twice as long with them.
    """
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        square = torch.ones(512, 512, dtype=dtype)
        torch.mm(square, square)  # the first product prepares those that follow
        times = []
        for _ in range(5):
            start = time.perf_counter()
            torch.mm(square, square)
            times.append(time.perf_counter() - start)
        seconds[dtype] = min(times)
    return seconds[torch.bfloat16] < seconds[torch.float32]


class TooLong(Exception):
    """Training would take longer than the time left: so many seconds."""

    def __init__(self, seconds: float):
        super().__init__(f"{seconds:.0f} s")
        self.seconds = seconds


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned encoder."""

    model: DapForPreTraining  # with its adapters
    tokenizer: object
    epochs: int  # after which it was best on the pairs left out, or that it was trained for where there were none
    ranks: Ranks | None  # of the translations of the pairs left out, both ways
    seconds: float

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(N, H) float32 unit vectors."""
        return SentenceEmbedder(self.model.dap.eval(), self.tokenizer)(texts)

    def keep(self, file: Path) -> None:
        """Write the trained weights, and what is known about them, to one file, for `finetune(kept=...)` to read."""
        tensors = _trained_weights(self.model.dap)
        for way, ranks in enumerate(self.ranks or ()):
            tensors[f"ranks.{way}"] = torch.from_numpy(ranks)
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(file) as scratch:
            save_file(tensors, scratch, {"epochs": str(self.epochs), "seconds": str(self.seconds)})

    def write(self, folder: Path) -> None:
        """Write a stock folder with the adapters merged into the weights, and the adapters alone in `adapter`."""
        model = copy.deepcopy(self.model).to("cpu")
        adapted = model.dap.encoder
        limit = token_limit(self.tokenizer, adapted.config)
        # A copy, as half() works in place and the weights are merged in full precision.
        copy.deepcopy(adapted).half().save_pretrained(folder / "adapter")
        (folder / "adapter" / "README.md").unlink(missing_ok=True)  # peft's form, with nothing filled in
        export(published_model(model), self.tokenizer, folder, max_length=limit)


def finetune(
    recipe: DapArguments,
    training_args: TrainingArguments,
    corpus: Corpus,
    held_out: tuple[Sequence[str], Sequence[str]] | None = None,
    *,
    kept: Path,
    time_left: Callable[[], float] | None = None,
    runs: float = 1.0,
) -> Finetuned:
    """Train an encoder further on the pairs of one language pair.

    Args:
        recipe: encoder, prompt, adapters and objective.
        training_args: batch size, epochs, learning rate, device.
        corpus: the text.
        held_out: sources and translations that are ranked after every epoch, to keep the best epoch.
        kept: file of trained weights; read if it exists, otherwise written.
        time_left: function that gives the seconds left.
        runs: number of trainings of this length that must fit into that time.

    Raises:
        TooLong: training takes longer than the time left, judging by the first steps.
    """
    with one_line_where_missing(recipe.base_model):
        tokenizer = load_tokenizer(recipe.base_model, recipe.hub_kwargs)
    if kept.is_file():
        return _taken_from(kept, recipe, corpus, tokenizer)
    watch = _Watch(time_left, runs)
    best = _BestEpoch(tokenizer, held_out)
    start = time.perf_counter()
    model, _ = _with_memory(recipe, training_args, corpus, tokenizer, [best] if held_out else [], watch)
    if watch.too_long is not None:
        raise TooLong(watch.too_long)
    epochs = round(training_args.num_train_epochs)
    if held_out is not None:
        best.restore(model.dap)
        epochs = best.epoch
    finetuned = Finetuned(model, tokenizer, epochs, best.ranks, time.perf_counter() - start)
    finetuned.keep(kept)
    return finetuned


def training_facts(recipe: DapArguments, training_args: TrainingArguments, corpus: Corpus, held_out) -> dict:
    """All facts that determine the trained weights."""
    (pair,) = corpus.pairs
    facts = asdict(narrowed(DapSettings, recipe)) | {"prompt": recipe.text_prompt}
    for name in ("base_model", "base_revision", "cache_dir"):
        del facts[name]
    facts["encoder"] = identity(recipe.base_model, recipe.base_revision)
    facts["text"] = content_hash(*sides_of(pair.train))
    facts["held_out"] = None if held_out is None else content_hash(*held_out)
    for name in ("per_device_train_batch_size", "num_train_epochs", "learning_rate", "warmup_steps", "bf16", "seed"):
        facts[name] = getattr(training_args, name)
    return facts


def _taken_from(file: Path, recipe: DapArguments, corpus: Corpus, tokenizer) -> Finetuned:
    """The encoder that an earlier run trained."""
    model = build_model(recipe, corpus.language_pairs, tokenizer)
    ranks, weights = [], {}
    try:
        with safe_open(file, "pt") as stored:
            facts = stored.metadata()
            for name in sorted(stored.keys()):
                if name.startswith("ranks."):
                    ranks.append(stored.get_tensor(name).numpy())
                else:
                    weights[name] = stored.get_tensor(name)
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged ({error}); remove it, and the encoder is trained again.") from None
    model.dap.load_state_dict(weights, strict=False)  # only what was trained was kept
    return Finetuned(model.eval(), tokenizer, int(facts["epochs"]), tuple(ranks) or None, float(facts["seconds"]))


def _trained_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Copies of the weights that training changes."""
    trained = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            trained[name] = weight.detach().clone()
    return trained


def _with_memory(recipe, training_args, corpus, tokenizer, evaluators, watch):
    """Train; if the device's memory is too small, with fewer pairs at a time."""
    while True:
        for evaluator in evaluators:
            evaluator.forget()
        try:
            # A copy, as `fit` sets `max_steps` in it.
            return fit(corpus, recipe, copy.copy(training_args), tokenizer, evaluators, callbacks=[watch])
        except torch.OutOfMemoryError:
            size = recipe.chunk_size or training_args.per_device_train_batch_size
            if size == 1:
                raise ValueError(
                    f"the device's memory does not hold a single pair of {recipe.base_model}: give --device cpu."
                ) from None
            recipe = replace(recipe, chunk_size=size // 2)
            logger.warning("out of memory: %d pairs at a time now, in batches of as many as before", size // 2)
            torch.cuda.empty_cache()


class _BestEpoch:
    """An evaluator that ranks the held-out pairs and remembers the weights that rank them best."""

    def __init__(self, tokenizer, held_out: tuple[Sequence[str], Sequence[str]] | None):
        self.tokenizer, self.held_out = tokenizer, held_out
        self.forget()

    def forget(self) -> None:
        """Forget everything, for a new training."""
        self.ranks: Ranks | None = None
        self.epoch, self._epochs, self._score = 0, 0, -1.0
        self._weights: dict[str, torch.Tensor] = {}

    def __call__(self, model: DapModel) -> list:
        self._epochs += 1
        embed = SentenceEmbedder(model, self.tokenizer)
        source, target = embed(self.held_out[0]), embed(self.held_out[1])
        ranks = gold_ranks(source, target)
        score = float(np.mean(1 / np.concatenate(ranks)))
        if score > self._score:
            self.ranks, self.epoch, self._score = ranks, self._epochs, score
            self._weights = _trained_weights(model)
        return []

    def restore(self, model: DapModel) -> None:
        """Load the best weights back into the model."""
        model.load_state_dict(self._weights, strict=False)


class _Watch(TrainerCallback):
    """Shows the progress of training, and ends it if the first steps show that it would take too long."""

    def __init__(self, time_left: Callable[[], float] | None, runs: float):
        self.time_left, self.runs = time_left, runs
        self.too_long: float | None = None  # seconds that it would take, where there is less time

    def on_train_begin(self, args, state, control, **kwargs):
        """Open the bar."""
        self.bar = bar(total=state.max_steps, unit="steps", label="fine-tuning")

    def on_step_end(self, args, state, control, **kwargs):
        """Count the step, and after the first steps estimate the time of all."""
        self.bar.update()
        if state.global_step == 1:  # which also allocates the optimizer's state: not timed
            self._began = time.perf_counter()
        if state.global_step == 1 + MEASURED and self.time_left is not None:
            seconds_a_step = (time.perf_counter() - self._began) / MEASURED
            all_steps = state.max_steps * self.runs
            if seconds_a_step * (all_steps - state.global_step) > self.time_left():
                self.too_long = seconds_a_step * all_steps
                control.should_training_stop = True
                control.should_evaluate = False

    def on_train_end(self, args, state, control, **kwargs):
        """Close the bar."""
        self.bar.close()
