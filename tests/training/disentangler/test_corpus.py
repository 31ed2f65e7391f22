"""Text of several language pairs: templates, restrictions, leaks, accounts and errors."""

import pytest

from hfxling.training.disentangler.arguments import PairCorpusArguments
from hfxling.training.disentangler.corpus import load_pair_corpus

WORDS = ("bread", "winter", "castle", "hospital", "music", "Friday", "lemon", "kitchen")
HEADER = "source\ttarget\tz_mean\n"


@pytest.fixture
def data(tmp_path):
    (tmp_path / "qe").mkdir()
    for pair in ("en-de", "ne-en"):
        rows = "".join(f"the tested sentence number {i}\tgeprüfter Satz Nummer {i}{pair}\t{i}\n" for i in range(5))
        (tmp_path / "qe" / f"{pair}.test20.tsv").write_text(HEADER + rows, encoding="utf-8")
        train = "".join(f"{word} {pair}\t{pair} {word[::-1]}\n" for word in WORDS)
        leak = "the tested sentence number 3\tetwas ganz anderes\n"
        (tmp_path / f"{pair}.tsv").write_text(train + leak, encoding="utf-8")
    (tmp_path / "en.txt").write_text("one house\ntwo houses\nthree houses\n")
    (tmp_path / "de.txt").write_text("ein Haus\nzwei Häuser\ndrei Häuser\n", encoding="utf-8")
    return tmp_path


def load(data, templates, pairs=("en-de", "ne-en"), **options):
    templates = [template.replace("DATA", str(data)) for template in templates]
    args = PairCorpusArguments(list(pairs), templates, **({"qe": str(data / "qe")} | options))
    return load_pair_corpus(args)


def test_templates_serve_the_pairs_that_they_have_text_of(data):
    corpus = load(data, ["DATA/{lang}-{pivot}.tsv", "DATA/{lang}.txt+DATA/{pivot}.txt@1-2"])
    counts = [(pair.languages, pair.read, len(pair.train), pair.leaks) for pair in corpus.pairs]
    assert counts == [(("en", "de"), 11, 10, 1), (("ne", "en"), 9, 8, 1)]
    assert corpus.pairs[0].train["target"][-2:] == ["ein Haus", "zwei Häuser"]
    assert corpus.pairs[0].train["row"][-3:] == [7, 9, 10]
    assert corpus.languages == ["en", "de", "ne"]
    entry = corpus.card_entry("cc-by-4.0")
    assert (entry["pairs"], entry["leaks"], entry["licence"]) == (18, 2, "cc-by-4.0")


def test_an_entry_can_be_for_one_pair(data):
    corpus = load(data, ["en-de=DATA/en.txt+DATA/de.txt", "DATA/{lang}-{pivot}.tsv"])
    assert [pair.read for pair in corpus.pairs] == [12, 9]


def test_leaks_are_kept_on_request_and_sampling_does_not_hang_on_a_seed(data):
    templates = ["DATA/{lang}-{pivot}.tsv"]
    assert [pair.leaks for pair in load(data, templates, keep_leaks=True).pairs] == [0, 0]
    first, again = (load(data, templates, max_train_pairs=4) for _ in range(2))
    assert [len(pair.train) for pair in first.pairs] == [4, 4]
    assert first.revision() == again.revision() != load(data, templates).revision()


def test_parallel_test_text_is_guarded_too(data):
    (data / "test.tsv").write_text("winter en-de\ten-de retniw\n")
    corpus = load(data, ["DATA/{lang}-{pivot}.tsv"], pairs=["en-de"], qe=None, test_data=[str(data / "test.tsv")])
    assert list(corpus.parallel) == [("en", "de")]
    assert (corpus.pairs[0].leaks, len(corpus.pairs[0].train)) == (1, 8)


ERRORS = {
    "no test": ({"qe": None}, ["DATA/en-de.tsv"], "nothing to test on"),
    "bad pair": ({"pairs": ["en"]}, ["DATA/en-de.tsv"], "language '': a code is 2-3 small letters"),
    "twice": ({"pairs": ["en-de", "en-de"]}, ["DATA/en-de.tsv"], "give at least one, each once"),
    "no text": ({"pairs": ["en-de", "en-fr"]}, ["DATA/{lang}-{pivot}.tsv"], "pair en-fr: none of the training data"),
    "useless": ({}, ["DATA/{lang}-{pivot}.tsv", "DATA/{pair}.csv"], "has text of none of the pairs en-de, ne-en"),
    "placeholder": ({}, ["DATA/{language}.tsv"], "{language} is not one of {lang}"),
    "too few": ({"pairs": ["en-de"], "max_train_pairs": 1}, ["DATA/{lang}-{pivot}.tsv"], "1 training pairs are left"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors_say_what_to_do(case, data):
    options, templates, message = ERRORS[case]
    with pytest.raises(ValueError, match=message):
        load(data, templates, **options)


def test_a_missing_file_that_was_named_is_missing(data):
    with pytest.raises(FileNotFoundError, match="no\\.tsv does not exist"):
        load(data, ["DATA/no.tsv"])
