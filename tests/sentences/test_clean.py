"""Cleaning a bitext: planted faults get their reasons, scores are margins, both files appear or neither."""

import json
import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from tiny_models import save_routed, save_static

import hfxling
from hfxling import fit_lexical, save_lexical
from hfxling.cli import main
from hfxling.data import warn
from hfxling.data.filters import count_words
from hfxling.data.sample import sample_texts
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fusion import fit_fusion
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.files import weights_hash
from hfxling.sentences import clean, select
from hfxling.sentences.blocks import both_ways

SOUND = list(zip(*(sample_texts(lang, "train", generated=0) for lang in ("en", "id"))))
FEW = SOUND[:40]


@pytest.fixture(scope="module")
def lexical(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    save_lexical(fit_lexical(*zip(*SOUND), ("en", "id"), rank=16, progress=False), folder / "links")
    return folder / "links"


def write(path: Path, rows) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def run(path: Path, **options) -> tuple[list[list[str]], list[list[str]]]:
    """Rows of both files, the dropped ones with the header."""
    languages = (options.pop("source_lang", "en"), options.pop("target_lang", "id"))
    output = Path(options.pop("output", path.parent / "kept.tsv"))
    options = {"cache_dir": path.parent / "cache", **options}
    cleaned = hfxling.clean(path, languages=languages, output=output, **options)
    sys.stdout.write(cleaned.table())
    files = (output, output.with_name(f"{output.stem}.dropped{output.suffix}"))
    return tuple([line.split("\t") for line in read(file)] for file in files)


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1] if path.suffix == ".tsv" else []


def reasons(dropped) -> dict[int, set[str]]:
    """By line."""
    return {int(line): {*names.split(",")} for line, names, *_ in dropped[1:]}


def table(text: str) -> dict[str, list[str]]:
    """Cells of the printed table by its first one."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if line[:1] == "|"]
    return {row[0].replace(" ", "_"): row[1:] for row in rows}


def planted() -> list[tuple[tuple[str, str], str]]:
    """Bad pairs and a reason that each must have."""
    long = [pair for pair in SOUND if len(pair[1].split()) > 11]
    bad = [(pair[::-1], "wrong_language") for pair in SOUND[:5]]
    bad += [(pair[::-1], "wrong_source_language") for pair in SOUND[5:10]]
    bad += [((pair[0], pair[0]), "identical") for pair in SOUND[10:15]]
    bad += [((pair[0], pair[0].upper() + "!"), "copy") for pair in SOUND[15:20]]
    bad += [((pair[0], " ".join(pair[1].split()[:3])), "truncated") for pair in long[:5]]
    bad += [((pair[0], f"{pair[1]} {pair[1]} {pair[1]}"), "repeated") for pair in SOUND[25:30]]
    bad += [((pair[0], f"<p>{pair[1]}</p>"), "markup") for pair in SOUND[30:35]]
    bad += [((pair[0].upper(), pair[1]), "duplicate") for pair in SOUND[30:35]]
    bad += [(("", pair[1]), "empty") for pair in SOUND[35:38]]
    return bad + [((pair[0], "... !"), "empty") for pair in SOUND[38:40]]


def test_a_data_set_with_a_column_for_each_language(tmp_path):
    by_file = hfxling.clean(write(tmp_path / "pairs.tsv", SOUND), languages=("en", "id"))
    sources, targets = zip(*SOUND)
    cleaned = hfxling.clean(Dataset.from_dict({"id": targets, "en": sources}), languages=("en", "id"))
    assert cleaned.table() == by_file.table()


def test_a_result_is_saved_where_the_output_would_be(tmp_path):
    path = write(tmp_path / "pairs.tsv", [*SOUND, ("", SOUND[0][1])])
    by_output = run(path)
    cleaned = hfxling.clean(path, languages=("en", "id"))
    cleaned.save(tmp_path / "saved.tsv")
    for saved, written in (("saved.tsv", "kept.tsv"), ("saved.dropped.tsv", "kept.dropped.tsv")):
        assert read(tmp_path / saved) == read(tmp_path / written)
    assert len(by_output[1]) == 2
    cleaned.save(tmp_path / "saved.tsv", tmp_path / "others.parquet")
    assert (tmp_path / "others.parquet").is_file()
    cleaned.save(os.devnull)
    with pytest.raises(ValueError, match=r"kept='saved\.txt': pairs are written as \.tsv or \.parquet"):
        cleaned.save("saved.txt")
    with pytest.raises(ValueError, match="give each output its own file"):
        cleaned.save(tmp_path / "a.tsv", tmp_path / "a.tsv")


def test_planted_faults_are_dropped_each_with_its_reason(tmp_path, capsys):
    bad = planted()
    kept, dropped = run(write(tmp_path / "pairs.tsv", [*SOUND, *(pair for pair, _ in bad)]))
    assert [tuple(row) for row in kept] == SOUND
    assert dropped[0] == ["line", "reasons", "source", "target"]
    assert [tuple(row[2:]) for row in dropped[1:]] == [pair for pair, _ in bad]
    found = reasons(dropped)
    assert {*found} == {*range(len(SOUND) + 1, len(SOUND) + len(bad) + 1)}
    assert [name for name, (_, wanted) in zip(found.values(), bad) if wanted not in name] == []
    shown = table(capsys.readouterr().out)
    assert int(shown["kept"][0]) + int(shown["dropped"][0]) == len(SOUND) + len(bad)
    assert int(shown["dropped"][0]) == len(bad)
    for reason in {*shown} - {"reason", "kept", "dropped"}:
        if not reason.startswith("-"):
            assert int(shown[reason][0]) == sum(reason in names for names in found.values())
            assert int(shown[reason][2]) == sum({reason} == names for names in found.values())


def test_every_reason_is_given():
    source, target = ["今天下雨。", "OK now", "今天下雨。"], ["Trời mưa.", "ok NOW", "Trời mưa."]
    cleaned = hfxling.clean(source, target, languages=("zh", "vi"), min_words=6)
    assert cleaned.reasons[1][:2] == ["identical", "min_words"]
    assert {"min_words", "duplicate"} <= {*cleaned.reasons[2]}
    assert "duplicate" not in cleaned.reasons[0]


def test_a_revision_needs_a_model():
    with pytest.raises(ValueError, match="revision='main' is for a model, but none is given"):
        hfxling.clean(["雨"], ["mưa"], languages=("zh", "vi"), revision="main")


def test_reasons_that_are_kept_drop_nothing(tmp_path):
    sound = SOUND[:120]
    rows = [*sound, SOUND[3], (SOUND[4][0], SOUND[4][0])]
    path = write(tmp_path / "pairs.tsv", rows)
    assert len(run(path)[0]) == len(sound)
    kept, dropped = run(path, keep=["duplicate"])
    assert kept[-1] == list(SOUND[3])
    assert reasons(dropped)[len(rows)] >= {"identical", "copy"}
    assert len(run(path, keep=["duplicate", "identical", "copy", "wrong_language"])[0]) == len(rows)


def test_lengths_in_words(tmp_path):
    rows = [("No.", "Tidak."), *SOUND]
    _, dropped = run(write(tmp_path / "pairs.tsv", rows), min_words=2, max_words=9)
    found = reasons(dropped)
    assert found[1] == {"min_words"}
    long = {line for line, pair in enumerate(rows, 1) if max(len(side.split()) for side in pair) > 9}
    assert {line for line, names in found.items() if "max_words" in names} >= {*list(long)[:5]}
    assert "too_long" not in set().union(*found.values())


def test_a_text_that_nobody_can_judge_is_too_long(tmp_path):
    kept, dropped = run(write(tmp_path / "pairs.tsv", [*FEW, ("a " * 5_000_000, "b")]))
    assert len(kept) == 40
    assert reasons(dropped) == {41: {"too_long"}}


def test_the_command_reads_a_share_as_a_share(tiny_sentence_transformer, tmp_path):
    path = write(tmp_path / "pairs.tsv", FEW)
    words = ["--model", str(tiny_sentence_transformer), "--cache-dir", str(tmp_path / "cache"), "--top"]
    for top, count in (("0.75", 30), ("30", 30)):
        main(["clean", str(path), "--languages", "en", "id", "--output", str(tmp_path / "kept.tsv"), *words, top])
        assert len(read(tmp_path / "kept.tsv")) == count


def test_the_wrong_language_of_a_side_is_warned_of(tmp_path, caplog):
    run(write(tmp_path / "pairs.tsv", [*SOUND[:250], *((source, source) for source, _ in SOUND[250:])]))
    assert "of 362 target texts (31 %) are not in 'id'; check the languages" in caplog.text
    assert "source texts" not in caplog.text


def test_a_side_that_is_wholly_in_another_language_is_warned_of(tmp_path, caplog):
    rows = zip(sample_texts("zh", "train")[:100], sample_texts("en", "train")[100:200])
    path = write(tmp_path / "pairs.tsv", [*rows])
    main(["clean", str(path), "--languages", "zh", "vi", "--output", str(tmp_path / "kept.tsv")])
    assert "of 100 target texts" in caplog.text
    assert "are not in 'vi'; check the languages" in caplog.text


def test_scores_are_margins_of_the_texts_that_are_left(tiny_sentence_transformer, tmp_path, caplog):
    rows = [("source", "target"), *FEW, FEW[0], (FEW[1][0], FEW[2][1]), ("", "x")]
    kept, dropped = run(write(tmp_path / "pairs.tsv", rows), model=tiny_sentence_transformer, k=3)
    assert kept[0] == ["source", "target", "score"]
    assert dropped[0] == ["line", "reasons", "score", "source", "target"]
    encoder = SentenceEncoder(str(tiny_sentence_transformer))
    source, target = (encoder.encode(side, progress=False).astype(np.float64) for side in zip(*FEW))
    source, target = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (source, target))
    scores = source @ target.T
    means = [np.sort(x, axis=1)[:, -3:].mean(1) for x in (scores, scores.T)]
    expected = [2 * scores[i, j] / (means[0][i] + means[1][j]) for i, j in [*((i, i) for i in range(40)), (1, 2)]]
    np.testing.assert_allclose([float(row[2]) for row in kept[1:]], expected, atol=2e-5)
    assert [row[:3] for row in dropped[1:]] == [["42", "duplicate", ""], ["44", "empty", ""]]


def test_threshold_and_share(tiny_sentence_transformer, tmp_path, caplog):
    path = write(tmp_path / "pairs.tsv", FEW)
    caplog.set_level("INFO")
    every, _ = run(path, model=tiny_sentence_transformer)
    assert "no pair is dropped for a low score" in caplog.text
    caplog.clear()
    scores = sorted(float(row[2]) for row in every)
    kept, dropped = run(path, model=tiny_sentence_transformer, top=0.75)
    assert sorted(float(row[2]) for row in kept) == scores[10:]
    assert [*reasons(dropped).values()] == [{"low_score"}] * 10
    kept, _ = run(path, model=tiny_sentence_transformer, threshold=(scores[19] + scores[20]) / 2)
    assert sorted(float(row[2]) for row in kept) == scores[20:]
    assert "no pair is dropped" not in caplog.text


def test_shuffled_targets_score_less_and_belong_elsewhere(lexical, tmp_path):
    sources, targets = map(list, zip(*SOUND[:200]))
    targets[:20] = [*targets[1:20], targets[0]]
    path = write(tmp_path / "pairs.tsv", zip(sources, targets))
    kept, _ = run(path, lexical=lexical, keep=["truncated", "too_long"])
    scores = np.array([float(row[2]) for row in kept])
    assert scores[:20].max() < np.median(scores[20:])
    assert (scores[:20][:, None] < scores[20:]).mean() > 0.98
    expected = LexicalEncoder(str(lexical)).score(sources, targets, ("en", "id"))
    np.testing.assert_allclose([float(row[3]) for row in kept], expected, atol=2e-6)
    _, dropped = run(path, lexical=lexical, keep=["truncated", "too_long"], mutual=True)
    moved = {line for line, names in reasons(dropped).items() if "better_elsewhere" in names}
    assert len(moved & {*range(1, 21)}) >= 19
    assert len(moved - {*range(1, 21)}) <= 2
    least = float(np.sort(expected)[30])
    _, dropped = run(path, lexical=lexical, keep=["truncated", "too_long"], min_links=least)
    low = {line for line, names in reasons(dropped).items() if "low_links" in names}
    assert low == {line for line, value in enumerate(expected, 1) if value < least}


def test_words_of_shuffled_targets_say_nothing_of_each_other(tmp_path):
    source, target = (list(side) for side in zip(*SOUND[:300]))
    target[::5] = [*target[5::5], target[0]]
    path = write(tmp_path / "pairs.tsv", zip(source, target))
    kept, dropped = run(path, min_words_gain=0.0, keep=["duplicate", *clean.OF_TEXT[4:]])
    moved = {line for line, names in reasons(dropped).items() if "low_words" in names}
    is_shuffled = np.arange(300) % 5 == 0
    found = np.isin(np.arange(1, 301), [*moved])
    assert found[is_shuffled].mean() > 0.4
    assert found[~is_shuffled].mean() < 0.1
    assert all(float(row[2]) >= 0 for row in kept)


def test_too_few_pairs_for_words(tmp_path, refusal):
    path = write(tmp_path / "pairs.tsv", FEW[:20])
    said = refusal(lambda: run(path, min_words_gain=0.0))
    assert "pairs are too few to learn word links from; give 40 or more, or leave out min_words_gain" in said
    assert not (tmp_path / "kept.tsv").exists()


def test_scores_together_are_the_fused_ones(tiny_sentence_transformer, lexical, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(tiny_sentence_transformer, model)
    dense, sparse = SentenceEncoder(str(model)), LexicalEncoder(str(lexical))
    pools = {}
    for side, lang in zip(zip(*FEW), ("en", "id")):
        pools |= {(lang, role): (dense.encode(side), sparse.encode(side, lang, role)) for role in ("query", "document")}
    fold = pools["en", "query"], pools["id", "document"]
    fusion = fit_fusion([[(*fold, fold)]], pools, lexical=weights_hash(lexical), languages=("en", "id"))
    fusion.save(model)
    kept, _ = run(write(tmp_path / "pairs.tsv", FEW), model=model, lexical=lexical, k=3)
    vectors = [fusion.vectors(*pools[key], *key) for key in (("en", "query"), ("id", "document"))]
    found = select(*both_ways(*vectors, 3), "distance", "forward")
    ours = {row: float(score) for row, (*_, score, _) in enumerate(kept)}
    for i, j, score in zip(*found):
        if i == j:
            lengths = [count_words(text, lang) for text, lang in zip(FEW[i], ("en", "id"))]
            assert ours[i] == pytest.approx(score * np.prod(lengths) ** 0.25, abs=5e-3)  # pools are in half precision
    assert sum(found.source == found.target) > 20


def test_parquet_json_lines_and_breaks_inside_texts(tmp_path, caplog):
    rows = [{"en": f"{source}\tyes\nno", "id": target} for source, target in FEW] + [{"en": None, "id": "x"}]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    kept, _ = run(path, keep=["truncated", "copy", "too_long"])
    assert kept[0] == [f"{FEW[0][0]} yes no", FEW[0][1]]
    assert "40 texts with tabs or line breaks are written with spaces" in caplog.text
    run(path, output=tmp_path / "kept.parquet", keep=["truncated", "copy", "too_long"])
    assert pq.read_table(tmp_path / "kept.parquet").to_pylist()[0]["source"] == f"{FEW[0][0]}\tyes\nno"
    (row,) = pq.read_table(tmp_path / "kept.dropped.parquet").to_pylist()
    assert row == {"line": 41, "reasons": "empty", "source": "", "target": "x"}


def test_nothing_left_to_score(tiny_sentence_transformer, tmp_path, caplog):
    kept, dropped = run(write(tmp_path / "pairs.tsv", [("", "a"), ("b", "")]), model=tiny_sentence_transformer)
    assert kept == []
    assert "no pair is kept; see the reasons" in caplog.text
    assert [row[1] for row in dropped[1:]] == ["empty", "empty"]


def test_a_model_with_parts_for_other_languages(tiny_sentence_transformer, tmp_path, refusal):
    save_routed(tiny_sentence_transformer, tmp_path / "routed")
    path = write(tmp_path / "pairs.tsv", FEW)
    assert "has parts for zh, vi and none for en" in refusal(lambda: run(path, model=tmp_path / "routed"))
    assert not (tmp_path / "kept.tsv").exists()


def test_candidates_of_static_vectors_give_nearly_the_same(lexical, tmp_path):
    path = write(tmp_path / "pairs.tsv", SOUND[:150])
    exact, few = (run(path, lexical=lexical, candidates=count)[0] for count in (0, 40))
    values = [np.array([float(row[2]) for row in kept]) for kept in (exact, few)]
    assert np.corrcoef(*values)[0, 1] > 0.99
    assert (values[0] != values[1]).any()


def test_pairs_of_which_static_embeddings_know_no_word_have_no_score(tmp_path, caplog):
    known = save_static(tmp_path / "static")[:20]
    source, target = [*known, "zzz", "今天今天雨"], [*known, "今今天", "www vvv"]
    options = {"languages": ("en", "id"), "keep": clean.OF_TEXT, "k": 2}
    options |= {"cache_dir": tmp_path / "cache", "model": tmp_path / "static"}
    cleaned = hfxling.clean(source, target, mutual=True, **options)
    assert np.isnan(cleaned.scores["score"]).tolist() == [False] * 20 + [True] * 2
    assert caplog.text.count("1 of 22 texts have no vector") == 2
    assert len(cleaned.kept) == 22
    cleaned = hfxling.clean(source, target, threshold=0.0, **options)
    assert cleaned.kept.tolist() == [*range(20)]
    assert cleaned.reasons[20:] == [["low_score"]] * 2
    assert hfxling.clean(source, target, top=20, **options).kept.tolist() == [*range(20)]


def test_one_sentence_that_matches_many_is_warned_of(caplog):
    texts = [[f"s{i}" for i in range(200)], [f"t{i}" for i in range(200)]]
    best = [np.arange(200), np.arange(200)]
    warn.warn_of_hubs(best, texts)
    assert caplog.text == ""
    best[0][:11] = 7
    warn.warn_of_hubs(best, texts)
    assert "11 of 200 source texts have the same target text as their best match ('t7'); 1 such in all" in caplog.text
    assert "target texts have" not in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_lang": "en"}, "languages=('en', 'en'): give the codes"),
        ({"threshold": 1.0}, "threshold needs scores: give a model, a lexical one or both"),
        ({"top": 0.5}, "top needs scores"),
        ({"mutual": True}, "mutual needs scores"),
        ({"model": "{model}", "top": 0.5, "threshold": 1.0}, "threshold and top: give one of them"),
        ({"model": "{model}", "top": 1.5}, "top=1.5: give a count of pairs, such as 5000, or a share"),
        ({"model": "{model}", "threshold": float("nan")}, "threshold=nan: give a finite number"),
        ({"model": "{model}", "min_links": 0.1}, "min_links needs lexical"),
        ({"model": "{model}", "k": 0}, "k=0"),
        ({"model": "{model}", "k": 41}, "k=41 neighbours, but 40 distinct texts are left on one side"),
        ({"model": "{model}", "margin": "cosine"}, "margin='cosine' is not one of ratio, distance, absolute"),
        ({"model": "{model}", "memory": "much"}, "memory='much'"),
        ({"model": "no/such folder"}, "model='no/such folder' is neither the folder"),
        ({"model": "{model}", "lexical": "{lexical}"}, "has no fusion.json"),
        ({"lexical": "{lexical}", "target_lang": "vi"}, "has parts for en, id and none for vi"),
        ({"keep": ["empty"]}, "keep: empty is not one of identical, duplicate"),
        ({"keep": "copy"}, "keep='copy': give a list, such as ['copy']"),
        ({"min_words": -1}, "min_words=-1"),
        ({"min_words": 9, "max_words": 3}, "needs 0 <= min_words <= max_words"),
        ({"output": "{folder}/kept.csv"}, "pairs are written as .tsv or .parquet"),
        ({"output": "{folder}/pairs.tsv"}, "is read, too"),
        ({"dropped": "{folder}/pairs.tsv"}, "is read, too"),
        ({"dropped": "{folder}/kept.tsv"}, "is the same file as output"),
        ({"pairs": "{folder}/none.tsv"}, "none.tsv does not exist"),
        ({"pairs": "{folder}/pairs.tsv@1-99"}, "40 records, but lines='1-99' asks for more"),
        ({"pairs": b""}, "no sentence pair in it"),
        ({"pairs": b"a\tb\na\t\xff\n"}, "line 2: byte 6 of the file is not UTF-8"),
        ({"pairs": b"a\nb\n"}, "1 column(s) where 2 are needed"),
    ],
)
def test_errors_are_one_line(tiny_sentence_transformer, lexical, tmp_path, refusal, options, message):
    path = write(tmp_path / "pairs.tsv", FEW)
    names = {"model": tiny_sentence_transformer, "lexical": lexical, "folder": tmp_path}
    options = {k: v.format(**names) if isinstance(v, str) else v for k, v in options.items()}
    given = options.pop("pairs", path)
    if isinstance(given, bytes):
        path.write_bytes(given)
        given = path
    assert message in refusal(lambda: run(Path(given), **options))
    assert [file.name for file in tmp_path.iterdir() if file.name != "cache"] == ["pairs.tsv"]
