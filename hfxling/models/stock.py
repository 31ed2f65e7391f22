"""Stock sentence-transformers module folders, written and read beside an encoder's own files.

A model that consists of an encoder, pooling, normalisation and linear maps needs no module class of its own: these
folders make it load with sentence-transformers alone. A *step* is ("Normalize", None), ("Dense", nn.Linear,
activation name) or ("Router", {language: [Dense steps]}).
"""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.dynamic_module_utils import custom_object_save
from transformers.utils import cached_file

from .encoder import layer_states, load_encoder
from .pooling import pool

HUB_KWARGS = ("revision", "token", "cache_dir", "local_files_only", "force_download", "proxies", "subfolder")
_TYPES = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "WeightedLayerPooling": "sentence_transformers.sentence_transformer.modules.weighted_layer_pooling"
    ".WeightedLayerPooling",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "Router": "sentence_transformers.base.modules.router.Router",
}
_ACTIVATIONS = {
    "linear": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
}
_POOLING = {"mean": "mean", "cls": "cls", "last": "lasttoken"}


class StockModel(PreTrainedModel):
    """An encoder and a head that stock modules can express; the base of the methods that train only a head.

    On disk the root is the encoder, with the head's settings under `stock_key` in its config.json and its weights in
    the module folders. A model without an encoder is saved as config.json and model.safetensors.

    A subclass sets `config_class` (with `encoder_config`, `layer`, `pooling`, `hidden_size` and a method `head_dict`),
    `stock_key`, and in its constructor `encoder` and `head`, a module with a method `stock_steps`.
    """

    stock_key: str
    main_input_name = "input_ids"

    def pooled_features(
        self, input_ids: Tensor | None, attention_mask: Tensor | None, features: Tensor | None, **inputs
    ) -> tuple[Tensor | None, Tensor]:
        """Hidden states (B, S, H), None where vectors were given, and the (B, H) vectors that the head maps.

        Raises:
            ValueError: when there is nothing to embed.
        """
        if features is not None:
            return None, features
        if self.encoder is None or input_ids is None:
            raise ValueError("give features=(B, H) vectors, or input_ids to a model that has an encoder.")
        attention_mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        inputs |= {"input_ids": input_ids, "attention_mask": attention_mask}
        states = layer_states(self.encoder, inputs, self.config.layer)
        return states, pool(states, attention_mask, self.config.pooling)

    @classmethod
    def from_pretrained(cls, name, *args, config: PreTrainedConfig | None = None, **kwargs):
        """Load a published folder or Hub repository: encoder from the root, head from the stock module folders.

        Raises:
            ValueError: when the folder holds no model of this kind, or a broken one.
        """
        hub_kwargs = {key: kwargs[key] for key in HUB_KWARGS if key in kwargs}
        stored, _ = PreTrainedConfig.get_config_dict(str(name), **hub_kwargs)
        if stored.get("model_type") == cls.config_class.model_type:
            return super().from_pretrained(name, *args, config=config, **kwargs)
        if cls.stock_key not in stored:
            raise ValueError(
                f"{name!r} is no {cls.stock_key} model: config.json has no {cls.stock_key!r} entry. "
                f"Use {cls.__name__}.from_encoder(...) to put a new head on an encoder."
            )
        kwargs.pop("trust_remote_code", None)
        with_info = kwargs.pop("output_loading_info", False)
        encoder = load_encoder(str(name), **kwargs)
        fields = {"encoder_config": copy.deepcopy(encoder.config), **stored[cls.stock_key]}
        model = cls(cls.config_class(**fields), encoder)
        model.name_or_path = str(name)

        def locate(path: str) -> str:
            return cached_file(str(name), path, **hub_kwargs)

        modules = json.loads(Path(locate("modules.json")).read_text(encoding="utf-8"))
        load_stock_weights(model.head.stock_steps(), modules, locate)
        model.head.to(device=encoder.device, dtype=encoder.dtype)
        model.eval()
        return (model, {"missing_keys": set(), "unexpected_keys": set()}) if with_info else model

    def save_pretrained(self, save_directory: str | Path, push_to_hub: bool = False, **kwargs) -> None:
        """Write the folder described above (without the tokenizer and the card; `hfxling.export` adds them)."""
        if self.encoder is None:
            super().save_pretrained(save_directory, push_to_hub=push_to_hub, **kwargs)
            return
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        config = self.encoder.config
        setattr(config, self.stock_key, self.config.head_dict())
        config.auto_map = {"AutoModel": f"{type(self).__module__.rsplit('.', 1)[-1]}.{type(self).__name__}"}
        if self.config.layer == "all":
            config.output_hidden_states = True  # sentence-transformers reads the layers from here
        custom_object_save(self, folder)
        write_stock_modules(
            folder,
            self.head.stock_steps(),
            hidden_size=self.config.hidden_size,
            pooling=self.config.pooling,
            average_layers=config.num_hidden_layers if self.config.layer == "all" else None,
            prompt=getattr(self.config, "prompt", None),
        )
        self.encoder.save_pretrained(folder, **kwargs)
        if push_to_hub:
            self.push_to_hub(**kwargs)


def write_stock_modules(
    folder: str | Path,
    steps: list[tuple],
    *,
    hidden_size: int,
    pooling: str,
    average_layers: int | None = None,
    prompt: str | None = None,
) -> None:
    """Write modules.json and one folder a module; the Transformer module's own files are the encoder in the root.

    Args:
        folder: an existing folder that holds the encoder.
        steps: what follows pooling, in order.
        hidden_size: width of the token states.
        pooling: "mean", "cls" or "last".
        average_layers: number of encoder layers when their mean is pooled instead of the last one.
        prompt: put before every text unless the caller gives another one.
    """
    folder = Path(folder)
    first = [("Transformer",)] + ([("WeightedLayerPooling", average_layers)] if average_layers else [])
    modules = []
    for index, step in enumerate([*first, ("Pooling", pooling), *steps]):
        path = "" if index == 0 else f"{index}_{step[0]}"
        modules.append({"idx": index, "name": str(index), "path": path, "type": _TYPES[step[0]]})
        if index:
            _write_step(folder / path, step, hidden_size)
    _write_json(folder / "modules.json", modules)
    settings = {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine"}
    if prompt:  # encode_query and encode_document have names of their own, which are empty by default
        settings |= {"prompts": dict.fromkeys(("query", "document", "text"), prompt), "default_prompt_name": "text"}
    _write_json(folder / "config_sentence_transformers.json", settings)


def load_stock_weights(steps: list[tuple], modules: list[dict], locate: Callable[[str], str]) -> None:
    """Fill the linear layers of `steps` from the folders that `modules` (the content of modules.json) names.

    Args:
        steps: as for `write_stock_modules`; their layers are changed in place.
        modules: parsed modules.json.
        locate: maps a path inside the repository to a local file.

    Raises:
        ValueError: when the folders' kinds are not those of the steps.
    """
    present = [module for module in modules if module["type"].rsplit(".", 1)[-1] in ("Normalize", "Dense", "Router")]
    kinds = [module["type"].rsplit(".", 1)[-1] for module in present]
    wanted = [step[0] for step in steps]
    if kinds != wanted:
        raise ValueError(f"modules.json lists {kinds} after pooling, the model's configuration asks for {wanted}.")
    for module, step in zip(present, steps):
        for suffix, linear in _linear_files(step):
            weights = load_file(locate(f"{module['path']}/{suffix}model.safetensors"))
            linear.load_state_dict({key.removeprefix("linear."): value for key, value in weights.items()})


def _write_step(folder: Path, step: tuple, hidden_size: int) -> None:
    kind = step[0]
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "Pooling":
        _write_json(folder / "config.json", {"embedding_dimension": hidden_size, "pooling_mode": _POOLING[step[1]]})
    elif kind == "Normalize":
        _write_json(folder / "config.json", {})
    elif kind == "WeightedLayerPooling":
        settings = {"embedding_dimension": hidden_size, "layer_start": 1, "num_hidden_layers": step[1]}
        _write_json(folder / "config.json", settings)
        save_file({"layer_weights": torch.ones(step[1])}, folder / "model.safetensors")
    elif kind == "Dense":
        _write_dense(folder, *step[1:])
    elif kind == "Router":
        _write_router(folder, step[1])


def _write_dense(folder: Path, linear: nn.Linear, activation: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": _ACTIVATIONS[activation],
    }
    _write_json(folder / "config.json", settings)
    save_file(
        {f"linear.{key}": value.detach().cpu().contiguous() for key, value in linear.state_dict().items()},
        folder / "model.safetensors",
    )


def _write_router(folder: Path, routes: dict[str, list[tuple]]) -> None:
    """One route a language and none by default: a text without `task` is an error, not the wrong language's map."""
    structure = {language: [f"{language}_{i}_Dense" for i in range(len(route))] for language, route in routes.items()}
    source, target = list(routes)[:2]
    settings = {
        "types": {name: _TYPES["Dense"] for names in structure.values() for name in names},
        "structure": structure,
        "parameters": {
            "default_route": None,
            "allow_empty_key": False,
            "route_mappings": {"('query', 'text')": source, "('document', 'text')": target},
        },
    }
    _write_json(folder / "router_config.json", settings)
    for language, route in routes.items():
        for name, step in zip(structure[language], route):
            _write_dense(folder / name, *step[1:])


def _linear_files(step: tuple) -> Iterator[tuple[str, nn.Linear]]:
    if step[0] == "Dense":
        yield "", step[1]
    elif step[0] == "Router":
        for language, route in step[1].items():
            for index, dense in enumerate(route):
                yield f"{language}_{index}_Dense/", dense[1]


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
