"""Peak memory of a batch of 1,024 pairs that goes through the encoder in chunks (gradient caching).

python benchmarks/dap_memory.py [--pairs 1024] [--chunk_size 32]

One step of `DapTrainer` with DAP's objectives on an encoder of mBERT's size with random weights: 32 random tokens a
side, an RTL softmax over 37,000 words, row-wise AdamW in float32. A small step before it makes the optimizer's moments.
Peak memory is the high-water mark of the process' resident memory, parameters, moments and libraries included.
"""

import contextlib
import dataclasses
import os
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import torch
from dap_step import ENCODER, LENGTH, VARIANTS, VOCABULARY, batches_of, build
from harness import machine, parser, peak_mib, report, timed
from transformers import BertConfig, BertModel, TrainingArguments

from hfxling.console import run as run_recipe
from hfxling.methods.dap.arguments import TRAINING_DEFAULTS
from hfxling.methods.dap.row_adamw import row_adamw
from hfxling.methods.dap.train import DapTrainer

GOALS = {"peak_gib": "< 12 with 1,024 pairs"}
VARIANT = dataclasses.replace(VARIANTS["rtl37k"], rows=True)


def build_trainer(folder: str, pairs: int, chunk_size: int) -> DapTrainer:
    """A trainer as `training.dap.train` makes it, without a corpus."""
    torch.manual_seed(0)
    model = build(VARIANT, BertModel(BertConfig(vocab_size=VOCABULARY)))
    settings = TRAINING_DEFAULTS | {"per_device_train_batch_size": pairs, "max_steps": 1, "use_cpu": True}
    args = TrainingArguments(**settings | {"output_dir": folder})
    words = model.dap.encoder.get_input_embeddings().weight
    trainer = DapTrainer(
        model,
        args,
        train_dataset=[0],
        data_collator=list,
        chunk_size=chunk_size,
        optimizer_cls_and_kwargs=row_adamw(args, [words]),
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.create_optimizer()
    return trainer


def step(trainer: DapTrainer, batch: dict) -> None:
    trainer.training_step(trainer.model, batch)
    trainer.optimizer.step()
    trainer.model.zero_grad()


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "dap_memory")
    options.add_argument(
        "--pairs", type=int, default=1024, help="number of pairs in the batch (default 1024: many minutes on a core)"
    )
    options.add_argument("--chunk_size", type=int, default=32, help="number of pairs encoded at a time (default 32)")
    args = options.parse_args(argv)
    if not 2 <= args.chunk_size < args.pairs:
        options.error("give a chunk_size of at least 2 and more pairs than that.")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        trainer = build_trainer(folder, args.pairs, args.chunk_size)
        for pairs in (2, args.pairs):  # a warm-up first
            (batch,) = batches_of(VARIANT, pairs, seed=0)
            cpu, wall = timed(step, trainer, batch)
    figures = {
        "pairs": args.pairs,
        "peak_gib": round(peak_mib() / 1024, 2),
        "seconds": round(cpu, 1),
        "wall_seconds": round(wall, 1),
    }
    settings = {
        "encoder": ENCODER,
        "tokens": LENGTH,
        "rtl_words": VARIANT.words,
        "chunk_size": args.chunk_size,
        "dtype": "float32",
    } | machine()
    title = f"A DAP step over {args.pairs} pairs of {LENGTH} tokens in chunks of {args.chunk_size}, mBERT size"
    path = f"{args.results_dir}/dap_memory.json"
    return report("dap_memory", figures, settings, title=title, path=path, goals=GOALS)


if __name__ == "__main__":
    run_recipe(main)
