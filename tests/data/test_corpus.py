"""Text of one or many language pairs: joined, filtered, guarded, capped, and the account of it."""

import datasets
import numpy as np
import pytest

from hfxling.arguments import parse_arguments
from hfxling.data.corpus import TextArguments, load_corpus
from hfxling.data.parallel import load_parallel
from hfxling.data.scored import ScoredPairs

WORDS = ("bread", "winter", "castle", "hospital", "music", "Friday", "lemon", "kitchen")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """en-de.tsv and ne-en.tsv with a sentence each that the scored test text has, en.txt and de.txt."""
    for pair in ("en-de", "ne-en"):
        train = "".join(f"{word} {pair}\t{pair} {word[::-1]}\n" for word in WORDS)
        leak = "the tested sentence number 3\tetwas ganz anderes\n"
        (tmp_path / f"{pair}.tsv").write_text(train + leak, encoding="utf-8")
    (tmp_path / "en.txt").write_text("one house\ntwo houses\nthree houses\n")
    (tmp_path / "de.txt").write_text("ein Haus\nzwei Häuser\ndrei Häuser\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def arguments(*train, pairs=("en-de", "ne-en"), **settings):
    return TextArguments(pairs=list(pairs), train_data=list(train), **settings)


def scored():
    texts = [[f"{word} sentence number {i}" for i in range(5)] for word in ("the tested", "der geprüfte")]
    return [ScoredPairs("QE", "test", "en->de", *texts, np.arange(5.0))]


def test_sources_serve_the_pairs_that_they_have_text_of(data):
    corpus = load_corpus(arguments("{source}-{target}.tsv", "{source}.txt+{target}.txt@1-2"), scored=scored())
    counts = [(pair.languages, pair.read, pair.used, pair.leaks) for pair in corpus.pairs]
    assert counts == [(("en", "de"), 11, 10, 1), (("ne", "en"), 9, 8, 1)]
    first, _ = corpus.pairs
    assert first.train["target"][-2:] == ["ein Haus", "zwei Häuser"]
    assert first.train["row"][-3:] == [7, 9, 10]
    assert corpus.languages == ["en", "de", "ne"]
    entries = corpus.card_entries("cc-by-4.0")
    assert [(entry["pairs"], entry["leaks"], entry["licence"]) for entry in entries] == [
        (10, 1, "cc-by-4.0"),
        (8, 1, "cc-by-4.0"),
    ]
    assert [entry["name"].rpartition(", ")[2] for entry in entries] == ["en-de", "ne-en"]


def test_a_source_can_be_for_one_pair(data):
    corpus = load_corpus(arguments("en-de=en.txt+de.txt", "{source}-{target}.tsv"))
    assert [pair.read for pair in corpus.pairs] == [12, 9]


def test_one_test_pair_is_too_few(data):
    (data / "vi.tsv").write_text("một\tone\nhai\ttwo\n", encoding="utf-8")
    (data / "one.tsv").write_text("ba\tthree\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"^test_data=one\.tsv: 1 test pair of vi-en; give 2 or more"):
        load_corpus(arguments("vi.tsv", pairs=["vi-en"], test_data=["one.tsv"]))


def test_filters_cap_and_account(data):
    rows = [("một hai", "one two"), ("một hai", "One  two"), ("same", "same"), ("ba", "three"), ("tư", "four")]
    (data / "vi.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in rows), encoding="utf-8")

    def load(**settings):
        return load_corpus(arguments("{source}.tsv", pairs=["vi-en"], **settings))

    (pair,) = load().pairs
    assert (pair.read, pair.dropped["duplicate"], pair.dropped["identical"], pair.used) == (5, 1, 1, 3)
    (entry,) = load().card_entries("CC0")
    assert (entry["pairs"], entry["licence"], entry["dropped"]["duplicate"]) == (3, "CC0", 1)
    capped = load(max_train_pairs=2)
    assert capped.pairs[0].used == len(capped.pairs[0].train) == 2
    assert capped.card_entries(None)[0]["revision"] != entry["revision"]
    with pytest.raises(ValueError, match=r"none of the 5 training pairs of vi-en is left \(dropped: .*4 too short"):
        load(min_words=3)


def test_a_cap_is_a_sample_over_the_whole_set_that_hangs_on_no_seed(data):
    (data / "vi.tsv").write_text("".join(f"vi {i}\ten {i}\n" for i in range(1000)), encoding="utf-8")
    args = arguments("vi.tsv", pairs=["vi-en"], max_train_pairs=100)
    numbers = [int(text[3:]) for text in load_corpus(args).pairs[0].train["source"]]
    assert len(set(numbers)) == 100
    assert numbers == sorted(numbers)
    assert 300 < np.mean(numbers) < 700  # the first 100 would give 50
    assert load_corpus(args).revision() == load_corpus(args).revision()


def test_test_text_guards_the_training_text_of_its_pair(data):
    (data / "test.tsv").write_text("winter en-de\ten-de retniw\nnothing like it\tetwas anderes\n")
    args = arguments("{source}-{target}.tsv", test_data=["en-de=test.tsv"])
    corpus = load_corpus(args)
    assert [(pair.leaks, pair.used, len(pair.test)) for pair in corpus.pairs] == [(1, 8, 2), (0, 9, 0)]
    kept = load_corpus(arguments("{source}-{target}.tsv", test_data=["en-de=test.tsv"], keep_leaks=True))
    assert [(pair.leaks, pair.used) for pair in kept.pairs] == [(0, 9), (0, 9)]
    given = datasets.Dataset.from_dict({"source": ["x"], "target": ["ne-en daerb is not the whole of it"]})
    own = load_corpus(args, tests={("ne", "en"): given})  # in place of what the arguments name
    assert [len(pair.test) for pair in own.pairs] == [0, 1]


def test_the_samples_test_text_is_the_default(data):
    (pair,) = load_corpus(arguments("sample", pairs=["zh-vi"])).pairs
    assert len(pair.test) > 100
    assert load_corpus(arguments("en-de.tsv", pairs=["en-de"])).pairs[0].test.num_rows == 0
    assert arguments("sample", pairs=["zh-vi"]).licence == "apache-2.0"
    assert arguments("en-de.tsv", pairs=["en-de"]).licence is None


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"pairs": ["en-de", "en-de"]}, "give at least one, each once"),
        ({"pairs": []}, "give at least one, each once"),
        ({"pairs": ["en-en"]}, "source_lang and target_lang are both 'en'"),
        ({"train_data": []}, "give at least one source"),
        ({"train_data": ["en-de.tsv"]}, "'en-de.tsv': which of en-de, ne-en is it for?"),
        ({"max_train_pairs": 0}, "max_train_pairs=0: give 1 or more"),
        ({"max_train_pairs": -5}, "max_train_pairs=-5: give 1 or more"),
        ({"min_words": -1}, "min_words=-1: give 0 or more"),
        ({"test_data": ["{lang}.tsv"]}, "{lang} is not one of {source}"),
    ],
)
def test_arguments_are_checked(settings, part):
    with pytest.raises(ValueError) as caught:
        TextArguments(**({"pairs": ["en-de", "ne-en"], "train_data": ["{pair}.tsv"]} | settings))
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_no_source_has(data):
    with pytest.raises(ValueError, match=r"pair en-fr: no source has text of it \(en-fr\.tsv does not exist"):
        load_corpus(arguments("{source}-{target}.tsv", pairs=["en-de", "en-fr"]))
    with pytest.raises(ValueError, match=r"train_data='\{source\}\.csv' has no text of en-de, ne-en"):
        load_corpus(arguments("{source}-{target}.tsv", "{source}.csv"))
    with pytest.raises(ValueError, match=r"test_data='\{source\}\.csv' has no text of en-de, ne-en"):
        load_corpus(arguments("{source}-{target}.tsv", test_data=["{source}.csv"]))
    with pytest.raises(FileNotFoundError, match=r"no\.tsv does not exist"):
        load_corpus(arguments("no.tsv", pairs=["en-de"]))


def test_arguments_parse_from_the_command_line():
    words = ["--pairs", "zh-en", "vi-en", "--train_data", "a/{source}.tsv", "sample"]
    (args,) = parse_arguments([TextArguments], words)
    assert (args.language_pairs, args.train_data) == ([("zh", "en"), ("vi", "en")], ["a/{source}.tsv", "sample"])
    assert args.languages == ["zh", "en", "vi"]


def test_exchanged_sides_are_told(tmp_path, caplog):
    pairs = load_parallel("sample", "zh", "vi")[:20]
    table = tmp_path / "my.tsv"
    lines = [f"{source}\t{target}\n" for source, target in zip(pairs["source"], pairs["target"])]
    table.write_text("".join(lines), encoding="utf-8")
    load_corpus(TextArguments(pairs=["zh-vi"], train_data=[f"{table}#1,0"], test_data=[]))
    assert "source texts (100 %) are not in 'zh'; check the languages" in caplog.text
    caplog.clear()
    load_corpus(TextArguments(pairs=["zh-vi"], train_data=[f"{table}#0,1"], test_data=[]))
    assert not caplog.text


def test_test_text_has_its_own_name(tmp_path):
    pairs = load_parallel("sample", "zh", "vi")[:20]
    lines = [f"{source}\t{target}\n" for source, target in zip(pairs["source"], pairs["target"])]
    for name, some in (("train", lines[:12]), ("news", lines[12:])):
        (tmp_path / f"{name}.tsv").write_text("".join(some), encoding="utf-8")
    named = {"train_data": [str(tmp_path / "train.tsv")], "test_data": [str(tmp_path / "news.tsv")]}
    corpus = load_corpus(TextArguments(pairs=["zh-vi"], **named))
    assert corpus.name.endswith("/train")
    assert corpus.test_fields(corpus.pairs[0])["dataset"].endswith("/news")
    corpus = load_corpus(TextArguments(pairs=["zh-vi"], data_name="mine", **named))
    assert corpus.test_fields(corpus.pairs[0])["dataset"] == "mine"
