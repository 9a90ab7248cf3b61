"""Whether two documents are near-duplicates, and the order in which a gate looks at documents."""

import numpy as np
import pytest
from numpy.typing import NDArray

from nearsay.indexer.duplicates import gate
from nearsay.indexer.duplicates.gate import Arrangement, document_cosine, nearest_original
from nearsay.indexer.neighbours.points import Points

_E = np.eye(4, dtype=np.float32)
_BETWEEN = ((_E[0] * 0.6 + _E[1] * 0.8)[None]).astype(np.float32)  # .6 from one axis, .8 from the other


def test_the_cosine_of_documents_is_the_mean_of_each_passages_nearest_in_the_other() -> None:
    one, other = _E[:2], np.concatenate([_E[:1], _BETWEEN])
    # In the other: 1 for the first axis, .8 for the second. In the one: 1, and .8.
    assert document_cosine(one, other, 0.8) == pytest.approx((1 + 0.8 + 1 + 0.8) / 4)
    assert document_cosine(one, other, 0.81) is None


@pytest.mark.parametrize("rows", [1, 2, 2048])
def test_each_passage_of_either_needs_one_in_the_other(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(gate, "_ROWS", rows)
    assert document_cosine(_E[:3], _E[[2, 0, 1]], 1.0) == 1.0
    assert document_cosine(_E[:3], _E[:2], 0.5) is None
    assert document_cosine(_E[:2], _E[:3], 0.5) is None


def test_only_the_same_vector_has_a_cosine_of_one() -> None:
    vector = np.full((1, 3), 1 / np.sqrt(3), dtype=np.float32)
    beside = np.nextafter(vector, np.float32(1.0))
    assert document_cosine(vector, vector.copy(), 1.0) == 1.0
    assert document_cosine(vector, beside, 1.0) is None
    assert document_cosine(vector, beside, 0.999999) is not None


def test_blocks_change_no_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = np.random.default_rng(5)
    one, other = (_unit(drawn.standard_normal((count, 16))) for count in (7, 5))
    whole = document_cosine(one, other, -1.0)
    products = one.astype(np.float64) @ other.T.astype(np.float64)
    assert whole == pytest.approx(
        np.concatenate([products.max(axis=1), products.max(axis=0)]).mean(), abs=1e-6
    )
    monkeypatch.setattr(gate, "_ROWS", 2)
    assert document_cosine(one, other, -1.0) == whole


def test_documents_stand_in_the_order_of_their_newest_passages() -> None:
    # Document 7 was changed: beside passage 1 it has passage 5, the newest of all.
    points = Points.from_array(np.array([1, 2, 3, 4, 5]), np.eye(5, dtype=np.float32))
    arrangement = Arrangement.of(points, np.array([7, 8, 8, 9, 7]))
    assert arrangement.documents.tolist() == [8, 9, 7]
    assert arrangement.newest.tolist() == [3, 4, 5]
    assert arrangement.starts.tolist() == [0, 2, 3, 5]
    assert points.ids[arrangement.places].tolist() == [2, 3, 4, 1, 5]
    assert arrangement.ranks.tolist() == [0, 0, 1, 2, 2]
    assert arrangement.middle(np.array([0, 1, 2])).tolist() == [1, 2, 4]
    assert arrangement.vectors(2).tolist() == np.eye(5)[[0, 4]].tolist()
    assert arrangement.ids(3, np.array([True, False, True])).tolist() == [1, 2, 3, 5]
    assert arrangement.ids(1, np.array([True, True, True])).tolist() == [2, 3]


def test_the_first_of_those_that_are_equally_near_is_taken() -> None:
    vectors = np.stack([_E[0], _E[1], _E[0], _E[0]])
    arrangement = Arrangement.of(Points.from_array(np.arange(1, 5), vectors), np.arange(1, 5))
    assert nearest_original(arrangement, 3, np.array([0, 1, 2]), 0.9) == (0, 1.0)
    assert nearest_original(arrangement, 3, np.array([1]), 0.9) is None
    assert nearest_original(arrangement, 3, np.array([], dtype=np.int64), 0.9) is None


def _unit(rows: NDArray[np.float64]) -> NDArray[np.float32]:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
