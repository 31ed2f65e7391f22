"""Link counts to a lexical encoder: probabilities, the length prior, links through a shared language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import csr_array

from hfxling.data.segment import EOS
from hfxling.data.sources import Pair
from hfxling.models.configuration_lexical import LexicalConfig
from hfxling.models.modeling_lexical import ROLES, Bags, LexicalModel

from .arguments import LexicalArguments
from .data import View
from .static import static_vectors

_SAMPLE = 2000  # pairs whose scores with each other say how scores spread


def fit(args: LexicalArguments, views: Sequence[View], *, seed: int = 42, static: bool = True) -> LexicalModel:
    """A lexical encoder of a text's link counts.

    Args:
        args: mixture, length prior, thresholds, rank.
        views: of `link_views`.
        seed: of the sample that the spread of scores is measured on, and of the factorisation.
        static: whether to make the vectors of the stock door, too.
    """
    languages = list(views[0].vocabularies)
    links: dict[Pair, list[csr_array]] = {}
    for view in views:
        for pair, matrix in view_links(args, view).items():
            links.setdefault(pair, []).append(matrix)
    config = LexicalConfig(
        languages=languages,
        vocab_sizes={lang: [len(view.vocabularies[lang]) for view in views] for lang in languages},
        links={":".join(pair): [matrix.nnz for matrix in matrices] for pair, matrices in links.items()},
        views=args.views,
        view_weights=args.view_weights,
        mixture=args.mixture,
        length_means=dict.fromkeys(languages, 0.0),
    )
    tokenizers = {lang: [view.vocabularies[lang].tokenizer for view in views] for lang in languages}
    model = LexicalModel(config, links, tokenizers).eval()
    bags = [
        {lang: model._bags([of[i] for of in sides], lang) for i, lang in enumerate(pair)} for pair, sides in _ids(views)
    ]
    _set_length_prior(args, model, bags, seed)
    if static:
        model.static = static_vectors(args, model, bags, views[0].is_shared, seed)
    return model


def view_links(args: LexicalArguments, view: View) -> dict[Pair, csr_array]:
    """P(t|s) / bg(t) of every ordered pair of languages, (V, W); through shared languages where a pair has no text.

    P(t|s) = C_st / (sum_t C_st + 1) for expected link counts C, and bg(t) is the add-one smoothed relative frequency of
    t in the language's text. Through a language z, P(t|s) = sum_z P(z|s) P(t|z); through several, their mean.
    """
    languages, counts = list(view.vocabularies), {}
    for pairs, found in zip(view.pairs, view.counts):
        for pair, matrix in ((pairs.languages, found), (pairs.languages[::-1], csr_array(found.T))):
            counts[pair] = counts[pair] + matrix if pair in counts else matrix
    given = {pair: _divided(matrix, matrix.sum(1) + 1) for pair, matrix in counts.items()}
    through = {}
    for source in languages:
        for target in languages:
            shared = [z for z in languages if (source, z) in given and (z, target) in given]
            if source != target and (source, target) not in given and shared:
                found = sum(given[source, z] @ given[z, target] for z in shared) / len(shared)
                through[source, target] = _thinned(found, args.pivot_probability)
    background = {lang: _background(view, lang) for lang in languages}
    links = {}
    for pair in (pair for source in languages for pair in ((source, target) for target in languages)):
        if pair in given or pair in through:
            matrix = through[pair] if pair in through else _thinned(given[pair], args.min_probability)
            matrix = csr_array(matrix * (1 / background[pair[1]])[None])
            matrix.sort_indices()
            links[pair] = matrix.astype(np.float32)
    return links


def _divided(matrix: csr_array, by: np.ndarray) -> csr_array:
    return csr_array(matrix * (1 / by)[:, None])


def _thinned(matrix: csr_array, least: float) -> csr_array:
    """Without links below a probability, and without those of special ids."""
    matrix = csr_array(matrix).tocoo()
    kept = (matrix.data > 0) & (matrix.data >= least) & (np.minimum(*matrix.coords) > EOS)
    return csr_array((matrix.data[kept], tuple(axis[kept] for axis in matrix.coords)), shape=matrix.shape)


def _background(view: View, language: str) -> np.ndarray:
    """(V,) add-one smoothed relative frequencies."""
    counts = np.ones(len(view.vocabularies[language]))
    for pairs in view.pairs:
        for code, rows in zip(pairs.languages, (pairs.source, pairs.target)):
            if code == language:
                counts += np.bincount(np.concatenate(rows).astype(int), minlength=len(counts))
    return counts / counts.sum()


def _ids(views: Sequence[View]) -> list[tuple[Pair, list[tuple[list, list]]]]:
    """Every language pair and its sentences' ids on both sides, view by view."""
    return [
        (pairs.languages, [(view.pairs[number].source, view.pairs[number].target) for view in views])
        for number, pairs in enumerate(views[0].pairs)
    ]


def _set_length_prior(
    args: LexicalArguments, model: LexicalModel, bags: Sequence[Mapping[str, Bags]], seed: int
) -> None:
    """Fit lengths and their spread, and scale them by how the scores of the training text spread.

    The mean log length ratio of a pair is the difference of two means, one a language, fitted by least squares over the
    pairs; the deviation is pooled over them. Also sets `balance`, which makes own and linked weights equally large.
    """
    config, languages = model.config, model.config.languages
    ratios = [np.log(target.lengths / source.lengths) for source, target in (pair.values() for pair in bags)]
    design = np.zeros((len(bags), len(languages)))
    for row, pair in zip(design, bags):
        row[[languages.index(lang) for lang in pair]] = -1, 1
    weights = np.sqrt([len(ratio) for ratio in ratios])
    means = np.linalg.lstsq(design * weights[:, None], weights * [ratio.mean() for ratio in ratios])[0]
    logs = [np.log(bag.lengths) - means[languages.index(lang)] for pair in bags for lang, bag in pair.items()]
    means += np.concatenate(logs).mean()  # around which both lengths vary: small numbers for the vectors
    spread = np.concatenate([ratio - design_row @ means for ratio, design_row in zip(ratios, design)])
    config.length_means = {lang: float(mean) for lang, mean in zip(languages, means)}
    config.length_sigma = float(spread.std()) or 1.0
    deviations, own, linked = [], [], []
    for pair in bags:
        count = len(next(iter(pair.values())).lengths)
        rows = np.sort(np.random.default_rng(seed).permutation(count)[:_SAMPLE])
        query, document = (
            model._vectors(Bags([share[rows] for share in bag.shares], bag.lengths[rows]), lang, role)
            for (lang, bag), role in zip(pair.items(), ROLES)
        )
        deviations.append((query @ document.T).toarray().std())
        own += [share.data.mean() for bag in pair.values() for share in bag.shares]
        linked += [side.data.mean() for side in (query, document)]
    config.length_scale = args.length_prior * float(np.mean(deviations))
    config.balance = float(np.sqrt(np.mean(linked) / np.mean(own)))
