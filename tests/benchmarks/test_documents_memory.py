"""The long text, and a run on a small one."""

import gzip
import json

import documents_memory as benchmark
import pytest

from hfxling.data.sample import sample_texts


def test_report(tmp_path, capsys, monkeypatch, warm_python):
    monkeypatch.setattr("sys.executable", warm_python)  # of the process that is measured
    (tmp_path / "ntrex").mkdir()
    (tmp_path / "alt").mkdir()
    for lang, text in zip(benchmark.LANGUAGES, ("zh", "vi")):
        lines = sample_texts(text, "train", generated=0)[:150]
        (tmp_path / "ntrex" / f"{lang}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = "".join(map("{}\t{}\n".format, *(sample_texts(lang, "test")[:30] for lang in ("zh", "vi"))))
    with gzip.open(tmp_path / "alt" / "ja-vi.train.tsv.gz", "wt", encoding="utf-8") as file:
        file.write(rows)
    argv = ["--data", str(tmp_path), "--results_dir", str(tmp_path), "--sentences"]
    with pytest.raises(ValueError, match=r"--sentences 400: there are 1[5-9]"):
        benchmark.main([*argv, "400"])
    figures = benchmark.main([*argv, "100", "--ways", "static"])
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["figures"] == figures
    assert figures["peak_mib_100"] == figures["static"]["peak_mib"] > figures["static"]["libraries_mib"]
    assert figures["static"]["f1"] > 40
