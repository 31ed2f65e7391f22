"""Peak memory of a batch of 1,024 pairs that goes through the encoder in chunks (gradient caching).

python benchmarks/dap_memory.py [--pairs 1024] [--chunk_size 32]

One step of `DapTrainer` with DAP's objectives on an encoder of mBERT's size with random weights: 32 random tokens a
side, an RTL softmax over 37,000 words, row-wise AdamW in float32. A small step before it makes the optimizer's moments.
Peak memory is the high-water mark of the process' resident memory, parameters, moments and libraries included.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import torch
from dap_step import LENGTH, VARIANTS, VOCABULARY, batches_of, build
from memory import peak_mib
from transformers import BertConfig, BertModel, TrainingArguments

from hfxling.evaluation.results import format_table, write_results
from hfxling.training.dap.arguments import TRAINING_DEFAULTS
from hfxling.training.dap.row_adamw import row_adamw
from hfxling.training.dap.train import DapTrainer

GOAL = 12.0  # GiB, for 1,024 pairs
VARIANT = dataclasses.replace(VARIANTS["rtl37k"], rows=True)


def build_trainer(folder: str, pairs: int, chunk_size: int) -> DapTrainer:
    """A trainer as `training.dap.train` makes it, without a corpus."""
    torch.manual_seed(0)
    model = build(VARIANT, BertModel(BertConfig(vocab_size=VOCABULARY)))
    settings = TRAINING_DEFAULTS | {"per_device_train_batch_size": pairs, "max_steps": 1, "use_cpu": True}
    args = TrainingArguments(folder, **settings)
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


def timed_step(trainer: DapTrainer, pairs: int) -> tuple[float, float]:
    """(CPU, wall) seconds of a training step."""
    (batch,) = batches_of(VARIANT, pairs, seed=0)
    before = time.process_time(), time.perf_counter()
    trainer.training_step(trainer.model, batch)
    trainer.optimizer.step()
    trainer.model.zero_grad()
    return time.process_time() - before[0], time.perf_counter() - before[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1024, help="of the batch (default 1024: many minutes on a core)")
    parser.add_argument("--chunk_size", type=int, default=32, help="pairs encoded at a time (default 32)")
    parser.add_argument("--results_dir", default="results", help="where dap_memory.json is written (default results)")
    options = parser.parse_args()
    if not 2 <= options.chunk_size < options.pairs:
        parser.error("give a chunk_size of at least 2 and more pairs than that.")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        trainer = build_trainer(folder, options.pairs, options.chunk_size)
        timed_step(trainer, 2)
        cpu, wall = timed_step(trainer, options.pairs)
    figures = {
        "pairs": options.pairs,
        "peak_gib": round(peak_mib() / 1024, 2),
        "seconds": round(cpu, 1),
        "wall_seconds": round(wall, 1),
    }
    settings = {
        "encoder": f"BertConfig, 12 layers of 768, vocabulary {VOCABULARY}, random weights",
        "tokens": LENGTH,
        "rtl_words": VARIANT.words,
        "chunk_size": options.chunk_size,
        "dtype": "float32",
        "threads": 1,
        "cpu": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
        "torch": torch.__version__,
    }
    title = f"A DAP step over {options.pairs} pairs of {LENGTH} tokens in chunks of {options.chunk_size}, mBERT size"
    path = f"{options.results_dir}/dap_memory.json"
    extra = {"title": title, "figures": figures}
    write_results(path, [], recipe="benchmarks/dap_memory.py", settings=settings, extra=extra)
    print(f"{title}\n\n{format_table(['figure', 'value'], list(figures.items()))}")
    print(f"Goal: peak_gib < {GOAL:g} with 1,024 pairs; seconds are those of one CPU thread.\n")
    print(json.dumps({"name": "dap_memory", "figures": figures, "settings": settings}))


if __name__ == "__main__":
    main()
