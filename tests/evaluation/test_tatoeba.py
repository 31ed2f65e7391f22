"""Tatoeba: files and Hub sets, ranks with ties, averages over 14, 28 and 36 languages."""

from zlib import crc32

import datasets
import numpy as np
import pytest

from hfxling.evaluation.tatoeba import GROUPS, XTREME, load_tatoeba, rank_tatoeba, tatoeba_results, tatoeba_table

# mBERT+DAP of the paper's tables 7 and 8, with two-letter codes, and the averages of its table 1.
CODES = "af ar bn bg zh de el et eu fi fr he hi hu id it jv ja ka kk ko ml mr nl fa pt ru es sw ta te tl th tr ur vi"
TO_ENGLISH = (
    "af 96.9 ar 91.8 bg 95.4 bn 89.3 de 99.1 el 96.8 es 98.4 et 98.0 eu 96.2 fa 95.9 fi 97.1 fr 95.5 he 93.0 hi 96.8 "
    "hu 97.0 id 95.9 it 95.5 ja 96.7 jv 30.2 ka 79.9 kk 63.8 ko 93.2 ml 98.5 mr 92.5 nl 96.6 pt 96.2 ru 95.5 sw 77.9 "
    "ta 83.1 te 88.5 th 96.9 tl 70.1 tr 98.5 ur 90.8 vi 97.5 zh 95.4"
)
FROM_ENGLISH = (
    "af 96.3 ar 90.6 bg 94.3 bn 87.8 de 98.9 el 96.1 es 98.1 et 98.0 eu 96.0 fa 95.6 fi 96.4 fr 95.4 he 92.2 hi 96.0 "
    "hu 96.5 id 95.2 it 95.8 ja 96.6 jv 47.3 ka 80.8 kk 65.4 ko 92.3 ml 98.3 mr 93.3 nl 97.2 pt 95.6 ru 94.8 sw 75.6 "
    "ta 82.4 te 89.7 th 96.4 tl 75.5 tr 98.2 ur 91.7 vi 97.8 zh 95.3"
)
TABLE_1 = {14: (94.7, 94.2), 28: (94.7, 94.6), 36: (90.9, 91.2)}


@pytest.mark.parametrize("size", [14, 28, 36])
def test_groups_give_the_papers_averages(size):
    codes = dict(zip(XTREME, CODES.split()))
    assert len(set(GROUPS[size])) == size
    for figures, published in zip((TO_ENGLISH, FROM_ENGLISH), TABLE_1[size]):
        words = figures.split()
        accuracy = dict(zip(words[::2], map(float, words[1::2])))
        assert np.mean([accuracy[codes[lang]] for lang in GROUPS[size]]) == pytest.approx(published, abs=0.07)


def write(folder, lang, pairs):
    for side, suffix in enumerate((lang, "eng")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        folder.joinpath(f"{lang}-eng.{suffix}").write_text(text, encoding="utf-8")


def bag(texts, seen=None):
    """Vectors that know the meaning written after the colon; remembers what it was asked to encode."""
    if seen is not None:
        seen.append(list(texts))
    meanings = [text.rpartition(":")[2] for text in texts]
    rng = {m: np.random.default_rng(crc32(m.encode())).standard_normal(8) for m in sorted(set(meanings))}
    return np.stack([rng[m] for m in meanings])


def test_planted_ties_count_against_the_model(tmp_path):
    # Two English sides mean "cat": both tie for either source, in both directions. The rest is found.
    write(tmp_path, "deu", [("d1:cat", "e1:cat"), ("d2:cat", "e2:cat"), ("d3:dog", "e3:dog"), ("d4:sun", "e4:sun")])
    write(tmp_path, "vie", [("v1:dog", "e3:dog"), ("v2:sun", "e5:dog")])
    pairs = load_tatoeba(tmp_path)
    assert list(pairs) == ["deu", "vie"]
    ranked = rank_tatoeba(pairs, bag)
    assert [r.direction for r in ranked["deu"]] == ["deu->eng", "eng->deu"]
    assert [r.ranks.tolist() for r in ranked["deu"]] == [[2, 2, 1, 1], [2, 2, 1, 1]]
    # Both targets of "vie" mean "dog": they tie for v1, and v2 is like neither. Seen from e3 and e5, v1 is nearest.
    assert [r.ranks.tolist() for r in ranked["vie"]] == [[2, 2], [1, 2]]
    rows = {row.direction: row for row in tatoeba_results(pairs, ranked, model="m")}
    assert {d: row.value for d, row in rows.items()} == {
        "deu->eng": 50, "eng->deu": 50, "vie->eng": 0, "eng->vie": 50,
    }  # fmt: skip
    assert rows["deu->eng"].metric == "P@1"
    assert (rows["deu->eng"].n, rows["vie->eng"].n) == (4, 2)
    assert rows["deu->eng"].revision != rows["vie->eng"].revision


def test_every_distinct_text_is_encoded_once(tmp_path):
    write(tmp_path, "deu", [("a:1", "one:1"), ("b:2", "two:2")])
    write(tmp_path, "fra", [("c:2", "two:2"), ("d:1", "one:1")])
    seen = []
    ranked = rank_tatoeba(load_tatoeba(tmp_path), lambda texts: bag(texts, seen))
    assert [sorted(call) for call in seen] == [["a:1", "b:2", "c:2", "d:1", "one:1", "two:2"]]
    assert all((r.ranks == 1).all() for both in ranked.values() for r in both)


def full_test(folder, languages, pairs=3):
    for number, lang in enumerate(languages):
        found = number % pairs  # so many of the pairs mean the same
        write(folder, lang, [(f"x{i}:{i}", f"y{i}:{i if i < found else lang + str(i)}") for i in range(pairs)])


def test_averages_count_languages_alike_and_only_where_complete(tmp_path):
    full_test(tmp_path, [lang for lang in XTREME if lang != "tgl"])  # of the 28 and the 36, not of the 14
    pairs = load_tatoeba(tmp_path)
    rows = tatoeba_results(pairs, rank_tatoeba(pairs, bag), settings={"stage": "after"})
    averages = [row for row in rows if "avg" in row.metric]
    assert [(row.metric, row.direction) for row in averages] == [
        ("P@1 avg-14", "xx->eng"),
        ("P@1 avg-14", "eng->xx"),
    ]
    assert all(row.settings["missing"] == ["tgl"] and row.settings["stage"] == "after" for row in rows)
    by_direction = {row.direction: row for row in rows if "avg" not in row.metric}
    expected = np.mean([by_direction[f"{lang}->eng"].value for lang in GROUPS[14]])
    assert averages[0].value == pytest.approx(expected)
    assert 0 < averages[0].low < averages[0].value < averages[0].high < 100
    assert averages[0].n == 14 * 3


def test_all_36_languages_have_all_averages_and_nothing_missing(tmp_path):
    full_test(tmp_path, XTREME, pairs=2)
    pairs = load_tatoeba(tmp_path)
    rows = tatoeba_results(pairs, rank_tatoeba(pairs, bag))
    assert [row.settings["languages"] for row in rows if "avg" in row.metric] == [14, 14, 28, 28, 36, 36]
    assert not any("missing" in row.settings for row in rows)
    headers, table = tatoeba_table(rows)
    assert len(table) == 36 + 3
    assert {len(row) for row in table} == {len(headers)}
    assert table[5][0] == "deu"
    assert table[-1][:3] == ["36 langs", "cosine", 72]


def test_each_language_is_tested_against_the_baseline(tmp_path):
    full_test(tmp_path, ["deu", "fra", "vie"], pairs=20)
    pairs = load_tatoeba(tmp_path)
    good = rank_tatoeba(pairs, bag)
    worse = rank_tatoeba(pairs, lambda texts: np.ones((len(texts), 2)))
    row = next(row for row in tatoeba_results(pairs, good, baseline=worse) if row.direction == "vie->eng")
    assert row.settings["paired"]["difference"] == pytest.approx(row.value)


def test_hub_sets_are_read_by_configuration(monkeypatch):
    asked = []

    def load_dataset(name, config, *, split, revision):
        asked.append((name, config, split, revision))
        return datasets.Dataset.from_dict({"source_sentence": ["a:1"], "target_sentence": ["b:1"], "x": [1]})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    data = "google/xtreme:tatoeba.{source}@v1#source_sentence,target_sentence"
    pairs = load_tatoeba(data, ["deu", "cmn"], split="validation")
    assert asked == [("google/xtreme", f"tatoeba.{lang}", "validation", "v1") for lang in ("deu", "cmn")]
    assert pairs["cmn"]["target"][:] == ["b:1"]


@pytest.mark.parametrize(
    ("arguments", "error", "parts"),
    [
        ({"languages": ["de"]}, ValueError, ["'de'", "deu"]),
        ({"languages": ["fra"]}, FileNotFoundError, ["fra", "deu-eng.deu"]),
        ({"data": "org/set:tatoeba"}, ValueError, ["'org/set:tatoeba'", "{source}"]),
    ],
)
def test_errors_say_what_to_do(tmp_path, arguments, error, parts):
    write(tmp_path, "deu", [("a:1", "b:1")])
    with pytest.raises(error) as caught:
        load_tatoeba(**{"data": tmp_path} | arguments)
    assert "\n" not in str(caught.value)
    assert all(part in str(caught.value) for part in parts)


def test_a_side_that_is_missing_or_shorter_is_an_error(tmp_path):
    write(tmp_path, "deu", [("a:1", "b:1"), ("c:2", "d:2")])
    (tmp_path / "deu-eng.eng").write_text("b:1\n")
    with pytest.raises(ValueError, match=r"deu-eng\.eng ends first"):
        load_tatoeba(tmp_path)
    (tmp_path / "deu-eng.eng").unlink()
    with pytest.raises(FileNotFoundError, match=r"deu-eng\.eng"):
        load_tatoeba(tmp_path)


@pytest.mark.shared
def test_the_real_folder_holds_all_languages_and_their_counts(shared_data):
    pairs = load_tatoeba(shared_data / "tatoeba")
    assert tuple(pairs) == XTREME
    assert {lang for lang, dataset in pairs.items() if len(dataset) == 1000} == set(GROUPS[28])
