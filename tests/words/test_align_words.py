"""Lines in; links, scores, spans, picture and confidence out."""

import json
from pathlib import Path

import pytest
from planted_words import sentences, write_planted
from tiny_models import save_tiny

import hfxling
from hfxling.cli import main
from hfxling.data.pairs import read_pairs
from hfxling.data.pharaoh import read_links
from hfxling.words.joint import JointAligner
from hfxling.words.sources import default_units


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A planted model and its text."""
    folder = tmp_path_factory.mktemp("aligner")
    write_planted(folder)
    return folder


@pytest.fixture(scope="module")
def sample() -> tuple[list[str], list[str]]:
    """100 pairs of Chinese and Vietnamese."""
    rows = hfxling.load_parallel("sample", "zh", "vi")
    return list(rows["source"])[:100], list(rows["target"])[:100]


@pytest.fixture(scope="module")
def lexical(sample, tmp_path_factory):
    """A lexical model of these pairs, and the folder of `fit` that it is stored in."""
    folder = tmp_path_factory.mktemp("fit")
    model = hfxling.fit_lexical(*sample, ("zh", "vi"), rank=32, progress=False)
    hfxling.save_lexical(model, folder / "lexical" / "model")
    return model, folder


def align(folder: Path, **options):
    """The links of the planted text."""
    return hfxling.align_words(folder / "source", folder / "target", model=folder, **options)


def test_links_go_to_standard_output_or_a_file_the_same_for_any_batch(folder, tmp_path, capsys):
    main(["align", str(folder / "source"), str(folder / "target"), "--model", str(folder)])
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 40
    assert shown.err.splitlines()[-1].startswith("40 pairs en-zh, ")
    result = align(folder, output=tmp_path / "links", batch_size=1)
    assert (tmp_path / "links").read_text() == shown.out == result.to_text()
    for (links, _), line in zip(read_links(tmp_path / "links"), (folder / "source").read_text().split("\n")):
        assert all(max(link) < len(line.split()) for link in links)
    assert len(align(folder, symmetrize="union").to_text()) > len(shown.out)


def test_spans_slice_back_to_the_words_of_the_original_line(folder, tmp_path):
    (tmp_path / "s").write_text("  Dog\teats\u200b rice\n\n", encoding="utf-8")
    (tmp_path / "t").write_text("狗\u3000吃 饭 \n饭\n", encoding="utf-8")
    hfxling.align_words(
        tmp_path / "s", tmp_path / "t", model=folder, output=tmp_path / "spans.jsonl", symmetrize="union"
    )
    first, second = map(json.loads, (tmp_path / "spans.jsonl").read_text().splitlines())
    assert ["  Dog\teats\u200b rice"[a:b] for a, b in first["source"]] == ["Dog", "eats\u200b", "rice"]
    assert ["狗\u3000吃 饭 "[a:b] for a, b in first["target"]] == ["狗", "吃", "饭"]
    assert first["links"]
    for link in first["links"]:
        i, j = link["link"]
        assert (link["source"], link["target"]) == (first["source"][i], first["target"][j])
        assert 0 <= link["score"] <= 1
        assert "confidence" not in link
    assert second == {"source": [], "target": [[0, 1]], "links": []}


def test_picture(folder, tmp_path):
    align(folder, heatmap=tmp_path / "p.png")
    text = ["你好", "今天下雨", ""], ["xin chào", "hôm nay trời mưa", "không"]
    with pytest.raises(ValueError, match="pair=3 has an empty side"):
        hfxling.align_words(*text, languages=("zh", "vi"), heatmap=tmp_path / "q.png", pair=3)
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_text_without_spaces_is_cut_into_segments(sample):
    assert hfxling.align_words(*sample, languages=("zh", "vi")).links == (
        hfxling.align_words(*sample, languages=("zh", "vi"), units="segments").links
    )
    split = [" ".join(line) for line in sample[0]], sample[1]
    pair = hfxling.align_words(*split, languages=("zh", "vi")).pairs[0]
    assert [span.text for span in pair.source] == split[0][0].split()
    assert [span.text for span in pair.target] == split[1][0].split()


def test_names_in_another_script_change_no_units(sample):
    french = ["Il a étudié à 北京大学 .", "Le chat dort ."]
    assert default_units(read_pairs(french, french), has_segments=True) == "words"
    quoted = [f"“{line}”" for line in sample[0]]
    assert default_units(read_pairs(sample[1], quoted), has_segments=True) == "segments"


def test_an_encoder_alone_takes_characters_of_text_without_spaces(sample):
    text = read_pairs(*sample, ("zh", "vi"))
    assert default_units(text, has_segments=False) == "characters"
    assert default_units(text, has_segments=True) == "segments"
    assert default_units(read_pairs(sample[1], sample[1]), has_segments=False) == "words"


def test_weak_links_are_left_out(folder):
    everything = align(folder)
    scores = sorted(score for of_pair in everything.scores for score in of_pair)
    middle = scores[len(scores) // 2] + 1e-6
    few = align(folder, min_confidence=middle)
    assert all({*a} <= {*b} for a, b in zip(few.links, everything.links))
    assert sum(map(len, few.links)) == sum(score >= middle for score in scores) < len(scores)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["source", "target", "--output", "target"], "is read, too"),
        (["source", "target", "--output", "links.txt.gz"], "output=links.txt.gz: it is written as plain text"),
        (["source", "target", "--output", "links.parquet"], "give a name without .parquet"),
        (["source", "target", "--min_confidence", "1.5"], "min_confidence=1.5: give a probability, 0 to 1"),
        (["source", "gold.tsv", "--languages", "lo", "zh"], "'lo' is none of the model's: en, zh"),
        (["source", "target", "--heatmap", "p.png", "--pair", "41"], "pair=41 is outside the pairs 1-40"),
        (["empty", "empty2"], "no sentence pair in it"),
        (["source", "target", "--batch_size", "0"], "batch_size=0: give 1 or more"),
        (["source", "target", "--output", "."], "output=. is a folder; name a file"),
        (["source", "target", "--symmetrize", "magic"], "grow-diag-final-and"),
    ],
)
def test_mistakes_are_told_in_a_line(folder, monkeypatch, refusal, argv, message):
    monkeypatch.chdir(folder)
    for name in ("empty", "empty2"):
        Path(name).touch()
    assert message in refusal(lambda: main(["align", *argv, "--model", "."]))


def test_a_picture_needs_matplotlib(folder, no_matplotlib):
    with pytest.raises(ValueError, match="needs matplotlib: pip install"):
        align(folder, heatmap="p.png")


def test_no_model_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is neither the folder of an aligner.*; check the name"):
        hfxling.align_words(["a"], ["b"], model=tmp_path / "nothing")


def test_texts_of_unequal_length(folder, tmp_path):
    (tmp_path / "t").write_text("饭\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"40 lines and .* has 1 lines"):
        hfxling.align_words(folder / "source", tmp_path / "t", model=folder)


def test_without_a_model_links_are_learnt_from_the_text(sample, tmp_path, capsys):
    result = hfxling.align_words(*sample, languages=("zh", "vi"), units="segments")
    scores = [score for row in result.scores for score in row]
    assert 0.35 < min(scores) < max(scores) <= 1 + 1e-6
    few = hfxling.align_words(*sample, languages=("zh", "vi"), units="segments", min_confidence=0.9)
    assert sum(map(len, few.links)) == sum(score >= 0.9 for score in scores)
    with pytest.raises(ValueError, match=r"languages=None: .* give languages, such as zh vi"):
        hfxling.align_words(*sample)
    with pytest.raises(ValueError, match="symmetrize=itermax compares vectors, and links have none"):
        hfxling.align_words(*sample, languages=("zh", "vi"), symmetrize="itermax")
    for name, side in zip("st", sample):
        (tmp_path / name).write_text("\n".join(side) + "\n", encoding="utf-8")
    words = [str(tmp_path / "s"), str(tmp_path / "t"), "--units", "segments"]
    main(["align", *words, "--source_lang", "zh", "--target_lang", "vi"])
    assert capsys.readouterr().out == result.to_text()


def test_planted_links_are_found_without_a_model_either_way_round():
    source, target = sentences(80)
    there = hfxling.align_words(source, target, languages=("en", "fr"))
    expected = [[(i, i) for i in range(len(line.split()))] for line in source]
    right = sum(len({*a} & {*b}) for a, b in zip(there.links, expected))
    assert right > 0.9 * sum(map(len, expected))
    back = hfxling.align_words(target, source, languages=("fr", "en"))
    assert back.links == [sorted((j, i) for i, j in links) for links in there.links]


def test_a_loaded_aligner_and_the_languages_exchanged(sample):
    trained = hfxling.fit_aligner(
        *sample, ("zh", "vi"), prior=True, num_train_epochs=0, size=8, use_cpu=True, progress=False
    )
    there = hfxling.align_words(*sample, model=trained, units="words")
    assert there.links == [line.links for line in trained(*sample)]
    back = hfxling.align_words(*sample[::-1], model=trained, languages=("vi", "zh"), units="words")
    assert back.languages == ("vi", "zh")
    assert sum(map(len, back.links))


def test_a_lexical_model_gives_its_links(sample, lexical):
    model, folder = lexical
    result = hfxling.align_words(*sample, model=folder / "lexical" / "model", units="segments")
    assert result.links == hfxling.align_words(*sample, model=model, units="segments").links
    learnt = hfxling.align_words(["我喜欢下雨。"], ["Tôi thích mưa."], model=model, units="segments").pairs[0]
    words = {(learnt.source[i].text, learnt.target[j].text) for i, j in learnt.links}
    assert {("雨", "mưa"), ("。", ".")} <= words
    with pytest.raises(ValueError, match="'lo'"):
        hfxling.align_words(*sample, model=model, languages=("zh", "lo"))


def test_a_folder_of_fit_gives_its_links_and_languages(sample, lexical, caplog):
    model, folder = lexical
    wanted = hfxling.align_words(*sample, model=model)
    with caplog.at_level("INFO"):
        assert hfxling.align_words(*sample, model=folder).links == wanted.links
        words = hfxling.lexicon(*sample, model=folder)
    assert words.rows == hfxling.lexicon(*sample, model=model).rows
    assert caplog.messages.count(f"{folder}: its word links are read from {folder / 'lexical' / 'model'}") == 2
    save_tiny("bert", folder / "model")
    for verb in (hfxling.align_words, hfxling.lexicon):  # an encoder is asked itself, in the languages of the links
        with pytest.raises(ValueError, match="does not know the script of this text"):
            verb(*sample, model=folder / "model")


def test_a_line_that_is_no_sentence_is_refused_at_once(sample, refusal):
    source, target = ([*side[:20], "字" * 20_001] for side in sample)
    for verb in (hfxling.align_words, hfxling.lexicon):
        said = refusal(lambda verb=verb: verb(source, target, languages=("zh", "vi")))
        assert "line 21: the source side has 20,001 letters; give texts of at most 20,000" in said


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of ten pairs, so that sixty are many."""
    monkeypatch.setattr("hfxling.words.align_words._PART", 10)


def test_a_stopped_run_goes_on_from_its_parts(small_parts, sample, tmp_path, monkeypatch):
    source, target = (side[:60] for side in sample)
    options = {"languages": ("zh", "vi"), "units": "segments"}
    whole = hfxling.align_words(source, target, output=tmp_path / "whole.jsonl", **options)
    assert {path.name for path in tmp_path.iterdir()} == {"whole.jsonl"}
    aligned, learning = [], JointAligner.__call__

    def stopped(self, lines, *more, **others):
        if len(aligned) == 3:
            raise KeyboardInterrupt
        aligned.append(len(lines))
        return learning(self, lines, *more, **others)

    monkeypatch.setattr(JointAligner, "__call__", stopped)
    with pytest.raises(KeyboardInterrupt):
        hfxling.align_words(source, target, output=tmp_path / "stopped.jsonl", **options)
    parts = tmp_path / "stopped.jsonl.hfxling-parts"
    assert len(list(parts.glob("links_*.jsonl"))) == 3
    assert not (tmp_path / "stopped.jsonl").exists()
    aligned.clear()
    with pytest.raises(ValueError, match="holds parts of a run with another text"):
        hfxling.align_words(source[::-1], target, output=tmp_path / "stopped.jsonl", **options)
    again = hfxling.align_words(source, target, output=tmp_path / "stopped.jsonl", **options)
    assert aligned == [10, 10, 10]
    assert (tmp_path / "stopped.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert again.pairs == whole.pairs
    assert not parts.exists()


def test_a_plan_says_what_a_text_takes(sample, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("hfxling.words.align_words._PLAN", 0)  # seconds: the first pairs are enough
    source, target = sample
    plan = hfxling.align_words(source * 2, target * 2, languages=("zh", "vi"), units="segments", plan=True)
    assert (plan.pairs, plan.measured) == (200, 100)
    assert plan.learning > 0
    assert plan.aligning > 0
    with monkeypatch.context() as patch:  # links alone are learnt from all pairs, with an encoder from the first ones
        patch.setattr("hfxling.words.joint.LEARN_FROM", 100)
        patch.setattr("hfxling.words.align_words.time.perf_counter", iter([0.0, 3600.0, 3600.0]).__next__)
        plan = hfxling.align_words(source * 2, target * 2, languages=("zh", "vi"), units="segments", plan=True)
        assert plan.learning == 2.0
    result = hfxling.align_words(source, target, languages=("zh", "vi"), units="segments")
    stored = sum(len(json.dumps([pair.links, pair.scores])) for pair in result.pairs)
    assert stored < plan.disk / 2 < 5 * stored
    for name, side in (("s", source), ("t", target)):
        (tmp_path / name).write_text("\n".join(side[:50]) + "\n", encoding="utf-8")
    main(["align", str(tmp_path / "s"), str(tmp_path / "t"), "--languages", "zh", "vi", "--plan"])
    assert "measured on" in capsys.readouterr().out
