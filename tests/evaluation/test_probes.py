"""A probe finds a language that is there, does not find one that is not, and never sees a held-out pair."""

import numpy as np
import pytest

from hfxling.evaluation.probes import language_probe, probe_result

LANGUAGES = np.array(["en", "de", "zh"] * 100)
GROUPS = np.repeat(np.arange(100), 3)


def vectors(offset=0.0):
    x = np.random.default_rng(0).standard_normal((300, 12))
    x[:, :3] += offset * np.tile(np.eye(3), (100, 1))
    return x


def test_a_language_is_found_where_it_is():
    assert language_probe(vectors(offset=20), LANGUAGES, GROUPS).mean() > 0.95
    assert language_probe(vectors(), LANGUAGES, GROUPS).mean() < 0.5


def test_pairs_stay_together():
    """Each group has a fingerprint of its own: who saw half of it in training would know the language of the rest."""
    languages = np.array(["en", "de"])[np.random.default_rng(1).integers(2, size=100)].repeat(2)
    groups = np.arange(100).repeat(2)
    x = np.eye(100)[groups] + 0.01 * np.random.default_rng(0).standard_normal((200, 100))
    assert language_probe(x, languages, np.arange(len(x))).mean() > 0.65
    assert language_probe(x, languages, groups).mean() < 0.65


def test_a_row_says_what_guessing_reaches_and_what_changed():
    fields = {"dataset": "d", "split": "validation", "settings": {"stage": "after"}}
    row = probe_result(vectors(), LANGUAGES, GROUPS, baseline=vectors(20), **fields)
    assert row.settings["guessing"] == 33.33
    assert row.low <= row.value <= row.high
    assert row.settings["paired"]["difference"] < -40
    assert row.value - row.settings["paired"]["difference"] > 95


@pytest.mark.parametrize(("languages", "groups"), [(["en"] * 300, GROUPS), (LANGUAGES, np.arange(300) % 3)])
def test_what_cannot_be_probed_is_refused(languages, groups):
    with pytest.raises(ValueError, match="needs at least two languages and four groups"):
        language_probe(vectors(), languages, groups)
