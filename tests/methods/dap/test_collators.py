"""Rows to padded tensors."""

import pytest
import torch
from tiny_models import tiny_tokenizer
from transformers import BertTokenizer

from hfxling.methods.dap.collators import PairCollator

ROWS = [
    {"source": "abc", "target": "a", "source_lang": "zh", "target_lang": "en"},
    {"source": "a", "target": "abcdefgh", "source_lang": "vi", "target_lang": "en"},
]


def test_sides_are_padded_apart():
    tokenizer = tiny_tokenizer()
    batch = PairCollator(tokenizer, 32)(ROWS)
    assert set(batch) == {"source", "target"}
    assert set(batch["source"]) == {"input_ids", "attention_mask"}
    a, b, c, pad, cls, sep = tokenizer.convert_tokens_to_ids(["a", "b", "c", "[PAD]", "[CLS]", "[SEP]"])
    assert batch["source"]["input_ids"].tolist() == [[cls, a, b, c, sep], [cls, a, sep, pad, pad]]
    assert batch["source"]["attention_mask"].tolist() == [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]
    assert batch["target"]["input_ids"].shape == (2, 10)


def test_padding_is_on_the_right_whatever_the_tokenizer_says():
    tokenizer = tiny_tokenizer()
    tokenizer.padding_side = "left"
    left, right = PairCollator(tokenizer)(ROWS), PairCollator(tiny_tokenizer())(ROWS)
    assert torch.equal(left["target"]["input_ids"], right["target"]["input_ids"])
    assert torch.equal(left["target"]["attention_mask"], right["target"]["attention_mask"])


def test_token_types_are_dropped():
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "abc", "a"])}
    tokenizer = BertTokenizer(vocab=vocabulary)
    assert "token_type_ids" in tokenizer("a")
    assert set(PairCollator(tokenizer)(ROWS)["source"]) == {"input_ids", "attention_mask"}


def test_texts_are_cut():
    tokenizer = tiny_tokenizer()
    batch = PairCollator(tokenizer, 5)(ROWS)
    assert batch["target"]["input_ids"].shape == (2, 5)
    assert batch["target"]["input_ids"][1, -1] == tokenizer.sep_token_id


def test_language_numbers():
    assert PairCollator(tiny_tokenizer(), languages=["th", "vi", "zh"])(ROWS)["language"].tolist() == [2, 1]
    with pytest.raises(ValueError, match=r"language 'zh' is not one of th, vi\."):
        PairCollator(tiny_tokenizer(), languages=["th", "vi"])(ROWS)


def test_length_without_room_for_text():
    with pytest.raises(ValueError, match="max_length=2: 2 of them are special tokens"):
        PairCollator(tiny_tokenizer(), 2)
