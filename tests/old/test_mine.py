"""Two heaps in, pairs out: what is found, kept, dropped and resumed."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tiny_models import save_routed

import hfxling
from hfxling.old import bootstrap, mine
from hfxling.old.mined import COLUMNS
from hfxling.sentences import blocks

PAIRED, ALONE, KNOWN = 120, 60, 100


@pytest.fixture(scope="module")
def heap(tmp_path_factory) -> Path:
    """Shuffled text of both languages, known pairs, and a lexical encoder of other pairs."""
    folder = tmp_path_factory.mktemp("heap")
    rows = hfxling.load_parallel("sample", "zh", "vi")
    pairs = list(dict.fromkeys(zip(rows["source"], rows["target"])))
    pairs = list({zh: (zh, vi) for zh, vi in {vi: (zh, vi) for zh, vi in pairs}.values()}.values())
    random.Random(0).shuffle(pairs)
    known, pairs = pairs[:KNOWN], pairs[KNOWN:]
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


def words(heap: Path, output: Path, *more: str) -> list[str]:
    languages = ["--source_lang", "zh", "--target_lang", "vi", "--cache_dir", str(output.parent / "cache")]
    return [str(heap / "heap.zh"), str(heap / "heap.vi"), *languages, "--output", str(output), *more]


def links(heap: Path) -> list[str]:
    return ["--lexical", str(heap / "links")]


def read(path: Path) -> list[list[str]]:
    header, *rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    assert header == list(COLUMNS)
    return rows


def right(heap: Path, rows: list) -> float:
    gold = {tuple(line.split("\t")) for line in (heap / "gold.tsv").read_text(encoding="utf-8").splitlines()}
    return sum(tuple(row[1:3]) in gold for row in rows) / len(rows)


def test_links_find_the_pairs(heap, tmp_path, capsys):
    mine.main(words(heap, tmp_path / "pairs.tsv", *links(heap), "--top", "60"))
    rows = read(tmp_path / "pairs.tsv")
    assert len(rows) == 60
    assert right(heap, rows) > 0.8
    scores = [float(row[0]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    lines = {lang: (heap / f"heap.{lang}").read_text(encoding="utf-8").split("\n") for lang in ("zh", "vi")}
    for _, source, target, i, j, _ in rows:
        assert (lines["zh"][int(i) - 1], lines["vi"][int(j) - 1]) == (source, target)
    assert "60 pairs of 180 and 180 sentences" in capsys.readouterr().out
    assert not (tmp_path / "pairs.tsv.hfxling-parts").exists()


def test_a_share_of_the_pairs(heap, tmp_path):
    asked = [*links(heap), "--k", "2"]
    mine.main(words(heap, tmp_path / "all.tsv", *asked))
    mine.main(words(heap, tmp_path / "half.tsv", *asked, "--top", "0.5"))
    every, half = (read(tmp_path / name) for name in ("all.tsv", "half.tsv"))
    assert half == every[: round(len(every) / 2)]


def test_candidates_of_static_vectors_find_the_same_best_pairs(heap, tmp_path):
    mine.main(words(heap, tmp_path / "all.tsv", *links(heap), "--top", "60"))
    mine.main(words(heap, tmp_path / "few.tsv", *links(heap), "--top", "60", "--candidates", "40"))
    every, few = ({(i, j) for *_, i, j, _ in read(tmp_path / name)} for name in ("all.tsv", "few.tsv"))
    assert len(every & few) > 50


def test_few_weights_find_the_same_best_pairs_with_the_same_scores(heap, tmp_path):
    mine.main(words(heap, tmp_path / "all.tsv", *links(heap), "--top", "60"))
    mine.main(words(heap, tmp_path / "few.tsv", *links(heap), "--top", "60", "--terms", "100"))
    every, few = (
        {(*lines, score) for score, _, _, *lines, _ in read(tmp_path / name)} for name in ("all.tsv", "few.tsv")
    )
    assert len(every & few) > 50


def test_a_dense_model_and_parquet(heap, tiny_sentence_transformer, tmp_path):
    model = ["--model", str(tiny_sentence_transformer), "--threshold", "1.0"]
    mine.main(words(heap, tmp_path / "pairs.parquet", *model))
    table = pq.read_table(tmp_path / "pairs.parquet")
    assert table.column_names == list(COLUMNS)
    assert 0 < len(table) <= 180
    assert min(table["score"].to_pylist()) >= 1.0
    mine.main(words(heap, tmp_path / "pairs.tsv", *model, "--dtype", "bfloat16"))
    assert [row[3:5] for row in read(tmp_path / "pairs.tsv")] == [
        [str(x) for x in row] for row in zip(table["source_line"].to_pylist(), table["target_line"].to_pylist())
    ]


def test_vectors_of_ones_own(heap, tmp_path):
    vectors = np.random.default_rng(0).standard_normal((180, 16)).astype(np.float32)
    np.save(tmp_path / "a.npy", vectors)
    np.save(tmp_path / "b.npy", vectors[::-1])
    own = ["--source_vectors", str(tmp_path / "a.npy"), "--target_vectors", str(tmp_path / "b.npy")]
    mine.main(words(heap, tmp_path / "pairs.tsv", *own))
    rows = read(tmp_path / "pairs.tsv")
    assert len(rows) == 180
    assert all(int(i) + int(j) == 183 for *_, i, j, _ in rows)  # the first line of both files is empty


def test_a_threshold_for_a_wanted_precision(heap, tmp_path, capsys):
    asked = [*links(heap), "--precision", "0.8", "--known", str(heap / "known.tsv")]
    mine.main(words(heap, tmp_path / "pairs.tsv", *asked))
    rows, told = read(tmp_path / "pairs.tsv"), capsys.readouterr().out
    assert "estimated precision" in told
    assert "on 50 known pairs that did not choose it" in told
    assert right(heap, rows) > 0.6
    known = (heap / "known.tsv").read_text(encoding="utf-8")
    assert not any(row[1] in known or row[2] in known for row in rows)
    mine.main(words(heap, tmp_path / "given.tsv", *asked, "--unpaired", "0.9"))
    assert "90 % of the sources are taken" in capsys.readouterr().out
    assert len(read(tmp_path / "given.tsv")) <= len(rows)


def test_what_is_dropped(heap, tmp_path):
    text = (heap / "heap.zh").read_text(encoding="utf-8")
    (tmp_path / "twice.zh").write_text(text + text.replace("。", "。 "), encoding="utf-8")
    asked = words(heap, tmp_path / "pairs.tsv", *links(heap), "--selection", "forward")
    asked[0] = str(tmp_path / "twice.zh")
    mine.main(asked)
    every = read(tmp_path / "pairs.tsv")
    mine.main([*asked, "--dedup", "both"])
    once = read(tmp_path / "pairs.tsv")
    assert len({row[1] for row in once}) == len({row[2] for row in once}) == len(once) < len(every) == 360
    flagged = {flag for row in every for flag in row[5].split(",") if flag}
    mine.main([*asked, "--filters", "all"])
    assert flagged
    assert not any(row[5] for row in read(tmp_path / "pairs.tsv"))


def test_a_plan_writes_nothing(heap, tmp_path, capsys):
    mine.main(words(heap, tmp_path / "pairs.tsv", *links(heap), "--plan"))
    told = capsys.readouterr().out
    assert all(name in told for name in ("disk", "memory", "encoding", "search", "180 and 180"))
    assert not (tmp_path / "pairs.tsv").exists()


def test_a_stopped_search_goes_on_and_ends_alike(heap, tmp_path, monkeypatch):
    asked = words(heap, tmp_path / "pairs.tsv", *links(heap), "--shard", "50")
    mine.main(asked)
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
        mine.main(asked)
    assert not (tmp_path / "pairs.tsv").exists()
    assert (tmp_path / "pairs.tsv.hfxling-parts").is_dir()
    with pytest.raises(ValueError, match="holds shards of a search with another k"):
        mine.main([*asked, "--k", "3"])
    mine.main(asked)
    assert len(calls) == 3 + 14  # two of sixteen tiles were there
    assert (tmp_path / "pairs.tsv").read_bytes() == expected


@pytest.mark.slow
def test_a_killed_search_ends_alike(heap, tmp_path):
    command = [sys.executable, "-m", "hfxling", "mine"]
    asked = [*command, *words(heap, tmp_path / "pairs.tsv", *links(heap), "--shard", "20")]
    subprocess.run(asked, check=True, capture_output=True)
    expected = (tmp_path / "pairs.tsv").read_bytes()
    (tmp_path / "pairs.tsv").unlink()
    for moment in (5.0, 6.5):
        process = subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(asked, check=True, capture_output=True)
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
    asked = {"links": links(heap), "candidates": [*links(heap), "--candidates", "20", "--selection", "max"]}
    for name, words_of in asked.items():
        for engine in ("local", "ray"):
            output = tmp_path / engine / f"{name}.parquet"
            mine.main(words(heap, output, *words_of, "--shard", "70", "--engine", engine))
            assert not output.with_name(f"{output.name}.hfxling-parts").exists()
        assert (tmp_path / "local" / output.name).read_bytes() == output.read_bytes()
    assert "ray" not in capfd.readouterr().err.lower()


def test_a_cluster_without_ray(heap, tmp_path, refusal, monkeypatch):
    monkeypatch.setattr(mine, "find_spec", lambda name: None)
    said = refusal(lambda: mine.main(words(heap, tmp_path / "pairs.tsv", *links(heap), "--engine", "ray")))
    assert said == "error: --engine ray needs the package ray: pip install 'hfxling[ray]'."


@pytest.mark.slow
def test_with_rounds_it_is_bootstrap(heap, tmp_path, refusal, capfd):
    for name, command in (("mined", mine.main), ("bootstrapped", bootstrap.main)):
        asked = [str(heap / "heap.zh"), str(heap / "heap.vi"), "--source_lang", "zh", "--target_lang", "vi"]
        asked += ["--seed_pairs", str(heap / "known.tsv"), "--precision", "0.6", "--rounds", "0"]
        command([*asked, "--output", str(tmp_path / name)])
    files = [
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.tsv")}
        for name in ("mined", "bootstrapped")
    ]
    assert files[0] == files[1]
    assert len(read(tmp_path / "mined" / "pairs.tsv")) > 20
    capfd.readouterr()
    (tmp_path / "mine.yaml").write_text("rounds: 3\n", encoding="utf-8")
    asked = words(heap, tmp_path / "pairs.tsv", *links(heap), "--config", str(tmp_path / "mine.yaml"))
    assert "rounds=3 in a file" in refusal(lambda: mine.main(asked))


def test_warnings_of_boilerplate_and_other_languages(heap, tmp_path, caplog):
    (tmp_path / "heap.zh").write_text((heap / "heap.zh").read_text(encoding="utf-8"), encoding="utf-8")
    asked = words(heap, tmp_path / "pairs.tsv", *links(heap))
    asked[1] = asked[0]
    mine.main(asked)
    assert "target texts (100 %) are not in 'vi'; check the languages" in caplog.text
    caplog.clear()
    np.save(tmp_path / "a.npy", np.tile(np.eye(2, 8, dtype=np.float32), (90, 1)))
    own = ["--source_vectors", str(tmp_path / "a.npy"), "--target_vectors", str(tmp_path / "a.npy")]
    mine.main(words(heap, tmp_path / "own.tsv", *own))
    assert "have the same target text as best match" in caplog.text


MISTAKES = {
    "give --model, --lexical or both": [],
    "are written as .tsv or .parquet": ["--output", "pairs.txt"],
    "k=500 neighbours, but one side has 180": ["--k", "500"],
    "hold no block": ["--memory", "1MiB"],
    "--precision needs --known": ["--precision", "0.9"],
    "--threshold, --top and --precision": ["--top", "3", "--threshold", "1"],
    "top=0: give a count of pairs, such as 5000, or a share of them": ["--top", "0"],
    "top=1.5: give a count": ["--top", "1.5"],
    "top=-3: give a count": ["--top", "-3"],
    "output=pairs.parquet is a folder; name a file": ["--output", "pairs.parquet"],
    "precision=95.0 must lie between 0 and 1": ["--precision", "95", "--known", "known.tsv"],
    "6 known pairs": ["--precision", "0.9", "--known", "few.tsv"],
    "dedup='all' is not one of source, target, both": ["--dedup", "all"],
    "filters: short is not one of": ["--filters", "short"],
    "margin='cosine' is not one of": ["--margin", "cosine"],
    "terms=0: give 1 or more": ["--terms", "0"],
    "terms=9: give 1 or more, with --lexical and without --candidates": ["--terms", "9", "--candidates", "9"],
    "engine='spark' is not one of local, ray": ["--engine", "spark"],
    "languages": ["--target_lang", "zh"],
    "not one of this model's": ["--target_lang", "th"],
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes(heap, tmp_path, refusal, monkeypatch, message):
    monkeypatch.chdir(tmp_path)
    known = (heap / "known.tsv").read_text(encoding="utf-8")
    Path("known.tsv").write_text(known, encoding="utf-8")
    Path("pairs.parquet").mkdir()
    Path("few.tsv").write_text("".join(line + "\n" for line in known.split("\n")[:6]), encoding="utf-8")
    model = [] if message.startswith("give") else links(heap)
    said = refusal(lambda: mine.main(words(heap, tmp_path / "pairs.tsv", *model, *MISTAKES[message])))
    assert message in said
    assert not Path("pairs.tsv").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "no sentence in it"), (b"\n \n", "no sentence in it"), (b"a\n\xff\xfe\n", "line 2: byte 2")],
)
def test_text_that_cannot_be_read(heap, tmp_path, refusal, content, message):
    (tmp_path / "bad.zh").write_bytes(content)
    asked = words(heap, tmp_path / "pairs.tsv", *links(heap))
    asked[0] = str(tmp_path / "bad.zh")
    assert message in refusal(lambda: mine.main(asked))


def test_a_model_without_a_part_for_a_language(heap, tiny_bert, tmp_path, refusal):
    save_routed(tiny_bert, tmp_path / "routed", ("zh", "th"))
    asked = words(heap, tmp_path / "pairs.tsv", "--model", str(tmp_path / "routed"))
    assert "none for vi" in refusal(lambda: mine.main(asked))


def test_vectors_of_other_text(heap, tmp_path, refusal):
    np.save(tmp_path / "a.npy", np.ones((7, 4), np.float32))
    own = ["--source_vectors", str(tmp_path / "a.npy"), "--target_vectors", str(tmp_path / "a.npy")]
    asked = words(heap, tmp_path / "pairs.tsv", *own)
    assert "7 vectors for 180 texts" in refusal(lambda: mine.main(asked))
    assert "go together" in refusal(lambda: mine.main(asked[:-2]))
