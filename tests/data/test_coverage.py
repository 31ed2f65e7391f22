"""What tokenizers of each kind make of languages they know and do not know."""

import random
import warnings

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, BertTokenizer, ByT5Tokenizer, PreTrainedTokenizerFast, ProphetNetTokenizer

from hfxling.data import coverage
from hfxling.data.coverage import CoverageWarning, check_coverage, measure_coverage

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
EN = ["a cat sat", "a bat"]
LO = ["ແມວ ນັ່ງ", "ແມວ"]  # 11 characters that are not spaces, marks among them


def word_pieces():
    letters = [*"abcst", *(f"##{letter}" for letter in "abcst")]
    return BertTokenizer(vocab={piece: i for i, piece in enumerate([*SPECIAL, *letters])}, do_lower_case=False)


def slow_word_pieces(path):
    path.write_text(
        "\n".join([*SPECIAL, "[X_SEP]", *"abcst", *(f"##{letter}" for letter in "abcst")]), encoding="utf-8"
    )
    return ProphetNetTokenizer(str(path))


def unigram(byte_fallback=False):
    pieces = [("<unk>", 0.0), ("▁", -1.0), *((letter, -2.0) for letter in "abcst")]
    if byte_fallback:
        # Letters without use, to be as large as a vocabulary of words.
        pieces += [*((f"<0x{byte:02X}>", -9.0) for byte in range(256)), *((chr(0x3400 + i), -9.0) for i in range(999))]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=byte_fallback))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def byte_level():
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(2_000)] + ["cat", "bat", "sat"] * 99
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=1_200, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(words, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@pytest.mark.parametrize("tokenizer", [word_pieces(), unigram(), unigram(byte_fallback=True), byte_level()])
def test_known_language_is_silent(tokenizer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = check_coverage(tokenizer, EN, "en", max_length=32)
    assert (found.unknown_rate, found.missing_scripts, found.truncated, found.total) == (0.0, (), 0, 2)
    assert found.pieces_per_character <= 1.5


@pytest.mark.parametrize("tokenizer", [word_pieces(), unigram()])
def test_unknown_language_is_one_warning_with_the_rate(tokenizer):
    with pytest.warns(CoverageWarning) as caught:
        found = check_coverage(tokenizer, LO, "lo", max_length=32)
    assert (found.unknown_rate, found.missing_scripts) == (1.0, ("Lao",))
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "'lo' is badly covered" in message
    assert "100.0% of the characters are unknown to it, script Lao missing; choose" in message
    assert "\n" not in message
    assert caught[0].filename == __file__


@pytest.mark.parametrize("tokenizer", [unigram(byte_fallback=True), byte_level()])
def test_bytes_in_place_of_letters_are_a_warning_without_unknown_pieces(tokenizer):
    with pytest.warns(CoverageWarning, match=r"breaks each character into 3\.\d pieces, script Lao missing") as caught:
        found = check_coverage(tokenizer, LO, "lo")
    assert (found.unknown_rate, len(caught)) == (0.0, 1)
    assert found.pieces_per_character >= 3


def test_tokenizer_of_bytes_by_design_covers_every_language():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_coverage(ByT5Tokenizer(), LO, "lo").pieces_per_character >= 3


def test_rate_counts_characters_in_unknown_words_and_pieces_where_there_are_no_offsets(tmp_path):
    texts = ["cat ຂ bat", "sax"]  # of 10 characters ຂ and, as one unknown word, s, a and x
    found = measure_coverage(word_pieces(), texts)
    assert found.unknown_rate == pytest.approx(4 / 10)
    assert found.missing_scripts == ("Lao",)
    slow = slow_word_pieces(tmp_path / "vocab.txt")
    assert not slow.is_fast
    assert measure_coverage(slow, texts).unknown_rate == pytest.approx(2 / 8)  # c ##a ##t, [UNK], b ##a ##t, [UNK]


def test_scripts_are_named_the_most_frequent_first():
    found = measure_coverage(word_pieces(), ["a δ кто 中文字典 ひら ｶﾅ ꪀ"])
    assert found.missing_scripts == ("Han", "Cyrillic", "Hiragana", "Katakana", "Greek", "Tai Viet")


def test_truncation_counts_special_tokens_and_all_texts(monkeypatch, caplog):
    monkeypatch.setattr(coverage, "SAMPLE", 2)
    monkeypatch.setattr(coverage, "_BATCH", 3)
    tokenizer = word_pieces()
    tokenizer.model_max_length = 4
    texts = ["a b c", "a b c d", *["a b"] * 5, "a b c a b c"]
    assert [measure_coverage(tokenizer, texts, n).truncated for n in (3, 4, 5, 6, 8)] == [8, 3, 2, 1, 0]
    with pytest.warns(
        CoverageWarning, match=r"^2 of 8 'en' texts \(25\.0%\) are longer than max_length=5 tokens"
    ) as caught:
        check_coverage(tokenizer, texts, "en", 5)
    assert len(caught) == 1
    assert not caplog.records


def test_rates_are_sampled_evenly(monkeypatch):
    monkeypatch.setattr(coverage, "SAMPLE", 4)
    texts = ["ຂ" if i % 5 == 0 else "a" for i in range(20)]
    assert measure_coverage(word_pieces(), texts).unknown_rate == 1.0


@pytest.mark.parametrize(
    ("texts", "max_length", "part"), [([], None, "no texts"), (["a"], 0, "max_length=0 is below 1")]
)
def test_wrong_arguments(texts, max_length, part):
    with pytest.raises(ValueError, match=part):
        measure_coverage(word_pieces(), texts, max_length)


def test_texts_without_visible_characters():
    found = measure_coverage(word_pieces(), ["", " \n"])
    assert (found.unknown_rate, found.pieces_per_character, found.missing_scripts) == (0.0, 0.0, ())


@pytest.mark.shared
@pytest.mark.parametrize("lang", ["zh", "vi", "th", "lo", "en", "id", "km", "ne", "si"])
def test_real_encoder_covers_its_languages(shared_data, lang):
    tokenizer = AutoTokenizer.from_pretrained(shared_data.parent / "models/mini-xlm")
    texts = (shared_data / f"ntrex/{lang}.txt").read_text(encoding="utf-8").split("\n")[:200]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_coverage(tokenizer, texts, lang).unknown_rate < 0.01


@pytest.mark.shared
@pytest.mark.parametrize(
    ("lang", "script"), [("heb", "Hebrew"), ("kat", "Georgian"), ("mal", "Malayalam"), ("tam", "Tamil")]
)
def test_real_encoder_lacks_other_languages(shared_data, lang, script):
    tokenizer = AutoTokenizer.from_pretrained(shared_data.parent / "models/mini-xlm")
    texts = (shared_data / f"tatoeba/{lang}-eng.{lang}").read_text(encoding="utf-8").split("\n")[:200]
    with pytest.warns(CoverageWarning, match=rf"9\d\.\d% of the characters are unknown to it, script {script} missing"):
        check_coverage(tokenizer, texts, lang)
