"""Both sides of a text, whatever form they come in."""

import gzip
import json

import pytest
from datasets import Dataset, DatasetDict

from hfxling import fit_lexical
from hfxling.data.pairs import IN_MEMORY, joined_source, read_heaps, read_pairs

ZH, VI = ["一", "二", "三", "四"], ["mot", "hai", "ba", "bon"]
PAIR = ("zh", "vi")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.zh").write_text("".join(f"{text}\n" for text in ZH), encoding="utf-8")
    (tmp_path / "b.vi").write_text("".join(f"{text}\n" for text in VI), encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("".join(f"{zh}\t{vi}\n" for zh, vi in zip(ZH, VI)), encoding="utf-8")
    with gzip.open(tmp_path / "named.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("vi\tzh\tgood\n" + "".join(f"{vi}\t{zh}\t{row}\n" for row, (zh, vi) in enumerate(zip(ZH, VI))))
    lines = [json.dumps({"zh": zh, "vi": vi}) for zh, vi in zip(ZH, VI)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("names", [("zh", "vi"), ("cmn", "vie"), ("source", "target"), ("zho_Hans", "vi")])
def test_a_data_set_has_a_column_for_each_side(names):
    columns = Dataset.from_dict({"id": [1, 2, 3, 4], names[1]: VI, names[0]: ZH})
    pairs = read_pairs(columns, None, PAIR)
    assert (pairs.source, pairs.target) == (ZH, VI)
    assert [heap.texts for heap in read_heaps(columns, None, PAIR)] == [ZH, VI]


def test_a_data_set_without_such_columns_is_refused():
    columns = Dataset.from_dict({"id": [1, 2, 3, 4], "th": VI, "zh": ZH})
    for read in (read_pairs, read_heaps):
        with pytest.raises(ValueError, match=r"the columns id, th, zh, but not zh and vi, or .* ds\['vi'\]"):
            read(columns, None, PAIR)
    with pytest.raises(ValueError, match=r"column zh of the data set holds .*, not text"):
        read_pairs(Dataset.from_dict({"zh": [1, 2], "vi": VI[:2]}), None, PAIR)
    with pytest.raises(ValueError, match="a data set is not a list of texts; give two of its columns"):
        read_pairs(columns, columns, PAIR)
    with pytest.raises(ValueError, match="a data set is not a list of texts"):
        read_pairs(ZH, columns, PAIR)
    for read in (read_pairs, read_heaps, fit_lexical):
        with pytest.raises(ValueError, match=r"the splits train, dev; give one of them, such as ds\['dev'\]"):
            read(DatasetDict(train=columns, dev=columns), None, PAIR)
        with pytest.raises(ValueError, match="load it without streaming=True"):
            read(columns.to_iterable_dataset(), None, PAIR)


@pytest.mark.parametrize(
    "sides",
    [("a.zh", "b.vi"), ("a.zh+b.vi", None), ("pairs.tsv", None), ("named.tsv.gz", None), ("pairs.jsonl", None)],
)
def test_every_form_is_the_same_text(sides, folder):
    pairs = read_pairs(*sides, PAIR)
    assert (pairs.source, pairs.target) == (ZH, VI)
    assert pairs.has_header == (sides[0] == "named.tsv.gz")
    if sides[0] != "named.tsv.gz":  # lines of text
        picked = [side and f"{side}@2-3" for side in sides]
        assert read_pairs(*picked, PAIR).target == VI[1:3]
        assert read_pairs(*picked, PAIR).lines == [2, 3]
    heaps = read_heaps(*sides, PAIR)
    assert [heap.texts for heap in heaps] == [ZH, VI]


def test_texts_in_memory():
    pairs = read_pairs([" 一", "二"], VI[:2], PAIR)
    assert (pairs.source, pairs.lines, pairs.name) == (["一", "二"], [1, 2], IN_MEMORY)
    heaps = read_heaps(["一", "", " 三 "], VI)
    assert (heaps[0].texts, heaps[0].lines) == (["一", "三"], [1, 3])
    assert read_pairs("sample", None, PAIR).name == "sample"


def test_bad_rows_are_refused_or_skipped(folder):
    (folder / "bad.tsv").write_text("一\tmot\n二\n\tba\n四\tbon\tx\n", encoding="utf-8")
    pairs = read_pairs("bad.tsv", None, PAIR, skip_bad=True)
    assert (pairs.source, pairs.target) == (["一", "", "", ""], ["mot", "", "ba", ""])
    with pytest.raises(ValueError, match="line 2"):
        read_pairs("bad.tsv", None, PAIR)
    assert read_pairs("named.tsv.gz", None, PAIR, column="good").values == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("sides", "error"),
    [
        ((ZH, VI[:2]), "4 source texts, 2 target texts"),
        ((ZH, None), "a list of their translations"),
        ((["一", " "], VI[:2]), r"source\[1\]"),
        ((ZH, "b.vi"), "list of their translations"),
        (("a.zh", VI), "both as files"),
        (("a.zh@1-2", "b.vi@1-3"), "the same lines of both"),
        (("a.zh@3-9", "b.vi@3-9"), "4 records, but lines='3-9'"),
        (("a.zh@3-2", "b.vi@3-2"), "first-last"),
        (("a.zh", "none.vi"), "none.vi"),
    ],
)
def test_what_is_no_pair(sides, error, folder):
    with pytest.raises((ValueError, FileNotFoundError), match=error):
        read_pairs(*sides, PAIR)


def test_a_heap_without_text(folder):
    (folder / "empty.vi").write_text("\n\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no sentence"):
        read_heaps("a.zh", "empty.vi")
    with pytest.raises(ValueError, match="is in line 4"):
        read_heaps("a.zh@8-9", "b.vi")
    with pytest.raises(ValueError, match="two lists"):
        read_heaps(ZH)
    assert joined_source("a@1-2", "b@1-2") == "a+b@1-2"


def test_a_side_that_no_model_reads_in_useful_time_is_refused(tmp_path):
    (tmp_path / "long.tsv").write_text("a\tb\n" + "a\t" + "b" * 1_000_001 + "\n")
    message = "long.tsv, line 2: the target side has 1,000,001 letters; give texts of at most 1,000,000"
    with pytest.raises(ValueError, match=message):
        read_pairs(tmp_path / "long.tsv", None, ("zh", "vi"))
    with pytest.raises(ValueError, match="texts in memory, line 1: the source side has 9 letters"):
        read_pairs(["a" * 9], ["b"], longest=8)
    assert len(read_pairs(tmp_path / "long.tsv", None, ("zh", "vi"), longest=None)) == 2
