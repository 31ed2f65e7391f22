"""Sentences: neighbours, margins, pairs."""

from .engine import Mined, mine_vectors, paired_margins, rescored, select, strongest

__all__ = ["Mined", "mine_vectors", "paired_margins", "rescored", "select", "strongest"]
