"""AdamW that updates only those rows of an embedding matrix that have a gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

if TYPE_CHECKING:
    from transformers import TrainingArguments

_BLOCK = 512  # rows copied, updated and put back at a time, so that they stay in a CPU's cache


class RowAdamW(torch.optim.AdamW):
    """AdamW with lazy rows: a row of an embedding that has no gradient keeps its value and its moments.

    A batch looks up a few thousand of a multilingual vocabulary's 120,000 to 250,000 rows, yet AdamW reads and writes
    four matrices of that size at each step, and autograd fills a new one with zeros for each look-up. Here a gradient
    matrix is allocated once, only the rows written before are cleared, and only rows with a gradient are updated. Give
    the model sparse look-ups, such as `DapForPreTraining.row_gradients`, so that no other matrix is made.

    The difference from AdamW: while a row has no gradient, its moments do not decay, its momentum does not move it on,
    and it gets no weight decay. The bias correction counts all steps, as in `torch.optim.SparseAdam`. If every row has
    a gradient, the two are the same. The state is AdamW's: each can load the other's checkpoint.

    DistributedDataParallel reduces the dense gradient, so every process updates the rows of all processes. Not for
    FSDP, which replaces the parameters by flat shards.

    Args:
        params: parameters or groups of them.
        rows: those parameters, (V, H), that are updated row by row.
        **settings: settings of `torch.optim.AdamW`: lr, betas, eps, weight_decay, fused.
    """

    def __init__(self, params: Iterable, *, rows: Sequence[nn.Parameter], **settings: Any):
        super().__init__(params, **settings)
        known: set[int] = set()
        for group in self.param_groups:
            known.update(map(id, group["params"]))
        for p in rows:
            if id(p) not in known or p.ndim != 2 or not p.requires_grad:
                raise ValueError(f"rows: a {tuple(p.shape)} parameter is not a trainable matrix among the parameters.")
        self._gradients = {p: _RowGradient(p) for p in rows}

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update all parameters; the closure that Accelerate passes on is always None."""
        matrices = {p: p.grad for p in self._gradients if p.grad is not None}
        for p in matrices:
            p.grad = None  # hidden from AdamW
        super().step()
        for p, gradient in matrices.items():
            p.grad = gradient
            self._update_rows(p)

    def _update_rows(self, p: nn.Parameter) -> None:
        # By identity: `in` would compare tensors element by element.
        group = next(group for group in self.param_groups if any(p is other for other in group["params"]))
        state = self.state[p]
        if not state:
            state["step"] = torch.zeros((), device=p.device if group["fused"] else None)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
        # The fastest test; a row whose norm underflows (1e-23) would not move within a float's precision.
        rows = torch.linalg.vector_norm(p.grad, dim=1).nonzero().flatten()
        whole = p, state["exp_avg"], state["exp_avg_sq"]
        settings = {name: group[name] for name in ("foreach", "fused", "lr", "weight_decay", "eps")}
        settings |= dict(zip(("beta1", "beta2"), group["betas"])) | {"amsgrad": False, "maximize": False}
        for block in rows.split(_BLOCK if p.device.type == "cpu" else max(1, len(rows))):
            part, average, square = (x.index_select(0, block) for x in whole)
            steps = state["step"].clone()  # a copy, as the update counts it up
            adamw([part], [p.grad.index_select(0, block)], [average], [square], [], [steps], **settings)
            for x, updated in zip(whole, (part, average, square)):
                x.index_copy_(0, block, updated)
        state["step"] += 1
        self._gradients[p].written = rows


class _RowGradient:
    """One matrix that is used again and again as a parameter's gradient.

    `zero_grad` of a module or an optimizer drops it. The next backward pass puts it back, cleared, before it adds to
    `grad`, so that a sparse gradient is added to the rows of a dense one.
    """

    def __init__(self, p: nn.Parameter):
        self.p = p
        self.matrix: Tensor | None = None
        self.written: Tensor | None = None  # rows that are not zero; None if unknown
        p.register_hook(self.put_back)

    @torch.no_grad()
    def put_back(self, _: Tensor) -> None:
        if self.p.grad is not None:  # a gradient that is being accumulated
            return
        if self.matrix is None:
            self.matrix = torch.zeros_like(self.p)
        elif self.written is None:
            self.matrix.zero_()
        else:
            self.matrix.index_fill_(0, self.written, 0)
        self.p.grad, self.written = self.matrix, None


def row_adamw(training_args: TrainingArguments, rows: Sequence[nn.Parameter]) -> tuple[type[RowAdamW], dict]:
    """`optimizer_cls_and_kwargs` for a `transformers.Trainer`, with the settings of its arguments."""
    from transformers import Trainer

    if training_args.optim not in ("adamw_torch", "adamw_torch_fused"):
        raise ValueError(f"optim={training_args.optim.value}: for row_updates give adamw_torch_fused or adamw_torch.")
    _, kwargs = Trainer.get_optimizer_cls_and_kwargs(training_args)
    settings = {name: kwargs[name] for name in ("lr", "betas", "eps", "fused") if name in kwargs}
    return RowAdamW, settings | {"rows": rows}  # the Trainer's parameter groups bring their weight decay
