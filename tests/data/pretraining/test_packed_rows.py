"""Rows as places in a shard, made into tokens."""

import numpy as np

from nearsay.data.pretraining.packed_rows import PackedRows, ranges
from nearsay.data.pretraining.special_tokens import SpecialTokens

SPECIAL = SpecialTokens(pad=0, unknown=1, cls=2, sep=3, mask=4)


def pairs(tokens: np.ndarray, others: np.ndarray) -> PackedRows:
    """Rows (10 11 | 13), (12 | 14 15 16) and (13 | 10), the second with a random B."""
    return PackedRows(
        tokens,
        others,
        np.array([0, 2, 4, 6]),
        np.array([0, 3, 2, 4, 3, 0]),
        np.array([2, 4, 3, 7, 4, 1]),
        np.array([False, True, False]),
    )


def test_pairs_are_put_together_as_worked_out_by_hand() -> None:
    tokens = np.arange(10, 20, dtype=np.uint16)
    packed = pairs(tokens, tokens)
    rows = packed.rows(np.array([2, 0, 1]), SPECIAL)
    assert rows.token_ids.tolist() == [
        [2, 13, 3, 10, 3, 0, 0],
        [2, 10, 11, 3, 13, 3, 0],
        [2, 12, 3, 14, 15, 16, 3],
    ]
    assert rows.segment_ids.tolist() == [[0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]]
    assert rows.lengths.tolist() == [5, 6, 7]
    assert (rows.token_ids.dtype, rows.segment_ids.dtype, rows.lengths.dtype) == (np.int32, np.int8, np.int32)


def test_random_segments_can_stand_in_another_shard() -> None:
    packed = pairs(np.arange(10, 20, dtype=np.uint16), np.arange(50, 60, dtype=np.uint16))
    rows = packed.rows(np.array([1, 0]), SPECIAL)
    assert rows.token_ids.tolist() == [[2, 12, 3, 54, 55, 56, 3], [2, 10, 11, 3, 13, 3, 0]]


def test_ranges_follow_each_other() -> None:
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ranges(np.array([], np.int64), np.array([], np.int64)).tolist() == []
