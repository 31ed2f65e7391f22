"""How a published model is used: snippets for the clients that read its folder, with {repo} for the repository."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from hfxling.models.stock import ROUTES

from .served import server_fault

TEI, FASTEMBED, LANGCHAIN = "text-embeddings-inference", "fastembed", "LangChain"
ONNX = "onnx/model.onnx"
_EXAMPLES = {
    "en": "It is raining today.",
    "zh": "今天下雨。",
    "vi": "Hôm nay trời mưa.",
    "th": "วันนี้ฝนตก",
    "id": "Hari ini hujan.",
    "lo": "ມື້ນີ້ຝົນຕົກ",
    "ar": "إنها تمطر اليوم.",
    "bn": "আজ বৃষ্টি হচ্ছে।",
    "de": "Heute regnet es.",
    "es": "Hoy llueve.",
    "fr": "Il pleut aujourd'hui.",
    "hi": "आज बारिश हो रही है।",
    "it": "Oggi piove.",
    "ja": "今日は雨が降っています。",
    "ko": "오늘은 비가 와요.",
    "ms": "Hari ini hujan.",
    "nl": "Het regent vandaag.",
    "pt": "Hoje está chovendo.",
    "ru": "Сегодня идёт дождь.",
    "tr": "Bugün yağmur yağıyor.",
}


def example(language: str) -> str:
    """A sentence of a language; English for one without."""
    return _EXAMPLES.get(language, _EXAMPLES["en"])


def standard_snippets(languages: Sequence[str], arguments: str = "", *, flag: bool = False) -> dict[str, str]:
    """How a sentence encoder is loaded, by title, with {repo} for the repository.

    Args:
        languages: of queries and documents.
        arguments: further arguments of the method's own model, such as `, language="zh"`.
        flag: the folder has a module of its own, which sentence-transformers loads with `trust_remote_code=True` only.
    """
    source, target = (*languages, *languages)[:2]
    queries = json.dumps([example(source)], ensure_ascii=False)
    documents = json.dumps([example(target)], ensure_ascii=False)
    trust = ", trust_remote_code=True" if flag else ""
    title = f"With sentence-transformers {'and the code of this repository' if flag else 'alone'}"
    return {
        title: f"""from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{{repo}}"{trust})
source = model.encode_query({queries})  # {source}
target = model.encode_document({documents})  # {target}
print(model.similarity(source, target))""",
        "With transformers, as the method's own model": f"""import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{{repo}}", trust_remote_code=True)
model = AutoModel.from_pretrained("{{repo}}", trust_remote_code=True).eval()
batch = tokenizer({queries}, padding=True, truncation=True, return_tensors="pt")
with torch.no_grad():
    embeddings = model(**batch{arguments}).sentence_embedding""",
    }


def fused_snippet(lexical: str, languages: Sequence[str]) -> str:
    """How a dense model is used together with the lexical one that its fusion was made for."""
    source, target = languages[:2]
    candidates = json.dumps([example(target), example("en")], ensure_ascii=False)
    return f"""import hfxling

both = {{"model": "{{repo}}", "lexical": "{lexical}", "languages": ("{source}", "{target}")}}
found = hfxling.nearest(["{example(source)}"], candidates={candidates}, **both)
print(found.table())
pairs = hfxling.mine(["{example(source)}"], {candidates}, k=1, **both)
print(pairs.to_text())"""


def clients_of(folder: Path) -> dict[str, str]:
    """Servers and frameworks, and for each why it cannot read a folder.

    "" where it can; for LangChain that, or the words `flag` and `routes`, the latter with the languages it must name;
    for fastembed that, or `files` with what lies beside the ONNX file.
    """
    modules = _read(folder / "modules.json") or []
    if not modules:
        return {}
    kinds = [module["type"].rsplit(".", 1)[-1] for module in modules]
    flag = ["flag"] * ("NormalizeParts" in kinds)
    fault = "it has a module of its own, which needs trust_remote_code=True" * bool(flag)
    routes: dict[str, None] = {}
    for path in folder.rglob("router_config.json"):
        routes |= dict.fromkeys(_read(path)["structure"])
    routes = [name for name in routes if name not in ROUTES]
    langchain = " ".join([*flag, *(["routes", *routes] if routes else [])])
    return {TEI: fault or server_fault(folder), LANGCHAIN: langchain, FASTEMBED: _fastembed_fault(folder)}


def _fastembed_fault(folder: Path) -> str:
    """As in `clients_of`."""
    if not (folder / ONNX).is_file():
        languages = [path.parts[-3] for path in sorted(folder.glob(f"*/{ONNX}"))]
        branches = f" on main, which is all it asks for; the branches {' and '.join(languages)} have one"
        return "it has no ONNX file" + branches * bool(languages)
    if (_read(folder / "config_sentence_transformers.json") or {}).get("default_prompt_name"):
        return "it puts no prompt before texts, and this model wants one"
    beside = sorted(path.relative_to(folder).as_posix() for path in folder.glob(f"{ONNX}?*"))
    return " ".join(["files", *beside]) if beside else ""


def width_of(folder: Path) -> int | None:
    """Width of a folder's sentence vectors: of its last map, or else of the encoder; None for what has no encoder."""
    maps = sorted(folder.glob("[0-9]*_Dense/config.json")) or sorted(folder.glob("[0-9]*_Router/*_Dense/config.json"))
    if maps:
        return _read(maps[-1])["out_features"]
    return (_read(folder / "config.json") or {}).get("hidden_size") if (folder / "1_Pooling").is_dir() else None


def client_snippets(clients: Mapping[str, str], languages: Sequence[str], width: int | None = None) -> dict[str, str]:
    """A snippet, or the reason why there is none, by client; with {repo} for the repository.

    Args:
        clients: what `clients_of` gave.
        languages: of queries and documents.
        width: of a vector, which fastembed must be told.
    """
    source, target = ((*languages, *languages)[:2]) if languages else ("en", "en")
    told = dict(clients)
    if clients.get(TEI) == "":
        body = server_request([example(source), example(target)])
        image = "ghcr.io/huggingface/text-embeddings-inference:cpu-latest"
        told[TEI] = f"""docker run -p 8080:80 {image} --model-id {{repo}}
curl localhost:8080/embed -H 'Content-Type: application/json' -d '{body}'"""
    if LANGCHAIN in clients:
        told[LANGCHAIN] = _langchain(clients[LANGCHAIN], source, target)
    if FASTEMBED in told and width is None:  # nothing that could be an ONNX graph
        del told[FASTEMBED]
    elif FASTEMBED in told:
        told[FASTEMBED] = _fastembed(clients[FASTEMBED], source, target, width)
    return told


def server_request(texts: Sequence[str]) -> str:
    """What text-embeddings-inference is asked for vectors with, as JSON; long texts are cut, as everywhere else."""
    return json.dumps({"inputs": [*texts], "truncate": True}, ensure_ascii=False)


def _langchain(keywords: str, source: str, target: str) -> str:
    """The snippet for what `clients_of` says, or that where it is a reason against it."""
    words = keywords.split()
    if words and words[0] not in ("flag", "routes"):
        return keywords
    options = ['model_name="{repo}"']
    if words[:1] == ["flag"]:
        options.append('model_kwargs={"trust_remote_code": True}')
    if "routes" in words:
        routes = words[words.index("routes") + 1 :]
        source, target = (*routes, *routes)[:2]
        options += [f'query_encode_kwargs={{"task": "{source}"}}', f'encode_kwargs={{"task": "{target}"}}']
    arguments = "".join(f"\n    {option}," for option in options) + "\n" if len(options) > 1 else options[0]
    one, other = json.dumps(example(source), ensure_ascii=False), json.dumps(example(target), ensure_ascii=False)
    return f"""from langchain_huggingface import HuggingFaceEmbeddings

embeddings = HuggingFaceEmbeddings({arguments})
query = embeddings.embed_query({one})
documents = embeddings.embed_documents([{other}])"""


def _fastembed(keywords: str, source: str, target: str, width: int | None) -> str:
    """As `_langchain`."""
    kind, *beside = keywords.split() or [""]
    if kind not in ("", "files"):
        return keywords
    more = f"\n    additional_files={json.dumps(beside)}," * bool(beside)
    texts = json.dumps([example(source), example(target)], ensure_ascii=False)
    return f"""from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

TextEmbedding.add_custom_model(
    model="{{repo}}",
    pooling=PoolingType.DISABLED,  # pooling and maps are in the ONNX file
    normalization=False,
    sources=ModelSource(hf="{{repo}}"),
    dim={width},
    model_file="{ONNX}",{more}
)
vectors = list(TextEmbedding("{{repo}}").embed({texts}))"""


def fenced(snippet: str) -> str:
    """A snippet as a block of Markdown: of Python where it is Python, else of the shell."""
    try:
        ast.parse(snippet)
        return f"```python\n{snippet}\n```"
    except SyntaxError:
        return f"```bash\n{snippet}\n```"


def _read(path: Path):
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
