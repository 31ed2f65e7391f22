"""A trained aligner as a folder: static vectors for sentence-transformers alone, the whole of it for transformers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Router, StaticEmbedding

from hfxling.alignment.prior import LinkPrior
from hfxling.data.segment import BUILT_IN, Vocabulary, save_vocabularies
from hfxling.hub.export import export
from hfxling.models import aligner_sentences
from hfxling.models.modeling_aligner import AlignerModel

_SENTENCE_TRANSFORMER = {"model_type": "SentenceTransformer", "similarity_fn_name": "cosine"}


def export_aligner(
    model: AlignerModel,
    vocabularies: Mapping[str, Vocabulary],
    folder: str | Path,
    priors: Sequence[LinkPrior] = (),
) -> None:
    """Write the folder.

    The root is the whole network for `AutoModel`, with one ordinary tokenizer a language in `tokenizer_LANG`. Beside it
    stand stock sentence-transformers modules: one table of static word vectors a language, chosen by `task="lo"`, whose
    mean over a text's words is the text's vector. A language whose segmenter is a function of the user's has no table
    there, its tokenizer cannot cut a line. The folder `contextual` loads with sentence-transformers and
    `trust_remote_code=True`; its vectors are the encoder's.

    Args:
        model: trained.
        vocabularies: of its languages.
        folder: an existing folder or one to be made.
        priors: what the attention was trained to start from.
    """
    folder = Path(folder)
    languages = [lang for lang in model.config.languages if vocabularies[lang].segmenter in BUILT_IN]
    if languages:
        static_embeddings(model, vocabularies, languages).save_pretrained(str(folder), create_model_card=False)
        _write_json(folder / "config_sentence_transformers.json", _SENTENCE_TRANSFORMER)
    export(model, None, folder)
    save_vocabularies(vocabularies, folder)
    for prior in priors:
        prior.save(folder)
    contextual = folder / "contextual"
    contextual.mkdir(exist_ok=True)
    code = Path(aligner_sentences.__file__)
    shutil.copy(code, contextual)
    module = {"idx": 0, "name": "0", "path": "", "type": f"{code.stem}.AlignerSentences"}
    _write_json(contextual / "modules.json", [module])
    _write_json(contextual / "config_sentence_transformers.json", _SENTENCE_TRANSFORMER)


def static_embeddings(
    model: AlignerModel, vocabularies: Mapping[str, Vocabulary], languages: Sequence[str]
) -> SentenceTransformer:
    """Static word vectors as stock modules: a route a language and none by default, then unit length.

    `encode_query` takes the first language, `encode_document` the second, `task=` any.
    """
    routes = {
        lang: [StaticEmbedding(vocabularies[lang].tokenizer, model.static_table(lang).cpu())] for lang in languages
    }
    kinds = zip((("query", "text"), ("document", "text")), languages)
    router = Router(routes, default_route=None, allow_empty_key=False, route_mappings=dict(kinds))
    return SentenceTransformer(modules=[router, Normalize()], similarity_fn_name="cosine", device="cpu")


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
