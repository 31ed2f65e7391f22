"""A trained aligner as a folder: static vectors for plain sentence-transformers, the whole network for transformers."""

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

    The root has the whole network for `AutoModel`, with an ordinary tokenizer for each language in `tokenizer_LANG`,
    and stock sentence-transformers modules: for each language a table of static word vectors, chosen by `task="lo"`,
    whose mean over a text's words is the text's vector. A language whose segmenter is a user's function has no such
    table, because its tokenizer cannot cut a line. `priors` are the links from which the attention started in training.
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
