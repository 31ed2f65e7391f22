"""An encoder's vectors of words in context, and how similar the words of a sentence pair are by them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import AutoConfig

from hfxling.data.segment import Span
from hfxling.encoders.frozen import length_sorted, load_tokenizer, read_as_seen, token_limit
from hfxling.encoders.prompts import prompt_for, prompt_of
from hfxling.missing import check_device, check_model, one_line_where_missing
from hfxling.models.encoder import hidden_states, load_encoder
from hfxling.sentences.neighbours import unit_or_zero

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Layer whose words are most like their translations, by number of layers: 7 of multilingual-e5-small's 12 on gold links
# of xlwa-dev; SimAlign and awesome-align take layer 8 of multilingual BERT's 12, which is one further.
LAYERS = {12: 7, 24: 15, 6: 4}
_OVERLAP = 4  # neighbouring windows share 1 / 4 of their length
_LEAST_PIECES = 1000  # fewest pieces that a language's mean is taken from
_MOST_UNKNOWN = 0.5  # share of a text's pieces that may be unknown to the encoder


class WordEncoder:
    """Vectors of words in context, from one layer of a multilingual encoder.

    The model is a folder or Hub id of an encoder, a sentence-transformers model or one of ours, or a loaded
    SentenceTransformer, which keeps its dtype. By default the layer suits the encoder's depth (see `LAYERS`), the
    prompt is the model's own or that of its family, and the device is a GPU if there is one.

    Attributes:
        name: folder or Hub id.
        layer: index of the layer that is read, in `hidden_states`.
        means: for every language the mean of its pieces.
        kept: pieces of lines that are read more than once, see `keep`.
    """

    def __init__(
        self,
        model: str | SentenceTransformer | Any,
        revision: str | None = None,
        *,
        layer: int | None = None,
        prompt: str | None = None,
        device: str | None = None,
        dtype: str = "float32",
    ):
        check_device(device)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        if hasattr(model, "prompts") and hasattr(model, "tokenizer"):
            self._take_loaded(model, layer)
            own_prompt = prompt_for(self.name, model.prompts, model.default_prompt_name, prompt)
        else:
            from sentence_transformers import SentenceTransformer

            check_model("model", model, SentenceTransformer)
            self._load(str(model), revision, layer, device, getattr(torch, dtype))
            own_prompt = prompt_of(str(model), revision) if prompt is None else prompt
        if not getattr(self.tokenizer, "is_fast", False):
            kind = type(self.tokenizer).__name__
            raise ValueError(
                f"{self.name}: {kind} does not say where its pieces are; give a model with a fast tokenizer."
            )
        self.prompt = own_prompt or ""
        self.means: dict[str, np.ndarray] = {}
        self.kept: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.limit = token_limit(self.tokenizer, self.model.config)

    def _load(self, name: str, revision: str | None, layer: int | None, device: str, dtype: torch.dtype) -> None:
        hub_kwargs = {"revision": revision} if revision else {}
        self.layer = default_layer(depth_of(name, revision)) if layer is None else layer
        with one_line_where_missing(name, "model"):
            self.model = load_encoder(name, self.layer, dtype=dtype, **hub_kwargs).to(device)
            self.tokenizer = load_tokenizer(name, hub_kwargs)
        self.name = name

    def _take_loaded(self, model: SentenceTransformer, layer: int | None) -> None:
        self.model = getattr(model[0], "auto_model", None)
        if self.model is None:
            raise ValueError("the model does not start with an encoder, so its words have no vectors; give another.")
        self.name = getattr(self.model.config, "_name_or_path", "") or "model in memory"
        self.tokenizer = copy.deepcopy(model.tokenizer)  # the model's own stays as it is
        if getattr(self.tokenizer, "is_fast", False):
            read_as_seen(self.tokenizer.backend_tokenizer)
        depth = self.model.config.num_hidden_layers
        self.layer = default_layer(depth) if layer is None else layer
        if not 0 <= self.layer <= depth:
            raise ValueError(f"layer={layer} is outside hidden_states 0..{depth} of {self.name}.")

    def __call__(
        self, lines: Sequence[str], views: Sequence[Sequence[Sequence[Span]]], language: str = ""
    ) -> list[list[np.ndarray]]:
        """(U, H) vectors of the units of every line, for each of several views (ways to cut the lines into units).

        A unit's vector is the mean of its pieces, each of unit length, or zero if it has no pieces. Pieces are centred:
        the mean of all pieces of a language is subtracted. This mean is learnt in the first call with enough text, and
        kept. Texts longer than the encoder's limit are read in windows that overlap.
        """
        if not lines:
            return [[] for _ in views]
        offsets: list[np.ndarray] = [np.empty(0)] * len(lines)
        states: list[np.ndarray] = [np.empty(0)] * len(lines)
        for row, line_offsets, line_states in self.pieces(lines):
            offsets[row], states[row] = line_offsets, unit_or_zero(line_states)
        if language not in self.means and sum(map(len, states)) >= _LEAST_PIECES:
            self.means[language] = np.concatenate(states).mean(0)
        mean = self.means.get(language, 0.0)
        states = [unit_or_zero(line_states - mean) for line_states in states]
        vectors = []
        for units in views:
            vectors.append([_unit_means(*line) for line in zip(units, offsets, states)])
        return vectors

    def keep(self, lines: Sequence[str]) -> None:
        """Read lines, and keep their pieces until `kept` is cleared."""
        new = [line for line in dict.fromkeys(lines) if line not in self.kept]
        if new:
            for row, places, vectors in self._read(new):
                self.kept[new[row]] = places, vectors

    def pieces(self, lines: Sequence[str]) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """For every line, in any order: its number, places (P, 2) of its pieces and their vectors (P, H)."""
        rows = []
        for row, line in enumerate(lines):
            if line in self.kept:
                yield row, *self.kept[line]
            else:
                rows.append(row)
        if rows:
            for number, places, vectors in self._read([lines[row] for row in rows]):
                yield rows[number], places, vectors

    def pieces_of_layers(self, lines: Sequence[str], layers: Sequence[int]) -> list[dict[str, tuple]]:
        """For every layer the places and vectors of each line's pieces, read in one pass; for `kept`."""
        by_layer: list[dict[str, tuple]] = [{} for _ in layers]
        distinct = list(dict.fromkeys(lines))
        for row, places, vectors in self._read(distinct, layers):
            for layer_pieces, layer_vectors in zip(by_layer, np.split(vectors, len(layers), axis=1)):
                layer_pieces[distinct[row]] = places, layer_vectors
        return by_layer

    @torch.inference_mode()
    def _read(
        self, lines: Sequence[str], layers: Sequence[int] | None = None
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """`pieces` from the encoder; the vectors of several layers are joined, (P, layers * H)."""
        layers = [self.layer] if layers is None else layers
        texts = [self.prompt + line for line in lines]
        encoded = self.tokenizer(
            texts,
            truncation=True,
            max_length=self.limit,
            # How many pieces neighbouring windows share, not how far they are apart.
            stride=(self.limit - self.tokenizer.num_special_tokens_to_add()) // _OVERLAP,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            return_attention_mask=False,
        )
        self._check_known(encoded["input_ids"])
        line_of = encoded["overflow_to_sample_mapping"]
        windows_of: dict[int, list[int]] = {}
        for window, line in enumerate(line_of):
            windows_of.setdefault(line, []).append(window)
        states: dict[int, np.ndarray] = {}  # of windows whose line is incomplete, as windows come sorted by length
        for windows, batch in length_sorted(self.tokenizer, encoded["input_ids"], self.model.device):
            of_all = hidden_states(self.model, batch)
            read = torch.cat([of_all[layer] for layer in layers], dim=-1).float().cpu().numpy()
            for window, vectors in zip(windows, read):
                states[window] = vectors[: len(encoded["input_ids"][window])]
                line = line_of[window]
                line_windows = windows_of[line]
                if states.keys() >= set(line_windows):
                    offsets = [np.array(encoded["offset_mapping"][each]) - len(self.prompt) for each in line_windows]
                    places, vectors = _joined(offsets, [states.pop(each) for each in line_windows])
                    # Special tokens are empty, and the prompt ends before 0. The first word's piece may begin before 0,
                    # too: in "query: Ab" it contains the space.
                    places = np.maximum(places, 0)
                    is_text = places[:, 1] > places[:, 0]
                    yield line, places[is_text], vectors[is_text]

    def _check_known(self, ids: Sequence[Sequence[int]]) -> None:
        unknown = self.tokenizer.unk_token_id  # None for a tokenizer that knows every character
        share = sum(row.count(unknown) for row in ids) / max(1, sum(map(len, ids)))
        if share > _MOST_UNKNOWN:
            raise ValueError(
                f"{self.name} does not know the script of this text: {share:.0%} of its pieces are unknown; "
                "give another model, or none, to learn links from the text alone."
            )


def default_layer(depth: int) -> int:
    """The layer that is read by default, for an encoder with `depth` layers."""
    return LAYERS.get(depth, round(0.6 * depth))


def depth_of(model: SentenceTransformer | str | Path, revision: str | None) -> int | None:
    """How many layers an encoder has; None for a loaded model that does not start with an encoder."""
    if hasattr(model, "prompts"):
        encoder = getattr(model[0], "auto_model", None)
        return None if encoder is None else encoder.config.num_hidden_layers
    hub_kwargs = {"revision": revision} if revision else {}
    with one_line_where_missing(str(model), "model"):
        return AutoConfig.from_pretrained(str(model), trust_remote_code=False, **hub_kwargs).num_hidden_layers


def similarities(source: Sequence[np.ndarray], target: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For every sentence pair the (S, T) float16 cosines of its units' vectors; 0 for a unit without a vector."""
    return [(unit_or_zero(x) @ unit_or_zero(y).T).astype(np.float16) for x, y in zip(source, target)]


def _joined(offsets: Sequence[np.ndarray], states: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Places and vectors of a line's pieces, from its windows.

    Where windows overlap, a piece is taken from the window in which its poorer side has more context.
    """
    if len(offsets) == 1:
        return offsets[0], states[0]
    best: dict[tuple[int, int], tuple[int, np.ndarray]] = {}
    for places, vectors in zip(offsets, states):
        for number, (place, vector) in enumerate(zip(places, vectors)):
            context = min(number, len(places) - 1 - number)
            key = (int(place[0]), int(place[1]))
            if key not in best or context > best[key][0]:
                best[key] = context, vector
    return np.array(list(best)), np.stack([vector for _, vector in best.values()])


def _unit_means(units: Sequence[Span], offsets: np.ndarray, states: np.ndarray) -> np.ndarray:
    """(U, H) means of the pieces that overlap each unit, weighted by the number of letters they share."""
    places = np.array([(unit.start, unit.end) for unit in units], np.int64).reshape(-1, 2)
    starts, ends = places[:, :1], places[:, 1:]
    shared = np.minimum(ends, offsets[:, 1]) - np.maximum(starts, offsets[:, 0])
    shared = np.maximum(shared, 0).astype(np.float32)
    return shared @ states / np.maximum(shared.sum(1, keepdims=True), 1)
