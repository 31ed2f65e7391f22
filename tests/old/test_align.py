"""Lines in, links, spans, picture and confidence out."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from tiny_models import tiny_aligner

from hfxling.data.pharaoh import read_links
from hfxling.data.segment import learn_vocabularies, save_vocabularies
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.old import align, lexicon

ROOT = Path(__file__).resolve().parents[2]
WORDS = {"dog": "狗", "cat": "猫", "eats": "吃", "rice": "饭", "sees": "看", "today": "今天", "a": "一"}


def sentences(count: int) -> tuple[list[str], list[str]]:
    words = list(WORDS)
    source = [[words[(i * k + k * k) % len(words)] for k in range(2, 3 + i % 4)] for i in range(count)]
    return [" ".join(row) for row in source], [" ".join(WORDS[word] for word in row) for row in source]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A random model whose static vectors make each word the neighbour of its translation."""
    folder = tmp_path_factory.mktemp("aligner")
    source, target = sentences(40)
    vocabularies = learn_vocabularies(
        {"en": source, "zh": target}, segmenters={"en": "words", "zh": "whitespace"}, pieces=60
    )
    model = tiny_aligner(vocabularies)
    with torch.no_grad():
        model.embedding.pieces.weight.zero_()
        english, chinese = (model.embedding.words[f"of_{lang}"].weight for lang in ("en", "zh"))
        english.normal_()
        for word, translation in WORDS.items():
            chinese[vocabularies["zh"].words.index(translation)] = english[vocabularies["en"].words.index(word)]
    model.save_pretrained(folder)
    save_vocabularies(vocabularies, folder)
    (folder / "source").write_text("\n".join(source) + "\n", encoding="utf-8")
    (folder / "target").write_text("\n".join(target) + "\n", encoding="utf-8")
    rows = [f"{s}\t{t}\t{' '.join(f'{i}-{i}' for i in range(len(s.split())))}" for s, t in zip(source, target)]
    (folder / "gold.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return folder


def run(folder: Path, *argv: str) -> None:
    align.main([*map(str, argv), "--model", str(folder)])


def test_links_go_to_standard_output_or_a_file_the_same_for_any_batch(folder, tmp_path, capsys):
    files = [folder / "source", folder / "target"]
    run(folder, *files)
    printed = capsys.readouterr().out
    assert printed.count("\n") == 40
    run(folder, *files, "--output", tmp_path / "links", "--batch_size", "1")
    assert (tmp_path / "links").read_text() == printed
    for (links, _), line in zip(read_links(tmp_path / "links"), (folder / "source").read_text().split("\n")):
        assert all(max(link) < len(line.split()) for link in links)
    run(folder, *files, "--symmetrize", "union")
    assert len(capsys.readouterr().out) > len(printed)


def test_spans_slice_back_to_the_words_of_the_original_line(folder, tmp_path):
    (tmp_path / "s").write_text("  Dog\teats\u200b rice\n\n", encoding="utf-8")
    (tmp_path / "t").write_text("狗\u3000吃 饭 \n饭\n", encoding="utf-8")
    files = [tmp_path / "s", tmp_path / "t"]
    run(folder, *files, "--spans", tmp_path / "spans", "--output", tmp_path / "links", "--symmetrize", "union")
    first, second = map(json.loads, (tmp_path / "spans").read_text().splitlines())
    assert ["  Dog\teats\u200b rice"[a:b] for a, b in first["source"]] == ["Dog", "eats\u200b", "rice"]
    assert ["狗\u3000吃 饭 "[a:b] for a, b in first["target"]] == ["狗", "吃", "饭"]
    assert first["links"]
    for link in first["links"]:
        i, j = link["link"]
        assert (link["source"], link["target"]) == (first["source"][i], first["target"][j])
        assert "confidence" not in link
    assert second == {"source": [], "target": [[0, 1]], "links": []}


def test_picture(folder, tmp_path):
    run(folder, folder / "source", folder / "target", "--heatmap", tmp_path / "p.png", "--output", tmp_path / "links")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_confidence_is_fitted_stored_and_used(folder, tmp_path, capsys):
    path = tmp_path / "confidence.json"
    run(folder, "--fit_confidence", folder / "gold.tsv", "--confidence", path, "--symmetrize", "grow-diag-final-and")
    printed = capsys.readouterr().out
    assert "AER" in printed
    assert "expected calibration error" in printed
    assert 0 <= json.loads(path.read_text())["settings"]["expected_calibration_error"] < 0.3
    files = [folder / "source", folder / "target", "--confidence", path]
    with pytest.raises(ValueError, match="by grow-diag-final-and, not by itermax; give --symmetrize grow"):
        run(folder, *files)
    files += ["--symmetrize", "grow-diag-final-and"]
    run(folder, *files, "--spans", tmp_path / "spans", "--output", tmp_path / "all")
    rows = [json.loads(row)["links"] for row in (tmp_path / "spans").read_text().splitlines()]
    probabilities = [link["confidence"] for row in rows for link in row]
    assert min(probabilities) < max(probabilities)
    middle = sorted(probabilities)[len(probabilities) // 2] + 1e-3
    run(folder, *files, "--output", tmp_path / "few", "--min_confidence", str(middle))
    few, everything = ([set(a) for a, _ in read_links(tmp_path / name)] for name in ("few", "all"))
    assert all(a <= b for a, b in zip(few, everything))
    assert sum(map(len, few)) == sum(p >= middle for p in probabilities) < sum(map(len, everything))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--min_confidence", "0.5", "source", "target"], "--min_confidence needs --confidence FILE"),
        (["--fit_confidence", "gold.tsv"], "needs --confidence FILE to write to"),
        (["source"], "give a source and a target file"),
        (["source", "gold.tsv", "--source_lang", "lo"], "'lo' is none of the model's: en, zh"),
        (["source", "target", "--heatmap", "p.png", "--pair", "41"], "--pair 41 is outside the lines 1-40"),
        (["/dev/null", "/dev/null"], "/dev/null and /dev/null: no line in them; give aligned text"),
        (["source", "target", "--batch_size", "0"], "batch_size=0: give 1 or more"),
        (["source", "target", "--null", "nan"], "null=nan: give a number"),
        (["source", "target", "--output", "."], "output=. is a folder; name a file"),
    ],
)
def test_mistakes_are_told_in_a_line(folder, monkeypatch, argv, message):
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError, match=message):
        run(Path("."), *argv)


def test_a_picture_needs_matplotlib(folder, no_matplotlib):
    with pytest.raises(ValueError, match="needs matplotlib: pip install"):
        run(folder, folder / "source", folder / "target", "--heatmap", "p.png")


def test_no_model_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is neither the folder of an aligner .*; check the name"):
        run(tmp_path / "nothing", tmp_path / "s", tmp_path / "t")


def test_files_of_unequal_length(folder, tmp_path):
    (tmp_path / "t").write_text("饭\n", encoding="utf-8")
    with pytest.raises(ValueError, match="40 source and 1 target lines"):
        run(folder, folder / "source", tmp_path / "t")


def test_lexicon_lists_translations_with_examples_and_scores_them(folder, tmp_path, capsys):
    (tmp_path / "gold.tsv").write_text("\n".join(f"{a}\t{b}" for a, b in WORDS.items()) + "\nbird\t鸟\n", "utf-8")
    files = ["--source", str(folder / "source"), "--target", str(folder / "target")]
    output, dictionary = str(tmp_path / "list.tsv"), str(tmp_path / "gold.tsv")
    argv = [*files, "--model", str(folder), "--output", output, "--dictionary", dictionary, "--top", "2", "--runs", "1"]
    rows = {row.metric: row for row in lexicon.main(argv)}
    assert rows["P@1"].value == 100
    assert rows["coverage"].value == pytest.approx(100 * 7 / 8)
    assert "P@5" in capsys.readouterr().out
    header, *lines = [line.split("\t") for line in Path(output).read_text(encoding="utf-8").splitlines()]
    assert header[:4] == ["word", "count", "rank", "translation"]
    assert {len(line) for line in lines} == {len(header)} == {10}
    best = {line[0]: line for line in lines if line[2] == "1"}
    assert {word: line[3] for word, line in best.items()} == WORDS
    counts = [int(line[1]) for line in lines]
    assert counts == sorted(counts, reverse=True)
    for word, line in best.items():
        assert int(line[5]) >= 3
        for source, target in (line[6:8], line[8:10]):
            assert word in source.split()
            assert WORDS[word] in target.split()
    scores = [float(line[4]) for line in lines]
    assert all(a >= b for a, b in zip(scores[::2], scores[1::2]))


def test_lexicon_by_links_needs_no_trained_vectors(folder, tmp_path):
    (tmp_path / "gold.tsv").write_text("\n".join(f"{a}\t{b}" for a, b in WORDS.items()) + "\n", "utf-8")
    argv = ["--source", str(folder / "source"), "--target", str(folder / "target")]
    argv += ["--output", str(tmp_path / "list.tsv"), "--dictionary", str(tmp_path / "gold.tsv"), "--runs", "1"]
    shutil.copytree(folder, tmp_path / "random")
    model = AlignerModel.from_pretrained(folder)
    torch.nn.init.normal_(model.embedding.words["of_en"].weight)
    model.save_pretrained(tmp_path / "random")
    found = {}
    for by in ("static", "links", "both"):
        rows = lexicon.main([*argv, "--model", str(tmp_path / "random"), "--by", by])
        found[by] = next(row.value for row in rows if row.metric == "P@1")
    assert found["links"] == 100
    assert found["static"] < found["both"]


def test_runs_are_words_made_of_adjacent_segments():
    text = {"zh": ["长颈鹿 很高。长颈鹿"]}
    vocabulary = learn_vocabularies(text, segmenters={"zh": "characters"}, pieces=50)["zh"]
    encoded = vocabulary.encode_batch(["长颈鹿 很高。长颈鹿", "长颈"])
    counts = lexicon.runs(lexicon.occurrences(encoded, 3), 1)
    assert counts["长颈"] == 2
    assert counts["长颈鹿"] == counts["很高"] == 1
    assert not {"鹿很", "高。", "。", "高长"} & counts.keys()
