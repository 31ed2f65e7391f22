"""Static vectors are a factorisation of the links, centred."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from hfxling import fit_lexical, load_parallel
from hfxling.evaluation.retrieval import gold_ranks
from hfxling.methods.lexical import static
from hfxling.methods.lexical.static import factorise, strongest_svd, two_halves

LANGUAGES = ("vi", "id")


@pytest.mark.parametrize("pairs", [[("a", "b")], [("a", "b"), ("a", "c")], [("a", "b"), ("b", "c"), ("c", "a")]])
def test_products_of_the_vectors_are_the_links(pairs):
    rng, sizes = np.random.default_rng(0), {"a": 5, "b": 6, "c": 4}
    latent = {lang: rng.random((size, 3)) for lang, size in sizes.items()}
    odds = {(x, y): csr_array(latent[x] @ latent[y].T) for x, y in pairs}
    sizes = {lang: size for lang, size in sizes.items() if any(lang in pair for pair in pairs)}
    tables = factorise(odds, sizes, SimpleNamespace(rank=6, static_decay=0.5), 0)
    for (x, y), matrix in odds.items():
        if two_halves(odds, sizes):
            np.testing.assert_allclose(tables[x] @ tables[y].T, matrix.toarray(), atol=1e-6)
        else:  # what one language has to itself is not among the links, and the ring cannot leave it out
            assert np.corrcoef((tables[x] @ tables[y].T).ravel(), matrix.toarray().ravel())[0, 1] > 0.9
    strength = np.concatenate([*tables.values()])
    strength = (strength**2).sum(0)
    assert (np.diff(strength) < 1e-6).all()


@pytest.mark.parametrize("turned", [False, True])
def test_large_and_small_matrices_are_factorised_alike(turned, monkeypatch):
    rng = np.random.default_rng(0)
    matrix = rng.random((30, 5)) @ rng.random((5, 20)) + 0.1 * rng.random((30, 20))
    matrix[[3, 7]] = matrix[:, [2]] = 0  # without links
    matrix = csr_array(matrix.T if turned else matrix)
    exact = strongest_svd(matrix, 8, 0)
    monkeypatch.setattr(static, "_EXACT", 0)
    products = [(u * strength) @ v for u, strength, v in (exact, strongest_svd(matrix, 8, 0))]  # signs are free
    np.testing.assert_allclose(*products, atol=1e-6)
    whole = np.linalg.svd(matrix.toarray(), compute_uv=False)
    np.testing.assert_allclose(exact[1], whole[:8], rtol=1e-6)


def test_sentences_are_centred_and_the_seed_decides():
    text = load_parallel("sample", *LANGUAGES, split="train")[:60]
    sides = text["source"], text["target"]
    one, two = (fit_lexical(*sides, LANGUAGES, rank=8, seed=7) for _ in range(2))
    for lang, lines in zip(LANGUAGES, sides):
        np.testing.assert_array_equal(one.static[lang], two.static[lang])
        means = [one.static[lang][one.tokenizers[lang][0].encode(line).ids].mean(0) for line in lines]
        assert np.abs(np.mean(means, axis=0)).max() < 1e-5
        assert np.abs(one.static[lang][:4]).max() == 0


def test_segments_of_one_language_keep_their_vectors_in_a_shared_table():
    text = load_parallel("sample", "zh", "vi", split="train")[:60]  # scripts of their own: one tokenizer for both
    model = fit_lexical(text["source"], text["target"], ("zh", "vi"), rank=8)
    table = model.static["zh"]
    np.testing.assert_array_equal(table, model.static["vi"])
    assert np.isfinite(table).all()
    seen = {}
    for language, lines in (("zh", text["source"]), ("vi", text["target"])):
        seen[language] = {number for line in lines for number in model.tokenizers[language][0].encode(line).ids}
    for language, other in (("zh", "vi"), ("vi", "zh")):
        alone = sorted(seen[language] - seen[other])
        assert np.mean(np.linalg.norm(table[alone], axis=1) > 0) > 0.9


def test_mean_vectors_find_the_training_pairs():
    text = load_parallel("sample", *LANGUAGES, split="train")[:60]
    sides = text["source"], text["target"]
    model = fit_lexical(*sides, LANGUAGES, rank=32)
    means = [
        [model.static[lang][model.tokenizers[lang][0].encode(line).ids].mean(0) for line in lines]
        for lang, lines in zip(LANGUAGES, sides)
    ]
    ranks = np.concatenate(gold_ranks(*map(np.array, means)))
    assert (ranks == 1).mean() > 0.8
