"""Load the encoder that the arguments of a verb name."""

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
    """Load an encoder of any kind: dense, sparse, lexical, fused, a single layer, or files of vectors.

    Args:
        model: folder or Hub id of a model that sentence-transformers loads, dense or sparse; or a loaded
            SentenceTransformer or SparseEncoder; or an `Encoder`, which is returned as it is.
        lexical: folder or Hub id of a lexical model, or a loaded LexicalModel. With `model` the scores of both are
            fused; this needs a fusion that was made for the two.
        revision: branch, tag or commit of the model on the Hub.
        lexical_revision: branch, tag or commit of the lexical model.
        prompt: text put before every sentence; by default what the model or its family expects.
        query_prompt: text put before queries instead.
        document_prompt: text put before documents instead.
        layer: `hidden_states` index of a plain encoder, "last", or "all" for the mean over the layers. With `layer` or
            `pooling` the model is read as a plain encoder.
        pooling: how that layer is pooled: "mean" (default), "cls" or "last".
        source_vectors: files with the vectors of the source side, in place of a model.
        target_vectors: the same for the target side.
        device: device to compute on; by default a GPU if there is one.
        batch_size: number of texts encoded at once.
        trust_remote_code: allow the code in the model's repository to run.

    Raises:
        ValueError: if there is nothing to load, or for options that do not go together.
        FileNotFoundError: if there is no such folder or Hub model.
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
        _check_unused("vectors come from source_vectors and target_vectors", model=model, lexical=lexical, **of_model)
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
            raise ValueError(
                "layer and pooling are for a plain encoder of transformers; leave out lexical and trust_remote_code."
            )
        if not isinstance(model, str | Path):
            raise ValueError(
                "layer and pooling need the folder or Hub id of a plain encoder; leave them out for a loaded model."
            )
        return LayerEncoder(model, parse_layer(layer), pooling or "mean", revision, device=device, **prompts)
    options = {"device": device, "batch_size": batch_size, "trust_remote_code": trust_remote_code, **prompts}
    if is_sparse(model, revision):
        if lexical is not None:
            problem = "is sparse, but a lexical model is fused only with a dense model"
            raise ValueError(f"model={str(model)[:60]!r} {problem}; leave one of them out.")
        return SparseVectors(model, revision, **options)
    dense = SentenceEncoder(model, revision, **options)
    if lexical is None:
        return dense
    return FusedEncoder(dense, _lexical(lexical, lexical_revision))


def _check_unused(why: str, **options: Any) -> None:
    """Refuse options that would have no effect."""
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
            raise ValueError("give files of vectors (.npy, .parquet, .jsonl), no arrays; `encode` writes .npy.")
    return listed
