"""Sentences packed into pairs of segments."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.data.pretraining.batches import pack_sentence_pairs
from nearsay.data.pretraining.example_config import ExampleConfig
from nearsay.data.pretraining.packed_rows import PackedRows
from nearsay.data.pretraining.prepared_text import Shard
from nearsay.data.pretraining.special_tokens import SpecialTokens

LONG, SHORT, FOLLOWS, RANDOM = 0.9, 0.05, 0.7, 0.2  # draws, against shares of 0.1 and 0.5


class Scripted(np.random.Generator):
    """Random numbers that a test has written down."""

    def __init__(
        self, draws: Sequence[Sequence[float]], fronts: Sequence[Sequence[int]] | None = None
    ) -> None:
        super().__init__(np.random.PCG64(0))
        self._draws = draws
        self._fronts = fronts

    def random(self, *_: Any, **__: Any) -> Any:
        return np.array(self._draws)

    def binomial(self, cuts: Any, p: Any, *_: Any) -> Any:
        assert p == 0.5
        fronts = np.zeros_like(cuts) if self._fronts is None else np.array(self._fronts)
        assert (fronts <= cuts).all()
        return fronts


def lengths_of(packed: PackedRows) -> np.ndarray:
    special = SpecialTokens(pad=90, unknown=91, cls=92, sep=93, mask=94)
    return packed.rows(np.arange(len(packed)), special).lengths


def rows_of(packed: PackedRows) -> list[tuple[int, int, int, int, bool]]:
    assert packed.random_next is not None
    assert packed.first_pieces.tolist() == list(range(0, 2 * len(packed) + 1, 2))
    return [
        (*(int(number) for pair in zip(starts, ends, strict=True) for number in pair), bool(is_random))
        for starts, ends, is_random in zip(
            packed.starts.reshape(-1, 2), packed.ends.reshape(-1, 2), packed.random_next, strict=True
        )
    ]


def test_rows_are_packed_as_worked_out_by_hand(shard_of: Callable[..., Shard]) -> None:
    shard = shard_of([[3, 4, 2, 5], [4, 4]])  # sentences begin at 0 3 7 9 | 14 18
    draws = [
        # short, its length, next or random, where A ends, where a random B begins
        (LONG, 0.0, FOLLOWS, 0.6, 0.0),  # 9 tokens reach the room of 8; A is 2 of their 3 sentences
        (LONG, 0.0, FOLLOWS, 0.0, 0.0),  # one sentence left: it is B, behind what fits before it
        (SHORT, 0.5, RANDOM, 0.9, 0.3),  # target 2 + int(.5 x 7) = 5: both sentences; B is from document 0
        (LONG, 0.0, FOLLOWS, 0.0, 0.0),  # the sentence that was put back, behind the one before it
    ]
    config = ExampleConfig(length=11)
    packed = pack_sentence_pairs(shard, shard, config, Scripted(draws, [[1, 0], [0, 0], [0, 0], [0, 0]]))
    assert rows_of(packed) == [
        (1, 7, 7, 9, False),  # one token over: taken from A's front
        (7, 9, 9, 14, False),
        (14, 18, 3, 7, True),
        (14, 18, 18, 22, False),
    ]
    assert lengths_of(packed).tolist() == [11, 10, 11, 11]


def test_a_sentence_that_fills_the_target_is_followed_by_the_next(shard_of: Callable[..., Shard]) -> None:
    shard = shard_of([[9, 2, 3], [1]])
    draws = [(LONG, 0.0, FOLLOWS, 0.5, 0.0), (LONG, 0.0, FOLLOWS, 0.5, 0.0), (LONG, 0.0, FOLLOWS, 0.5, 0.99)]
    packed = pack_sentence_pairs(shard, shard, ExampleConfig(length=11), Scripted(draws))
    assert rows_of(packed) == [
        (0, 6, 9, 11, False),  # the longer one is cut
        (9, 11, 11, 14, False),
        (14, 15, 11, 14, True),  # a document of one sentence has nothing that follows
    ]


def test_a_random_segment_stops_at_the_end_of_its_document(shard_of: Callable[..., Shard]) -> None:
    shard = shard_of([[2, 2], [1, 1, 1], [6]])
    draws = [(LONG, 0.0, RANDOM, 0.0, 0.3)] * 10  # sentence int(.3 x 4) = 1 of the others
    packed = pack_sentence_pairs(shard, shard, ExampleConfig(length=20), Scripted(draws))
    first = rows_of(packed)[0]
    assert first == (0, 2, 5, 7, True)


@pytest.mark.parametrize(
    ("sizes", "left"),
    [
        ((6, 2), (6, 2)),
        ((9, 2), (6, 2)),
        ((2, 20), (2, 6)),
        ((9, 9), (4, 4)),
        ((5, 4), (4, 4)),
        ((6, 5), (4, 4)),
        ((20, 1), (7, 1)),
    ],
)
def test_the_longer_segment_is_cut(
    shard_of: Callable[..., Shard], sizes: tuple[int, int], left: tuple[int, int]
) -> None:
    shard = shard_of([list(sizes), [1]])
    config = ExampleConfig(length=11, short_share=0, random_share=0)
    packed = pack_sentence_pairs(shard, shard, config, np.random.default_rng(0))
    assert (packed.ends - packed.starts)[:2].tolist() == list(left)


def test_cuts_are_at_the_front_and_the_back_alike(shard_of: Callable[..., Shard]) -> None:
    shard = shard_of([[108, 100], [1]])
    config = ExampleConfig(length=11, short_share=0, random_share=0)
    fronts = []
    for seed in range(200):
        packed = pack_sentence_pairs(shard, shard, config, np.random.default_rng(seed))
        assert (packed.ends - packed.starts)[:2].tolist() == [4, 4]
        fronts.append([packed.starts[0], packed.starts[1] - 108])
    assert np.abs(np.mean(fronts, axis=0) - [52, 48]).max() < 1.5  # of 104 and 96; deviation of a mean .36


def test_random_segments_come_from_another_shard_if_it_is_given(shard_of: Callable[..., Shard]) -> None:
    alone, others = shard_of([[5, 5, 5, 5]], [7]), shard_of([[3, 3], [2, 2]], [7, 8])
    config = ExampleConfig(length=64, random_share=1, short_share=0)
    for seed in range(20):
        packed = pack_sentence_pairs(alone, others, config, np.random.default_rng(seed))
        assert packed.other_tokens is others.tokens
        for _, _, start, _, is_random in rows_of(packed):
            assert is_random
            assert start in {6, 8}  # not the document that goes on there


def test_no_other_document_gives_no_random_rows(shard_of: Callable[..., Shard]) -> None:
    alone = shard_of([[1]])
    assert len(pack_sentence_pairs(alone, alone, ExampleConfig(), np.random.default_rng(0))) == 0


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[list[int]], ExampleConfig, int]:
    sizes = st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=12), min_size=2, max_size=5)
    shares = st.sampled_from([0.0, 0.1, 0.5, 1.0])
    config = ExampleConfig(
        length=draw(st.integers(5, 60)), short_share=draw(shares), random_share=draw(shares)
    )
    return draw(sizes), config, draw(st.integers(0, 2**32))


@settings(max_examples=150, deadline=None)
@given(corpora())
def test_rows_of_any_text_hold_what_they_should(
    shard_of: Callable[..., Shard], corpus: tuple[list[list[int]], ExampleConfig, int]
) -> None:
    documents, config, seed = corpus
    shard = shard_of(documents)
    packed = pack_sentence_pairs(shard, shard, config, np.random.default_rng(seed))
    ends = shard.sentence_starts[shard.document_starts]
    document_of = np.searchsorted(ends, np.arange(len(shard.tokens)), side="right") - 1
    used = np.zeros(len(shard.tokens) + 1, np.bool_)
    beside_cut = np.zeros(len(shard.tokens) + 2, np.bool_)  # places where tokens over the room were
    assert (lengths_of(packed) <= config.length).all()
    for (a, a_end, b, b_end, is_random), length in zip(rows_of(packed), lengths_of(packed), strict=True):
        assert a < a_end
        assert b < b_end
        assert document_of[a] == document_of[a_end - 1]
        assert document_of[b] == document_of[b_end - 1]
        assert is_random == (document_of[a] != document_of[b])
        used[a:a_end] = True
        if not is_random:
            used[b:b_end] = True
            assert b >= a_end
            if length < config.length:
                assert b == a_end
        if length == config.length:
            beside_cut[[a, a_end, b + 1, b_end]] = True
            beside_cut[[a - 1 if a else a, b]] = True
    # what no row holds was next to a segment that was cut
    padded = np.concatenate(([True], used[:-1], [True]))
    gap_starts = np.flatnonzero(padded[:-1] & ~padded[1:])
    gap_ends = np.flatnonzero(~padded[:-1] & padded[1:])
    for start, end in zip(gap_starts, gap_ends, strict=True):
        assert beside_cut[[start, end]].any()
    if config.random_share == 0:
        single = sum(len(document) == 1 for document in documents)
        assert packed.random_next is not None
        assert packed.random_next.sum() == single
