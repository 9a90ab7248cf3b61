import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nearsay.training.encoder.packed_window import EqualLengths, pack

TEXTS = st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=9), min_size=1, max_size=40)


def test_a_small_window_is_laid_out_like_this() -> None:
    window = pack([[7], [1, 2, 3], [8], [4, 5, 6]])
    assert window.order.tolist() == [1, 3, 0, 2]
    assert window.lengths.tolist() == [3, 3, 1, 1]
    assert window.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert window.places.tolist() == [0, 1, 2, 0, 1, 2, 0, 0]
    assert window.bounds.tolist() == [0, 3, 6, 7, 8]
    first, second = window.batches(5)
    assert (first.texts, first.at.tolist(), first.bounds.tolist()) == (1, [0], [0, 3])
    assert second.token_ids.tolist() == [4, 5, 6, 7, 8]
    assert second.places.tolist() == [0, 1, 2, 0, 0]
    assert second.bounds.tolist() == [0, 3, 4, 5]
    assert second.groups == (EqualLengths(1, 3, 0), EqualLengths(2, 1, 3))
    assert second.groups[1].rows == slice(3, 5)
    assert (second.texts, second.at.tolist(), second.longest) == (3, [1, 2, 3], 3)


@given(TEXTS, st.integers(1, 60), st.booleans())
def test_batches_hold_every_token_once_and_keep_to_the_budget(
    texts: list[list[int]], budget: int, by_blocks: bool
) -> None:
    window = pack(texts)
    seen: dict[int, list[int]] = {}
    for batch in window.batches(budget, by_blocks=by_blocks):
        assert batch.texts == 1 or len(batch.token_ids) <= budget or batch.blocks is not None
        assert [group.tokens for group in batch.groups] == sorted(
            {group.tokens for group in batch.groups}, reverse=True
        )
        assert batch.bounds[-1] == sum(group.texts * group.tokens for group in batch.groups)
        for text in range(batch.texts):
            tokens = slice(batch.bounds[text], batch.bounds[text + 1])
            seen[batch.at[text]] = batch.token_ids[tokens].tolist()
            assert batch.places[tokens].tolist() == list(range(len(seen[batch.at[text]])))
    assert [seen[place] for place in np.argsort(window.order)] == texts


@given(TEXTS, st.integers(1, 60), st.booleans())
def test_a_batchs_place_is_where_it_is_among_the_sorted_texts(
    texts: list[list[int]], budget: int, by_blocks: bool
) -> None:
    window = pack(texts)
    numbers = torch.arange(len(texts))
    for batch in window.batches(budget, by_blocks=by_blocks):
        assert numbers[batch.place].tolist() == batch.at.tolist()
        assert by_blocks or isinstance(batch.place, slice)


@given(TEXTS)
def test_groups_and_bounds_say_the_same(texts: list[list[int]]) -> None:
    for batch in pack(texts).batches(25):
        starts = [group.start + text * group.tokens for group in batch.groups for text in range(group.texts)]
        assert starts == batch.bounds[:-1].tolist()


def test_a_text_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="no tokens"):
        pack([[1], []])
