"""What words count by: stems, and words that are written alike in two languages."""

import numpy as np
import pytest

from hfxling.data.segment import Vocabulary
from hfxling.words.classes import equal_classes, word_classes


@pytest.mark.parametrize(
    ("lang", "lines", "together"),
    [
        ("en", ["walking walked"], True),
        ("en", ["berjalan jalannya"], False),
        ("id", ["berjalan jalannya"], True),
        ("ms-MY", ["memperbesar besarkan"], True),
        ("id", ["memilih memberi"], False),
        ("id", ["pernah nahkoda"], False),  # too little would stay behind the prefix
        ("vi", ["nghiêm nghiệp"], False),
        ("lo", ["ສະບາຍດີ ສະບາຍໃຈ"], False),
    ],
)
def test_words_of_an_alphabet_share_the_class_of_their_first_letters(lang, lines, together):
    vocabulary = Vocabulary.learn(lines, lang, segmenter="whitespace")
    classes = word_classes(vocabulary)
    assert (classes[4] == classes[5]) == together
    assert classes.min() == 1


def test_equal_classes_are_of_words_with_one_stem():
    source = Vocabulary.learn(["nation 1984 house"], "en", segmenter="whitespace")
    target = Vocabulary.learn(["maison 1984 nationale"], "fr", segmenter="whitespace")
    sides, equal = [word_classes(x) for x in (source, target)], equal_classes([source, target])
    places = [{word: of[i] for i, word in enumerate(x.words)} for x, of in zip((source, target), sides)]
    assert equal[places[0]["nation"]] == places[1]["nationale"]
    assert equal[places[0]["1984"]] == places[1]["1984"]
    assert np.count_nonzero(equal) == 2  # neither the house nor padding and its like
