"""Link scores against human ones: rows, figures and settings from small files with planted bad translations."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import quality_links as benchmark

from hfxling.data.sample import sample_texts
from hfxling.data.scored import ScoredPairs
from hfxling.evaluation.results import read_results


@pytest.fixture(scope="module")
def model(tiny_sentence_transformer) -> Path:
    return tiny_sentence_transformer


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Every third translation is another sentence's and marked down; the training text has half of dev in it."""
    folder = tmp_path_factory.mktemp("mlqe")
    for target in ("id", "vi"):
        rows = list(zip(*(sample_texts(lang, "train", generated=0)[:100] for lang in ("en", target))))
        for split, chosen in {"train.tsv.gz": rows[:75], "dev.tsv": rows[60:90], "test20.tsv": rows[70:100]}.items():
            lines = ["source\ttarget\tmean\tz_mean"]
            for i, (source, translation) in enumerate(chosen):
                bad = i % 3 == 0 and split != "train.tsv.gz"
                translation = chosen[i - 1][1] if bad else translation
                lines.append(f"{source}\t{translation}\t{70 - 40 * bad + i % 5}\t{1 - 2 * bad + 0.01 * (i % 5)}")
            text = "\n".join(lines) + "\n"
            data = gzip.compress(text.encode()) if split.endswith("gz") else text.encode()
            (folder / f"en-{target}.{split}").write_bytes(data)
    return folder


@pytest.mark.parametrize("split", ["test20", "dev"])
def test_report(data, model, tmp_path, capsys, split, monkeypatch):
    counted, fit = [], benchmark.fit_lexical
    monkeypatch.setattr(benchmark, "fit_lexical", lambda *args, **kw: counted.append(args) or fit(*args, **kw))
    argv = ["--data", data, "--model", model, "--split", split, "--cache_dir", tmp_path, "--results_dir", tmp_path]
    argv += ["--words_of", model, "--words_layer", 1]
    figures = benchmark.main(list(map(str, argv)))
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["figures"] == figures
    for source, _, _ in counted:  # nothing of dev and test20
        assert len(source) == 60
    name = "quality_links" if split == "test20" else "quality_links_dev"
    rows = read_results(tmp_path / f"{name}.json")
    links = [row for row in rows if row.metric == "Pearson" and row.settings["row"] == "links"]
    assert [row.direction for row in links] == ["en->id", "en->vi"]
    assert all(row.split == split and row.low < row.value < row.high for row in links)
    assert all({"difference", "p_value"} <= {*row.settings["paired"]} for row in links)
    assert links[0].value > 0.4
    seen = {row.settings["row"]: row.settings["human_scores"] for row in rows}
    assert {seen["words"], seen["links + cosine + words, weight 0.25"]} == {"none"}
    if split == "test20":
        assert seen["links + cosine"] == seen["links"] == seen["cosine"] == "none"
        assert seen[benchmark.CALIBRATED].startswith("dev")
        assert figures["qe_mean_pearson_links"] == pytest.approx(sum(row.value for row in links) / 2, abs=1e-4)
        assert seen["segments"] == "train"
        assert {"qe_mean_pearson", "qe_mean_pearson_calibrated", "qe_mean_pearson_7k"} <= {*figures}
    else:
        assert {f"links, {label}" for label in benchmark.VARIED} <= {*seen}
        assert {*seen.values()} == {"none"}


def test_words_are_matched_with_the_most_similar_one():
    """Two pieces a side, which their language's mean separates: both have their like, or one of them has not."""

    class Words:
        def pieces(self, texts):
            directions = {"a": (1.0, 0.0), "b": (0.0, 1.0)}
            for row, text in enumerate(texts):
                yield row, None, np.array([directions[letter] for letter in text])

    texts = {"source": ["ab", "ab"], "target": ["ba", "bb"]}
    pairs = ScoredPairs("planted", "test", "en->de", **texts, scores=np.zeros(2))
    whole, half = benchmark.matched(Words(), pairs)
    assert whole == pytest.approx(1, abs=1e-6)
    assert half < 0.8
