"""The baselines' benchmark: subword links become word links, and its report."""

import json
import re
from importlib.util import find_spec
from itertools import permutations
from pathlib import Path

import align_baselines as baselines
import numpy as np
import pytest

from hfxling.data.pharaoh import AlignedPair
from hfxling.evaluation.alignment import alignment_scores, count_links
from hfxling.evaluation.results import read_results
from hfxling.evaluation.tables import study_table


@pytest.fixture
def gold(tmp_path) -> Path:
    words = ["abc", "de", "fgh", "kl", "mnop", "b"]
    rows = []
    for i in range(12):
        row = [words[(i + k) % 6] for k in range(3 + i % 3)]
        links = " ".join(f"{k}-{len(row) - 1 - k}" for k in range(len(row)))
        rows.append(f"{' '.join(row)}\t{' '.join(reversed(row))}\t{links}")
    (tmp_path / "aa-bb.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def test_words_are_linked_when_their_subwords_are(gold):
    """Every word is two subwords: the first one has the same vector on both sides, the second one has not."""
    pairs = baselines.read_aligned(gold / "aa-bb.tsv")
    rng, side = np.random.default_rng(0), iter(range(1000))
    own: dict = {}

    def encode(sentences, layer):
        number = next(side)
        vectors, owners = [], []
        for words in sentences:
            keys = [key for word in words for key in (word, (word, number))]
            vectors.append(np.array([own.setdefault(key, rng.normal(size=64)) for key in keys]))
            owners.append([i for i in range(len(words)) for _ in range(2)])
        return vectors, owners

    links = baselines.encoder_links(encode, pairs, 0)
    hits = sum(len(found & pair.sure) for found, pair in zip(links, pairs))
    assert hits == sum(len(pair.sure) for pair in pairs)


def test_report_of_an_encoder(gold, tiny_bert, capsys):
    argv = ["--data", gold, "--sets", "aa-bb", "--encoder", tiny_bert, "--layers", "0", "--results_dir", gold]
    figures = baselines.main(list(map(str, argv)))
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["figures"] == figures
    row = figures[f"{tiny_bert.name}, IterMax layer 0"]
    assert float(row["AER"].split()[0]) < 60  # the words are the same on both sides, the positions are not
    path = gold / "align_baselines.json"
    content = json.loads(path.read_text())
    shown = ("rows", "paper_columns", "show")  # from these the table is rendered
    header, table = study_table(read_results(path), *(content[key] for key in shown))
    ours = [f"statistical links{how}" for how in ("", ", grow-diag-final-and", ", equal words as others")]
    assert [line[0] for line in table] == [
        "eflomal",
        "eflomal, stems",
        *(["fast_align", "fast_align, stems"] if find_spec("systran_align") else []),
        *ours,
        f"{tiny_bert.name}, IterMax layer 0",
    ]
    with_rival = [row.settings["paired"]["with"] for row in read_results(path) if row.settings["row"] in ours]
    assert {*with_rival} == {"eflomal, stems"}
    assert header[2:] == ["AER", "CPU s"]
    assert content["title"] == baselines.TITLE


def test_eflomal_finds_that_the_words_are_the_same(gold):
    pytest.importorskip("eflomal")
    pairs = baselines.read_aligned(gold / "aa-bb.tsv")
    links = baselines.rival_links(baselines.eflomal, pairs)
    assert len(links) == len(pairs)
    hits = sum(len(found & pair.sure) for found, pair in zip(links, pairs))
    assert hits > 0.5 * sum(len(pair.sure) for pair in pairs)


def test_eflomal_may_read_the_stems_that_our_links_count_by(tmp_path):
    """Every word has an ending of its own, so that whole words never come twice; every line has an order of its own."""
    pytest.importorskip("eflomal")
    stems, endings = ["gather", "mountain", "letter", "number"], iter(range(500))
    orders = [*permutations(range(3))]
    rows = []
    for i in range(60):
        order = orders[i % len(orders)]
        words = [stems[(i + k) % 4] for k in range(3)]
        source = " ".join(f"{word}{next(endings)}" for word in words)
        target = " ".join(f"{words[k]}{next(endings)}" for k in order)
        rows.append(f"{source}\t{target}\t" + " ".join(f"{k}-{place}" for place, k in enumerate(order)))
    (tmp_path / "en-fr.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    pairs = baselines.read_aligned(tmp_path / "en-fr.tsv")
    whole, cut = (
        sum(
            len(found & pair.sure)
            for found, pair in zip(baselines.rival_links(baselines.eflomal, pairs, stems_of=langs), pairs)
        )
        for langs in ((), ("en", "fr"))
    )
    assert cut > 1.5 * whole


def test_fast_align_links_the_first_sentences_of_its_text():
    """Words keep their places, as it expects."""
    pytest.importorskip("systran_align")
    words = [f"w{i}" for i in range(8)]
    rows = [[words[(i * 3 + k) % 8] for k in range(3 + i % 3)] for i in range(40)]
    sides = [" ".join(row) for row in rows], [" ".join(word.upper() for word in row) for row in rows]
    links = baselines.fast_align(sides, [(len(row), len(row)) for row in rows[:30]])
    assert len(links) == 30
    right = {(n, k, k) for n, row in enumerate(rows[:30]) for k in range(len(row))}
    found = {(n, i, j) for n, of_line in enumerate(links) for i, j in of_line}
    assert len(found & right) > 0.9 * len(right)
    assert len(found & right) > 0.9 * len(found)


def test_what_is_measured_is_kept(gold, capsys):
    """All but one row are there: that one alone is measured, and where it is one of ours, all are."""
    argv = ["--data", str(gold), "--sets", "aa-bb", "--results_dir", str(gold)]
    baselines.main(argv)
    path = gold / "align_baselines.json"
    whole = read_results(path)
    for lost, measured in (("eflomal", {"eflomal"}), ("statistical links", {row.settings["row"] for row in whole})):
        content = json.loads(path.read_text())
        content["results"] = [row for row in content["results"] if row["settings"]["row"] != lost]
        path.write_text(json.dumps(content))
        capsys.readouterr()
        baselines.main(argv)
        told = re.findall(r"^aa-bb: (.+?) \d", capsys.readouterr().out, re.MULTILINE)
        assert sorted(told) == sorted(measured)
        assert sorted(row.settings["row"] for row in read_results(path)) == sorted(row.settings["row"] for row in whole)


def test_a_planted_difference_of_errors_is_found_and_none_between_equal_systems():
    rng = np.random.default_rng(0)
    diagonal = frozenset((i, i) for i in range(5))
    gold = [AlignedPair(("w",) * 5, ("w",) * 5, diagonal, diagonal) for _ in range(60)]
    good, bad = ([[(i, i if rng.random() < share else 4 - i) for i in range(5)] for _ in gold] for share in (0.9, 0.6))
    counts = [count_links(links, gold) for links in (good, bad)]
    errors = [alignment_scores(x.sum(0))["AER"] for x in counts]
    difference, p_value = baselines.error_test(*counts)
    assert difference == pytest.approx(errors[0] - errors[1])
    assert difference < -10
    assert p_value < 0.01
    assert baselines.error_test(counts[0], counts[0]) == (0.0, 1.0)
    halves = counts[0][rng.permutation(60)]  # the same error, other sentences
    assert baselines.error_test(counts[0], halves)[1] > 0.5
