"""The quality command on a tiny encoder: lines kept in order, faults, calibration, warnings, languages."""

import json
import math
import random
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from transformers import AutoTokenizer

import hfxling
from hfxling import fit_lexical
from hfxling.cli import main
from hfxling.console import run as run_recipe
from hfxling.data import faults
from hfxling.data.sample import sample_texts
from hfxling.encoders.loading import load_encoder
from hfxling.encoders.protocol import Encoder
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.evaluation import quality
from hfxling.evaluation.calibration import Calibration
from hfxling.hub.writing import export
from hfxling.models import LexicalModel, SiameseConfig, SiameseModel

LOADED = cache(load_encoder)


@pytest.fixture(scope="module")
def model(tiny_sentence_transformer) -> Path:
    return tiny_sentence_transformer


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Each model is loaded once, and the finders of these short files' faults know only what holds for any file."""
    monkeypatch.setattr(quality, "load_encoder", LOADED)
    monkeypatch.setattr(faults, "LANGUAGES", ())


@pytest.fixture(scope="module")
def pairs():
    return list(zip(*(sample_texts(lang, "train", generated=0)[:60] for lang in ("en", "id"))))


@pytest.fixture(scope="module")
def lexical(pairs, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    fit_lexical(*zip(*pairs[:50]), ("en", "id"), rank=4).save_pretrained(folder)
    return folder


@pytest.fixture
def table(tmp_path, pairs) -> Path:
    return write(tmp_path / "pairs.tsv", pairs)


def write(path: Path, rows) -> Path:
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


def run(model, *data, **options) -> list[list[str]]:
    """Cells of the lines that are written."""
    languages = (options.pop("source_lang", "en"), options.pop("target_lang", "id"))
    result = hfxling.quality(*map(str, data), model=model, languages=languages, **options)
    sys.stdout.write(result.table())
    if "output" in options:
        assert Path(options["output"]).read_text(encoding="utf-8") == result.to_text()
    return [line.split("\t") for line in result.to_text().rstrip("\n").split("\n")]


def test_scores_are_cosines_in_the_order_of_the_lines(model, table, pairs, monkeypatch):
    monkeypatch.setattr(quality, "BLOCK", 7)
    written = run(model, table)
    encoder = SentenceTransformer(str(model))
    source, target = (encoder.encode([pair[side] for pair in pairs], normalize_embeddings=True) for side in (0, 1))
    np.testing.assert_allclose([float(score) for score, _ in written], (source * target).sum(1), atol=2e-5)
    assert [flags for _, flags in written] == [""] * len(pairs)


def test_a_folder_of_heads_gives_that_of_the_two_languages(model, tmp_path, table):
    heads = tmp_path / "heads"
    for pair in ("en-id", "de-en"):
        (heads / pair).mkdir(parents=True)
        (heads / pair / "model").symlink_to(model)
    expected = run(model, table)
    assert run(heads, table) == expected
    assert run(heads, table, source_lang="id", target_lang="en") == run(
        model, table, source_lang="id", target_lang="en"
    )
    with pytest.raises(ValueError, match=r"heads has heads for de-en, en-id, none for en-vi; train one"):
        run(heads, table, target_lang="vi")


def test_planted_errors_get_their_flags(model, tmp_path, pairs, capsys):
    rows = [*pairs, (pairs[0][0], pairs[0][0]), (pairs[1][0], pairs[1][1] + " " + pairs[1][1])]
    written = run(model, write(tmp_path / "pairs.tsv", rows))
    assert "copy" in written[-2][1].split(",")
    assert "repeated" in written[-1][1].split(",")
    assert f"{len(rows)} pairs" in capsys.readouterr().out


def test_header_where_the_input_has_one(model, tmp_path, pairs):
    written = run(model, write(tmp_path / "pairs.tsv", [("target", "source"), *((t, s) for s, t in pairs)]))
    assert written[0] == ["score", "flags"]
    assert len(written) == len(pairs) + 1


def test_two_aligned_files(model, tmp_path, table, pairs):
    sides = [write(tmp_path / f"text.{i}", [(pair[i],) for pair in pairs]) for i in (0, 1)]
    assert run(model, *sides) == run(model, table)


def test_columns_are_picked_after_a_hash(model, tmp_path, table, pairs):
    turned = write(tmp_path / "turned.tsv", [(target, "x", source) for source, target in pairs])
    assert run(model, f"{turned}#2,0") == run(model, table)


@pytest.mark.parametrize("fault", ["\tx", "x\t", "", "x", "a\tb\tc"])
def test_faulty_lines(model, tmp_path, pairs, capsys, fault):
    path = write(tmp_path / "pairs.tsv", [*pairs[:3], (fault,), *pairs[3:]])
    with pytest.raises(ValueError, match=r"pairs\.tsv, line 4: "):
        run(model, path)
    assert [file.name for file in tmp_path.iterdir()] == ["pairs.tsv"]
    written = run(model, path, skip_bad=True)
    assert len(written) == len(pairs) + 1
    assert written[3] == ["", "empty"]
    assert all(score for score, _ in written[:3] + written[4:])


def scored(model, table, pairs):
    """Human scores that follow the cosines, with a gap in every fifth line."""
    rng = random.Random(0)
    cosines = [float(score) for score, _ in run(model, table)]
    return [
        (*pair, "" if i % 5 == 0 else f"{100 * cosine - 5 + rng.gauss(0, 0.1):.3f}")
        for i, (pair, cosine) in enumerate(zip(pairs, cosines))
    ]


def test_calibration_from_a_column_with_gaps(model, tmp_path, table, pairs, capsys):
    gold = write(tmp_path / "gold.tsv", [("source", "target", "da"), *scored(model, table, pairs)])
    written = run(model, gold, human="da", output=tmp_path / "out.tsv")
    assert written[0] == ["score", "flags", "calibrated"]
    for score, _, calibrated in written[1:]:
        assert float(calibrated) == pytest.approx(100 * float(score) - 5, abs=1)
    assert "linear calibration on 48 pairs, errors by cross-validation" in capsys.readouterr().out
    assert Calibration.load(tmp_path / "out.calibration.json").pairs == 48


def test_calibration_from_another_file_and_from_an_earlier_run(model, tmp_path, table, pairs, caplog):
    gold = write(tmp_path / "gold.tsv", [("source", "target", "da"), *scored(model, table, pairs)])
    first = run(model, table, human="da", calibrate=gold, output=tmp_path / "out.tsv")
    assert len(first) == len(pairs)
    again = run(model, table, calibration=tmp_path / "out.calibration.json")
    assert again == first
    assert "was fitted for" not in caplog.text
    run(model, table, calibration=tmp_path / "out.calibration.json", source_lang="ms")
    assert "'source_lang': 'en'" in caplog.text


def test_calibrated_scores_stay_empty_where_there_is_none(model, tmp_path, table, pairs):
    rows = [*scored(model, table, pairs), ("", "x", "")]
    gold = write(tmp_path / "gold.tsv", [("source", "target", "da"), *rows])
    assert run(model, gold, human="da", skip_bad=True)[-1] == ["", "empty", ""]


def test_a_language_the_encoder_lacks_is_warned_of(model, tmp_path, caplog):
    rows = zip(*(sample_texts(lang, "train", generated=0)[:60] for lang in ("en", "lo")))
    run(model, write(tmp_path / "pairs.tsv", rows), target_lang="lo")
    assert "'lo' is badly covered by tokenizer" in caplog.text
    assert "'en' is badly covered" not in caplog.text


def test_swapped_languages_are_pointed_out(model, table, capsys):
    run_recipe(lambda: run(model, table, source_lang="id", target_lang="th"))
    said = capsys.readouterr()
    assert "warning: most targets are not in 'th'; check the languages" in said.err
    assert "most targets" not in said.out


def test_each_language_takes_its_own_map(tiny_bert, tmp_path, table, pairs):
    head = {"hidden_size": 16, "per_language": True, "languages": ["en", "id"]}
    assert SiameseConfig(**head).needs_language
    siamese = SiameseModel.from_encoder(str(tiny_bert), layer=2, identity=False, **head)
    export(siamese, AutoTokenizer.from_pretrained(tiny_bert), tmp_path / "model", max_length=32)
    encoder = SentenceTransformer(str(tmp_path / "model"))
    source = encoder.encode([pairs[0][0]], task="en", normalize_embeddings=True)
    target = encoder.encode([pairs[0][1]], task="id", normalize_embeddings=True)
    written = run(tmp_path / "model", table)
    assert float(written[0][0]) == pytest.approx(float((source @ target.T).item()), abs=2e-5)
    with pytest.raises(ValueError, match="model has parts for en, id and none for ms"):
        run(tmp_path / "model", table, target_lang="ms")


def test_links_beside_the_cosine_and_alone(model, lexical, table, pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(quality, "BLOCK", 7)
    cosines = [score for score, _ in run(model, table)]
    expected = LexicalEncoder(str(lexical)).score(*zip(*pairs), ("en", "id"))
    both = run(model, table, lexical=lexical)
    assert [score for score, _, _ in both] == cosines
    np.testing.assert_allclose([float(links) for _, links, _ in both], expected, atol=2e-6)
    titled = write(tmp_path / "titled.tsv", [("source", "target"), *pairs])
    alone = run(None, titled, lexical=lexical)
    assert alone[0] == ["links", "flags"]
    assert alone[1:] == [line[1:] for line in both]


def test_a_pair_of_which_no_segment_is_known_has_no_link_score(model, lexical, tmp_path, pairs, caplog):
    rows = [*pairs, (pairs[0][0], "ꙮꙮ ꙮ"), ("", "x")]
    written = run(model, write(tmp_path / "pairs.tsv", rows), lexical=lexical, skip_bad=True)
    assert [links == "" for _, links, _ in written] == [False] * len(pairs) + [True, True]
    assert written[-2][0]
    assert f"1 of {len(rows)} pairs have a side in which {lexical} knows no segment" in caplog.text


def linked(model, lexical, table, pairs):
    """Human scores that follow links more than cosines."""
    rng = random.Random(1)
    lines = run(model, table, lexical=lexical)
    return [
        (*pair, f"{5 * float(score) + float(links) + rng.gauss(0, 0.02):.3f}")
        for pair, (score, links, _) in zip(pairs, lines)
    ]


def test_cosine_and_links_are_calibrated_together(model, lexical, tmp_path, table, pairs, capsys, caplog):
    rows = linked(model, lexical, table, pairs)
    gold = write(tmp_path / "gold.tsv", [("source", "target", "da"), *rows, (pairs[0][0], "ꙮꙮ ꙮ", "1")])
    out = tmp_path / "out.tsv"
    written = run(model, gold, human="da", lexical=lexical, output=out)
    assert written[0] == ["score", "links", "flags", "calibrated"]
    assert written[-1][1] == written[-1][3] == ""
    for line, (_, _, human) in zip(written[1:], rows):
        assert float(line[3]) == pytest.approx(float(human), abs=0.5)
    fitted = Calibration.load(tmp_path / "out.calibration.json")
    assert {"cosine", "links"} <= {*fitted.features}
    assert fitted.pairs == len(pairs)
    assert "calibration of cosine + links" in capsys.readouterr().out
    assert json.loads((tmp_path / "out.calibration.json").read_text())["settings"]["lexical"] == str(lexical)
    again = run(model, table, calibration=tmp_path / "out.calibration.json", lexical=lexical)
    assert again == written[1:-1]
    assert "was fitted for" not in caplog.text
    with pytest.raises(ValueError, match=r"is a calibration of cosine and links: links needs lexical"):
        run(model, table, calibration=tmp_path / "out.calibration.json")


def test_links_alone_are_calibrated(model, lexical, tmp_path, table, pairs):
    gold = write(tmp_path / "gold.tsv", [("source", "target", "da"), *linked(model, lexical, table, pairs)])
    written = run(None, gold, human="da", lexical=lexical, output=tmp_path / "out.tsv")
    assert written[0] == ["links", "flags", "calibrated"]
    fitted = Calibration.load(tmp_path / "out.calibration.json")
    assert "cosine" not in fitted.features
    assert {"links", "mean"} <= {choice.partition(",")[0] for choice in fitted.errors}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_lang": "en"}, "languages=('en', 'en'): give the codes of two languages"),
        ({"calibrate": "x.tsv"}, "calibrate needs human: the column of human scores"),
        ({"calibration": "x.json"}, "x.json: no such calibration"),
        ({"calibration": "x.json", "human": "da"}, "replaces human and calibrate"),
        ({"human": "da"}, "no column 'da' among"),
        ({"human": "2"}, "3 are needed"),
        ({"data": "{table}@1-99"}, "60 records, but lines='1-99' asks for more"),
        ({"data": "{table}#0,source"}, "no column '0' among"),
        ({"data": "{table}+none.txt"}, "none.txt does not exist"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"output": "{folder}/q.parquet"}, "it is written as plain text; give a name without .parquet"),
        ({"data": "none.tsv"}, "none.tsv does not exist"),
        ({"output": "{folder}/a.json", "human": "da", "calibrate": "{folder}/a.calibration.json"}, "is read, too"),
        ({"model": "no/such folder"}, "model='no/such folder' is neither the folder"),
        ({"model": None}, "nothing to score pairs with: give a model, a lexical one, or both"),
        ({"lexical": "no/such folder"}, "lexical='no/such folder' is neither the folder of a lexical model"),
        ({"lexical": "{lexical}", "target_lang": "vi"}, "'vi' is not one of this model's: en, id"),
        ({"lexical": "{model}"}, "is no lexical model"),
    ],
)
def test_errors_are_one_line(model, lexical, table, refusal, options, message):
    data = str(options.pop("data", table)).replace("{table}", str(table))
    names = {"lexical": lexical, "model": model, "folder": model.parent}
    (model.parent / "a.calibration.json").touch()
    for key, value in options.items():
        if isinstance(value, str):
            options[key] = value.format(**names)
    assert message in refusal(lambda: run(options.pop("model", model), data, **options))
    assert [file.name for file in table.parent.iterdir()] == ["pairs.tsv"]


def test_texts_in_memory_with_human_scores_and_the_model_as_an_object(model, tmp_path, table, pairs):
    rows = scored(model, table, pairs)
    source, target, human = zip(*rows)
    gold = write(tmp_path / "gold.tsv", [("source", "target", "da"), *rows])
    expected = hfxling.quality(gold, languages=("en", "id"), model=model, human="da")
    result = hfxling.quality(
        source,
        target,
        languages=("en", "id"),
        model=SentenceTransformer(str(model)),
        human=[one or None for one in human],
    )
    np.testing.assert_array_equal(result.calibrated, expected.calibrated)
    gaps = np.array([float(one) if one else np.nan for one in human], np.float32)
    of_array = hfxling.quality(source, target, languages=("en", "id"), model=model, human=gaps)
    np.testing.assert_allclose(of_array.calibrated, expected.calibrated, rtol=1e-5)
    with pytest.raises(
        ValueError, match="column 'da' can only be read from a table; for texts in memory give the values themselves"
    ):
        hfxling.quality(source, target, languages=("en", "id"), model=model, human="da")
    with pytest.raises(ValueError, match="59 human scores for 60 pairs"):
        hfxling.quality(source, target, languages=("en", "id"), model=model, human=human[1:])


class Damaged(Encoder):
    """An encoder whose weights hold NaN."""

    def __init__(self):
        super().__init__("damaged", "damaged", ("en", "id"))

    def _vectors(self, texts, route, role, progress):
        return np.full((len(texts), 4), np.nan, np.float32)


def test_vectors_that_are_no_numbers_are_refused(lexical, pairs, refusal):
    source, target = zip(*pairs)
    assert "damaged gives vectors with NaN" in refusal(lambda: hfxling.quality(source, target, model=Damaged()))
    links = LexicalModel.from_pretrained(lexical)
    for weights in links.parameters():
        weights.data.fill_(math.nan)
    for weights in links.buffers():
        if weights.is_floating_point():
            weights.fill_(math.nan)
    assert "hold NaN" in refusal(lambda: hfxling.quality(source, target, lexical=links))


def test_the_command_says_the_same(model, lexical, table, tmp_path, capsys):
    result = hfxling.quality(table, languages=("en", "id"), model=model, lexical=lexical)
    words = ["quality", str(table), "--languages", "en", "id", "--model", str(model), "--lexical", str(lexical)]
    main(words)
    said = capsys.readouterr()
    assert said.out == result.to_text()
    assert result.table() in said.err
    main([*words, "--output", str(tmp_path / "out.tsv")])
    assert capsys.readouterr().out.rstrip() == result.table()
    assert (tmp_path / "out.tsv").read_text(encoding="utf-8") == result.to_text()
