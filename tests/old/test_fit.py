"""Pairs in, the best model for them out: what competes, what is written, what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
from builders import sentence_pairs
from sentence_transformers import SentenceTransformer

import hfxling
from hfxling.cli import main
from hfxling.methods.siamese.data import PairVectors
from hfxling.old import fit
from hfxling.old.contest import Contest
from hfxling.old.fit import FitArguments

PAIRS = sentence_pairs(60)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    for side, lang in enumerate(("zh", "vi")):
        (folder / f"my.{lang}").write_text("".join(f"{pair[side]}\n" for pair in PAIRS), encoding="utf-8")
    return folder


def run(text: Path, output: Path, *more: str) -> str:
    sides = [str(text / "my.zh"), str(text / "my.vi")]
    return fit.main([*sides, "--languages", "zh", "vi", "--output", str(output), *more])


@pytest.fixture(scope="module")
def fused(text, tiny_bert, tmp_path_factory) -> Path:
    """What --choose fused writes."""
    output = tmp_path_factory.mktemp("fused")
    cwd = pytest.MonkeyPatch()
    cwd.chdir(output)  # the cache of vectors lies below the working directory
    assert run(text, output, "--model", str(tiny_bert), "--choose", "fused") == "fused"
    cwd.undo()
    return output


def test_links_need_no_model(text, tmp_path, capsys):
    name = run(text, tmp_path)
    shown = capsys.readouterr().out
    assert name in ("static", "sparse")
    assert f"{name} is written" in shown
    assert "60 pairs left out in turn, 5 fold(s) of 12" in shown
    content = json.loads((tmp_path / "model" / "results.json").read_text(encoding="utf-8"))
    assert {*content["competed"]} == {"static", "sparse"}
    assert content["competed"][name] == max(content["competed"].values()) > 50
    assert {row["settings"]["stage"] for row in content["results"]} == {"after"}
    assert "hfxling fit" in (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert SentenceTransformer(str(tmp_path / "model"), device="cpu").encode([PAIRS[0][0]]).shape[0] == 1


def test_dense_and_sparse_are_written_together(fused, capsys):
    folders = ["--model", str(fused / "model"), "--lexical", str(fused / "lexical" / "model")]
    candidates = fused / "candidates.txt"
    candidates.write_text("".join(f"{target}\n" for _, target in PAIRS), encoding="utf-8")
    flag = ["--trust_remote_code", "true"]  # it may be on several layers
    main(["nearest", PAIRS[7][0], "--candidates", str(candidates), "--top", "1", *folders, *flag])
    assert capsys.readouterr().out.rstrip().endswith(PAIRS[7][1])
    content = json.loads((fused / "model" / "results.json").read_text(encoding="utf-8"))
    assert {"encoder", "head", "static", "sparse", "fused"} <= {*content["competed"]}
    assert {row["settings"]["stage"] for row in content["results"]} == {"before", "after"}


def test_only_what_is_wanted_competes_with_what_it_is_made_of(text, tiny_bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sides = [str(text / "my.zh"), str(text / "my.vi")]

    def names(*only):
        contest = Contest(FitArguments(pairs=sides, languages=["zh", "vi"], model=str(tiny_bert), only=[*only]))
        contest.run()
        assert all(len(entry.ranks) == 5 for entry in contest.entries)
        return [entry.name for entry in contest.entries]

    assert names("head") == ["encoder", "head"]
    assert names("sparse") == ["static", "sparse"]
    fused = names("fused")
    assert [name for name in fused if name not in ("head", "layers")] == ["encoder", "static", "sparse", "fused"]
    assert len(fused) == 5  # one head, not both


def test_nothing_learns_from_the_pairs_that_are_left_out(text, tiny_bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sides = [str(text / "my.zh"), str(text / "my.vi")]
    contest = Contest(FitArguments(pairs=sides, languages=["zh", "vi"], model=str(tiny_bert)))
    assert sorted(np.concatenate(contest.folds).tolist()) == list(range(60))
    held = contest.folds[0]
    kept = np.setdiff1d(np.arange(60), held)
    before = contest._rank_heads(kept, held)(0, kept)
    contest.vectors.vectors = {
        view: PairVectors(tuple(np.where(np.isin(np.arange(60), held)[:, None], 7, x) for x in vectors.train), ())
        for view, vectors in contest.vectors.vectors.items()
    }
    args, run = list(contest.heads.values())[-1]
    np.testing.assert_array_equal(contest._refitted(args, run.reached, kept)(0, kept), before)
    model = contest._rank_links(kept, held)
    alone = hfxling.fit_lexical(*(contest._texts(side, kept) for side in (0, 1)), ("zh", "vi"))
    assert {name: tensor.tolist() for name, tensor in model.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in alone.state_dict().items()
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--languages", "zh"], "languages=['zh']: give the codes of two languages"),
        (["--languages", "zh", "zh"], "give the codes of two languages"),
        (["--only", "heads"], "heads is not one of head, layers"),
        (["--only", "static", "--choose", "sparse"], "choose='sparse' does not compete"),
        (["--choose", "head"], "'head' needs an encoder: give --model"),
        (["--choose", "best"], "choose='best' is not one of head"),
        (["--model", "no/where"], "base_model='no/where'"),
    ],
)
def test_mistakes_are_one_line(text, tmp_path, monkeypatch, refusal, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in refusal(lambda: run(text, tmp_path / "out", *words))
    assert not (tmp_path / "out").exists()


def test_too_few_pairs_are_refused(tmp_path, refusal):
    for lang in ("zh", "vi"):
        (tmp_path / f"my.{lang}").write_text("我爱你\n" if lang == "zh" else "tôi\n", encoding="utf-8")
    assert "1 pairs are too few; give 10 or more" in refusal(lambda: run(tmp_path, tmp_path / "out"))
