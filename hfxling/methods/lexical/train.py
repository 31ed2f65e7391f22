"""From link counts to a lexical model: probabilities, the length prior, and links through a shared language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
from scipy.sparse import csr_array

from hfxling.data.segment import EOS
from hfxling.data.sources import Pair, name_of_pair
from hfxling.data.texts import picked, spread_rows
from hfxling.hub.index import hub_id_of
from hfxling.models.configuration_lexical import LexicalConfig
from hfxling.models.lexical_vectors import Bags
from hfxling.models.modeling_lexical import LexicalModel

from .arguments import LinkSettings
from .data import View
from .static import static_vectors

_SAMPLE = 300  # sentences of a pair from which the spread of scores and the size of weights are estimated
_ANCHORS = 600  # most sentences of a language from which it is estimated how likely a text is given any sentence


def fit(
    views: Sequence[View],
    settings: LinkSettings,
    *,
    encoder: str | None = None,
    encoder_revision: str | None = None,
    seed: int = 42,
    static: bool = True,
) -> LexicalModel:
    """A lexical model from a text's link counts; with `static` it also has the vectors of stock modules.

    `encoder` is the one that helped to count the links, if any; the model stores its Hub id, not a folder's path.
    """
    languages = list(views[0].vocabularies)
    links: dict[Pair, list[csr_array]] = {}
    for view, name in zip(views, settings.views):
        of_view = view_links(view, settings.min_ratio)
        for pairs in view.pairs:
            if not of_view[pairs.languages].nnz:
                raise ValueError(
                    f"{name_of_pair(pairs.languages)}: no segments of the view {name!r} are linked with a ratio of "
                    f"min_ratio={settings.min_ratio:g} or more; give more text, or a smaller min_ratio."
                )
        for pair, matrix in of_view.items():
            links.setdefault(pair, []).append(matrix)
    sizes, tokenizers = {}, {}
    for lang in languages:
        vocabularies = [view.vocabularies[lang] for view in views]
        sizes[lang] = list(map(len, vocabularies))
        tokenizers[lang] = [vocabulary.tokenizer for vocabulary in vocabularies]
    # Not with links yet: sentences as bags are needed for the sizes and the length prior in the model's configuration.
    bare = LexicalModel(LexicalConfig(languages=languages, vocab_sizes=sizes, views=settings.views))
    sides = _sides(views)
    bags = []  # for every language pair, by language
    for pair in sides:
        bags.append({lang: bare._bags(rows, lang) for lang, rows in pair.items()})
    anchors, anchor_sizes = {}, {}
    for lang, rows in _anchors(sides, settings.hub_weight > 0).items():
        anchors[lang] = bare._bags(rows, lang).shares
        anchor_sizes[lang] = [len(rows[0]), *(share.nnz for share in anchors[lang])]
    link_sizes = {}
    for pair, matrices in links.items():
        link_sizes[":".join(pair)] = [matrix.nnz for matrix in matrices]
    encoder_id = None if encoder is None else hub_id_of(encoder)
    config = LexicalConfig(
        languages=languages,
        vocab_sizes=sizes,
        links=link_sizes,
        views=settings.views,
        view_weights=settings.view_weights,
        mixture=settings.mixture,
        hub_weight=settings.hub_weight,
        anchors=anchor_sizes,
        encoder=encoder_id,
        encoder_revision=None if encoder_id is None else encoder_revision,
        **length_prior(bags, languages),
    )
    model = LexicalModel(config, links, anchors, tokenizers).eval()
    set_scales(model, bags, settings)
    if static:
        counts = background(views[0])
        model.static = static_vectors(model, bags, counts, settings, is_shared=views[0].is_shared, seed=seed)
    return model


def view_links(view: View, min_ratio: float) -> dict[Pair, csr_array]:
    """P(t|s) / bg(t) for every ordered pair of languages, (V, W); through shared languages if a pair has no text.

    P(t|s) = C_st / (sum_t C_st + 1) for expected link counts C, and bg(t) is the add-one smoothed relative frequency of
    t in the language's text. Through a language z, P(t|s) = sum_z P(z|s) P(t|z); through several, their mean. Links
    whose ratio is below `min_ratio` are left out.
    """
    languages = list(view.vocabularies)
    linked: dict[Pair, csr_array] = {}
    for pairs, counted in zip(view.pairs, view.counts):
        for pair, matrix in ((pairs.languages, counted), (pairs.languages[::-1], csr_array(counted.T))):
            linked[pair] = linked[pair] + matrix if pair in linked else matrix
    probabilities = {}
    for pair, matrix in linked.items():
        probabilities[pair] = csr_array(matrix * (1 / (matrix.sum(1) + 1))[:, None])
    counts = background(view)
    links = {}
    for source, target in permutations(languages, 2):
        shared = [z for z in languages if (source, z) in probabilities and (z, target) in probabilities]
        if (source, target) in probabilities:
            matrix = probabilities[source, target]
        elif shared:
            matrix = sum(probabilities[source, z] @ probabilities[z, target] for z in shared) / len(shared)
        else:
            continue
        ratios = (matrix * (counts[target].sum() / counts[target])[None]).tocoo()
        rows, columns = ratios.coords
        kept = (ratios.data > 0) & (ratios.data >= min_ratio) & (np.minimum(rows, columns) > EOS)
        values = ratios.data[kept].astype(np.float32)
        links[source, target] = csr_array((values, (rows[kept], columns[kept])), shape=ratios.shape)
        links[source, target].sort_indices()
    return links


def background(view: View) -> dict[str, np.ndarray]:
    """For every language (V,) the count of every segment in the training text, plus one."""
    counts = {}
    for language, vocabulary in view.vocabularies.items():
        counts[language] = np.ones(len(vocabulary))
    for pairs in view.pairs:
        for language, rows in zip(pairs.languages, (pairs.source, pairs.target)):
            counts[language] += np.bincount(np.concatenate(rows).astype(int), minlength=len(counts[language]))
    return counts


def _sides(views: Sequence[View]) -> list[dict[str, list]]:
    """For every language pair, by language, the ids of its sentences in each view."""
    sides = []
    for number, pairs in enumerate(views[0].pairs):
        of_pair = {}
        for lang, side in zip(pairs.languages, ("source", "target")):
            of_pair[lang] = [getattr(view.pairs[number], side) for view in views]
        sides.append(of_pair)
    return sides


def _anchors(sides: Sequence[Mapping[str, list]], are_used: bool) -> dict[str, list]:
    """Sentences of every language, spread over its text, in each view; none if they are not used."""
    texts: dict[str, list[list]] = {}
    for pair in sides:
        for lang, views in pair.items():
            of_language = texts.setdefault(lang, [[] for _ in views])
            for sentences, of_pair in zip(of_language, views):
                sentences.extend(of_pair)
    anchors = {}
    for lang, views in texts.items():
        rows = spread_rows(len(views[0]), _ANCHORS) if are_used else ()
        anchors[lang] = picked(rows, *views)
    return anchors


def length_prior(bags: Sequence[Mapping[str, Bags]], languages: Sequence[str]) -> dict:
    """The fields of the configuration that describe the lengths of translations.

    The mean log length ratio of a pair is the difference of two means, one for each language, fitted by least squares
    over the pairs; the standard deviation is pooled over the pairs.
    """
    ratios = []
    for pair in bags:
        source, target = pair.values()
        ratios.append(np.log(target.lengths / source.lengths))
    design = np.zeros((len(bags), len(languages)))
    for row, pair in zip(design, bags):
        row[[languages.index(lang) for lang in pair]] = -1, 1
    weights = np.sqrt([len(ratio) for ratio in ratios])
    # The ratios determine only the differences of means; of all solutions lstsq takes the smallest.
    means = np.linalg.lstsq(design * weights[:, None], weights * [ratio.mean() for ratio in ratios])[0]
    logs = []
    for pair in bags:
        for lang, bag in pair.items():
            logs.append(np.log(bag.lengths) - means[languages.index(lang)])
    means += np.concatenate(logs).mean()  # both lengths vary around this, so that vectors have small numbers
    residuals = np.concatenate([ratio - row @ means for ratio, row in zip(ratios, design)])
    sigma = float(residuals.std()) or 1.0  # 1 if all ratios are equal, as it is a divisor
    return {"length_means": dict(zip(languages, means.tolist())), "length_sigma": sigma}


def set_scales(model: LexicalModel, bags: Sequence[Mapping[str, Bags]], settings: LinkSettings) -> None:
    """Set `length_scale`, by the spread of F + K between sentences that are no translations, and `balance`.

    `balance` makes a text's own weights and those of its links equally large.
    """
    deviations, own, linked = [], [], []
    for pair in bags:
        (x, source), (y, target) = pair.items()
        rows, scores = spread_rows(len(source.lengths), _SAMPLE), 0.0
        for view, weight in enumerate(settings.view_weights):
            left, right = source.shares[view][rows], target.shares[view][rows]
            forward, backward = model._linked(left, x, y, view), model._linked(right, y, x, view)
            scores = scores + weight * ((forward @ right.T).toarray() + (left @ backward.T).toarray())
            own += [left.data.mean(), right.data.mean()]
            linked += [forward.data.mean(), backward.data.mean()]
        deviations.append(scores[~np.eye(len(rows), dtype=bool)].std())
    model.config.length_scale = settings.length_prior * float(np.mean(deviations))
    model.config.balance = float(np.sqrt(np.mean(linked) / np.mean(own)))
