"""Which encoder the arguments of a verb mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .protocol import Encoder


def load_encoder(
    model: Any = None,
    lexical: Any = None,
    *,
    revision: str | None = None,
    lexical_revision: str | None = None,
    prompt: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    layer: int | str | None = None,
    pooling: str | None = None,
    source_vectors: Sequence[str | Path] | str | Path | None = None,
    target_vectors: Sequence[str | Path] | str | Path | None = None,
    device: str | None = None,
    batch_size: int = 32,
    trust_remote_code: bool = False,
) -> Encoder:
    """The encoder that is asked for, whatever kind it is.

    Args:
        model: folder or Hub id of what sentence-transformers loads, dense or sparse; a loaded SentenceTransformer or
            SparseEncoder; an `Encoder`, which is given back as it is.
        lexical: folder, Hub id or loaded LexicalModel. With `model` both scores are fused, for which the model needs a
            fusion made for it.
        revision: branch, tag or commit of the model on the Hub.
        lexical_revision: of the lexical model.
        prompt: put before every text; by default what the model or its family wants.
        query_prompt: put before queries in its place.
        document_prompt: put before documents in its place.
        layer: `hidden_states` index of a plain encoder, "last" or "all" for their mean.
        pooling: of that layer: "mean" (default), "cls" or "last". Either of both makes the model a plain encoder.
        source_vectors: files of vectors in place of a model.
        target_vectors: the same of the other side.
        device: by default a GPU when there is one.
        batch_size: texts encoded at once.
        trust_remote_code: run the code of the model's repository.

    Raises:
        ValueError: nothing to load, or things that do not go together.
        FileNotFoundError: no such folder or Hub model.
    """
    from .dense import SentenceEncoder
    from .fused import FusedEncoder
    from .sparse import SparseVectors, is_sparse
    from .stored import LayerEncoder, StoredVectors

    source_files, target_files = _listed(source_vectors), _listed(target_vectors)
    prompts = {"prompt": prompt, "query_prompt": query_prompt, "document_prompt": document_prompt}
    of_model = {"revision": revision, "layer": layer, "pooling": pooling, **prompts}
    if lexical is None:
        _check_unused("there is no lexical model", lexical_revision=lexical_revision)
    if source_files or target_files:
        _check_unused("vectors are read from files", model=model, lexical=lexical, **of_model)
        return StoredVectors(source_files, target_files)
    if model is None and lexical is None:
        raise ValueError("nothing that encodes: give --model, --lexical or both.")
    if isinstance(model, Encoder):
        _check_unused("an Encoder is loaded already", **of_model)
        return model if lexical is None else FusedEncoder(model, _lexical(lexical, lexical_revision))
    if model is None:
        _check_unused("word links take the text as it is", layer=layer, pooling=pooling, **prompts)
        return _lexical(lexical, lexical_revision or revision)
    if layer is not None or pooling is not None:
        if lexical is not None or trust_remote_code:
            raise ValueError("layer and pooling read a plain encoder, without lexical and without code of its own.")
        if not isinstance(model, str | Path):
            raise ValueError("layer and pooling read a plain encoder's folder or Hub id; a loaded model has its own.")
        return LayerEncoder(model, parse_layer(layer), pooling or "mean", revision, device=device, **prompts)
    options = {"device": device, "batch_size": batch_size, "trust_remote_code": trust_remote_code, **prompts}
    if is_sparse(model, revision):
        if lexical is not None:
            raise ValueError(f"model={str(model)[:60]!r} is sparse; a lexical model is fused with dense vectors alone.")
        return SparseVectors(model, revision, **options)
    dense = SentenceEncoder(model, revision, **options)
    if lexical is None:
        return dense
    return FusedEncoder(dense, _lexical(lexical, lexical_revision))


def _check_unused(why: str, **options: Any) -> None:
    """Refuse options that nothing would heed."""
    given = [name for name, value in options.items() if value not in (None, "")]
    if given:
        raise ValueError(f"{', '.join(given)}: {why}; leave {'them' if len(given) > 1 else 'it'} out.")


def _lexical(lexical: Any, revision: str | None):
    from .sparse import LexicalEncoder

    return lexical if isinstance(lexical, LexicalEncoder) else LexicalEncoder(lexical, revision)


def parse_layer(layer: int | str | None) -> int | str | None:
    """The layer as `FrozenEncoder` takes it."""
    if layer in (None, "last"):
        return None
    if layer == "all" or isinstance(layer, int):
        return layer
    if layer.isdigit():
        return int(layer)
    raise ValueError(f"layer={layer!r}: give a number (0 = embedding output), 'last' or 'all'.")


def _listed(paths: Sequence[str | Path] | str | Path | None) -> list[str | Path]:
    if paths is None:
        return []
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    for path in listed:
        if not isinstance(path, str | Path):
            raise ValueError("vectors are read from files (.npy, .parquet, .jsonl); `encode` writes .npy.")
    return listed
