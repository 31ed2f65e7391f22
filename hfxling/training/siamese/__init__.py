"""The siamese method step by step: vectors, head, evaluation."""

from __future__ import annotations

from .arguments import TRAINING_DEFAULTS, SiameseArguments

__all__ = ["ARGUMENTS", "TRAINING_DEFAULTS"]

ARGUMENTS = SiameseArguments  # for studies
