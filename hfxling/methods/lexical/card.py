"""What the card of a lexical model says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations

from hfxling.encoders.identity import model_name
from hfxling.hub.index import hub_id_of
from hfxling.hub.snippets import OF_FOLDER, Examples, filled, own_examples

from .arguments import LexicalArguments

SUMMARY = "Sentences compared by their word links: sparse vectors, and static ones made of them."
HELPED = "The links were counted with the help of {encoder}. Vectors of sentences do without it"
HEEDED = "`hfxling align` heeds it beside the links"
CITATION = """@inproceedings{liang2006alignment,
  title = {Alignment by Agreement},
  author = {Liang, Percy and Taskar, Ben and Klein, Dan},
  booktitle = {Proceedings of the Human Language Technology Conference of the {NAACL}},
  year = {2006},
}"""
OF_SPARSE = ("sparse", "fused", "finetuned_fused")  # kinds of models that the sparse vectors are, or are part of
LIMITS = (
    "A sentence is a bag of segments: another order of the words, or a text given twice, changes nothing or little.",
    "A dropped word, a negation or a changed number moves the score little: it finds translations, it does not certify "
    "them. Rows '... copy wins' among the results, where there are any, say how often a copy of the translation that "
    "is altered in this way beats it or ties with it.",
    "Words that the training text does not hold match nothing; other domains than the training text's fare worse.",
    "Short sentences have few words to be found by.",
)
STATIC = """from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{repo}")
source = model.encode(["{source_text}"]{as_source})
target = model.encode(["{target_text}"]{as_target})
print(model.similarity(source, target))"""
SPARSE = """from sentence_transformers import SparseEncoder

{of_folder} SparseEncoder("FOLDER/sparse", trust_remote_code=True)
model = SparseEncoder("{repo}", revision="sparse", trust_remote_code=True)
source = model.encode_query(["{source_text}"], language="{source}")
target = model.encode_document(["{target_text}"], language="{target}", max_active_dims=256)
print(model.similarity(source, target))"""
OWN = """from transformers import AutoModel

model = AutoModel.from_pretrained("{repo}", trust_remote_code=True)
source = model.encode(["{source_text}"], "{source}")  # scipy's compressed sparse rows
target = model.encode(["{target_text}"], "{target}", role="document")
print(source @ target.T)
print(model.explain("{source_text}", "{target_text}", ("{source}", "{target}")))"""


def card(recipe: LexicalArguments, prepared, run) -> dict:
    """The fields of `CardInfo` that are the method's own; snippets have {repo} for the repository."""
    measured = {row.settings.get("row") for row in run.results}
    is_sparse = any(kind in measured for kind in OF_SPARSE)
    is_shared = prepared.views[0].is_shared
    examples = own_examples(prepared.corpus.pairs)
    kind = {"is_shared": is_shared, "encoder": recipe.encoder, "is_sparse": is_sparse}
    fields = described(recipe.language_pairs, examples, **kind)
    fields["configuration"] = {name: getattr(recipe, name) for name in ("views", "mixture", "length_prior")}
    return fields


def described(
    pairs: Sequence[tuple[str, str]],
    examples: Examples,
    *,
    is_shared: bool,
    encoder: str | None = None,
    is_sparse: bool = False,
) -> dict:
    """The same without settings, of the language pairs that were learnt from.

    All languages have one table of segments where `is_shared`; `encoder` is the one that helped to count links. Where
    `is_sparse` a reader of the card wants the sparse vectors, which come first then.
    """
    languages = list(dict.fromkeys(chain.from_iterable(pairs)))
    source, target = pairs[0]
    as_source, as_target = ("", "") if is_shared else (', task="{source}"', ', task="{target}"')
    static = STATIC.replace("{as_source}", as_source).replace("{as_target}", as_target)
    of_static = {"Static vectors, with sentence-transformers alone": static}
    sparse = SPARSE.replace("{of_folder}", OF_FOLDER)
    of_sparse = {
        "Sparse vectors, with sentence-transformers (runs the code of this repository)": sparse,
        "Sparse vectors and their reasons, with transformers (runs the code of this repository)": OWN,
    }
    snippets = of_sparse | of_static if is_sparse else of_static | of_sparse
    limits = list(LIMITS)
    seen = {frozenset(pair) for pair in pairs}
    unseen = ["-".join(pair) for pair in combinations(languages, 2) if frozenset(pair) not in seen]
    if unseen:
        limits.append(f"No text of {', '.join(unseen)} was seen: their links lead through a shared language.")
    summary = SUMMARY
    if encoder is not None:
        encoder_id = hub_id_of(encoder)
        summary += " " + HELPED.format(encoder=encoder_id or model_name(encoder))
        summary += "." if encoder_id is None else f"; {HEEDED}."
    return {
        "repo_id": f"{'-'.join(languages) if len(languages) < 4 else 'multilingual'}-lexical",
        "summary": summary,
        "citation": CITATION,
        "base_model": "none, counted from text",
        "languages": languages,
        "intended_use": f"Finding translations between {' and '.join(languages)}, and saying by which words.",
        "limits": limits,
        "loading": filled(snippets, source, target, examples),
    }
