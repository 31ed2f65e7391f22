"""The files of the sample corpus are what the grammar makes, byte for byte."""

import lzma

import pytest
from sample_grammar.grammar import generate
from sample_grammar.write import COUNTS, FOLDER, dictionary_rows, generated_rows

from hfxling.data.sample import LANGUAGES, SPLITS, linked_sentences


def test_files_are_those_of_the_grammar():
    assert lzma.decompress((FOLDER / "generated.tsv.xz").read_bytes()) == generated_rows().encode()
    assert (FOLDER / "dictionary.tsv").read_bytes() == dictionary_rows().encode()


@pytest.mark.parametrize("split", SPLITS)
def test_what_is_read_is_what_was_made(split):
    assert COUNTS == SPLITS
    made, read = generate(split, SPLITS[split]), linked_sentences(split)
    assert len(made) == len(read)
    for one, other in zip(made, read):
        assert (one.words, one.concepts) == (other.words, other.concepts)
        assert {lang: one.text(lang) for lang in LANGUAGES} == other.texts
