"""Snippets that show how to use a published model, for the clients that read its folder; {repo} is the repository."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from hfxling.data.codes import base_code
from hfxling.encoders.identity import modules_of, needs_code, read_json
from hfxling.models.stock import ROUTES

from .served import server_fault, variant_id

if TYPE_CHECKING:
    from hfxling.data.corpus import PairText

Examples = Mapping[str, Sequence[str]]  # two sentences of a language, by its code
_LOOKED_AT = 1000  # training pairs that examples are sought among
_UNPLAIN = re.compile(r"""["'`\\{}<>|$/@_\d\n]""")  # quotes, marks of formats, and what names and figures have
TEI, FASTEMBED, LANGCHAIN = "text-embeddings-inference", "fastembed", "LangChain"
ONNX = "onnx/model.onnx"
OF_FOLDER = "# of a local folder:"  # begins a line of a snippet that is for a folder that is not published yet
_EXAMPLES = {
    "en": ("It is raining today.", "Where is the station?"),
    "zh": ("今天下雨。", "车站在哪里？"),
    "vi": ("Hôm nay trời mưa.", "Nhà ga ở đâu?"),
    "th": ("วันนี้ฝนตก", "สถานีอยู่ที่ไหน"),
    "id": ("Hari ini hujan.", "Di mana stasiunnya?"),
    "lo": ("ມື້ນີ້ຝົນຕົກ", "ສະຖານີຢູ່ໃສ?"),
    "ar": ("إنها تمطر اليوم.", "أين المحطة؟"),
    "bn": ("আজ বৃষ্টি হচ্ছে।", "স্টেশন কোথায়?"),
    "de": ("Heute regnet es.", "Wo ist der Bahnhof?"),
    "es": ("Hoy llueve.", "¿Dónde está la estación?"),
    "fr": ("Il pleut aujourd'hui.", "Où est la gare ?"),
    "hi": ("आज बारिश हो रही है।", "स्टेशन कहाँ है?"),
    "it": ("Oggi piove.", "Dov'è la stazione?"),
    "ja": ("今日は雨が降っています。", "駅はどこですか。"),
    "ko": ("오늘은 비가 와요.", "역이 어디에 있어요?"),
    "ms": ("Hari ini hujan.", "Di manakah stesen?"),
    "nl": ("Het regent vandaag.", "Waar is het station?"),
    "pt": ("Hoje está chovendo.", "Onde fica a estação?"),
    "ru": ("Сегодня идёт дождь.", "Где находится вокзал?"),
    "tr": ("Bugün yağmur yağıyor.", "İstasyon nerede?"),
}


def both_sides(languages: Sequence[str]) -> tuple[str, str]:
    """The languages of queries and of documents: the first two, or one for both."""
    source, target = (*languages, *languages)[:2]
    return source, target


def example(language: str, own: Examples | None = None, number: int = 0) -> str:
    """One of two sentences in a language, from the model's own examples or else ours; English if neither has one."""
    sentences = (own or {}).get(language) or _EXAMPLES.get(base_code(language)) or _EXAMPLES["en"]
    return sentences[number]


def own_examples(pairs: Iterable[PairText]) -> dict[str, list[str]]:
    """Two short sentences of the training text with their translations, for languages that we have no examples for."""
    examples: dict[str, list[str]] = {}
    for pair in pairs:
        if all(base_code(code) in _EXAMPLES or code in examples for code in pair.languages):
            continue
        sources: list[str] = []
        targets: list[str] = []
        for row in islice(pair.train, _LOOKED_AT):
            source, target = row["source"], row["target"]
            if _is_plain(source) and _is_plain(target) and source not in sources and target not in targets:
                sources.append(source)
                targets.append(target)
            if len(sources) == 2:
                break
        if len(sources) == 2:
            for code, sentences in zip(pair.languages, (sources, targets)):
                examples.setdefault(code, sentences)
    return examples


def filled(snippets: Mapping[str, str], source: str, target: str, examples: Examples | None) -> dict[str, str]:
    """Snippets by title, with two languages' codes for {source} and {target}, sentences for {source_text} and so on."""
    values = {"source": source, "target": target}
    values |= {"source_text": example(source, examples), "target_text": example(target, examples)}
    ready = {}
    for title, snippet in snippets.items():
        for name, value in values.items():
            snippet = snippet.replace(f"{{{name}}}", value)
        ready[title] = snippet
    return ready


def _listed(*texts: str) -> str:
    """Texts as a list in Python, which is the same in JSON."""
    return json.dumps(texts, ensure_ascii=False)


def _is_plain(text: str) -> bool:
    """Whether a text is a short sentence that may stand between quotes in a snippet."""
    return 4 <= len(text) <= 60 and _UNPLAIN.search(text) is None


def stock_snippet(languages: Sequence[str], *, flag: bool = False, examples: Examples | None = None) -> dict[str, str]:
    """How sentence-transformers loads a sentence encoder, by title, with {repo} for the repository.

    `flag` says that the folder has code of its own, which needs `trust_remote_code=True`; `examples` are the model's
    own, if it has any.
    """
    source, target = both_sides(languages)
    queries, documents = _listed(example(source, examples)), _listed(example(target, examples))
    trust = ", trust_remote_code=True" if flag else ""
    title = f"With sentence-transformers {'and the code of this repository' if flag else 'alone'}"
    return {
        title: f"""from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{{repo}}"{trust})
source = model.encode_query({queries})  # {source}
target = model.encode_document({documents})  # {target}
print(model.similarity(source, target))"""
    }


def standard_snippets(
    languages: Sequence[str], arguments: str = "", *, flag: bool = False, examples: Examples | None = None
) -> dict[str, str]:
    """The same, and how transformers loads the method's own model.

    `arguments` are further ones of that model, such as `, language="zh"`; others as of `stock_snippet`.
    """
    source, _ = both_sides(languages)
    return stock_snippet(languages, flag=flag, examples=examples) | {
        "With transformers, as the method's own model": f"""import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{{repo}}", trust_remote_code=True)
model = AutoModel.from_pretrained("{{repo}}", trust_remote_code=True).eval()
batch = tokenizer({_listed(example(source, examples))}, padding=True, truncation=True, return_tensors="pt")
with torch.no_grad():
    embeddings = model(**batch{arguments}).sentence_embedding""",
    }


def part_snippets(
    language: str, other: str, other_repo: str, *, flag: bool = False, examples: Examples | None = None
) -> dict[str, str]:
    """How to load a model's parts for one language and for another one, by title; as `standard_snippets`."""
    trust = ", trust_remote_code=True" if flag else ""
    texts, other_texts = _listed(example(language, examples)), _listed(example(other, examples))
    both = f"""from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{{repo}}"{trust})
other = SentenceTransformer("{other_repo}"{trust})
print(model.similarity(model.encode({texts}), other.encode({other_texts})))"""
    *_, (title, own) = standard_snippets([language], examples=examples).items()
    return {f"With sentence-transformers, beside the part for {other}": both, title: own}


ADAPTER_TITLE = "The LoRA adapter alone, which lies in `adapter/`, on the encoder as it came, with peft (token vectors)"


def adapter_snippet(base: str) -> str:
    """How to load the adapter in the folder of a fine-tuned encoder on the encoder that it was trained for."""
    return f"""from peft import PeftModel
from transformers import AutoModel

encoder = AutoModel.from_pretrained("{base}")
encoder = PeftModel.from_pretrained(encoder, "{{repo}}", subfolder="adapter")"""


def fused_snippet(lexical: str, languages: Sequence[str], examples: Examples | None = None) -> str:
    """How a dense model is used together with the lexical one that its fusion was made for."""
    source, target = languages[:2]
    query = _listed(example(source, examples))
    candidates = _listed(example(target, examples), example(target, examples, 1))
    return f"""import hfxling

both = {{"model": "{{repo}}", "lexical": "{lexical}", "languages": ("{source}", "{target}")}}
found = hfxling.nearest({query}, candidates={candidates}, **both)
print(found.table())
pairs = hfxling.mine({query}, {candidates}, k=1, **both)
print(pairs.to_text())"""


@dataclass(frozen=True)
class Client:
    """How a server or framework reads a folder."""

    fault: str = ""  # why it cannot; "" if it can
    needs_code: bool = False  # whether it has to trust the folder's code
    languages: Sequence[str] = ()  # languages that it must name, if each has a part of its own
    files: Sequence[str] = ()  # files that it needs besides the one with the model


def is_sparse_encoder(folder: Path) -> bool:
    """Whether a folder is one for `SparseEncoder`."""
    return read_json(folder / "config_sentence_transformers.json").get("model_type") == "SparseEncoder"


def clients_of(folder: Path, repo_id: str | None = None) -> dict[str, Client]:
    """Servers and frameworks by name, and how each reads a folder of sentence vectors; {} for other folders.

    `repo_id` is the folder's repository if its parts have repositories of their own; otherwise they are on branches.
    """
    modules = modules_of(str(folder))
    if not modules or is_sparse_encoder(folder):
        return {}
    runs_code = needs_code(str(folder))
    server = server_fault(folder, repo_id)
    if runs_code:
        server = "it has a module of its own, which needs trust_remote_code=True"
    clients = {TEI: Client(server), LANGCHAIN: Client(needs_code=runs_code, languages=routed_languages(folder))}
    if width_of(folder) is not None:  # else there is nothing that could be an ONNX graph
        clients[FASTEMBED] = _fastembed_client(folder, repo_id)
    return clients


def routed_languages(folder: Path) -> list[str]:
    """The languages that a folder has parts for; [] if one part serves all."""
    routes: dict[str, None] = {}
    for path in folder.rglob("router_config.json"):
        routes |= dict.fromkeys(read_json(path).get("structure", {}))
    return [route for route in routes if route not in ROUTES]


def _fastembed_client(folder: Path, repo_id: str | None) -> Client:
    if not (folder / ONNX).is_file():
        fault = "it has no ONNX file"
        languages = [path.parts[-3] for path in sorted(folder.glob(f"*/{ONNX}"))]
        if languages and repo_id:
            fault += f"; {' and '.join(variant_id(repo_id, language) for language in languages)} have one"
        elif languages:
            fault += f" on main, which is all it asks for; the branches {' and '.join(languages)} have one"
        return Client(fault)
    if read_json(folder / "config_sentence_transformers.json").get("default_prompt_name"):
        return Client("it puts no prompt before texts, and this model wants one")
    beside = sorted(path.relative_to(folder).as_posix() for path in folder.glob(f"{ONNX}?*"))
    return Client(files=beside)


def width_of(folder: Path) -> int | None:
    """Dimension of a folder's sentence vectors, from its last map or else the encoder; None if there is no encoder."""
    maps = sorted(folder.glob("[0-9]*_Dense/config.json")) or sorted(folder.glob("[0-9]*_Router/*_Dense/config.json"))
    if maps:
        return read_json(maps[-1])["out_features"]
    if not (folder / "1_Pooling").is_dir():
        return None
    return read_json(folder / "config.json").get("hidden_size")


def client_snippets(
    clients: Mapping[str, Client],
    languages: Sequence[str],
    width: int | None = None,
    examples: Examples | None = None,
) -> dict[str, str]:
    """A snippet for each client that reads the folder, by its name; otherwise as `standard_snippets`.

    `clients` come from `clients_of`; `width` is the dimension of a vector, which fastembed needs.
    """
    source, target = both_sides(languages or ["en"])
    snippets = {}
    for name, client in clients.items():
        if client.fault:
            continue
        if name == TEI:
            snippets[name] = _server(source, target, examples)
        elif name == LANGCHAIN:
            snippets[name] = _langchain(client, source, target, examples)
        else:
            snippets[name] = _fastembed(client, source, target, width, examples)
    return snippets


def _server(source: str, target: str, examples: Examples | None) -> str:
    body = server_request([example(source, examples), example(target, examples)])
    image = "ghcr.io/huggingface/text-embeddings-inference:cpu-latest"
    return f"""docker run -p 8080:80 {image} --model-id {{repo}}
curl localhost:8080/embed -H 'Content-Type: application/json' -d {shlex.quote(body)}"""


def server_request(texts: Sequence[str]) -> str:
    """The JSON request for vectors from text-embeddings-inference; long texts are cut, as everywhere else."""
    return json.dumps({"inputs": [*texts], "truncate": True}, ensure_ascii=False)


def _langchain(client: Client, source: str, target: str, examples: Examples | None) -> str:
    options = ['model_name="{repo}"']
    if client.needs_code:
        options.append('model_kwargs={"trust_remote_code": True}')
    if client.languages:
        source, target = both_sides(client.languages)
        options += [f'query_encode_kwargs={{"task": "{source}"}}', f'encode_kwargs={{"task": "{target}"}}']
    arguments = options[0]
    if len(options) > 1:  # a line each
        arguments = "\n" + "".join(f"    {option},\n" for option in options)
    query = json.dumps(example(source, examples), ensure_ascii=False)
    documents = _listed(example(target, examples))
    return f"""from langchain_huggingface import HuggingFaceEmbeddings

embeddings = HuggingFaceEmbeddings({arguments})
query = embeddings.embed_query({query})
documents = embeddings.embed_documents({documents})"""


def _fastembed(client: Client, source: str, target: str, width: int | None, examples: Examples | None) -> str:
    additional = f"\n    additional_files={json.dumps(client.files)}," if client.files else ""
    texts = _listed(example(source, examples), example(target, examples))
    return f"""from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

TextEmbedding.add_custom_model(
    model="{{repo}}",
    pooling=PoolingType.DISABLED,  # pooling and maps are in the ONNX file
    normalization=False,
    sources=ModelSource(hf="{{repo}}"),
    dim={width},
    model_file="{ONNX}",{additional}
)
vectors = list(TextEmbedding("{{repo}}").embed({texts}))"""


def fenced(snippet: str) -> str:
    """A snippet as a block of Markdown, marked as Python or else as shell."""
    try:
        ast.parse(snippet)
        return f"```python\n{snippet}\n```"
    except SyntaxError:
        return f"```bash\n{snippet}\n```"
