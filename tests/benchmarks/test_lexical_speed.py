"""The clocks' arithmetic and the large text; the fits themselves take minutes."""

import gzip

import lexical_speed as speed
import numpy as np
import pytest


def test_exponent_of_linear_and_quadratic_costs():
    sizes = np.array([10.0, 40.0, 160.0])
    assert speed.exponent(sizes, 3 * sizes) == pytest.approx(1)
    assert speed.exponent(sizes, 0.1 * sizes**2) == pytest.approx(2)


def test_rates_are_of_the_runs_after_the_warm_up():
    calls = []
    rates = speed.sentence_rates({name: lambda name=name: calls.append(name) for name in "ab"}, {"a": 10, "b": 20}, 3)
    assert calls == ["a", "b"] * 4
    assert {name: found.shape for name, found in rates.items()} == {"a": (3, 2), "b": (3, 2)}


def test_the_large_text_is_drawn_from_all_languages(tmp_path):
    (tmp_path / "anki").mkdir()
    for lang in speed.MIXED:
        with gzip.open(tmp_path / "anki" / f"en-{lang}.tsv.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{lang} {i}\tin {lang}, {i}\n" for i in range(20))
    source, target = speed.mixed(tmp_path, 40)
    assert len({*source}) == len(target) == 40
    assert {text.split()[0] for text in source} == {*speed.MIXED}
    assert all(f"in {text.replace(' ', ', ')}" == other for text, other in zip(source, target))
    with pytest.raises(ValueError, match="anki has 60 of de, es, fr"):
        speed.mixed(tmp_path, 61)
