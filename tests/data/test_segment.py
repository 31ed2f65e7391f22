"""Segments with their places, vocabularies, shared pieces, and what is saved."""

import json
import random
import unicodedata
from collections import Counter

import numpy as np
import pytest
from transformers import AutoTokenizer

from hfxling.data.sample import sample_texts
from hfxling.data.segment import (
    BUILT_IN,
    EOS,
    UNK,
    Span,
    Vocabulary,
    learn_vocabularies,
    load_vocabularies,
    normalize,
    register_segmenter,
    save_vocabularies,
    word_segmenter,
)
from hfxling.data.unigram import learn_shared_pieces, learn_unigram

LANGUAGES = ("lo", "zh", "vi")
SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]


@pytest.fixture(scope="module")
def lines() -> dict[str, list[str]]:
    return {lang: sample_texts(lang)[:150] for lang in LANGUAGES}


@pytest.fixture(scope="module")
def vocabularies(lines):
    return learn_vocabularies(lines, size=1200, pieces=1200)


def texts(vocabulary: Vocabulary, line: str) -> list[str]:
    return [span.text for span in vocabulary.encode(line).spans]


@pytest.mark.parametrize(
    ("segmenter", "expected"),
    [
        ("characters", ["我", "用", "iphone12", ",", "很", "好", "!"]),
        ("words", ["我用", "iphone12", ",", "很好", "!"]),
        ("whitespace", ["我用", "iphone12,", "很好!"]),
    ],
)
def test_built_in_segmenters_cut_where_they_say(segmenter, expected):
    line = "我用 iPhone12， 很好！"
    vocabulary = Vocabulary.learn([line], "zh", segmenter=segmenter)
    assert texts(vocabulary, line) == expected
    assert vocabulary.words == [*SPECIAL, *vocabulary.words[4:]]
    assert set(vocabulary.words[4:]) == set(expected)


def test_ids_are_those_of_the_words(vocabularies, lines):
    for lang, vocabulary in vocabularies.items():
        for line in lines[lang][:20]:
            ids, spans = vocabulary.encode(line)
            assert [vocabulary.words[i] for i in ids] == [span.text for span in spans]
            assert min(ids) > EOS


def test_unknown_words_keep_their_text():
    vocabulary = Vocabulary.learn(["a b"], "en", segmenter="whitespace")
    assert vocabulary.encode("a ZEBRA") == ([vocabulary.words.index("a"), UNK], [Span("a", 0, 1), Span("zebra", 2, 7)])


@pytest.mark.parametrize("segmenter", ["whitespace", "unigram"])
def test_special_tokens_written_in_the_text_are_text(segmenter):
    vocabulary = Vocabulary.learn(["pad s a b <", "a b"], "en", segmenter=segmenter, min_count=1)
    line = "a <pad> <s> b"
    ids, spans = vocabulary.encode(line)
    assert vocabulary.encode_ids([line]) == [ids]
    assert not {0, 2, 3} & set(ids)
    assert spans[0].text == "a"


def test_frequent_words_become_whole_pieces_even_where_no_other_word_contains_them():
    vocabulary = Vocabulary.learn(["trường học", "trường kia"] * 5, "vi")
    assert texts(vocabulary, "Trường học") == ["trường", "học"]


def test_pieces_never_cut_a_lao_or_thai_letter_from_its_marks():
    words = [["ເຈົ້າກິນເຂົ້າບໍ່", "ຂ້ອຍກິນນ້ຳ", "น้ำที่นี่ดีมาก"]] * 3
    tokenizer = learn_unigram([[normalize(w) for w in row] for row in words], 200, SPECIAL)
    for piece in tokenizer.get_vocab():
        assert len(piece) < 2 or unicodedata.category(piece[0]) != "Mn", piece
        assert len(piece) < 2 or piece[-1] not in "ເແโใไ", piece
    assert {"ຂ້", normalize("ນ້ຳ")[:-1], normalize("น้ำ")[:-1]} <= set(tokenizer.get_vocab())


def test_rare_pieces_are_cut_into_smaller_ones():
    rows = [["abcabc"]] * 5 + [["xyzxyz"]] * 2
    assert learn_unigram(rows, 60, SPECIAL, min_count=2).encode("xyzxyz").tokens != list("xyzxyz")
    assert learn_unigram(rows, 60, SPECIAL, min_count=50).encode("xyzxyz").tokens == list("xyzxyz")


def test_no_last_digit_of_a_sum_chooses_between_two_cuts():
    # What is equally likely by the symmetry of a text differs by far more than the noise of the trainer's sums.
    tokenizer = learn_unigram([["ab", "cd", "abx", "cdx"]] * 4, 60, SPECIAL)
    scores = dict(json.loads(tokenizer.to_str())["model"]["vocab"])
    for one, other in [("ab", "cd"), ("abx", "cdx")]:
        assert 5e-10 < scores[one] - scores[other] < 1e-6, (one, other)


def test_zero_width_space_ends_a_segment_and_is_part_of_none():
    vocabulary = Vocabulary.learn(["ກິນເຂົ້າ", "ກິນ\u200bເຂົ້າ"] * 4, "lo", min_count=1, size=100)
    line = "ກິນ\u200bເຂົ້າ"
    assert [line[a:b] for _, a, b in vocabulary.encode(line).spans] == ["ກິນ", "ເຂົ້າ"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("\u0edc\u0eb2", "\u0eab\u0e99\u0eb2"),  # HO NO against HO and NO
        ("ນ້ຳ", "ນ້ໍາ"),  # SARA AM composed, tone first
        ("ນ້ຳ", "ນໍ້າ"),  # nikhahit before the tone
        ("น้ำ", "นํ้า"),
        ("ເເດງ", "ແດງ"),
        ("ໂຮງ\u200bຮຽນ", "ໂຮງຮຽນ"),
        ("Ｔｒường", "trường"),
        (" a\u00a0 b", "a b"),
    ],
)
def test_spelling_variants_are_one(a, b):
    assert normalize(a) == normalize(b)


def test_one_way_to_write_a_word_is_not_another_word():
    assert normalize("ນ້ຳ") != normalize("ນຳ")
    assert normalize("thầy") != normalize("thấy")


def fuzzed(count: int) -> list[str]:
    ranges = [(0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0xE01, 0xE5C), (0xE81, 0xEDE), (0x4E00, 0x4E40)]
    ranges += [(0x200B, 0x2010), (0xFE00, 0xFE10), (0xFF01, 0xFF61), (0x3040, 0x3100), (0x1F600, 0x1F650)]
    pool = [chr(code) for first, last in ranges for code in range(first, last)]
    pool += ["\t", "\u3000", "\ufeff", "<s>", "<pad>", "ﷺ", "İ", "ﬃ", "\u2028", "👩\u200d👧", "e\u0302\u0301", "ນ້ຳ"]
    draw = random.Random(0)
    return ["".join(draw.choices(pool, k=draw.randrange(40))) for _ in range(count)]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_spans_of_fuzzed_lines_lie_in_the_line_in_order(vocabularies, lang):
    lines = fuzzed(2_000)
    encoded = vocabularies[lang].encode_batch(lines)
    assert vocabularies[lang].encode_ids(lines) == [row.ids for row in encoded]
    for line, (ids, spans) in zip(lines, encoded):
        assert len(ids) == len(spans)
        starts = [span.start for span in spans]
        assert starts == sorted(starts)
        for text, start, end in spans:
            assert 0 <= start < end <= len(line)
            assert text
            assert text.split() == [text]
            assert not line[start].isspace()


def test_a_decomposed_letter_keeps_its_marks():
    vocabulary = Vocabulary.learn(["tiếng việt"], "vi", segmenter="words")
    line = unicodedata.normalize("NFD", "việt cố")
    assert [line[a:b] for _, a, b in vocabulary.encode(line).spans] == line.split()


def test_pieces_are_shared_and_spell_the_word(vocabularies):
    piece_model = vocabularies["lo"].piece_model
    for vocabulary in vocabularies.values():
        assert vocabulary.piece_model is piece_model
        word = max(vocabulary.words[4:], key=len)
        assert "".join(vocabulary.piece_model.encode(word).tokens) == word
    assert piece_model.encode("<s>").tokens == ["<s>"]


def test_pieces_are_what_words_have_in_common_and_han_characters():
    words = ["reader", "readable", "readily", "singer", "singable", "singing", "zzyzx", "读者", "读书", "读者们"]
    tokenizer = learn_shared_pieces([words * 3], 60, SPECIAL)
    rows = {word: tokenizer.encode(word).tokens for word in words}
    assert {"read", "sing"} <= {*rows["readable"], *rows["singable"]}
    assert rows["zzyzx"] == [*"zzyzx"]
    assert rows["读者们"] == [*"读者们"]
    found = Counter(piece for row in rows.values() for piece in {*row})
    assert all(found[piece] > 1 for piece in tokenizer.get_vocab() if len(piece) > 1 and piece not in SPECIAL)


def mean_shared_pieces(vocabularies: dict[str, Vocabulary]) -> dict[str, float]:
    """How many pieces of a word are also in another word of any language, mean over a language's words."""
    tables = {lang: vocabulary.piece_ids()[0][EOS + 1 :].tolist() for lang, vocabulary in vocabularies.items()}
    rows = {lang: [{*row} - {0} for row in table] for lang, table in tables.items()}
    words = Counter(piece for own in rows.values() for row in own for piece in row)
    return {lang: np.mean([sum(words[piece] > 1 for piece in row) for row in own]) for lang, own in rows.items()}


@pytest.mark.shared
def test_words_of_real_text_have_pieces_of_other_words(shared_data):
    lines = {lang: (shared_data / f"ntrex/{lang}.txt").read_text(encoding="utf-8") for lang in ("lo", "vi")}
    vocabularies = learn_vocabularies({lang: text.split("\n")[:500] for lang, text in lines.items()})
    assert min(mean_shared_pieces(vocabularies).values()) > 1.3
    for lang, vocabulary in vocabularies.items():
        assert vocabulary.segmenter == word_segmenter(lang)


def test_table_of_piece_ids_says_what_the_piece_model_says(vocabularies):
    vocabulary = vocabularies["vi"]
    table, counts = vocabulary.piece_ids()
    ids = vocabulary.piece_model.get_vocab()
    assert table.shape == (len(vocabulary), counts.max())
    assert counts[0] == 0
    assert counts[1:].min() > 0
    assert table.max() < vocabulary.piece_model.get_vocab_size()
    for row in range(1, len(vocabulary), 50):
        pieces = vocabulary.piece_model.encode(vocabulary.words[row]).tokens
        assert [ids.get(piece, UNK) for piece in pieces] == table[row, : counts[row]].tolist()
        assert not table[row, counts[row] :].any()


def test_saved_vocabularies_load_here_and_as_ordinary_tokenizers(vocabularies, lines, tmp_path):
    save_vocabularies(vocabularies, tmp_path)
    loaded = load_vocabularies(str(tmp_path), LANGUAGES)
    for lang, vocabulary in vocabularies.items():
        assert loaded[lang].words == vocabulary.words
        encoded = vocabulary.encode_batch(lines[lang])
        assert loaded[lang].encode_batch(lines[lang]) == encoded
        assert vocabulary.encode_ids(lines[lang]) == [row.ids for row in encoded]
        assert np.array_equal(loaded[lang].piece_ids()[0], vocabulary.piece_ids()[0])
        stock = AutoTokenizer.from_pretrained(tmp_path, subfolder=f"tokenizer_{lang}")
        encoded = stock(lines[lang][0], return_offsets_mapping=True)
        ids, spans = vocabulary.encode(lines[lang][0])
        assert encoded["input_ids"] == ids
        assert encoded["offset_mapping"] == [(a, b) for _, a, b in spans]
        assert (stock.pad_token_id, stock.unk_token_id, stock.bos_token_id, stock.eos_token_id) == (0, 1, 2, 3)


def test_a_plugged_in_segmenter_is_used_saved_by_name_and_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("hfxling.data.segment._PLUGGED_IN", {})
    register_segmenter("pairs", lambda line: [line[i : i + 2] for i in range(0, len(line), 2)])
    learnt = learn_vocabularies({"xx": ["abcd", "abEF"]}, segmenters={"xx": "pairs"}, pieces=20)
    assert learnt["xx"].encode("abEF") == learnt["xx"].encode_batch(["abEF"])[0]
    assert learnt["xx"].encode("abEF").spans == [Span("ab", 0, 2), Span("ef", 2, 4)]
    save_vocabularies(learnt, tmp_path)
    assert load_vocabularies(str(tmp_path), ["xx"])["xx"].encode("abzz").ids[1] == UNK
    monkeypatch.setattr("hfxling.data.segment._PLUGGED_IN", {})
    with pytest.raises(ValueError, match=r"segmenter .pairs. of .xx. is not one of .*register_segmenter"):
        load_vocabularies(str(tmp_path), ["xx"])


def test_a_plugged_in_segmenter_that_changes_the_text_is_refused(monkeypatch):
    monkeypatch.setattr("hfxling.data.segment._PLUGGED_IN", {"upper": lambda line: line.upper().split()})
    with pytest.raises(ValueError, match="the segmenter gave 'B', which is not in the rest of the line, 'b'"):
        Vocabulary.learn(["b"], "en", segmenter="upper")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lines": ["a"], "segmenter": "jieba"}, "'jieba' of 'en' is not one of characters, unigram"),
        ({"lines": ["", " "]}, "no word in the 2 lines"),
        ({"lines": ["abcdefgh"], "size": 8}, "8 pieces are fewer than the 12 letters"),
    ],
)
def test_what_cannot_be_learnt_says_why(arguments, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.learn(lang="en", **arguments)


def test_other_mistakes_say_what_to_do(tmp_path, vocabularies):
    with pytest.raises(ValueError, match="built in"):
        register_segmenter(BUILT_IN[0], str.split)
    with pytest.raises(ValueError, match="for th, but text only for lo"):
        learn_vocabularies({"lo": ["ກ"]}, segmenters={"th": "words"})
    vocabularies["lo"].save(tmp_path)
    with pytest.raises(ValueError, match="no tokenizer_pieces; there is tokenizer_lo"):
        load_vocabularies(str(tmp_path), ["lo"])


def test_a_word_that_fills_a_book_is_learnt_from_in_parts():
    letters = random.Random(0).choices("abcdefghijklmnopqrstuvwxyz", k=100_000)
    lines = ["hello world how are you today"] * 50
    vocabulary = Vocabulary.learn([*lines, "".join(letters)], "en", segmenter="unigram", size=200)
    assert {"hello", "world"} <= {*Vocabulary.learn(lines, "en", segmenter="unigram", size=200).words}
    (row,) = vocabulary.encode_batch(["".join(letters[:5000])])
    assert len(row.ids) > 1000
    assert vocabulary.words[1] not in [vocabulary.words[i] for i in row.ids]
