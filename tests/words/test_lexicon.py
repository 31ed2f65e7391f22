"""Aligned text in, a list of words and their translations out."""

from pathlib import Path

import pytest
import torch
from planted_words import WORDS, write_planted

import hfxling
from hfxling.cli import main
from hfxling.data.segment import learn_vocabularies
from hfxling.models.modeling_aligner import AlignerModel
from hfxling.words.lexicon import frequent, occurrences


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A planted model, its text and its dictionary."""
    folder = tmp_path_factory.mktemp("aligner")
    write_planted(folder)
    (folder / "words.tsv").write_text("\n".join(f"{a}\t{b}" for a, b in WORDS.items()) + "\nbird\t鸟\n", "utf-8")
    return folder


def test_it_lists_translations_with_examples_and_scores_them(folder, tmp_path):
    output = tmp_path / "list.tsv"
    result = hfxling.lexicon(
        folder / "source",
        folder / "target",
        model=folder,
        output=output,
        dictionary=str(folder / "words.tsv"),
        top=2,
        runs=1,
    )
    rows = {row.metric: row for row in result.results}
    assert rows["P@1"].value == 100
    assert rows["coverage"].value == pytest.approx(100 * 7 / 8)
    assert "P@5" in result.table()
    assert output.read_text(encoding="utf-8") == result.to_text()
    header, *lines = [line.split("\t") for line in output.read_text(encoding="utf-8").splitlines()]
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


def test_links_need_no_trained_vectors(folder, tmp_path):
    model = AlignerModel.from_pretrained(folder)
    torch.nn.init.normal_(model.embedding.words["of_en"].weight)
    for path in folder.glob("tokenizer_*"):
        (tmp_path / path.name).symlink_to(path)
    model.save_pretrained(tmp_path)
    found = {}
    for by in ("static", "links", "both"):
        result = hfxling.lexicon(
            folder / "source", folder / "target", model=tmp_path, dictionary=str(folder / "words.tsv"), by=by, runs=1
        )
        found[by] = next(row.value for row in result.results if row.metric == "P@1")
    assert found["links"] == 100
    assert found["static"] < found["both"]


def test_a_dictionary_changes_no_translation(tmp_path):
    """Its words are asked for, and are not among those that translations are chosen from."""
    rows = hfxling.load_parallel("sample", "zh", "vi")
    text = list(rows["source"])[:200], list(rows["target"])[:200]
    words = [("雨", "trời mưa"), ("天", "hôm nay trời"), ("今天", "nay trời mưa")]
    (tmp_path / "words.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in words), encoding="utf-8")
    with_dictionary = hfxling.lexicon(*text, languages=("zh", "vi"), dictionary=str(tmp_path / "words.tsv"), runs=1)
    without = hfxling.lexicon(*text, languages=("zh", "vi"), runs=1)
    assert with_dictionary.results
    assert with_dictionary.rows == without.rows


def test_punctuation_is_no_translation(tmp_path):
    rows = hfxling.load_parallel("sample", "zh", "vi")
    result = hfxling.lexicon(list(rows["source"])[:60], list(rows["target"])[:60], languages=("zh", "vi"))
    assert all(any(map(str.isalnum, row.translation)) for row in result.rows)


def test_it_is_plain_text():
    with pytest.raises(
        ValueError, match=r"output=words.parquet: it is written as plain text; give a name without .par"
    ):
        hfxling.lexicon(["雨"], ["mưa"], languages=("zh", "vi"), output="words.parquet")


def test_no_model_or_a_lexical_one():
    rows = hfxling.load_parallel("sample", "zh", "vi")
    text = list(rows["source"])[:300], list(rows["target"])[:300]
    links = hfxling.fit_lexical(*text, ("zh", "vi"), rank=32, progress=False)
    for model in (None, links):
        result = hfxling.lexicon(*text, model=model, languages=("zh", "vi"))
        best = {row.word: row.translation for row in result.rows if row.rank == 1}
        assert best["雨"] == "mưa"
    with pytest.raises(ValueError, match="by=both needs an aligner's vectors"):
        hfxling.lexicon(*text, model=links, languages=("zh", "vi"), by="both")


def test_examples_with_breaks_do_not_break_rows(folder):
    source, target = ((folder / name).read_text(encoding="utf-8").splitlines() for name in ("source", "target"))
    broken = [f"{line}\r\n{line}" for line in source], [f"{line}\t\n{line}" for line in target]
    text = hfxling.lexicon(*broken, model=folder).to_text()
    rows = text.removesuffix("\n").split("\n")
    assert len(rows) > 5
    assert "\r" not in text
    assert len({row.count("\t") for row in rows}) == 1


def test_the_command_says_the_same(folder, capfd, refusal):
    words = [str(folder / "source"), str(folder / "target"), "--model", str(folder)]
    main(["lexicon", *words, "--top", "2"])
    shown = capfd.readouterr()
    result = hfxling.lexicon(folder / "source", folder / "target", model=folder, top=2)
    assert shown.out == result.to_text()
    assert shown.err.splitlines()[-1] == result.table() == "7 words en-zh, 14 translations"
    assert "top=0: give 1 or more" in refusal(lambda: main(["lexicon", *words, "--top", "0"]))
    assert "min_count=9999" in refusal(lambda: main(["lexicon", *words, "--min_count", "9999"]))
    assert "static" in refusal(lambda: main(["lexicon", *words, "--by", "ear"]))


def test_runs_are_words_made_of_adjacent_segments():
    text = {"zh": ["长颈鹿 很高。长颈鹿"]}
    vocabulary = learn_vocabularies(text, segmenters={"zh": "characters"}, pieces=50)["zh"]
    encoded = vocabulary.encode_batch(["长颈鹿 很高。长颈鹿", "长颈"])
    counts = frequent(occurrences(encoded, 3), 1)
    assert counts["长颈"] == 2
    assert counts["长颈鹿"] == counts["很高"] == 1
    assert not {"鹿很", "高。", "。", "高长"} & counts.keys()
