"""Training: one folder a method, and what they share.

A method's package offers six names: `Arguments` and `TRAINING_DEFAULTS`, which a recipe parses; `prepare(rows,
training_args)`, which reads and encodes what several runs have in common; `run(args, training_args, prepared)`, which
trains and measures one model and gives a `publishing.Run`; `measure(args, training_args, folder)`, the same measurement
of a folder that was written; and `card(args, prepared, run)`, what its model card says.
"""

from importlib import import_module
from types import ModuleType

METHODS = ("siamese", "dap", "disentangler", "aligner", "lexical")


def method(name: str) -> ModuleType:
    """The package of a method.

    Raises:
        ValueError: none of `METHODS`.
    """
    if name not in METHODS:
        raise ValueError(f"method={name!r} is not one of {', '.join(METHODS)}.")
    return import_module(f"{__name__}.{name}")
