"""Planted errors against sound pairs: of the embedded corpus, and real ones."""

import math
from argparse import Namespace

import pytest
import quality_faults

from hfxling.data import faults
from hfxling.data.faults import FaultFinder, Side, ends_marked, visible_size
from hfxling.data.langid import TrigramProfile, count_grams, count_scripts, is_named_otherwise, split_words
from hfxling.data.loops import largest_loop
from hfxling.data.sample import sample_texts

PAIRS = [("en", "vi"), ("en", "zh"), ("id", "lo")]


def sample_pairs(source_lang, target_lang, split="train"):
    return list(zip(*(sample_texts(lang, split, generated=0) for lang in (source_lang, target_lang))))


@pytest.fixture(scope="module")
def finders():
    return {pair: FaultFinder.fit(sample_pairs(*pair), *pair) for pair in PAIRS}


@pytest.mark.parametrize("pair", PAIRS)
def test_sound_pairs_of_other_sentences_pass(finders, pair):
    heldout = sample_pairs(*pair, split="test")
    flagged = [row for row in heldout if finders[pair].flags(*row)]
    assert len(flagged) <= 0.02 * len(heldout), flagged


@pytest.mark.parametrize(
    ("pair", "target", "flag"),
    [
        (("en", "vi"), "My grandmother still lives in the house where she was born.", "copy"),
        (("en", "vi"), "Bà tôi grandmother still lives in the house where she was born", "copy"),
        (("en", "zh"), "my grandmother still lives in the house where she was born", "copy"),
        (("en", "vi"), "There is nothing else that we can do about the train today.", "wrong_language"),
        (("en", "vi"), "Nenek saya masih tinggal di rumah tempat beliau dilahirkan.", "wrong_language"),
        (("en", "vi"), "Meine Großmutter wohnt noch in dem Haus, in dem sie geboren wurde.", "wrong_language"),
        (("en", "zh"), "祖母は今も自分が生まれた家に住んでいます。", "wrong_language"),
        (("en", "zh"), "คุณย่าของฉันยังอยู่ในบ้านหลังที่ท่านเกิด", "wrong_language"),
        (("en", "vi"), "Bà tôi vẫn sống trong", "truncated"),
        (("en", "vi"), "Bà tôi.", "truncated"),
        (("en", "zh"), "我奶奶至今", "truncated"),
        (("en", "vi"), "Bà tôi vẫn sống trong ngôi nhà nơi bà sinh ra. " * 2, "repeated"),
        (("en", "vi"), "Bà tôi vẫn sống trong ngôi nhà nhà nhà nhà nhà nơi bà sinh ra.", "repeated"),
        (("en", "vi"), "Bà tôi vẫn sống trong ngôi nhaaaaaaaaaaà nơi bà sinh ra.", "repeated"),
        (("en", "zh"), "我奶奶至今还住在她出生的还住在她出生的还住在她出生的那所房子里。", "repeated"),
        (
            ("en", "vi"),
            "Bà tôi vẫn sống trong ngôi nhà, " + "và ông nội cũng ở đó với chú bác cô dì họ hàng xa, " * 3,
            "too_long",
        ),
        (("en", "vi"), "  ", "empty"),
        (("en", "vi"), "...", "empty"),
    ],
)
def test_planted_errors_are_flagged(finders, pair, target, flag):
    source = "My grandmother still lives in the house where she was born."
    assert flag in finders[pair].flags(source, target)


@pytest.mark.parametrize(
    ("pair", "source", "target"),
    [
        (("en", "vi"), "Angelina Jolie", "Angelina Jolie"),
        (("en", "zh"), "iPhone 15", "iPhone 15"),
        (("en", "vi"), "No, no, no, no, no!", "Không, không, không, không, không!"),
        (("en", "vi"), "10 000 000 000", "10 000 000 000"),
        (("en", "zh"), "She works for the BBC in London and for CNN.", "她在伦敦为BBC和CNN工作。"),
    ],
)
def test_what_looks_like_an_error_and_is_none(finders, pair, source, target):
    assert finders[pair].flags(source, target) == ()


def test_wrong_rows_among_those_learned_from_do_little_harm():
    pairs = sample_pairs("en", "vi")
    others = [source for source, _ in pairs[1:]]
    spoiled = pairs + [(source, other) for (source, _), other in zip(pairs[:40], others)]
    fitted = FaultFinder.fit(spoiled, "en", "vi")
    assert all("wrong_language" in fitted.flags(*pair) for pair in spoiled[-40:] if len(pair[1]) > 20)
    assert sum(bool(fitted.flags(*pair)) for pair in pairs) <= 0.02 * len(pairs)


def test_other_text_is_not_foreign_beside_many_lines_of_one_form():
    pairs = sample_pairs("en", "vi")
    forms = [("Order {} was sent in month {}.", "Đơn hàng {} đã được gửi vào tháng {}.")]
    forms += [("You have {} points, good for {} days.", "Bạn còn {} điểm, dùng được trong {} ngày.")]
    filled = []
    for number in range(4 * len(pairs)):
        filled += [(source.format(number, number % 12), target.format(number, number % 12)) for source, target in forms]
    fitted = FaultFinder.fit(pairs + filled, "en", "vi")
    flagged = [pair for pair in pairs if "wrong_language" in fitted.flags(*pair)]
    assert len(flagged) <= 0.01 * len(pairs)
    assert not any(fitted.flags(*pair) for pair in filled)


def test_texts_are_not_judged_by_a_profile_that_has_seen_them():
    pairs = sample_pairs("en", "vi")
    fitted = FaultFinder.fit(pairs, "en", "vi")
    for _, target in pairs[:20]:
        side = Side(target)
        seen = TrigramProfile(count_grams(Side(text).plain for _, text in pairs))
        assert fitted.language.score(side) < seen.score(side.plain)


@pytest.mark.parametrize(
    ("languages", "target", "flag"),
    [
        (("en", "vi"), "There is nothing else that we can do about it.", "wrong_language"),  # from the embedded corpus
        (("en", "ru"), "There is nothing else that we can do about it.", "wrong_language"),  # from the script
        (("en", "de"), "Mi abuela todavía vive en la casa en la que nació, como sus padres.", "wrong_language"),
        (("en", "ru"), "Моя", "truncated"),
    ],
)
def test_a_single_pair_is_judged_by_what_is_known_beforehand(languages, target, flag):
    source = "My grandmother still lives in the house in which she was born."
    assert flag in FaultFinder.fit([(source, target)], *languages).flags(source, target)


def test_a_third_script_is_a_fault_beside_latin_letters_too():
    vietnamese = "Bà tôi sống trong nhà nơi bà sinh ra và thích nó"
    finder = FaultFinder("en", "vi")
    assert finder.flags("My grandmother still lives in that house.", vietnamese) == ()
    assert finder.flags("My grandmother still lives in that house.", f"{vietnamese} 祖母还住在她出生的房子") != ()


def test_sample_is_drawn_from_the_whole_file(monkeypatch):
    monkeypatch.setattr(faults, "SAMPLE", 100)
    kept = faults.draw_sample(((str(i), str(i)) for i in range(10_000)), seed=0)
    assert len(kept) == 100
    assert 4_000 < sum(int(source) for source, _ in kept) / 100 < 6_000


@pytest.mark.parametrize(
    ("text", "loop"),
    [
        ("a b c d", (1, 0)),
        ("the house the house", (2, 8)),
        ("go go go", (3, 4)),
        ("soooooo good", (6, 5)),
        ("1 000 000 000", (1, 0)),
        ("in 2006 of which 2006 of which 2006 of which iob", (3, 22)),
        ("好好学习好好学习", (2, 12)),
        ("3월 3월 3월", (3, 8)),  # a wide letter counts as three after a narrow one, too
        ("K팝은 좋다 K팝은 좋다", (2, 13)),
    ],
)
def test_loops(text, loop):
    assert largest_loop(Side(text).tokens, visible_size) == loop


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        *[
            (text, True)
            for text in ("Yes.", 'He said "yes."', 'He said "yes"', "是的。", "“是的”", "हो ।", "Why?)", "x…")
        ],
        *[(text, False) for text in ("Yes", "Yes,", "yes and", "是的，", "", "5 %")],
    ],
)
def test_final_marks(text, marked):
    assert ends_marked(text) is marked


def test_numbers_are_compared_by_value():
    assert Side("15,000 in २००६").numbers == Side("15.000 in 2006").numbers == {15_000, 2006}


def test_trigram_profile_is_a_distribution():
    profile = TrigramProfile(count_grams(["banana", "bandana"]))
    letters = sorted({*" bandan"})
    # after a context that was seen all letters seen, and the reserve for others, share the probability
    assert sum(math.exp(profile.log_probability("an" + letter)) for letter in letters) == pytest.approx(1, abs=0.05)
    assert profile.score("banana") > profile.score("nabana") > profile.score("xxxxxx")


def test_scripts_and_words():
    assert count_scripts("NATO 北约 ひら 5") == {"Latin": 4, "Han": 6, "Kana": 4}
    assert split_words("don’t (go) – ２ m²") == ["don", "t", "go", "2", "m2"]
    assert split_words("\ufeffpem\u00adba\u00adngunan, කෘත්\u200dය กิน\u200bข้าว") == ["pembangunan", "කෘත්ය", "กิน", "ข้าว"]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Não havia mais nada que pudéssemos fazer por eles naquela noite.", "es", True),
        ("No había nada más que pudiéramos hacer por ellos esa noche.", "es", False),
        ("Ang mga bata ay naglalaro sa labas ng bahay.", "fil", False),  # py3langid calls it tl
        ("Ang mga bata ay naglalaro sa labas ng bahay.", "id", True),
        ("他们昨天晚上在家里吃饭。", "zh-tw", False),
        ("No había nada más que pudiéramos hacer por ellos esa noche.", "xx", False),  # unknown to it
    ],
)
def test_a_third_language_is_named_where_the_library_is_sure(text, language, expected):
    assert is_named_otherwise(text, language) is expected


@pytest.mark.shared
def test_goal_on_real_text(shared_data):
    """95 % of planted errors and 1 % of good rows, on the split that the limits were chosen on."""
    settings = Namespace(data_dir=shared_data, split="dev", seed=0, rows=None, show=0)
    found = quality_faults.measure_pair(settings, "et-en")
    assert sum(found[kind] for kind in quality_faults.KINDS) >= 95
    assert found["wrong"] <= 0.01 * found["good"]


def test_text_whose_targets_are_all_short_is_judged_too():
    finder = FaultFinder.fit([(f"toi an tao {row}", f"我吃苹果{row}") for row in range(120)], "vi", "zh")
    assert finder.flags("toi an tao 7", "我吃苹果7") == ()


@pytest.mark.parametrize("count", [220, 2000])
def test_a_text_of_hundreds_of_numbers_is_judged_as_others(count):
    pairs = [(f"toi an {row} tao moi ngay", f"我每天吃{row}个苹果") for row in range(120)]
    numbers = " ".join(map(str, range(count)))
    for finder in (FaultFinder.fit(pairs, "vi", "zh"), FaultFinder("vi", "zh")):
        assert "truncated" not in finder.flags(f"toi an tao {numbers}", f"我吃苹果 {numbers}")
