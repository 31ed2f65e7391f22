"""Test lines in the training text: planted ones are found, on either side, and little else is."""

import random
import re

import numpy as np
import pytest
from datasets import Dataset

from hfxling.data import leakage
from hfxling.data.leakage import drop_leaks
from hfxling.data.parallel import load_parallel

# Letters, word length and separator of made-up text in each script.
SCRIPTS = {
    "en": ("abcdefghijklmnoprstuvwy", (2, 8), " "),
    "vi": ("aăâbcdđeêghiklmnoôơpquưtvxyáàảạếềệốộởứự", (2, 5), " "),
    "zh": ("".join(map(chr, range(0x4E00, 0x4F80))), (1, 2), ""),
    "lo": ("ກຂຄງຈຊດຕຖທນບປຜພມຢຣລວສຫອຮະາິີຶືຸູັ່້ໍ", (3, 6), ""),
}


def made_up_lines(lang, count, rng):
    letters, (shortest, longest), separator = SCRIPTS[lang]
    words = ["".join(rng.choices(letters, k=rng.randint(shortest, longest))) for _ in range(600)]
    weights = [1 / rank for rank in range(1, 601)]
    return [separator.join(rng.choices(words, weights, k=rng.randint(8, 22))) + "." for _ in range(count)]


def lightly_edited(line, lang, rng):
    """One word (in zh two characters, in lo five) or a few characters changed, or case, punctuation or a number."""
    span = {"zh": 2, "lo": 5}.get(lang)
    words = [line[i : i + span] for i in range(0, len(line), span)] if span else line.split()
    at = rng.randrange(len(words) - 1)
    kind = rng.choice(["drop", "replace", "insert", "swap", "characters", "case", "punctuation", "number"])
    if kind == "number" and re.search(r"\d", line):
        return re.sub(r"\d+", lambda match: str(int(match[0]) + 7), line, count=1)
    if kind == "characters":
        spots = rng.sample(range(len(line)), 2)
        return "".join(rng.choice(line) if i in spots else character for i, character in enumerate(line))
    if kind in ("case", "punctuation"):
        return line.upper() if kind == "case" else "« " + re.sub(r"[.,。，]", "", line) + " … !"
    if kind == "swap":
        words[at : at + 2] = words[at + 1], words[at]
    else:
        words[at : at + (kind != "insert")] = [] if kind == "drop" else [rng.choice(words)[::-1]]
    return ("" if span else " ").join(words)


def parallel(source, target):
    return Dataset.from_dict({"source": source, "target": target})


def plant(train, test, langs, rng):
    """Put 50 exact and 50 edited test lines, each with a foreign other side, into the training text."""
    train = {side: list(train[side]) for side in ("source", "target")}
    planted = {"exact": [], "edited": []}
    test_rows, train_rows = rng.sample(range(len(test)), 100), rng.sample(range(len(train["source"])), 100)
    for number, (test_row, train_row) in enumerate(zip(test_rows, train_rows)):
        side = rng.choice(["source", "target"])
        line = test[side][test_row]
        is_exact = number < 50
        train[side][train_row] = line if is_exact else lightly_edited(line, langs[side], rng)
        planted["exact" if is_exact else "edited"].append(train_row)
    return parallel(**train), planted


def leaks_of(train, test):
    return drop_leaks(train, test)[1].tolist()


def check_planted(train, test, langs):
    clean = set(leaks_of(train, test))
    dirty, planted = plant(train, test, langs, random.Random(1))
    found = set(leaks_of(dirty, test))
    assert set(planted["exact"]) <= found
    assert len(found & set(planted["edited"])) >= 45
    assert found - set(planted["exact"]) - set(planted["edited"]) <= clean
    return clean


@pytest.mark.parametrize(("source_lang", "target_lang"), [("zh", "vi"), ("en", "lo")])
def test_planted_lines_are_found_and_nothing_else(source_lang, target_lang):
    rng = random.Random(0)
    sides = [made_up_lines(lang, 1_600, rng) for lang in (source_lang, target_lang)]
    train, test = (parallel(*(side[part] for side in sides)) for part in (slice(0, 1_300), slice(1_300, None)))
    assert not check_planted(train, test, {"source": source_lang, "target": target_lang})


@pytest.mark.shared
@pytest.mark.parametrize(("source_lang", "target_lang"), [("zh", "vi"), ("en", "lo")])
def test_planted_lines_in_real_news(shared_data, source_lang, target_lang):
    paths = [shared_data / f"ntrex/{lang}.txt" for lang in (source_lang, target_lang)]
    train, test = (load_parallel(paths, source_lang, target_lang, lines=lines) for lines in ("1-1543", "1544-1997"))
    assert len(check_planted(train, test, {"source": source_lang, "target": target_lang})) <= 8


@pytest.mark.shared
def test_real_leaks_and_clean_text(shared_data):
    train = load_parallel(shared_data / "mlqe/ne-en.train.tsv.gz", "ne", "en")
    test = load_parallel(shared_data / "mlqe/ne-en.test20.tsv", "ne", "en")
    cleaned, leaks = drop_leaks(train, test)
    assert len(leaks) >= 39  # as many test sources are known to recur
    assert not set(cleaned["source"]) & {line for line in test["source"] if len(line) >= 30}
    train, test = (load_parallel(shared_data / f"vi-zh/{split}.tsv", "vi", "zh") for split in ("train", "test"))
    assert len(leaks_of(train, test)) <= 30


LINE = "The ferry to the island leaves at 7.30 from the old pier."
OTHER = "Ông ấy không hề nhắc đến chuyện đó trong suốt bữa tối."


@pytest.mark.parametrize(
    "variant",
    [
        "the ferry to the island leaves at 730 from the old pier",
        "THE\u00a0FERRY to the is\u200bland —leaves at 7.30 from the old pier?!",
        "Ｔｈｅ ferry to the island leaves at 7.30 from the old pier",
    ],
)
def test_case_punctuation_space_and_width_do_not_hide_an_exact_leak(variant):
    assert leaks_of(parallel(["x", variant], ["y", OTHER]), parallel([LINE], ["không"])) == [1]


@pytest.mark.parametrize(
    ("train", "leaks"),
    [
        (("谢谢。", "Cảm ơn !"), True),  # both sides of one pair
        (("谢谢。", "Cám ơn nhiều lắm nhé."), False),  # one short side
        (("谢谢。", "Đi đâu?"), False),  # both sides, but of two pairs
        (("Đi đâu?", "去哪儿"), True),  # the other direction
        (("谢谢。", "Tôi đã đợi anh ở sân bay suốt cả buổi chiều."), True),  # one long side
        (("", "..."), False),
    ],
)
def test_short_lines_need_both_sides(train, leaks):
    test = [
        ("谢谢！", "Cảm ơn."),
        ("去哪儿？", "Đi đâu?"),
        ("我在机场等了你。", "Tôi đã đợi anh ở sân bay suốt buổi chiều."),
        ("", "!"),
    ]
    assert bool(leaks_of(parallel([train[0]], [train[1]]), parallel(*zip(*test)))) == leaks


@pytest.mark.parametrize(
    ("train", "is_leak"),
    [
        ("She sold 9 eggs.", True),  # 12 characters, the same ones
        ("She sold 8 eggs.", False),  # one of so few differs
        ("She sold 9 \U000e0100eggs.", True),  # a variation selector is no character of the text
        ("An old ferry left the pie.", True),  # 20 characters of 21
        ("An old ferry left the pi.", False),  # 19 of 21
    ],
)
def test_how_long_one_side_alone_has_to_be(train, is_leak):
    test = parallel(["She sold 9 eggs.", "An old ferry left the pier."], ["một", "hai"])
    assert bool(leaks_of(parallel([train], ["khác"]), test)) == is_leak


def test_both_sides_are_of_one_training_pair():
    test = parallel(["谢谢", "去哪儿"], ["Cảm ơn", "Đi đâu"])
    train = parallel(["去哪儿", "我", "你"], ["Anh ấy", "Tôi", "Cảm ơn"])
    assert leaks_of(train, test) == []


def test_drop_removes_train_rows_and_keeps_the_rest_in_order():
    train = parallel([LINE, "a", LINE.replace("island", "valley"), "b"], ["1", "2", "3", "4"]).add_column(
        "id", [7, 8, 9, 10]
    )
    test = parallel(["unrelated words in a sentence", LINE], ["?", "5"])
    cleaned, leaks = drop_leaks(train, test)
    assert cleaned["id"][:] == [8, 10]
    assert (leaks.tolist(), len(test)) == ([0, 2], 2)


def test_chunks_change_nothing(monkeypatch):
    rng = random.Random(2)
    lines = made_up_lines("en", 60, rng)
    train, test = parallel(lines, lines[::-1]), parallel(lines[:20], lines[20:40])
    whole = leaks_of(train, test)
    monkeypatch.setattr(leakage, "_CELLS", 280)
    assert leaks_of(train, test) == whole
    assert set(range(40)) <= set(whole)


@pytest.mark.parametrize("threshold", [0.51, 0.65, 0.9, 1.0])
def test_index_finds_all_matches_that_brute_force_finds(monkeypatch, threshold):
    monkeypatch.setattr(leakage, "THRESHOLD", threshold)
    rng = random.Random(3)
    lines = ["".join(rng.choices("abc", [6, 3, 1], k=rng.randint(0, 14))) for _ in range(120)]
    index = leakage._Index(lines[:40])
    rows, columns, _ = index.match(lines[40:])

    def trigrams(line):
        return {f"<{line}>"[i : i + 3] for i in range(len(line))}

    def dice(a, b):
        return 2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0

    expected = np.array([[dice(trigrams(a), trigrams(b)) for b in lines[:40]] for a in lines[40:]])
    assert set(zip(rows.tolist(), columns.tolist())) == set(
        zip(*map(np.ndarray.tolist, np.nonzero(expected >= threshold)))
    )


@pytest.mark.parametrize(
    ("train", "test"),
    [
        ((["a"], ["b"]), ([], [])),
        (([], []), (["a"], ["b"])),
        (([""], ["。"]), (["?"], [""])),
        ((["a"], ["b"]), (["?"], ["!"])),
    ],
)
def test_empty_sets_have_no_leaks(train, test):
    assert leaks_of(parallel(*train), parallel(*test)) == []


def test_wrong_arguments():
    data = parallel(["a"], ["b"])
    with pytest.raises(ValueError, match=r"test lacks columns \['target'\]; rename some of"):
        drop_leaks(data, data.rename_column("target", "vi"))
