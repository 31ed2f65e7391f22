"""Tasks of mteb through its own API, with a model that is told the language of every text."""

# ruff: noqa: D102 - Task documents the methods of MtebTask

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mteb
import numpy as np
from huggingface_hub import ModelCard
from mteb.cache import ResultCache
from mteb.models import ModelMeta
from mteb.models.model_meta import ScoringFunction
from scipy.sparse import issparse
from sentence_transformers import SimilarityFunction

from hfxling.evaluation.results import EvalResult
from hfxling.evaluation.tasks import Rows, Task, TaskText, code_for, has_parts
from hfxling.files import content_hash
from hfxling.progress import shown

if TYPE_CHECKING:
    from hfxling.encoders.protocol import Encoder

# Codes in cards and their codes in mteb, for the languages that this package is made for.
LANGUAGES = {"zh": "zho-Hans", "vi": "vie-Latn", "lo": "lao-Laoo", "th": "tha-Thai", "id": "ind-Latn", "en": "eng-Latn"}


class MtebEncoder:
    """An `Encoder` as mteb's `EncoderProtocol`.

    mteb names the languages of a subset, but not of a text. The texts of a subset that come first are taken to be in
    its first language, the next ones in its second; the same goes for queries and documents.

    Attributes:
        sizes: number of the texts that came first, by task, split and subset.
    """

    def __init__(self, encoder: Encoder):
        self.encoder = encoder
        self.calls: dict[tuple, int] = {}
        self.sizes: dict[tuple, int] = {}
        self.mteb_model_meta = model_meta(encoder)

    def encode(self, inputs, *, task_metadata, hf_split: str, hf_subset: str, prompt_type=None, **kwargs) -> np.ndarray:
        """(N, D) vectors of the texts of a loader."""
        texts: list[str] = []
        for batch in inputs:
            texts += batch["text"]
        subset = task_metadata.name, hf_split, hf_subset
        call = self.calls.get(subset, 0)
        self.calls[subset] = call + 1
        self.sizes.setdefault(subset, len(texts))
        side = call % 2 if prompt_type is None else int(prompt_type.value == "document")
        codes = _language_codes(task_metadata, hf_subset)
        language = code_for(self.encoder, codes[min(side, len(codes) - 1)])
        has_roles = prompt_type is not None or has_parts(self.encoder)
        role = ("query", "document")[side] if has_roles else "query"
        vectors = self.encoder.encode(texts, language, role)
        return vectors.toarray() if issparse(vectors) else vectors

    def similarity(self, embeddings1, embeddings2) -> np.ndarray:
        """(N, M) cosines, or inner products of sparse vectors."""
        return SimilarityFunction.to_similarity_fn(self.encoder.method)(embeddings1, embeddings2).numpy()

    def similarity_pairwise(self, embeddings1, embeddings2) -> np.ndarray:
        """(N,) the same for pairs."""
        return SimilarityFunction.to_similarity_pairwise_fn(self.encoder.method)(embeddings1, embeddings2).numpy()


def model_meta(encoder: Encoder) -> ModelMeta:
    """What mteb keeps about a model besides its results, taken from the encoder and its card.

    What neither of them says (release date, address of the training code) stays empty, to be filled in by hand if the
    model is entered into mteb's own list.
    """
    is_on_hub = re.fullmatch(r"[\w.-]+/[\w.-]+", encoder.name) and not Path(encoder.name).exists()
    known = {
        "name": encoder.name if is_on_hub else f"hfxling/{encoder.label.replace('/', '-')}",
        "revision": encoder.revision,
        "similarity_fn_name": ScoringFunction(encoder.method),
        "use_instructions": bool(encoder.prompt),
        "open_weights": True,
        "framework": ["PyTorch"],
    }
    if is_on_hub:
        known["reference"] = f"https://huggingface.co/{encoder.name}"
    parts = [encoder.dense, encoder.lexical] if hasattr(encoder, "dense") else [encoder]
    models = [part.model for part in parts if hasattr(part, "model")]
    if models:
        tensors = [tensor for model in models for tensor in model.parameters()]
        known["n_parameters"] = sum(tensor.numel() for tensor in tensors)
        known["memory_usage_mb"] = round(sum(tensor.nbytes for tensor in tensors) / 2**20, 1)
        known["framework"].append("Sentence Transformers")
    if len(models) == 1 and hasattr(models[0], "max_seq_length"):
        known["max_tokens"] = models[0].max_seq_length
    if encoder.method == "cosine":
        known["embed_dim"] = encoder.encode([""], *encoder.languages[:1]).shape[1]
    known["model_type"] = ["dense"] if encoder.method == "cosine" else ["sparse"]
    return ModelMeta.create_empty(known | _of_card(encoder.name))


def _of_card(name: str) -> dict:
    """What the card of a folder or repository says; {} if there is none."""
    path = Path(name)
    try:
        card = ModelCard.load(path / "README.md" if path.is_dir() else name).data.to_dict()
    except (OSError, ValueError):
        return {}
    fields = {}
    if card.get("license", "other") != "other":
        fields["license"] = card["license"]
    languages = card.get("language") or []
    languages = [languages] if isinstance(languages, str) else languages
    if languages and all(language in LANGUAGES for language in languages):
        fields["languages"] = [LANGUAGES[language] for language in languages]
    base = card.get("base_model")
    if base:
        fields["adapted_from"] = base if isinstance(base, str) else base[0]
    if card.get("datasets"):
        fields["training_datasets"] = set(card["datasets"])
    return fields


def _language_codes(metadata: Any, subset: str) -> list[str]:
    """ISO 639-3 codes of a subset's languages; a subset that mteb does not list is its own code."""
    codes = metadata.hf_subsets_to_langscripts.get(subset) or [subset]
    return [re.split("[-_]", code)[0] for code in codes]


@dataclass(frozen=True)
class MtebTask(Task):
    """A task of mteb, of all its languages or of some."""

    task: Any  # mteb's own object
    batch_size: int
    results: Path | None  # folder of what mteb writes itself, in the form its repository of results takes
    needs = ()

    def settings(self) -> dict:
        return {"subsets": [str(subset) for subset in self.task.hf_subsets]}

    def read(self, text: TaskText) -> tuple[Any, str]:
        return self.task, content_hash([mteb.__version__, str(self.task.metadata.dataset), *self.settings()["subsets"]])

    def measure(self, text: Any, encoder: Encoder, row: dict) -> Rows:
        name = text.metadata.name
        model = MtebEncoder(encoder)
        try:
            (result,) = mteb.evaluate(
                model,
                [text],
                cache=None if self.results is None else ResultCache(self.results),
                overwrite_strategy="always",
                show_progress_bar=shown(),
                encode_kwargs={"batch_size": self.batch_size},
            ).task_results
        except OSError as error:
            cause = " ".join(str(error).split())
            raise FileNotFoundError(f"mteb={name}: could not fetch its text ({cause}); check the connection.") from None
        rows = []
        for split, scores in result.scores.items():
            for score in scores:
                subset = score["hf_subset"]
                of_subset = row | {
                    "dataset": name,
                    "split": split,
                    "revision": result.dataset_revision,
                    "direction": subset,
                }
                n = model.sizes.get((name, split, subset)) or max(model.sizes.values())
                metric = f"mteb {text.metadata.main_score}"
                rows.append(EvalResult(metric, score["main_score"], n, unit="", **of_subset))
        return rows


def mteb_tasks(
    names: Sequence[str], languages: Sequence[str], batch_size: int, results: Path | None
) -> dict[str, MtebTask]:
    """Tasks for `evaluate`, called mteb:NAME; mteb's own files go to `results`."""
    tasks = {}
    for name in names:
        try:
            task = mteb.get_task(name, languages=list(languages) or None)
        except KeyError as error:
            raise ValueError(f"mteb={name!r} is not a task of mteb {mteb.__version__} ({error.args[0]}).") from None
        tasks[f"mteb:{name}"] = MtebTask(pictures=None, task=task, batch_size=batch_size, results=results)
    return tasks
