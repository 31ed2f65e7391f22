"""Which codes of languages mean the same, and what is no code."""

import numpy as np
import pytest

import hfxling
from hfxling.data.codes import base_code, check_languages, pair_of, same_language, written_like


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


@pytest.mark.parametrize(
    ("lang", "known", "same"),
    [
        ("lao", ["lo", "zh"], "lo"),
        ("zh-tw", ["zh", "zh-tw"], "zh-tw"),
        ("zh-Hant", ["zh", "zh-tw"], None),
        ("th", ["lo", "zh"], None),
        ("zh", ["cmn-Hans", "vie"], "cmn-Hans"),
    ],
)
def test_the_code_that_others_have_for_a_language(lang, known, same):
    assert same_language(lang, known) == same


def test_a_pair_by_the_codes_that_a_model_knows():
    assert pair_of(["lao", "zho-Hans"], ["lo", "zh"]) == ("lo", "zh")
    assert pair_of(["lao", "zho"]) == ("lao", "zho")
    for wrong in (None, "zh", ["zh"], ["zh", "zh"]):
        with pytest.raises(ValueError, match="give the codes of two languages, such as zh vi"):
            pair_of(wrong)


@pytest.mark.parametrize("names", [("lo", "zh"), ("lao_Laoo", "zho_Hans"), ("LAO", "CMN")])
def test_columns_and_models_are_found_by_any_code_of_a_language(names, tmp_path):
    pairs = hfxling.load_parallel("sample", "lo", "zh")[:80]
    rows = [f"{source}\t{target}\n" for source, target in zip(pairs["source"], pairs["target"])]
    (tmp_path / "pairs.tsv").write_text("\t".join(names) + "\n" + "".join(rows), encoding="utf-8")
    text = str(tmp_path / "pairs.tsv")
    links = hfxling.fit_lexical(pairs["source"], pairs["target"], ("lo", "zh"), progress=False)
    hfxling.save_lexical(links, tmp_path / "links", licence="cc0-1.0")
    found = []
    for languages in (("lo", "zh"), ("lao", "zho")):
        options = {"languages": languages, "lexical": str(tmp_path / "links")}
        mined = hfxling.mine(text, **options, cache_dir=tmp_path / "cache").rows
        aligned = hfxling.align_words(text, languages=languages, model=str(tmp_path / "links"))
        evaluated = hfxling.evaluate(task=["retrieval"], data=[text], **options)
        found.append((mined, [pair.links for pair in aligned.pairs], [row.value for row in evaluated.rows]))
    assert found[0] == found[1]
    assert len(found[0][0]) > 50


def test_links_are_alike_whichever_code_a_language_has():
    pairs = hfxling.load_parallel("sample", "lo", "zh")[:80]
    scores = []
    for languages in (("lo", "zh"), ("lao", "cmn-Hans")):
        model = hfxling.fit_lexical(pairs["source"], pairs["target"], languages, progress=False)
        source = model.encode(pairs["source"], languages[0])
        target = model.encode(pairs["target"], languages[1], "document")
        scores.append((source @ target.T).toarray())
    assert np.allclose(*scores, atol=1e-5)
