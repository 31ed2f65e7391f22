"""What each task measures, on text of a few lines and a tiny model."""

from pathlib import Path

import numpy as np
import pytest
from builders import sentence_pairs
from datasets import Dataset
from scipy.stats import pearsonr
from sentence_transformers import SentenceTransformer
from tiny_models import save_routed, save_static, save_tiny

import hfxling
from hfxling.evaluation.mining import (
    SPLITS,
    best_threshold,
    gold_only,
    mine_margin,
    pair_counts,
    read_bucc,
    scores_of,
)
from hfxling.evaluation.retrieval import gold_ranks, hits_at
from hfxling.evaluation.spoilt import Spoiler

ZH_EN = {"languages": ("zh", "en")}


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_tiny("bert", folder / "plain", layers=1)
    save_tiny("distilbert", folder / "other", layers=1)
    save_routed(folder / "plain", folder / "routed", ("zh", "en"))
    return folder


@pytest.fixture
def run(models, tmp_path):
    def call(*tasks, model="plain", **options):
        options = {"model": models / model, "task": tasks, "output": tmp_path / "out", "device": "cpu"} | options
        return hfxling.evaluate(**options)

    return call


@pytest.fixture
def encode(models):
    model = SentenceTransformer(str(models / "plain"), device="cpu")
    return lambda texts, task=None: model.encode(list(texts), task=task)


def write_bucc(folder: Path, pair="zh-en", flip=False) -> None:
    """Two splits, a third of the sentences of each side without a translation."""
    pairs = sentence_pairs(60)
    for number, split in enumerate(("training", "test")):
        part = pairs[30 * number : 30 * number + 30]
        for side, lang in enumerate(("zh", "en")):
            kept = part[:20] + part[20 + 5 * side : 25 + 5 * side]
            # a tiny random encoder tells letters apart, no languages
            lines = [f"{lang}-{i:03}\t{row[0]}{row[1][: 3 * side]}\n" for i, row in enumerate(kept)]
            (folder / f"{pair}.{split}.{lang}").write_text("".join(lines), encoding="utf-8")
        gold = [(f"zh-{i:03}", f"en-{i:03}")[:: -1 if flip else 1] for i in range(20)]
        lines = "".join(f"{a}\t{b}\n" for a, b in gold)
        (folder / f"{pair}.{split}.gold").write_text(lines, encoding="utf-8")


@pytest.mark.parametrize("pair", ["zh-en", "en-zh"])
def test_mining_chooses_its_threshold_on_training_text(run, encode, tmp_path, pair):
    write_bucc(tmp_path, pair, flip=pair == "en-zh")
    rows = run("mining", data=[str(tmp_path)], **ZH_EN).rows
    training, test = (read_bucc(tmp_path, ("zh", "en"), split) for split in ("training", "test"))
    mined = {split: mine_margin(encode(split.source), encode(split.target)) for split in (training, test)}
    threshold = best_threshold(mined[training], training)
    expected = scores_of(pair_counts(mined[test], test, threshold).sum(0))
    assert 10 < rows[0].value < 100
    assert [row.metric for row in rows] == [
        *("mining F1", "mining precision", "mining recall", "gold-only F1 (mteb)"),
    ]
    assert [row.value for row in rows[:3]] == pytest.approx(expected[[2, 0, 1]].tolist())
    assert rows[0].settings["threshold"] == threshold
    assert rows[0].settings["threshold_from"] == training.revision != rows[0].revision == test.revision
    assert rows[3].value == pytest.approx(gold_only(encode(test.source[:20]), encode(test.target[:20])).mean())
    assert "threshold" not in rows[3].settings
    assert {row.direction for row in rows} == {"zh->en"}


def test_files_of_vectors_are_mined_too(run, encode, tmp_path):
    write_bucc(tmp_path)
    files = {"source_vectors": [], "target_vectors": []}
    for split in ("training", "test"):
        bitext = read_bucc(tmp_path, ("zh", "en"), split)
        for side in ("source", "target"):
            path = tmp_path / f"{split}-{side}.npy"
            np.save(path, encode(getattr(bitext, side)))
            files[f"{side}_vectors"].append(str(path))
    ours = hfxling.evaluate(task=["mining"], data=[str(tmp_path)], output=tmp_path / "v", **ZH_EN, **files).rows
    same = run("mining", data=[str(tmp_path)], **ZH_EN).rows
    assert [row.value for row in ours] == pytest.approx([row.value for row in same], abs=1e-4)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (
            {"zh-en.test.zh": "no tab here\n"},
            "zh-en.test.zh, line 1: 'no tab here' is not id TAB text; write lines as BUCC does",
        ),
        ({"zh-en.test.zh": "zh-000\t\n"}, "line 1: 'zh-000\\t' is not id TAB text"),
        ({"zh-en.test.zh": "a\tx\na\ty\n"}, "zh-en.test.zh, line 2: id 'a' occurs twice"),
        ({"zh-en.test.gold": "zh-000\ten-999\n"}, "gold, line 1: no en sentence has the id 'en-999'"),
        ({"zh-en.test.gold": "en-000\tzh-000\n"}, "gold, line 1: no zh sentence has the id 'en-000'"),
        ({"zh-en.test.gold": ""}, "zh-en.test.gold has no line of the form id TAB id"),
        ({"zh-en.training.en": None}, "zh-en.training.en: no such file"),
    ],
)
def test_other_formats_than_buccs_are_refused(run, refusal, tmp_path, change, part):
    write_bucc(tmp_path)
    for name, content in change.items():
        (tmp_path / name).unlink() if content is None else (tmp_path / name).write_text(content)
    assert part in refusal(lambda: run("mining", data=[str(tmp_path)], **ZH_EN))


def test_mining_hard_puts_copies_with_other_numbers_in_the_pool(run, encode, tmp_path):
    source, target = ["我 1", "你好", "今天 2", "苹果"], ["I love 1", "hello", "rain 2", "apples"]
    rows = run("mining-hard", source=source, target=target, **ZH_EN).rows
    spoiler = Spoiler(target, "en")
    copies = [copy for copy in map(spoiler.number, target) if copy]
    assert len(copies) == 2
    hard = hits_at(gold_ranks(encode(source), encode([*target, *copies]))[0], 1)
    easy = hits_at(gold_ranks(encode(source), encode(target))[0], 1)
    assert [row.value for row in rows] == [hard.mean(), hard[[0, 2]].mean(), easy[[0, 2]].mean()]
    assert [row.n for row in rows] == [4, 2, 2]


def test_a_data_set_has_a_column_for_each_side(run):
    zh, en = zip(*sentence_pairs(5))
    wanted = run("retrieval", source=zh, target=en, output=None, **ZH_EN).rows
    columns = Dataset.from_dict({"en": en, "zh": zh})
    assert run("retrieval", source=columns, output=None, **ZH_EN).rows == wanted


def test_texts_of_which_static_embeddings_know_no_word_are_missed(run, tmp_path, caplog):
    known = save_static(tmp_path / "static")[:20]
    source, target = [*known, "zzz", "yyy"], [*known, "www", "vvv"]
    options = {"model": tmp_path / "static"}
    for centering in ("none", "corpus"):
        sides = {"source": source, "target": target, "centering": centering}
        rows = run("retrieval", **sides, **ZH_EN, **options).rows
        assert [row.value for row in rows if row.metric == "P@1"] == [pytest.approx(100 * 20 / 22)] * 2
    assert "2 of 22 texts have no vector" in caplog.text
    assert "the first is 'zzz'" in caplog.text
    paragraphs = [" ".join([text] * 35) for text in target]
    rows = run("documents", source=source, target=paragraphs, **ZH_EN, **options).rows
    assert rows[0].value == pytest.approx(100 * 20 / 22)
    hard = run("mining-hard", source=source, target=[*target[:-1], "vvv 1"], **ZH_EN, **options).rows
    assert hard[0].value == pytest.approx(100 * 20 / 22)
    for name, side in (("cmn", source), ("eng", target)):
        (tmp_path / f"cmn-eng.{name}").write_text("\n".join(side) + "\n", encoding="utf-8")
    caplog.clear()
    rows = run("tatoeba", data=[str(tmp_path)], **options).rows
    assert [row.value for row in rows] == [pytest.approx(100 * 20 / 22)] * 2
    assert "4 of 24 texts have no vector" in caplog.text
    for split in SPLITS:
        for name, side in (("zh", source), ("en", target)):
            lines = "".join(f"{name}-{number}\t{text}\n" for number, text in enumerate(side))
            (tmp_path / f"zh-en.{split}.{name}").write_text(lines, encoding="utf-8")
        gold = "".join(f"zh-{number}\ten-{number}\n" for number in range(22))
        (tmp_path / f"zh-en.{split}.gold").write_text(gold, encoding="utf-8")
    rows = run("mining", data=[str(tmp_path)], **ZH_EN, **options).rows
    values = {row.metric: row.value for row in rows}
    assert values["mining precision"] == 100
    assert values["mining recall"] == pytest.approx(100 * 20 / 22)


def test_pairs_of_which_static_embeddings_know_no_word_are_left_out_or_unlike(run, tmp_path, caplog):
    known = save_static(tmp_path / "static")[:20]
    source, target = [*known, "zzz", known[0]], [*known, known[1], "vvv"]
    options = {"model": tmp_path / "static", "output": None}
    for task in ("geometry", "probe"):
        caplog.clear()
        rows = run(task, source=source, target=target, **ZH_EN, **options).rows
        clean_rows = run(task, source=known, target=known, **ZH_EN, **options).rows
        assert [row.value for row in rows] == [row.value for row in clean_rows]
        assert caplog.text.count("1 of 22 texts have no vector") == 2
    with pytest.raises(ValueError, match="knows words of both sides in none of the pairs"):
        run("geometry", source=["zzz"] * 5, target=known[:5], **ZH_EN, **options)
    lines = [f"{a}\t{b}\t{i % 5}\n" for i, (a, b) in enumerate(zip(source, reversed(target)))]
    (tmp_path / "en-zh.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(lines), encoding="utf-8")
    model = SentenceTransformer(str(tmp_path / "static"), device="cpu")
    vectors = [model.encode(side, normalize_embeddings=True) for side in (source, target[::-1])]
    rows = run("sts17", data=[str(tmp_path)], **options).rows
    gold = [i % 5 for i in range(22)]
    assert rows[0].value == pytest.approx(pearsonr(gold, (vectors[0] * vectors[1]).sum(1)).statistic)


def test_documents_are_joined_lines(run):
    rows = run("documents", source="sample", split="dev", **ZH_EN).rows
    assert rows[0].metric == "P@1"
    assert 5 < rows[0].n < 50


def test_tatoeba_of_any_language_by_its_part_of_the_model(run, models, tmp_path, refusal, capfd):
    for lang in ("cmn", "lao"):
        for name, side in ((lang, 0), ("eng", 1)):
            lines = "".join(f"{pair[side]}\n" for pair in sentence_pairs(5))
            (tmp_path / f"{lang}-eng.{name}").write_text(lines, encoding="utf-8")
    rows = run("tatoeba", data=[str(tmp_path)]).rows
    assert {row.direction for row in rows} == {"cmn->eng", "eng->cmn", "lao->eng", "eng->lao"}
    rows = run("tatoeba", model="routed", data=[str(tmp_path)], only_languages=["cmn"]).rows
    model = SentenceTransformer(str(models / "routed"), device="cpu")
    sides = (model.encode([*side], task=lang) for side, lang in zip(zip(*sentence_pairs(5)), ("zh", "en")))
    assert rows[0].value == hits_at(gold_ranks(*sides)[0], 1).mean()
    capfd.readouterr()
    options = {"data": [str(tmp_path)], "only_languages": ["lao"], "output": tmp_path / "b"}
    said = refusal(lambda: run("tatoeba", model="routed", **options))
    assert "routed has parts for zh, en and none for lo" in said


def test_similarity_of_several_sets_and_their_average(run, encode, tmp_path):
    pairs = sentence_pairs(12)
    for name in ("en-zh", "zh-zh"):
        lines = [f"{a}\t{b}\t{i % 5}\n" for i, (a, b) in enumerate(pairs)]
        (tmp_path / f"{name}.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(lines), encoding="utf-8")
    rows = run("sts17", data=[str(tmp_path)]).rows
    a, b = (encode(side) / np.linalg.norm(encode(side), axis=1, keepdims=True) for side in zip(*pairs))
    expected = pearsonr((a * b).sum(1), [i % 5 for i in range(12)]).statistic
    values = {(row.metric, row.direction): row.value for row in rows}
    assert values["Pearson", "en-zh"] == pytest.approx(expected, abs=1e-6)
    assert values["Pearson avg", None] == pytest.approx(expected, abs=1e-6)
    assert rows[0].dataset == "STS17"


def test_qe_reads_the_split_that_is_asked_for(run, tmp_path):
    lines = [f"{a}\t{b}\t{i}\t{i % 4}\n" for i, (a, b) in enumerate(sentence_pairs(9))]
    text = "source\ttarget\tmean\tz_mean\n" + "".join(lines)
    (tmp_path / "en-zh.dev.tsv").write_text(text, encoding="utf-8")
    rows = run("qe", data=[str(tmp_path)], qe_split="dev").rows
    assert [(row.metric, row.direction, row.split) for row in rows] == [
        ("Pearson", "en->zh", "dev"),
        ("Spearman", "en->zh", "dev"),
    ]


def test_several_tasks_with_text_of_their_own_make_one_table(run, tmp_path):
    lines = "".join(f"{a}\t{b}\n" for a, b in sentence_pairs(20))
    (tmp_path / "p.tsv").write_text(lines, encoding="utf-8")
    write_bucc(tmp_path)
    tasks = ["retrieval", "mining", "geometry", "probe"]
    result = run(*tasks, data=[str(tmp_path / "p.tsv"), f"mining={tmp_path}"], **ZH_EN)
    rows = result.rows
    assert list(dict.fromkeys(row.settings["task"] for row in rows)) == tasks
    shown = result.table()
    assert shown.startswith(f"plain (dense vectors) on p.tsv test, {tmp_path.name} test\n")
    assert shown.count("\n|---") == 1
    assert [shown.count(f"\n| {task} ") for task in tasks] == [4, 4, 2, 1]
    assert rows[0].dataset == "p.tsv"
    assert rows[4].dataset == tmp_path.name
    assert (tmp_path / "out/geometry-plain.png").read_bytes().startswith(b"\x89PNG")


def test_models_are_compared_in_every_task(run, tmp_path):
    lines = "".join(f"{a}\t{b}\n" for a, b in sentence_pairs(20))
    (tmp_path / "p.tsv").write_text(lines, encoding="utf-8")
    write_bucc(tmp_path)
    tasks = ["retrieval", "mining", "geometry", "probe"]
    data = [str(tmp_path / "p.tsv"), f"mining={tmp_path}"]
    files = []
    for model in ("plain", "other"):
        run(*tasks, model=model, data=data, output=tmp_path / model, **ZH_EN)
        files.append(tmp_path / model / "results.json")
    compared = hfxling.compare(files).comparisons
    for one in compared:
        assert one.test.difference == pytest.approx(one.other.value - one.first.value, abs=1e-3)
    assert len(compared) == 8
    assert list(dict.fromkeys(one.first.settings["task"] for one in compared)) == tasks


def test_without_matplotlib_there_are_no_pictures(run, tmp_path, no_matplotlib):
    (tmp_path / "p.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in sentence_pairs(9)), encoding="utf-8")
    run("geometry", source=tmp_path / "p.tsv", **ZH_EN)
    assert not [*(tmp_path / "out").glob("*.png")]
