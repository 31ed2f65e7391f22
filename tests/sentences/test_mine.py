"""Two heaps in, pairs out: what is found, kept, dropped and resumed."""

import json
import os
import random
import re
import shutil
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from tiny_models import save_routed, save_static

import hfxling
from hfxling.cli import main
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fusion import ROLES, fit_fusion
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.files import content_hash, weights_hash
from hfxling.sentences import blocks
from hfxling.sentences.bitext import COLUMNS
from hfxling.sentences.engine import Mined
from hfxling.sentences.impostors import Impostors
from hfxling.sentences.mine import HiddenPairs

PAIRED, ALONE, KNOWN = 120, 60, 100
LANGUAGES = ("zh", "vi")


@pytest.fixture(scope="module", autouse=True)
def few_samples():
    """An interval of fewer samples than it has: what it is worth is tested in test_precision.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hfxling.sentences.precision._SAMPLES", 50)
        yield


@pytest.fixture(scope="module")
def heap(tmp_path_factory, zh_vi_pairs) -> Path:
    """Shuffled text of both languages, known pairs, and a lexical model of other pairs."""
    folder = tmp_path_factory.mktemp("heap")
    known, pairs = zh_vi_pairs[:KNOWN], zh_vi_pairs[KNOWN:]
    paired, alone = pairs[:PAIRED], pairs[PAIRED : PAIRED + 2 * ALONE]
    sides = [[pair[side] for pair in paired] for side in (0, 1)]
    sides[0] += [zh for zh, _ in alone[:ALONE]]
    sides[1] += [vi for _, vi in alone[ALONE:]]
    for side, lang in zip(sides, ("zh", "vi")):
        random.Random(lang).shuffle(side)
        (folder / f"heap.{lang}").write_text("".join(f"{text}\n" for text in ["", *side]), encoding="utf-8")
    for name, some in (("known", known), ("gold", paired)):
        (folder / f"{name}.tsv").write_text("".join(f"{zh}\t{vi}\n" for zh, vi in some), encoding="utf-8")
    rest = pairs[PAIRED + 2 * ALONE :][:400]
    hfxling.save_lexical(hfxling.fit_lexical(*zip(*rest), ("zh", "vi"), rank=64, progress=False), folder / "links")
    return folder


def mined(heap: Path, folder: Path, **options):
    """The pairs of the heap, by its links unless another model is named."""
    if not {"model", "source_vectors"} & {*options}:
        options = {"lexical": heap / "links"} | options
    sides = options.pop("sides", (heap / "heap.zh", heap / "heap.vi"))
    options = {"languages": LANGUAGES} | options
    return hfxling.mine(*sides, cache_dir=folder / "cache", **options)


def words(heap: Path, output: Path, *more: str) -> list[str]:
    """The same as a command."""
    languages = ["--source_lang", "zh", "--target_lang", "vi", "--cache_dir", str(output.parent / "cache")]
    sides = [str(heap / "heap.zh"), str(heap / "heap.vi")]
    return ["mine", *sides, *languages, "--lexical", str(heap / "links"), "--output", str(output), *more]


def read(path: Path) -> list[list[str]]:
    header, *rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    assert header == list(COLUMNS)
    return rows


def right(heap: Path, rows: list) -> float:
    gold = {tuple(line.split("\t")) for line in (heap / "gold.tsv").read_text(encoding="utf-8").splitlines()}
    return sum(tuple(row[1:3]) in gold for row in rows) / len(rows)


def test_links_find_the_pairs(heap, tmp_path):
    result = mined(heap, tmp_path, top=60, output=tmp_path / "pairs.tsv")
    rows = read(tmp_path / "pairs.tsv")
    assert len(rows) == len(result.rows) == 60
    assert right(heap, rows) > 0.8
    scores = [float(row[0]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    lines = {lang: (heap / f"heap.{lang}").read_text(encoding="utf-8").split("\n") for lang in LANGUAGES}
    for _, source, target, i, j, _ in rows:
        assert (lines["zh"][int(i) - 1], lines["vi"][int(j) - 1]) == (source, target)
    assert "60 pairs of 180 and 180 sentences" in result.table()
    assert result.to_text() == (tmp_path / "pairs.tsv").read_text(encoding="utf-8")
    assert not (tmp_path / "pairs.tsv.hfxling-parts").exists()


def test_the_command_says_the_same(heap, tmp_path, capfd):
    main(words(heap, tmp_path / "pairs.tsv", "--top", "0.5", "--dedup", "both"))
    said = capfd.readouterr().out
    result = mined(heap, tmp_path, top=0.5, dedup="both")
    assert (tmp_path / "pairs.tsv").read_text(encoding="utf-8") == result.to_text()
    assert said.rstrip() == result.table()


def test_texts_and_links_in_memory(heap, tmp_path):
    expected = mined(heap, tmp_path)
    sides = [(heap / f"heap.{lang}").read_text(encoding="utf-8").split("\n") for lang in LANGUAGES]
    links = hfxling.LexicalModel.from_pretrained(heap / "links")
    assert mined(heap, tmp_path, sides=sides, lexical=links, languages=None).rows == expected.rows
    with pytest.raises(ValueError, match="save the lexical model with"):
        mined(heap, tmp_path, lexical=links, candidates=9)


def test_a_loaded_model_is_not_taken_for_another_one(heap, tiny_sentence_transformer, tmp_path):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(tiny_sentence_transformer))
    expected = mined(heap, tmp_path, model=str(tiny_sentence_transformer))
    assert len(list((tmp_path / "cache").iterdir())) == 2
    assert mined(heap, tmp_path, model=model).rows == expected.rows
    assert len(list((tmp_path / "cache").iterdir())) == 2  # nothing was kept of a model that has no name
    with pytest.raises(ValueError, match="give languages, such as zh vi"):
        mined(heap, tmp_path, model=model, languages=None)


def test_a_share_of_the_pairs(heap, tmp_path):
    every, half = mined(heap, tmp_path, k=2), mined(heap, tmp_path, k=2, top="0.5")
    assert half.rows == every.rows[: round(len(every.rows) / 2)]
    assert mined(heap, tmp_path, k=2, top="0.001").rows == every.rows[:1], "one at least"
    options = {"k": 2, "selection": "forward", "dedup": "target"}
    distinct = mined(heap, tmp_path, **options).rows
    assert mined(heap, tmp_path, top=0.5, **options).rows == distinct[: round(len(distinct) / 2)]


@pytest.mark.parametrize("options", [{"candidates": 40}, {"terms": 100}])
def test_candidates_find_the_same_best_pairs(heap, tmp_path, options):
    every, few = (
        {(*row[3:5], f"{row.score:.4f}") for row in mined(heap, tmp_path, top=60, **more).rows}
        for more in ({}, options)
    )
    assert len({row[:2] for row in every} & {row[:2] for row in few}) > 50
    if "terms" in options:
        assert len(every & few) > 50


def test_a_dense_model_and_parquet(heap, tiny_sentence_transformer, tmp_path):
    model = {"model": tiny_sentence_transformer, "threshold": 1.0}
    result = mined(heap, tmp_path, output=tmp_path / "pairs.parquet", **model)
    table = pq.read_table(tmp_path / "pairs.parquet")
    assert table.column_names == list(COLUMNS)
    assert [tuple(row.values()) for row in table.to_pylist()] == result.rows
    assert 0 < len(table) <= 180
    assert min(table["score"].to_pylist()) >= 1.0
    same = mined(heap, tmp_path, dtype="bfloat16", **model)
    assert [row[3:5] for row in same.rows] == [row[3:5] for row in result.rows]


def test_vectors_of_ones_own(heap, tmp_path):
    vectors = np.random.default_rng(0).standard_normal((180, 16)).astype(np.float32)
    np.save(tmp_path / "a.npy", vectors)
    np.save(tmp_path / "b.npy", vectors[::-1])
    own = {"source_vectors": tmp_path / "a.npy", "target_vectors": tmp_path / "b.npy"}
    rows = mined(heap, tmp_path, **own).rows
    assert len(rows) == 180
    assert all(row.source_line + row.target_line == 183 for row in rows)  # the first line of both files is empty
    said = mined(heap, tmp_path, **own, plan=True).table()
    assert "180 and 180" in said
    assert "180 with 180 sentences compared" in said
    assert "encoded" not in said


def test_other_vectors_of_the_same_size_are_others(heap, tmp_path, monkeypatch):
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).standard_normal((180, 16)).astype(np.float32))
    own = {"source_vectors": tmp_path / "a.npy", "target_vectors": tmp_path / "b.npy"}
    module = import_module("hfxling.sentences.mine")
    with monkeypatch.context() as stopped:
        stopped.setattr(module, "flagged", lambda *_, **__: [][0])
        with pytest.raises(IndexError):
            mined(heap, tmp_path, output=tmp_path / "pairs.tsv", **own)
    stat = (tmp_path / "b.npy").stat()
    np.save(tmp_path / "b.npy", np.random.default_rng(1).standard_normal((180, 16)).astype(np.float32))
    os.utime(tmp_path / "b.npy", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(ValueError, match="parts of a run with another vectors"):
        mined(heap, tmp_path, output=tmp_path / "pairs.tsv", **own)


def test_a_threshold_for_a_wanted_precision(heap, tmp_path):
    asked = {"precision": 0.8, "known": [str(heap / "known.tsv")]}
    result = mined(heap, tmp_path, **asked)
    assert "estimated precision" in result.table()
    assert "on 50 known pairs that did not choose it" in result.table()
    assert right(heap, result.rows) > 0.6
    known = (heap / "known.tsv").read_text(encoding="utf-8")
    assert not any(row.source in known or row.target in known for row in result.rows)
    in_memory = [list(side) for side in zip(*(line.split("\t") for line in known.splitlines()))]
    assert mined(heap, tmp_path, precision=0.8, known=in_memory).rows == result.rows
    given = mined(heap, tmp_path, **asked, unpaired=0.9)
    assert "90 % of the sources are taken" in given.table()
    assert len(given.rows) <= len(result.rows)


def test_what_is_dropped(heap, tmp_path):
    text = (heap / "heap.zh").read_text(encoding="utf-8")
    (tmp_path / "twice.zh").write_text(text + text.replace("。", "。 "), encoding="utf-8")
    asked = {"sides": (tmp_path / "twice.zh", heap / "heap.vi"), "selection": "forward"}
    every = mined(heap, tmp_path, **asked).rows
    once = mined(heap, tmp_path, **asked, dedup="both").rows
    assert len({row.source for row in once}) == len({row.target for row in once}) == len(once) < len(every) == 360
    assert any(row.flags for row in every)
    assert not any(row.flags for row in mined(heap, tmp_path, **asked, filters=["all"]).rows)


def test_a_text_that_is_too_long_is_refused_at_once(heap, tmp_path, refusal, monkeypatch):
    monkeypatch.setattr("hfxling.sentences.bitext.FaultFinder.is_foreign", lambda *args: False)
    texts = ["今天下雨。"] * 4 + ["字" * 1_000_001]
    said = refusal(lambda: mined(heap, tmp_path, sides=(texts, ["Hôm nay trời mưa."] * 5)))
    assert "texts in memory: text 5, " in said
    assert "has 1,000,001 letters; give texts of at most 1,000,000" in said


def test_cells_with_breaks_do_not_break_rows(heap, tmp_path):
    lines = (heap / "gold.tsv").read_text(encoding="utf-8").splitlines()
    with (tmp_path / "text.jsonl").open("w", encoding="utf-8") as file:
        for zh, vi in (line.split("\t") for line in lines):
            file.write(json.dumps({"zh": f"{zh}\r\n{zh}", "vi": f"{vi}\t{vi}\n"}) + "\n")
    result = hfxling.mine(
        tmp_path / "text.jsonl", languages=LANGUAGES, lexical=heap / "links", output=tmp_path / "a.tsv"
    )
    rows = (tmp_path / "a.tsv").read_text(encoding="utf-8").split("\n")[1:-1]
    assert len(rows) == len(result.rows) > 50
    assert {row.count("\t") for row in rows} == {len(COLUMNS) - 1}


def test_a_precision_without_known_pairs(heap, tmp_path, refusal):
    result = mined(heap, tmp_path, precision=0.9)
    assert result.by_impostors
    assert result.estimate.precision >= 0.9
    assert result.estimate.low < right(heap, result.rows) < result.estimate.high
    assert "from what the texts themselves say" in result.table()
    assert len(mined(heap, tmp_path, precision=0.95).rows) <= len(result.rows)
    sides = np.random.default_rng(0).standard_normal((2, 180, 16)).astype(np.float32)
    for name, side in zip("ab", sides):
        np.save(tmp_path / f"{name}.npy", side)
    by_chance = {"source_vectors": tmp_path / "a.npy", "target_vectors": tmp_path / "b.npy", "precision": 0.9}
    said = refusal(lambda: mined(heap, tmp_path, **by_chance))
    assert re.search(
        r"precision=0.9: no threshold gives it \(best estimate: 0\.\d+, of \d+ pairs\); ask for less", said
    )
    few = {"sides": (["今天下雨。"] * 3, ["Hôm nay trời mưa."] * 3), "precision": 0.9}
    said = refusal(lambda: mined(heap, tmp_path, **few))
    assert "--precision takes 5 neighbours of each sentence (--k and one more), but one side has 3 sentences" in said


@pytest.mark.parametrize("found_by_others", [True, False])
def test_of_known_pairs_and_the_texts_the_stricter_holds(found_by_others):
    """Wrong pairs of the texts score higher than those of known sources, which impostors show."""
    rng = np.random.default_rng(0)
    hidden = HiddenPairs([f"s{i}" for i in range(200)], [f"t{i}" for i in range(200)], 0.9)
    heap, kept = 600, np.flatnonzero(hidden.kept)
    number_of_target = {row: number for number, row in enumerate(kept)}
    rows = []
    for i in range(400):  # a quarter is right; of 500 sources without a translation 300 find something
        rows.append((i, i, rng.normal(6, 1) if i < 100 else rng.normal(3, 1)))
    for i in range(200):  # known pairs are found, and sources without their targets get one of another kept one or none
        if hidden.kept[i]:
            rows.append((heap + i, heap + number_of_target[i], rng.normal(6, 1)))
        elif i % 3:
            rows.append((heap + i, i, rng.normal(0, 1)))
    source, target, score = map(np.array, zip(*rows))
    order = np.argsort(-score)
    mined = Mined(source[order], target[order], score[order])
    impostors = np.full(len(order), -np.inf)
    if found_by_others:
        finds = rng.random(len(order)) < 0.6
        impostors[finds] = rng.normal(3, 1, finds.sum())
    sizes = heap + 200, heap + len(kept)
    by_known, others = hidden.taken_out(mined, sizes)
    estimate, the_same = hidden.taken_out(mined, sizes, (Impostors(impostors, impostors, impostors > 0, 0),) * 2)
    assert {*the_same.source} == {*others.source} == {*range(400)}
    truth = [(others.source < 100)[others.score >= each.threshold].mean() for each in (by_known, estimate)]
    if not found_by_others:
        assert estimate == by_known
        return
    assert truth[0] < 0.8
    assert truth[1] > 0.85
    assert estimate.threshold > by_known.threshold
    assert estimate.low < truth[1] < estimate.high


def test_of_known_pairs_that_the_model_learnt_from_the_heaps_themselves_say_the_precision(
    heap, tmp_path, refusal, caplog
):
    shutil.copytree(heap / "links", tmp_path / "links")
    lines = (heap / "known.tsv").read_text(encoding="utf-8").splitlines()
    sides = list(zip(*(line.split("\t") for line in lines)))
    record = {"card": {"train_data": [{"name": "known", "revision": content_hash(*sides)}]}}
    (tmp_path / "links/results.json").write_text(json.dumps(record), encoding="utf-8")
    more = [*lines, lines[3], "hello\thello"]  # training leaves repeated and identical ones out
    (tmp_path / "known.tsv").write_text("".join(f"{line}\n" for line in more), encoding="utf-8")
    asked = {"lexical": tmp_path / "links", "precision": 0.9}
    for known in (heap / "known.tsv", tmp_path / "known.tsv"):
        caplog.clear()
        result = mined(heap, tmp_path, **asked, known=[str(known)])
        assert "the model has learnt from the known pairs" in caplog.text
        assert result.by_impostors
        assert result.estimate.precision >= 0.9
        assert "from what the texts themselves say; the recall is not known" in result.table()
        gold = set((heap / "gold.tsv").read_text(encoding="utf-8").splitlines())
        right = [f"{row.source}\t{row.target}" in gold for row in result.rows]
        assert len(right) > 40
        assert result.estimate.low < sum(right) / len(right) < result.estimate.high
        assert not {row.source for row in result.rows} & {*sides[0]}, "what is known already is not found again"
    honest = mined(heap, tmp_path, lexical=heap / "links", precision=0.9, known=[str(heap / "known.tsv")])
    assert not honest.by_impostors
    for more in ({"margin": "ratio"}, {"selection": "forward"}, {"unpaired": 0.5}):
        said = refusal(lambda more=more: mined(heap, tmp_path, **asked, known=[str(heap / "known.tsv")], **more))
        assert "leave out --unpaired, --margin and --selection" in said


def test_a_plan_writes_nothing(heap, tmp_path, capfd):
    main(words(heap, tmp_path / "pairs.tsv", "--plan"))
    said = capfd.readouterr().out
    assert all(name in said for name in ("disk", "memory", "encoding", "search", "180 and 180"))
    assert said.count(" second") == 3
    assert " 0.0 seconds" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_plan_does_not_reckon_with_what_only_a_short_search_is_slow_by(tmp_path, monkeypatch):
    module, clock, count = import_module("hfxling.sentences.mine"), [0.0], 20_000

    def compare(source, target, k, **options):
        clock[0] += 0.1 + 1e-6 * len(source) * len(target)  # preparation, and the search

    monkeypatch.setattr(blocks, "both_ways", compare)
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).standard_normal((count, 4)).astype(np.float32))
    sides = [[f"{name} {number}" for number in range(count)] for name in ("a", "b")]
    vectors = {"source_vectors": tmp_path / "a.npy", "target_vectors": tmp_path / "b.npy"}
    plan = hfxling.mine(*sides, languages=LANGUAGES, **vectors, plan=True)
    assert plan.compared == (2048, 2048)
    assert plan.search * 3600 == pytest.approx(1e-6 * count**2, rel=0.05)


def test_a_plan_with_candidates_encodes_and_searches_with_the_model_too(
    heap, tiny_sentence_transformer, zh_vi_pairs, tmp_path, monkeypatch
):
    module, widths = import_module("hfxling.sentences.mine"), []
    folder = tmp_path / "model"
    shutil.copytree(tiny_sentence_transformer, folder)
    model, links = SentenceEncoder(str(folder)), LexicalEncoder(str(heap / "links"))
    texts = dict(zip(LANGUAGES, zip(*zh_vi_pairs[:30])))
    vectors = {}
    for language in LANGUAGES:
        for role in ROLES:
            vectors[language, role] = model.encode(texts[language]), links.encode(texts[language], language, role)
    fold = vectors["zh", "query"], vectors["vi", "document"]
    fusion = fit_fusion([[(*fold, fold)]], vectors, lexical=weights_hash(heap / "links"), languages=LANGUAGES)
    fusion.save(folder)

    both_ways = blocks.both_ways

    def compare(source, target, k, **options):
        widths.append(source.shape[1])
        return both_ways(source, target, k, **options)

    monkeypatch.setattr(blocks, "both_ways", compare)
    monkeypatch.setattr(module, "_SEARCHED", 0)
    mined(heap, tmp_path, plan=True, candidates=8)
    assert {*widths} == {64}, "of static vectors"
    mined(heap, tmp_path, plan=True, candidates=8, model=folder, lexical=heap / "links")
    assert {*widths} == {64, model.dimension}


def test_a_stopped_search_goes_on_and_ends_alike(heap, tmp_path, monkeypatch):
    asked = {"output": tmp_path / "pairs.tsv", "shard": 50}
    mined(heap, tmp_path, **asked)
    expected = (tmp_path / "pairs.tsv").read_bytes()
    (tmp_path / "pairs.tsv").unlink()
    calls, both_ways = [], blocks.both_ways

    def stopped(*args, **options):
        calls.append(len(args[0].shape))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return both_ways(*args, **options)

    monkeypatch.setattr(blocks, "both_ways", stopped)
    with pytest.raises(KeyboardInterrupt):
        mined(heap, tmp_path, **asked)
    assert not (tmp_path / "pairs.tsv").exists()
    assert (tmp_path / "pairs.tsv.hfxling-parts").is_dir()
    with pytest.raises(ValueError, match="holds parts of a run with another k"):
        mined(heap, tmp_path, **asked, k=3)
    mined(heap, tmp_path, **asked)
    assert len(calls) == 3 + 14  # two of sixteen tiles were there
    assert (tmp_path / "pairs.tsv").read_bytes() == expected


@pytest.mark.slow
def test_a_killed_search_ends_alike(heap, killed, tmp_path):
    asked = words(heap, tmp_path / "pairs.tsv", "--shard", "20")
    main(asked)
    expected = (tmp_path / "pairs.tsv").read_bytes()
    (tmp_path / "pairs.tsv").unlink()
    killed(lambda: len(list(tmp_path.glob("pairs.tsv.hfxling-parts/*"))) >= 3, *asked)
    assert not (tmp_path / "pairs.tsv").exists()
    main(asked)
    assert (tmp_path / "pairs.tsv").read_bytes() == expected


@pytest.fixture
def cluster(monkeypatch):
    """Two workers of Ray on this machine."""
    ray = pytest.importorskip("ray", reason="needs ray: pip install 'hfxling[ray]'")
    from hfxling.sentences.ray import connect

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    connect(workers=2)
    yield
    ray.shutdown()


@pytest.mark.slow
def test_on_a_cluster_the_same_bytes(heap, tmp_path, cluster, capfd):
    for name, options in {"links": {}, "candidates": {"candidates": 20, "selection": "max"}}.items():
        for engine in ("local", "ray"):
            output = tmp_path / engine / f"{name}.parquet"
            mined(heap, output.parent, output=output, shard=70, engine=engine, **options)
            assert not output.with_name(f"{output.name}.hfxling-parts").exists()
        assert (tmp_path / "local" / output.name).read_bytes() == output.read_bytes()
    assert "ray" not in capfd.readouterr().err.lower()


def test_a_cluster_without_ray(heap, tmp_path, refusal, monkeypatch):
    monkeypatch.setattr(import_module("hfxling.sentences.mine"), "find_spec", lambda name: None)
    said = refusal(lambda: mined(heap, tmp_path, engine="ray"))
    assert said == "error: --engine ray needs the package ray: pip install 'hfxling[ray]'."


def test_warnings_of_boilerplate_and_other_languages(heap, tmp_path, caplog):
    mined(heap, tmp_path, sides=(heap / "heap.zh", heap / "heap.zh"))
    assert "target texts (100 %) are not in 'vi'; check the languages" in caplog.text
    caplog.clear()
    np.save(tmp_path / "a.npy", np.tile(np.eye(2, 8, dtype=np.float32), (90, 1)))
    mined(heap, tmp_path, source_vectors=tmp_path / "a.npy", target_vectors=tmp_path / "a.npy")
    assert "have the same target text as their best match" in caplog.text


MISTAKES = {
    "give --model, --lexical or both": {"lexical": None},
    "are written as .tsv or .parquet": {"output": "pairs.txt"},
    "k=500 neighbours, but one side has 180": {"k": 500},
    "cannot hold a block": {"memory": "1MiB"},
    "--known is used only with --precision": {"known": ["known.tsv"]},
    "leave out --unpaired, --margin and --selection": {"precision": 0.9, "margin": "ratio"},
    "--threshold, --top and --precision": {"top": 3, "threshold": 1.0},
    "threshold=nan: give a number": {"threshold": float("nan")},
    "top=0: give a count of pairs, such as 5000, or a share of them": {"top": 0},
    "top=1.5: give a count": {"top": 1.5},
    "top=-3: give a count": {"top": "-3"},
    "output=pairs.parquet is a folder; name a file": {"output": "pairs.parquet"},
    "precision=95 must lie between 0 and 1": {"precision": 95, "known": ["known.tsv"]},
    "6 known pairs": {"precision": 0.9, "known": ["few.tsv"]},
    "dedup='all' is not one of source, target, both": {"dedup": "all"},
    "filters='short' is not one of": {"filters": ["short"]},
    "margin='cosine' is not one of": {"margin": "cosine"},
    "terms=0: give 1 or more": {"terms": 0},
    "terms=9: give 1 or more, with --lexical and without --candidates": {"terms": 9, "candidates": 9},
    "engine='spark' is not one of local, ray": {"engine": "spark"},
    "languages=('zh', 'zh')": {"languages": ("zh", "zh")},
    "has parts for zh, vi and none for th": {"languages": ("zh", "th")},
    "give as many of both": {"source_vectors": "a.npy", "lexical": None},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes(heap, tmp_path, refusal, monkeypatch, message):
    monkeypatch.chdir(tmp_path)
    known = (heap / "known.tsv").read_text(encoding="utf-8")
    Path("known.tsv").write_text(known, encoding="utf-8")
    Path("pairs.parquet").mkdir()
    Path("few.tsv").write_text("".join(line + "\n" for line in known.split("\n")[:6]), encoding="utf-8")
    said = refusal(lambda: mined(heap, tmp_path, **{"output": "pairs.tsv"} | MISTAKES[message]))
    assert message in said
    assert not Path("pairs.tsv").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no sentence in it"), (b"\n \n", "no sentence in it"), (b"a\n\xff\xfe\n", "line 2: byte 2")],
)
def test_text_that_cannot_be_read(heap, tmp_path, content, message):
    (tmp_path / "bad.zh").write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        mined(heap, tmp_path, sides=(tmp_path / "bad.zh", heap / "heap.vi"))


def test_a_model_without_a_part_for_a_language(heap, tiny_bert, tmp_path):
    save_routed(tiny_bert, tmp_path / "routed", ("zh", "th"))
    with pytest.raises(ValueError, match="none for vi"):
        mined(heap, tmp_path, model=tmp_path / "routed")


def test_vectors_of_other_text(heap, tmp_path):
    np.save(tmp_path / "a.npy", np.ones((7, 4), np.float32))
    with pytest.raises(ValueError, match="7 vectors for 180 texts"):
        mined(heap, tmp_path, source_vectors=tmp_path / "a.npy", target_vectors=tmp_path / "a.npy")


def test_a_sentence_without_a_known_word_stops_no_static_model(tmp_path, caplog):
    known = save_static(tmp_path / "static")
    options = {"languages": ("zh", "vi"), "model": tmp_path / "static", "cache_dir": tmp_path / "cache"}
    options["progress"] = False
    texts = [*known, "zzz", "yyy"], [*known, "www", "vvv", "uuu"]
    for selection in ("mutual", "forward", "backward", "max"):
        caplog.clear()
        found = hfxling.mine(*texts, k=2, selection=selection, **options)
        pairs = {(row.source, row.target) for row in found.rows}
        assert {(text, text) for text in known} <= pairs
        assert {source for source, _ in pairs} | {target for _, target in pairs} == {*known}
        assert f"2 of {len(known) + 2} texts have no vector" in caplog.text
        assert "the first is 'www'" in caplog.text
    found = hfxling.mine(*texts, precision=0.5, **options)
    assert {(row.source, row.target) for row in found.rows} <= {(text, text) for text in known}
    with pytest.raises(ValueError, match=r"sentences have no vector: .* does not know the language"):
        hfxling.mine([f"zzz {i}" for i in range(30)], known, k=2, **options)


def test_two_sentences_without_a_known_word_are_no_pair_of_few(tmp_path):
    """Among few sentences each may be the best of the other by chance."""
    known = save_static(tmp_path / "static")[:4]
    options = {"languages": ("zh", "vi"), "model": tmp_path / "static", "cache_dir": tmp_path / "cache"}
    for number in range(20):
        found = hfxling.mine([*known, f"zzz{number}"], [*known, f"www{number}"], k=4, progress=False, **options)
        assert {row.source for row in found.rows} <= {*known}
        assert {row.target for row in found.rows} <= {*known}
