"""Maximal marginal relevance, held against the plain greedy choice."""

import numpy as np
import pytest
from numpy.typing import NDArray

from nearsay.indexer.exploring import diverse
from nearsay.indexer.exploring.diverse import Pick, marginal_relevance
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.vector_store import unit_length


def points_of(vectors: NDArray[np.float32]) -> Points:
    return Points.from_array(np.arange(1, len(vectors) + 1), vectors)


def plainly(
    vectors: NDArray[np.float32], relevance: NDArray[np.float32], count: int, balance: float
) -> list[int]:
    chosen = [int(np.argmax(relevance))]
    while len(chosen) < count:
        likeness = (vectors @ vectors[chosen].T).max(axis=1)
        worth = balance * relevance - (1.0 - balance) * likeness
        worth[chosen] = -np.inf
        chosen.append(int(np.argmax(worth)))
    return chosen


def test_the_choice_worked_by_hand() -> None:
    # Four directions at 0, 10, 60 and 90 degrees, less and less relevant.
    degrees = np.deg2rad([0.0, 10.0, 60.0, 90.0])
    vectors = np.stack([np.cos(degrees), np.sin(degrees)], axis=1).astype("f4")
    relevance = np.array([0.9, 0.8, 0.5, 0.3], dtype="f4")
    picks = marginal_relevance(points_of(vectors), relevance, 3, 0.5)
    # Then 10: .4 - .4924; 60: .25 - .25; 90: .15 - 0. Then 10: .4 - .4924; 60: .25 - .4330.
    assert [pick.place for pick in picks] == [0, 3, 1]
    assert picks == [
        Pick(0, pytest.approx(0.45), pytest.approx(0.9), None),
        Pick(3, pytest.approx(0.15), pytest.approx(0.3), pytest.approx(0.0, abs=1e-6)),
        Pick(
            1, pytest.approx(0.4 - 0.492404, abs=2e-6), pytest.approx(0.8), pytest.approx(0.984808, abs=2e-6)
        ),
    ]


@pytest.mark.parametrize("balance", [0.0, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("pool", [20, 300, 5000])
def test_the_same_are_chosen_as_by_looking_at_all_each_time(
    balance: float, pool: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diverse, "_POOL", pool)
    generator = np.random.default_rng(3)
    centres = generator.standard_normal((30, 16))
    vectors = unit_length(
        (centres[generator.integers(0, 30, 900)] + 0.6 * generator.standard_normal((900, 16))).astype("f4")
    )
    relevance = generator.random(900).astype("f4")
    picks = marginal_relevance(points_of(vectors), relevance, 40, balance)
    assert [pick.place for pick in picks] == plainly(vectors, relevance, 40, balance)


def test_of_copies_that_tie_the_one_is_taken_that_is_said() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1]], dtype="f4")
    relevance = np.array([0.8, 0.8, 0.5], dtype="f4")
    asked: list[list[int]] = []

    def last(places: NDArray[np.int64]) -> int:
        asked.append(places.tolist())
        return int(places[-1])

    picks = marginal_relevance(points_of(vectors), relevance, 3, 0.5, first=last)
    assert [pick.place for pick in picks] == [1, 2, 0]
    assert asked == [[0, 1]]


def test_no_more_are_chosen_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diverse, "_POOL", 1)
    vectors = np.eye(3, dtype="f4")
    picks = marginal_relevance(points_of(vectors), np.array([0.1, 0.3, 0.2], dtype="f4"), 9, 0.5)
    assert [pick.place for pick in picks] == [1, 2, 0]
