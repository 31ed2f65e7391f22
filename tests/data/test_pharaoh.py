"""Links as text: in, out, and what is wrong with them."""

import pytest

from hfxling.data.pharaoh import AlignedPair, format_links, parse_links, read_aligned, read_links


def test_links_are_read_sure_and_possible_and_written_sorted():
    sure, possible = parse_links("2-0 0-1 1p10 1p2")
    assert sure == {(2, 0), (0, 1)}
    assert possible == sure | {(1, 10), (1, 2)}
    assert format_links(possible) == "0-1 1-2 1-10 2-0"


def test_links_that_are_written_read_the_same(tmp_path):
    rows = [{(0, 0), (3, 1)}, set(), {(11, 2)}]
    text = "".join(f"{format_links(links)}\n" for links in rows)
    assert text == "0-0 3-1\n\n11-2\n"
    (tmp_path / "links").write_text(text)
    assert [set(sure) for sure, _ in read_links(tmp_path / "links")] == rows


@pytest.mark.parametrize("bad", ["0:1", "1-", "-1-2", "1-2-3", "1--2", "a-b", "1P2", "٣x1", "9" * 5000 + "-0"])
def test_a_word_that_is_no_link_is_named_with_file_and_line(tmp_path, bad):
    path = tmp_path / "links"
    path.write_text(f"0-0\n0-1 {bad}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"links, line 2: '{bad[:40]}' is not a link; write i-j"):
        read_links(path)


def test_gold_table(tmp_path):
    (tmp_path / "gold.tsv").write_text("a b\tx y z\t0-0 1p2\n", encoding="utf-8")
    (pair,) = read_aligned(tmp_path / "gold.tsv")
    expected = AlignedPair(("a", "b"), ("x", "y", "z"), frozenset({(0, 0)}), frozenset({(0, 0), (1, 2)}))
    assert pair == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a b\tx", "line 2: 2 columns"),
        ("a b\tx\t0-0 2-0", "line 2: link 2-0 does not fit 2 source and 1 target words; links are counted from 0"),
        ("a b\tx\t1p1", "link 1-1 does not fit"),
    ],
)
def test_a_gold_table_that_is_wrong(tmp_path, line, message):
    (tmp_path / "gold.tsv").write_text(f"a\tx\t0-0\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_aligned(tmp_path / "gold.tsv")


def test_an_empty_gold_table(tmp_path):
    (tmp_path / "gold.tsv").touch()
    with pytest.raises(ValueError, match=r"gold\.tsv: no sentence pair; give lines of source, target and links"):
        read_aligned(tmp_path / "gold.tsv")


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file of word links"):
        read_links(tmp_path / "nothing")


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "rows", "sure", "possible"), [("zh-en", 450, 11238, 178), ("en-fr", 447, 4038, 13400)]
)
def test_real_gold_has_the_links_that_its_readme_counts(shared_data, name, rows, sure, possible):
    gold = read_aligned(shared_data / "align" / f"{name}.tsv")
    assert len(gold) == rows
    assert sum(len(pair.sure) for pair in gold) == sure
    assert sum(len(pair.possible - pair.sure) for pair in gold) == pytest.approx(possible, rel=0.01)
