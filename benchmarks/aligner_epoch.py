"""CPU seconds of a training epoch of the word aligner, against the same computation as Wada et al.'s scripts do it.

python benchmarks/aligner_epoch.py [--data ../shared/data/ntrex] [--pairs lo-zh vi-zh] [--batches 6] [--size 500]

The data folder holds one line-aligned file a language, `lo.txt`; lines 1 to 1543 are read. Three ways of passing over
the same text are timed, interleaved, in one process on one thread: ours with one update a batch, ours with the four
updates of the scripts, and the scripts' own way of doing those four (written anew: packed sequences, the encoder run
again for each update and the decoders for each source, softmax at padding, dropout over whole embedding tables, batches
sorted by one side). Of an epoch's batches, sorted by length, every k-th is run, the longest among them; seconds of the
epoch follow by their share of the words. Peak memory is that of a fresh process that does one way only. The contrastive
term is off, as the scripts have none; `contrastive_over_base` says what it adds to ours.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
import torch
import torch.nn.functional as F
from harness import machine, parser, peak_mib, report
from ntrex import LINES, settings_of, training_text
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hfxling.console import run as run_recipe
from hfxling.methods.aligner.arguments import UPDATES
from hfxling.methods.aligner.data import PairBatches
from hfxling.methods.aligner.train import new_model
from hfxling.models.aligner_layers import framed, permute, reversal
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.words.pairs import pad

BATCH_SIZE = 16
GOALS = {"ancestor_over_ours_four_updates": ">= 2.1 in float32", "peak_over_ancestor": "<= 0.5"}
# Kernels by the part of the network that they belong to; what is not listed counts as "other".
PARTS = {
    "LSTM": ("mkldnn_rnn_layer", "lstm"),
    "output softmax and projections": ("aten::mm", "aten::addmm", "aten::exp", "log_softmax", "nll_loss"),
    "attention": ("aten::bmm", "aten::_softmax", "masked_fill"),
    "embedding": ("embedding", "index_select"),
    "dropout": ("bernoulli", "dropout", "random_"),
    "optimizer": ("fused_adam", "Optimizer", "linalg_vector_norm", "foreach"),
}


class Ancestor(nn.Module):
    """The likelihoods of an aligner computed as the scripts of Wada et al. compute them, with the same weights."""

    def __init__(self, model: AlignerModel):
        super().__init__()
        size = model.config.size
        self.model = model
        self.encoder = nn.LSTM(size, size // 2, batch_first=True, bidirectional=True)
        for suffix, lstm in (("", model.encoder.left_to_right[0]), ("_reverse", model.encoder.right_to_left[0])):
            for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
                setattr(self.encoder, name + suffix, getattr(lstm, name))

    def table(self, language: str) -> Tensor:
        """All words' vectors; dropout strikes every entry of the tables."""
        embedding, p = self.model.embedding, self.model.config.dropout
        ids = embedding.piece_ids(language)
        ids = ids[:, : (ids > 0).sum(1).max()]  # the scripts pad to the longest word of this language
        pieces = F.dropout(F.embedding(ids, embedding.pieces.weight), p, self.training)
        means = (pieces * (ids > 0)[:, :, None]).sum(1) / (ids > 0).sum(1, keepdim=True).clamp(min=1)
        return F.dropout(embedding.words[f"of_{language}"].weight, p, self.training) + means

    def update_loss(self, batch: dict, side: int, direction: int) -> Tensor:
        """One of the four losses of a batch: one side encoded, both decoded in one direction."""
        sides = [batch["source"], batch["target"]]
        order = sides[side]["mask"].sum(1).argsort(descending=True)
        ids, lengths = zip(*((s["word_ids"][order], s["mask"][order].sum(1)) for s in sides))
        source = F.embedding(ids[side], self.table(batch["languages"][side]))
        packed = pack_padded_sequence(source, lengths[side], batch_first=True)
        states, _ = pad_packed_sequence(self.encoder(packed)[0], batch_first=True)
        mask = torch.arange(states.shape[1]) >= lengths[side][:, None]
        loss = 0.0
        for t, language in enumerate(batch["languages"]):
            table = self.table(language)
            read = framed(ids[t], lengths[t])
            read = permute(read, reversal(lengths[t] + 2, read.shape[1])) if direction else read
            decoded = self.model.decoders[f"of_{language}"](F.embedding(read[:, :-1], table), bool(direction))
            scores = torch.bmm(decoded, states.transpose(1, 2)).masked_fill(mask[:, None], -torch.inf)
            weights = scores.softmax(2)
            hidden = torch.bmm(weights, states) + decoded + torch.bmm(weights, source)
            hidden = self.model.output(F.dropout(hidden, self.model.config.dropout, self.training).flatten(0, 1))
            gold = read[:, 1:].flatten() - 1  # padding becomes -1, which is ignored
            loss = loss + F.cross_entropy(hidden @ table[1:].T, gold, ignore_index=-1, reduction="sum") / len(order)
        return loss


class Way:
    """A way of training: its batches and what it does with one."""

    def __init__(self, model: AlignerModel, batches: list[dict], losses: Callable[[dict], list[Callable[[], Tensor]]]):
        self.model, self.batches, self.losses = model, batches, losses
        self.optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True)

    def step(self, batch: dict, bfloat16: bool = False) -> float:
        """All updates of a batch; CPU seconds."""
        start = time.process_time()
        for loss in self.losses(batch):
            self.optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16) if bfloat16 else contextlib.nullcontext():
                value = loss()
            value.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.optimizer.step()
        return time.process_time() - start


def build(pair: str, args: argparse.Namespace, wanted: list[str]) -> tuple[dict[str, Way], int]:
    """The ways that are wanted, each with its own model, and the words of an epoch."""
    vocabularies, pairs = training_text(args.data, pair)

    def model(weight: float = 0.0) -> AlignerModel:
        torch.manual_seed(0)
        settings = settings_of(args.data, pair, size=args.size, contrastive_weight=weight)
        return new_model(settings, vocabularies).train()

    ours = PairBatches([pairs], BATCH_SIZE)
    ours = sample([ours[i] for i in range(len(ours))], args.batches)
    order = np.argsort([len(row) for row in pairs.source], kind="stable")
    theirs = [[pad([side[i] for i in rows]) for side in (pairs.source, pairs.target)] for rows in cut(order)]
    theirs = sample([{"source": s, "target": t, "languages": pairs.languages} for s, t in theirs], args.batches)

    def way(name: str) -> Way:
        if name == "ancestor":
            network = Ancestor(model())
            return Way(network.model, theirs, lambda batch: [partial(network, batch, *u) for u in UPDATES["four"]])
        updates = UPDATES["four" if name == "four" else "one"]
        network = model(1.0 if name == "contrastive" else 0.0)
        return Way(network, ours, lambda batch: [whole(network, batch, *u) for u in updates])

    def partial(network, batch, encode, directions):
        return lambda: network.update_loss(batch, encode[0], directions[0])

    def whole(network, batch, encode, directions):
        return lambda: network.pair_loss(**batch | {"encode": encode, "directions": directions}).loss

    check_same_loss(model().eval(), ours[0])
    return {name: way(name) for name in wanted}, sum(map(len, pairs.source + pairs.target))


@torch.no_grad()
def check_same_loss(model: AlignerModel, batch: dict) -> None:
    """Without dropout the scripts' way gives our loss, or the comparison would be of different things."""
    theirs = sum(Ancestor(model).eval().update_loss(batch, *map(sum, update)) for update in UPDATES["four"])
    ours = model.pair_loss(**batch).loss
    if not torch.isclose(theirs, ours, rtol=1e-4):
        raise RuntimeError(f"the two ways differ: {theirs.item()} and {ours.item()}")


def cut(order: np.ndarray) -> list[np.ndarray]:
    return [order[i : i + BATCH_SIZE] for i in range(0, len(order), BATCH_SIZE)]


def words(batch: dict) -> int:
    return int(batch["source"]["mask"].sum() + batch["target"]["mask"].sum())


def sample(batches: list[dict], count: int) -> list[dict]:
    """Batches at evenly spaced ranks of length, the longest last."""
    batches = sorted(batches, key=words)
    return [batches[i] for i in np.linspace(0, len(batches) - 1, count + 1).astype(int)[1:]]


def by_part(way: Way) -> dict[str, float]:
    """Share of a step's CPU time in each part of the network, on the batch in the middle."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        way.step(way.batches[len(way.batches) // 2])
    shares = dict.fromkeys([*PARTS, "other"], 0.0)
    for event in profiler.key_averages():
        part = next((part for part, names in PARTS.items() if any(name in event.key for name in names)), "other")
        shares[part] += event.self_cpu_time_total
    return {part: round(value / sum(shares.values()), 3) for part, value in shares.items()}


def measure(pair: str, args: argparse.Namespace) -> dict:
    """All figures of one language pair."""
    ways, epoch_words = build(pair, args, ["one", "four", "ancestor", "contrastive"])
    for way in ways.values():
        way.step(way.batches[0])
    seconds = {name: [0.0] * args.batches for name in ways}
    for i in range(args.batches):
        for name, way in ways.items():
            seconds[name][i] = way.step(way.batches[i])
    epoch = {name: sum(seconds[name]) / sum(map(words, way.batches)) * epoch_words for name, way in ways.items()}
    steps = [ways["one"].step(ways["one"].batches[0], bfloat16=True) for _ in range(3)] if has_bfloat16() else None
    scale = statistics.median(steps) / seconds["one"][0] if steps else None
    peak = {name: peak_of_way(pair, args, name) for name in ("one", "ancestor")}
    return {
        "cpu_s_per_epoch_fp32": round(epoch["one"], 1),
        "cpu_s_per_epoch_bf16": round(epoch["one"] * scale, 1) if scale else None,
        "cpu_s_per_epoch_fp32_four_updates": round(epoch["four"], 1),
        "cpu_s_per_epoch_fp32_ancestor": round(epoch["ancestor"], 1),
        "ancestor_over_ours_four_updates": round(epoch["ancestor"] / epoch["four"], 2),
        "ancestor_over_ours_one_update": round(epoch["ancestor"] / epoch["one"], 2),
        "contrastive_over_base": round(epoch["contrastive"] / epoch["one"], 3),
        "tokens_per_cpu_s": round(epoch_words / epoch["one"]),
        "peak_mib": round(peak["one"]),
        "peak_mib_ancestor": round(peak["ancestor"]),
        "peak_over_ancestor": round(peak["one"] / peak["ancestor"], 3),
        "share_by_part": by_part(ways["one"]),
    }


def has_bfloat16() -> bool:
    """Whether an LSTM runs in bfloat16 here."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            nn.LSTM(2, 2, batch_first=True)(torch.zeros(1, 1, 2))
    except RuntimeError:
        return False
    return True


def peak_of_way(pair: str, args: argparse.Namespace, name: str) -> float:
    """Peak resident memory of a fresh process that trains one way, on the longest batch."""
    command = [sys.executable, __file__, "--data", args.data, "--pairs", pair, "--size", str(args.size)]
    found = subprocess.run([*command, "--peak_of", name], capture_output=True, text=True, check=True)
    return float(found.stdout.splitlines()[-1])


def print_peak(args: argparse.Namespace) -> None:
    args.batches = 1
    ways, _ = build(args.pairs[0], args, [args.peak_of])
    (way,) = ways.values()
    for _ in range(2):
        way.step(way.batches[-1])
    print(peak_mib())


def main(argv: list[str] | None = None) -> dict | None:
    options = parser(__doc__, "aligner_epoch")
    options.add_argument("--data", default="../shared/data/ntrex", help="folder of line-aligned LANG.txt files")
    options.add_argument("--pairs", nargs="+", default=["lo-zh", "vi-zh"])
    options.add_argument("--batches", type=int, default=6, help="number of batches to time, of the epoch's 97")
    options.add_argument("--size", type=int, default=500)
    options.add_argument("--peak_of", choices=["one", "ancestor"], help=argparse.SUPPRESS)
    args = options.parse_args(argv)
    torch.set_num_threads(1)
    if args.peak_of:
        return print_peak(args)
    figures = {pair: measure(pair, args) for pair in args.pairs}
    settings = {"size": args.size, "batch_size": BATCH_SIZE, "batches": args.batches, "lines": LINES} | machine()
    title = (
        f"An epoch of the word aligner on NTREX, {args.size} units, batches of {BATCH_SIZE}: CPU seconds, peak memory"
    )
    path = f"{args.results_dir}/aligner_epoch.json"
    return report("aligner_epoch", figures, settings, title=title, path=path, goals=GOALS)


if __name__ == "__main__":
    run_recipe(main)
