"""Exact nearest neighbours of both sides: ours, FAISS, sentence-transformers, and the bare product they all need.

python benchmarks/mining.py [--rows 50000] [--width 768] [--k 4] [--rounds 1] [--device cpu]

Random unit vectors, N x N, in memory; neighbours both ways. CPU seconds of one thread, interleaved in one process
after a warm-up with a tenth of the rows; medians of the rounds. FAISS searches a flat index of inner products twice,
sentence-transformers' semantic_search is called twice with its own block sizes (and held against ours in bfloat16;
`ours_over_gemm` is of float32), "gemm" is the float32 product in the blocks that ours takes, nothing looked at.
`peak_mib` is how far a fresh process rises above what it holds with both sides' vectors in memory, under --memory.
`same_pairs` is the share of FAISS' neighbours that ours are, too. FAISS is not among the dependencies: pip install
faiss-cpu (1.15.1 was measured).

With a GPU (--device cuda) wall seconds count, FAISS and semantic_search are left out, and `gemm` runs there.
`paper_10m_hours` is 10 million x 10 million by this run's seconds per product, on one thread.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
from harness import machine, parser, peak_mib, report, timed

from hfxling.console import run as run_recipe
from hfxling.sentences.blocks import both_ways
from hfxling.sentences.neighbours import bytes_of

GOALS = {
    "ours_bf16_over_faiss": "<= 0.55",
    "ours_fp32_over_faiss": "<= 0.80",
    "semantic_search_over_ours": ">= 4",
    "ours_over_gemm": "<= 1.45",
}
BLOCK = 4096  # four times as much on a GPU


def main(argv: list[str] | None = None) -> dict:
    options = parser(__doc__, "mining")
    options.add_argument("--rows", type=int, default=50000, help="number of rows of each side (default 50000)")
    options.add_argument("--width", type=int, default=768, help="number of dimensions (default 768)")
    options.add_argument("--k", type=int, default=4, help="number of neighbours (default 4)")
    options.add_argument("--rounds", type=int, default=1, help="number of interleaved rounds (default 1)")
    options.add_argument("--memory", default="1GiB", help="memory that our program may use (default 1GiB)")
    options.add_argument("--device", default="cpu", help="device: cpu or cuda (default cpu)")
    options.add_argument("--peak", help=argparse.SUPPRESS)  # a fresh process: precision of ours
    args = options.parse_args(argv)
    if min(args.rows // 10, args.width, args.k, args.rounds) < 1:
        options.error("give at least ten rows, and one of the others.")
    torch.set_num_threads(1)
    sides = [vectors(args.rows, args.width, seed) for seed in (0, 1)]
    if args.peak:
        before = peak_mib()
        ours(*sides, args, args.peak)
        print(peak_mib() - before)
        return {}
    seconds, same = race(sides, args)
    figures = {f"{name}_s": round(value, 1) for name, value in seconds.items()}
    figures["ours_over_gemm"] = seconds["ours_fp32"] / seconds["gemm"]
    if args.device == "cpu":
        figures |= {f"{name}_over_faiss": seconds[name] / seconds["faiss"] for name in ("ours_fp32", "ours_bf16")}
        figures["semantic_search_over_ours"] = seconds["semantic_search"] / seconds["ours_bf16"]
        figures |= {f"peak_mib_{dtype}": fresh_peak(args, dtype) for dtype in ("float32", "bfloat16")}
        figures["peak_mib"] = max(figures[f"peak_mib_{dtype}"] for dtype in ("float32", "bfloat16"))
        figures["budget_mib"] = bytes_of(args.memory) / 2**20
    figures["same_pairs"] = same
    for name in ("ours_fp32", "ours_bf16"):
        figures[f"paper_10m_hours_{name[5:]}"] = round(seconds[name] * (1e7 / args.rows) ** 2 / 3600, 1)
    figures = {name: round(value, 3) for name, value in figures.items()}
    names = ("rows", "width", "k", "rounds", "memory", "device")
    settings = {name: getattr(args, name) for name in names} | machine()
    if args.device != "cpu":
        settings["gpu"] = torch.cuda.get_device_name(args.device)
    path = Path(args.results_dir) / ("mining.json" if args.device == "cpu" else "mining_gpu.json")
    title = f"Both sides' {args.k} nearest, {args.rows} x {args.rows} x {args.width}"
    title += "" if args.device == "cpu" else ", on a GPU"
    return report("mining", figures, settings, title=title, path=path, goals=GOALS)


def vectors(rows: int, width: int, seed: int) -> np.ndarray:
    """Random unit vectors."""
    x = np.random.default_rng(seed).standard_normal((rows, width), dtype=np.float32)
    x /= np.sqrt(np.einsum("ij,ij->i", x, x))[:, None]  # without a copy, which would hide what ours takes
    return x


def race(sides: list[np.ndarray], args: argparse.Namespace) -> tuple[dict[str, float], float]:
    """Median seconds by competitor, and the share of neighbours that ours and FAISS' have in common."""
    found: dict[str, object] = {}

    def kept(name: str, run: Callable) -> Callable:
        return lambda *vectors: found.update({name: run(*vectors)})

    runs = {
        "gemm": lambda *x: gemm(*x, args.device),
        "ours_fp32": kept("ours", lambda *x: ours(*x, args, "float32")),
        "ours_bf16": kept("bf16", lambda *x: ours(*x, args, "bfloat16")),
    }
    if args.device == "cpu":
        runs |= {"faiss": kept("faiss", lambda *x: faiss(*x, args.k))}
        runs |= {"semantic_search": lambda *x: semantic_search(*x, args.k)}
    few = [side[: len(side) // 10] for side in sides]
    for run in runs.values():
        run(*few)
    clock = 0 if args.device == "cpu" else 1
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, run in runs.items():
            seconds[name].append(timed(run, *sides)[clock])
            print(f"{name}: {seconds[name][-1]:.1f} s", file=sys.stderr, flush=True)
    theirs = found.get("faiss", [side.rows for side in found["bf16"]])
    same = np.mean([(side.rows == other).mean() for side, other in zip(found["ours"], theirs)])
    return {name: statistics.median(values) for name, values in seconds.items()}, float(same)


def ours(source: np.ndarray, target: np.ndarray, args: argparse.Namespace, dtype: str) -> tuple:
    return both_ways(source, target, args.k, memory=args.memory, device=args.device, dtype=dtype)


def gemm(source: np.ndarray, target: np.ndarray, device: str) -> None:
    """The bare product, block by block."""
    x, y = (torch.from_numpy(side).to(device) for side in (source, target))
    size = BLOCK if device == "cpu" else 4 * BLOCK
    for i in range(0, len(x), size):
        for j in range(0, len(y), size):
            x[i : i + size] @ y[j : j + size].T
    if device != "cpu":
        torch.cuda.synchronize()


def faiss(source: np.ndarray, target: np.ndarray, k: int) -> list[np.ndarray]:
    import faiss as library

    library.omp_set_num_threads(1)
    found = []
    for queries, candidates in ((source, target), (target, source)):
        index = library.IndexFlatIP(candidates.shape[1])
        index.add(candidates)
        found.append(index.search(queries, k)[1])
    return found


def semantic_search(source: np.ndarray, target: np.ndarray, k: int) -> None:
    from sentence_transformers.util import semantic_search as search

    for queries, candidates in ((source, target), (target, source)):
        search(torch.from_numpy(queries), torch.from_numpy(candidates), top_k=k)


def fresh_peak(args: argparse.Namespace, dtype: str) -> float:
    """MiB that a fresh process takes beside the vectors."""
    options = [f"--{name}={getattr(args, name)}" for name in ("rows", "width", "k", "memory")]
    command = [sys.executable, __file__, *options, f"--peak={dtype}"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    run_recipe(main)
