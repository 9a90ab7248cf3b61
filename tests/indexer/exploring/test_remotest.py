"""The farthest passages, held against the comparison of all with all."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from nearsay.data.errors import BadInputError
from nearsay.indexer.exploring import unlike as module
from nearsay.indexer.exploring.unlike import remotest
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.vector_store import unit_length


def points_of(vectors: NDArray[np.float32]) -> Points:
    return Points.from_array(np.arange(1, len(vectors) + 1), unit_length(vectors))


def around_centres(count: int, seed: int = 0) -> NDArray[np.float32]:
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((20, 12))
    return (centres[generator.integers(0, 20, count)] + 0.5 * generator.standard_normal((count, 12))).astype(
        "f4"
    )


def by_force(points: Points, documents: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    rows = points.rows(np.arange(len(points))).astype(np.float64)
    cosines = 1.0 - cdist(rows, rows, "cosine")
    cosines[documents[:, None] == documents[None, :]] = -9.0
    return np.sort(cosines, axis=1)[:, -k:].mean(axis=1)


def test_the_score_is_the_mean_cosine_to_the_nearest_worked_by_hand() -> None:
    # At 0, 60, 90 and 180 degrees: the two nearest of each are at cosines of
    degrees = np.deg2rad([0.0, 60.0, 90.0, 180.0])
    points = points_of(np.stack([np.cos(degrees), np.sin(degrees)], axis=1).astype("f4"))
    found, _ = remotest(points, np.arange(4), 2, 2)
    # 0: .5, 0; 60: cos 30, .5; 90: cos 30, 0 (twice); 180: 0, -.5
    assert [far.place for far in found] == [3, 0]
    assert [far.score for far in found] == pytest.approx([-0.25, 0.25], abs=1e-6)
    assert found[0].nearest[0] == (2, pytest.approx(0.0, abs=1e-6))


@pytest.mark.parametrize(("first", "taken"), [(2048, 256), (10, 3), (40, 1000)])
def test_the_same_are_found_as_by_comparing_all(
    first: int, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST", first)
    monkeypatch.setattr(module, "_TAKEN", taken)
    points = points_of(around_centres(700))
    documents = np.random.default_rng(1).integers(0, 250, 700)
    scores = by_force(points, documents, 5)
    found = remotest(points, documents, 15, 5)[0]
    assert [far.place for far in found] == np.argsort(scores)[:15].tolist()
    assert [far.score for far in found] == pytest.approx(np.sort(scores)[:15], abs=2e-6)


def test_passages_of_one_document_are_no_company_for_each_other() -> None:
    # Sixty passages around centres, and five copies on an axis of their own.
    vectors = np.zeros((65, 13), dtype="f4")
    vectors[:60, :12], vectors[60:, 12] = around_centres(60), 1.0
    documents = np.concatenate([np.arange(60), np.full(5, 99)])
    found = remotest(points_of(vectors), documents, 5, 3)[0]
    assert [(far.place, far.score) for far in found] == [(place, 0.0) for place in range(60, 65)]
    apart = remotest(points_of(vectors), np.arange(65), 5, 3)[0]
    assert not {60, 61, 62, 63, 64} & {far.place for far in apart}


def test_all_that_tie_with_the_last_are_given() -> None:
    vectors = np.eye(6, dtype="f4")
    found, _ = remotest(points_of(vectors), np.arange(6), 2, 3)
    assert [far.place for far in found] == [0, 1, 2, 3, 4, 5]
    assert {far.score for far in found} == {0.0}


def test_of_very_many_that_tie_only_the_first_are_compared_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_MOST_TIED", 20), ("_TAKEN", 10), ("_FIRST", 30)):
        monkeypatch.setattr(module, name, value)
    real, products = module.highest_cosines, 0

    def counted(points, places, references, documents, best):
        nonlocal products
        products += places.size * references.size
        return real(points, places, references, documents, best)

    monkeypatch.setattr(module, "highest_cosines", counted)
    vectors = np.random.default_rng(2).permutation(np.repeat(around_centres(10), 60, axis=0))
    found = remotest(points_of(vectors), np.arange(600), 4, 2)[0]
    assert {far.score for far in found} == {1.0}
    assert 4 <= len(found) <= 60
    assert products < 600 * 600 / 4


def test_some_are_compared_with_others_only() -> None:
    points = points_of(around_centres(300))
    rows = points.rows(np.arange(300)).astype(np.float64)
    new, old = np.arange(0, 300, 3), np.setdiff1d(np.arange(300), np.arange(0, 300, 3))
    best = (1.0 - cdist(rows[new], rows[old], "cosine")).max(axis=1)
    found = remotest(points, np.arange(300), 7, 1, places=new, references=old)[0]
    assert [far.place for far in found] == new[np.argsort(best)[:7]].tolist()
    assert [far.score for far in found] == pytest.approx(np.sort(best)[:7], abs=2e-6)
    assert all(far.nearest[0][0] in set(old.tolist()) for far in found)


def test_fewer_neighbours_are_taken_where_there_are_fewer() -> None:
    points = points_of(around_centres(8))
    documents = np.array([0, 0, 0, 0, 0, 1, 1, 2])
    found, neighbours = remotest(points, documents, 8, 10)
    assert neighbours == 3
    assert [far.score for far in found] == pytest.approx(np.sort(by_force(points, documents, 3)), abs=2e-6)


def test_one_document_alone_has_nothing_to_be_compared_with() -> None:
    with pytest.raises(BadInputError, match="one document"):
        remotest(points_of(around_centres(4)), np.zeros(4, dtype=np.int64), 2, 3)


def test_the_order_of_the_passages_says_nothing() -> None:
    vectors = around_centres(500)
    shuffled = np.random.default_rng(5).permutation(500)
    one = remotest(points_of(vectors), np.arange(500), 9, 4)[0]
    other = remotest(points_of(vectors[shuffled]), np.arange(500), 9, 4)[0]
    assert [(far.place, far.score) for far in one] == [(int(shuffled[far.place]), far.score) for far in other]


def test_a_listener_may_stop_it() -> None:
    class StopError(Exception):
        pass

    def stop(_: Progress) -> None:
        raise StopError

    with pytest.raises(StopError):
        remotest(points_of(around_centres(50)), np.arange(50), 5, 5, listener=stop)
