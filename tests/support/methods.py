"""Every method as a row: tiny models of it, the folders that they are published as, and what these must give."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from tiny_models import HIDDEN, save_tiny, tiny_aligner
from transformers import AutoTokenizer, PreTrainedModel

from hfxling.data.parallel import load_parallel
from hfxling.data.segment import learn_vocabularies, load_vocabularies
from hfxling.fit import fit_lexical, save_lexical
from hfxling.hub import door_script
from hfxling.hub.writing import export
from hfxling.methods.aligner.export import export_aligner
from hfxling.methods.lexical.export import export_lexical, load_lexical
from hfxling.models import AlignerModel, DapModel, DisentanglerModel, LexicalModel, SiameseModel

TEXTS = ["我爱吃苹果", "tôi ăn", "hello, is it raining?"]
PROMPT = "is it, in "
LANGUAGES = ["zh", "vi"]
WORDS = {"lo": ["ຂ້ອຍ ກິນ ເຂົ້າ", "ລາວ ກິນ ປາ", "ຂ້ອຍ ຮັກ ລາວ"], "zh": ["我吃饭", "他吃鱼", "我爱他"]}
SENTENCES = {
    language: sorted(load_parallel("sample", "en", language, split="test")["target"], key=len)[:3]
    for language in ("id", "lo", "th", "vi", "zh")
}
FAMILIES = {kind: {"encoder": kind} for kind in ("xlm-roberta", "distilbert", "xlm", "mt5")}


@dataclass(frozen=True)
class Method:
    """A row of the matrix.

    Args:
        cls: its model.
        variants: settings of the folders that are written, by name; the first stands for the method where one will do.
        build: from a scratch folder and settings to a model with weights that are no identity.
        write: publishes a model with what lies in another folder: the scratch one, or a published one.
        misfits: path of a JSON file and a change of it that the variant's other files contradict.
        right_padding_only: where padding on the left is an error.
        static: from a model and its inputs to what SentenceTransformer gives, where that is not `sentence_embedding`.
    """

    cls: type[PreTrainedModel]
    variants: dict[str, dict]
    build: Callable[..., PreTrainedModel]
    write: Callable[[PreTrainedModel, Path, Path], None]
    misfits: list[tuple[str, Callable[[dict], object]]] = field(default_factory=list)
    right_padding_only: bool = False
    static: Callable[..., torch.Tensor] | None = None


def on_encoder(cls, pooling: str = "mean"):
    """Build `cls` on a tiny encoder, every parameter of the head moved from its start."""

    def build(scratch: Path, encoder: str = "bert", **settings) -> PreTrainedModel:
        save_tiny(encoder, scratch)
        settings = {"pooling": pooling} | settings
        torch.manual_seed(1)
        model = (DapModel.from_pretrained if cls is DapModel else cls.from_encoder)(str(scratch), **settings)
        with torch.no_grad():
            for parameter in getattr(model, "head", torch.nn.Module()).parameters():
                parameter.add_(torch.randn_like(parameter) * 0.2)
        if cls is SiameseModel:
            out = model.config.output_size or model.config.input_size
            model.head.set_means({lang: torch.randn(out) * 0.1 for lang in LANGUAGES})
            size = model.config.input_size
            model.head.set_input_maps({lang: (torch.eye(size), torch.randn(size) * 0.1) for lang in LANGUAGES})
        return model

    return build


def write_stock(model: PreTrainedModel, source: Path, folder: Path) -> None:
    """Publish with the tokenizer of `source`."""
    export(model, AutoTokenizer.from_pretrained(source), folder)


def new_aligner(scratch: Path, **settings) -> AlignerModel:
    """An untrained aligner; its vocabularies lie in the scratch folder."""
    vocabularies = learn_vocabularies(WORDS, size=60, pieces=80)
    model = tiny_aligner(vocabularies, **settings)
    export_aligner(model, vocabularies, scratch)
    return model


def write_aligner(model: AlignerModel, source: Path, folder: Path) -> None:
    """Publish with the vocabularies of `source`."""
    export_aligner(model, load_vocabularies(str(source), model.config.languages), folder)


def static_vectors(model: AlignerModel, input_ids, attention_mask, language: str) -> torch.Tensor:
    """Mean of a text's static word vectors at unit length."""
    words = model.static_table(language)[input_ids] * attention_mask[:, :, None]
    return F.normalize(words.sum(1), dim=-1)


def new_lexical(scratch: Path, pairs: list[tuple[str, str]], **settings) -> LexicalModel:
    """Links of a little text."""
    texts = {pair: load_parallel("sample", *pair, split="train")[:25] for pair in pairs}
    sides = {pair: (rows["source"], rows["target"]) for pair, rows in texts.items()}
    model = fit_lexical(sides, rank=8, **settings)
    save_lexical(model, scratch)
    return model


def write_lexical(model: LexicalModel, source: Path, folder: Path) -> None:
    """Publish with the static vectors of `source`."""
    model.static = load_lexical(source).static
    export_lexical(model, folder)


def static_means(model: LexicalModel, input_ids, attention_mask, language: str) -> torch.Tensor:
    """Mean of a text's static vectors at unit length."""
    words = torch.from_numpy(model.static[language])[input_ids] * attention_mask[:, :, None]
    return F.normalize(words.sum(1), dim=-1)


def setting(key: str, value: object):
    """A change of a JSON object: the entry under a dotted path becomes `value`."""
    *folders, last = key.split(".")

    def change(content: dict) -> dict:
        place = content
        for name in folders:
            place = place[name]
        assert place.get(last) != value
        place[last] = value
        return content

    return change


def without(kind: str):
    """A change of modules.json: no module of that kind."""
    return lambda modules: [module for module in modules if not module["type"].endswith(f".{kind}")]


METHODS = {
    "siamese": Method(
        SiameseModel,
        {
            "centred": {"layer": 2, "centering": "train", "languages": LANGUAGES},
            "paper": {"layer": 2},
            "raw input": {"layer": 2, "normalize_input": False, "bias": True},
            "embeddings": {"layer": 0},
            "all layers": {"layer": "all"},
            "last layer, cls": {"layer": None, "pooling": "cls"},
            "tanh": {"layer": 1, "head": "tanh"},
            "relu": {"layer": 1, "head": "relu"},
            "two layers": {"layer": 1, "head": "tanh2", "bias": True},
            "per language": {"layer": 1, "per_language": True, "bias": True, "languages": LANGUAGES},
            "per language, centred": {
                "layer": 1,
                "per_language": True,
                "centering": "train",
                "languages": LANGUAGES,
            },
            "centred input": {"layer": 1, "center_input": True, "bias": True, "languages": LANGUAGES},
            "one language": {"layer": 1, "per_language": True, "centering": "train", "languages": ["vi"]},
            "one language, raw input": {
                "layer": 1,
                "per_language": True,
                "normalize_input": False,
                "bias": True,
                "languages": ["vi"],
            },
            "narrower": {"layer": 1, "output_size": 6},
            "two layers, shared": {"layer": [0, 2], "bias": True},
            "two layers, cls": {"layer": [1, 2], "pooling": "cls", "head": "tanh"},
            "three layers, centred": {
                "layer": [0, 1, 3],
                "per_language": True,
                "center_input": True,
                "centering": "train",
                "output_size": HIDDEN,
                "bias": True,
                "languages": LANGUAGES,
            },
            **{f"two layers, {kind}": {"layer": [0, 2]} | family for kind, family in FAMILIES.items() if kind != "mt5"},
            **{kind: {"layer": 2} | family for kind, family in FAMILIES.items()},
        },
        on_encoder(SiameseModel),
        write_stock,
        [
            ("config.json", setting("siamese.layer", 1)),
            ("config.json", setting("siamese.layer", "all")),
            ("config.json", setting("siamese.pooling", "cls")),
            ("config.json", setting("siamese.bias", True)),
            ("config.json", setting("siamese.head", "tanh")),
            ("config.json", setting("siamese.head", "tanh2")),
            ("config.json", setting("siamese.normalize_input", False)),
            ("config.json", setting("siamese.centering", "none")),
            ("config.json", setting("siamese.per_language", True)),
            ("config.json", setting("siamese.languages", ["zh", "th"])),
            ("config.json", setting("siamese.hidden_size", 8)),
            ("config.json", setting("siamese.what", 1)),
            ("config.json", setting("num_hidden_layers", 1)),
            ("1_Pooling/config.json", setting("pooling_mode_cls_token", True)),
            ("3_Dense/config.json", setting("activation_function", "torch.nn.modules.activation.Tanh")),
            ("modules.json", without("Dense")),
            ("modules.json", without("Router")),
        ],
    ),
    "dap": Method(
        DapModel,
        {"bert": {}, "mean": {"pooling": "mean"}, "xlm-roberta": FAMILIES["xlm-roberta"]},
        on_encoder(DapModel, "cls"),
        write_stock,
        [
            ("config.json", setting("dap.pooling", "mean")),
            ("config.json", setting("dap.layer", 2)),
            ("config.json", setting("num_hidden_layers", 2)),
            ("1_Pooling/config.json", setting("pooling_mode_mean_tokens", True)),
            ("modules.json", without("Normalize")),
        ],
    ),
    "disentangler": Method(
        DisentanglerModel,
        {
            "cls": {"pooling": "cls"},
            "mean, unit vectors": {"pooling": "mean", "normalize_input": True},
            "middle layer": {"layer": 1, "bias": False},
            "all layers": {"layer": "all"},
            "prompt": {"prompt": PROMPT},
            "language": {"part": "language"},
            "last token, padded on the left": {"encoder": "qwen3", "pooling": "last", "prompt": PROMPT},
            **{kind: FAMILIES[kind] for kind in ("xlm-roberta", "mt5")},
        },
        on_encoder(DisentanglerModel),
        write_stock,
        [
            ("config.json", setting("disentangler.layer", 2)),
            ("config.json", setting("disentangler.layer", "all")),
            ("config.json", setting("disentangler.pooling", "mean")),
            ("config.json", setting("disentangler.prompt", "query: ")),
            ("config.json", setting("disentangler.bias", False)),
            ("config.json", setting("disentangler.normalize_input", True)),
            (
                "config_sentence_transformers.json",
                lambda about: about | {"prompts": {"x": "y"}, "default_prompt_name": "x"},
            ),
            ("1_Pooling/config.json", setting("pooling_mode_mean_tokens", True)),
            ("modules.json", without("Dense")),
        ],
    ),
    "aligner": Method(
        AlignerModel,
        {"lo and zh": {}, "base": {"contrastive_weight": 0.0}},
        new_aligner,
        write_aligner,
        [
            ("config.json", setting("layers", 2)),
            ("config.json", setting("size", 10)),
            ("config.json", setting("vocab_sizes.zh", 5)),
            ("config.json", setting("contrastive_weight", 0.0)),
            ("config.json", setting("languages", ["lo"])),
        ],
        right_padding_only=True,
        static=static_vectors,
    ),
    "lexical": Method(
        LexicalModel,
        {
            "id and vi": {"pairs": [("id", "vi")], "views": ["fine"]},
            "lo, zh and th": {"pairs": [("lo", "zh"), ("th", "zh")], "views": ["fine"]},
            "plain": {"pairs": [("zh", "vi")], "views": ["fine"], "length_prior": 0.0, "hub_weight": 0.0},
        },
        new_lexical,
        write_lexical,
        [
            ("config.json", setting("languages", ["vi"])),
            ("config.json", setting("vocab_sizes.vi", [5])),
            ("config.json", setting("links.id:vi", [7])),
            ("config.json", setting("views", ["fine", "words"])),
        ],
        static=static_means,
    ),
}


def texts_of(model: PreTrainedModel) -> dict[str, list[str]]:
    """Texts by the language that the model must be told; "" where it needs none."""
    if isinstance(model, AlignerModel):
        return WORDS
    if model.config.model_type == "hfxling-lexical":
        return {language: SENTENCES[language] for language in model.config.languages}
    needs_language = getattr(model.config, "needs_language", False)
    return dict.fromkeys(model.config.languages if needs_language else [""], TEXTS)


def tokenizer_of(folder: Path, language: str):
    """The tokenizer of a published folder, or the one of a language."""
    own = f"tokenizer_{language}"
    return AutoTokenizer.from_pretrained(folder, subfolder=own if (folder / own).is_dir() else "")


def tokens(model: PreTrainedModel, tokenizer, texts: list[str], language: str = "", **padding) -> dict:
    """Inputs of a model; padded text has the positions of unpadded text."""
    texts = [(getattr(model.config, "prompt", None) or "") + text for text in texts]
    batch = tokenizer(texts, **{"padding": True, "truncation": True, "return_tensors": "pt"} | padding)
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    config = getattr(getattr(model, "encoder", None), "config", model.config)
    if padding.get("padding_side") == "left" and config.model_type == "bert":
        inputs["position_ids"] = (inputs["attention_mask"].cumsum(1) - 1).clamp(min=0)
    return inputs | ({"language": language} if language else {})


@torch.inference_mode()
def embed(model: PreTrainedModel, tokenizer, texts: list[str], language: str = "", **padding) -> torch.Tensor:
    """Sentence vectors (B, H)."""
    return model(**tokens(model, tokenizer, texts, language, **padding)).sentence_embedding


class Published(NamedTuple):
    """What was written, and the (B, H) vectors of `texts_of` the model by language."""

    model: PreTrainedModel
    method: Method
    vectors: dict[str, torch.Tensor]  # the model's own
    stock: dict[str, torch.Tensor]  # what SentenceTransformer must give


def publish_all(root: Path, variants: dict[str, list[str]] | None = None) -> dict[str, Published]:
    """Write every variant of every method below `root`, or those that are named by method; by folder name."""
    written = {}
    for name, method in METHODS.items():
        chosen = method.variants if variants is None else {key: method.variants[key] for key in variants[name]}
        for variant, settings in chosen.items():
            folder = root / re.sub(r"\W+", "_", f"{name}_{variant}")  # transformers wants an identifier
            scratch = root / "scratch" / folder.name
            model = method.build(scratch, **settings)
            method.write(model, scratch, folder)
            inputs = {
                language: tokens(model, tokenizer_of(folder, language), texts, language)
                for language, texts in texts_of(model).items()
            }
            with torch.inference_mode():
                own = {language: model(**batch).sentence_embedding for language, batch in inputs.items()}
            stock = (
                {language: method.static(model, **batch) for language, batch in inputs.items()}
                if method.static
                else own
            )
            written[folder.name] = Published(model, method, own, stock)
    return written


def needs_flag(folder: Path) -> bool:
    """Whether a folder has a module that sentence-transformers lacks."""
    return "pooling.NormalizeParts" in (folder / "modules.json").read_text(encoding="utf-8")


def open_doors(root: Path, written: dict[str, Published], doors: list[str], python: str = sys.executable) -> dict:
    """Embed the texts in a fresh process that has `hfxling/hub/door_script.py` only.

    Returns:
        by folder name, door and language: vectors. The process printed nothing, but for sentence-transformers' notice
        that a folder has a prompt.
    """
    jobs = {
        name: {
            "class": type(model).__name__,
            "texts": texts_of(model),
            "prompt": getattr(model.config, "prompt", None),
            "has_routes": any((root / name).rglob("router_config.json")),
        }
        for name, (model, *_) in written.items()
    }
    (root / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    path = str(Path(__file__).parents[2])
    environment = os.environ | {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HOME": str(root / "home"), "HFXLING": path}
    environment.pop("PYTHONPATH", None)
    command = [python, "-P", door_script.__file__, *doors]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-3000:]
    said = [line for line in run.stderr.splitlines() if not line.startswith("Default prompt name is set to")]
    assert said == [], said
    *printed, found = run.stdout.splitlines()
    assert printed == [], printed
    return json.loads(found)
