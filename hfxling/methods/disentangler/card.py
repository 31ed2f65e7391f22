"""What the card of a disentangler says."""

from __future__ import annotations

from collections.abc import Sequence

from hfxling.hub.snippets import filled, own_examples

from .arguments import DisentanglerArguments

SUMMARY = "Sentence embeddings split into a meaning and a language part; the meaning part is the embedding."
CITATION = """@misc{nonomura-disentangling,
  title = {多言語文埋め込みの意味と言語の分離のための損失関数の分析},
  author = {野々村 奏 and 福島 啓太 and 近藤 里咲 and 梶原 智之},
  note = {In Japanese. An analysis of loss functions for separating meaning and language in multilingual sentence
          embeddings},
}"""
LIMITS = (
    "The meaning part is a linear map of the encoder's vectors: what the encoder does not know, it cannot add.",
    "Cosines of meaning parts rank pairs; they are no probabilities, and do not compare across language pairs.",
)
OF_VECTORS = {
    "On vectors of your own": """import torch
from hfxling import DisentanglerModel

model = DisentanglerModel.from_pretrained("{repo}").eval()
vectors = torch.randn(1, model.config.hidden_size)  # yours, made as the training vectors were
with torch.no_grad():
    parts = model(features=vectors)  # parts.meaning + parts.language == parts.pooled"""
}
OF_TEXTS = {
    "With sentence-transformers alone: meaning": """from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{repo}")
embeddings = model.encode(["{source_text}", "{target_text}"])
print(model.similarity(embeddings, embeddings))""",
    "With transformers: meaning and language": """import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{repo}", trust_remote_code=True)
model = AutoModel.from_pretrained("{repo}", trust_remote_code=True).eval()
batch = tokenizer([(model.config.prompt or "") + "{source_text}"], return_tensors="pt")
with torch.no_grad():
    parts = model(**batch)  # parts.meaning + parts.language == parts.pooled""",
}


def card(recipe: DisentanglerArguments, prepared, run) -> dict:
    """The fields of `CardInfo` that are the method's own; snippets have {repo} for the repository."""
    languages = prepared.corpus.languages
    snippets = OF_TEXTS if recipe.base_model else OF_VECTORS
    return described(languages, recipe.base_model or "precomputed vectors") | {
        "loading": filled(snippets, *languages[:2], own_examples(prepared.corpus.pairs)),
        "coverage": prepared.corpus.coverage,
        "configuration": {
            "layer": recipe.layer,
            "pooling": recipe.pooling,
            "objective": run.reached["objective"],
        },
    }


def described(languages: Sequence[str], base_model: str) -> dict:
    """The same without the settings and snippets of a run; `base_model` is the encoder's name."""
    return {
        "repo_id": f"{'-'.join(languages)}-meaning",
        "summary": SUMMARY,
        "citation": CITATION,
        "base_model": base_model,
        "languages": languages,
        "intended_use": "Similarity of sentences across languages: translation quality without references, retrieval.",
        "limits": LIMITS,
    }
