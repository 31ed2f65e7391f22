"""Metrics for the library evaluate: `evaluate.load(hfxling.metric_path("mining_f1"))`, without a network."""

from __future__ import annotations

from pathlib import Path

NAMES = ("precision_at_k", "alignment_error_rate", "mining_f1", "alignment_uniformity")


def metric_path(name: str) -> str:
    """The folder of a metric, for `evaluate.load`.

    Args:
        name: precision_at_k, alignment_error_rate, mining_f1 or alignment_uniformity.

    Raises:
        ValueError: for any other name.
    """
    if name not in NAMES:
        raise ValueError(f"metric {name!r} is not one of {', '.join(NAMES)}.")
    return str(Path(__file__).parent / name)
