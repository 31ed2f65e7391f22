"""The embedded corpus, as it is read."""

import pytest

import hfxling
from hfxling.data.sample import LANGUAGES, SPLITS, dictionary, linked_sentences, load_sample, sample_texts


def test_splits_have_the_sizes_of_the_paper_and_all_languages_the_same_rows():
    for split, size in (("train", 2016), ("dev", 200), ("test", 448)):
        for lang in LANGUAGES:
            texts = sample_texts(lang, split)
            assert len(texts) == size
            assert all(texts)
    rows = load_sample("zh", "vi", "test")
    assert rows["source"][:] == sample_texts("zh", "test")
    assert set(rows["target_lang"]) == {"vi"}


def test_fewer_generated_sentences_are_the_first_of_all():
    natural, some, all_texts = (sample_texts("lo", "dev", generated=count) for count in (0, 5, None))
    assert natural + all_texts[len(natural) :][:5] == some
    assert len(all_texts) - len(natural) == SPLITS["dev"]


def test_codes_of_three_letters_mean_the_same_languages():
    assert sample_texts("zho", "dev") == sample_texts("cmn", "dev") == sample_texts("zh", "dev")
    assert dictionary("cmn", "vie") == dictionary("zh", "vi")
    rows, same = hfxling.load_parallel("sample", "cmn", "vie", split="dev"), load_sample("zh", "vi", "dev")
    assert (rows["source"][:], rows["target"][:]) == (same["source"][:], same["target"][:])
    assert (set(rows["source_lang"]), set(rows["target_lang"])) == ({"cmn"}, {"vie"}), "the codes that were asked for"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lang": "ja"}, "'ja' is not in the sample corpus; choose from en, zh"),
        ({"lang": "zh-tw"}, "'zh-tw' is not in the sample corpus"),
        ({"lang": "zh", "split": "validation"}, "split='validation': the sample corpus has train, dev, test"),
        ({"lang": "zh", "generated": 1655}, "generated=1655: give 0 to 1654, as many as split 'train'"),
        ({"lang": "zh", "generated": -1}, "generated=-1"),
    ],
)
def test_what_there_is_not_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        sample_texts(**arguments)


def test_links_join_words_of_the_same_number():
    sentence = linked_sentences("train")[0]
    words = [sentence.words[lang] for lang in ("en", "zh")]
    linked = {(words[0][i], words[1][j]) for i, j in sentence.links("en", "zh")}
    assert ("songs", "歌") in linked
    assert ("to", "歌") not in linked
    assert sorted((j, i) for i, j in sentence.links("en", "zh")) == sentence.links("zh", "en")


def test_dictionary_holds_content_words_only_and_no_pair_twice():
    pairs = dictionary("vi", "lo")
    assert ("bệnh viện", "ໂຮງໝໍ") in pairs
    assert ("tôi", "ຂ້ອຍ") not in pairs
    assert len(set(pairs)) == len(pairs) > 300
    assert sorted((b, a) for a, b in pairs) == sorted(dictionary("lo", "vi"))
    with pytest.raises(ValueError, match="'xx' is not in the sample corpus"):
        dictionary("xx", "lo")
