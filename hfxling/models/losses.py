"""The papers' loss equations, one pure function each; they take vectors and know nothing of models."""

import torch
import torch.nn.functional as F
from torch import Tensor

DISTANCES = ("euclidean", "cosine", "manhattan")


def pair_distance(source: Tensor, target: Tensor, metric: str = "euclidean") -> Tensor:
    """Distance of each source vector to its own target vector(s), over the last dimension (Huang et al. 2023, eq. 3).

    Args:
        source: (..., D) vectors.
        target: (..., D) vectors, broadcast against `source`.
        metric: "euclidean", "manhattan" or "cosine" (one minus the cosine similarity). The first two add 1e-6 to every
            difference, as `torch.nn.functional.pairwise_distance` does, so that equal vectors have a gradient.

    Returns:
        (...) distances.
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
        distance: any shape, D >= 0.
        non_parallel: the label l, broadcast against `distance`: 0 for a parallel pair, 1 for a non-parallel one.
        margin: m, in the unit of the distance; 1.0 in the paper.

    Returns:
        Loss of each pair, in the shape of `distance`.
    """
    non_parallel = non_parallel.to(distance.dtype)
    return 0.5 * ((1 - non_parallel) * distance**2 + non_parallel * F.relu(margin - distance) ** 2)


def vocabulary_cross_entropy(
    states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, *, chunk: int = 1024
) -> Tensor:
    """Summed cross-entropy of `states @ weight.T + bias`; the logits of `chunk` tokens exist at a time, never more.

    Where a gradient is wanted it is computed along with the loss, chunk by chunk: three matrix products in all, nothing
    is computed twice. Products run in the autocast type where autocast is on, the softmax in float32 at least.

    Args:
        states: (N, H).
        weight: (V, H), e.g. the input embeddings.
        bias: (V,).
        target: (N,) ids in 0..V-1.
        chunk: tokens whose logits are held at a time.

    Returns:
        Scalar sum over N, in nats; no second derivative.
    """
    return _VocabularyCrossEntropy.apply(states, weight, bias, target, chunk)


class _VocabularyCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states: Tensor, weight: Tensor, bias: Tensor, target: Tensor, chunk: int) -> Tensor:
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        with torch.autocast(device, enabled=False):
            x, w = states.to(dtype), weight.to(dtype)
            precise = torch.promote_types(dtype, torch.float32)
            wanted = any(ctx.needs_input_grad[:3])
            of_x = torch.empty_like(x) if wanted else None
            of_w = torch.zeros_like(weight) if wanted else None
            of_bias = torch.zeros_like(bias) if wanted else None
            loss = torch.zeros((), dtype=precise, device=x.device)
            for start in range(0, len(x), chunk):
                part, gold = x[start : start + chunk], target[start : start + chunk, None]
                logits = torch.addmm(bias.to(dtype), part, w.T).to(precise)
                log_sum = logits.logsumexp(1, keepdim=True)
                loss += (log_sum - logits.gather(1, gold)).sum()
                if wanted:
                    slope = logits.sub_(log_sum).exp_()
                    slope.scatter_add_(1, gold, torch.full_like(log_sum, -1.0))
                    of_bias += slope.sum(0)
                    slope = slope.to(dtype)
                    of_x[start : start + chunk] = slope @ w
                    of_w = of_w.addmm_(slope.T, part) if dtype == of_w.dtype else of_w.add_(slope.T @ part)
        ctx.types = states.dtype
        if wanted:
            ctx.save_for_backward(of_x, of_w, of_bias)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, scale: Tensor):
        of_x, of_w, of_bias = ctx.saved_tensors
        return of_x.mul_(scale).to(ctx.types), of_w.mul_(scale), of_bias.mul_(scale), None, None


def translation_ranking_loss(source: Tensor, target: Tensor, temperature: float = 0.05, margin: float = 0.0) -> Tensor:
    """Cross-entropy of picking each source's own translation out of the batch (InfoNCE; DAP, eq. 5).

    Args:
        source: (B, D) sentence vectors; row i translates target row i. Need not be normalised.
        target: (N, D) with N >= B; rows after B are further negatives.
        temperature: divides the cosine; dimensionless, > 0. 0.05 is the value of the released DAP scripts.
        margin: subtracted from the cosine of the true pair (additive margin); 0 is the plain softmax.

    Returns:
        Scalar in nats, mean over B; log N when the vectors carry no information. One direction: call it twice, swapped,
        for both.
    """
    similarity = F.normalize(source, dim=-1) @ F.normalize(target, dim=-1).T
    gold = torch.arange(len(source), device=source.device)
    if margin:
        similarity = similarity - margin * F.one_hot(gold, len(target)).to(similarity.dtype)
    return F.cross_entropy(similarity / temperature, gold)


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
    query = F.normalize(query, dim=-1)
    logits = query @ F.normalize(key, dim=-1).T
    if intra is not None:
        own = torch.eye(len(query), dtype=torch.bool, device=query.device)
        logits = torch.cat([logits, (query @ F.normalize(intra, dim=-1).T).masked_fill(own, -torch.inf)], dim=1)
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


def split_losses(pooled: Tensor, meaning: Tensor, has_partner: Tensor | None = None, *, both_sides: bool = False) -> Tensor:
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
        dtype = torch.promote_types(meaning.dtype, torch.float32)  # under autocast the meaning part comes in bfloat16
        parts = torch.zeros(rows + 2, 4, size, dtype=dtype, device=meaning.device)  # a row of zeros at either end
        parts[1:-1, :2] = meaning
        torch.sub(pooled, parts[1:-1, :2], out=parts[1:-1, 2:]) if pooled.dtype == dtype else parts[1:-1, 2:].copy_(
            pooled - meaning
        )
        return parts
