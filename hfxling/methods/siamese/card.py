"""What the card of a siamese model says."""

from __future__ import annotations

from collections.abc import Sequence

from hfxling.hub.snippets import own_examples, standard_snippets, stock_snippet

from .arguments import OWN, SiameseArguments

SUMMARY = "A linear head on one frozen layer of a multilingual encoder, fitted on parallel sentences."
SUMMARY_OF_OWN = "A linear head on the sentence vectors of a frozen multilingual encoder, fitted on parallel sentences."
CITATION = """@article{huang2023crosslingual,
  title = {Cross-lingual Sentence Embedding for Low-resource {Chinese-Vietnamese} Based on Contrastive Learning},
  author = {Huang, Yuxin and Liang, Yin and Wu, Zhaoyuan and Zhu, Enchang and Yu, Zhengtao},
  journal = {ACM Transactions on Asian and Low-Resource Language Information Processing},
  volume = {22},
  number = {6},
  articleno = {176},
  year = {2023},
  doi = {10.1145/3589341},
}"""
LIMITS = (
    "Trained on few sentence pairs of one language pair; text of other domains may fare worse than the test text.",
    "The encoder is frozen: what its vocabulary or its pretraining does not cover, the head cannot add.",
)
SEVERAL = (
    "Vectors of several layers are put together by a module in this repository: sentence-transformers loads it with "
    "trust_remote_code=True and refuses it without."
)
OWN_CODE = (
    "The encoder is not one of transformers: its code is in this repository, and sentence-transformers loads it with "
    "trust_remote_code=True and refuses it without."
)
ON_VECTORS = """import torch
from hfxling import SiameseModel

model = SiameseModel.from_pretrained("{repo}").eval()
vectors = torch.randn(1, model.config.hidden_size)  # yours, made as the training vectors were
with torch.no_grad():
    embeddings = model(features=vectors, language="{source}").sentence_embedding"""


def card(recipe: SiameseArguments, prepared, run) -> dict:
    """The fields of `CardInfo` that are the method's own; snippets have {repo} for the repository."""
    source = recipe.languages[0]
    layer = run.reached.get("layer", recipe.layer)
    several, is_own = "," in layer, layer == OWN
    examples = own_examples(prepared.corpus.pairs)
    chosen = []
    if layer != recipe.layer:
        chosen.append(f"layer {layer}")
    if "form" in run.reached:
        chosen.append(run.reached["form"])
    limits = LIMITS
    if several:
        limits = *LIMITS, SEVERAL
    elif run.reached.get("runs_code"):
        limits = *LIMITS, OWN_CODE
    if is_own:
        loading = stock_snippet(recipe.languages, flag=OWN_CODE in limits, examples=examples)
    elif recipe.base_model:
        loading = standard_snippets(recipe.languages, f', language="{source}"', flag=several, examples=examples)
    else:
        loading = {"On vectors of your own": ON_VECTORS.replace("{source}", source)}
    configuration = {"layer": recipe.layer, "pooling": recipe.pooling, "fit": recipe.fit}
    if is_own:
        del configuration["pooling"]
    base_model = recipe.base_model or "precomputed vectors"
    return described(recipe.languages, base_model, chosen, is_on_own_vectors=is_own) | {
        "limits": limits,
        "loading": loading,
        "coverage": prepared.corpus.coverage,
        "configuration": configuration,
    }


def described(
    languages: Sequence[str],
    base_model: str,
    chosen: Sequence[str],
    *,
    is_on_own_vectors: bool,
) -> dict:
    """The same for a head without the settings and snippets of a run.

    `chosen` is what was chosen on held-out pairs, in words. Where `is_on_own_vectors` the head maps the encoder's own
    sentence vectors, and not one of its layers.
    """
    source, target = languages
    how = f" Chosen by cross-validation on the training pairs: {', '.join(chosen)}." if chosen else ""
    return {
        "repo_id": f"{source}-{target}-sf",
        "summary": (SUMMARY_OF_OWN if is_on_own_vectors else SUMMARY) + how,
        "citation": CITATION,
        "base_model": base_model,
        "languages": languages,
        "intended_use": f"Finding translations between {source} and {target}: retrieval, mining and cleaning of "
        "parallel sentences.",
        "limits": LIMITS,
    }
