"""Train a tiny DAP model; run by test_train.py in its own process, in two, killed and resumed.

python dap_tiny_run.py ENCODER OUTPUT [--steps 8] [--dropout 0.1] [--kill_after N] [--resume CHECKPOINT]
"""

import argparse
import json
import os
import signal
from pathlib import Path

import torch
from datasets import Dataset
from processes import leave
from transformers import AutoTokenizer, TrainerCallback, TrainingArguments

from hfxling.data.parallel import load_parallel
from hfxling.methods.dap.arguments import TRAINING_DEFAULTS
from hfxling.methods.dap.data import PairCollator
from hfxling.methods.dap.mixing import MixedBatches, TokenLengths
from hfxling.methods.dap.train import DapTrainer
from hfxling.models import DapForPreTraining

BATCH = 8


class KillAfter(TrainerCallback):
    """Dies as a machine does, without a chance to clean up."""

    def __init__(self, step: int):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def corpora() -> list[Dataset]:
    return [load_parallel("sample", lang, "en", split="train").select(range(200)) for lang in ("zh", "vi")]


def train(argv: list[str] | None = None) -> None:
    """Train as a command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("encoder")
    parser.add_argument("output")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--chunk_size", type=int)
    parser.add_argument("--kill_after", type=int)
    parser.add_argument("--resume")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(options.encoder)
    model = DapForPreTraining.from_encoder(
        options.encoder,
        objective="tr+rtl+tlm" if options.dropout else "tr+rtl",
        mask_token_id=tokenizer.mask_token_id,
        special_token_ids=tokenizer.all_special_ids,
    )
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = options.dropout
    for layer in model.rtl.layers:
        layer.dropout = options.dropout
    defaults = TRAINING_DEFAULTS | {"max_steps": options.steps, "save_steps": 3, "logging_steps": 1, "use_cpu": True}
    world = int(os.environ.get("WORLD_SIZE", 1))
    defaults |= {"per_device_train_batch_size": BATCH // world, "learning_rate": 1e-3, "disable_tqdm": True}
    if not options.dropout:  # Adam would blow rounding errors up where gradients vanish
        defaults |= {"optim": "sgd", "learning_rate": 0.1}
    args = TrainingArguments(**defaults | {"output_dir": options.output})
    batches = MixedBatches(
        corpora(),
        [0.5, 0.5],
        batch_size=BATCH,
        batches=options.steps,
        seed=3,
        bucket=4,
        rank=args.process_index,
        world=world,
        measure=TokenLengths(tokenizer, 32),
    )
    trainer = DapTrainer(
        model,
        args,
        train_dataset=batches,
        data_collator=PairCollator(tokenizer, 20),
        chunk_size=options.chunk_size,
        callbacks=[KillAfter(options.kill_after)] if options.kill_after else [],
    )
    trainer.train(resume_from_checkpoint=options.resume)
    if args.process_index == 0:
        model.save_pretrained(Path(options.output) / "model")
        losses = {row["step"]: row for row in trainer.state.log_history if "loss" in row}
        Path(options.output, "losses.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    train()
    leave()
