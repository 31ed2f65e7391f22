"""Opens what aligns words: a trained aligner, links (of a lexical model or the text itself), an encoder, or both."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hfxling.data.codes import pair_of
from hfxling.data.langid import UNSPACED, script_of
from hfxling.data.pairs import Pairs, Text, read_pairs
from hfxling.data.segment import Vocabulary, word_segmenter
from hfxling.data.warn import warn_of_foreign
from hfxling.encoders.sparse import languages_beside, with_links
from hfxling.missing import check_model, one_line_where_missing
from hfxling.models.configuration_aligner import AlignerConfig
from hfxling.models.configuration_lexical import LexicalConfig
from hfxling.models.loading import stored_config
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.models.modeling_lexical import LexicalModel

from .aligner import Aligner, load_aligner, vocabularies_of
from .encoder import LAYERS, WordEncoder, depth_of
from .joint import LONGEST, JointAligner, View, vocabularies_of_text
from .links import Layer, agreement
from .pairs import encoded_pairs
from .prior import LinkPrior, load_prior

logger = logging.getLogger(__name__)
AGREEMENT = "agreement"
LONGEST_SIDE = 20_000  # letters of a side, as the links of a pair are a matrix of its words
JUMPS_FROM = 2_000  # pairs from which jumps are learnt for known links
_AGREE_ON = 200  # first pairs, on which agreement is measured
# Text that was split into words has 4 to 5 letters a word in Lao, Thai and Khmer, and 1.4 to 1.8 in Chinese and
# Japanese, whose characters count as several letters. In text that was not split, spaces are 12 or more letters apart.
_LONGEST_WORD = 9  # letters of a word, on average
_LETTERS = {"Han": 3, "Kana": 2}
_LOOK_AT = 1_000  # lines that are checked for spaces
Pair = tuple[str, str]


@dataclass(frozen=True)
class LinkSource:
    """Links of a language pair, or what is needed to learn them from a text."""

    name: str  # its name in results
    languages: Pair  # codes of source and target
    views: list[View]  # ways to cut text, and the links in each; a lexical model may have several
    network: AlignerModel | None = None  # a trained aligner
    encoder: WordEncoder | None = None  # its similarities are used if links are learnt
    # Hub id and revision of the encoder that known links were learnt with; None without one.
    learnt_with: tuple[str, str | None] | None = None

    @property
    def is_learnt(self) -> bool:
        """Whether links are to be learnt from the text itself."""
        return self.network is None and self.prior is None

    @property
    def vocabularies(self) -> list[Vocabulary]:
        """Vocabularies of source and target in the first view."""
        return self.views[0].vocabularies

    @property
    def prior(self) -> LinkPrior | None:
        """Link probabilities of the first view; None for an aligner that was trained without any."""
        return next(iter(self.views[0].priors), None)


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
    encoder_of_links: bool = True,
    layer: Layer | None = None,
    prompt: str | None = None,
    device: str | None = None,
    dtype: str = "float32",
    units: str | None = None,
    method: str | None = None,
    first: int | None = None,
) -> tuple[Aligner | JointAligner, Pairs]:
    """Read text, and make the aligner for it, from links, an encoder, both, or a trained aligner.

    Parameters are those of `align_words`; `first` is the number of pairs that are read.
    """
    model = with_links(model, is_encoder_kept=True)
    has_encoder = model is not None and is_encoder(model, revision)
    if model is not None and not has_encoder:
        if links is not None:
            raise ValueError("the model holds links itself; give links together with an encoder, or without a model.")
        links, links_revision = model, revision
    if links is None and not learn and not has_encoder:
        raise ValueError("learn=False leaves nothing to align by; give links, a model, or both.")
    link_source = None
    if links is None:
        pair = _checked(languages, languages_beside(model))
    else:
        link_source = open_links(links, languages, revision=links_revision)
        pair = link_source.languages
        if not has_encoder and encoder_of_links and link_source.learnt_with is not None:
            model, revision = link_source.learnt_with
            has_encoder = True
            logger.info("%s: %s, which its links were learnt with, is used, too", link_source.name, model)
    if not has_encoder and (layer is not None or prompt is not None):
        raise ValueError("layer and prompt are for an encoder; give one as the model.")
    text = read_pairs(source, target, pair, skip_bad=True, longest=LONGEST_SIDE, keep_space=True)
    warn_of_foreign((text.source, text.target), pair)
    if first is not None:
        text = text.first(first)
    if units is None:
        has_segments = link_source is not None or learn
        units = default_units(text, has_segments=has_segments)
    options = {"units": units, "method": method}
    encoder = None
    if has_encoder:
        encoder = open_word_encoder(
            model, pair, text, revision=revision, layer=layer, units=units, prompt=prompt, device=device, dtype=dtype
        )
    if link_source is not None:
        return _aligner_of(link_source, encoder, text if learn else None, options), text
    if learn:
        return JointAligner.learn(pair, text.source, text.target, encoder, **options), text
    return JointAligner(pair, [], encoder, **options), text


def default_units(text: Pairs, *, has_segments: bool) -> str:
    """Words; if a side has no spaces between words, segments, or characters with an encoder alone."""
    if not (_is_unsplit(text.source) or _is_unsplit(text.target)):
        return "words"
    units = "segments" if has_segments else "characters"
    logger.info("%s: no spaces between words: links are between %s (units)", text.name, units)
    return units


def _is_unsplit(lines: Sequence[str]) -> bool:
    """Whether spaces set apart phrases instead of words, in a script without spaces between words."""
    letters = unspaced_letters = unspaced_words = length = 0
    for line in lines[:_LOOK_AT]:
        for word in line.split():
            letters += len(word)
            scripts = [script_of(letter) for letter in word]
            script = next(filter(None, scripts), None)  # of the first letter
            if script in UNSPACED:
                unspaced_words += 1
                unspaced_letters += len(word)
                length += len(word) * _LETTERS.get(script, 1)
    if 2 * unspaced_letters <= letters:  # only names, in a text of another script
        return False
    return length / unspaced_words > _LONGEST_WORD


def _aligner_of(
    link_source: LinkSource, encoder: WordEncoder | None, text: Pairs | None, options: dict[str, Any]
) -> Aligner | JointAligner:
    """The aligner for known links, with or without an encoder; a text shows how far links jump."""
    pair = link_source.languages
    if link_source.network is not None and encoder is None:
        vocabularies = dict(zip(pair, link_source.vocabularies))
        return Aligner(link_source.network, vocabularies, pair, prior=link_source.prior, **options)
    if link_source.prior is None:
        raise ValueError(f"{link_source.name} was trained without links; give another, or none to learn from the text.")
    views = link_source.views
    if text is not None:
        views = [_with_jumps(view, pair, text) for view in views]
    return JointAligner(pair, views, encoder, **options)


def is_encoder(model: Any, revision: str | None = None) -> bool:
    """Whether a model is a text encoder, not an aligner or a lexical model."""
    from sentence_transformers import SentenceTransformer

    if isinstance(model, Aligner | LexicalModel):
        return False
    if not isinstance(model, str | Path):
        check_model("model", model, SentenceTransformer, Aligner, LexicalModel)
        return True
    hub_kwargs = {"revision": revision} if revision else {}
    with one_line_where_missing(str(model), "model", "an aligner, a lexical model or an encoder"):
        kind = stored_config(str(model), hub_kwargs).get("model_type")
    return kind not in (LexicalConfig.model_type, AlignerConfig.model_type)


def _with_jumps(view: View, languages: Pair, text: Pairs) -> View:
    """A view whose links jump as in the text."""
    source, target = text.source[:JUMPS_FROM], text.target[:JUMPS_FROM]
    pairs = encoded_pairs(languages, view.vocabularies, source, target, LONGEST)
    return View(view.vocabularies, [prior.with_jumps_of(pairs) for prior in view.priors])


def open_word_encoder(
    model: Any,
    languages: Sequence[str],
    text: Pairs,
    *,
    revision: str | None = None,
    layer: Layer | None = None,
    units: str = "words",
    **options,
) -> WordEncoder:
    """An encoder that reads the given layer, the one known for its depth, or the one that `agreed_layer` finds.

    `units` are the units that links will be between; other options are those of `WordEncoder`.
    """
    if layer is not None and layer != AGREEMENT and not isinstance(layer, int):
        raise ValueError(f"layer={layer!r}: give a number from 0, or {AGREEMENT}.")
    depth = depth_of(model, revision)
    if layer is None and depth not in LAYERS:
        layer = AGREEMENT
    if layer == AGREEMENT:
        encoder = WordEncoder(model, revision, layer=depth, **options)  # with all layers, so that they can be compared
        layer = agreed_layer(encoder, languages, text.source[:_AGREE_ON], text.target[:_AGREE_ON], units=units)
        logger.info("%s: words are read from layer %d of %d, whose links agree most", encoder.name, layer, depth)
    return WordEncoder(model, revision, layer=layer, **options)


def agreed_layer(
    encoder: WordEncoder, languages: Sequence[str], source: Sequence[str], target: Sequence[str], *, units: str
) -> int:
    """The layer with the best agreement of both directions (`links.agreement`); of equal ones the lower.

    On xlwa-dev (en-it, en-ru, en-et, en-bg) it is within 0.8 points of AER of the best of multilingual-e5-small's
    layers 5 to 9.
    """
    units = "characters" if units == "segments" else units  # segments are learnt; an encoder alone has none
    layers = range(1, encoder.layer + 1)
    by_layer = encoder.pieces_of_layers([*source, *target], layers)
    scores = {}
    for layer, pieces in zip(layers, by_layer):
        encoder.kept = pieces  # they have every line, so the encoder does not read again
        encoder.means.clear()  # those of the layer before
        aligner = JointAligner(languages, [], encoder, units=units)
        scores[layer] = agreement(line.soft for line in aligner(source, target))
    return max(scores, key=scores.get)  # of equal ones the first, which is the lowest


def links_of_text(
    model: Any,
    languages: Sequence[str] | None,
    source: Text,
    target: Text | None,
    *,
    revision: str | None = None,
    layer: Layer | None = None,
) -> tuple[LinkSource, Pairs]:
    """Open a model and read text, or read text to learn links from; parameters as for `lexicon`."""
    model = with_links(model, is_encoder_kept=True)
    if model is not None and not is_encoder(model, revision):
        if layer is not None:
            raise ValueError("layer is for an encoder; give one as the model.")
        link_source = open_links(model, languages, revision=revision)
        text = read_pairs(source, target, link_source.languages, skip_bad=True, longest=LONGEST_SIDE)
        warn_of_foreign((text.source, text.target), link_source.languages)
        return link_source, text
    pair = _checked(languages, languages_beside(model))
    text = read_pairs(source, target, pair, skip_bad=True, longest=LONGEST_SIDE)
    warn_of_foreign((text.source, text.target), pair)
    encoder = None
    if model is not None:
        encoder = open_word_encoder(model, pair, text, revision=revision, layer=layer)
    segmenters = [word_segmenter(language) for language in pair]
    vocabularies = vocabularies_of_text(pair, (text.source, text.target), segmenters)
    name = "the text" if encoder is None else f"the text, with {encoder.name}"
    return LinkSource(name, pair, [View(vocabularies, [])], encoder=encoder), text


def open_links(model: Any, languages: Sequence[str] | None, *, revision: str | None = None) -> LinkSource:
    """The links of an aligner or a lexical model: a folder, a Hub id or a loaded one."""
    if isinstance(model, Aligner):
        vocabularies = dict(zip(model.languages, model.vocabularies))
        pair = _checked(languages, model.languages)
        prior = model.prior
        if prior is not None and prior.languages != pair:
            prior = prior.reversed()
        return _of_network("aligner in memory", pair, vocabularies, model.model, prior)
    if isinstance(model, LexicalModel):
        return _of_lexical(model, "links in memory", languages)
    check_model("model", model, Aligner, LexicalModel)
    name = str(model)
    hub_kwargs = {"revision": revision} if revision else {}
    with one_line_where_missing(name, "model", "an aligner or a lexical model"):
        kind = stored_config(name, hub_kwargs).get("model_type")
        if kind == LexicalConfig.model_type:
            return _of_lexical(LexicalModel.from_pretrained(name, **hub_kwargs).eval(), name, languages)
    network, vocabularies = load_aligner(name, **hub_kwargs)
    pair = _checked(languages, network.config.languages)
    prior = load_prior(name, network.config, pair, **hub_kwargs)
    return _of_network(name, pair, vocabularies, network, prior)


def _of_network(
    name: str, pair: Pair, vocabularies: Mapping[str, Vocabulary], network: AlignerModel, prior: LinkPrior | None
) -> LinkSource:
    view = View(vocabularies_of(vocabularies, pair), [] if prior is None else [prior])
    return LinkSource(name, pair, [view], network)


def _checked(languages: Sequence[str] | None, known: Sequence[str]) -> Pair:
    """Both codes: those that are given, or else a model's first two."""
    if languages is None:
        if len(known) < 2:
            raise ValueError("languages=None: without a model that knows them, give languages, such as zh vi.")
        languages = known[:2]
    return pair_of(languages, known)


def _of_lexical(model: LexicalModel, name: str, languages: Sequence[str] | None) -> LinkSource:
    """The links of a lexical model, of all its views."""
    pair = _checked(languages, model.config.languages)
    model.check_pair(pair)
    views = []
    for number in range(len(model.config.views)):
        vocabularies = [Vocabulary(language, model.tokenizers[language][number], "unigram") for language in pair]
        there = model.links[":".join(pair)][number].matrix()
        back = model.links[":".join(pair[::-1])][number].matrix()
        views.append(View(vocabularies, [LinkPrior.of_odds(pair, there, back)]))
    learnt_with = None
    if model.config.encoder is not None:
        learnt_with = model.config.encoder, model.config.encoder_revision
    return LinkSource(name, pair, views, learnt_with=learnt_with)
