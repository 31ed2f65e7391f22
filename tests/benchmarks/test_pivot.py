"""Which lines each language's text is from, and that a translation is found without a pair of the two languages."""

from types import SimpleNamespace

import pivot
import pytest


def test_no_line_is_in_both_languages_text(monkeypatch):
    """Else the shared language's line would say which lines belong together."""
    lines = {lang: [f"{lang}{i}" for i in range(1997)] for lang in ("lo", "th", "vi", "id", "zh")}
    for pairs, halves in pivot.MODELS:
        texts = {}
        monkeypatch.setattr(pivot, "fit_lexical", lambda given, texts=texts, **_: texts.update(given))
        pivot.pivot_model(lines, halves)
        assert all(source[i][2:] == zh[i][2:] for source, zh in texts.values() for i in (0, -1))
        numbers = {pair[0]: {int(line[2:]) for line in source} for pair, (source, _) in texts.items()}
        assert all(max(found) < pivot.LINES for found in numbers.values())
        for pair in pairs:
            assert not numbers[pair[0]] & numbers[pair[1]]


def test_figures_are_of_both_directions():
    from scipy.sparse import csr_array

    def encode(texts, lang, role="query"):
        ids = [int(text) for text in texts]
        rows = [[float(i == j) for j in range(3)] for i in ids]
        return csr_array(rows if lang == "lo" or role == "query" else rows[::-1])

    lines = {lang: [""] * pivot.LINES + ["0", "1", "2"] for lang in ("lo", "vi")}
    figures = pivot.found(SimpleNamespace(encode=encode), lines, ("lo", "vi"), "pivot")
    assert figures == {"pivot_lo_vi": pytest.approx(33.3), "pivot_vi_lo": 100.0}
