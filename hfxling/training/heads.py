"""Training a siamese head on cached vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hfxling.data.negatives import STRATEGIES, labelled_pairs
from hfxling.models.losses import contrastive_loss, pair_distance, translation_ranking_loss
from hfxling.models.modeling_siamese import SiameseHead

from .closed_form import Affine

LOSSES = ("contrastive", "infonce")


@dataclass
class LossSettings:
    """What a head is trained for; defaults are the paper's, except where the docs say what measured better.

    Attributes:
        loss: "contrastive" (eq. 2) or "infonce" (in-batch softmax, both directions).
        distance: "euclidean", "cosine" or "manhattan".
        margin: m of eq. 2, in the unit of the distance.
        negatives: how a pool of wrong targets becomes one loss: "random" (a pool of one), "worst" (the largest loss),
            "average" or "easiest" (the smallest).
        pool_size: candidates in that pool.
        parallel_only: leave non-parallel pairs out.
        normalize_output: length-normalise before the distance.
        temperature: of the softmax.
    """

    loss: str = "contrastive"
    distance: str = "euclidean"
    margin: float = 1.0
    negatives: str = "worst"
    pool_size: int = 8
    parallel_only: bool = False
    normalize_output: bool = False
    temperature: float = 0.05

    def __post_init__(self):
        if self.loss not in LOSSES:
            raise ValueError(f"loss={self.loss!r} is not one of {', '.join(LOSSES)}.")
        if self.negatives not in STRATEGIES:
            raise ValueError(f"negatives={self.negatives!r} is not one of {', '.join(STRATEGIES)}.")
        if self.margin < 0 or self.temperature <= 0:
            raise ValueError(f"margin={self.margin} must be >= 0 and temperature={self.temperature} > 0.")


class HeadObjective(nn.Module):
    """A head and its loss: what the Trainer trains."""

    def __init__(self, head: SiameseHead, languages: Sequence[str], settings: LossSettings):
        super().__init__()
        self.head = head
        self.source_lang, self.target_lang = languages
        self.settings = settings

    def forward(self, source: Tensor, target: Tensor, label: Tensor) -> dict[str, Tensor]:
        """Loss of a batch.

        Args:
            source: (B, H) frozen vectors.
            target: (B, K, H): K candidates, all the same for a parallel pair.
            label: (B,) 0 for parallel, 1 for non-parallel.

        Returns:
            {"loss": scalar}, and for the contrastive loss its two halves `loss_parallel` and `loss_non_parallel`.
        """
        settings = self.settings
        if settings.negatives in ("worst", "easiest") and target.shape[1] > 1:
            target = self.chosen(source, target, largest=settings.negatives == "easiest")
        x, y = self.head.project(source, self.source_lang), self.head.project(target, self.target_lang)
        if settings.loss == "infonce":
            forward, backward = (
                translation_ranking_loss(a, b, settings.temperature) for a, b in ((x, y[:, 0]), (y[:, 0], x))
            )
            return {"loss": (forward + backward) / 2}
        losses = contrastive_loss(self.distance(x, y), label[:, None], settings.margin).mean(1)
        parts = {"loss_parallel": losses[label == 0], "loss_non_parallel": losses[label == 1]}
        return {"loss": losses.mean()} | {name: part.sum() / len(losses) for name, part in parts.items()}

    def distance(self, x: Tensor, y: Tensor) -> Tensor:
        """(B, K) distances of (B, H) source outputs to their (B, K, H) candidates."""
        if self.settings.normalize_output:
            x, y = F.normalize(x, dim=-1), F.normalize(y, dim=-1)
        return pair_distance(x[:, None], y, self.settings.distance)

    @torch.no_grad()
    def chosen(self, source: Tensor, target: Tensor, largest: bool) -> Tensor:
        """Of each pool the one candidate (B, 1, H) at the largest or smallest distance, by the head without dropout.

        The loss of a non-parallel pair falls with its distance, so the worst candidate is the closest one. Only the
        chosen one is trained on, which gives the same gradient as the maximum over the pool and costs a fraction.
        """
        was_training = self.head.training
        self.head.eval()
        distance = self.distance(
            self.head.project(source, self.source_lang), self.head.project(target, self.target_lang)
        )
        self.head.train(was_training)
        best = distance.argmax(1) if largest else distance.argmin(1)
        return target[torch.arange(len(target)), best, None]


class PairRows(torch.utils.data.Dataset):
    """Row numbers as a dataset; its `collate` gathers the vectors of a whole batch at once.

    Args:
        source: (N, H) vectors, or anything that gives them for an array of row numbers.
        target: (N, H), likewise; row i is parallel to source row i.
        texts: the N target texts: a repeated translation is never drawn as a negative.
        settings: of the loss.
        seed: of the drawn negatives.
    """

    def __init__(self, source, target, texts: Sequence[str], settings: LossSettings, seed: int = 0):
        self.vectors = source, target
        if settings.loss == "infonce":
            rows = np.arange(len(texts))
            self.rows = rows, rows[:, None], np.zeros(len(rows), np.int64)
        else:
            pool = 1 if settings.negatives == "random" else settings.pool_size
            self.rows = labelled_pairs(texts, pool_size=pool, parallel_only=settings.parallel_only, seed=seed)

    def __len__(self) -> int:
        return len(self.rows[0])

    def __getitem__(self, index: int) -> int:
        return index

    def collate(self, indices: list[int]) -> dict[str, Tensor]:
        """{"source": (B, H), "target": (B, K, H), "label": (B,)}."""
        source, target, label = (rows[indices] for rows in self.rows)
        vectors = [torch.as_tensor(array[rows]) for array, rows in zip(self.vectors, (source, target))]
        return {"source": vectors[0], "target": vectors[1], "label": torch.from_numpy(label)}


def set_affine(head: SiameseHead, maps: dict[str, Affine]) -> None:
    """Put closed-form maps into a linear head with bias; a shared head takes the first one."""
    for key, layers in head.maps.items():
        affine = maps.get(key) or next(iter(maps.values()))
        with torch.no_grad():
            layers[0].weight.copy_(torch.from_numpy(affine.weight))
            layers[0].bias.copy_(torch.from_numpy(affine.bias))
