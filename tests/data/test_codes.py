"""Which codes of languages mean the same, and what is no code."""

import numpy as np
import pytest

import hfxling
from hfxling.data.codes import base_code, check_languages, written_like


@pytest.mark.parametrize(
    ("lang", "base"),
    [
        ("lo", "lo"),
        ("lo-LA", "lo"),
        ("lao", "lo"),
        ("lao-Laoo", "lo"),
        ("zho-Hant", "zh"),
        ("cmn", "zh"),
        ("chi", "zh"),
        ("zsm", "ms"),
        ("tgl", "tl"),
        ("yue", "yue"),
        ("fil", "fil"),
        ("tts", "tts"),
    ],
)
def test_the_language_that_a_code_means(lang, base):
    assert base_code(lang) == base


@pytest.mark.parametrize(
    ("lang", "like"), [("yue-Hant", "zh"), ("tts", "th"), ("shn", "my"), ("lao", "lo"), ("vi", "vi")]
)
def test_the_language_whose_words_a_language_has(lang, like):
    assert written_like(lang) == like


@pytest.mark.parametrize(("codes", "part"), [(("zho_Hans", "lo"), "zh-Hans"), (("lo", "lo"), "two languages")])
def test_what_is_no_pair_of_languages(codes, part):
    with pytest.raises(ValueError, match=part):
        check_languages(*codes)


def test_links_are_alike_whichever_code_a_language_has():
    pairs = hfxling.load_parallel("sample", "lo", "zh")[:80]
    scores = []
    for languages in (("lo", "zh"), ("lao", "cmn-Hans")):
        model = hfxling.fit_lexical(pairs["source"], pairs["target"], languages, progress=False)
        source = model.encode(pairs["source"], languages[0])
        target = model.encode(pairs["target"], languages[1], "document")
        scores.append((source @ target.T).toarray())
    assert np.allclose(*scores, atol=1e-5)
