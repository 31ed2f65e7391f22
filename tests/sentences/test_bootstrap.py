"""From seed pairs and two heaps to a bitext, a model and their record."""

import json
import random
import re
from pathlib import Path

import pytest
from peft import LoraConfig, get_peft_model
from transformers import AutoModel, AutoTokenizer

import hfxling
from hfxling.cli import main
from hfxling.encoders.loading import load_encoder
from hfxling.evaluation.results import read_results
from hfxling.files import files_of
from hfxling.sentences.bootstrap import Bootstrapped, can_have_head, models_of
from hfxling.sentences.grow import Round
from hfxling.sentences.precision import Precision


@pytest.fixture(scope="module")
def heap(tmp_path_factory, zh_vi_pairs) -> Path:
    """Shuffled text of both languages and seed pairs."""
    folder = tmp_path_factory.mktemp("heap")
    pairs = zh_vi_pairs
    for side, lang in ((0, "zh"), (1, "vi")):
        alone = pairs[220:280] if side == 0 else pairs[280:340]
        lines = [pair[side] for pair in pairs[100:220] + alone]
        random.Random(lang).shuffle(lines)
        lines.insert(0, " ".join(pair[side] for pair in pairs[340:370]))  # longer than a file may be called
        (folder / f"heap.{lang}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "seed.tsv").write_text("".join(f"{zh}\t{vi}\n" for zh, vi in pairs[:100]), encoding="utf-8")
    return folder


def test_the_command_and_the_function_do_the_same(heap, tmp_path, capfd):
    sides = [str(heap / "heap.zh"), str(heap / "heap.vi")]
    asked = [*sides, "--seed_pairs", str(heap / "seed.tsv"), "--source_lang", "zh", "--target_lang", "vi"]
    main(["bootstrap", *asked, "--precision", "0.6", "--rounds", "0", "--output", str(tmp_path / "out")])
    said = capfd.readouterr().out
    seed = [list(side) for side in zip(*(row.split("\t") for row in (heap / "seed.tsv").read_text().splitlines()))]
    texts = [Path(side).read_text(encoding="utf-8").splitlines() for side in sides]
    result = hfxling.bootstrap(*texts, seed_pairs=seed, languages=("zh", "vi"), precision=0.6, rounds=0)
    assert said.rstrip() == result.table()
    assert len(result.rounds) == 1
    assert len(result.pairs) > 20
    result.save(tmp_path / "again")
    files = files_of(tmp_path / "out")
    assert files == files_of(tmp_path / "again")
    for name in files - {"rounds.json"}:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    records = [json.loads((tmp_path / name / "rounds.json").read_text()) for name in ("out", "again")]
    assert records[0]["rounds"] == records[1]["rounds"]
    assert records[0]["settings"]["seed_pairs"] == [str(heap / "seed.tsv")]
    assert records[1]["settings"]["source"] == "texts in memory"
    assert set(records[0]["files"]) == files - {"rounds.json"}
    (row,) = read_results(tmp_path / "out" / "model" / "results.json")
    assert (row.value, row.n) == (pytest.approx(100 * result.best.estimate.precision), len(result.pairs))
    card = (tmp_path / "out" / "model" / "README.md").read_text(encoding="utf-8")
    assert "estimated precision" in card
    assert "has not been evaluated" not in card
    assert re.search(r"\| seed and mined pairs \| \w{16} ", card), "the training text"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": -1}, "rounds=-1: give 0 or more"),
        ({"precision": 95}, "precision=95 must lie between 0 and 1"),
        ({"dedup": "all"}, "dedup='all' is not one of"),
        ({"filters": ["short"]}, "filters='short' is not one of"),
        ({"languages": ("zh", "zh")}, "languages=('zh', 'zh')"),
        ({"seed_pairs": [["我"], ["toi"]]}, "1 known pairs"),
        ({"seed_pairs": [("我", "toi")] * 3}, "a list of 3: give files, or two lists of equal length"),
    ],
)
def test_mistakes(heap, refusal, options, message):
    asked = {"seed_pairs": [str(heap / "seed.tsv")], "languages": ("zh", "vi")} | options
    assert message in refusal(lambda: hfxling.bootstrap(heap / "heap.zh", heap / "heap.vi", **asked))


def test_a_plain_encoder_ends_with_what_fit_makes(tiny_sentence_transformer, tmp_path):
    """The links are taken along as `fit` writes them; an encoder in memory gets links alone."""
    rows = hfxling.load_parallel("sample", "zh", "vi")
    learnt = list(rows["source"][:80]), list(rows["target"][:80])
    encoder = load_encoder(tiny_sentence_transformer)
    model, fused = models_of(learnt, ("zh", "vi"), encoder, cache_dir=tmp_path / "cache")
    assert model is None
    estimate = Precision(1.0, 0.9, 0.8, 0.95, 0.7, 0.5, 100)
    best = Round(0, 0, 9, 6, 4, estimate)
    Bootstrapped([], None, fused, [best], {"languages": ["zh", "vi"]}, best).save(tmp_path / "out")
    loaded = load_encoder(tmp_path / "out/model", tmp_path / "out/lexical/model", trust_remote_code=True)
    assert loaded.encode(["我"], "zh", "query").shape[0] == 1
    record = json.loads((tmp_path / "out/rounds.json").read_text(encoding="utf-8"))
    assert {"pairs.tsv", "model/config.json", "model/fusion.json", "lexical/model/config.json"} <= {*record["files"]}
    for folder in ("model", "lexical/model"):
        rows = read_results(tmp_path / "out" / folder / "results.json")
        assert {row.dataset for row in rows} == {"mined pairs"}
        assert rows[-1].value == 90.0
    assert not can_have_head(load_encoder(encoder.model))


def test_an_adapter_is_refused_before_anything_is_mined(heap, tiny_bert, tmp_path, refusal):
    """sentence-transformers loads it with its encoder, but `fit` has no head on it."""
    adapted = get_peft_model(AutoModel.from_pretrained(tiny_bert), LoraConfig(r=2, target_modules=["query"]))
    adapted.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    said = refusal(
        lambda: hfxling.bootstrap(heap / "heap.zh", heap / "heap.vi", model=tmp_path, languages=("zh", "vi"))
    )
    assert "holds a LoRA adapter alone: merge it" in said


def test_an_encoder_with_code_of_its_own(encoder_with_code, tmp_path, refusal):
    """Without leave to run its code it is refused before anything is mined, and not after hours of rounds."""
    assert "brings code of its own; look at it" in refusal(lambda: load_encoder(encoder_with_code))
    encoder = load_encoder(encoder_with_code, trust_remote_code=True)
    assert can_have_head(encoder)
    rows = hfxling.load_parallel("sample", "zh", "vi")
    learnt = list(rows["source"][:80]), list(rows["target"][:80])
    _, fused = models_of(learnt, ("zh", "vi"), encoder, cache_dir=tmp_path / "cache")
    assert fused.candidate("head").needs_remote_code
