"""Sentences packed as they follow each other."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.data.pretraining.batches import pack_full_sentences
from nearsay.data.pretraining.packed_rows import PackedRows
from nearsay.data.pretraining.prepared_text import Shard
from nearsay.data.pretraining.special_tokens import SpecialTokens


class FirstRoom(np.random.Generator):
    """Gives the first row the room that a test says."""

    def __init__(self, room: int) -> None:
        super().__init__(np.random.PCG64(0))
        self._room = room

    def integers(self, *_: Any, **__: Any) -> Any:
        return self._room


SPECIAL = SpecialTokens(pad=90, unknown=91, cls=92, sep=93, mask=94)


def lengths_of(packed: PackedRows) -> np.ndarray:
    return packed.rows(np.arange(len(packed)), SPECIAL).lengths


def pieces_of(packed: PackedRows) -> list[list[tuple[int, int]]]:
    pieces = list(zip(packed.starts.tolist(), packed.ends.tolist(), strict=True))
    bounds = packed.first_pieces.tolist()
    return [pieces[start:end] for start, end in pairwise(bounds)]


def test_rows_hold_whole_sentences_and_go_on_in_the_next_document(shard_of: Callable[..., Shard]) -> None:
    shard = shard_of([[3, 4, 2], [2, 9], [1]])  # sentences begin at 0 3 7 | 9 11 | 20
    packed = pack_full_sentences(shard, 11, FirstRoom(10))
    assert pieces_of(packed) == [[(0, 9)], [(9, 11)], [(11, 20)], [(20, 21)]]
    assert lengths_of(packed).tolist() == [11, 4, 11, 3]
    wider = pack_full_sentences(shard, 14, FirstRoom(13))
    assert pieces_of(wider) == [[(0, 9), (9, 11)], [(11, 20), (20, 21)]]
    assert wider.random_next is None


def test_a_row_is_cls_and_pieces_each_with_a_sep(shard_of: Callable[..., Shard]) -> None:
    packed = pack_full_sentences(shard_of([[3], [2]]), 9, FirstRoom(8))
    rows = packed.rows(np.array([0]), SPECIAL)
    assert rows.token_ids.tolist() == [[92, 0, 1, 2, 93, 3, 4, 93]]
    assert not rows.segment_ids.any()
    assert rows.lengths.tolist() == [8]


def test_the_first_row_is_shorter_where_sentences_allow(shard_of: Callable[..., Shard]) -> None:
    shard = shard_of([[3, 3, 3, 3]])
    assert pieces_of(pack_full_sentences(shard, 8, FirstRoom(5))) == [[(0, 3)], [(3, 9)], [(9, 12)]]
    assert pieces_of(pack_full_sentences(shard, 8, FirstRoom(2))) == [[(0, 6)], [(6, 12)]]


def test_a_sentence_longer_than_a_row_is_cut_and_its_rest_has_company(shard_of: Callable[..., Shard]) -> None:
    packed = pack_full_sentences(shard_of([[12, 2]]), 7, FirstRoom(6))
    assert pieces_of(packed) == [[(0, 5)], [(5, 10)], [(10, 14)]]


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=1, max_size=5),
    st.integers(3, 60),
    st.integers(0, 2**32),
)
def test_every_token_of_any_text_is_in_one_row(
    shard_of: Callable[..., Shard], documents: list[list[int]], length: int, seed: int
) -> None:
    shard = shard_of(documents)
    packed = pack_full_sentences(shard, length, np.random.default_rng(seed))
    assert (lengths_of(packed) <= length).all()
    assert packed.starts[0] == 0
    assert (packed.starts[1:] == packed.ends[:-1]).all()
    assert packed.ends[-1] == len(shard.tokens)
    ends = shard.sentence_starts[shard.document_starts[1:]]
    rows = pieces_of(packed)
    for row in rows:
        assert all(end in ends for _, end in row[:-1])  # a [SEP] inside a row is at a document's end
    sentence_ends = set(shard.sentence_starts.tolist())
    for number, (row, after) in enumerate(pairwise(rows)):
        taken = sum(end - start + 1 for start, end in row)
        if row[-1][1] not in sentence_ends:  # a cut sentence fills its row
            assert taken == length - 1
        elif number:  # the next sentence did not fit any more
            size = min(end for end in sentence_ends if end > after[0][0]) - after[0][0]
            assert taken + size + (row[-1][1] in ends) > length - 1
