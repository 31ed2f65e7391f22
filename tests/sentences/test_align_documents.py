"""Two texts in, beads out; what is told, written and refused."""

import gzip
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from sentence_transformers import SentenceTransformer
from tiny_models import save_routed, save_tiny

import hfxling
from hfxling.cli import main
from hfxling.data.sample import sample_texts
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fusion import fit_fusion
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.files import weights_hash

SIZES = (8, 5, 11)


@pytest.fixture(scope="module")
def lexical(zh_vi_links) -> Path:
    return zh_vi_links


@pytest.fixture(scope="module")
def documents() -> list[list[list[str]]]:
    """Of each side three documents; in the first one a target sentence is missing, in the last one two are one."""
    sides = []
    for lang in ("zh", "vi"):
        text, sides = iter(sample_texts(lang, "train", generated=0)), [*sides, []]
        for size in SIZES:
            sides[-1].append([next(text) for _ in range(size)])
    del sides[1][0][3]
    sides[1][2][4:6] = [" ".join(sides[1][2][4:6])]
    return sides


def write(path: Path, documents: list[list[str]]) -> str:
    path.write_text("\n\n \n".join("\n".join(document) for document in documents) + "\n", encoding="utf-8")
    return str(path)


def rows_of(path: Path) -> list[dict[str, str]]:
    header, *rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_beads_of_documents(lexical, documents, tmp_path, capsys):
    files = [write(tmp_path / name, side) for name, side in zip(("zh", "vi"), documents)]
    argv = [*files, "--lexical", str(lexical), "--output"]
    main(["align-documents", *argv, str(tmp_path / "beads.tsv")])
    told = capsys.readouterr().out
    rows = rows_of(tmp_path / "beads.tsv")
    assert [row["source_document"] for row in rows] == [row["target_document"] for row in rows]
    for side, file in zip(("source", "target"), files):
        lines = Path(file).read_text(encoding="utf-8").split("\n")
        named = [int(i) for row in rows for i in row[f"{side}_lines"].split()]
        assert named == [i for i, line in enumerate(lines, 1) if line.strip()]
        for row in rows:
            joined = ("" if side == "source" else " ").join(lines[int(i) - 1] for i in row[f"{side}_lines"].split())
            assert row[side] == joined
    found = {(row["source_lines"], row["target_lines"]) for row in rows}
    assert ("4", "") in found
    assert ("22 23", "21") in found
    assert sum(" " not in x + y and bool(x and y) for x, y in found) == sum(SIZES) - 3
    assert all((float(row["score"]) > 0) == bool(row["source"] and row["target"]) for row in rows)
    assert f"{len(rows)} rows" in told
    assert [line.split("|")[2].strip() for line in told.splitlines() if line.startswith("| 2-1")] == ["1"]
    aligned = hfxling.align_documents(*files, lexical=lexical, output=tmp_path / "beads.parquet")
    assert aligned.table() in told
    assert aligned.to_text() == (tmp_path / "beads.tsv").read_text(encoding="utf-8")
    table = pq.read_table(tmp_path / "beads.parquet").to_pylist()
    for row, written in zip(table, rows, strict=True):
        assert float(written.pop("score")) == row.pop("score")
        assert {name: str(value) for name, value in row.items()} == written


def test_documents_in_memory(lexical, documents, tmp_path):
    files = [write(tmp_path / name, side) for name, side in zip(("zh", "vi"), documents)]
    of_files = hfxling.align_documents(*files, lexical=lexical)
    in_memory = hfxling.align_documents(*documents, lexical=LexicalEncoder(lexical))
    assert in_memory.beads == of_files.beads
    assert [(row[:2], row[4:]) for row in in_memory.rows] == [(row[:2], row[4:]) for row in of_files.rows]
    numbers = " ".join(row[2] for row in in_memory.rows).split()
    assert numbers == [str(number) for number in range(1, sum(SIZES) + 1)]
    one = hfxling.align_documents(documents[0][1], documents[1][1], lexical=lexical)
    assert {row[:2] for row in one.rows} == {(1, 1)}
    spaced = [[*documents[0][0][:2], "", " \u200b", *documents[0][0][2:]], *documents[0][1:]]
    again = hfxling.align_documents(spaced, documents[1], lexical=lexical)
    assert again.beads == in_memory.beads, "an empty sentence ends no document"
    read_once = [((sentence for sentence in document) for document in side) for side in documents]
    again = hfxling.align_documents(*read_once, lexical=lexical, output=tmp_path / "read_once.tsv")
    assert again.rows == in_memory.rows
    alone = hfxling.align_documents(iter(documents[0][1]), np.array(documents[1][1]), lexical=lexical)
    assert alone.rows == one.rows
    with pytest.raises(ValueError, match="source: document 2 has no sentence; leave it out"):
        hfxling.align_documents([documents[0][0], [" "], documents[0][2]], documents[1], lexical=lexical)
    with pytest.raises(ValueError, match="target: sentence 2 is None; give text"):
        hfxling.align_documents(documents[0], [["a", None]], lexical=lexical)


def test_documents_in_another_order(lexical, documents, tmp_path, capsys):
    source = write(tmp_path / "zh", documents[0])
    with gzip.open(tmp_path / "vi.gz", "wt", encoding="utf-8") as file:
        file.write("\n\n".join("\n".join(documents[1][i]) for i in (2, 0)))
    target, output = tmp_path / "vi.gz", tmp_path / "beads.tsv"
    hfxling.align_documents(source, target, lexical=lexical, output=output, pair_documents=True)
    rows = rows_of(tmp_path / "beads.tsv")
    assert {(row["source_document"], row["target_document"]) for row in rows} == {("1", "2"), ("3", "1"), ("2", "")}
    assert sum(row["source_document"] == "2" for row in rows) == SIZES[1]
    assert sum(bool(row["source"] and row["target"]) for row in rows) == SIZES[0] - 1 + SIZES[2] - 1


def test_another_direction_and_fewer_joined(lexical, documents, tmp_path):
    files = [write(tmp_path / name, side) for name, side in zip(("zh", "vi"), documents)]
    options = {"lexical": lexical, "languages": ("vi", "zh"), "max_joined": 1}
    hfxling.align_documents(*files[::-1], **options, output=tmp_path / "beads.tsv")
    rows = rows_of(tmp_path / "beads.tsv")
    assert not any(" " in row[f"{side}_lines"] for row in rows for side in ("source", "target"))
    assert sum(bool(row["source"] and row["target"]) for row in rows) >= sum(SIZES) - 3


def test_a_dense_model(documents, tmp_path):
    save_tiny("bert", tmp_path / "plain")
    file = write(tmp_path / "vi", documents[1])
    hfxling.align_documents(file, file, model=tmp_path / "plain", output=tmp_path / "beads.tsv")
    rows = rows_of(tmp_path / "beads.tsv")
    assert all(row["source_lines"] == row["target_lines"] for row in rows)


def test_vectors_that_are_no_numbers(documents, tmp_path):
    save_tiny("bert", tmp_path / "plain")
    model = SentenceTransformer(str(tmp_path / "plain"))
    model[0].auto_model.embeddings.word_embeddings.weight.data.fill_(np.nan)
    with pytest.raises(ValueError, match="NaN"):
        hfxling.align_documents(documents[0], documents[1], model=model, output=tmp_path / "beads.tsv")
    assert not (tmp_path / "beads.tsv").exists()


def test_both_scores_as_one(lexical, documents, tmp_path):
    """The dense model is random, so what is found comes from the links."""
    save_tiny("bert", tmp_path / "plain")
    save_routed(tmp_path / "plain", tmp_path / "routed")
    sparse, dense = LexicalEncoder(str(lexical)), SentenceEncoder(str(tmp_path / "routed"))
    sides = {lang: sample_texts(lang, "test")[:60] for lang in ("zh", "vi")}
    keys = [*product(sides, ("query", "document"))]
    vectors = {key: tuple(x.encode(sides[key[0]], *key) for x in (dense, sparse)) for key in keys}
    fold = vectors["zh", "query"], vectors["vi", "document"]
    fusion = fit_fusion([[(*fold, fold)]], vectors, lexical=weights_hash(sparse.name), languages=("zh", "vi"))
    fusion.save(tmp_path / "routed")
    files = [write(tmp_path / name, side) for name, side in zip(("zh", "vi"), documents)]
    hfxling.align_documents(*files, lexical=lexical, model=tmp_path / "routed", output=tmp_path / "beads.tsv")
    rows = rows_of(tmp_path / "beads.tsv")
    assert {("4", ""), ("22 23", "21")} <= {(row["source_lines"], row["target_lines"]) for row in rows}


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", [], "text: no sentence in it; give one sentence a line"),
        (b"\n \n\n", [], "text: no sentence in it"),
        ("a\nxé\n".encode("latin-1"), [], "line 2: byte 3 of the file is not UTF-8"),
        (b"a\n\nb\n", [], "text has 2 documents, {other} has 1; give the same number in the same order, or --pair"),
        (b"a\n", ["--languages", "th", "vi"], "routed has parts for zh, vi and none for th"),
        (b"a\n", ["--max_joined", "0"], "max_joined=0: give 1 to 16"),
        (b"a\n", ["--max_joined", "1000"], "max_joined=1000: give 1 to 16"),
        (b"a\n", ["--output", "groups.txt"], "output='groups.txt': groups are written as .tsv or .parquet"),
    ],
)
def test_mistakes(refusal, tmp_path, monkeypatch, content, options, message):
    monkeypatch.chdir(tmp_path)
    save_tiny("bert", tmp_path / "plain")
    save_routed(tmp_path / "plain", tmp_path / "routed")
    (tmp_path / "text").write_bytes(content)
    other = write(tmp_path / "other", [["hello"]])
    argv = [str(tmp_path / "text"), other, "--model", str(tmp_path / "routed"), *options]
    if "--output" not in options:
        argv += ["--output", "beads.tsv"]
    assert message.format(other=other) in refusal(lambda: main(["align-documents", *argv]))
    assert not [*tmp_path.glob("beads*")]


def test_neither_model_nor_links(refusal, tmp_path):
    file = write(tmp_path / "text", [["hello"]])
    argv = ["align-documents", file, file, "--output", str(tmp_path / "x.tsv")]
    assert "give --model, --lexical or both" in refusal(lambda: main(argv))


def test_a_document_is_a_list(lexical, refusal):
    said = refusal(lambda: hfxling.align_documents([["a"], "abc"], [["b"], ["c"]], lexical=lexical))
    assert "document 2 is 'abc'; give a list of sentences" in said
