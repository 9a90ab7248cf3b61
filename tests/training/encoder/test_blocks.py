import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from nearsay.training.encoder.packed_window import fill, lay


def longest_first(lengths: list[int]) -> np.ndarray:
    return -np.sort(-np.array(lengths, np.int64))


def test_long_texts_are_filled_up_with_short_ones() -> None:
    ((size, blocks),) = fill(longest_first([40, 30, 30, 24, 4]))
    assert size == 64
    assert [[[40, 30, 30, 24, 4][text] for text in block] for block in blocks] == [[40, 24], [30, 30, 4]]


def test_texts_that_leave_much_of_a_block_empty_go_into_larger_ones_or_none() -> None:
    assert [size for size, _ in fill(longest_first([42] * 6))] == [128]
    assert list(fill(longest_first([70] * 6))) == []
    assert list(fill(longest_first([300]))) == []
    assert [(size, blocks) for size, blocks in fill(longest_first([300, 128, 64]))] == [
        (64, [[2]]),
        (128, [[1]]),
    ]


@given(st.lists(st.integers(1, 140), min_size=1, max_size=60))
def test_a_text_is_whole_in_one_block_at_most(lengths: list[int]) -> None:
    given = longest_first(lengths)
    laid = [text for _, blocks in fill(given) for block in blocks for text in block]
    assert len(set(laid)) == len(laid)
    for size, blocks in fill(given):
        texts, where = lay(size, blocks, given)
        assert sorted(texts) == texts.tolist() == sorted(text for block in blocks for text in block)
        counts = given[texts]
        owner = np.repeat(np.arange(len(texts)), counts)
        places = where.places.numpy()
        assert (where.rows.numpy()[places] == np.arange(len(owner))).all()
        assert (np.diff(places)[np.diff(owner) == 0] == 1).all()  # a text's tokens lie together
        for row, place in enumerate(places):
            block, inside = divmod(place, size)
            seen = torch.flatten(torch.argwhere(where.mask[block, 0, inside] == 0)).numpy() + block * size
            assert seen.tolist() == places[owner == owner[row]].tolist()
