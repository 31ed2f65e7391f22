"""The methods from Python: sentence pairs in, a model in memory out; no files, no YAML.

Each function trains with the code of its method's recipe, in a temporary folder, and evaluates nothing. For figures, a
card and checkpoints run the recipe. The returned model is used, saved and pushed like any model of its kind.
DAP has no function here: it trains a whole encoder for hours, which needs checkpoints, and several GPUs.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from transformers import TrainingArguments

from hfxling.data.corpus import Corpus
from hfxling.data.licences import check_licence
from hfxling.data.pairs import check_lists
from hfxling.data.sources import Pair, name_of_pair, parse_pair
from hfxling.data.texts import check_one_split, check_texts, numbered_distinct
from hfxling.data.warn import warn_of_foreign
from hfxling.encoders.dense import SentenceEncoder, runs_code
from hfxling.encoders.identity import model_name
from hfxling.files import atomic_path
from hfxling.hub.card import CardInfo
from hfxling.hub.folder import publish
from hfxling.hub.in_memory import CardInMemory
from hfxling.hub.index import TAGS, is_hub_id, told_apart, widget_example
from hfxling.hub.snippets import LANGCHAIN, Client, own_examples, stock_snippet
from hfxling.methods import aligner, disentangler, lexical, siamese
from hfxling.methods.aligner.card import described as describe_aligner
from hfxling.methods.aligner.data import encode_pairs, learn_corpus_vocabularies, learn_priors
from hfxling.methods.aligner.export import export_aligner
from hfxling.methods.appended import append_head, check_has_no_routes
from hfxling.methods.checks import check_trainer
from hfxling.methods.disentangler.card import described as describe_split
from hfxling.methods.frozen import PairVectors, Sides
from hfxling.methods.lexical.card import described as describe_lexical
from hfxling.methods.lexical.export import export_lexical
from hfxling.methods.siamese.card import described as describe_head
from hfxling.missing import check_device
from hfxling.models.modeling_lexical import LexicalModel
from hfxling.progress import hidden
from hfxling.values import check_seed
from hfxling.verbs import check_revisions
from hfxling.words.aligner import Aligner

Texts = Sequence[str]
Pairs = Mapping[Pair, tuple[Texts, Texts]]  # by source and target language
Model = str | Path | SentenceTransformer
_UNNAMED = ("src", "tgt")  # language codes where the caller gave none
_OF_RECIPES = {"output_dir", "resume_from_checkpoint", "push_to_hub"}  # arguments of the Trainer that only recipes take


def fit_head(
    model: Model,
    source: Texts,
    target: Texts,
    *,
    fit: str = "auto",
    languages: Pair | None = None,
    prompt: str | None = None,
    seed: int = 42,
    progress: bool = True,
    **options,
) -> SentenceTransformer:
    """Fit a linear head on a frozen model's sentence vectors, so that translations get vectors near each other.

    The result encodes the source language with `encode_query` and the target language with `encode_document`. If both
    languages share one map (`one_map=True`, discriminant, infonce, contrastive), `encode` takes either.

    Example:
        >>> import hfxling
        >>> pairs = hfxling.load_parallel("sample", "zh", "vi")
        >>> model = hfxling.fit_head("sentence-transformers/LaBSE", pairs["source"], pairs["target"])
        >>> model.similarity(model.encode_query(["今天下雨。"]), model.encode_document(["Hôm nay trời mưa."]))
        >>> model.push_to_hub("you/zh-vi-sf")

    Args:
        model: Hub id, folder or loaded model. A loaded model is not changed, and the result shares its encoder.
        source: at least 10 texts. All are used as they are; filter them first if needed.
        target: the translations of `source`, in the same order.
        fit: how the head is fitted. "auto" takes what finds most translations of held-out pairs; the model without a
            head is one of the candidates. Closed forms: "centred", "cca", "tied", "discriminant", "procrustes",
            "ridge". By training: "infonce", "contrastive".
        languages: codes of both languages; `encode(texts, task="vi")` then works, too.
        prompt: text put before every sentence, during fitting and by the result. Default: the model's own prompt, or
            the one that its family expects.
        seed: seed of the folds, the sampled negatives and the training; 42 is also the default of the recipes.
        progress: show progress bars and the Trainer's log.
        **options: further fields of `hfxling.methods.siamese.HeadSettings` (head, temperature, margin, ...) and of
            `TrainingArguments` (num_train_epochs, learning_rate, ...); the defaults are the recipe's.

    Raises:
        ValueError: if the numbers of texts differ, there are fewer than 10, or one is empty; if the model has routes;
            for an unknown option or value.
        FileNotFoundError: if there is no such model.
    """
    pairs = _checked(source, target, languages)
    if len(pairs) != 1:
        raise ValueError(f"{len(pairs)} language pairs: a head is for one language pair; give the texts of one.")
    ((pair, (_, translations)),) = pairs.items()
    fitting = _settings(siamese.HeadSettings, siamese.TRAINING_DEFAULTS, {"fit": fit} | options, seed, progress)
    with fitting as (settings, training_args, configuration):
        base = _base(model)
        encoder = SentenceEncoder(base, prompt=prompt)
        (sides,) = _vectors(encoder, pairs, progress)
        head, reached = siamese.fit(PairVectors(pair, sides, sides), translations, settings, training_args)
    chosen = [reached["form"]] if "form" in reached else []
    card = describe_head(pair, _named_base(model, base), chosen, is_on_own_vectors=True)
    card |= {"method": "siamese"}
    return _with_head(base, head, Corpus.in_memory(pairs), encoder.prompt, card, configuration)


def fit_disentangler(
    model: Model,
    source: Texts | Pairs,
    target: Texts | None = None,
    *,
    languages: Pair | None = None,
    prompt: str | None = None,
    seed: int = 42,
    progress: bool = True,
    **options,
) -> SentenceTransformer:
    """Split a frozen model's vectors into a meaning and a language part; the result returns the meaning part.

    Example:
        >>> texts = {("en", "de"): (english, german), ("en", "zh"): (more_english, chinese)}
        >>> model = hfxling.fit_disentangler("sentence-transformers/LaBSE", texts)
        >>> model.similarity(model.encode(["It is raining."]), model.encode(["Es regnet."]))

    Args:
        model: Hub id, folder or loaded model, as for `fit_head`.
        source: at least 10 texts; or a dict from (source, target) codes to texts and translations, for several
            language pairs.
        target: the translations of `source`, in the same order.
        languages: codes of both languages, for the card.
        prompt: text put before every sentence, as for `fit_head`.
        seed: seed of the training.
        progress: show progress bars and the Trainer's log.
        **options: further fields of `hfxling.methods.disentangler.SplitSettings` (objective, bias, patience, ...) and
            of `TrainingArguments`.

    Raises:
        ValueError: as for `fit_head`.
        FileNotFoundError: if there is no such model.
    """
    pairs = _checked(source, target, languages)
    fitting = _settings(disentangler.SplitSettings, disentangler.TRAINING_DEFAULTS, options, seed, progress)
    with fitting as (settings, training_args, configuration):
        disentangler.check_training(training_args)
        base, kind = _base(model), settings.encoder_kind
        if kind == "auto":
            is_last = any(getattr(module, "pooling_mode", None) == "lasttoken" for module in base)
            config = getattr(base.transformers_model, "config", None)
            kind = disentangler.kind_of("last" if is_last else "mean", config)
        encoder = SentenceEncoder(base, prompt=prompt)
        vectors = _vectors(encoder, pairs, progress)
        head = disentangler.fit(vectors, settings, training_args, kind=kind).head
    corpus = Corpus.in_memory(pairs)
    card = describe_split(corpus.languages, _named_base(model, base)) | {"method": "disentangler"}
    return _with_head(base, head, corpus, encoder.prompt, card, configuration)


def fit_aligner(
    source: Texts, target: Texts, languages: Pair, *, seed: int = 42, progress: bool = True, **options
) -> Aligner:
    """Train a word aligner on sentence pairs alone; `save_aligner` writes it to a folder.

    Example:
        >>> aligner = hfxling.fit_aligner(lao, chinese, ("lo", "zh"), prior=True)
        >>> links = [line.links for line in aligner(lao, chinese)]

    Args:
        source: at least 10 texts.
        target: the translations of `source`, in the same order.
        languages: codes of both languages; they decide how the texts are segmented.
        seed: seed of the batches and the training.
        progress: show progress bars and the Trainer's log.
        **options: further fields of `hfxling.methods.aligner.AlignerSettings` (prior, size, segmenters, ...) and of
            `TrainingArguments`.

    Raises:
        ValueError: as for `fit_head`.
    """
    pairs = _checked(source, target, languages)
    fitting = _settings(aligner.AlignerSettings, aligner.TRAINING_DEFAULTS, options, seed, progress)
    with fitting as (settings, training_args, configuration):
        corpus = Corpus.in_memory(pairs)
        vocabularies = learn_corpus_vocabularies(corpus, settings)
        encoded = encode_pairs(corpus, vocabularies, max_words=settings.max_words)
        priors = learn_priors(encoded, vocabularies) if settings.prior else []
        torch.manual_seed(seed)
        model = aligner.new_model(settings, vocabularies, priors)
        aligner.fit(model, encoded, vocabularies, settings, training_args, priors)
    prior = priors[0] if priors else None
    fitted = Aligner(model, vocabularies, languages, prior=prior)
    fitted.origin = _origin("aligner", describe_aligner(languages, own_examples(corpus.pairs)), configuration, corpus)
    return fitted


def fit_lexical(
    source: Texts | Pairs,
    target: Texts | None = None,
    languages: Pair | None = None,
    *,
    model: Model | None = None,
    revision: str | None = None,
    prompt: str | None = None,
    device: str | None = None,
    seed: int = 42,
    progress: bool = True,
    **options,
) -> LexicalModel:
    """Make a lexical model from the word links counted in sentence pairs; `save_lexical` writes it to a folder.

    Example:
        >>> model = hfxling.fit_lexical(chinese, vietnamese, ("zh", "vi"))
        >>> scores = model.encode(queries, "zh") @ model.encode(candidates, "vi", role="document").T
        >>> model.explain("今天下雨。", "Hôm nay trời mưa.", ("zh", "vi"))

    Args:
        source: at least 10 texts; or a dict from (source, target) codes to texts and translations, for several
            language pairs.
        target: the translations of `source`, in the same order.
        languages: codes of both languages; they decide how the texts are segmented.
        model: folder or Hub id of an encoder, or a loaded one. Its similarities of words then help to learn the links,
            which makes them better, most of all for the static vectors. The lexical model itself does not need it.
        revision: branch, tag or commit of the encoder on the Hub.
        prompt: text put before every text that the encoder reads; by default the encoder's own prompt.
        device: device of the encoder; by default a GPU if there is one.
        seed: seed of the sample for the length prior, and of the static vectors.
        progress: show progress bars.
        **options: further fields of `hfxling.methods.lexical.LinkSettings` (views, mixture, rank, lexicon, ...).

    Raises:
        ValueError: as for `fit_head`; if the languages are missing or equal; if the encoder does not know the script of
            a language.
        FileNotFoundError: if there is no such encoder.
    """
    if languages is None and not isinstance(source, Mapping):
        raise ValueError("languages=None: give the codes of both languages, such as ('zh', 'vi').")
    pairs = _checked(source, target, languages)
    corpus = Corpus.in_memory(pairs)
    check_seed(seed)
    _refuse_unknown(options, set(lexical.LinkSettings.__dataclass_fields__))
    check_revisions(revision=(model, revision), prompt=(model, prompt))
    check_device(device)
    settings = lexical.LinkSettings(**options)
    with hidden(not progress):
        encoder = encoder_name = None
        if model is not None:
            encoder = lexical.word_encoder(model, revision, corpus, prompt=prompt, device=device)
            encoder_name = encoder.name
        views = lexical.link_views(corpus, settings, encoder)
        fitted = lexical.fit(views, settings, encoder=encoder_name, encoder_revision=revision, seed=seed)
    card = describe_lexical(list(pairs), own_examples(corpus.pairs), is_shared=views[0].is_shared, encoder=encoder_name)
    configuration = dataclasses.asdict(settings) | {"seed": seed}
    if encoder_name is not None:
        configuration |= {"encoder": model_name(encoder_name), "encoder_revision": revision}
    fitted.origin = _origin("lexical", card, configuration, corpus)
    return fitted


def save_lexical(
    model: LexicalModel, folder: str | Path, *, licence: str | None = None, repo: str | None = None
) -> None:
    """Write a fitted lexical model as the recipe does: for SentenceTransformer, SparseEncoder and AutoModel.

    Args:
        model: result of `fit_lexical`.
        folder: folder to write; an earlier one is replaced.
        licence: licence of the training text for the card, as the Hub's identifier; `publish` requires one.
        repo: name of the repository in the card, org/name.

    Raises:
        ValueError: if the model was loaded without its static vectors, or the licence is not one of the Hub's.
    """
    _save(model, folder, lambda scratch: export_lexical(model, scratch), licence, repo)


def save_aligner(aligner: Aligner, folder: str | Path, *, licence: str | None = None, repo: str | None = None) -> None:
    """Write an aligner as the recipe does: for `hfxling align --model FOLDER`, AutoModel and sentence-transformers.

    Args:
        aligner: result of `fit_aligner`.
        folder: folder to write; an earlier one is replaced.
        licence: licence of the training text for the card, as the Hub's identifier; `publish` requires one.
        repo: name of the repository in the card, org/name.

    Raises:
        ValueError: if the licence is not one of the Hub's.
    """
    vocabularies = dict(zip(aligner.languages, aligner.vocabularies))
    priors = [aligner.prior] if aligner.prior else []
    _save(aligner, folder, lambda scratch: export_aligner(aligner.model, vocabularies, scratch, priors), licence, repo)


def _origin(method: str, card: dict[str, Any], configuration: dict[str, Any], corpus: Corpus) -> dict[str, Any]:
    """What a model was made from, as fields of `CardInfo`; `card` holds the fields of the method."""
    own = {"method": method, "configuration": configuration, "examples": own_examples(corpus.pairs)}
    return card | own | {"train_data": corpus.card_entries(None)}


def _save(
    model: LexicalModel | Aligner,
    folder: str | Path,
    write: Callable[[Path], None],
    licence: str | None,
    repo: str | None,
) -> None:
    """Write a folder, with a card without figures if it is known what the model was made from."""
    check_licence("licence", licence)
    origin = getattr(model, "origin", None)
    if origin is None:
        with atomic_path(folder) as scratch:
            write(scratch)
        return
    fields = origin | {"licence": licence or "other"}
    if licence is not None:
        fields["train_data"] = [entry | {"licence": licence} for entry in origin["train_data"]]
    if repo is not None:
        fields["repo_id"] = repo
    with hidden():
        publish(folder, write, [], CardInfo(**fields), recipe=f"hfxling.fit_{origin['method']}")


def _checked(source: Texts | Pairs, target: Texts | None, languages: Pair | None) -> dict[Pair, tuple]:
    """Lists of source and target texts by language pair."""
    check_one_split(source)
    if isinstance(source, Mapping) and not (target is None and languages is None):
        raise ValueError("source names both sides of every language pair; leave target and languages out.")
    pairs = {}
    if isinstance(languages, str):
        raise ValueError(f"languages={languages!r}: give the codes of two languages, such as ('zh', 'vi').")
    texts_of = source if isinstance(source, Mapping) else {tuple(languages or _UNNAMED): (source, target)}
    if not texts_of:
        raise ValueError("source names no language pair: give the texts of at least one.")
    for pair, sides in texts_of.items():
        if isinstance(pair, str) or len(pair) != 2:
            raise ValueError(f"languages={pair!r}: give the codes of two languages, such as ('zh', 'vi').")
        if tuple(pair) != _UNNAMED:
            parse_pair(name_of_pair(pair))  # refuses what is no language
        check_lists(*sides)
        sources, targets = map(list, sides)
        if len(sources) != len(targets) or len(sources) < 10:  # fewer cannot choose a closed form's shrinkage
            counts = f"{len(sources)} source, {len(targets)} target texts"
            raise ValueError(f"{counts}: give the same number of each, at least ten.")
        pairs[tuple(pair)] = sources, targets
        for name, side in (("source", sources), ("target", targets)):
            for row, text in enumerate(side):
                if not isinstance(text, str) or not text.strip():
                    raise ValueError(f"{name}[{row}] is {text!r}; leave out pairs with an empty side.")
            check_texts(side, f"{name}: text")
        if tuple(pair) != _UNNAMED:
            warn_of_foreign((sources, targets), tuple(pair))
    return pairs


def _refuse_unknown(options: Mapping, known: set[str]) -> None:
    for key in options:
        if key not in known:
            near = difflib.get_close_matches(key, sorted(known), n=1, cutoff=0.0)
            raise ValueError(f"unknown option {key!r}; the nearest known one is {near[0]!r}.")


@contextmanager
def _settings(
    kind: type, defaults: Mapping, options: Mapping, seed: int, progress: bool
) -> Iterator[tuple[Any, TrainingArguments, dict[str, Any]]]:
    """A method's settings, the Trainer's arguments with a temporary folder, and what cards say about both.

    `options` are fields of the settings or of the Trainer's arguments.
    """
    ours = set(kind.__dataclass_fields__)
    of_trainer = {field.name for field in dataclasses.fields(TrainingArguments) if field.init} - _OF_RECIPES
    _refuse_unknown(options, ours | of_trainer)
    for key in ("eval_strategy", "metric_for_best_model"):
        if key in options:
            raise ValueError(f"{key}: the method itself decides what is tested during training; leave it out.")
    settings = kind(**{key: value for key, value in options.items() if key in ours})
    if getattr(settings, "init", None) == "published":
        raise ValueError("init='published' continues the training of a published model: run the recipe for that.")
    trainer = {"save_strategy": "no", "dataloader_pin_memory": torch.cuda.is_available(), **defaults}
    trainer["disable_tqdm"] = not progress
    if not progress:
        trainer["logging_strategy"] = "no"
    trainer |= {key: value for key, value in options.items() if key not in ours}
    with TemporaryDirectory(prefix="hfxling-") as folder, hidden(not progress):
        training_args = TrainingArguments(**trainer | {"output_dir": folder, "seed": seed})
        check_trainer(training_args)
        of_training = {name: getattr(training_args, name) for name in ("num_train_epochs", "learning_rate", "seed")}
        yield settings, training_args, dataclasses.asdict(settings) | of_training


def _base(model: Model) -> SentenceTransformer:
    """The model whose vectors are mapped."""
    if not isinstance(model, SentenceTransformer):
        model = SentenceEncoder(str(model)).model
    check_has_no_routes(model)
    return model


def _named_base(model: Model, base: SentenceTransformer) -> str:
    """The name by which cards know the model whose vectors are mapped: Hub id, folder, or else its class."""
    name = str(model)
    if isinstance(model, SentenceTransformer):
        name = getattr(getattr(base.transformers_model, "config", None), "_name_or_path", "")
    name = base.model_card_data.base_model or name
    return told_apart(name) if name else f"./{type(base[0]).__name__}"


def _with_head(
    base: SentenceTransformer,
    head: torch.nn.Module,
    corpus: Corpus,
    prompt: str | None,
    card: dict[str, Any],
    configuration: dict[str, Any],
) -> SentenceTransformer:
    """The model with the head, and with what `save_pretrained` and `push_to_hub` write into its card.

    `card` holds the method's fields of `CardInfo`. The licence is left for the user to state.
    """
    named = [code for code in corpus.languages if code not in _UNNAMED]
    has_routes = any(step[0] == "Router" for step in head.stock_steps())
    has_code = runs_code(base)
    examples = own_examples(corpus.pairs)
    info = CardInfo(
        **card,
        licence="other",
        train_data=corpus.card_entries(None),
        examples=examples,
        loading=stock_snippet(corpus.languages, flag=has_code, examples=examples),
        clients={LANGCHAIN: Client(needs_code=has_code, languages=named if has_routes else [])},
        configuration=configuration,
    )
    data = CardInMemory(
        language=named, model_name=info.repo_id, tags=[*TAGS, "dense", f"hfxling-{info.method}"], info=info
    )
    data.base_model = info.base_model if is_hub_id(info.base_model) else None
    data.widget = [widget_example(info.languages, info.examples)]
    return append_head(base, head, named, prompt, data)


def _vectors(encoder: SentenceEncoder, pairs: Pairs, progress: bool) -> list[Sides]:
    """The vectors of both sides of every language pair, in full dimension; each distinct text is encoded once."""
    texts, rows = numbered_distinct(chain.from_iterable(chain.from_iterable(pairs.values())))
    with encoder.model.truncate_embeddings(None):
        vectors = encoder.encode(texts, progress=progress)
    sides, start = [], 0
    for source, target in pairs.values():
        middle = start + len(source)
        end = middle + len(target)
        sides.append((vectors[rows[start:middle]], vectors[rows[middle:end]]))
        start = end
    return sides
