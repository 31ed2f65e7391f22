"""Vectors of a transformer encoder in batches: of its layers, of a model in training, of single words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Regex, Tokenizer, normalizers
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from hfxling.data.features import cached_features
from hfxling.data.invisible import MARKS_AND_SPACES, as_seen
from hfxling.missing import check_device, one_line_where_missing
from hfxling.models.encoder import hidden_states, load_encoder
from hfxling.models.pooling import pool
from hfxling.sentences.neighbours import DTYPES

from .identity import identity
from .prompts import with_prompt

# Padded tokens in one pass. On a CPU small passes cost no more per token and hold less padding; a GPU needs large ones.
TOKENS_ON_CPU, TOKENS_ON_GPU = 1024, 16384
UNLIMITED = 1024  # tokens kept if neither tokenizer nor positions set a limit: what mT5 was pre-trained on
_AS_SEEN = [normalizers.Replace(Regex(MARKS_AND_SPACES), ""), normalizers.NFC()]
View = tuple[int | str | None, str]  # (layer, pooling): one way to take a vector from an encoder


class FrozenEncoder:
    """Encode texts with a transformer encoder, computing only the layers up to the deepest one needed.

    Args:
        name: Hub id or folder of the encoder.
        views: (layer, pooling) pairs; all are computed in the same pass. Layer None is the last one, "all" the mean
            over the layers.
        dtype: type of the computation, "float32" or "bfloat16"; the vectors are always float32.
        max_length: number of tokens kept of a text, see `token_limit`.
        device: device to compute on; by default a GPU if there is one.
        hub_kwargs: `revision`, `token`, `cache_dir` for the download.
        prompt: text put before every sentence.

    Attributes:
        hidden_size: H, the dimension of a vector.

    Raises:
        FileNotFoundError: if the encoder is neither a folder nor on the Hub.
        ValueError: for a layer that the encoder lacks, another dtype or an impossible max_length.
    """

    def __init__(
        self,
        name: str,
        views: Sequence[View] = ((7, "mean"),),
        *,
        dtype: str = "float32",
        max_length: int | None = None,
        device: str | None = None,
        hub_kwargs: dict | None = None,
        prompt: str | None = None,
    ):
        if dtype not in DTYPES:
            raise ValueError(f"dtype={dtype!r} is not one of {', '.join(DTYPES)}.")
        check_device(device)
        self.views = [tuple(view) for view in views]
        layers = [layer for layer, _ in self.views]
        cut = None
        if "all" in layers:  # a cut of its own, which not every family has
            cut = "all"
        elif all(isinstance(layer, int) for layer in layers):
            cut = max(layers)
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        with one_line_where_missing(name):
            self.model = load_encoder(name, cut, dtype=getattr(torch, dtype), **hub_kwargs or {}).to(self.device)
            self.tokenizer = load_tokenizer(name, hub_kwargs)
        depth, self.hidden_size = self.model.config.num_hidden_layers, self.model.config.hidden_size
        for layer in layers:
            if layer not in (None, "all", *range(depth + 1)):
                raise ValueError(f"layer={layer!r}: {name!r} has hidden_states 0..{depth}; give one, None or 'all'.")
        self.max_length = token_limit(self.tokenizer, self.model.config, max_length)
        self.name, self.dtype, self.prompt = str(name), dtype, prompt or ""
        self.revision = identity(name, (hub_kwargs or {}).get("revision"))

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(N, views, H) float32 vectors, in the texts' order."""
        texts = with_prompt(self.prompt, texts)
        shape = (len(self.views), self.hidden_size)
        return _encoded(texts, self._read, shape, self.tokenizer, self.device, self.max_length)

    def _read(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        states = hidden_states(self.model, inputs)
        read = []
        for layer, pooling in self.views:
            index = -1 if layer is None else layer
            # "all" leaves out the embedding output, as `layer_states` does.
            tokens = torch.stack(states[1:]).mean(0) if layer == "all" else states[index]
            read.append(pool(tokens.float(), inputs["attention_mask"], pooling))
        return torch.stack(read, dim=1)

    def features(self, texts: Sequence[str], cache_dir: str | Path, description: str = "encode") -> np.ndarray:
        """The same as calling it, through the cache of `hfxling.data.features`."""
        key, shape = {"model": self.name}, (len(self.views), self.hidden_size)
        key |= {name: getattr(self, name) for name in ("revision", "views", "dtype", "max_length", "prompt")}
        key["as seen"] = f"NFC without {MARKS_AND_SPACES}"  # tells these vectors from those of earlier versions
        return cached_features(texts, self, key=key, shape=shape, cache_dir=cache_dir, description=description)


class SentenceEmbedder:
    """Encode texts to (N, H) sentence vectors by a model in training, on its own device.

    The model must have an `encoder`, and its output a `sentence_embedding`, or the part that `output` names. The
    `prompt` of its configuration is put before every text; `max_length` is as for `token_limit`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int | None = None,
        *,
        output: str = "sentence_embedding",
    ):
        self.model, self.tokenizer, self.output = model, tokenizer, output
        self.max_length = token_limit(tokenizer, model.encoder.config, max_length)

    @torch.inference_mode()
    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """(N, H) float32, in the texts' order."""
        config = self.model.config
        texts = with_prompt(getattr(config, "prompt", None), texts)
        return _encoded(texts, self._read, (config.hidden_size,), self.tokenizer, self.model.device, self.max_length)

    def _read(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return getattr(self.model(**inputs), self.output)


def _encoded(texts: Sequence[str], read: Callable, shape: tuple, tokenizer, device, max_length: int) -> np.ndarray:
    """(N, *shape) float32 vectors that `read` computes from batches."""
    vectors = np.empty((len(texts), *shape), np.float32)
    if len(texts):
        ids = tokenizer(list(texts), truncation=True, max_length=max_length, return_attention_mask=False)["input_ids"]
        for rows, inputs in length_sorted(tokenizer, ids, device):
            vectors[rows] = read(inputs).float().cpu().numpy()
    return vectors


def load_tokenizer(name: str, hub_kwargs: dict | None = None) -> PreTrainedTokenizerBase:
    """The tokenizer of a folder or Hub model, without code of the repository; see `read_as_seen`."""
    tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False, **hub_kwargs or {})
    if len(tokenizer) <= len(tokenizer.all_special_ids):  # transformers makes one up if a folder has none
        raise ValueError(f"{str(name)!r} has no tokenizer: save the one that it was trained with beside its weights.")
    if tokenizer.is_fast:
        read_as_seen(tokenizer.backend_tokenizer)
    return tokenizer


def read_as_seen(tokenizer: Tokenizer) -> None:
    """Make a tokenizer give the same pieces for texts that look the same, as most tokenizers of BERT models do anyway.

    XLM-R's tokenizer replaces zero-width spaces, soft hyphens and the like by a space or an unknown piece, which cuts
    words in two. Of letters in three parts (NFD) it loses a mark, so that Vietnamese words lose their tones.
    """
    own = tokenizer.normalizer
    text = "a\u200bb\u00adc\u2060d e\u0323\u0302"
    if own is None:
        tokenizer.normalizer = normalizers.Sequence(_AS_SEEN)
    elif own.normalize_str(text) != own.normalize_str(as_seen(text)):
        tokenizer.normalizer = normalizers.Sequence([*_AS_SEEN, own])


def is_read_as_seen(tokenizer: Tokenizer) -> bool:
    """Whether `read_as_seen` gave the tokenizer steps that others of its kind do not have."""
    if tokenizer.normalizer is None:
        return False
    steps = json.loads(tokenizer.normalizer.__getstate__()).get("normalizers", [])
    return json.loads(_AS_SEEN[0].__getstate__()) in steps


def length_sorted(
    tokenizer, ids: Sequence[list[int]], device: str | torch.device
) -> Iterator[tuple[list[int], dict[str, torch.Tensor]]]:
    """Batches of token ids of similar length as encoder inputs: (positions in `ids`, input_ids and attention_mask)."""
    most_tokens = TOKENS_ON_CPU if torch.device(device).type == "cpu" else TOKENS_ON_GPU
    batches: list[list[int]] = []
    for row in sorted(range(len(ids)), key=lambda i: len(ids[i])):
        # Texts come in rising length, so the batch would be padded to the length of this one.
        if not batches or (len(batches[-1]) + 1) * len(ids[row]) > most_tokens:
            batches.append([])
        batches[-1].append(row)
    for rows in batches:
        batch = tokenizer.pad({"input_ids": [ids[i] for i in rows]}, return_tensors="pt", padding_side="right")
        yield rows, {name: batch[name].to(device) for name in ("input_ids", "attention_mask")}


def token_limit(tokenizer, config, max_length: int | None = None) -> int:
    """Tokens kept of a text: the smallest of `max_length`, the tokenizer's limit and the number of positions."""
    special = tokenizer.num_special_tokens_to_add()
    if max_length is not None and max_length <= special:
        raise ValueError(f"max_length={max_length} leaves no room beside the {special} special tokens; give more.")
    limits = (max_length, tokenizer.model_max_length, position_limit(config))
    # A tokenizer that sets no limit says 1e30.
    return min((limit for limit in limits if limit and limit <= 1_000_000), default=UNLIMITED)


def position_limit(config) -> int | None:
    """How many tokens the encoder's position embeddings allow; None for relative positions (T5)."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit and config.model_type in ("roberta", "xlm-roberta", "camembert"):
        limit -= config.pad_token_id + 1  # their positions start after the padding id
    return limit


class WordStates:
    """Encode sentences given as lists of words to one vector per word, by an encoder on its own device.

    `layer` is an index into `hidden_states`; None is the last one.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, layer: int | None = None):
        if not getattr(tokenizer, "is_fast", False):
            problem = "does not say which word a piece belongs to"
            raise ValueError(f"{type(tokenizer).__name__} {problem}; give a fast tokenizer.")
        depth = model.config.num_hidden_layers
        if layer is not None and not -depth - 1 <= layer <= depth:
            raise ValueError(f"layer={layer}: the encoder has hidden_states 0..{depth}; give one of these.")
        self.model, self.tokenizer, self.layer = model.eval(), tokenizer, -1 if layer is None else layer
        self.max_length = token_limit(tokenizer, model.config)

    @torch.inference_mode()
    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """One (words, H) float32 array per sentence; the row of a word that has no piece or was cut off is NaN."""
        if not len(sentences):
            return []
        words = [list(map(as_seen, sentence)) for sentence in sentences]
        encoded = self.tokenizer(
            words, is_split_into_words=True, return_attention_mask=False, truncation=True, max_length=self.max_length
        )
        ids = encoded["input_ids"]
        vectors: list[np.ndarray] = [np.empty(0)] * len(ids)
        for rows, inputs in length_sorted(self.tokenizer, ids, self.model.device):
            states = hidden_states(self.model, inputs)[self.layer].float().cpu().numpy()
            for row, state in zip(rows, states):
                vectors[row] = _word_means(state[: len(ids[row])], encoded.word_ids(row), len(sentences[row]))
        return vectors


def _word_means(states: np.ndarray, word_ids: Sequence[int | None], words: int) -> np.ndarray:
    """(words, H) means of the (S, H) states of each word's pieces."""
    owner = np.array([-1 if word is None else word for word in word_ids], np.int64)
    is_piece = owner >= 0
    owner = owner[is_piece]
    sums = np.zeros((words, states.shape[1]), np.float32)
    np.add.at(sums, owner, states[is_piece])
    counts = np.bincount(owner, minlength=words).astype(np.float32)
    counts[counts == 0] = np.nan  # no warning about a division by zero
    return sums / counts[:, None]
