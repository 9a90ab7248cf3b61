"""What candidates are measured with."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from nearsay.data.errors import BadInputError
from nearsay.indexer.plans.trials import (
    TrialQueries,
    drawn,
    given,
    held_out,
    queries_to_show,
    recall_at_least,
)
from nearsay.indexer.vectors.segment import VectorSegment
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore, unit_length

COUNT, DIMENSION = 300, 6


@pytest.fixture(scope="module")
def vectors() -> VectorStore:
    """COUNT vectors in two segments, numbered by threes."""
    table = unit_length(np.random.default_rng(0).standard_normal((COUNT, DIMENSION)).astype(np.float32))
    ids = np.arange(1, COUNT + 1) * 3
    cuts = [(0, 100), (100, COUNT)]
    return VectorStore([VectorSegment(str(b), ids[b:e], table[b:e]) for b, e in cuts], DIMENSION)


@pytest.fixture(scope="module")
def alive() -> NDArray[np.bool_]:
    """Every passage but each tenth."""
    found = np.ones(3 * COUNT + 1, dtype=np.bool_)
    found[30::30] = False
    return found


def found(ids: list[int], scores: list[float]) -> Candidates:
    return Candidates(np.array(ids, dtype=np.int64), np.array(scores, dtype=np.float32))


def test_stored_vectors_are_drawn_without_themselves_or_the_dead(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    trial = drawn(vectors, alive, 50, 5, np.random.default_rng(1))
    assert (len(trial), trial.asked, len(set(trial.own.tolist()))) == (50, 6, 50)
    assert alive[trial.own].all()
    for vector, own, truth in zip(trial.vectors, trial.own, trial.truth, strict=True):
        assert vector.tolist() == vectors.rows(vectors.positions(own[None]))[0].tolist()
        others = alive.copy()
        others[own] = False
        assert truth.ids.tolist() == vectors.nearest(vector, 5, others).ids.tolist()


def test_no_more_are_drawn_than_there_are(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    assert len(drawn(vectors, alive, 1000, 5, np.random.default_rng(1))) == 270


def test_the_same_seed_draws_the_same(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    one, two = (drawn(vectors, alive, 20, 5, np.random.default_rng(7)).own.tolist() for _ in range(2))
    assert one == two
    assert drawn(vectors, alive, 20, 5, np.random.default_rng(8)).own.tolist() != one


def test_given_queries_count_a_passage_that_equals_them(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    queries = vectors.segments[0].vectors[:12]
    trial = given(queries, 3, np.random.default_rng(0), lambda some, k: vectors.nearest_many(some, k, alive))
    assert (len(trial), trial.asked) == (12, 3)
    assert sorted(map(tuple, trial.vectors.tolist())) == sorted(map(tuple, queries.tolist()))
    living = [number for number in range(3, 39, 3) if alive[number]]
    assert [truth.ids[0] for truth in trial.truth if truth.scores[0] > 0.9999]
    assert {int(truth.ids[0]) for truth in trial.truth} >= set(living)


def test_a_handful_of_queries_is_refused(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    with pytest.raises(BadInputError, match=r"\b9 queries.*10 or more"):
        given(
            np.zeros((9, DIMENSION), np.float32),
            3,
            np.random.default_rng(0),
            lambda some, k: vectors.nearest_many(some, k, alive),
        )


def test_recall_is_the_share_of_the_truth_that_was_found() -> None:
    truth = (found([1, 2, 3, 4], [0.9, 0.8, 0.7, 0.6]),) * 4
    trial = TrialQueries(np.zeros((4, 2), np.float32), np.array([9, 9, -1, 9]), truth, 4)
    got = [
        found([9, 1, 2, 3, 4], [1.0, 0.9, 0.8, 0.7, 0.6]),  # itself, then all
        found([9, 1, 2, 7, 8], [1.0, 0.9, 0.8, 0.5, 0.4]),
        found([1, 2, 3, 5], [0.9, 0.8, 0.7, 0.6]),  # 5 ties with 4: as near
        found([], []),
    ]
    assert trial.recalls(got).tolist() == [1.0, 0.5, 1.0, 0.0]


def test_a_query_without_neighbours_misses_nothing() -> None:
    trial = TrialQueries(np.zeros((1, 2), np.float32), np.array([3]), (found([], []),), 4)
    assert trial.recalls([found([3], [1.0])]).tolist() == [1.0]


def test_exact_search_finds_everything(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    trial = drawn(vectors, alive, 60, 5, np.random.default_rng(2))
    assert trial.recalls(vectors.nearest_many(trial.vectors, trial.asked, alive)).tolist() == [1.0] * 60
    proposing, deciding = trial.parted()
    assert (len(proposing), len(deciding)) == (17, 43)
    for part in (proposing, deciding):
        found = vectors.nearest_many(part.vectors, part.asked, alive)
        assert part.recalls(found).tolist() == [1.0] * len(part)


def test_what_the_queries_vouch_for_is_the_lower_end_of_the_interval() -> None:
    halves = np.repeat([1.0, 0.6], 200)  # mean 0.8, squares of deviations 400 * 0.04 over 399
    assert recall_at_least(halves) == pytest.approx(0.8 - 1.645 * np.sqrt(16 / 399 / 400), abs=1e-12)
    assert recall_at_least(np.array([0.9])) == 0.0
    assert recall_at_least(np.array([0.0, 0.0, 0.1])) == 0.0
    recalls = np.random.default_rng(0).choice([0.8, 0.9, 1.0], size=1000)
    by_scipy = stats.norm.interval(0.9, loc=recalls.mean(), scale=stats.sem(recalls))[0]
    assert recall_at_least(recalls) == pytest.approx(by_scipy, abs=1e-5)


@pytest.mark.parametrize("count", [2, 8, 51, 52, 1000])
def test_perfect_answers_vouch_for_no_more_than_wilson_lets_them(count: int) -> None:
    wilson = stats.binomtest(count, count).proportion_ci(confidence_level=0.9, method="wilson").low
    assert recall_at_least(np.ones(count)) == pytest.approx(wilson, abs=1e-4)
    assert (recall_at_least(np.ones(count)) >= 0.95) == (count >= 52)


def test_few_queries_that_find_the_same_say_little_of_the_others() -> None:
    assert recall_at_least(np.full(8, 0.9)) == pytest.approx(0.9 * 8 / (8 + 1.645**2), abs=1e-12)


@pytest.mark.parametrize(("recall", "least"), [(0.5, 3), (0.95, 52), (0.99, 268), (0.1, 2)])
def test_so_many_perfect_answers_show_a_recall(recall: float, least: int) -> None:
    assert queries_to_show(recall) == least
    assert recall_at_least(np.ones(least)) >= recall
    assert least == 2 or recall_at_least(np.ones(least - 1)) < recall


def test_no_number_of_queries_shows_that_everything_is_found() -> None:
    assert queries_to_show(1.0) is None
    assert recall_at_least(np.ones(100_000)) < 1.0


def test_what_is_held_out_is_not_to_be_found_by_any(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    trial, others = held_out(vectors, alive, 40, 5, np.random.default_rng(3))
    assert (len(trial), trial.asked, set(trial.own.tolist())) == (40, 5, {-1})
    assert int(alive.sum() - others.sum()) == 40
    assert not others.flags.writeable
    for vector, truth in zip(trial.vectors, trial.truth, strict=True):
        assert truth.ids.tolist() == vectors.nearest(vector, 5, others).ids.tolist()
        assert vectors.nearest(vector, 1, alive & ~others).scores[0] > 0.99999


def test_only_newer_passages_are_drawn_where_asked(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    trial = drawn(vectors, alive, 20, 5, np.random.default_rng(1), after=600)
    assert (len(trial), bool((trial.own > 600).all())) == (20, True)
