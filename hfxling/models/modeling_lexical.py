"""The lexical model: the log odds that two sentences translate each other, as one sparse inner product."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import csr_array
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput, cached_file, can_return_tuple, logging

from .configuration_lexical import LENGTH_DIMS, LexicalConfig
from .lexical_vectors import Bags, SparseMatrix, Term, pruned, side_by_side
from .loading import hub_kwargs_of, load_whole, stored_config

ROLES = ("query", "document")
LENGTH, HUB = "(length)", "(any sentence)"  # what stands for parts that no words make in `LexicalModel.explain`
SPECIAL = 4  # ids of no segment of the text: <pad>, <unk>, <s>, </s>
_TOKENIZER = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "attention_mask"]}
_TOKENIZER |= {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_CHUNK = 2000  # texts whose scores with all anchors are held at once
logger = logging.get_logger(__name__)


@dataclass
class LexicalOutput(ModelOutput):
    """Output of `LexicalModel`.

    Args:
        sentence_embedding: (B, D) mostly zeros, to be compared by inner product.
    """

    sentence_embedding: Tensor | None = None


class LexicalModel(PreTrainedModel):
    """Texts to sparse vectors whose inner product is how much likelier they are as translations than by chance.

    A text fills dimensions of its own segments and of the segments of other languages that they are linked to. As a
    query it fills others than as a document, so that `query . document` is

        F - hub_weight r(y) + K - hub_weight r(x) - length_scale ((log|y|/|x| - mu) / length_sigma)^2
        F = 1/|y| sum_t c_y(t) log(1 + mixture/|x| sum_s c_x(s) P(t|s) / bg(t)), K the same from y to x
        r(y) = mean of the largest F of y given `config.anchors`, sentences of the training text; r(x) the same of K

    of that language pair alone, however many languages there are; there are no links between texts of one language.
    F, K and r are sums over views, with their weights.

    Args:
        config: languages, sizes and settings.
        links: of every pair of `config.pairs` one matrix a view, P(t|s) / bg(t); a checkpoint carries them.
        anchors: of every language the training sentences that r is taken from, as shares of segments in each view.
        tokenizers: of every language one a view, with `<pad>` 0, `<unk>` 1, `<s>` 2, `</s>` 3.

    Attributes:
        static: static word vectors by language, where the model was just fitted.
    """

    config_class = LexicalConfig
    base_model_prefix = "lexical"
    main_input_name = "input_ids"

    def __init__(
        self,
        config: LexicalConfig,
        links: dict | None = None,
        anchors: dict | None = None,
        tokenizers: dict | None = None,
    ):
        super().__init__(config)
        sizes = config.vocab_sizes
        self.links, self.anchors = nn.ModuleDict(), nn.ModuleDict()
        for (source, target), counts in zip(config.pairs, config.links.values()):
            shapes = zip(sizes[source], sizes[target])
            self.links[f"{source}:{target}"] = nn.ModuleList(map(SparseMatrix, shapes, counts))
        for language, (rows, *counts) in config.anchors.items():
            shapes = [(rows, size) for size in sizes[language]]
            self.anchors[f"of_{language}"] = nn.ModuleList(map(SparseMatrix, shapes, counts))
        self.post_init()
        filled = [(self.links[":".join(pair)], matrices) for pair, matrices in (links or {}).items()]
        filled += [(self.anchors[f"of_{language}"], matrices) for language, matrices in (anchors or {}).items()]
        for modules, matrices in filled:
            for module, matrix in zip(modules, matrices):
                module.fill(matrix)
        self._hubs: dict[tuple, np.ndarray] = {}  # of `_hub`, made when they are first needed
        self._names: list[str] = []  # of `dimension_names`, made when they are first needed
        self.tokenizers: dict[str, list[Tokenizer]] | None = tokenizers
        self.static: dict | None = None

    def _init_weights(self, module: nn.Module) -> None:
        """Links are counted, not trained."""

    @classmethod
    def from_pretrained(cls, name, *args, **kwargs):
        """Load a folder or Hub repository, its tokenizers included.

        Raises:
            ValueError: it holds another kind of model, or weights or tokenizers that its configuration contradicts.
        """
        hub_kwargs = hub_kwargs_of(kwargs)
        kind = stored_config(name, hub_kwargs).get("model_type")
        if kind != cls.config_class.model_type:
            raise ValueError(f"{str(name)!r} is no lexical model: its config.json says model_type={kind!r}.")
        model, _ = load_whole(super().from_pretrained, name, *args, **kwargs)
        try:
            model.check()
        except ValueError as error:
            raise ValueError(f"{str(name)!r} is damaged: {error}; fetch or fit it again.") from None
        model.tokenizers = {language: [] for language in model.config.languages}
        for language, _, folder, size in model._tokenizer_folders():
            try:
                tokenizer = Tokenizer.from_file(cached_file(str(name), f"{folder}/tokenizer.json", **hub_kwargs))
            except Exception as error:  # the tokenizers library has no class of its own for it
                raise ValueError(f"{str(name)!r}: {folder} cannot be read ({str(error).splitlines()[0]}).") from None
            if tokenizer.get_vocab_size() != size:
                raise ValueError(f"{str(name)!r}: {folder} has {tokenizer.get_vocab_size()} segments, not {size}.")
            model.tokenizers[language].append(tokenizer)
        return model

    def check(self) -> None:
        """Raise ValueError where a matrix is damaged."""
        for module in self.modules():
            if isinstance(module, SparseMatrix):
                module.check()

    def save_pretrained(self, save_directory: str | Path, push_to_hub: bool = False, **kwargs) -> None:
        """Write weights, configuration, code and tokenizers; `hfxling.save_lexical` writes both other forms, too."""
        super().save_pretrained(save_directory, **kwargs)
        for language, view, name, _ in self._tokenizer_folders():
            folder = Path(save_directory) / name
            folder.mkdir(exist_ok=True)
            self.tokenizers[language][view].save(str(folder / "tokenizer.json"))
            text = json.dumps(_TOKENIZER, indent=2, sort_keys=True) + "\n"
            (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
        if push_to_hub:
            self.push_to_hub(**kwargs)

    def _tokenizer_folders(self) -> Iterator[tuple[str, int, str, int]]:
        """Language, number of the view, folder and size of every tokenizer; the first view's has no name in it."""
        for language, sizes in self.config.vocab_sizes.items():
            for view, (name, size) in enumerate(zip(self.config.views, sizes)):
                yield language, view, f"tokenizer_{language}" + (f"_{name}" if view else ""), size

    def check_language(self, language: str | None) -> None:
        """Raise the ValueError that names the languages when `language` is none of them."""
        if language not in self.config.languages:
            raise ValueError(f"language={language!r} is not one of this model's: {', '.join(self.config.languages)}.")

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | Sequence[Tensor],
        attention_mask: Tensor | Sequence[Tensor] | None = None,
        language: str | None = None,
        role: str = "query",
        **kwargs,
    ) -> LexicalOutput:
        """Sentence vectors of tokenized texts; `encode` takes the texts themselves and stays sparse.

        Args:
            input_ids: (B, S) of the language's tokenizer; where the model has several views, one such tensor for each.
            attention_mask: like the ids; by default every id but 0 is real.
            language: of the whole batch.
            role: "query" or "document".
            **kwargs: ignored (tokenizers give more than is needed).

        Raises:
            ValueError: a missing or unknown language or role, another number of views.
        """
        self._check(language, role)
        views = [input_ids] if isinstance(input_ids, Tensor) else list(input_ids)
        masks = [attention_mask] if isinstance(attention_mask, Tensor) else list(attention_mask or [None] * len(views))
        if len(views) != len(self.config.views) or len(masks) != len(views):
            raise ValueError(f"give input_ids (and masks) of each of the views {', '.join(self.config.views)}.")
        rows = []
        for ids, mask in zip(views, masks):
            mask = ids != 0 if mask is None else mask.bool()
            rows.append([row[keep].tolist() for row, keep in zip(ids.cpu(), mask.cpu())])
        vectors = self._vectors(self._bags(rows, language), language, role).toarray()
        device, dtype = self.device, self.dtype
        return LexicalOutput(torch.from_numpy(vectors).to(device=device, dtype=dtype))

    def encode(
        self, texts: Sequence[str], language: str, role: str = "query", *, max_active_dims: int | None = None
    ) -> csr_array:
        """(N, D) sparse float32 vectors, to be compared by inner product with those of the other role.

        Args:
            texts: of one language.
            language: its code.
            role: "query" or "document".
            max_active_dims: the largest weights that are kept of a text, `config.extra_dims` in any case.

        Raises:
            ValueError: an unknown language or role, a text that is empty or none.
        """
        self._check(language, role)
        extra = self.config.extra_dims
        if max_active_dims is not None and max_active_dims < extra:
            raise ValueError(f"max_active_dims={max_active_dims}: give {extra} or more.")
        vectors = self._vectors(self._read(texts, language), language, role)
        return vectors if max_active_dims is None else pruned(vectors, max_active_dims, extra)

    def dimension_names(self) -> list[str]:
        """What each of the D dimensions stands for: a segment as "zh:科学", else `LENGTH` or `HUB`.

        Every segment has two dimensions, one for each role, as `LexicalConfig` says. What a text has under its own
        language are its segments; under the other, what these are linked with.
        """
        if self._names:
            return self._names
        names = []
        for view in range(len(self.config.views)):
            for _ in ROLES:  # in the order of `_vectors`
                for language in self.config.languages:
                    tokenizer = self.tokenizers[language][view]
                    for number in range(self.config.vocab_sizes[language][view]):
                        names.append(f"{language}:{tokenizer.id_to_token(number)}")
        names.extend([LENGTH] * LENGTH_DIMS)
        names.extend([HUB] * (self.config.hidden_size - len(names)))
        self._names = names
        return names

    @staticmethod
    def to_qdrant(vectors: csr_array) -> list[dict[str, list]]:
        """Rows of `encode` as {"indices": ..., "values": ...}, what `qdrant_client.models.SparseVector` takes."""
        rows = []
        for start, end in zip(vectors.indptr[:-1], vectors.indptr[1:]):
            rows.append({"indices": vectors.indices[start:end].tolist(), "values": vectors.data[start:end].tolist()})
        return rows

    def score(self, source: Sequence[str], target: Sequence[str], languages: Sequence[str]) -> np.ndarray:
        """(N,) scores of sentence pairs: log odds that they translate each other, less the length prior.

        Args:
            source: N texts.
            target: N texts, line by line.
            languages: codes of source and target.

        Raises:
            ValueError: unequal numbers of texts, languages without links, and as `encode`.
        """
        self.check_pair(languages)
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source and {len(target)} target texts; give them pair by pair.")
        query = self.encode(source, languages[0], ROLES[0])
        document = self.encode(target, languages[1], ROLES[1])
        return query.multiply(document).sum(1)

    def explain(self, source: str, target: str, languages: Sequence[str]) -> list[Term]:
        """The linked segments that make the score of a sentence pair, those that count most first.

        Contributions add up to the score. A logarithm's sum is shared out in proportion to its parts; the length prior
        and r come as pairs of `LENGTH` and of `HUB`.

        Raises:
            ValueError: languages without links, and as `encode`.
        """
        self.check_pair(languages)
        config, contributions = self.config, {}
        bags = self._read([source], languages[0]), self._read([target], languages[1])
        for view, weight in enumerate(config.view_weights):
            for given, wanted in ((0, 1), (1, 0)):  # F, then K: the segments of one side given those of the other
                given_bag, wanted_bag = bags[given].shares[view], bags[wanted].shares[view]
                links = self._matrix(languages[given], languages[wanted], view)
                odds = config.mixture * links[given_bag.indices][:, wanted_bag.indices].toarray()
                odds *= given_bag.data[:, None]
                total = odds.sum(0)
                logs = np.log1p(total) * wanted_bag.data * weight
                log_per_odds = np.divide(logs, total, out=np.zeros_like(total), where=total > 0)
                given_terms = self._terms(given_bag, languages[given], view)
                wanted_terms = self._terms(wanted_bag, languages[wanted], view)
                for i, j in np.argwhere(odds > 0):
                    key = given_terms[i], wanted_terms[j]
                    if given == 1:
                        key = key[::-1]  # source first
                    contributions[key] = contributions.get(key, 0.0) + float(odds[i, j] * log_per_odds[j])
        if config.length_scale:
            lengths = self._length(bags[0], languages[0])[0], self._length(bags[1], languages[1])[0]
            deviation = float((lengths[1] - lengths[0]) / config.length_sigma)
            contributions[LENGTH, LENGTH] = -config.length_scale * deviation**2
        if config.hub_weight:
            levels = self._hub(*languages, bags[1]), self._hub(*languages[::-1], bags[0])
            contributions[HUB, HUB] = -config.hub_weight * float(sum(levels)[0])
        size = sum(map(abs, contributions.values())) or 1.0
        ordered = sorted(contributions.items(), key=lambda item: (-abs(item[1]), item[0]))
        return [Term(*key, value, value / size) for key, value in ordered]

    def _terms(self, bag: csr_array, language: str, view: int) -> list[str]:
        """The segments of a text, in the order of its bag."""
        return [self.tokenizers[language][view].id_to_token(int(i)) for i in bag.indices]

    def _check(self, language: str | None, role: str) -> None:
        self.check_language(language)
        if role not in ROLES:
            raise ValueError(f"role={role!r} is not one of {', '.join(ROLES)}.")

    def check_pair(self, languages: Sequence[str]) -> None:
        """Raise the ValueError that names the pairs with links when these two languages have none."""
        for language in languages:
            self.check_language(language)
        if tuple(languages) not in self.config.pairs:
            known = ", ".join("-".join(pair) for pair in self.config.pairs)
            raise ValueError(f"no links between {' and '.join(languages)}: the model has them for {known}.")

    def _read(self, texts: Sequence[str], language: str) -> Bags:
        if isinstance(texts, str):
            raise ValueError("texts is one string; give a list of them.")
        texts = list(texts)
        for row, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"text {row} (counted from 0) is {text!r}: an empty text has no vector; leave it out.")
        if self.tokenizers is None:
            raise ValueError(
                "this model has no tokenizers: load it with from_pretrained, or give them when it is made."
            )
        rows = []
        for tokenizer in self.tokenizers[language]:
            encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
            rows.append([encoding.ids for encoding in encodings])
        bags = self._bags(rows, language)
        known = sum(np.diff(share.indptr) for share in bags.shares)
        if not known.all():
            first = int(known.argmin())
            logger.warning(
                f"{(known == 0).sum()} of {len(texts)} texts have no segment that the model knows in {language!r}, "
                f"so they match nothing (first: {texts[first][:60]!r})."
            )
        return bags

    def _bags(self, views: Sequence[Sequence[Sequence[int]]], language: str) -> Bags:
        """Ids of texts, view by view, to shares."""
        shares, lengths_of_views = [], []
        for rows, size in zip(views, self.config.vocab_sizes[language]):
            lengths = np.fromiter(map(len, rows), np.int64, len(rows))
            ids = np.fromiter(chain.from_iterable(rows), np.int32, lengths.sum())
            if len(ids) and ids.max() >= size:
                raise ValueError(f"input_ids has {ids.max()}, the vocabulary of {language!r} ends at {size - 1}.")
            text_of_id = np.repeat(np.arange(len(rows)), lengths)
            lengths = np.maximum(lengths, 1)
            is_known = ids >= SPECIAL
            ids, text_of_id = ids[is_known], text_of_id[is_known]
            starts = np.bincount(text_of_id + 1, minlength=len(rows) + 1).cumsum()
            if starts[-1] < 2**31:
                starts = starts.astype(np.int32)  # and so in all that scipy makes of it
            # Unknown segments count in the length: they weaken the score as known ones without links do.
            shares_of_text = (1.0 / lengths).astype(np.float32)
            bag = csr_array((shares_of_text[text_of_id], ids, starts), shape=(len(rows), size))
            bag.sum_duplicates()
            shares.append(bag)
            lengths_of_views.append(lengths)
        return Bags(shares, lengths_of_views[0])

    def _vectors(self, bags: Bags, language: str, role: str) -> csr_array:
        """Put the parts of the vectors where they belong; see `LexicalConfig` for the fields."""
        config, parts, start = self.config, [], 0
        is_query = role == "query"
        for view, share in enumerate(bags.shares):
            weight = config.view_weights[view] if is_query else 1.0
            for block in ROLES:  # the dimensions of queries' own segments, where K is made, then those of documents'
                for other in config.languages:
                    if block == role and other == language:
                        parts.append((start, share * np.float32(config.balance * weight)))
                    elif block != role and (language, other) in config.pairs:
                        linked = self._linked(share, language, other, view)
                        parts.append((start, linked * np.float32(weight / config.balance)))
                    start += config.vocab_sizes[other][view]
        if config.length_scale:
            length, one = self._length(bags, language), np.ones(len(bags.lengths))
            if is_query:
                columns = np.stack([-(length**2), 2 * length, -one], 1).astype(np.float32)
                columns *= np.float32(config.length_scale / config.length_sigma**2)
            else:
                columns = np.stack([one, length, length**2], 1).astype(np.float32)
            parts.append((start, csr_array(columns)))
        if config.hub_weight:
            # A query has 1 where documents have their r given its language, a document where queries have theirs.
            levels = np.zeros((len(bags.lengths), 2, len(config.languages)), np.float32)
            one_at, level_at = (0, 1) if is_query else (1, 0)
            levels[:, one_at, config.languages.index(language)] = 1.0
            for i, other in enumerate(config.languages):
                if (other, language) in config.pairs:
                    levels[:, level_at, i] = -config.hub_weight * self._hub(other, language, bags)
            parts.append((start + LENGTH_DIMS, csr_array(levels.reshape(len(levels), -1))))
        return side_by_side(parts, config.hidden_size)

    def _length(self, bags: Bags, language: str) -> np.ndarray:
        """(N,) log lengths, comparable between languages."""
        return np.log(bags.lengths) - self.config.length_means[language]

    def _linked(self, share: csr_array, source: str, target: str, view: int) -> csr_array:
        """(N, W) log odds of every target segment given the texts."""
        linked = share @ self._matrix(source, target, view)
        np.log1p(linked.data * np.float32(self.config.mixture), out=linked.data)
        return linked

    def _hub(self, source: str, target: str, bags: Bags) -> np.ndarray:
        """(N,) r of texts in the target language: the mean of their largest F given the source language's anchors."""
        levels = np.zeros(len(bags.lengths), np.float32)
        neighbours = min(self.config.hub_neighbours, self.config.anchors[source][0])
        if not neighbours:
            return levels
        for view, (share, weight) in enumerate(zip(bags.shares, self.config.view_weights)):
            key = source, target, view
            if key not in self._hubs:
                anchors = self.anchors[f"of_{source}"][view].matrix()
                self._hubs[key] = self._linked(anchors, source, target, view).T.toarray()
            for start in range(0, len(levels), _CHUNK):
                rows = slice(start, start + _CHUNK)
                scores = share[rows] @ self._hubs[key]
                largest = np.partition(scores, -neighbours, axis=1)[:, -neighbours:]
                levels[rows] += np.float32(weight) * largest.mean(1)
        return levels

    def _matrix(self, source: str, target: str, view: int) -> csr_array:
        return self.links[f"{source}:{target}"][view].matrix()
