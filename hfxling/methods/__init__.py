"""One folder for each method, the code that methods share, and the list of them: `METHODS`.

A method's package has six names:

- `Arguments` and `TRAINING_DEFAULTS`: the options of its recipe, and its defaults for the Trainer's arguments.
- `prepare(rows, training_args)`: read and encode what several runs, whose options are `rows`, have in common.
- `run(recipe, training_args, prepared)`: train and measure one model; gives a `publishing.Run`.
- `measure(recipe, training_args, folder)`: the same measurement of a written folder, as a `publishing.Run` without
  training, and the text that was read for it.
- `card(recipe, prepared, run)`: what its model card says.

A method whose recipe writes several folders also has `one_by_one(recipe, training_args)`, the options for each folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType


@dataclass(frozen=True)
class Method:
    """A method."""

    name: str  # name of its folder here, its recipe, its configurations and its row in cards
    model: str  # its class in `hfxling.models`
    is_head: bool = False  # it learns a head on a frozen encoder's vectors, computed from text or read from files
    is_counted: bool = False  # it is counted, not trained by steps: most arguments of the Trainer have no effect


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
