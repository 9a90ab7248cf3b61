"""Ranks, score bounds and margins."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.training.sentence.negatives.candidates import Candidates, Filter, candidates
from nearsay.training.sentence.negatives.mining_corpus import MiningConfig

SCORES = np.array([0.95, 0.9, 0.8, 0.6, 0.5, 0.2], dtype=np.float32)
ROWS = np.array([30, 31, 32, 33, 34, 35], dtype=np.int64)
KNOWN = np.array([False, True, False, False, False, False])


def mined(positive: float = 0.9, **choices: object) -> tuple[Candidates, Counter[Filter]]:
    config = MiningConfig(**{"per_anchor": 1, "relative_margin": None} | choices)  # type: ignore[arg-type]
    return candidates(ROWS, SCORES, KNOWN, positive, config)


def test_known_texts_are_taken_away_before_ranks_are_counted() -> None:
    left, taken = mined()
    assert left.rows.tolist() == [30, 32, 33, 34, 35]
    assert left.ranks.tolist() == [1, 2, 3, 4, 5]
    assert taken[Filter.KNOWN] == 1


def test_ranks_cut_on_both_sides_and_what_is_beyond_the_last_is_not_counted() -> None:
    left, taken = mined(first_rank=2, last_rank=3)
    assert left.rows.tolist() == [32, 33]
    assert left.ranks.tolist() == [2, 3]
    assert +taken == {Filter.KNOWN: 1, Filter.RANK: 1}
    assert mined(last_rank=1)[1][Filter.KNOWN] == 0  # the known text stands behind


@pytest.mark.parametrize(
    ("choices", "rows", "filter_"),
    [
        # 0.95 * 0.9 = 0.855 is the highest that is let through; 0.95 and nothing else is above it.
        ({"relative_margin": 0.05}, [32, 33, 34, 35], Filter.RELATIVE_MARGIN),
        # 0.9 * 0.7 = 0.63
        ({"relative_margin": 0.3}, [33, 34, 35], Filter.RELATIVE_MARGIN),
        # 0.9 - 0.35 = 0.55
        ({"absolute_margin": 0.35}, [34, 35], Filter.ABSOLUTE_MARGIN),
        ({"max_score": 0.55}, [34, 35], Filter.MAX_SCORE),
        ({"min_score": 0.55}, [30, 32, 33], Filter.MIN_SCORE),
    ],
)
def test_each_bound_takes_what_lies_beyond_it(
    choices: dict[str, float], rows: list[int], filter_: Filter
) -> None:
    left, taken = mined(**choices)
    assert left.rows.tolist() == rows
    assert taken[filter_] == 5 - len(rows)


def test_a_score_on_the_bound_passes() -> None:
    assert 33 in mined(max_score=float(SCORES[3]))[0].rows
    assert 33 in mined(min_score=float(SCORES[3]))[0].rows
    assert 33 in mined(positive=float(SCORES[3]), absolute_margin=0.0)[0].rows


def test_a_candidate_counts_for_the_first_filter_alone() -> None:
    left, taken = mined(first_rank=2, max_score=0.7, absolute_margin=0.35, relative_margin=0.05)
    assert left.rows.tolist() == [34, 35]
    assert +taken == {Filter.KNOWN: 1, Filter.RANK: 1, Filter.MAX_SCORE: 1, Filter.ABSOLUTE_MARGIN: 1}


def test_the_relative_margin_is_below_a_positive_of_negative_score_too() -> None:
    scores = np.array([-0.45, -0.5, -0.55, -0.6], dtype=np.float32)
    rows = np.arange(4, dtype=np.int64)
    config = MiningConfig(per_anchor=1, relative_margin=0.1)
    left, _ = candidates(rows, scores, np.zeros(4, dtype=np.bool_), -0.5, config)
    assert left.rows.tolist() == [2, 3]  # -0.5 - 0.05 = -0.55


@given(
    known=st.lists(st.booleans(), min_size=6, max_size=6),
    positive=st.floats(-1, 1),
    first=st.integers(1, 6),
    absolute=st.none() | st.floats(0, 1),
    lowest=st.none() | st.floats(-1, 1),
)
def test_every_text_up_to_the_last_rank_is_left_or_counted_once(
    known: list[bool], positive: float, first: int, absolute: float | None, lowest: float | None
) -> None:
    config = MiningConfig(per_anchor=1, first_rank=first, absolute_margin=absolute, min_score=lowest)
    left, taken = candidates(ROWS, SCORES, np.array(known), positive, config)
    assert len(left) + sum(taken.values()) == 6
    assert not set(left.rows.tolist()) & set(ROWS[known].tolist())


def test_every_filter_has_its_reason_for_people() -> None:
    assert len({filter_.reason for filter_ in Filter}) == len(Filter)
