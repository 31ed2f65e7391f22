"""Checkpoints that are complete: what is missing, left over or of another shape is an error of one line."""

from collections.abc import Callable, Iterable
from logging import ERROR, getLogger

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

HUB_KWARGS = ("revision", "token", "cache_dir", "local_files_only", "force_download", "proxies", "subfolder")


def hub_kwargs_of(kwargs: dict) -> dict:
    """Those of a `from_pretrained` that say where a file comes from."""
    return {key: kwargs[key] for key in HUB_KWARGS if key in kwargs}


class quiet_loading:
    """Silence the libraries' load report and advice; whoever loads looks at the loading info instead."""

    def __enter__(self):
        self.verbosity = logging.get_verbosity()
        logging.set_verbosity_error()
        self.advice = getLogger("sentence_transformers")
        self.level = self.advice.level
        self.advice.setLevel(ERROR)

    def __exit__(self, *exc):
        logging.set_verbosity(self.verbosity)
        self.advice.setLevel(self.level)


def stored_config(name: str, hub_kwargs: dict) -> dict:
    """What the config.json of a folder or Hub repository says.

    Raises:
        OSError: there is none.
        ValueError: it holds something else than a configuration.
    """
    try:
        content, _ = PreTrainedConfig.get_config_dict(str(name), **hub_kwargs)
    except (TypeError, AttributeError, RecursionError):  # a list, say, where keys are looked for
        content = None
    if not isinstance(content, dict):
        raise ValueError(f"{str(name)!r}: its config.json holds no configuration; fetch or publish it again.")
    return content


def load_whole(load: Callable, name: str, *args, spare: bool = False, **kwargs) -> tuple[PreTrainedModel, dict]:
    """The model of a `from_pretrained` and its loading info; a checkpoint that does not fill the model is refused.

    Where it may be `spare` the checkpoint may hold more than the model, and lack a pooler, which nothing here uses.

    Raises:
        ValueError: for tensors that are missing, left over, of another shape, or hold NaN or infinite numbers, naming
            the first; for broken files.
    """
    with quiet_loading():
        try:  # wrong shapes come with the loading info, not as an error of the library that names no tensor
            model, info = load(name, *args, output_loading_info=True, ignore_mismatched_sizes=True, **kwargs)
        except SafetensorError as error:
            raise ValueError(
                f"{str(name)!r}: its weights cannot be read ({error}); fetch or publish it again."
            ) from None
    shaped = {key: f"{key} {tuple(stored)}, not {tuple(wanted)}" for key, stored, wanted in info["mismatched_keys"]}
    missing = [key for key in info["missing_keys"] if key not in shaped and not (spare and key.startswith("pooler."))]
    _refuse(name, model, "lacks", missing)
    _refuse(name, model, "has the wrong shape of", shaped.values())
    _refuse(name, model, "holds, beyond what is needed,", [] if spare else info["unexpected_keys"])
    damaged = [key for key, tensor in model.state_dict().items() if not _is_finite(tensor)]
    if damaged:
        raise ValueError(f"{str(name)!r}: {damaged[0]} holds NaN or infinite numbers; fetch or publish it again.")
    return model, info


def _is_finite(tensor: Tensor) -> bool:
    return tensor.is_meta or not tensor.is_floating_point() or bool(torch.isfinite(tensor).all())


def _refuse(name: str, model: PreTrainedModel, what: str, tensors: Iterable[str]) -> None:
    if tensors := sorted(tensors):
        raise ValueError(
            f"{str(name)!r} {what} {len(tensors)} weights of its {model.config.model_type} network "
            f"(first: {tensors[0]}): give a complete checkpoint whose config.json fits it."
        )
