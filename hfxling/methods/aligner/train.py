"""Training of the word aligner: a CPU budget, scores in passing, and the best state kept."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_callback import ExportableState

from hfxling.data.segment import Vocabulary
from hfxling.files import atomic_path
from hfxling.methods.heads import head_trainer_arguments, replace_arguments
from hfxling.methods.trainer import Evaluator, XlingTrainer
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.words.pairs import EncodedPairs
from hfxling.words.prior import LinkPrior

from .arguments import AlignerSettings
from .data import PairBatches
from .evaluate import dice_dictionaries, dictionary_evaluator

BEST = "best.hfxling.safetensors"


class AlignerObjective(nn.Module):
    """An aligner whose forward is its loss, as the Trainer needs it."""

    def __init__(self, aligner: AlignerModel):
        super().__init__()
        self.aligner = aligner

    def forward(self, **batch) -> dict[str, Tensor]:
        """{"loss": scalar, "loss_translation": ..., "loss_reconstruction": ..., "loss_contrastive": ...}."""
        return dict(self.aligner.pair_loss(**batch))


class CpuBudget(TrainerCallback, ExportableState):
    """Ends training cleanly when this process has used its CPU seconds; a resumed run continues the count.

    The count begins with the first step and includes scoring; without a limit the seconds are only counted.
    """

    def __init__(self, limit: float | None = None):
        self.limit, self.before = limit, 0.0
        self.start = time.process_time()

    @property
    def used(self) -> float:
        """CPU seconds since training began."""
        return self.before + time.process_time() - self.start

    def state(self) -> dict:
        """The state that a checkpoint keeps."""
        return {"args": {"limit": self.limit}, "attributes": {"before": self.used}}

    def on_train_begin(self, args, state, control, **kwargs):
        """Start counting, from where the checkpoint left off."""
        self.before = 0.0
        if state.global_step:  # otherwise the state is this object's own, with the time used before training
            stored = (state.stateful_callbacks or {}).get(type(self).__name__)
            if stored:
                self.before = stored["attributes"]["before"]
        self.start = time.process_time()

    def on_step_end(self, args, state, control, **kwargs):
        """Stop when the budget is spent; the Trainer ends the epoch there."""
        if self.limit is not None and self.used >= self.limit:
            control.should_training_stop = True


class ScoreEvery(TrainerCallback):
    """Asks for an evaluation after every `epochs` epochs and at the end."""

    def __init__(self, epochs: int):
        self.epochs = epochs

    def on_epoch_end(self, args, state, control, **kwargs):
        """The epoch count is a float, which is below the next whole number if training was stopped."""
        last = control.should_training_stop or state.global_step >= state.max_steps
        control.should_evaluate = last or round(state.epoch) % self.epochs == 0


class AlignerTrainer(XlingTrainer):
    """Keeps the weights with the highest score of the evaluators; of equal scores the later one wins.

    The score is the mean of the evaluators' rows on training text. Other rows do not count, but are kept and logged,
    too. The best weights are in `output_dir`/best.hfxling.safetensors, with their score.
    """

    def __init__(self, *args, budget: CpuBudget, **kwargs):
        super().__init__(*args, **kwargs)
        self.budget = budget

    def evaluated(self) -> AlignerModel:
        """The model for the evaluators."""
        return super().evaluated().aligner

    def evaluate(self, *args, **kwargs) -> dict[str, float]:
        """Score, and write the weights if the score is the best so far."""
        used = self.budget.used
        metrics = super().evaluate(*args, **kwargs)
        if self.last_results:
            score = float(np.mean([row.value for row in self.last_results if row.split == "train"]))
            # Into the line that has just been logged: checkpoints keep it, and `curve` reads it.
            self.state.log_history[-1] |= {"cpu_seconds": used, "score": score}
            if score >= best_score(self.args.output_dir):  # from the file, which a resumed run finds there
                weights = {name: value.cpu() for name, value in self.model.aligner.state_dict().items()}
                with atomic_path(Path(self.args.output_dir) / BEST) as scratch:
                    save_file(weights, scratch, {"score": repr(score)})
        return metrics

    def curve(self) -> list[dict[str, float]]:
        """Epoch, CPU seconds, score and all measurements of every evaluation; a resumed run has those before, too."""
        points = []
        for line in self.state.log_history:
            if "score" in line:
                points.append({key.removeprefix("eval_"): value for key, value in line.items() if key != "step"})
        return points


def best_score(folder: str | Path) -> float:
    """Score of the weights kept in a folder; minus infinity if there are none."""
    path = Path(folder) / BEST
    if not path.is_file():
        return -float("inf")
    with safe_open(path, "pt") as file:
        return float(file.metadata()["score"])


def train_aligner(
    settings: AlignerSettings,
    training_args: TrainingArguments,
    model: AlignerModel,
    pairs: Sequence[EncodedPairs],
    evaluators: Sequence[Evaluator] = (),
    priors: Sequence[LinkPrior] | None = None,
) -> dict:
    """Train, and leave the model with the weights of the best score (without evaluators, the last weights).

    The score is the mean of the evaluators' rows on training text. `priors`, one for each of the `pairs`, are the links
    from which the attention starts.

    Returns:
        steps, epochs, CPU seconds, the contrastive term's share of the loss in the first and the last log line, all
        scores, the best score, and the curve.
    """
    if training_args.bf16:
        _check_bfloat16(training_args.device)
    set_seed(training_args.seed)
    batches = PairBatches(
        pairs,
        training_args.per_device_train_batch_size,
        updates=settings.updates,
        seed=training_args.seed,
        priors=[prior.posteriors for prior in priors] if priors else None,
    )
    budget = CpuBudget(settings.cpu_seconds)
    trainer = AlignerTrainer(
        AlignerObjective(model.train()),
        # An item of the data set is a whole batch, in the data set's own order.
        replace_arguments(
            head_trainer_arguments(training_args), per_device_train_batch_size=1, train_sampling_strategy="sequential"
        ),
        train_dataset=batches,
        data_collator=lambda items: items[0],
        evaluators=evaluators,
        callbacks=[budget, ScoreEvery(settings.evaluate_every)],
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
    parts = [line for line in trainer.state.log_history if "loss_contrastive" in line]
    if parts:
        shares = [model.config.contrastive_weight * line["loss_contrastive"] / line["loss"] for line in parts]
        record["contrastive_share"] = [round(shares[0], 5), round(shares[-1], 5)]
    model.eval().to("cpu")
    record["curve"] = trainer.curve()
    record["scores"] = [(point["epoch"], point["cpu_seconds"], point["score"]) for point in record["curve"]]
    return record


def _check_bfloat16(device: torch.device) -> None:
    """Try bfloat16, as nothing says which processors can do it, and an error would come from deep in the library."""
    lstm = nn.LSTM(2, 2, batch_first=True).to(device)
    try:
        with torch.autocast(device.type, torch.bfloat16):
            lstm(torch.zeros(1, 1, 2, device=device))
    except RuntimeError:
        raise ValueError("bf16=True: this processor cannot compute an LSTM in bfloat16; leave --bf16 out.") from None


def new_model(
    settings: AlignerSettings, vocabularies: Mapping[str, Vocabulary], priors: Sequence[LinkPrior] = ()
) -> AlignerModel:
    """An untrained aligner for these vocabularies."""
    tables, sizes = {}, {}
    last_piece = most_pieces = 0
    for lang, vocabulary in vocabularies.items():
        table = vocabulary.piece_ids()[0]
        tables[lang] = torch.from_numpy(table)
        sizes[lang] = len(vocabulary)
        last_piece = max(last_piece, int(table.max()))
        most_pieces = max(most_pieces, table.shape[1])
    config = AlignerConfig(
        vocab_sizes=sizes,
        piece_vocab_size=last_piece + 1,
        pieces_per_word=most_pieces,
        priors=["-".join(prior.languages) for prior in priors],
        **settings.network(),
    )
    return AlignerModel(config, tables).eval()


def fit(
    model: AlignerModel,
    pairs: Sequence[EncodedPairs],
    vocabularies: Mapping[str, Vocabulary],
    settings: AlignerSettings,
    training_args: TrainingArguments,
    priors: Sequence[LinkPrior] = (),
    watch: Evaluator | None = None,
) -> dict:
    """Train, and keep the state that scores best on the Dice dictionary (see `train_aligner`), or else the last one.

    With 0 epochs the model stays as it is. `watch` gives further rows at every score; no state is chosen by them.
    """
    if not training_args.num_train_epochs:
        return {"steps": 0, "epochs": 0.0, "cpu_seconds": 0.0, "scores": [], "curve": []}
    dice = dice_dictionaries(pairs, vocabularies)
    evaluators = [dictionary_evaluator(vocabularies, dice)] if dice else []
    if watch is not None and dice:  # without a dictionary there is no score
        evaluators.append(watch)
    return train_aligner(settings, training_args, model, pairs, evaluators, priors)
