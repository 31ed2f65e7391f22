"""One folder a method, what they share, and the one list of them: `METHODS`.

A method's package offers six names:

- `Arguments` and `TRAINING_DEFAULTS`: what its recipe takes, and what the Trainer's arguments are where nobody says.
- `prepare(rows, training_args)`: read and encode what several runs have in common, whose options are `rows`.
- `run(recipe, training_args, prepared)`: train and measure one model; gives a `publishing.Run`.
- `measure(recipe, training_args, folder)`: the same measurement of a folder that was written, as a `publishing.Run`
  without training, and the text that was read for it.
- `card(recipe, prepared, run)`: what its model card says.

One whose recipe writes several folders also has `one_by_one(recipe, training_args)`, the options of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType


@dataclass(frozen=True)
class Method:
    """A method."""

    name: str  # of its folder here, its recipe, its configurations and its row in cards
    model: str  # its class in `hfxling.models`
    is_head: bool = False  # it learns a head on the vectors of a frozen encoder, from the text or from files
    is_counted: bool = False  # it is counted and not trained by steps: most arguments of the Trainer say nothing


METHODS = {
    method.name: method
    for method in (
        Method("siamese", "SiameseModel", is_head=True),
        Method("dap", "DapModel"),
        Method("disentangler", "DisentanglerModel", is_head=True),
        Method("aligner", "AlignerModel"),
        Method("lexical", "LexicalModel", is_counted=True),
    )
}


def method(name: str) -> ModuleType:
    """The package of a method."""
    if name not in METHODS:
        raise ValueError(f"method={name!r} is not one of {', '.join(METHODS)}.")
    return import_module(f"{__name__}.{name}")
