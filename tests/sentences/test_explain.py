"""Why a pair scores as it does."""

import shutil

import pytest
from safetensors.torch import load_file, save_file
from tiny_models import save_tiny

import hfxling
from hfxling.cli import main

PAIR = ("今天下雨。", "Hôm nay trời mưa.")


@pytest.fixture(scope="module")
def links(zh_vi_links):
    return hfxling.LexicalModel.from_pretrained(zh_vi_links)


def test_the_terms_add_up_to_the_score(links):
    result = hfxling.explain(*PAIR, model=links, top=3)
    queries = links.encode([PAIR[0]], "zh")
    documents = links.encode([PAIR[1]], "vi", "document")
    assert result.score == pytest.approx((queries @ documents.T).toarray().item(), abs=1e-4)
    lines = result.table().splitlines()
    assert len(lines) == 2 + 3 + 1
    assert "雨" in result.table()
    assert lines[-1].startswith(f"score {result.score:.3f} ({len(result.terms) - 3} more links add")
    with pytest.raises(ValueError, match="top=0"):
        hfxling.explain(*PAIR, model=links, top=0)


def test_the_command_says_the_same(links, zh_vi_links, capfd, refusal):
    main(["explain", *PAIR, "--model", str(zh_vi_links), "--top", "2", "--source_lang", "zh", "--target_lang", "vi"])
    assert capfd.readouterr().out.rstrip() == hfxling.explain(*PAIR, model=links, top=2).table()
    assert "xx" in refusal(lambda: hfxling.explain(*PAIR, model=links, languages=("zh", "xx")))
    assert "nowhere" in refusal(lambda: hfxling.explain(*PAIR, model="nowhere/at-all"))


def test_damaged_links_are_refused(zh_vi_links, tmp_path, refusal):
    shutil.copytree(zh_vi_links, tmp_path / "model")
    weights = load_file(tmp_path / "model/model.safetensors")
    columns = next(name for name in weights if name.endswith(".columns") and len(weights[name]))
    values = columns.replace("columns", "values")
    for name, value, message in ((columns, 2_000_000_000, "columns"), (values, float("nan"), "NaN")):
        damaged = {key: tensor.clone() for key, tensor in weights.items()}
        damaged[name][0] = value
        save_file(damaged, tmp_path / "model/model.safetensors", {"format": "pt"})
        assert message in refusal(lambda: hfxling.explain(*PAIR, model=tmp_path / "model"))


def test_links_beside_what_is_named_are_read(zh_vi_links, tmp_path, caplog):
    save_tiny("bert", tmp_path / "fit/model")
    place = tmp_path / "fit/lexical/model"
    shutil.copytree(zh_vi_links, place)
    wanted = hfxling.explain(*PAIR, model=place)
    assert wanted.terms
    for folder in ("fit/model", "fit"):
        with caplog.at_level("INFO"):
            assert hfxling.explain(*PAIR, model=tmp_path / folder) == wanted
        assert caplog.messages == [f"{tmp_path / folder}: its word links are read from {place}"]
        caplog.clear()


def test_links_that_a_score_asks_for_are_those_that_are_named(zh_vi_links, tmp_path, refusal):
    """What a cache is of must not lie outside the folder that was named."""
    save_tiny("bert", tmp_path / "fit/model")
    shutil.copytree(zh_vi_links, tmp_path / "fit/lexical/model")
    said = refusal(lambda: hfxling.nearest("今天下雨。", lexical=tmp_path / "fit/model", candidates=["Hôm nay."]))
    assert f"holds no word links, but {tmp_path / 'fit/lexical/model'}" in said
