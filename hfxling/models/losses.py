"""The papers' loss equations, one pure function each; they take vectors and know nothing of models."""

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

DISTANCES = ("euclidean", "cosine", "manhattan")


def pair_distance(source: Tensor, target: Tensor, metric: str = "euclidean") -> Tensor:
    """Distance of each source vector to its own target vector(s), over the last dimension (Huang et al. 2023, eq. 3).

    Args:
        source: (..., D) vectors.
        target: (..., D) vectors, broadcast against `source`; the distances are (...).
        metric: "euclidean", "manhattan" or "cosine" (one minus the cosine similarity). The first two add 1e-6 to every
            difference, as `torch.nn.functional.pairwise_distance` does, so that equal vectors have a gradient.
    """
    if metric == "cosine":
        return 1 - F.cosine_similarity(source, target, dim=-1)
    if metric not in DISTANCES:
        raise ValueError(f"distance={metric!r} is not one of {', '.join(DISTANCES)}.")
    source, target = torch.broadcast_tensors(source, target)
    return F.pairwise_distance(source, target, p=2.0 if metric == "euclidean" else 1.0)


def contrastive_loss(distance: Tensor, non_parallel: Tensor, margin: float = 1.0) -> Tensor:
    """The margin loss of Hadsell et al. on each pair (Huang et al. 2023, eq. 2), not yet averaged.

    `L = 1/2 (1 - l) D^2 + 1/2 l max(0, m - D)^2`. sentence-transformers' ContrastiveLoss is this with 1 - l as label.

    Args:
        distance: D >= 0 of any shape, which is that of the loss.
        non_parallel: the label l, broadcast against `distance`: 0 for a parallel pair, 1 for a non-parallel one.
        margin: m, in the unit of the distance; 1.0 in the paper.
    """
    non_parallel = non_parallel.to(distance.dtype)
    return 0.5 * ((1 - non_parallel) * distance**2 + non_parallel * F.relu(margin - distance) ** 2)


def vocabulary_cross_entropy(
    states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, *, chunk: int | None = None
) -> Tensor:
    """Summed cross-entropy of `states @ weight.T + bias`; the logits of `chunk` tokens exist at a time, never more.

    Where a gradient is wanted it is computed along with the loss, chunk by chunk: three matrix products in all, nothing
    is computed twice. Products run in the autocast type where autocast is on, the softmax in float32 at least.

    Args:
        states: (N, H).
        weight: (V, H), e.g. the input embeddings.
        bias: (V,).
        target: (N,) ids in 0..V-1.
        chunk: tokens whose logits are held at a time; by default 128 on a CPU, 1,024 elsewhere.

    Returns:
        Scalar sum over N, in nats; no second derivative.
    """
    chunk = chunk or (128 if states.device.type == "cpu" else 1024)
    return _VocabularyCrossEntropy.apply(states, weight, bias, target, chunk, torch.is_grad_enabled())


def _loss_and_gradient(logits: Tensor, gold: Tensor) -> tuple[Tensor, Tensor]:
    """Summed cross-entropy of (n, V) logits and its gradient by them, softmax less one at `gold`, in their memory."""
    highest = logits.amax(1, keepdim=True)
    gold_logits = logits.gather(1, gold)  # before the logits are written over
    exponentials = logits.sub_(highest).exp_()
    total = exponentials.sum(1, keepdim=True)
    loss = (total.log() + highest - gold_logits).sum()
    gradient = exponentials.div_(total)
    gradient.scatter_add_(1, gold, torch.full_like(total, -1.0))
    return loss, gradient


class _VocabularyCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx, states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, chunk: int, with_gradient: bool
    ) -> Tensor:
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        with torch.autocast(device, enabled=False):
            x, w, b = states.to(dtype), weight.to(dtype), bias.to(dtype)
            precise = torch.promote_types(dtype, torch.float32)
            loss = torch.zeros((), dtype=precise, device=x.device)
            grad_states = torch.empty_like(x) if with_gradient else None
            grad_bias = torch.zeros_like(bias) if with_gradient else None
            grad_weight = torch.zeros_like(weight) if with_gradient and ctx.needs_input_grad[1] else None
            # Written over chunk by chunk: on a CPU new memory of this size costs more than the softmax in it.
            buffer = torch.empty(min(chunk, len(x)), len(w), dtype=dtype, device=x.device)
            for start in range(0, len(x), chunk):
                rows = slice(start, start + chunk)
                logits = torch.addmm(b, x[rows], w.T, out=buffer[: len(x[rows])]).to(precise)
                chunk_loss, grad_logits = _loss_and_gradient(logits, target[rows, None])
                loss += chunk_loss
                if with_gradient:
                    grad_bias += grad_logits.sum(0)
                    grad_logits = grad_logits.to(dtype)
                    torch.mm(grad_logits, w, out=grad_states[rows])
                if grad_weight is not None and grad_weight.dtype == dtype:
                    grad_weight.addmm_(grad_logits.T, x[rows])
                elif grad_weight is not None:  # products in the autocast type, their sum in that of the weight
                    grad_weight += grad_logits.T @ x[rows]
        ctx.states_dtype = states.dtype
        if with_gradient:
            ctx.save_for_backward(grad_states, grad_bias, grad_weight)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, scale: Tensor):
        grad_states, grad_bias, grad_weight = ctx.saved_tensors
        for gradient in (grad_states, grad_bias, grad_weight):
            if gradient is not None:
                gradient.mul_(scale)  # in place: good for one pass
        return grad_states.to(ctx.states_dtype), grad_weight, grad_bias, None, None, None


def cosines(rows: Tensor, columns: Tensor) -> Tensor:
    """(B, N) cosines of (B, D) with (N, D) vectors, in float32 at least, whatever autocast says.

    In bfloat16 a cosine near 1 is off by up to 0.002, which a temperature of 0.05 makes 0.04 nats of a logit.
    """
    dtype = torch.promote_types(rows.dtype, torch.float32)
    with torch.autocast(rows.device.type, enabled=False):
        return F.normalize(rows.to(dtype), dim=-1) @ F.normalize(columns.to(dtype), dim=-1).T


def shared_texts(texts: Tensor, others: Tensor | None = None) -> Tensor:
    """Which pairs of a batch are no negatives of each other, as they have a text in common.

    Args:
        texts: (B, K) ids of the texts of B pairs, equal where the texts are: of both sides, or of the target (K = 1).
        others: (N, K) the same of the pairs to pick from; by default `texts`. The result is (B, N).
    """
    others = texts if others is None else others
    return (texts[:, None] == others).any(-1)


def translation_ranking_loss(
    source: Tensor, target: Tensor, temperature: float = 0.05, margin: float = 0.0, same: Tensor | None = None
) -> Tensor:
    """Cross-entropy of picking each source's own translation out of the batch (InfoNCE; DAP, eq. 5).

    Args:
        source: (B, D) sentence vectors; row i translates target row i. Need not be normalised.
        target: (N, D) with N >= B; rows after B are further negatives.
        temperature: divides the cosine; dimensionless, > 0. 0.05 is the value of the released DAP scripts.
        margin: subtracted from the cosine of the true pair (additive margin); 0 is the plain softmax.
        same: (B, N) bool, True where target j is a translation of source i too (`shared_texts`): left out of row i's
            negatives. The diagonal does not matter.

    Returns:
        Scalar in nats, mean over B; log N when the vectors carry no information. One direction: call it twice, swapped,
        for both.
    """
    logits = cosines(source, target) / temperature
    gold = torch.arange(len(source), device=source.device)
    if margin or same is not None:
        is_gold = gold[:, None] == torch.arange(len(target), device=gold.device)
        logits = logits - margin / temperature * is_gold
        if same is not None:
            logits = logits.masked_fill(same & ~is_gold, -torch.inf)
    return F.cross_entropy(logits, gold)


def multi_view_contrastive_loss(
    query: Tensor, key: Tensor, intra: Tensor | None = None, temperature: float = 0.5
) -> Tensor:
    """Cross-entropy of picking each query's own key out of the batch and, where given, of the own side's sentences.

    The source half of eqs. 12 and 16 of Zhang et al. (2024); called with the sides exchanged it is eq. 13.

    Args:
        query: (n, D) projected sentences X.
        key: (n, D) projected translations Y: row i belongs to query i, the others are its inter-view negatives.
        intra: (n, D) the sentences X projected as keys; all but row i are negatives of query i too ("inter+intra").
        temperature: tau, divides the cosine; 0.5 in the paper.

    Returns:
        Scalar in nats, mean over n; log n (log(2n - 1) with `intra`) when the vectors carry no information.
    """
    logits = cosines(query, key)
    if intra is not None:
        is_itself = torch.eye(len(query), dtype=torch.bool, device=query.device)
        logits = torch.cat([logits, cosines(query, intra).masked_fill(is_itself, -torch.inf)], dim=1)
    return F.cross_entropy(logits / temperature, torch.arange(len(query), device=query.device))


# The four losses of Nonomura et al. (disentangler): m is meaning, l language, m + l the vector; x and y are the two
# sides of pair i, a prime marks those of its partner j.
SPLIT_LOSSES = ("mean", "lang", "cross", "sep")
_PARTS = ("mx", "my", "lx", "ly", "mx'", "my'", "lx'", "ly'")
_SUMS = ("mx+lx", "my+ly", "my+lx", "mx+ly", "mx+lx'", "my+ly'")


def split_equations(cos: Callable[[str, str], Tensor], both_sides: bool = False) -> Tensor:
    """Eqs. 1-4 of Nonomura et al. for every pair.

    Args:
        cos: from the names of two vectors, as they stand here, to their (R,) cosines.
        both_sides: add the target side's separation to the source side's, which alone is printed in eq. 4.

    Returns:
        (4, R) L_mean, L_lang, L_cross, L_sep.
    """
    mean = 2 * (1 - cos("mx", "my")) + F.relu(cos("mx", "mx'") + cos("my", "my'"))
    lang = (1 - cos("lx", "lx'")) + (1 - cos("ly", "ly'"))
    swapped = (1 - cos("mx+lx", "my+lx")) + (1 - cos("my+ly", "mx+ly"))
    borrowed = (1 - cos("mx+lx", "mx+lx'")) + (1 - cos("my+ly", "my+ly'"))
    cross = swapped + borrowed
    sep = F.relu(cos("mx", "lx"))
    if both_sides:
        sep = sep + F.relu(cos("my", "ly"))
    return torch.stack([mean, lang, cross, sep])


def split_losses(
    pooled: Tensor, meaning: Tensor, has_partner: Tensor | None = None, *, both_sides: bool = False
) -> Tensor:
    """The four terms of the meaning/language split (`split_equations`), averaged over the pairs.

    The vectors are passed over once forward and once backward: every cosine follows from the inner products of a pair's
    four parts with each other and with its partner's. That takes a sixth of the time of one cosine after the other. The
    gradient cannot be differentiated again.

    Args:
        pooled: (R, 2, D) sentence vectors e, source and target side; the partner j of row i is row i + 1.
        meaning: (R, 2, D) their meaning parts; the language parts are `pooled - meaning`.
        has_partner: (R - 1,) False where row i + 1 is no partner of row i (another language pair begins there); by
            default every row but the last has one.
        both_sides: add the target side's separation to the source side's, which alone is printed in eq. 4.

    Returns:
        (4,) L_mean, L_lang, L_cross, L_sep, means over the rows that have a partner; zeros where none has.
    """
    return _SplitLosses.apply(pooled, meaning, has_partner, both_sides)


class _SplitLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, pooled: Tensor, meaning: Tensor, has_partner: Tensor | None, both_sides: bool) -> Tensor:
        dtype = torch.promote_types(meaning.dtype, torch.float32)  # autocast gives the meaning part in bfloat16
        with torch.autocast(meaning.device.type, enabled=False):
            meaning_part = meaning.to(dtype)
            parts = torch.cat([meaning_part, pooled.to(dtype) - meaning_part], dim=1)  # (R, 4, D): mx my lx ly
            within = torch.bmm(parts, parts.mT)  # (R, 4, 4) inner products of a row's parts
            across = torch.bmm(parts[:-1], parts[1:].mT)  # (R - 1, 4, 4) with its partner's
            with torch.enable_grad():  # a few numbers a row: plain autograd from here on
                terms = _terms_of_products(within.requires_grad_(), across.requires_grad_(), has_partner, both_sides)
        ctx.save_for_backward(parts, within, across, terms)
        ctx.meaning_dtype = meaning.dtype
        return terms.detach()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_terms: Tensor):
        parts, within, across, terms = ctx.saved_tensors
        grad_within, grad_across = torch.autograd.grad(terms, (within, across), grad_terms)

        def gradient_of(combined: Callable[[Tensor], Tensor]) -> Tensor:
            """(R, 2, D) what `combined` makes of the gradients of mx my lx ly.

            A part stands on both sides of its row's products, on one side of those with the row before and after. What
            is combined are the (R, 4, 4) factors of the parts, not the (R, 4, D) gradients: half the work.
            """
            gradient = torch.bmm(combined(grad_within + grad_within.mT), parts)
            gradient[:-1].baddbmm_(combined(grad_across), parts[1:])
            gradient[1:].baddbmm_(combined(grad_across.mT), parts[:-1])
            return gradient

        grad_meaning = gradient_of(lambda factors: factors[:, :2] - factors[:, 2:])  # language = pooled - meaning
        grad_pooled = gradient_of(lambda factors: factors[:, 2:]) if ctx.needs_input_grad[0] else None
        return grad_pooled, grad_meaning.to(ctx.meaning_dtype), None, None


def _terms_of_products(within: Tensor, across: Tensor, has_partner: Tensor | None, both_sides: bool) -> Tensor:
    """(4,) terms from inner products of the parts of every row (R, 4, 4) and of rows and partners (R - 1, 4, 4)."""
    upper = torch.cat([within[:-1], across], dim=2)
    lower = torch.cat([across.mT, within[1:]], dim=2)
    parts = torch.cat([upper, lower], dim=1)  # (R - 1, 8, 8), in the order of _PARTS
    sums = _sums_of_parts(within.device).to(within.dtype)
    products = sums @ parts @ sums.T  # (R - 1, 14, 14), sums of parts included
    # As in torch.cosine_similarity, no norm counts as less than 1e-8.
    scale = products.diagonal(dim1=1, dim2=2).clamp(min=1e-16).rsqrt()
    cosines = (products * scale[:, :, None] * scale[:, None, :]).permute(1, 2, 0)
    index = {name: number for number, name in enumerate(_PARTS + _SUMS)}
    terms = split_equations(lambda u, v: cosines[index[u], index[v]], both_sides)
    if has_partner is None:
        has_partner = torch.ones(terms.shape[1], dtype=torch.bool, device=terms.device)
    return (terms * has_partner).sum(1) / has_partner.sum().clamp(min=1)


@functools.cache
def _sums_of_parts(device: torch.device) -> Tensor:
    """(14, 8) which of `_PARTS` each of them, and each of `_SUMS`, is the sum of."""
    rows = [[part in name.split("+") for part in _PARTS] for name in _PARTS + _SUMS]
    return torch.tensor(rows, dtype=torch.float32, device=device)
