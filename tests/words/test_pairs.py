"""Padding of word ids and of matrices."""

import numpy as np
import torch

from hfxling.words.pairs import pad, pad_matrices, stack


def test_ids_are_padded_on_the_right_and_masked():
    side = pad([[5, 0, 7], [], [8]])
    assert side["word_ids"].tolist() == [[5, 0, 7], [0, 0, 0], [8, 0, 0]]
    assert side["mask"].tolist() == [[1, 1, 1], [0, 0, 0], [1, 0, 0]]
    assert side["word_ids"].dtype == side["mask"].dtype == torch.int64
    assert stack([np.array([4]), np.array([6, 0])]).tolist() == [[4, -1], [6, 0]]


def test_empty_sentences_alone_are_one_padding_wide():
    side = pad([[], []])
    assert side["word_ids"].tolist() == side["mask"].tolist() == [[0], [0]]


def test_matrices_are_padded_with_zeros_to_a_common_shape():
    pairs = [(np.ones((2, 1)), np.full((2, 1), 2)), (np.ones((1, 3)), np.full((1, 3), 2))]
    forward, backward = pad_matrices(pairs)
    assert forward.tolist() == [[[1, 0, 0], [1, 0, 0]], [[1, 1, 1], [0, 0, 0]]]
    assert torch.equal(backward, 2 * forward)
    assert pad_matrices(pairs, (4, 5))[0].shape == (2, 4, 5)
