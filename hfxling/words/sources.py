"""What aligns words: a trained aligner, the links of a lexical encoder or of the text itself, an encoder, or both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfxling.data.pairs import Pairs, Text, read_pairs
from hfxling.data.segment import Vocabulary, word_segmenter
from hfxling.encoders.sparse import languages_beside, with_links
from hfxling.missing import one_line_where_missing
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.configuration_lexical import LexicalConfig
from hfxling.models.loading import stored_kind
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.models.modeling_lexical import LexicalModel

from .aligner import Aligner, load_aligner
from .encoder import WordEncoder
from .joint import LONGEST, JointAligner, View
from .layers import Layer, open_word_encoder
from .links import SIMILARITIES
from .pairs import EncodedPairs, encoded_pairs
from .prior import LinkPrior, load_prior

LONGEST_SIDE = 20_000  # letters: a pair's links are a matrix of its words
_JUMPS_FROM = 2_000  # pairs that jumps of known links are learnt from
Pair = tuple[str, str]


@dataclass(frozen=True)
class LinkSource:
    """Links of a language pair.

    Attributes:
        name: what results call it.
        languages: codes of source and target.
        vocabularies: of both.
        network: a trained aligner; None where `prior` is all there is.
        prior: link probabilities of the words; None for an aligner that was trained without any.
        is_learnt: whether they are to be learnt from the text itself; then there is neither network nor prior.
        encoder: whose similarities are heeded then.
        further_views: those of a lexical encoder with more than one way to cut text.
    """

    name: str
    languages: Pair
    vocabularies: list[Vocabulary]
    network: AlignerModel | None
    prior: LinkPrior | None
    is_learnt: bool = False
    further_views: tuple[View, ...] = ()
    encoder: WordEncoder | None = None

    def views(self) -> list[View]:
        """The links of every view; of an aligner there is one.

        Raises:
            ValueError: an aligner that was trained without links.
        """
        if self.prior is None:
            raise ValueError(f"{self.name} was trained without links; give another, or none to learn from the text.")
        return [View(self.vocabularies, [self.prior]), *self.further_views]

    def encoded(self, source: Sequence[str], target: Sequence[str]) -> EncodedPairs:
        """Word ids of N sentence pairs."""
        return encoded_pairs(self.languages, self.vocabularies, source, target)

    def aligner(self, *, units: str = "words", method: str | None = None, null: float = 0.0) -> Aligner:
        """From lines of text to links; arguments as for `Aligner`.

        Raises:
            ValueError: as `Aligner`; a method that compares vectors where there are none.
        """
        if self.network is None and method in SIMILARITIES:
            raise ValueError(
                f"symmetrize={method} compares vectors, and {self.name} has none; give mean, or a trained aligner."
            )
        model = self.prior if self.network is None else self.network
        vocabularies = dict(zip(self.languages, self.vocabularies))
        return Aligner(model, vocabularies, self.languages, units=units, method=method, null=null, prior=self.prior)


def open_aligner(
    source: Text,
    target: Text | None,
    languages: Sequence[str] | None = None,
    *,
    model: Any = None,
    links: Any = None,
    learn: bool = True,
    revision: str | None = None,
    links_revision: str | None = None,
    layer: Layer | None = None,
    prompt: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
    units: str = "words",
    method: str | None = None,
    null: float = 0.0,
    first: int | None = None,
) -> tuple[Aligner | JointAligner, Pairs]:
    """Read text, and make what aligns it: links, an encoder, both, or a trained aligner.

    Args:
        source: as for `read_pairs`.
        target: as for `read_pairs`.
        languages: codes of source and target; by default the model's first two.
        model: an encoder, an aligner or a lexical encoder: folder, Hub id or loaded.
        links: of a lexical encoder or an aligner, folder, Hub id or loaded; without it links are learnt from the text.
        learn: whether to learn from the text where there are no links; else the encoder decides alone.
        revision: of the model on the Hub.
        links_revision: of the links on the Hub.
        layer: of the encoder, see `open_word_encoder`.
        prompt: of the encoder.
        device: of the encoder.
        dtype: of the encoder's computation.
        units: between which links are.
        method: how links are decided; None for the aligner's own way.
        null: weight up to which there is no link.
        first: pairs that are read; by default all.

    Raises:
        FileNotFoundError: no such model or file.
        ValueError: models, languages or options that do not fit.
    """
    options = {"units": units, "method": method, "null": null}
    model = with_links(model, is_encoder_kept=True)
    has_encoder = model is not None and is_encoder(model, revision)
    if model is not None and not has_encoder:
        if links is not None:
            raise ValueError("model holds links itself; give links beside an encoder, or without a model.")
        links, links_revision = model, revision
    if not has_encoder and (layer is not None or prompt is not None):
        raise ValueError("layer and prompt are of an encoder; give model.")
    if links is None and not learn and not has_encoder:
        raise ValueError("learn=False leaves nothing to align by; give links, a model, or both.")
    known = None if links is None else open_links(links, languages, revision=links_revision)
    pair = _checked(languages, languages_beside(model)) if known is None else known.languages
    text = read_pairs(source, target, pair, skip_bad=True, longest=LONGEST_SIDE, keep_space=True)
    if first is not None:
        text = text.first(first)
    encoder = None
    if has_encoder:
        encoder = open_word_encoder(
            model,
            pair,
            text.source,
            text.target,
            revision=revision,
            layer=layer,
            units=units,
            prompt=prompt,
            device=device,
            dtype=dtype,
        )
    if known is not None and known.network is not None and encoder is None:
        return known.aligner(**options), text
    if known is not None:
        views = known.views()
        if learn:
            views = [_with_jumps(view, known.languages, text) for view in views]
        return JointAligner(pair, views, encoder, **options), text
    if learn:
        return JointAligner.learn(pair, text.source, text.target, encoder, **options), text
    return JointAligner(pair, [], encoder, **options), text


def is_encoder(model: Any, revision: str | None = None) -> bool:
    """Whether a model is an encoder of text, and neither an aligner nor a lexical encoder.

    Raises:
        FileNotFoundError: no such folder or Hub model.
    """
    if isinstance(model, Aligner | LexicalModel):
        return False
    if not isinstance(model, str | Path):
        return True
    hub_kwargs = {"revision": revision} if revision else {}
    with one_line_where_missing(str(model), "model", "an aligner, a lexical encoder or an encoder"):
        return stored_kind(str(model), hub_kwargs) not in (LexicalConfig.model_type, AlignerConfig.model_type)


def _with_jumps(view: View, languages: Pair, text: Pairs) -> View:
    """A view whose links jump as those of the text do."""
    source, target = text.source[:_JUMPS_FROM], text.target[:_JUMPS_FROM]
    pairs = encoded_pairs(languages, view.vocabularies, source, target, LONGEST)
    return View(view.vocabularies, [prior.with_jumps_of(pairs) for prior in view.priors])


def links_of_text(
    model: Any,
    languages: Sequence[str] | None,
    source: Text,
    target: Text | None,
    *,
    revision: str | None = None,
    layer: Layer | None = None,
) -> tuple[LinkSource, Pairs]:
    """Open a model and read text, or read text and learn links from it, with an encoder or without.

    Args:
        model: as for `open_links`, or an encoder; None to learn from the text alone.
        languages: codes of source and target; by default the model's first two.
        source: as for `read_pairs`.
        target: as for `read_pairs`.
        revision: of the model on the Hub.
        layer: of an encoder, see `open_word_encoder`.

    Raises:
        FileNotFoundError: no such model or file.
        ValueError: as `open_links` and `read_pairs`.
    """
    model = with_links(model, is_encoder_kept=True)
    if model is not None and not is_encoder(model, revision):
        if layer is not None:
            raise ValueError("layer is of an encoder; give such a model.")
        known = open_links(model, languages, revision=revision)
        return known, read_pairs(source, target, known.languages, skip_bad=True, longest=LONGEST_SIDE)
    pair = _checked(languages, languages_beside(model))
    text = read_pairs(source, target, pair, skip_bad=True, longest=LONGEST_SIDE)
    encoder = None
    if model is not None:
        encoder = open_word_encoder(model, pair, text.source, text.target, revision=revision, layer=layer)
    vocabularies = []
    for language, lines in zip(pair, (text.source, text.target)):
        distinct = [line for line in dict.fromkeys(lines) if line]
        vocabularies.append(Vocabulary.learn(distinct, language, segmenter=word_segmenter(language)))
    name = "the text" if encoder is None else f"the text, with {encoder.name}"
    return LinkSource(name, pair, vocabularies, None, None, is_learnt=True, encoder=encoder), text


def open_links(model: Any, languages: Sequence[str] | None, *, revision: str | None = None) -> LinkSource:
    """The links of a model.

    Args:
        model: folder or Hub id of an aligner or a lexical encoder, or a loaded one.
        languages: codes of source and target; by default the model's first two.
        revision: of the model on the Hub.

    Raises:
        FileNotFoundError: no such model.
        ValueError: another kind of model, languages that it does not know.
    """
    if isinstance(model, Aligner):
        vocabularies = dict(zip(model.languages, model.vocabularies))
        pair = _checked(languages, model.languages)
        prior = model.prior
        if prior is not None and prior.languages != pair:
            prior = prior.reversed()
        network = None if isinstance(model.model, LinkPrior) else model.model
        return LinkSource("aligner in memory", pair, _of(vocabularies, pair), network, prior)
    if isinstance(model, LexicalModel):
        return _of_lexical(model, "links in memory", languages)
    name = str(model)
    hub_kwargs = {"revision": revision} if revision else {}
    with one_line_where_missing(name, "model", "an aligner or a lexical encoder"):
        kind = stored_kind(name, hub_kwargs)
        if kind == LexicalConfig.model_type:
            return _of_lexical(LexicalModel.from_pretrained(name, **hub_kwargs).eval(), name, languages)
    network, vocabularies = load_aligner(name, **hub_kwargs)
    pair = _checked(languages, network.config.languages)
    known = _of(vocabularies, pair)
    return LinkSource(name, pair, known, network, load_prior(name, network.config, pair, **hub_kwargs))


def _checked(languages: Sequence[str] | None, known: Sequence[str]) -> Pair:
    """Both codes: those that are given, or else a model's first two."""
    if languages is None:
        if len(known) < 2:
            raise ValueError("languages=None: without a model that knows them, give languages, such as zh vi.")
        languages = known[:2]
    if isinstance(languages, str) or len(languages) != 2 or languages[0] == languages[1]:
        raise ValueError(f"languages={languages!r}: give the codes of two languages, such as zh vi.")
    return languages[0], languages[1]


def _of(vocabularies: Mapping[str, Vocabulary], pair: Pair) -> list[Vocabulary]:
    for language in pair:
        if language not in vocabularies:
            raise ValueError(f"language {language!r} is none of the model's: {', '.join(vocabularies)}.")
    return [vocabularies[language] for language in pair]


def _of_lexical(model: LexicalModel, name: str, languages: Sequence[str] | None) -> LinkSource:
    """The links of a lexical encoder, of all its views."""
    pair = _checked(languages, model.config.languages)
    model.check_pair(pair)
    views = []
    for number in range(len(model.config.views)):
        vocabularies = [Vocabulary(language, model.tokenizers[language][number], "unigram") for language in pair]
        there = model.links[":".join(pair)][number].matrix()
        back = model.links[":".join(pair[::-1])][number].matrix()
        views.append(View(vocabularies, [LinkPrior.of_odds(pair, there, back)]))
    first, *further = views
    return LinkSource(name, pair, first.vocabularies, None, first.priors[0], further_views=tuple(further))
