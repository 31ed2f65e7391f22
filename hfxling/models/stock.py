"""Stock sentence-transformers module folders, written and read beside an encoder's own files.

A model that consists of an encoder, pooling, normalisation and linear maps needs no module class of its own: these
folders make it load with sentence-transformers alone. They are in the schema that all its versions read, and other
servers too: module types of `sentence_transformers.models`, pooling as booleans. A *step* is ("Normalize", None),
("Dense", nn.Linear, activation name), ("Router", {language: [Dense steps]}) or ("NormalizeParts", number of parts),
which is the one module that sentence-transformers lacks: vectors of several layers, each at unit length.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel
from transformers.dynamic_module_utils import custom_object_save
from transformers.utils import ModelOutput, cached_file, can_return_tuple

from .encoder import layer_states, load_encoder
from .loading import hub_kwargs_of, load_whole, stored_config
from .pooling import POOLING_MODES, pool

SENTENCE_TRANSFORMER = {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine"}
ROUTES = ("query", "document")  # what encode_query and encode_document ask a Router for
_ACTIVATIONS = {
    "linear": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
}
_POOLING = {"cls": "cls_token", "mean": "mean_tokens", "last": "lasttoken"}
_POOLINGS = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")


@dataclass
class StockOutput(ModelOutput):
    """Output of a `StockModel`.

    Args:
        last_hidden_state: (B, S, H) token states of the pooled layer, those of the encoder itself; of several layers
            side by side; None for given vectors.
        pooled: (B, H) sentence vectors before the head.
        sentence_embedding: (B, H) unit vectors; None where the model needs a language for them and none was given.
    """

    last_hidden_state: Tensor | None = None
    pooled: Tensor | None = None
    sentence_embedding: Tensor | None = None


class StockConfig(PreTrainedConfig):
    """What the configurations of stock models share; `head_fields` are stored in the encoder's config.json.

    Args:
        encoder_config: config of the encoder; None for a head that works on vectors alone.
        hidden_size: H, width of the encoder's vectors; taken from `encoder_config` where there is one.
        layer: index into `hidden_states` that is pooled, "all" for the mean of the layers, None for the last one.
        pooling: "mean", "cls" or "last".
        prompt: put before every text, such as E5's "query: ". sentence-transformers applies it by itself; whoever calls
            the model with token ids puts it before the text.
    """

    sub_configs = {"encoder_config": AutoConfig}  # noqa: RUF012 - transformers reads it from the class
    head_fields = ()

    encoder_config: dict | PreTrainedConfig | None = None
    hidden_size: int = 768
    layer: int | str | list[int] | None = None
    pooling: str = "cls"
    prompt: str | None = None

    def __post_init__(self, **kwargs):
        if isinstance(self.encoder_config, dict):
            self.encoder_config = AutoConfig.for_model(**self.encoder_config)
        if self.encoder_config is not None:
            # A copy: transformers resets the attention implementation of a config that it finds inside another.
            self.encoder_config = copy.deepcopy(self.encoder_config)
            self.hidden_size = self.encoder_config.hidden_size
            self.max_position_embeddings = getattr(self.encoder_config, "max_position_embeddings", None)
        self.check_choices(pooling=POOLING_MODES)
        super().__post_init__(**kwargs)

    def check_choices(self, **choices: Sequence[str]) -> None:
        """Raise the ValueError that says which values a field may have."""
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(allowed)}.")

    @property
    def input_size(self) -> int:
        """Width of the vectors that the head maps."""
        return self.hidden_size

    def head_dict(self) -> dict:
        """The fields that describe the head."""
        return {name: getattr(self, name) for name in self.head_fields}

    def stored_fields(self) -> dict:
        """The same as config.json has them: a prompt only where there is one."""
        fields = self.head_dict()
        if not fields.get("prompt"):
            fields.pop("prompt", None)
        return fields


class StockModel(PreTrainedModel):
    """An encoder and a head that stock modules can express; the base of the methods that publish a stock folder.

    On disk the root is the encoder, with the head's settings under `stock_key` in its config.json and its weights in
    the module folders. It loads with `SentenceTransformer(folder)`, `AutoModel.from_pretrained(folder)` (the plain
    encoder), the same with `trust_remote_code=True` and the class's own `from_pretrained`. A model without an encoder,
    for vectors that come from elsewhere, is saved as config.json and model.safetensors.

    A subclass sets `config_class` (a `StockConfig`), `stock_key` and `head_class`, a module with a method
    `stock_steps` that is made from the configuration. One that gives more than the head's unit vectors has an `output`
    of its own.
    """

    stock_key: str
    head_class: type[nn.Module] | None = None
    any_encoder = False  # whether an encoder without an entry under `stock_key` is a model of this kind
    main_input_name = "input_ids"

    def __init__(self, config: StockConfig, encoder: PreTrainedModel | None = None):
        super().__init__(config)
        self.encoder = encoder
        if self.head_class:
            self.head = self.head_class(config)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """A head starts as its constructor leaves it."""

    def stock_steps(self) -> list[tuple]:
        """What follows pooling, as stock modules."""
        return self.head.stock_steps()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        features: Tensor | None = None,
        language: str | None = None,
        **inputs,
    ) -> StockOutput:
        """Embed token ids, or vectors that were computed before.

        Args:
            input_ids: (B, S) token ids of texts, a prompt of the configuration before them; or leave them out and give
                `features`.
            attention_mask: (B, S), all ones when left out; padding may stand on either side.
            features: (B, H) vectors of the frozen encoder; those of several layers side by side.
            language: of the whole batch, for models that treat their languages differently.
            **inputs: further encoder inputs, such as `token_type_ids`.

        Raises:
            ValueError: when there is nothing to embed, or features are of another width.
        """
        if features is not None:
            if features.shape[-1] != self.config.input_size:
                raise ValueError(f"features are {features.shape[-1]} wide, this model takes {self.config.input_size}.")
            return self.output(None, features, language)
        if self.encoder is None or input_ids is None:
            raise ValueError("give features=(B, H) vectors, or input_ids to a model that has an encoder.")
        attention_mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        inputs |= {"input_ids": input_ids, "attention_mask": attention_mask}
        states = layer_states(self.encoder, inputs, self.config.layer)
        return self.output(states, pool(states, attention_mask, self.config.pooling), language)

    def output(self, states: Tensor | None, pooled: Tensor, language: str | None) -> StockOutput:
        """What is given for (B, S, H) token states, None where vectors were given, and (B, H) pooled vectors."""
        return StockOutput(states, pooled, F.normalize(self.head(pooled), dim=-1))

    @classmethod
    def from_encoder(cls, name: str, *, hub_kwargs: dict | None = None, **head) -> "StockModel":
        """A new head on an encoder of the Hub or a folder.

        Args:
            name: Hub id or folder of the encoder.
            hub_kwargs: `revision`, `token`, `cache_dir`, ... for the download, or another `dtype` than float32.
            **head: fields of the configuration; `layer` as for `load_encoder`, by default that of the method's paper.
        """
        layer = head.setdefault("layer", cls.config_class.layer)
        encoder = load_encoder(name, layer, **({"dtype": torch.float32} | (hub_kwargs or {})))
        return cls(cls.config_class(encoder_config=encoder.config, **head), encoder).eval()

    @classmethod
    def from_pretrained(cls, name, *args, config: PreTrainedConfig | None = None, **kwargs):
        """Load a published folder or Hub repository: encoder from the root, head from the stock module folders.

        Raises:
            ValueError: when the folder holds no model of this kind, tensors are missing, left over or of another shape,
                or its modules are not those that its config.json describes.
        """
        hub_kwargs = hub_kwargs_of(kwargs)
        stored = stored_config(name, hub_kwargs)
        if stored.get("model_type") == cls.config_class.model_type:
            model, _ = load_whole(super().from_pretrained, name, *args, config=config, **kwargs)
            return model
        is_own = cls.stock_key in stored
        if not is_own and not cls.any_encoder:
            raise ValueError(
                f"{name!r} is no {cls.stock_key} model: config.json has no {cls.stock_key!r} entry. "
                f"Use {cls.__name__}.from_encoder(...) to put a new head on an encoder."
            )
        kwargs.pop("trust_remote_code", None)
        encoder = load_encoder(str(name), spare=not is_own, **kwargs)
        fields = stored.get(cls.stock_key, {})
        model = cls(cls.config_class(**{"encoder_config": encoder.config, **fields}), encoder)
        model.name_or_path = str(name)
        if is_own:
            model._load_stock(fields, hub_kwargs)
        if cls.head_class:
            model.head.to(device=encoder.device, dtype=encoder.dtype)
        return model.eval()

    def _load_stock(self, fields: dict, hub_kwargs: dict) -> None:
        """Fill the head from the folder, whose encoder and modules must be those that config.json's `fields` say."""
        name, depth = self.name_or_path, self.encoder.config.num_hidden_layers
        settings = self.config.head_dict()
        wrong = {key: value for key, value in fields.items() if key not in settings or settings[key] != value}
        layer = self.config.layer
        deepest = max(layer) if isinstance(layer, list) else layer
        if deepest not in (None, "all", depth):
            wrong["layer"] = layer
        if wrong:
            raise ValueError(
                f"{name!r}: the entry {self.stock_key!r} of its config.json says {wrong}, which is no setting or does "
                f"not fit its encoder of {depth} layers and width {self.encoder.config.hidden_size}: publish it again."
            )
        contents, tensors = self._stock_files()
        for path, content in contents.items():
            if not content:  # of Normalize, for which sentence-transformers 5 writes no file
                continue
            # A copy that sentence-transformers saved again, in its own schema, says the same.
            wanted, stored = _essence(path, content), _essence(path, _read(name, path, hub_kwargs))
            if wanted != {key: stored.get(key) for key in wanted}:
                raise ValueError(
                    f"{name!r}: {path} says {stored}, the model's configuration asks for {wanted}: publish it again."
                )
        for path, named in tensors.items():
            stored = _read(name, path, hub_kwargs)
            shapes = {key: tuple(value.shape) for key, value in stored.items()}
            wanted = {key: tuple(value.shape) for key, value in named.items()}
            if shapes != wanted:
                raise ValueError(f"{name!r}: {path} holds {shapes}, the model's configuration asks for {wanted}.")
            weights = stored.get("layer_weights")  # of WeightedLayerPooling, where this model takes the layers' mean
            if weights is not None and not torch.allclose(weights, weights.mean()):
                raise ValueError(
                    f"{name!r}: {path} weighs the layers unequally, which this class does not do: load the folder with "
                    "SentenceTransformer, which does."
                )
            with torch.no_grad():
                for key, value in named.items():  # `stock_files` names the head's own parameters, not copies
                    value.copy_(stored[key])

    def _stock_files(self) -> tuple[dict[str, object], dict[str, dict[str, Tensor]]]:
        config = self.config
        layers = self.encoder.config.num_hidden_layers if config.layer == "all" else None
        return stock_files(
            self.stock_steps(), config.input_size, config.pooling, average_layers=layers, prompt=config.prompt
        )

    def save_pretrained(self, save_directory: str | Path, push_to_hub: bool = False, **kwargs) -> None:
        """Write the folder described above (without the tokenizer and the card; `hfxling.export` adds them)."""
        if self.encoder is None:
            super().save_pretrained(save_directory, push_to_hub=push_to_hub, **kwargs)
            return
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        config = self.encoder.config
        setattr(config, self.stock_key, self.config.stored_fields())
        config.auto_map = {"AutoModel": f"{type(self).__module__.rsplit('.', 1)[-1]}.{type(self).__name__}"}
        if self.config.layer == "all":
            config.output_hidden_states = True  # sentence-transformers reads the layers from here
        custom_object_save(self, folder)
        settings, tensors = self._stock_files()
        write_files(folder, settings, tensors)
        self.encoder.save_pretrained(folder, **kwargs)
        _add_old_rope_keys(folder / "config.json")  # of which there is none before
        if push_to_hub:
            self.push_to_hub(**kwargs)


def stock_files(
    steps: list[tuple], hidden_size: int, pooling: str, *, average_layers: int | None = None, prompt: str | None = None
) -> tuple[dict[str, object], dict[str, dict[str, Tensor]]]:
    """All that a stock folder holds beside encoder and tokenizer, by path: JSON contents, and named tensors.

    Args:
        steps: what follows pooling, in order.
        hidden_size: width of the token states, those of several layers side by side.
        pooling: "mean", "cls" or "last".
        average_layers: number of encoder layers when their mean is pooled instead of the last one.
        prompt: put before every text unless the caller gives another one.
    """
    modules, settings, tensors = [], {}, {}
    width = {"word_embedding_dimension": hidden_size}
    encoder_steps = [("Transformer",), ("WeightedLayerPooling",)] if average_layers else [("Transformer",)]
    for index, (kind, *step) in enumerate([*encoder_steps, ("Pooling",), *steps]):
        # The encoder lies in the root.
        folder = f"{index}_{kind}" if index else ""
        path = f"{folder}/config.json"
        modules.append({"idx": index, "name": str(index), "path": folder, "type": module_type(kind)})
        if kind == "WeightedLayerPooling":  # equal weights: the mean of all layers but the embedding output
            settings[path] = width | {"layer_start": 1, "num_hidden_layers": average_layers}
            tensors[f"{folder}/model.safetensors"] = {"layer_weights": torch.ones(average_layers)}
        elif kind == "Pooling":
            chosen = {f"pooling_mode_{mode}": mode == _POOLING[pooling] for mode in _POOLINGS}
            settings[path] = width | chosen | {"include_prompt": True}
        elif kind == "Normalize":
            settings[path] = {}
        elif kind == "NormalizeParts":
            settings[path] = {"parts": step[0]}
        elif kind == "Dense":
            _add_dense(folder, *step, settings, tensors)
        elif kind == "Router":
            (routes,) = step
            structure: dict[str, list[str]] = {}
            for lang, route in routes.items():
                structure[lang] = [f"{lang}_{number}_Dense" for number in range(len(route))]
                for module, (_, *dense) in zip(structure[lang], route):
                    _add_dense(f"{folder}/{module}", *dense, settings, tensors)
            settings[f"{folder}/router_config.json"] = router_config(structure)
    settings_of_model = dict(SENTENCE_TRANSFORMER)
    if prompt:  # encode_query and encode_document have names of their own, which are empty by default
        settings_of_model |= {"prompts": dict.fromkeys((*ROUTES, "text"), prompt), "default_prompt_name": "text"}
    return {"modules.json": modules, "config_sentence_transformers.json": settings_of_model} | settings, tensors


def module_type(kind: str) -> str:
    """The name of a module class that every version of sentence-transformers resolves; of ours that in the folder."""
    return "pooling.NormalizeParts" if kind == "NormalizeParts" else f"sentence_transformers.models.{kind}"


def router_config(structure: dict[str, list[str]]) -> dict:
    """Content of router_config.json: a route a language, the first two under the names of `ROUTES` as well.

    There is no default route: a text without `task` is an error, not the wrong language's map. The two names are
    routes because sentence-transformers 5 has no `route_mappings`; both routes lead through the same modules.

    Args:
        structure: folder names of each language's modules, such as {"lo": ["lo_0_Dense"]}.
    """
    modules = list(chain.from_iterable(structure.values()))
    return {
        "types": {module: module_type(module.rsplit("_", 1)[-1]) for module in modules},
        "structure": structure | dict(zip(ROUTES, structure.values())),
        "parameters": {"default_route": None, "allow_empty_key": False},
    }


# What sentence-transformers 6 writes of an encoder whose last hidden states are pooled.
_PLAIN_TRANSFORMER = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}


def with_names_of_all_versions(folder: Path) -> None:
    """Give the modules of a folder that sentence-transformers wrote names and settings that earlier versions know, too.

    Modules of a folder's own keep theirs.
    """

    def known(kind: str) -> str:
        return module_type(kind.rpartition(".")[2]) if kind.startswith("sentence_transformers.") else kind

    modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    for module in modules:
        module["type"] = known(module["type"])
        path = folder / module["path"]
        if module["type"] == module_type("Transformer"):
            settings = path / "sentence_bert_config.json"
            limit = json.loads((path / "tokenizer_config.json").read_text(encoding="utf-8")).get("model_max_length")
            if json.loads(settings.read_text(encoding="utf-8")) == _PLAIN_TRANSFORMER and limit:
                write_json(settings, {"do_lower_case": False, "max_seq_length": limit})
        if module["type"] == module_type("Pooling"):
            pooling = json.loads((path / "config.json").read_text(encoding="utf-8"))
            if isinstance(pooling.get("pooling_mode"), str):
                write_json(path / "config.json", _essence("config.json", pooling))
        if module["type"] in (module_type("Dense"), module_type("Normalize")) and (path / "config.json").is_file():
            _drop_default_names(path / "config.json")
        if module["type"] == module_type("Router"):
            router = json.loads((path / "router_config.json").read_text(encoding="utf-8"))
            router["types"] = {name: known(kind) for name, kind in router["types"].items()}
            write_json(path / "router_config.json", router)
            for config in path.glob("*_Dense/config.json"):
                _drop_default_names(config)
    write_json(folder / "modules.json", modules)


def _drop_default_names(path: Path) -> None:
    """Leave out of a module's settings what earlier versions do not know and is so by default."""
    settings = json.loads(path.read_text(encoding="utf-8"))
    for name in ("module_input_name", "module_output_name"):
        if settings.get(name) == "sentence_embedding":
            del settings[name]
    write_json(path, settings)


def write_files(folder: Path, settings: dict[str, object], tensors: dict[str, dict[str, Tensor]]) -> None:
    """Write JSON contents and named tensors, both by path, into an existing folder."""
    for path in (*settings, *tensors):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
    for path, content in settings.items():
        write_json(folder / path, content)
    for path, named in tensors.items():
        stored = {key: value.detach().cpu().contiguous() for key, value in named.items()}
        save_file(stored, folder / path)


def _read(name: str, path: str, hub_kwargs: dict) -> Any:
    """Content of a JSON or safetensors file of a folder or repository."""
    try:
        file = Path(cached_file(name, path, **hub_kwargs))
        return load_file(file) if file.suffix == ".safetensors" else json.loads(file.read_text(encoding="utf-8"))
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise ValueError(f"{name!r}: {path} cannot be read ({str(error).splitlines()[0]}).") from None


def write_json(path: Path, value: object, *, sort_keys: bool = False) -> None:
    """Write JSON for people to read."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=sort_keys)
    path.write_text(text + "\n", encoding="utf-8")


def _essence(path: str, content: object) -> dict:
    """What a JSON file says about the computation, whichever version of sentence-transformers wrote it."""
    if path == "modules.json":
        return {"modules": [f"{module['path']}:{module['type'].rsplit('.', 1)[-1]}" for module in content]}
    if path == "config_sentence_transformers.json":
        return {"prompt": content.get("prompts", {}).get(content.get("default_prompt_name"))}
    if path.endswith("router_config.json"):
        return {"routes": {key: value for key, value in content["structure"].items() if key not in ROUTES}}
    content = dict(content)
    if "embedding_dimension" in content:
        content["word_embedding_dimension"] = content.pop("embedding_dimension")
    if "pooling_mode" in content:  # "cls" for cls_token, "mean" for mean_tokens, "lasttoken"
        chosen = str(content.pop("pooling_mode")).split("_token")[0]
        content |= {f"pooling_mode_{mode}": mode.split("_token")[0] == chosen for mode in _POOLINGS}
    return content


def _add_dense(folder: str, linear: nn.Linear, activation: str, settings: dict, tensors: dict) -> None:
    settings[f"{folder}/config.json"] = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": _ACTIVATIONS[activation],
    }
    tensors[f"{folder}/model.safetensors"] = {f"linear.{key}": value for key, value in linear.named_parameters()}


def _add_old_rope_keys(path: Path) -> None:
    """Rotary settings under the keys of transformers 4, which would otherwise take its defaults without a word."""
    config = json.loads(path.read_text(encoding="utf-8"))
    rope = config.get("rope_parameters") or {}
    if "rope_theta" not in rope:  # no rotary positions, or settings by kind of layer
        return
    config["rope_theta"] = rope["rope_theta"]
    if rope.get("rope_type", "default") != "default":
        config["rope_scaling"] = {key: value for key, value in rope.items() if key != "rope_theta"}
    write_json(path, config, sort_keys=True)  # as transformers does
