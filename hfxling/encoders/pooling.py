"""How a published encoder pools its tokens' vectors into one, read from its files before it is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from .identity import json_of, modules_of

# Names of sentence-transformers 6 and of folders that earlier versions wrote, and ours.
_NAMES = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
_EARLIER = "pooling_mode_"
_EARLIER_NAMES = {"mean_tokens": "mean", "cls_token": "cls", "lasttoken": "lasttoken"}


@dataclass(frozen=True)
class Pooled:
    """How token vectors become a sentence's vector."""

    mode: str  # mean, cls or last; mean if the model does something else
    # What the model does besides pooling and normalising, such as ("Dense",) or ("max pooling",).
    further: tuple[str, ...] = ()


def pooled_by(name: str, revision: str | None = None) -> Pooled:
    """How a folder or Hub model pools; a plain encoder of transformers by the mean, as in sentence-transformers."""
    modules = modules_of(name, revision)
    if not modules:
        return Pooled("mean")
    kinds = [str(module.get("type", "")).rpartition(".")[2] for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"]:
        return Pooled("mean", tuple(kinds))
    further = [kind for kind in kinds[2:] if kind != "Normalize"]
    mode = _mode(json_of(name, f"{modules[1].get('path', '')}/config.json", revision))
    if mode not in _NAMES:
        return Pooled("mean", (f"{mode} pooling", *further))
    return Pooled(_NAMES[mode], tuple(further))


def _mode(settings: dict) -> str:
    """The mode in the settings of a pooling module, by its name in sentence-transformers 6."""
    modes = settings.get("pooling_mode")
    if isinstance(modes, str):
        return modes
    if modes is None:
        modes = []
        for key, is_on in settings.items():
            if key.startswith(_EARLIER) and is_on:
                earlier = key.removeprefix(_EARLIER)
                modes.append(_EARLIER_NAMES.get(earlier, earlier))
    return "+".join(modes) or "mean"
