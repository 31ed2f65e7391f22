"""Why a pair scores as it does."""

import pytest

import hfxling
from hfxling.cli import main

PAIR = ("今天下雨。", "Hôm nay trời mưa.")


@pytest.fixture(scope="module")
def links():
    rows = hfxling.load_parallel("sample", "zh", "vi")
    return hfxling.fit_lexical(rows["source"], rows["target"], ("zh", "vi"), rank=32, progress=False)


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


def test_the_command_says_the_same(links, tmp_path, capfd, refusal):
    hfxling.save_lexical(links, tmp_path / "model")
    main(
        [
            "explain",
            *PAIR,
            "--model",
            str(tmp_path / "model"),
            "--top",
            "2",
            "--source_lang",
            "zh",
            "--target_lang",
            "vi",
        ]
    )
    assert capfd.readouterr().out.rstrip() == hfxling.explain(*PAIR, model=links, top=2).table()
    assert "xx" in refusal(lambda: hfxling.explain(*PAIR, model=links, languages=("zh", "xx")))
    assert "nowhere" in refusal(lambda: hfxling.explain(*PAIR, model="nowhere/at-all"))
