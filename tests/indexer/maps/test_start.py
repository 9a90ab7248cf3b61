"""Where points begin."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from nearsay.indexer.maps.layout import SIDE, begun_from, main_directions


def test_points_begin_by_their_two_principal_components() -> None:
    generator = np.random.default_rng(3)
    vectors = generator.standard_normal((200, 6)).astype(np.float32) * [5, 3, 1, 1, 1, 1]
    places = main_directions(vectors.astype(np.float32), 0)
    assert places.dtype == np.float32
    assert places.min(axis=0) == pytest.approx([0, 0], abs=1e-3)
    assert places.max(axis=0) == pytest.approx([SIDE, SIDE], abs=1e-3)
    components = PCA(2).fit_transform(vectors)
    for axis in (0, 1):
        assert abs(np.corrcoef(places[:, axis], components[:, axis])[0, 1]) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("vectors", [np.ones((3, 4)), np.ones((1, 4)), np.array([[1.0], [2.0]])])
def test_whatever_has_no_two_directions_still_begins_somewhere(vectors: np.ndarray) -> None:
    places = main_directions(vectors.astype(np.float32), 0)
    assert places.shape == (len(vectors), 2)
    assert np.isfinite(places).all()


def test_what_an_older_map_lacks_begins_among_its_neighbours() -> None:
    # 2 is new and held to 0 (weight .75) and 1 (.25); 3 knows 2 alone; 4 knows nobody.
    known = np.array([True, True, False, False, False])
    places = np.array([[0, 0], [4, 8], [0, 0], [0, 0], [0, 0]], dtype=np.float32)
    neighbours = np.array([[1, -1], [0, -1], [0, 1], [2, 4], [-1, -1]], dtype=np.int32)
    weights = np.array([[1, 0], [1, 0], [0.75, 0.25], [1, 1], [0, 0]], dtype=np.float64)
    begun = begun_from(known, places, neighbours, weights, 0)
    assert np.array_equal(begun[:2], places[:2])
    assert begun[2:] == pytest.approx(np.array([[1, 2], [1, 2], [2, 4]]), abs=0.01)
