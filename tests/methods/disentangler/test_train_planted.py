"""Vectors whose meaning and language are known: how near every objective comes to the split that made them."""

import numpy as np
import pytest
from transformers import TrainingArguments

from hfxling.evaluation.similarity import cosines, pearson
from hfxling.methods.disentangler.arguments import OBJECTIVES, TRAINING_DEFAULTS, SplitSettings
from hfxling.methods.disentangler.train import fit, meaning_of

SIZE = 24
ONE = [("en", "de")]
THREE = [("en", "de"), ("ne", "en"), ("ro", "en")]


def planted(count, pairs, offsets, rng, distance):
    """Vectors of both sides, meaning + the language's offset + noise, and how alike the meanings are.

    The second meaning is the first one and up to `distance` as much of another.
    """
    found = []
    for pair in pairs:
        meaning = rng.standard_normal((count, SIZE))
        other = meaning + rng.uniform(0, distance, (count, 1)) * rng.standard_normal((count, SIZE))
        noise = 0.1 * rng.standard_normal((2, count, SIZE))
        sides = [(x + offsets[lang] + e).astype(np.float32) for x, lang, e in zip((meaning, other), pair, noise)]
        found.append((sides, cosines(meaning, other)))
    return found


def oracle(vectors, offsets, languages):
    """The best that one affine map for all languages can do: the plane that holds the offsets is taken out."""
    of_all = np.stack([offsets[lang] for lang in languages])
    center = of_all.mean(0)
    _, size, directions = np.linalg.svd(of_all - center, full_matrices=False)
    plane = directions[size > 1e-9]
    return (vectors - center) @ (np.eye(SIZE) - plane.T @ plane)


def correlations(pairs, scale, objective, folder, epochs) -> np.ndarray:
    """(pairs, 3) Pearson with the planted similarity: of the vectors, of the trained meaning, of the oracle's."""
    rng = np.random.default_rng(1)
    languages = sorted({lang for pair in pairs for lang in pair})
    offsets = {lang: scale * rng.standard_normal(SIZE) for lang in languages}
    train = [sides for sides, _ in planted(600, pairs, offsets, rng, distance=0)]
    training = {"num_train_epochs": epochs, "learning_rate": 1e-2, "per_device_train_batch_size": 64, "use_cpu": True}
    training |= {"output_dir": str(folder), "disable_tqdm": True}
    training_args = TrainingArguments(**TRAINING_DEFAULTS | training)
    head = fit(train, SplitSettings(objective=objective), training_args).head
    found = []
    for sides, gold in planted(400, pairs, offsets, rng, distance=2):
        ways = sides, [meaning_of(head, x) for x in sides], [oracle(x, offsets, languages) for x in sides]
        found.append([pearson(gold, cosines(*way)) for way in ways])
    return np.array(found)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_constant_offsets_of_three_languages_are_found_by_one_head(objective, tmp_path):
    before, after, best = correlations(THREE, 2.0, objective, tmp_path, epochs=8).T
    assert (before < 0.6).all()
    assert (best > 0.95).all()
    # Cross-reconstruction wants no more than that exchanging parts changes little: it leaves some of the offset.
    assert (after > best - {"intra": 0.03, "inter": 0.15, "both": 0.03}[objective]).all(), (before, after, best)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_where_languages_do_not_differ_little_is_lost(objective, tmp_path):
    before, after, _ = correlations(ONE, 0.0, objective, tmp_path, epochs=15).T
    assert (after > before - {"intra": 0.02, "inter": 0.06, "both": 0.02}[objective]).all(), (before, after)
