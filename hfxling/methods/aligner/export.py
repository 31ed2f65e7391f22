"""A trained aligner as a folder: static vectors for sentence-transformers alone, the whole of it for transformers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hfxling.data.segment import BUILT_IN, Vocabulary, save_vocabularies
from hfxling.hub.writing import export, widen_tokenizer_config, write_static
from hfxling.models import aligner_sentences
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.models.stock import SENTENCE_TRANSFORMER, write_json
from hfxling.words.prior import LinkPrior


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
    export(model, None, folder)
    save_vocabularies(vocabularies, folder)
    for path in folder.glob("tokenizer_*/tokenizer_config.json"):
        widen_tokenizer_config(path)
    for prior in priors:
        prior.save(folder)
    languages = [lang for lang in model.config.languages if vocabularies[lang].segmenter in BUILT_IN]
    if languages:
        tokenizers = {lang: vocabularies[lang].tokenizer for lang in languages}
        write_static({lang: model.static_table(lang) for lang in languages}, tokenizers, folder)
    contextual = folder / "contextual"
    contextual.mkdir(exist_ok=True)
    code = Path(aligner_sentences.__file__)
    shutil.copy(code, contextual)
    module = {"idx": 0, "name": "0", "path": "", "type": f"{code.stem}.AlignerSentences"}
    write_json(contextual / "modules.json", [module])
    write_json(contextual / "config_sentence_transformers.json", SENTENCE_TRANSFORMER)
