"""What a training step of DAP costs: ours, and as the authors' code does it, against translation ranking alone.

python benchmarks/dap_step.py [--pairs 32] [--repeats 3] [--variants tr rtl10k ...] [--bfloat16 auto]

The encoder has mBERT's size and random weights, ids are random. A step is forward, backward and AdamW, with dropout.
First at 32 tokens a side: ours and the plain implementation (plain_dap.py) share one encoder and torch's AdamW, so they
differ in the objectives only. Then on real lengths, a mean of 19 of 32 tokens: the plain step pads to 32, ours takes
pairs of like length together (a batch at 1/6, 1/2 and 5/6 of the sorted ones, their mean counts) and updates the
embedding rows in use. All are timed in one process on one thread, interleaved; medians of the repeats.

Peak memory is that of a fresh process which does one variant only, the median of the repeats: a small step that makes
the optimizer's moments, then one of full size. It is the high-water mark of the resident memory, parameters and
libraries included; on a GPU that of the allocator. FLOPs are those of matrix products of the forward pass, counted as
it runs, like those of the paper's Table 6; the optimizer and the backward pass are in the seconds only.
"""

import argparse
import copy
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing is downloaded

import numpy as np
import torch
from harness import bfloat16_speed, clock, machine, parser, peak_mib, report
from plain_dap import PlainDap
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from tqdm.auto import tqdm
from transformers import BertConfig, BertModel

from hfxling.console import run as run_recipe
from hfxling.evaluation.results import format_table
from hfxling.methods.dap.row_adamw import RowAdamW
from hfxling.models.configuration_dap import DapConfig
from hfxling.models.pretraining_dap import DapForPreTraining

VOCABULARY, LENGTH, BUCKET = 119547, 32, 64
ENCODER = f"BertConfig, 12 layers of 768, vocabulary {VOCABULARY}, random weights"
SPECIALS = {"mask_token_id": 103, "special_token_ids": [0, 100, 101, 102, 103]}
TEN, FULL = 10_000, 37_000  # words of a shortlist: of a smaller corpus, and of the paper's English side


@dataclass(frozen=True)
class Variant:
    """A way to do a step.

    Args:
        label: for the table.
        objective: of the model.
        words: of RTL's softmax; None for the whole vocabulary.
        plain: the plain implementation, not ours.
        real: on real lengths, not on 32 tokens a side.
        rows: row-wise update of the embeddings.
        paper: GFLOPs a sample in Table 6.
    """

    label: str
    objective: str
    words: int | None = None
    plain: bool = False
    real: bool = False
    rows: bool = False
    paper: float | None = None


VARIANTS = {
    "tr": Variant("TR", "tr", paper=11.0),
    "rtl10k": Variant("TR + RTL, 10k words", "tr+rtl", TEN),
    "rtl37k": Variant("TR + RTL, 37k words", "tr+rtl", FULL, paper=16.5),
    "tlm": Variant("TR + TLM", "tr+tlm"),
    "paper_rtl": Variant("plain: TR + RTL, 37k words, all positions", "tr+rtl", FULL, plain=True, paper=16.5),
    "paper_rtl_full": Variant("plain: TR + RTL, whole vocabulary, all positions", "tr+rtl", plain=True),
    "paper_tlm": Variant("plain: TR + TLM, all positions", "tr+tlm", plain=True, paper=33.7),
    "plain_tr_real": Variant("real lengths, plain: TR, padded to 32", "tr", plain=True, real=True),
    "tr_real": Variant("real lengths: TR, buckets, rows", "tr", real=True, rows=True),
    "dap_real": Variant("real lengths: TR + RTL, 37k words, buckets, rows", "tr+rtl", FULL, real=True, rows=True),
    "dap10k_real": Variant("real lengths: TR + RTL, 10k words, buckets, rows", "tr+rtl", TEN, real=True, rows=True),
}
RATIOS = {  # figure: (variant, over, goal)
    "rtl10k_over_tr": ("rtl10k", "tr", "<= 1.20"),
    "rtl37k_over_tr": ("rtl37k", "tr", "<= 1.35"),
    "paper_rtl_over_tr": ("paper_rtl", "tr", None),
    "paper_rtl_full_over_tr": ("paper_rtl_full", "tr", None),
    "tlm_over_tr": ("tlm", "tr", None),
    "paper_tlm_over_tr": ("paper_tlm", "tr", None),
    "dap_over_plain_tr_real_lengths": ("dap_real", "plain_tr_real", "<= 0.8"),
    "dap10k_over_plain_tr_real_lengths": ("dap10k_real", "plain_tr_real", None),
    "tr_over_plain_tr_real_lengths": ("tr_real", "plain_tr_real", None),
}
MEMORY = ("tr", "rtl10k", "rtl37k", "paper_rtl", "plain_tr_real", "dap_real")
MEMORY_RATIOS = {
    "peak_memory_over_tr": ("rtl37k", "tr", "<= 1.1"),
    "peak_memory_over_tr_10k": ("rtl10k", "tr", "<= 1.1"),
    "peak_memory_paper_rtl_over_tr": ("paper_rtl", "tr", None),
    "peak_memory_dap_over_plain_tr_real_lengths": ("dap_real", "plain_tr_real", None),
}
EMULATED = ("tr", "rtl10k", "rtl37k")  # what is timed in bfloat16 where the processor only emulates it


def side(lengths: np.ndarray, padded: int, words: int, rng: np.random.Generator) -> dict[str, torch.Tensor]:
    """(N, padded) random ids below `words` and their mask; ordinary ids start behind the special ones."""
    mask = np.arange(padded) < lengths[:, None]
    ids = np.where(mask, rng.integers(1000, words, mask.shape), 0)
    ids[:, 0] = 101
    ids[np.arange(len(ids)), lengths - 1] = 102
    return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}


def real_lengths(pairs: int, rng: np.random.Generator) -> np.ndarray:
    """(BUCKET x pairs, 2) tokens of source and target: a mean of 19 of 32, the sides alike as translations are.

    A gamma distribution (mean 19.6, spread 8 before clipping at 32), each side scattered by 12 %.
    """
    base = rng.gamma(6.0, 3.35, (BUCKET * pairs, 1))
    return np.clip(np.rint(base * rng.normal(1.0, 0.12, (BUCKET * pairs, 2))), 4, LENGTH).astype(int)


def batches_of(variant: Variant, pairs: int, seed: int) -> list[dict]:
    """The batches whose mean is the cost of a step."""
    rng = np.random.default_rng(seed)
    if not variant.real:
        chosen = [np.full((pairs, 2), LENGTH)]
    else:
        lengths = real_lengths(pairs, rng)
        if variant.plain:
            chosen = [lengths[:pairs]]
        else:  # as `hfxling.methods.dap.mixing` sorts: by the longer side, then by the sum
            ordered = lengths[np.lexsort((lengths.sum(1), lengths.max(1)))].reshape(BUCKET, pairs, 2)
            chosen = ordered[[BUCKET // 6, BUCKET // 2, BUCKET * 5 // 6]]
    padded = [(LENGTH, LENGTH) if variant.plain or not variant.real else batch.max(0) for batch in chosen]
    words = variant.words or VOCABULARY
    return [
        {"source": side(batch[:, 0], s, VOCABULARY, rng), "target": side(batch[:, 1], t, words, rng)}
        for batch, (s, t) in zip(chosen, padded)
    ]


class Steps:
    """The variants' models, ready to step: one encoder and one optimizer for those with the same update.

    Args:
        names: of variants.
        device: where.
    """

    def __init__(self, names: Iterable[str], device: torch.device):
        torch.manual_seed(0)
        self.device, self.models, self.optimizers = device, {}, {}
        encoder = BertModel(BertConfig(vocab_size=VOCABULARY))
        for rows in (False, True):
            group = {name: VARIANTS[name] for name in names if VARIANTS[name].rows == rows}
            own = copy.deepcopy(encoder) if rows and self.models else encoder
            models = {name: build(variant, own).to(device).train() for name, variant in group.items()}
            if not models:
                continue
            parameters = {id(p): p for model in models.values() for p in model.parameters()}
            settings = {"lr": 5e-5, "weight_decay": 0.0, "fused": True}
            words = own.get_input_embeddings().weight
            optimizer = (
                RowAdamW(parameters.values(), rows=[words], **settings)
                if rows
                else torch.optim.AdamW(parameters.values(), **settings)
            )
            self.models |= models
            self.optimizers |= dict.fromkeys(models, optimizer)

    def loss(self, name: str, batch: dict, dtype: torch.dtype) -> torch.Tensor:
        """The whole objective."""
        batch = {name: {key: value.to(self.device) for key, value in side.items()} for name, side in batch.items()}
        with torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32):
            output = self.models[name](**batch)
        return output if isinstance(output, torch.Tensor) else output.loss

    def __call__(self, name: str, pairs: int, seed: int, dtype: torch.dtype = torch.float32) -> np.ndarray:
        """Mean (CPU, wall) seconds of a step; on a GPU its own time counts as both."""
        batches = batches_of(VARIANTS[name], pairs, seed)
        before = self.clock()
        for batch in batches:
            self.loss(name, batch, dtype).backward()
            self.optimizers[name].step()
            self.optimizers[name].zero_grad()
        return (self.clock() - before) / len(batches)

    def clock(self) -> np.ndarray:
        """(CPU, wall) seconds by now."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            return clock()[[1, 1]]
        return clock()

    @torch.no_grad()
    def gflops(self, name: str, pairs: int) -> float:
        """Of a pair's forward pass."""
        counted = []
        for batch in batches_of(VARIANTS[name], pairs, seed=0):
            with FlopCounterMode(display=False) as counter:
                self.loss(name, batch, torch.float32)
            counted.append(counter.get_total_flops())
        return statistics.mean(counted) / pairs / 1e9


def build(variant: Variant, encoder: BertModel) -> nn.Module:
    """A model of the variant around the encoder."""
    if variant.plain:
        return PlainDap(encoder, variant.objective, variant.words)
    shortlist = variant.words if "rtl" in variant.objective else None
    config = DapConfig(encoder_config=encoder.config, objective=variant.objective, shortlist_size=shortlist, **SPECIALS)
    model = DapForPreTraining(config, encoder)
    model.row_gradients = variant.rows
    if shortlist:
        model.set_shortlist(torch.arange(shortlist))
    return model


def peak_memory(name: str, pairs: int, device: torch.device) -> float:
    """GiB at most while this process does a step."""
    steps = Steps([name], device)
    steps(name, 2, seed=0)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    steps(name, pairs, seed=1)
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    return peak_mib() / 1024


def peak_memories(names: Iterable[str], options: argparse.Namespace) -> dict[str, float]:
    """GiB of each variant, the median of fresh processes: what the allocator makes of the same step varies."""
    found = {}
    for name in tqdm(list(names), desc="memory"):
        words = ["--memory-of", name, "--pairs", str(options.pairs), "--device", options.device]
        peaks = []
        for _ in range(options.repeats):
            done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
            peaks.append(float(done.stdout))
        found[name] = statistics.median(peaks)
    return found


def measure(steps: Steps, names: list[str], pairs: int, repeats: int, dtype: torch.dtype) -> dict[str, np.ndarray]:
    """Median (CPU, wall) seconds of a step of each variant, interleaved, after a small step that warms up."""
    for name in names:
        steps(name, 2, seed=0, dtype=dtype)
    seconds: dict[str, list] = {name: [] for name in names}
    for repeat in tqdm(range(repeats), desc=str(dtype)):
        for name in names:
            seconds[name].append(steps(name, pairs, seed=1 + repeat, dtype=dtype))
    return {name: np.median(runs, axis=0) for name, runs in seconds.items()}


def ratios(values: dict[str, float], wanted: dict, suffix: str = "") -> dict[str, float]:
    """The figures whose two variants were measured."""
    known = {name: pair for name, pair in wanted.items() if pair[0] in values and pair[1] in values}
    return {name + suffix: values[one] / values[other] for name, (one, other, _) in known.items()}


def print_variants(seconds: dict, gflops: dict, peaks: dict) -> None:
    header = ["step", "CPU s", "wall s", "over TR", "GFLOPs a pair", "paper", "peak GiB"]
    rows = []
    for name, (cpu, wall) in seconds.items():
        variant = VARIANTS[name]
        over = f"{cpu / seconds['tr'][0]:.2f}" if "tr" in seconds else ""
        peak = f"{peaks[name]:.2f}" if name in peaks else ""
        paper = "" if variant.paper is None else str(variant.paper)
        rows.append([variant.label, f"{cpu:.2f}", f"{wall:.2f}", over, f"{gflops[name]:.1f}", paper, peak])
    print(f"\n{format_table(header, rows)}")


def figures_of(cpu: dict, cpu_half: dict, gflops: dict, peaks: dict) -> dict[str, float]:
    """Ratios and what they are made of, to four digits."""
    figures = {
        **ratios(cpu, RATIOS),
        **ratios(peaks, MEMORY_RATIOS),
        **ratios(cpu_half, RATIOS, "_bf16"),
        **{f"gflops_{name}": value for name, value in gflops.items()},
        **{f"seconds_{name}": value for name, value in cpu.items()},
        **{f"seconds_{name}_bf16": value for name, value in cpu_half.items()},
        **{f"peak_gib_{name}": value for name, value in peaks.items()},
    }
    return {name: float(f"{value:.4g}") for name, value in figures.items()}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    options = parser(__doc__, "dap_step")
    options.add_argument("--pairs", type=int, default=32, help="number of pairs in a batch (default 32)")
    options.add_argument(
        "--repeats", type=int, default=3, help="number of interleaved repeats; medians are reported (default 3)"
    )
    options.add_argument(
        "--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="variants to time (default: all)"
    )
    options.add_argument(
        "--bfloat16",
        choices=("auto", "yes", "no"),
        default="auto",
        help="auto: where the CPU only emulates it, 3 variants once on a quarter of the pairs (many seconds each)",
    )
    options.add_argument(
        "--memory", choices=("yes", "no"), default="yes", help="measure peak memory, too (default yes)"
    )
    options.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="device (default: cpu, one thread)")
    options.add_argument("--memory-of", choices=VARIANTS, help=argparse.SUPPRESS)
    args = options.parse_args(argv)
    if args.pairs < 2 or args.repeats < 1:
        options.error("give at least 2 pairs and one repeat.")
    if args.device == "cuda" and not torch.cuda.is_available():
        options.error("--device cuda: torch finds no GPU here; leave it out to measure on the CPU.")
    return args


def main(argv: list[str] | None = None) -> dict | None:
    options = arguments(argv)
    torch.set_num_threads(1)
    device, names = torch.device(options.device), options.variants
    if options.memory_of:
        return print(peak_memory(options.memory_of, options.pairs, device))
    steps = Steps(names, device)
    gflops = {name: steps.gflops(name, min(options.pairs, 4)) for name in tqdm(names, desc="FLOPs")}
    seconds = measure(steps, names, options.pairs, options.repeats, torch.float32)
    speed = bfloat16_speed() if device.type == "cpu" else None
    emulated = speed is not None and speed < 1
    small = emulated and options.bfloat16 == "auto"
    half, half_pairs = {}, max(2, options.pairs // 4) if small else options.pairs
    if options.bfloat16 != "no":
        chosen = [name for name in names if name in EMULATED or not small]
        half = measure(steps, chosen, half_pairs, 1 if small else options.repeats, torch.bfloat16)
    del steps
    peaks = peak_memories([name for name in MEMORY if name in names], options) if options.memory == "yes" else {}
    cpu, cpu_half = ({name: run[0] for name, run in runs.items()} for runs in (seconds, half))
    print_variants(seconds, gflops, peaks)
    if emulated:
        print(f"\nThis processor only emulates bfloat16: a product runs at {speed:.2f} of float32's speed.")
    lengths = real_lengths(options.pairs, np.random.default_rng(1))
    settings = {
        "encoder": ENCODER,
        "pairs": options.pairs,
        "repeats": options.repeats,
        "real_mean_tokens": round(float(lengths.mean()), 1),
        "bucket": BUCKET,
        "bf16_pairs": half_pairs if half else 0,
        "bf16_over_fp32_product": speed and round(speed, 2),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else device.type,
    } | machine()
    title = (
        f"A training step of DAP, mBERT size, {options.pairs} pairs, {settings['device']}: seconds, FLOPs, peak memory"
    )
    path, goals = (
        f"{options.results_dir}/dap_step.json",
        {k: goal for k, (*_, goal) in (RATIOS | MEMORY_RATIOS).items()},
    )
    figures = figures_of(cpu, cpu_half, gflops, peaks)
    return report("dap_step", figures, settings, title=title, path=path, goals=goals)


if __name__ == "__main__":
    run_recipe(main)
