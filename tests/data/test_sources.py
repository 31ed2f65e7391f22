"""The grammar for text: pairs, templates, files, Hub ids, and what a source lacks."""

import json
from pathlib import Path

import datasets
import pytest

from hfxling.data.pairs import read_heaps
from hfxling.data.sources import Source, load_pairs, name_of_pair, pair_files, parse_pair

ROOT = Path(__file__).resolve().parents[2]
ENGLISH = ["The rain has stopped at last.", "My brother sells apples.", "Where is the station?", "We eat at noon."]


@pytest.mark.parametrize(
    ("text", "pair"), [("zh-vi", ("zh", "vi")), ("zh-tw:vi", ("zh-tw", "vi")), ("fil:zh-tw", ("fil", "zh-tw"))]
)
def test_pairs(text, pair):
    assert parse_pair(text) == pair
    assert name_of_pair(pair) == text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("zh", "write it like zh-vi, or like zh-tw:vi"),
        ("zh-tw-vi", "write it like zh-vi, or like zh-tw:vi"),
        ("zh-zh", "are both 'zh'"),
        ("cn-vi", "did you mean zh"),
        ("zh-", "language ''"),
    ],
)
def test_what_is_no_pair(text, part):
    with pytest.raises(ValueError, match=part):
        parse_pair(text)


@pytest.mark.parametrize(
    ("text", "pair", "expected"),
    [
        ("org/set:{pair}", "zh-en", ("org/set:en-zh", None, None)),
        ("org/set:{pair}@v1", "bn-en", ("org/set:bn-en@v1", None, None)),
        ("a/{source}.txt+a/{target}.txt@1-1543", "vi-en", ("a/vi.txt+a/en.txt", "1-1543", None)),
        ("a/{target}-{source}.tsv.gz@2-9#1,0", "vi-en", ("a/en-vi.tsv.gz", "2-9", ("1", "0"))),
        ("org/x#text_{source},text_{target}", "vi-en", ("org/x", None, ("text_vi", "text_en"))),
        ("a#b/{source}.tsv", "vi-en", ("a#b/vi.tsv", None, None)),
    ],
)
def test_templates(text, pair, expected):
    source = Source.parse(text).fill(parse_pair(pair))
    assert (source.data, source.lines, source.columns) == expected


def test_an_entry_for_one_pair():
    source = Source.parse("zh-tw:vi=a/b.tsv@1-2")
    assert (source.data, source.lines, source.only_for) == ("a/b.tsv", "1-2", ("zh-tw", "vi"))
    assert source.is_for(("zh-tw", "vi"))
    assert not source.is_for(("zh", "vi"))
    assert Source.parse("folder=1/a.tsv").only_for is None


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("sample", "sample"),
        ("org/set:en-{source}@main", "org/set"),
        ("data/ntrex/{source}.txt+data/ntrex/en.txt@1-9", "ntrex"),
        ("data/anki/en-{source}.tsv.gz#1,0", "anki"),
        ("data/vi-zh/train.tsv", "vi-zh/train"),
        ("work/my.zh+work/my.vi@1-1500", "my"),
        ("data/ntrex/zh.txt+data/ntrex/vi.txt", "ntrex"),
    ],
)
def test_names(text, name):
    assert Source.parse(text).name == name


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a/{language}.tsv", "{language} is not one of {source}, {target}, {pair}"),
        ("a/{lang.tsv", "{ is not one of"),
        ("@1-2", "names no text"),
        ("", "names no text"),
    ],
)
def test_what_is_no_source(text, part):
    if text == "@1-2":
        text = " @1-2"
    with pytest.raises(ValueError) as caught:
        Source.parse(text)
    assert part in str(caught.value)


@pytest.fixture
def anki(tmp_path):
    """English TAB other, for zh and vi."""
    for lang in ("zh", "vi"):
        lines = [f"{english}\t{lang} text {i}" for i, english in enumerate(ENGLISH)]
        (tmp_path / f"en-{lang}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{tmp_path}/en-{{source}}.tsv#1,0"


@pytest.fixture
def aligned(tmp_path):
    """Line-aligned files of en, vi and th."""
    for lang in ("en", "vi", "th"):
        (tmp_path / f"{lang}.txt").write_text("".join(f"{lang} line {i}\n" for i in range(10)), encoding="utf-8")
    return f"{tmp_path}/{{source}}.txt+{tmp_path}/{{target}}.txt@3-8"


def test_sources_of_different_form_are_joined(anki, aligned):
    pairs = load_pairs([anki, aligned], ("vi", "en"))
    assert pairs.column_names == ["source", "target", "source_lang", "target_lang"]
    assert (len(pairs), pairs[0]["source"], pairs[0]["target"]) == (10, "vi text 0", ENGLISH[0])
    assert (pairs[4]["source"], pairs[4]["target"]) == ("vi line 2", "en line 2")
    assert len(load_pairs([anki, aligned], ("th", "en"))) == 6
    assert len(load_pairs(["sample"], ("zh", "vi"), split="dev")) > 10


def test_files(anki, aligned, tmp_path):
    assert Source.parse(anki).files(("zh", "en")) == (f"{tmp_path}/en-zh.tsv",)
    assert Source.parse(aligned).files(("vi", "en")) == (f"{tmp_path}/vi.txt", f"{tmp_path}/en.txt")
    assert [Source.parse(text).files(("vi", "en")) for text in ("sample", "org/set", "org/set:x@y")] == [()] * 3
    with pytest.raises(FileNotFoundError, match=r"no\.tsv does not exist"):
        Source.parse("no.tsv").files(("vi", "en"))


@pytest.mark.parametrize("names", [("a+b.zh", "b.vi"), ("a.zh", "b+c.vi"), ("a+b+c.zh", "a+b+c.vi")])
def test_names_with_a_plus(names, tmp_path):
    paths = [tmp_path / name for name in names]
    for path in paths:
        path.write_text("\n".join(ENGLISH[:2]) + "\n", encoding="utf-8")
    source = f"{paths[0]}+{paths[1]}"
    assert Source.parse(source).files(("zh", "vi")) == (str(paths[0]), str(paths[1]))
    assert len(load_pairs([f"{source}@1-2"], ("zh", "vi"))) == 2
    assert [heap.texts for heap in read_heaps(source)] == [ENGLISH[:2], ENGLISH[:2]]


def test_what_no_source_has(anki, tmp_path):
    with pytest.raises(ValueError, match=r"pair th-en: no source has text of it \(.*en-th\.tsv does not exist"):
        load_pairs([anki], ("th", "en"))
    with pytest.raises(FileNotFoundError, match=r"no\.tsv does not exist"):
        load_pairs(["no.tsv"], ("th", "en"))
    with pytest.raises(ValueError, match="every source is for another pair"):
        load_pairs([f"zh-en={anki}"], ("vi", "en"))


def test_other_errors_are_not_taken_for_a_missing_language(anki, monkeypatch):
    with open(anki.replace("{source}", "vi").partition("#")[0], "a") as file:
        file.write("no second column\n")
    with pytest.raises(ValueError, match=r"en-vi\.tsv, line 5: too few columns"):
        load_pairs([anki], ("vi", "en"))
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: (_ for _ in ()).throw(ConnectionError("offline")))
    with pytest.raises(ValueError, match=r"could not be loaded \(offline\)"):
        load_pairs(["org/x:{pair}", anki], ("zh", "en"))


def test_hub_ids_with_configuration_and_revision(monkeypatch):
    def load_dataset(name, config, *, split, revision):
        asked.append((name, config, split, revision))
        if config == "en-th":
            raise ValueError("BuilderConfig 'en-th' not found. Available: ['bn-en', 'en-zh']")
        return datasets.Dataset.from_dict({"english": ["one", "two"], "non_english": ["1", "2"], "extra": [0, 0]})

    asked = []
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    (row, _) = load_pairs(["org/talks:{pair}@v1"], ("bn", "en"), split="dev")
    assert row == {"source": "1", "target": "one", "source_lang": "bn", "target_lang": "en"}
    load_pairs(["org/talks"], ("bn", "en"))
    assert len(load_pairs(["org/talks:{pair}", "sample"], ("th", "en"), split="dev")) > 2
    assert asked == [
        ("org/talks", "bn-en", "dev", "v1"),
        ("org/talks", None, "train", None),
        ("org/talks", "en-th", "dev", None),
    ]


@pytest.mark.slow
def test_missing_configuration_on_a_hub(hub, publisher, tmp_path):
    configs = [{"config_name": f"en-{lang}", "data_files": f"{lang}.jsonl"} for lang in ("zh", "vi")]
    files = {"README.md": ("---\n" + json.dumps({"configs": configs}) + "\n---\n").encode()}
    for lang in ("zh", "vi"):
        files[f"{lang}.jsonl"] = json.dumps({"translation": {"en": "one", lang: "1"}}).encode()
    hub.put("org/pairs", files, repo_type="dataset")
    code = """
from hfxling.data.corpus import TextArguments, load_corpus
args = TextArguments(pairs=["zh-en", "th-en"], train_data=["org/pairs:{pair}", "sample"], test_data=[])
print([next(iter(pair.train))["source"] == "1" for pair in load_corpus(args).pairs])
"""
    done = publisher.run(code, cwd=tmp_path)
    assert done.stdout.splitlines() == ["[True, False]"], done.stderr[-3000:]


def test_a_pair_has_one_file():
    assert pair_files("gold", ["lo-zh=a", "zh-vi=b=c"]) == {("lo", "zh"): "a", ("zh", "vi"): "b=c"}
    for entries in (["lo-zh=a", "lo-zh=b"], ["lo-zh=a", "lo:zh=b"]):
        with pytest.raises(ValueError, match=r"given twice.*give (one|each)"):
            pair_files("gold", entries)
