"""One tokenizer for languages that scripts tell apart."""

import pytest

from hfxling.data.sample import sample_texts
from hfxling.data.scripts import learn_shared_vocabularies, own_scripts
from hfxling.data.segment import UNK, normalize

LINES = {language: sample_texts(language, "test")[:120] for language in ("zh", "vi", "lo", "th")}
SIZES = dict.fromkeys(LINES, 500)


def of(*languages):
    return {language: LINES[language] for language in languages}


def test_scripts_tell_languages_apart_or_do_not():
    assert own_scripts(LINES) == {"zh": "Han", "vi": "Latin", "lo": "Lao", "th": "Thai"}
    assert own_scripts(of("vi") | {"id": sample_texts("id", "test")}) is None
    assert own_scripts({"zh": ["今天下雨"], "ja": ["今日は雨です"]}) is None  # a third of it is Han
    assert own_scripts({"zh": ["今天"], "vi": ["123"]}) is None


def test_every_language_is_cut_as_if_it_were_alone():
    together = learn_shared_vocabularies(LINES, own_scripts(LINES), sizes=SIZES)
    for languages in (("zh", "vi"), ("lo", "th")):
        two = learn_shared_vocabularies(of(*languages), own_scripts(of(*languages)), sizes=SIZES)
        for language in languages:
            words = [line for line in LINES[language] if not any(map(str.isdigit, line))]
            cut = [
                [[span.text for span in row.spans] for row in v[language].encode_batch(words)] for v in (two, together)
            ]
            assert cut[0] == cut[1]
            assert all(UNK not in row.ids for row in together[language].encode_batch(words))


def test_words_stay_whole_where_no_language_needs_pieces():
    scripts = own_scripts(of("zh", "vi"))
    vocabularies = learn_shared_vocabularies(of("zh", "vi"), scripts, sizes=SIZES, whole=["vi"])
    assert {vocabulary.segmenter for vocabulary in vocabularies.values()} == {"words"}
    row = vocabularies["vi"].encode("Tôi xblorkx, anh")
    assert [span.text for span in row.spans] == ["tôi", "xblorkx", ",", "anh"]
    assert [number for number, id_ in enumerate(row.ids) if id_ == UNK] == [1]  # and not cut into words that it holds
    assert vocabularies["zh"].encode("Tôi").ids == row.ids[:1]
    mixed = learn_shared_vocabularies(of("vi", "lo"), own_scripts(of("vi", "lo")), sizes=SIZES, whole=["vi"])
    assert {vocabulary.segmenter for vocabulary in mixed.values()} == {"unigram"}


def test_a_shared_string_is_cut_the_same_in_every_text():
    vocabularies = learn_shared_vocabularies(of("zh", "vi"), own_scripts(of("zh", "vi")), sizes=SIZES)
    row = [span.text for span in vocabularies["zh"].encode("他在Hà Nội买了20个苹果。").spans]
    alone = [span.text for span in vocabularies["vi"].encode("Hà Nội").spans]
    assert row[2 : 2 + len(alone)] == alone
    assert "".join(row) == normalize("他在hànội买了20个苹果。")
    assert row[:2] == ["他", "在"]


def test_zero_width_spaces_and_spellings_make_no_difference():
    (tokenizer, _) = learn_shared_vocabularies(of("lo", "th"), own_scripts(of("lo", "th")), sizes=SIZES).values()
    composed, apart = tokenizer.encode("ນ\u0ec9\u0eb3"), tokenizer.encode("ນ\u0ecd\u0ec9\u0eb2")
    assert composed.ids == apart.ids
    assert tokenizer.encode("กิน\u200bข้าว").ids == tokenizer.encode("กินข้าว").ids


def test_zero_width_spaces_teach_where_words_end():
    lines = {"th": ["กินข้าว", "กินปลา", "ข้าวปลา"] * 9, "zh": ["吃饭"] * 27}
    marked = lines | {"th": ["กิน\u200bข้าว", "กิน\u200bปลา", "ข้าว\u200bปลา"] * 9}
    cut = []
    for text in (lines, marked):
        vocabulary = learn_shared_vocabularies(text, own_scripts(text), sizes=dict.fromkeys(text, 200))["th"]
        cut.append([span.text for span in vocabulary.encode("กินข้าว").spans])
    assert cut == [["กินข้าว"], ["กิน", "ข้าว"]]


def test_no_word_ends_at_a_character_that_nobody_sees():
    vocabulary = learn_shared_vocabularies(of("zh", "vi"), own_scripts(of("zh", "vi")), sizes=SIZES)["vi"]
    ids = vocabulary.encode("Tr\u00adư\u2060ờng \u200eThanh\u200f.").ids
    assert ids == vocabulary.encode("Trường Thanh.").ids


def test_the_same_text_gives_the_same_tokenizer():
    made = [
        learn_shared_vocabularies(LINES, own_scripts(LINES), sizes=SIZES)["lo"].tokenizer.to_str() for _ in range(2)
    ]
    assert made[0] == made[1]


def test_too_few_pieces_are_refused():
    with pytest.raises(ValueError, match="pieces are fewer than the"):
        learn_shared_vocabularies(of("zh", "vi"), own_scripts(of("zh", "vi")), sizes={"vi": 5})
