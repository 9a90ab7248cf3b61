"""Words as runs of pieces, and choosing whole ones."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.masked_rows import Words, choose_words, continuations, find_words

PIECES = np.array([False, False, False, False, False, False, True])  # 5 begins a word, 6 goes on with one


def words_of(row: list[int]) -> tuple[Words, np.ndarray]:
    token_ids = np.array([row], np.int32)
    return find_words(token_ids, token_ids >= 5, PIECES)


def test_the_pieces_that_go_on_are_told_by_their_prefix(tokenizer_of: Callable[..., Tokenizer]) -> None:
    table = continuations(tokenizer_of(["boat", "##s", "##", "#", "gull"]))
    assert np.flatnonzero(table).tolist() == [6]


def test_other_tokenizers_have_no_such_pieces() -> None:
    with pytest.raises(BadInputError, match=r"WordPiece.*BPE.*--masking tokens"):
        continuations(Tokenizer(models.BPE()))


def test_words_are_found_as_worked_out_by_hand() -> None:
    # [CLS] a b##s c##s##s [SEP] ##s d [UNK] ##s [SEP] [PAD]
    words, number = words_of([2, 5, 5, 6, 5, 6, 6, 3, 6, 5, 1, 6, 3, 0])
    assert words.starts.tolist() == [[1, 2, 4, 8, 9, 11]]
    assert words.sizes.tolist() == [[1, 2, 3, 1, 1, 1]]
    assert words.counts.tolist() == [6]
    assert (np.diff(words.stretches[0]) > 0).tolist() == [False, False, True, False, True]
    assert number[0, [1, 2, 3, 4, 5, 6, 8, 9, 11]].tolist() == [0, 1, 1, 2, 2, 2, 3, 4, 5]


def test_rows_without_words_have_none() -> None:
    words, _ = words_of([2, 1, 3, 0])
    assert words.counts.tolist() == [0]
    assert words.starts.shape == (1, 0)


@st.composite
def rows(draw: st.DrawFn) -> np.ndarray:
    words = draw(st.lists(st.lists(st.integers(1, 4), max_size=12), min_size=1, max_size=6))
    width = 2 + max(sum(row) for row in words)
    token_ids = np.zeros((len(words), width), np.int32)
    for number, row in enumerate(words):
        pieces = [piece for size in row for piece in (5, *[6] * (size - 1))]
        token_ids[number, : len(pieces) + 2] = [2, *pieces, 3]
    return token_ids


@settings(max_examples=100, deadline=None)
@given(rows(), st.integers(1, 12), st.integers(0, 2**32))
def test_whole_words_fill_the_budget_as_far_as_they_fit(token_ids: np.ndarray, most: int, seed: int) -> None:
    words, _ = find_words(token_ids, token_ids >= 5, PIECES)
    budget = np.minimum(words.sizes.sum(axis=1), most)
    chosen = choose_words(words, budget, np.random.default_rng(seed))
    for row in range(len(token_ids)):
        sizes = words.sizes[row][words.sizes[row] > 0]
        taken = words.sizes[row][chosen[row]].sum()
        left = words.sizes[row][~chosen[row] & (words.sizes[row] > 0)]
        if not sizes.size:
            assert not chosen[row].any()
        elif sizes.min() > budget[row]:
            assert taken == sizes.min()  # one word, although it is over the budget
            assert chosen[row].sum() == 1
        else:
            assert 0 < taken <= budget[row]
            assert (left + taken > budget[row]).all()  # no word is left that would fit


def test_every_word_has_the_same_chance() -> None:
    token_ids = np.tile(np.array([2, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 3], np.int32), (20_000, 1))
    words, _ = find_words(token_ids, token_ids >= 5, PIECES)
    chosen = choose_words(words, np.full(20_000, 3), np.random.default_rng(1))
    assert np.abs(chosen.mean(axis=0) - 0.3).max() < 0.014  # deviation .0032
