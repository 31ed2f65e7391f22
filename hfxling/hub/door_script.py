"""Open published folders through the doors (ways to load) named on the command line, in any environment.

This is a program of its own, which imports nothing of hfxling before the last door. It reads jobs.json in the working
directory and prints one line of JSON: the vectors by folder, door and language.
"""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import sentence_transformers
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer


def stock(name: str, job: dict, flag: bool = False) -> dict:
    """sentence-transformers: `task` takes a language; encode_query and encode_document are the first two.

    A folder with a module of ours needs the flag, and says so without it. Before sentence-transformers 6 a local folder
    ran such a module anyway, but not the encoder's code, which it needs.
    """
    texts = job["texts"]
    types = Path(name, "modules.json").read_text(encoding="utf-8")
    if not flag and "pooling." in types and int(sentence_transformers.__version__.partition(".")[0]) < 6:
        return {}
    try:
        model = SentenceTransformer(name, device="cpu", trust_remote_code=flag)
    except ValueError as error:
        if "trust_remote_code=True" in str(error):
            return {}
        raise
    vectors = {}
    for language, lines in texts.items():
        options = {"task": language} if language else {}
        vectors[language] = model.encode(lines, **options)
    languages = [*texts][:2] * 2  # one may be for both
    for encode, language in zip((model.encode_query, model.encode_document), languages):
        assert abs(encode(texts[language]) - vectors[language]).max() < 1e-6
    if job["has_routes"]:  # a language that is missing or unknown is never guessed
        for unknown in ({}, {"task": "xx"}):
            try:
                model.encode(texts[languages[0]], **unknown)
            except ValueError:
                continue
            raise SystemExit(f"{name} embedded a text of the language {unknown}.")
    return vectors


def transformers(load: Callable, name: str, job: dict) -> dict:
    """A model class: token ids in, `sentence_embedding` out."""
    model, vectors = load(name), {}
    for language, lines in job["texts"].items():
        if len(getattr(model.config, "views", [])) > 1:  # token ids of each view; the model cuts texts itself
            vectors[language] = torch.from_numpy(model.encode(lines, language).toarray())
            continue
        subfolder = f"tokenizer_{language}"
        if not Path(name, subfolder).is_dir():  # one tokenizer for all languages
            subfolder = ""
        tokenizer = AutoTokenizer.from_pretrained(name, subfolder=subfolder)
        lines = [(job["prompt"] or "") + line for line in lines]
        batch = tokenizer(lines, padding=True, truncation=True, return_tensors="pt")
        options = {"language": language} if language else {}
        with torch.inference_mode():
            vectors[language] = model(batch["input_ids"], batch["attention_mask"], **options).sentence_embedding
    return vectors


def remote(name: str) -> torch.nn.Module:
    """Load the class in the folder."""
    model = AutoModel.from_pretrained(name, trust_remote_code=True)
    assert type(model).__module__.startswith("transformers_modules"), type(model)
    return model


def local(name: str, job: dict) -> torch.nn.Module:
    """Load the class in the package."""
    if sys.modules["hfxling"] is None:
        del sys.modules["hfxling"]
        sys.path.insert(0, os.environ["HFXLING"])
    hfxling = import_module("hfxling")
    assert hfxling.__file__.startswith(os.environ["HFXLING"])
    return getattr(hfxling, job["class"]).from_pretrained(name)


def sparse(name: str, job: dict) -> dict:
    """Vectors from a lexical model's folder of sparse vectors."""
    if not Path(name, "sparse").is_dir():
        return {}
    from sentence_transformers import SparseEncoder

    model = SparseEncoder(f"{name}/sparse", device="cpu", trust_remote_code=True)
    assert type(model[0]).__module__.startswith("transformers_modules"), type(model[0])
    return {
        language: model.encode_query(lines, language=language, convert_to_sparse_tensor=False)
        for language, lines in job["texts"].items()
    }


DOORS = {
    "sentence-transformers": stock,
    "with the flag": lambda name, job: stock(name, job, flag=True),
    "sparse": sparse,
    "remote code": lambda name, job: transformers(remote, name, job),
    "hfxling": lambda name, job: transformers(lambda name: local(name, job), name, job),
}


def main() -> None:
    """Open every job's folder through the doors of the command line."""
    sys.modules["hfxling"] = None  # importing it is an error
    vectors = {}
    for name, job in json.loads(Path("jobs.json").read_text(encoding="utf-8")).items():
        vectors[name] = {}
        for door in sys.argv[1:]:
            by_language = DOORS[door](name, job)
            vectors[name][door] = {language: rows.tolist() for language, rows in by_language.items()}
    sys.stdout.write(json.dumps(vectors) + "\n")


if __name__ == "__main__":
    main()
