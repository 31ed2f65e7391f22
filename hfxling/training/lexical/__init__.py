"""Links as an encoder: what a statistical aligner counts in a few thousand sentence pairs finds translations.

Beside the files of every method:
static.py: the same links as dense word vectors, for the stock door.
export.py: the folder with its three doors.
"""

from __future__ import annotations

from .arguments import TRAINING_DEFAULTS, LexicalArguments
from .data import prepare

Arguments = LexicalArguments
__all__ = ["TRAINING_DEFAULTS", "Arguments", "prepare"]
