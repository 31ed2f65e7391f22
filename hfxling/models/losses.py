"""The papers' loss equations, one pure function each; they take vectors and know nothing of models."""

import functools

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


class _VocabularyCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, chunk: int, learn: bool) -> Tensor:
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        with torch.autocast(device, enabled=False):
            x, w = states.to(dtype), weight.to(dtype)
            precise = torch.promote_types(dtype, torch.float32)
            of_x = torch.empty_like(x) if learn else None
            of_bias = torch.zeros_like(bias) if learn else None
            of_w = torch.zeros_like(weight) if learn and ctx.needs_input_grad[1] else None
            loss = torch.zeros((), dtype=precise, device=x.device)
            # Written over chunk by chunk: on a CPU new memory of this size costs more than the softmax in it.
            room = torch.empty(min(chunk, len(x)), len(w), dtype=dtype, device=x.device)
            for start in range(0, len(x), chunk):
                part, gold = x[start : start + chunk], target[start : start + chunk, None]
                logits = torch.addmm(bias.to(dtype), part, w.T, out=room[: len(part)]).to(precise)
                highest, of_gold = logits.amax(1, keepdim=True), logits.gather(1, gold)
                shares = logits.sub_(highest).exp_()
                total = shares.sum(1, keepdim=True)
                loss += (total.log() + highest - of_gold).sum()
                if not learn:
                    continue
                slope = shares.div_(total)
                slope.scatter_add_(1, gold, torch.full_like(total, -1.0))
                of_bias += slope.sum(0)
                slope = slope.to(dtype)
                torch.mm(slope, w, out=of_x[start : start + chunk])
                if of_w is not None:
                    of_w.addmm_(slope.T, part) if dtype == of_w.dtype else of_w.add_(slope.T @ part)
        ctx.type = states.dtype
        if learn:
            ctx.save_for_backward(of_x, of_bias, *([] if of_w is None else [of_w]))
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, scale: Tensor):
        of_x, of_bias, *of_w = (slope.mul_(scale) for slope in ctx.saved_tensors)  # in place: good for one pass
        return of_x.to(ctx.type), of_w[0] if of_w else None, of_bias, None, None, None


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
        own = gold[:, None] == torch.arange(len(target), device=gold.device)
        logits = logits - margin / temperature * own
        if same is not None:
            logits = logits.masked_fill(same & ~own, -torch.inf)
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
        own = torch.eye(len(query), dtype=torch.bool, device=query.device)
        logits = torch.cat([logits, cosines(query, intra).masked_fill(own, -torch.inf)], dim=1)
    return F.cross_entropy(logits / temperature, torch.arange(len(query), device=query.device))


# Every cosine of eqs. 1-4 of Nonomura et al. (disentangler): m is meaning, l language, m + l = e; x and y are the two
# sides of pair i, a prime marks those of its partner j.
_SPLIT_COSINES = (
    *(("mx", "my"), ("mx", "mx'"), ("my", "my'")),  # L_mean
    *(("lx", "lx'"), ("ly", "ly'")),  # L_lang
    *(("mx lx", "my lx"), ("my ly", "mx ly"), ("mx lx", "mx lx'"), ("my ly", "my ly'")),  # L_cross
    *(("mx", "lx"), ("my", "ly")),  # L_sep
)
SPLIT_LOSSES = ("mean", "lang", "cross", "sep")


def split_losses(
    pooled: Tensor, meaning: Tensor, has_partner: Tensor | None = None, *, both_sides: bool = False
) -> Tensor:
    """The four terms of the meaning/language split (Nonomura et al., eqs. 1-4), averaged over the pairs.

    All cosines are read off the small Gram matrices of each pair's four parts and its partner's, so the vectors are
    passed over once forward and once backward; the gradient is in closed form and cannot be differentiated again.

    Args:
        pooled: (R, 2, D) sentence vectors e, source and target side; the partner j of row i is row i + 1.
        meaning: (R, 2, D) their meaning parts; the language parts are `pooled - meaning`.
        has_partner: (R - 1,) False where row i + 1 is no partner of row i (another language pair begins there); by
            default every row but the last has one.
        both_sides: add the target side's separation to the source side's, which alone is printed in eq. 4.

    Returns:
        (4,) L_mean, L_lang, L_cross, L_sep, means over the rows that have a partner; zeros where none has.
    """
    if has_partner is None:
        has_partner = torch.ones(len(pooled) - 1, dtype=torch.bool, device=pooled.device)
    return _SplitLosses.apply(pooled, meaning, has_partner, both_sides)


class _SplitLosses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, pooled: Tensor, meaning: Tensor, has_partner: Tensor, both_sides: bool) -> Tensor:
        rows, _, size = meaning.shape
        dtype = torch.promote_types(meaning.dtype, torch.float32)  # autocast gives the meaning part in bfloat16
        with torch.autocast(meaning.device.type, enabled=False):
            parts = torch.empty(rows + 2, 4, size, dtype=dtype, device=meaning.device)  # mx my lx ly of every row
            parts[0] = parts[-1] = 0
            parts[1:-1, :2] = meaning
            torch.sub(pooled.to(dtype), parts[1:-1, :2], out=parts[1:-1, 2:])
            pair_and_partner = parts.as_strided((rows, 8, size), (4 * size, size, 1), 4 * size)
            products = torch.bmm(parts[1:-1], pair_and_partner.mT)
            own, across = products[..., :4].flatten(1), products[:-1, :, 4:].flatten(1)
            grams = torch.cat([own[:-1], across, own[1:]], dim=1)
            with torch.enable_grad():  # a few numbers a row: plain autograd from here to the terms
                terms = _split_terms(grams.requires_grad_(), has_partner, both_sides)
        ctx.save_for_backward(parts, grams, terms)
        ctx.meaning_dtype = meaning.dtype
        return terms.detach()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, of_terms: Tensor):
        parts, grams, terms = ctx.saved_tensors
        (of_grams,) = torch.autograd.grad(terms, grams, of_terms)
        rows, size = len(parts) - 2, parts.shape[2]
        own, across, partner = of_grams.view(rows - 1, 3, 4, 4).unbind(1)
        # What each part of row r takes from the parts of rows r - 1, r and r + 1.
        factors = parts.new_zeros(rows, 4, 12)
        factors[1:, :, :4] = across.mT
        factors[:-1, :, 4:8] = own + own.mT
        factors[1:, :, 4:8] += partner + partner.mT
        factors[:-1, :, 8:] = across
        window = parts.as_strided((rows, 12, size), (4 * size, size, 1), 0)
        of_meaning = torch.bmm(factors[:, :2] - factors[:, 2:], window)  # language = pooled - meaning
        of_pooled = torch.bmm(factors[:, 2:], window) if ctx.needs_input_grad[0] else None
        return of_pooled, of_meaning.to(ctx.meaning_dtype), None, None


def _split_terms(grams: Tensor, has_partner: Tensor, both_sides: bool) -> Tensor:
    """(4,) mean terms from the (R, 48) inner products: own with own parts, own with partner's, partner's own."""
    product, left, right = (grams @ _cosine_table(grams.device).to(grams.dtype)).unflatten(1, (3, -1)).unbind(1)
    # As in torch.cosine_similarity, no norm counts as less than 1e-8.
    cosine = product * left.clamp(min=1e-16).rsqrt() * right.clamp(min=1e-16).rsqrt()
    c = cosine.unbind(1)
    terms = torch.stack(
        [
            2 * (1 - c[0]) + F.relu(c[1] + c[2]),
            2 - c[3] - c[4],
            4 - c[5] - c[6] - c[7] - c[8],
            F.relu(c[9]) + F.relu(c[10]) if both_sides else F.relu(c[9]),
        ]
    )
    return (terms * has_partner).sum(1) / has_partner.sum().clamp(min=1)


@functools.cache
def _cosine_table(device: torch.device) -> Tensor:
    """(48, 33) sums of the inner products that give u.v, u.u and v.v of each cosine of `_SPLIT_COSINES`."""
    names = ("mx", "my", "lx", "ly", "mx'", "my'", "lx'", "ly'")
    sides = torch.tensor([[[name in side.split() for name in names] for side in pair] for pair in _SPLIT_COSINES])
    u, v = sides.float().unbind(1)
    columns = []
    for a, b in ((u, v), (u, u), (v, v)):
        outer = a[:, :, None] * b[:, None, :]
        across = outer[:, :4, 4:] + outer[:, 4:, :4].mT
        columns.append(torch.cat([outer[:, :4, :4].flatten(1), across.flatten(1), outer[:, 4:, 4:].flatten(1)], dim=1))
    return torch.cat(columns).T.contiguous().to(device)
