"""The only all-gather: other processes' sentence vectors as further negatives, with gradient."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor


def gather_rows(rows: Tensor) -> Tensor:
    """Every process' rows, this one's first: (B, ...) to (world x B, ...); every process must hold B of them.

    The gradient of a row is the sum of what all processes' losses say about it, so with losses averaged over the
    processes (as DDP and FSDP average gradients) training is what one process with the whole batch would do.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return rows
    return _GatherRows.apply(rows)


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows: Tensor) -> Tensor:
        ctx.rank, ctx.count = dist.get_rank(), len(rows)
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat([parts.pop(ctx.rank), *parts])

    @staticmethod
    def backward(ctx, slopes: Tensor) -> Tensor:
        own, others = slopes[: ctx.count], slopes[ctx.count :]
        before = ctx.rank * ctx.count
        ordered = torch.cat([others[:before], own, others[before:]])  # by rank, so that the processes' sums match
        dist.all_reduce(ordered)
        return ordered[before : before + ctx.count]
