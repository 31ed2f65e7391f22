"""Which machine translations are good? Pearson with human scores: an encoder's cosine, a link score, and both.

python benchmarks/quality_links.py --data ../shared/data/mlqe --model ../shared/models/mini-labse [--split dev]
    [--cosine_weight 0.125] [--words_of ../shared/models/mini-labse]

The six pairs of WMT20 quality estimation. Links are counted in the text of a pair's training split, outputs of the same
translation systems, without rows whose source occurs in dev or test20. Rows that are
calibrated use dev's 1,000 human scores of the pair, as `hfxling quality --human` does; those with segments learn from
train's 7,000, too, which the command does not do; the others use no human scores. `--model FOLDER/{pair}/model` takes
the encoders of recipes/disentangler.py, which writes one a language pair.

`--words_of ENCODER` adds what its words in context say: how similar the most similar word of the other side is, on
average (BERTScore; Zhang et al. 2020), with the vectors of each language less their mean.

With --split dev it measures what test20 was not to decide: mixture, length prior, views, and the weight of the cosine.
"""

import os
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when numpy and torch are imported

import numpy as np
from harness import parser, report_rows
from scipy.sparse import csr_array, hstack
from transformers.utils import logging

from hfxling.console import run as run_recipe
from hfxling.data.features import cached_features
from hfxling.data.scored import ScoredPairs, read_qe, read_scored
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.identity import model_name
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.evaluation.calibration import COSINE, LENGTHS, fit_calibration, log_lengths
from hfxling.evaluation.similarity import correlation_results, cosines, pearson
from hfxling.files import atomic_path, content_hash
from hfxling.fit import fit_lexical
from hfxling.sentences.neighbours import unit_or_zero
from hfxling.words.encoder import WordEncoder

TITLE = "Pearson with human scores of machine translations, WMT20 QE"
# Chosen on dev, as is what follows; one view, the first of the default, for the other adds as much as it takes.
COUNTED = {"views": ["fine"], "mixture": 100.0, "hub_weight": 1.0}
USED = {"hub_weight": 0.0, "mixture": 20.0}
VARIED = {
    "mixture 4": {"mixture": 4.0},
    "mixture 100": {"mixture": 100.0},
    "mixture 1000": {"mixture": 1000.0},
    "hub weight 1": {"hub_weight": 1.0},
    "no length prior": {"length_scale": 0.0},
}
COSINE_WEIGHTS = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)  # beside the links, both in standard deviations
WORD_WEIGHTS = (-0.5, 0.25, 0.5, 1.0)  # beside links and cosine, in standard deviations
RIDGE = 10.0  # of the regression on segments
LINKS, JOINED, CALIBRATED = "links", "links + cosine", "links, cosine and lengths compete"
WORDS, WITH_WORDS = "words", "links + cosine + words"
SEGMENTS = "links, cosine, lengths and segments compete"

Features = dict[str, np.ndarray]  # (N,) by name
Systems = dict[tuple[str, str], np.ndarray]  # (N,) scores by label and by the human scores that they have seen


def main(argv: list[str] | None = None) -> dict[str, dict]:
    options = parser(__doc__, "NAME")
    options.add_argument("--data", type=Path, default=Path("../shared/data/mlqe"), help="folder of MLQE")
    options.add_argument(
        "--model",
        default="../shared/models/mini-labse",
        help="encoder of the cosines; {pair} stands for the language pair",
    )
    options.add_argument("--words_of", help="encoder by which words in context are matched, too")
    options.add_argument(
        "--words_layer", type=int, help="layer of that encoder; by default the one that links words best"
    )
    options.add_argument(
        "--words_weight",
        type=float,
        default=0.25,
        help="weight of words beside links and cosine; chosen with --split dev",
    )
    options.add_argument("--trust_remote_code", action="store_true", help="run the encoder's own code")
    options.add_argument(
        "--split", choices=("test20", "dev"), default="test20", help="split to test on; dev is for comparing settings"
    )
    options.add_argument(
        "--cosine_weight",
        type=float,
        default=0.125,
        help="weight of the cosine beside the links; chosen with --split dev",
    )
    options.add_argument(
        "--cache_dir",
        type=Path,
        default=Path("outputs/cache"),
        help="folder in which vectors and counted links are cached",
    )
    options.add_argument("--name", help="name of the results file; by default quality_links, or quality_links_dev")
    args = options.parse_args(argv)
    args.name = args.name or ("quality_links" if args.split == "test20" else "quality_links_dev")
    logging.set_verbosity_error()
    sets, found, called = [], [], model_name(args.model)
    words = WordEncoder(args.words_of, layer=args.words_layer) if args.words_of else None
    for dev, test in zip(*(read_qe(args.data, split=split) for split in ("dev", "test20")), strict=True):
        pair = dev.direction.replace("->", "-")
        encoder = SentenceEncoder(args.model.replace("{pair}", pair), trust_remote_code=args.trust_remote_code)
        train = read_training(args.data, dev, test)
        links = load_links(args.cache_dir, train, pair)
        known = measure(dev, encoder, links, args.cache_dir)
        if args.split == "dev":
            systems = vary(dev, known, links)
        else:
            asked = measure(test, encoder, links, args.cache_dir)
            systems = compare(known, asked, dev.scores, args.cosine_weight) | with_segments(
                links, train, (dev, known), (test, asked)
            )
        if words:
            weights = WORD_WEIGHTS if args.split == "dev" else (args.words_weight,)
            of_dev = matched(words, dev)
            judged = (known, of_dev) if args.split == "dev" else (asked, matched(words, test))
            systems |= with_words(*judged, (known, of_dev), args.cosine_weight, weights)
        sets.append(dev if args.split == "dev" else test)
        found.append(systems)
        told = ", ".join(f"{label} {pearson(sets[-1].scores, scores):.3f}" for (label, _), scores in systems.items())
        print(f"{dev.direction}: {told}", flush=True)
    results = []
    for label, seen in found[0]:
        # Of words the question is what they add to the other two.
        rival = JOINED if label.startswith(WITH_WORDS) else "cosine"
        own = {"baseline": [systems[rival, "none"] for systems in found]} if label != "cosine" else {}
        own["settings"] = {"row": label, "stage": "after", "human_scores": seen}
        results += correlation_results(sets, [systems[label, seen] for systems in found], model=called, **own)
    means = {row.settings["row"]: row.value for row in results if row.metric == "Pearson avg"}
    named = {"qe_mean_pearson": JOINED, "qe_mean_pearson_calibrated": CALIBRATED, "qe_mean_pearson_links": LINKS}
    named["qe_mean_pearson_7k"] = SEGMENTS
    figures = {name: round(means[label], 4) for name, label in named.items() if label in means}
    about = {name: str(value) if isinstance(value, Path) else value for name, value in vars(args).items()}
    about |= COUNTED | USED
    shown = {"title": TITLE, "labels": [*means], "metrics": ["Pearson avg"]}
    return report_rows("quality_links", results, about, **shown, figures=figures)


def read_training(data: Path, dev: ScoredPairs, test: ScoredPairs) -> ScoredPairs:
    """A pair's training split, without what dev and test20 have of it."""
    name = dev.direction.replace("->", "-")
    fields = {"dataset": dev.dataset, "split": "train", "direction": dev.direction}
    train = read_scored(data / f"{name}.train.tsv.gz", score_column="z_mean", **fields)
    held_out = {*dev.source, *test.source}
    kept = [i for i, source in enumerate(train.source) if source not in held_out]
    source, target = ([side[i] for i in kept] for side in (train.source, train.target))
    return ScoredPairs(source=source, target=target, scores=train.scores[kept], **fields)


def load_links(cache_dir: Path, train: ScoredPairs, name: str) -> LexicalEncoder:
    """Links of a pair's training text, kept in the cache."""
    folder = cache_dir / f"links-{name}-{content_hash(train.source, train.target, map(str, COUNTED.items()))}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(folder) as scratch:  # nobody asks for the static vectors here, so there are few
            model = fit_lexical(train.source, train.target, tuple(name.split("-")), rank=1, **COUNTED)
            model.save_pretrained(scratch)
    links = LexicalEncoder(str(folder))
    for setting, value in USED.items():
        setattr(links.model.config, setting, value)
    return links


def measure(pairs: ScoredPairs, encoder: SentenceEncoder, links: LexicalEncoder, cache_dir: Path) -> Features:
    """What `hfxling quality --model --lexical` knows of pairs."""
    key, shape = {"model": encoder.label, "revision": encoder.revision}, (encoder.model.get_embedding_dimension(),)
    vectors = []
    for texts, lang in zip((pairs.source, pairs.target), pairs.direction.split("->")):
        encode, own = partial(encoder.encode, language=lang, progress=False), key | {"route": encoder.route(lang)}
        vectors.append(cached_features(texts, encode, key=own, shape=shape, cache_dir=cache_dir))
    found = {COSINE: cosines(*vectors), LINKS: scored(links, pairs)}
    return found | {name: log_lengths(side) for name, side in zip(LENGTHS, (pairs.source, pairs.target))}


def scored(links: LexicalEncoder, pairs: ScoredPairs) -> np.ndarray:
    """(N,) link scores; the mean where nothing is known of a side, which is said."""
    scores = links.score(pairs.source, pairs.target, tuple(pairs.direction.split("->")))
    if unknown := np.isnan(scores).sum():
        print(f"{pairs.direction}, {pairs.split}: {unknown} pairs without a known segment take the mean score")
    return np.where(np.isnan(scores), np.nanmean(scores), scores)


def joined(features: Features, reference: Features, weight: float) -> np.ndarray:
    """Links and weighted cosine, each by its standard deviation in the reference."""
    return features[LINKS] / reference[LINKS].std() + weight * features[COSINE] / reference[COSINE].std()


def matched(words: WordEncoder, pairs: ScoredPairs) -> np.ndarray:
    """(N,) mean cosine of the pieces of both sides with the most similar piece of the other side."""
    sides = []
    for texts in (pairs.source, pairs.target):
        pieces = {row: unit_or_zero(vectors) for row, _, vectors in words.pieces(texts)}
        mean = np.concatenate([*pieces.values()]).mean(0)
        sides.append([unit_or_zero(pieces[row] - mean) for row in range(len(texts))])
    scores = []
    for source, target in zip(*sides):
        cosines_of_pieces = source @ target.T
        scores.append((cosines_of_pieces.max(1).mean() + cosines_of_pieces.max(0).mean()) / 2)
    return np.array(scores)


def with_words(
    features: Features,
    matches: np.ndarray,
    reference: tuple[Features, np.ndarray],
    cosine_weight: float,
    weights: tuple[float, ...],
) -> Systems:
    """Matched words alone, and beside links and cosine, by their standard deviation in the reference."""
    of_reference, reference_matches = reference
    both = joined(features, of_reference, cosine_weight)
    systems = {(WORDS, "none"): matches, (JOINED, "none"): both}
    for weight in weights:
        systems[f"{WITH_WORDS}, weight {weight:g}", "none"] = both + weight * matches / reference_matches.std()
    return systems


def compare(dev: Features, test: Features, human: np.ndarray, cosine_weight: float) -> Systems:
    """The rows of test20; `human` are the scores of dev."""
    found = {("cosine", "none"): test[COSINE], (LINKS, "none"): test[LINKS]}
    found[JOINED, "none"] = joined(test, dev, cosine_weight)
    for label, names in {"cosine, calibrated": (COSINE,), "links, calibrated": (LINKS,), CALIBRATED: test}.items():
        fitted = fit_calibration({name: dev[name] for name in names}, human)
        found[label, "dev, 1,000 of the pair"] = fitted(test)
    return found


def with_segments(links: LexicalEncoder, train: ScoredPairs, *known: tuple[ScoredPairs, Features]) -> Systems:
    """Rows that have learnt from the human scores of train, too: which segments people mark down."""
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=RIDGE, solver="lsqr").fit(segments(links, train), train.scores)
    of_dev, of_test = (found | {"segments": model.predict(segments(links, pairs))} for pairs, found in known)
    both = fit_calibration(of_dev, known[0][0].scores)(of_test)
    return {("segments", "train"): of_test["segments"], (SEGMENTS, "train and dev"): both}


def segments(links: LexicalEncoder, pairs: ScoredPairs) -> csr_array:
    """(N, V + W) roots of the shares that segments have of both sides; of about unit length."""
    languages = pairs.direction.split("->")
    sides = (links.model._read(side, lang).shares[0] for side, lang in zip((pairs.source, pairs.target), languages))
    return csr_array(hstack([side.sqrt() for side in sides]))


def vary(pairs: ScoredPairs, known: Features, links: LexicalEncoder) -> Systems:
    """Other settings on dev; counted links stay as they are."""
    config, found = links.model.config, {("cosine", "none"): known[COSINE], (LINKS, "none"): known[LINKS]}
    for label, changed in VARIED.items():
        kept = {name: getattr(config, name) for name in changed}
        for name, value in changed.items():
            setattr(config, name, value)
        found[f"links, {label}", "none"] = scored(links, pairs)
        for name, value in kept.items():
            setattr(config, name, value)
    for weight in COSINE_WEIGHTS:
        found[f"{JOINED}, weight {weight:g}", "none"] = joined(known, known, weight)
    return found


if __name__ == "__main__":
    run_recipe(main)
