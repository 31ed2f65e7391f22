"""What the card of a DAP model says."""

from __future__ import annotations

from hfxling.hub.snippets import own_examples, standard_snippets

from .arguments import DapArguments

SUMMARY = "A dual encoder trained with {objectives}."
OBJECTIVES = {
    "tr": "translation ranking",
    "rtl": "representation translation learning",
    "tlm": "translation language modelling",
}
ADAPTED = "Low-rank adapters (LoRA) of rank {rank} were trained; they are merged into the weights."
CITATION = """@inproceedings{li2023dual,
  title = {Dual-Alignment Pre-training for Cross-lingual Sentence Embedding},
  author = {Li, Ziheng and Huang, Shaohan and Zhang, Zihan and Deng, Zhi-Hong and Lou, Qiang and Huang, Haizhen
            and Jiao, Jian and Wei, Furu and Deng, Weiwei and Zhang, Qi},
  booktitle = {Proceedings of the 61st Annual Meeting of the Association for Computational Linguistics},
  year = {2023},
  eprint = {2305.09148},
}"""
LIMITS = (
    "Sentence vectors are compared by cosine; scores are not calibrated across languages.",
    "A language that the encoder was not pre-trained on, or that has little parallel text, is served badly.",
)


def card(recipe: DapArguments, prepared, run) -> dict:
    """The fields of `CardInfo` that are the method's own; snippets have {repo} for the repository."""
    sources = [source for source, _ in recipe.language_pairs]
    languages = [*sources, recipe.pivot]
    return {
        "repo_id": f"{'-'.join(languages) if len(languages) < 4 else 'multilingual'}-dap",
        "summary": summary(recipe.objective, recipe.lora),
        "citation": CITATION,
        "base_model": recipe.base_model,
        "languages": languages,
        "intended_use": f"Finding translations between {', '.join(sources)} and {recipe.pivot}: retrieval, mining "
        "and cleaning of parallel sentences; the encoder also serves as a start for cross-lingual fine-tuning.",
        "limits": LIMITS,
        "loading": standard_snippets(languages, examples=own_examples(prepared.corpus.pairs)),
        "configuration": {"pooling": recipe.pooling, "objective": recipe.objective},
    }


def summary(objective: str, rank: int) -> str:
    """What was trained and how; `rank` is that of the adapters, 0 without."""
    *first, last = [OBJECTIVES[part] for part in objective.split("+")]
    objectives = f"{', '.join(first)} and {last}" if first else last
    sentence = SUMMARY.format(objectives=objectives)
    return f"{sentence} {ADAPTED.format(rank=rank)}" if rank else sentence
