"""Models that sentence-transformers loads, with their routes and prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hfxling.data.codes import same_language
from hfxling.data.invisible import as_seen
from hfxling.missing import check_device, check_model, one_line_where_missing
from hfxling.models.loading import quiet_loading
from hfxling.progress import shown
from hfxling.values import check_counts

from .frozen import WordStates
from .identity import identity
from .prompts import check_prompt, prompt_for
from .protocol import ROLES, Encoder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer, SparseEncoder
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding


class LoadedEncoder(Encoder):
    """A model that sentence-transformers loads, dense or sparse; arguments as for `load_encoder`.

    Attributes:
        model: the SentenceTransformer or SparseEncoder.
        library_class: name of the class of sentence-transformers that loads the model.
    """

    library_class = "SentenceTransformer"

    def __init__(
        self,
        model: str | Path | SentenceTransformer | SparseEncoder,
        revision: str | None = None,
        *,
        device: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        trust_remote_code: bool = False,
        **prompts: str | None,
    ):
        import sentence_transformers
        from sentence_transformers import SentenceTransformer, SparseEncoder

        check_counts(1, batch_size=batch_size)
        check_device(device)
        check_model("model", model, SentenceTransformer, SparseEncoder)
        is_in_memory = not isinstance(model, str | Path)
        if not is_in_memory:
            name = str(model)
            with one_line_where_missing(name, "model", "a model"), quiet_loading():
                load = getattr(sentence_transformers, self.library_class)
                self.model = load(name, revision=revision, device=device, trust_remote_code=trust_remote_code)
            if self.model.device.type == "cpu":
                self.model.float()  # CPUs are many times slower in half precision
            content = identity(name, revision)
        else:
            self.model = model
            config = getattr(getattr(model[0], "auto_model", None), "config", None)
            name = getattr(config, "_name_or_path", "") or "model in memory"  # where it came from, if it says so
            content = f"in memory, {id(model):x}"
        self.batch_size = batch_size
        prompt = prompt_for(name, self.model.prompts, self.model.default_prompt_name, prompt)
        super().__init__(name, content, prompt=prompt, is_in_memory=is_in_memory, **prompts)
        # An unsaved result of `hfxling.fit_head` still has the name of its encoder.
        if getattr(getattr(self.model, "model_card_data", None), "info", None) is not None:
            self.label += " with a head"


def _check_table(module: StaticEmbedding, name: str) -> None:
    """Raise ValueError if pieces of text have no vector or one that is not finite; only some texts would show it."""
    pieces, rows = module.tokenizer.get_vocab_size(), module.embedding.num_embeddings
    if pieces > rows:
        raise ValueError(f"model={name!r} is damaged: {rows} vectors for {pieces} pieces; fetch or publish it again.")
    if not module.embedding.weight.isfinite().all():
        raise ValueError(f"model={name!r} is damaged: its vectors hold NaN or infinite numbers; fetch it again.")


def runs_code(model: SentenceTransformer) -> bool:
    """Whether some of a loaded model's modules come from its own repository, as `trust_remote_code` allows."""
    return any(type(module).__module__.startswith("transformers_modules.") for module in model.modules())


class SentenceEncoder(LoadedEncoder):
    """A SentenceTransformer as an `Encoder`; arguments as for `LoadedEncoder`.

    Attributes:
        routes: `languages`, or query and document if the model has parts only for these; [] for one without parts.
    """

    def __init__(self, model: str | Path | SentenceTransformer, revision: str | None = None, **options):
        from sentence_transformers.sentence_transformer.modules import Router, StaticEmbedding

        super().__init__(model, revision, **options)
        for module in self.model.modules():
            if isinstance(module, StaticEmbedding):
                _check_table(module, self.name)
        for module in self.model:
            if isinstance(module, Router):
                self.routes += [route for route in module.sub_modules if route not in self.routes]
        self.languages = [route for route in self.routes if route not in ROLES]
        self.routes = self.languages or self.routes

    def route(self, language: str | None, role: str | None = None) -> str | None:
        """The route for a text's language, or else for its role; None for a model without routes."""
        if not self.routes:
            return None
        part = None if language is None else same_language(language, self.routes)
        if part is not None:
            return part
        if role in self.routes:
            return role
        raise ValueError(self._without_part(language or role))

    def _vectors(self, texts: list[str], route: str | None, role: str | None, progress: bool | None) -> np.ndarray:
        prompt = self.prompt_of(role)
        check_prompt(prompt, texts)
        if hasattr(self.model[0], "auto_model"):  # an encoder, whose tokenizer may treat such texts differently
            texts = list(map(as_seen, texts))
        vectors = self.model.encode(
            texts,
            prompt=prompt,
            batch_size=self.batch_size,
            task=route,
            show_progress_bar=shown() if progress is None else progress,
        )
        return vectors.astype(np.float32, copy=False)

    def word_states(self, sentences: Sequence[Sequence[str]], layer: int | None = None) -> list[np.ndarray]:
        """One (words, H) array per sentence, given as words, from the model's encoder; see `WordStates`."""
        transformer = self.model[0]
        if not hasattr(transformer, "auto_model"):
            raise ValueError(f"{self.label} does not start with an encoder, so it has no token vectors.")
        return WordStates(transformer.auto_model, self.model.tokenizer, layer=layer)(sentences)

    @property
    def dimension(self) -> int:
        """D, the dimension of a vector."""
        return self.model.get_embedding_dimension()
