"""How a text-embeddings-inference server (1.9) reads a folder.

It reads config.json, tokenizer.json, sentence_bert_config.json, 1_Pooling and the Dense modules in modules.json. It
applies these one after the other after pooling, and normalises at the end; a Normalize between them is silently
skipped. If modules.json has any other module, such as a Router, it reads no Dense at all and still serves vectors.
"""

from __future__ import annotations

from pathlib import Path

from hfxling.encoders.identity import modules_of, read_json

# Encoders that the server has code for, on a CPU or a GPU.
ENCODERS = (
    *("bert", "camembert", "distilbert", "gemma3_text", "gte", "llama", "mistral", "modernbert", "mpnet"),
    *("nomic_bert", "qwen2", "qwen3", "roberta", "xlm-roberta"),
)
MODULES = ("Transformer", "Pooling", "Dense", "Normalize")
LINEAR = "torch.nn.modules.linear.Identity"
ACTIVATIONS = (LINEAR, "torch.nn.modules.activation.Tanh")


def server_fault(folder: str | Path, repo_id: str | None = None) -> str:
    """Why the server refuses a folder or gives other vectors than sentence-transformers; "" if it gives the same ones.

    `repo_id` is the folder's repository if its parts have repositories of their own; otherwise they are on branches.
    """
    folder = Path(folder)
    modules = modules_of(str(folder))
    if not modules:
        return "there is no encoder in it"
    kinds = [module["type"].removeprefix("sentence_transformers.models.") for module in modules]
    if "Router" in kinds:
        fault = "it treats its languages differently, and the server cannot be told one"
        return fault + _way_out(folder, folder / modules[kinds.index("Router")]["path"], repo_id)
    for kind in kinds:
        if kind not in MODULES:
            return f"the server knows no module {kind.rsplit('.', 1)[-1]}"
    if kinds[:2] != ["Transformer", "Pooling"]:
        return "it does not start with an encoder and its pooling"
    config = read_json(folder / "config.json")
    if config["model_type"] not in ENCODERS:
        return f"the server has no code for {config['model_type']} encoders"
    follows_norm = False
    ignored_norm = False
    for module, kind in zip(modules, kinds):
        follows_norm = follows_norm or kind == "Normalize"
        if kind == "Dense":
            dense = read_json(folder / module["path"] / "config.json")
            activation = dense["activation_function"]
            if activation not in ACTIVATIONS:
                return f"the server knows no {activation.rsplit('.', 1)[-1]} after a map"
            # Without bias, scaling a map's input only scales its output, and the norm at the end removes the scale.
            ignored_norm = ignored_norm or (follows_norm and (dense["bias"] or activation != LINEAR))
    if ignored_norm:
        return "the server passes over the Normalize before a Dense module, which gives other vectors"
    prompts = read_json(folder / "config_sentence_transformers.json")
    if prompts.get("default_prompt_name"):
        return f"the server puts no prompt before texts unless `--default-prompt-name {prompts['default_prompt_name']}`"
    return ""


def _way_out(folder: Path, router: Path, repo_id: str | None) -> str:
    """Where to find the part for one language that the server can read; "" if there is none."""
    parts = [name for name in read_json(router / "router_config.json")["structure"] if (folder / name).is_dir()]
    languages = [name for name in parts if not server_fault(folder / name)]
    if not languages:
        return ""
    if repo_id:
        return f": serve the part of a language, `--model-id {variant_id(repo_id, languages[-1])}`"
    return f": serve a branch, `--revision {languages[-1]}`"


def variant_id(repo_id: str, name: str) -> str:
    """The name of a variant's own repository, if it is not on a branch."""
    return f"{repo_id}-{name}"
