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
