"""Link counts to a lexical encoder: probabilities, the length prior, links through a shared language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.sparse import csr_array

from hfxling.data.segment import EOS
from hfxling.data.sources import Pair
from hfxling.models.configuration_lexical import LexicalConfig
from hfxling.models.lexical_vectors import Bags
from hfxling.models.modeling_lexical import LexicalModel

from .arguments import LexicalArguments
from .data import View
from .static import static_vectors

_SAMPLE = 200  # sentences whose weights are looked at
_ANCHORS = 2000  # sentences of a language at most that say how likely a document is in any case


def fit(args: LexicalArguments, views: Sequence[View], *, seed: int = 42, static: bool = True) -> LexicalModel:
    """A lexical encoder of a text's link counts.

    Args:
        args: weights, length prior, thresholds, rank.
        views: of `link_views`.
        seed: of the anchors' sample and of the factorisation.
        static: whether to make the vectors of the stock door, too.
    """
    languages = list(views[0].vocabularies)
    links: dict[Pair, list[csr_array]] = {}
    for view in views:
        for pair, matrix in view_links(args, view).items():
            links.setdefault(pair, []).append(matrix)
    sides = _sides(views)
    anchors = _anchors(sides, seed) if args.hub_weight else {lang: [[] for _ in views] for lang in languages}
    sizes = {lang: [len(view.vocabularies[lang]) for view in views] for lang in languages}
    tokenizers = {lang: [view.vocabularies[lang].tokenizer for view in views] for lang in languages}
    bare = LexicalModel(LexicalConfig(languages=languages, vocab_sizes=sizes, views=args.views))
    stored = {lang: bare._bags(rows, lang).shares for lang, rows in anchors.items()}
    bags = [{lang: bare._bags(rows, lang) for lang, rows in pair.items()} for pair in sides]
    config = LexicalConfig(
        languages=languages,
        vocab_sizes=sizes,
        links={":".join(pair): [matrix.nnz for matrix in matrices] for pair, matrices in links.items()},
        views=args.views,
        view_weights=args.view_weights,
        mixture=args.mixture,
        backward=args.backward,
        hub_weight=args.hub_weight,
        anchors={lang: [len(anchors[lang][0]), *(share.nnz for share in shares)] for lang, shares in stored.items()},
        length_scale=args.length_prior * sum(args.view_weights),
        **_length_prior(bags, languages),
    )
    model = LexicalModel(config, links, stored, tokenizers).eval()
    config.balance = _balance(model, bags)
    if static:
        counts = {lang: background(views[0], lang) for lang in languages}
        model.static = static_vectors(args, model, bags, counts, views[0].is_shared, seed)
    return model


def view_links(args: LexicalArguments, view: View) -> dict[Pair, csr_array]:
    """P(t|s) / bg(t) of every ordered pair of languages, (V, W); through shared languages where a pair has no text.

    P(t|s) = C_st / (sum_t C_st + 1) for expected link counts C, and bg(t) is the add-one smoothed relative frequency of
    t in the language's text. Through a language z, P(t|s) = sum_z P(z|s) P(t|z); through several, their mean.
    """
    languages, linked = list(view.vocabularies), {}
    for pairs, found in zip(view.pairs, view.counts):
        for pair, matrix in ((pairs.languages, found), (pairs.languages[::-1], csr_array(found.T))):
            linked[pair] = linked[pair] + matrix if pair in linked else matrix
    given = {pair: _divided(matrix, matrix.sum(1) + 1) for pair, matrix in linked.items()}
    through = {}
    for source in languages:
        for target in languages:
            shared = [z for z in languages if (source, z) in given and (z, target) in given]
            if source != target and (source, target) not in given and shared:
                found = sum(given[source, z] @ given[z, target] for z in shared) / len(shared)
                through[source, target] = _thinned(found, args.pivot_probability)
    counts = {lang: background(view, lang) for lang in languages}
    links = {}
    for pair in (pair for source in languages for pair in ((source, target) for target in languages)):
        if pair in given or pair in through:
            matrix = through[pair] if pair in through else _thinned(given[pair], args.min_probability)
            matrix = csr_array(matrix * (counts[pair[1]].sum() / counts[pair[1]])[None])
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


def background(view: View, language: str) -> np.ndarray:
    """(V,) occurrences of every segment in the training text, and one more of each."""
    counts = np.ones(len(view.vocabularies[language]))
    for pairs in view.pairs:
        for code, rows in zip(pairs.languages, (pairs.source, pairs.target)):
            if code == language:
                counts += np.bincount(np.concatenate(rows).astype(int), minlength=len(counts))
    return counts


def _sides(views: Sequence[View]) -> list[dict[str, list]]:
    """Of every language pair by language the sentences' ids in each view."""
    return [
        {
            lang: [getattr(view.pairs[number], side) for view in views]
            for lang, side in zip(pairs.languages, ("source", "target"))
        }
        for number, pairs in enumerate(views[0].pairs)
    ]


def _anchors(sides: Sequence[Mapping[str, list]], seed: int) -> dict[str, list]:
    """A sample of every language's sentences, in each view."""
    found: dict[str, list] = {}
    for pair in sides:
        for lang, views in pair.items():
            found[lang] = [have + rows for have, rows in zip(found.get(lang, [[] for _ in views]), views)]
    for lang, views in found.items():
        chosen = np.sort(np.random.default_rng(seed).permutation(len(views[0]))[:_ANCHORS])
        found[lang] = [[rows[i] for i in chosen] for rows in views]
    return found


def _length_prior(bags: Sequence[Mapping[str, Bags]], languages: Sequence[str]) -> dict:
    """The fields of the configuration that say how long translations are.

    The mean log length ratio of a pair is the difference of two means, one a language, fitted by least squares over the
    pairs; the deviation is pooled over them.
    """
    ratios = [np.log(target.lengths / source.lengths) for source, target in (pair.values() for pair in bags)]
    design = np.zeros((len(bags), len(languages)))
    for row, pair in zip(design, bags):
        row[[languages.index(lang) for lang in pair]] = -1, 1
    weights = np.sqrt([len(ratio) for ratio in ratios])
    means = np.linalg.lstsq(design * weights[:, None], weights * [ratio.mean() for ratio in ratios])[0]
    logs = [np.log(bag.lengths) - means[languages.index(lang)] for pair in bags for lang, bag in pair.items()]
    means += np.concatenate(logs).mean()  # around which both lengths vary: small numbers for the vectors
    spread = np.concatenate([ratio - row @ means for ratio, row in zip(ratios, design)])
    return {
        "length_means": {lang: float(mean) for lang, mean in zip(languages, means)},
        "length_sigma": float(spread.std()) or 1.0,
    }


def _balance(model: LexicalModel, bags: Sequence[Mapping[str, Bags]]) -> float:
    """What makes a text's own weights and those of its links equally large."""
    own, linked = [], []
    for pair in bags:
        for (lang, bag), other in zip(pair.items(), [*pair][::-1]):
            own.append(bag.shares[0].data.mean())
            linked.append(model._linked(bag.shares[0][:_SAMPLE], lang, other, 0).data.mean())
    return float(np.sqrt(np.mean(linked) / np.mean(own)))
