"""Parallel text from files and the Hub, and what is said about files that are wrong."""

import bz2
import gzip
import json
import lzma

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hfxling.data.parallel import load_parallel
from hfxling.data.readers import read_lines

PAIRS = [("你好。", "Xin chào."), ('他说"好"。', 'Anh ấy nói "được".'), ("再见。", "Tạm biệt.")]


def write(path, content):
    content = content.encode() if isinstance(content, str) else content
    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(pack(content))
    return path


def tsv(rows=PAIRS):
    return "".join("\t".join(row) + "\n" for row in rows)


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return path


def pairs_of(dataset):
    return [(row["source"], row["target"]) for row in dataset]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", tsv()),
        ("a.tsv.gz", tsv()),
        ("a.zh-vi", tsv().replace("\t", " ||| ")),
        ("a.txt.xz", tsv().replace("\t", " ||| ")),
        ("crlf.tsv", tsv().replace("\n", "\r\n")),
        ("bom.tsv", "\ufeff" + tsv()),
        ("no-final-newline.tsv", tsv().rstrip("\n")),
        ("header.tsv", "vi\tzh\n" + tsv([row[::-1] for row in PAIRS])),
        ("bom-header.tsv", "\ufeffsource\ttarget\n" + tsv()),
        ("extra-column.tsv", tsv([(*row, "0-0 1-1") for row in PAIRS])),
        ("a.csv", '你好。,Xin chào.\n"他说""好""。","Anh ấy nói ""được""."\n再见。,Tạm biệt.\n'),
        (
            "header.csv.gz",
            'id,zh,vi\r\n1,你好。,Xin chào.\r\n2,"他说""好""。","Anh ấy nói ""được""."\r\n3,再见。,Tạm biệt.\r\n',
        ),
        ("a.jsonl", "".join(json.dumps({"zh": s, "vi": t, "n": 1}) + "\n" for s, t in PAIRS)),
        (
            "translation.json.gz",
            "".join(json.dumps({"zh": "x", "translation": {"vi": t, "zh": s}}) + "\n" for s, t in PAIRS),
        ),
    ],
)
def test_every_text_format_gives_the_same_pairs(tmp_path, name, content):
    dataset = load_parallel(write(tmp_path / name, content), "zh", "vi")
    assert dataset.column_names == ["source", "target", "source_lang", "target_lang"]
    assert pairs_of(dataset) == PAIRS
    assert {(row["source_lang"], row["target_lang"]) for row in dataset} == {("zh", "vi")}


def test_parquet_with_columns_or_a_translation_struct(tmp_path):
    source, target = zip(*PAIRS)
    flat = parquet(tmp_path / "flat.parquet", vi=target, zh=source, other=[1, 2, 3])
    nested = parquet(tmp_path / "nested.parquet", translation=[{"vi": t, "zh": s} for s, t in PAIRS])
    for path in (flat, nested):
        assert pairs_of(load_parallel(str(path), "zh", "vi")) == PAIRS


@pytest.mark.parametrize("names", [("a.zh", "a.vi"), ("zh.txt.gz", "vi.txt"), ("zh.txt.xz", "vi.txt.bz2")])
def test_two_line_aligned_files(tmp_path, names):
    paths = [write(tmp_path / name, "\n".join(side)) for name, side in zip(names, zip(*PAIRS))]
    assert pairs_of(load_parallel(paths, "zh", "vi")) == PAIRS


def test_only_newline_ends_a_line_and_only_outer_white_space_goes(tmp_path):
    inner = "a\u2028b\x85c\x0bd\x0ce\x1cf\rg\u200bh\u00a0i  \u00e9 e\u0301"
    paths = [write(tmp_path / side, f"\u3000 {inner}\u00a0\r\n") for side in ("x.en", "x.vi")]
    assert pairs_of(load_parallel(paths, "en", "vi")) == [(inner, inner)]
    assert pairs_of(load_parallel(write(tmp_path / "x.tsv", f" {inner} \t{inner}\n"), "en", "vi")) == [(inner, inner)]


def test_quotes_are_text_in_tsv_and_hold_newlines_in_csv(tmp_path):
    assert pairs_of(load_parallel(write(tmp_path / "a.tsv", '"a\t"b" c\n'), "en", "vi")) == [('"a', '"b" c')]
    assert pairs_of(load_parallel(write(tmp_path / "a.csv", '"a,\nb",c\n'), "en", "vi")) == [("a,\nb", "c")]


@pytest.mark.parametrize(
    ("header", "source_lang", "target_lang", "expected"),
    [
        ("en\tth", "th", "en", ("1", "0")),
        ("zh_TW\tLO", "lo", "zh-tw", ("1", "0")),
        ("sentence1\tsentence2", "th", "en", ("0", "1")),
        ("english\tnon_english", "en", "th", ("0", "1")),
        ("english\tnon_english", "th", "en", ("1", "0")),
        ("anchor\tpositive", "th", "en", ("0", "1")),
    ],
)
def test_known_header_names_decide_the_side(tmp_path, header, source_lang, target_lang, expected):
    path = write(tmp_path / "a.tsv", f"{header}\n0\t1\n")
    assert pairs_of(load_parallel(path, source_lang, target_lang)) == [expected]


def test_columns_by_name_and_position(tmp_path):
    named = write(tmp_path / "named.tsv", "n\thyp\tref\n1\ta\tb\n")
    bare = write(tmp_path / "bare.csv", "3,a,b\n")
    for dataset in (
        load_parallel(named, "en", "vi", source_column="ref", target_column="hyp"),
        load_parallel(bare, "en", "vi", source_column="2", target_column="1"),
    ):
        assert list(next(iter(dataset)).values()) == ["b", "a", "en", "vi"]


def test_lines_count_records_not_the_header(tmp_path):
    path = write(tmp_path / "a.csv", 'zh,vi\n"1\n1",a\n2,b\n3,c\n4,d\n')
    dataset = load_parallel(path, "zh", "vi", lines="2-3")
    assert pairs_of(dataset) == [("2", "b"), ("3", "c")]


def test_lost_characters_are_a_warning_with_count_and_line(tmp_path):
    path = write(tmp_path / "a.tsv", "a\tb\nc\ufffd\td\ne\tf\ufffd\n")
    with pytest.warns(UserWarning, match=r"a\.tsv: 2 pair\(s\), first at line 2, contain U\+FFFD"):
        assert len(load_parallel(path, "en", "vi")) == 3


def test_loading_leaves_no_file_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    path = write(tmp_path / "a.tsv", tsv())
    assert load_parallel(path, "zh", "vi").map(lambda row: {"n": len(row["source"])}).cache_files == []
    assert [file.name for file in tmp_path.iterdir()] == ["a.tsv"]


def test_blocks_join_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr("hfxling.data.parallel._BLOCK", 7)
    rows = [(f"s{i}", f"t{i}") for i in range(50)]
    assert pairs_of(load_parallel(write(tmp_path / "a.tsv", tsv(rows)), "en", "vi")) == rows


# Malformed files. What is written, and what the error must say.
GZIPPED = gzip.compress(tsv(PAIRS * 99).encode())
MALFORMED = {
    "empty": ("a.tsv", "", ["no sentence pair"]),
    "header only": ("a.tsv", "zh\tvi\n", ["only a header"]),
    "empty gzip": ("a.csv.gz", "", ["no sentence pair"]),
    "empty side": ("a.tsv", "一\tmột\n二\t\n", ["line 2", "target side (vi) is empty", "remove the pair"]),
    "white space side": ("a.tsv", "\u3000 \u00a0\tmột\n", ["line 1", "source side (zh) is empty"]),
    "zero-width side": ("a.tsv", "一\tmột\n\u200b\ufeff\thai\n", ["line 2", "only zero-width characters"]),
    "blank line": ("a.tsv", "一\tmột\n\n二\thai\n", ["line 2", "too few columns: 1 where line 1 has 2"]),
    "too few columns": ("a.tsv", "一 một\n", ["line 1", "1 column(s) where 2 are needed", "separator"]),
    "stray tab": ("a.tsv", "一\tmột\n二\tha\ti\n", ["line 2", "too many columns: 3 where line 1 has 2", "stray"]),
    "no bars": ("a.zh-vi", "一 ||| một\n二 hai\n", ["line 2", "too few columns: 1 where line 1 has 2"]),
    "ragged csv": ("a.csv", "zh,vi\n一,một\n二\n", ["line 3", "too few columns"]),
    "not UTF-8": ("a.tsv", "é\tà\n".encode() + "caf\xe9\tb\n".encode("latin-1"), ["line 2: byte 9 ", "not UTF-8"]),
    "UTF-16": ("a.csv", "一,một\n".encode("utf-16"), ["line 1: byte 0 ", "UTF-16 (little-endian", "convert"]),
    "UTF-16 big-endian": ("a.tsv", "\ufeff一\tmột\n".encode("utf-16-be"), ["line 1", "UTF-16 (big-endian"]),
    "UTF-16 without mark": ("a.tsv", "mot\tone\n".encode("utf-16-le"), ["line 1", "U+0000", "looks like UTF-16"]),
    "NUL": ("a.tsv", "一\tmột\n二\tha\0i\n", ["line 2", "control character U+0000", "remove it"]),
    "control character": ("a.jsonl", '{"zh": "\x08", "vi": "b"}\n', ["line 1", "control character U+0008"]),
    "xz": ("a.tsv", lzma.compress(b"a\tb\n"), ["line 1", "looks like xz; name it .xz"]),
    "bzip2": ("a.tsv", bz2.compress(b"a\tb\n"), ["line 1", "looks like bzip2; name it .bz2"]),
    "zstandard": ("a.tsv", b"\x28\xb5\x2f\xfd\xff", ["line 1", "zstandard", "unpack it, or pack it with gzip"]),
    "gzip without .gz": ("a.tsv", GZIPPED, ["line 1", "looks like gzip; name it .gz"]),
    "Parquet as TSV": ("a.tsv", b"PAR1\0\0", ["line 1", "looks like Parquet"]),
    "unterminated quote": ("a.csv", '一,một\n二,"hai\n三,ba\n', ["line 2", "starts here is malformed", "quotes"]),
    "text after a quote": ("a.csv", '一,một\n二,"ha"i\n', ["line 2", "malformed"]),
    "broken JSON": ("a.jsonl", '{"zh": "一", "vi": "một"}\n{"zh": "二", \n', ["line 2", "not valid JSON"]),
    "JSON array": ("a.json", '[{"zh": "一", "vi": "một"}]\n', ["line 1", "a list instead of a JSON object"]),
    "JSON string": ("a.jsonl", '"一"\n', ["line 1", "a string instead of a JSON object"]),
    "JSON deep": ("a.jsonl", "[" * 200_000 + "\n", ["line 1", "not valid JSON"]),
    "JSON number": ("a.jsonl", '{"zh": 1, "vi": "một"}\n', ["line 1", "the source side (zh) is a number (1)"]),
    "JSON null": ("a.jsonl", '{"zh": "一", "vi": null}\n', ["line 1", "target side (vi) is null, not text"]),
    "JSON key": ("a.jsonl", '{"zh": "一", "vi": "một"}\n{"zh": "二"}\n', ["line 2", "no key 'vi' among ['zh']"]),
    "JSON half surrogate": ("a.jsonl", '{"zh": "\\ud800", "vi": "một"}\n', ["line 1", "not valid JSON", "surrogates"]),
    "JSON escaped NUL": ("a.jsonl", '{"zh": "\\u0000", "vi": "một"}\n', ["line 1", "control character \\u0000"]),
    "unknown JSON keys": ("a.jsonl", '{"cn": "一", "vn": "một"}\n', ["line 1", "['cn', 'vn']", "source_column"]),
    "corrupt Parquet": ("a.parquet", b"PAR1 and so on", ["not a readable Parquet file", "write it again"]),
    "CR alone": ("a.tsv", "一\tmột\r二\thai\r", ["line 1", "lines end with \\r and not with \\n", "convert the file"]),
    "long cell": ("a.csv", f'一,"{"m" * 1_100_000}"\n', ["line 1", "malformed", "1000000"]),
    "JSON long number": ("a.jsonl", f'{{"zh": {"9" * 5000}, "vi": "b"}}\n', ["line 1", "not valid JSON"]),
    "a book on a line": ("a.tsv", f"一\tmột\n二\t{'h' * 1_000_001}\n", ["line 2", "1,000,001 letters"]),
    "unknown suffix": ("a.xlsx", "x", [".tsv", "two line-aligned files"]),
    "text file alone": ("a.txt", "x", [".tsv", "two line-aligned files"]),
    "gzipped Parquet": ("a.parquet.gz", "x", ["a single file must be", "a.parquet.gz+TRANSLATIONS"]),
    "not gzip": ("a.tsv.gz", None, ["after line 0", "damaged .gz", "Not a gzipped file"]),
    "not xz": ("a.tsv.xz", None, ["after line 0", "damaged .xz", "not supported by decoder"]),
    "not bzip2": ("a.tsv.bz2", None, ["after line 0", "damaged .bz2", "Invalid data stream"]),
}  # fmt: skip


def one_line(caught, *parts):
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_file_is_one_line_with_place_and_remedy(tmp_path, case):
    name, content, parts = MALFORMED[case]
    path = tmp_path / name
    path.write_bytes(tsv().encode()) if content is None else write(path, content)
    with pytest.raises(ValueError) as caught:
        list(load_parallel(path, "zh", "vi"))
    one_line(caught, str(path), *parts, "; ")  # a remedy follows
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
)
def test_truncated_file_names_the_last_sound_line(tmp_path, suffix, compress):
    path = tmp_path / f"a.tsv{suffix}"
    path.write_bytes(compress(tsv(PAIRS * 99).encode())[:-9])
    with pytest.raises(ValueError) as caught:
        list(load_parallel(path, "zh", "vi"))
    one_line(caught, f"{path}, after line ", f"damaged {suffix} (", "fetch or compress it again")


@pytest.mark.parametrize(("zh_lines", "vi_lines", "ended"), [(2, 5, "a.zh"), (4, 3, "a.vi"), (0, 1, "a.zh")])
@pytest.mark.parametrize("lines", [None, "1-2"])
def test_unequal_line_counts_give_both(tmp_path, zh_lines, vi_lines, ended, lines):
    paths = [write(tmp_path / f"a.{lang}", "x\n" * count) for lang, count in (("zh", zh_lines), ("vi", vi_lines))]
    with pytest.raises(ValueError) as caught:
        load_parallel(paths, "zh", "vi", lines=lines)
    shorter = min(zh_lines, vi_lines)
    one_line(caught, f"a.zh has {zh_lines} lines", f"a.vi has {vi_lines}", f"{ended} ends first, after line {shorter}")


def test_empty_line_of_a_pair_names_its_own_file(tmp_path):
    paths = [write(tmp_path / "a.zh", "一\n二\n"), write(tmp_path / "a.vi", "một\n \n")]
    with pytest.raises(ValueError) as caught:
        load_parallel(paths, "zh", "vi")
    one_line(caught, f"{paths[1]}, line 2: the target side (vi) is empty")


@pytest.mark.parametrize(
    ("columns", "part"),
    [
        ({"zh": ["一"], "vi": [1]}, "row 1: the target side (vi) is a number (1), not text"),
        ({"zh": ["一", None], "vi": ["một", "hai"]}, "row 2: the source side (zh) is null, not text"),
        ({"zh": ["一"], "vi": [b"m"]}, "row 1: the target side (vi) is bytes, not text"),
        ({"zh": ["一"], "english": ["one"]}, "['zh', 'english']"),
        (
            {"zh": ["一"] * 4, "vi": ["a", "b\t", "c\0", "\x1b"]},
            "row 3: control character U+0000 is not text; remove it",
        ),
        (
            {"zh": ["一"] * 2, "vi": pa.array(["a", "b\0"]).dictionary_encode()},
            "row 2: control character U+0000 is not text",
        ),
        (
            {"zh": ["一"] * 2, "vi": pa.array(["a", "b\0"], pa.string_view())},
            "row 2: control character U+0000 is not text",
        ),
        ({"translation": [{"zh": "一", "vi": "m"}, {"zh": "\x01二", "vi": "h"}]}, "row 2: control character U+0001"),
    ],
)
def test_parquet_columns_of_the_wrong_kind(tmp_path, columns, part):
    with pytest.raises(ValueError) as caught:
        load_parallel(parquet(tmp_path / "a.parquet", **columns), "zh", "vi")
    one_line(caught, str(tmp_path / "a.parquet"), part)


def test_control_characters_are_counted_over_batches(tmp_path):
    path = parquet(tmp_path / "a.parquet", zh=["一"] * 70_000, vi=["m"] * 69_999 + ["\x07"])
    with pytest.raises(ValueError, match=r"row 70000: control character U\+0007"):
        load_parallel(path, "zh", "vi")


def test_lines_of_what_is_no_file(tmp_path):
    with pytest.raises(ValueError, match="is a folder; name a text file"):
        next(read_lines(str(tmp_path)))
    with pytest.raises(FileNotFoundError, match=r"no\.txt does not exist; check the path"):
        next(read_lines(str(tmp_path / "no.txt")))


def test_parquet_with_a_damaged_page(tmp_path):
    path = parquet(tmp_path / "a.parquet", zh=[f"一{i}" for i in range(999)], vi=[f"m{i}" for i in range(999)])
    content = bytearray(path.read_bytes())
    content[4:40] = b"\xff" * 36
    path.write_bytes(content)
    with pytest.raises(ValueError) as caught:
        load_parallel(path, "zh", "vi")
    one_line(caught, f"{path} is not a readable Parquet file")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        ({"lines": "3"}, ["lines='3'", "first-last"]),
        ({"lines": "0-2"}, ["lines='0-2'"]),
        ({"lines": "3-2"}, ["lines='3-2'"]),
        ({"lines": "2-9"}, ["a.tsv: 3 records", "lower the range"]),
        ({"source_column": "zh"}, ["give both or neither"]),
        ({"source_column": "soruce", "target_column": "target"}, ["no column 'soruce'", "did you mean 'source'"]),
        ({"source_column": "0", "target_column": "7"}, ["line 1: 3 column(s) where 8 are needed"]),
        ({"config": "default"}, ["config='default' does not apply to a local file", "leave it out"]),
        ({"revision": "main"}, ["revision='main' does not apply"]),
    ],
)
def test_wrong_arguments(tmp_path, arguments, parts):
    path = write(tmp_path / "a.tsv", "source\ttarget\tz_mean\n" + "a\tb\t1\n" * 3)
    with pytest.raises(ValueError) as caught:
        load_parallel(path, "zh", "vi", **arguments)
    one_line(caught, *parts)


@pytest.mark.parametrize(
    ("languages", "part"),
    [
        (("zh", "zh"), "parallel text needs two languages"),
        (("Chinese", "vi"), "'Chinese': a code is 2-3 small letters"),
        (("zh_TW", "vi"), "'zh_TW'"),
        (("zh", ""), "''"),
        (("zh", None), "None"),
        (("cn", "vi"), "'cn' is not in ISO 639-1; did you mean zh?"),
        (("zh", "vn"), "did you mean vi?"),
    ],
)
def test_wrong_languages(tmp_path, languages, part):
    with pytest.raises(ValueError) as caught:
        load_parallel(write(tmp_path / "a.tsv", tsv()), *languages)
    one_line(caught, part)


@pytest.mark.parametrize("data", ["no.tsv", "no.zh", "./no", "a/b/c", "no.txt.gz", ["no.zh", "no.vi"]])
def test_missing_file_is_not_looked_up_on_the_hub(monkeypatch, data):
    monkeypatch.setattr(datasets, "load_dataset", lambda *args, **kwargs: pytest.fail("asked the Hub"))
    with pytest.raises(FileNotFoundError) as caught:
        load_parallel(data, "zh", "vi")
    one_line(caught, "no", "does not exist")


def test_folder_same_file_twice_tables_as_a_pair_and_other_things(tmp_path):
    text, table = write(tmp_path / "a.zh", "x\n"), write(tmp_path / "a.tsv", tsv())
    for data, part in [
        (tmp_path, "is a folder"),
        ([tmp_path, text], "is a folder"),
        ([text, text], "one per language"),
        ([table, text], "one per language"),
        ([text] * 3, "not 3"),
        ({"zh": text}, "neither a path"),
        (7, "neither a path"),
    ]:
        with pytest.raises(ValueError) as caught:
            load_parallel(data, "zh", "vi")
        one_line(caught, part)


@pytest.mark.shared
def test_real_files(shared_data):
    news = load_parallel([shared_data / "ntrex/zh.txt", shared_data / "ntrex/lo.txt"], "zh", "lo", lines="1544-1997")
    assert len(news) == 454
    assert len(load_parallel(shared_data / "vi-zh/train.tsv", "vi", "zh")) == 11_834
    assert len(load_parallel(shared_data / "anki/en-zh.tsv.gz", "en", "zh")) == 21_209


def test_a_cell_of_csv_may_be_as_long_as_a_line_of_text(tmp_path):
    path = tmp_path / "a.csv"
    long = "một " * 50_000
    path.write_text(f'zh,vi\n一,"{long}"\n', encoding="utf-8")
    (row,) = load_parallel(path, "zh", "vi")
    assert row["target"] == long.strip()
