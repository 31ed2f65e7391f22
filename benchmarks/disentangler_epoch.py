"""What an epoch of the disentangler costs on a million pairs of memory-mapped vectors.

python benchmarks/disentangler_epoch.py [--pairs 1000000] [--size 768] [--threads 2] [--folder DIR]

Random vectors in two float32 files, six language pairs, are trained on for an epoch by the recipe's own Trainer,
sampler and objective ("both"): reading, shuffling, loss, gradient and Adam, without the validation pass. After every
tenth step the bare matrix products are timed that no implementation can do without: the meaning parts of both sides and
the gradient of the layer. With fewer pairs the epoch is measured on those and multiplied; files just written that fit
into memory are read from the page cache.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from harness import clock, machine, parser, report, timed
from numpy.lib.format import open_memmap
from transformers import TrainerCallback, TrainingArguments, set_seed

from hfxling.console import run as run_recipe
from hfxling.evaluation.results import format_table
from hfxling.methods.disentangler.arguments import TRAINING_DEFAULTS
from hfxling.methods.disentangler.batches import PairRows, SplitObjective, SplitTrainer
from hfxling.models.configuration_disentangler import DisentanglerConfig
from hfxling.models.modeling_disentangler import DisentanglerHead

WHOLE = 1_000_000
GOALS = {"epoch_seconds": "< 60 on 2 cores"}
BLOCK = 20_000


def write_vectors(folder: Path, pairs: int, size: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two files of random vectors, rows correlated as translations are, memory-mapped, in six language pairs."""
    rng = np.random.default_rng(0)
    paths = [folder / "source.npy", folder / "target.npy"]
    source, target = (open_memmap(path, mode="w+", dtype=np.float32, shape=(pairs, size)) for path in paths)
    for start in range(0, pairs, BLOCK):
        rows = slice(start, min(start + BLOCK, pairs))
        source[rows] = rng.standard_normal((rows.stop - start, size), np.float32)
        target[rows] = source[rows] + rng.standard_normal((rows.stop - start, size), np.float32)
    for array in (source, target):
        array.flush()
    arrays = [np.load(path, mmap_mode="r") for path in paths]
    cuts = np.linspace(0, pairs, 7).astype(int)
    return [tuple(array[start:stop] for array in arrays) for start, stop in pairwise(cuts)]


class Clock(TrainerCallback):
    """Times the steps and, after every few of them, the bare products on a batch of the same shape."""

    def __init__(self, head: DisentanglerHead, batch: int, every: int):
        size = head.config.hidden_size
        self.vectors, self.gradient = torch.randn(2 * batch, size), torch.randn(2 * batch, size)
        self.head, self.every = head, every
        self.steps: list[np.ndarray] = []  # (CPU, wall) seconds
        self.products: list[np.ndarray] = []
        self.last = None

    def on_step_end(self, args, state, control, **kwargs):
        """A step is all from the end of the step before, the products apart: reading its batch is part of it."""
        if self.last is not None:
            self.steps.append(clock() - self.last)
        if state.global_step % self.every == 0:
            self.products.append(timed(self.multiply))
        self.last = clock()

    @torch.no_grad()
    def multiply(self) -> None:
        """The bare products."""
        self.head.linear(self.vectors)
        torch.mm(self.gradient.T, self.vectors)


def train(vectors: list, size: int, folder: Path, batch: int) -> Clock:
    set_seed(0)
    head = DisentanglerHead(DisentanglerConfig(hidden_size=size))
    head.init_share()
    settings = TRAINING_DEFAULTS | {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": False}
    settings |= {"num_train_epochs": 1, "per_device_train_batch_size": batch, "dataloader_drop_last": True}
    settings |= {"output_dir": str(folder / "out"), "use_cpu": True, "disable_tqdm": True}
    arguments = TrainingArguments(**settings)
    times = Clock(head, batch, every=10)
    rows = PairRows(vectors, [np.arange(len(source)) for source, _ in vectors])
    arguments.remove_unused_columns = False
    with contextlib.redirect_stdout(sys.stderr):
        SplitTrainer(SplitObjective(head, "both"), arguments, train_dataset=rows, callbacks=[times]).train()
    return times


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__)
    options.add_argument(
        "--pairs", type=int, default=WHOLE, help="number of pairs to write and train on (default 1,000,000)"
    )
    options.add_argument("--size", type=int, default=768, help="number of dimensions (default 768)")
    options.add_argument("--batch", type=int, default=512, help="number of pairs in a batch (default 512, the paper's)")
    options.add_argument("--threads", type=int, default=2, help="number of threads (default 2)")
    options.add_argument("--folder", help="folder for the vectors (default: the system's temporary folder)")
    args = options.parse_args(argv)
    if args.pairs < 20 * args.batch or args.threads < 1 or args.size < 8:
        options.error("give at least 20 batches of pairs, a thread and 8 dimensions.")
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        needed = 2 * 4 * args.pairs * args.size
        if shutil.disk_usage(folder).free < 1.2 * needed:
            options.error(f"{needed / 1e9:.1f} GB of vectors do not fit into {folder}; give --folder or fewer --pairs.")
        times = train(write_vectors(Path(folder), args.pairs, args.size), args.size, Path(folder), args.batch)
    steps = times.steps[5:]  # a warm-up is left out
    trained = len(steps) * args.batch
    epoch = np.sum(steps, axis=0) * WHOLE / trained
    bare = np.median(times.products, axis=0) * WHOLE / args.batch
    rows = [["an epoch", *epoch], ["the bare matrix products", *bare]]
    print(f"\n{format_table(['a million pairs', 'CPU s', 'wall s'], rows)}")
    if args.pairs < WHOLE:
        print(f"Measured on {trained:,} pairs and multiplied: of the whole, more would have to be read from disk.")
    (cpu, wall), (over_cpu, over_wall) = epoch, epoch / bare
    figures = {"pairs_per_s": WHOLE / wall, "epoch_seconds": wall, "epoch_cpu_seconds": cpu}
    figures |= {"over_gemm": over_cpu, "over_gemm_wall": over_wall}
    figures = {name: float(f"{value:.4g}") for name, value in figures.items()}
    settings = {"pairs": args.pairs, "dimensions": args.size, "batch": args.batch, "extrapolated": args.pairs < WHOLE}
    settings |= {"cores": os.cpu_count(), "load_average": round(os.getloadavg()[0], 1)} | machine()
    return report("disentangler_epoch", figures, settings, goals=GOALS)


if __name__ == "__main__":
    run_recipe(main)
