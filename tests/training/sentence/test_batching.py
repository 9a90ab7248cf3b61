import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.training.sentence.batching import distinct, padded_widths, token_batches
from nearsay.training.sentence.forward import padded

LENGTHS = st.lists(st.integers(0, 300), max_size=200)


@given(LENGTHS, st.integers(1, 2000), st.integers(1, 64))
def test_every_text_is_in_exactly_one_batch(lengths: list[int], token_budget: int, max_texts: int) -> None:
    batches = token_batches(lengths, token_budget=token_budget, max_texts=max_texts)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 2000), st.integers(1, 64))
def test_a_batch_keeps_to_its_budget_unless_it_is_one_text(
    lengths: list[int], token_budget: int, max_texts: int
) -> None:
    for batch in token_batches(lengths, token_budget=token_budget, max_texts=max_texts):
        longest = max(lengths[index] for index in batch)
        assert len(batch) == 1 or len(batch) * longest <= token_budget
        assert 1 <= len(batch) <= max_texts


@given(LENGTHS)
def test_lengths_only_fall_from_batch_to_batch(lengths: list[int]) -> None:
    batches = token_batches(lengths, token_budget=512, max_texts=8)
    assert [lengths[index] for batch in batches for index in batch] == sorted(lengths, reverse=True)


def test_batches_of_a_small_window_are_these() -> None:
    batches = token_batches([3, 10, 4, 2, 5], token_budget=10, max_texts=2)
    assert [batch.tolist() for batch in batches] == [[1], [4, 2], [0, 3]]


def test_a_gpu_takes_widths_in_eights_but_none_that_the_model_has_no_positions_for() -> None:
    lengths = [3, 8, 41, 57, 60, 70]
    assert padded_widths(lengths, "cuda", longest=60).tolist() == [8, 8, 48, 60, 60, 70]
    assert padded_widths(lengths, "cpu", longest=60).tolist() == lengths


def test_a_budget_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="token_budget 0"):
        token_batches([1], token_budget=0, max_texts=1)


def test_no_texts_make_no_batches() -> None:
    assert token_batches([], token_budget=10, max_texts=2) == []


@given(st.lists(st.text(max_size=3), max_size=50))
def test_distinct_texts_give_the_texts_back(texts: list[str]) -> None:
    different, positions = distinct(texts)
    assert [different[position] for position in positions] == texts
    assert len(set(different)) == len(different)


def test_padding_goes_right_or_left() -> None:
    numbers, mask = padded([[5, 6, 7], [8]], pad_id=9)
    np.testing.assert_array_equal(numbers, [[5, 6, 7], [8, 9, 9]])
    np.testing.assert_array_equal(mask, [[1, 1, 1], [1, 0, 0]])
    numbers, mask = padded([[5, 6, 7], [8]], pad_id=9, left=True)
    np.testing.assert_array_equal(numbers, [[5, 6, 7], [9, 9, 8]])
    np.testing.assert_array_equal(mask, [[1, 1, 1], [0, 0, 1]])


def test_padding_goes_up_to_a_width_that_is_asked_for() -> None:
    texts = [np.array([5, 6, 7], dtype=np.int32), np.array([8], dtype=np.int32)]
    numbers, mask = padded(texts, pad_id=9, width=4)
    np.testing.assert_array_equal(numbers, [[5, 6, 7, 9], [8, 9, 9, 9]])
    np.testing.assert_array_equal(mask, [[1, 1, 1, 0], [1, 0, 0, 0]])


def test_a_batch_of_one_empty_text_still_has_a_column() -> None:
    numbers, mask = padded([[]], pad_id=0)
    assert numbers.shape == (1, 1)
    assert mask.sum() == 0
