"""What the card of a word aligner says."""

from __future__ import annotations

from collections.abc import Sequence

from hfxling.hub.snippets import Examples, filled, own_examples

from .arguments import AlignerArguments

SUMMARY = "A BiLSTM encoder-decoder with a contrastive loss, for word alignment and word translation."
CITATION = """@misc{zhang2024crosslingual,
  title = {Cross-Lingual Word Alignment for {ASEAN} Languages with Contrastive Learning},
  author = {Zhang, Jingshen and Qiu, Xinying and Shen, Teng and Wang, Wenyu and Zhang, Kailin and Feng, Wenhe},
  year = {2024},
}"""
LIMITS = (
    "Trained from scratch on few sentence pairs: words that these do not hold have no vector of their own.",
    "Words are the vocabularies' segments (tokenizer folders); they need not be those of a dictionary.",
)
STATIC = """from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{repo}")
source = model.encode(["{source_text}"], task="{source}")  # mean of static word vectors
target = model.encode(["{target_text}"], task="{target}")
print(model.similarity(source, target))"""
CONTEXTUAL = """import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{repo}", subfolder="tokenizer_{source}")
model = AutoModel.from_pretrained("{repo}", trust_remote_code=True)
batch = tokenizer(["{source_text}"], padding=True, return_tensors="pt")
with torch.no_grad():
    output = model(**batch, language="{source}")
output.last_hidden_state, output.static, output.sentence_embedding"""
LINKS = """# hfxling installed
hfxling align source.txt target.txt --model {repo} > links.txt"""
SNIPPETS = {
    "Static vectors, with sentence-transformers alone": STATIC,
    "Contextual vectors, with transformers (runs the code of this repository)": CONTEXTUAL,
    "Word links": LINKS,
}


def card(recipe: AlignerArguments, prepared, run) -> dict:
    """The fields of `CardInfo` that are the method's own; snippets have {repo} for the repository."""
    return described(recipe.languages, own_examples(prepared.corpus.pairs), recipe.model)


def described(languages: Sequence[str], examples: Examples, encoder: str | None = None) -> dict:
    """The same, of the languages, source first, their own examples, and the encoder whose similarities links heed."""
    source, target = languages[:2]
    return {
        "repo_id": f"{source}-{target}-aligner",
        "summary": SUMMARY,
        "citation": CITATION,
        "base_model": encoder or "none, trained from scratch",
        "languages": languages,
        "intended_use": f"Word alignment and word translation between {' and '.join(languages)}.",
        "limits": LIMITS,
        "loading": filled(SNIPPETS, source, target, examples),
    }
