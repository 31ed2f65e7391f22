"""A trained aligner as a folder: static vectors for sentence-transformers alone, the whole of it for transformers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hfxling.data.segment import BUILT_IN, Vocabulary, save_vocabularies
from hfxling.hub.writing import export, widen_tokenizer_config, write_static
from hfxling.models.modeling_aligner import AlignerModel
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
    there, its tokenizer cannot cut a line. `priors` are what the attention was trained to start from.
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
