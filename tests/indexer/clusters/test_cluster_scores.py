import numpy as np
import pytest

from nearsay.indexer.clusters import scores
from nearsay.indexer.neighbours.points import Points


def _points(vectors):
    return Points.from_array(np.arange(len(vectors), dtype=np.int64), vectors.astype(np.float32))


def _made(count=80, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((count, 12))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


LABELS = np.random.default_rng(1).integers(-1, 5, 80).astype(np.int32)


def test_centres_are_unit_means_without_the_outliers():
    vectors = _made()
    found = scores.centres(_points(vectors), LABELS)
    for cluster in range(5):
        mean = vectors[cluster == LABELS].mean(axis=0)
        assert np.allclose(found[cluster], mean / np.linalg.norm(mean), atol=1e-6)


def test_the_centre_of_opposites_is_zero():
    assert scores.centres(_points(np.array([[1, 0], [-1, 0]])), np.zeros(2, dtype=np.int32)).tolist() == [
        [0, 0]
    ]


def test_weights_count_as_copies():
    vectors = _made(3)
    weighted = scores.centres(_points(vectors), np.zeros(3, dtype=np.int32), np.array([2, 1, 3]))
    repeated = vectors[[0, 0, 1, 2, 2, 2]]
    assert np.allclose(weighted, scores.centres(_points(repeated), np.zeros(6, dtype=np.int32)), atol=1e-6)


def test_cohesion_is_the_mean_cosine_to_the_centre():
    angles = np.deg2rad([0, 60, 90])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    labels = np.array([0, 0, 1], dtype=np.int32)
    middles = scores.centres(_points(vectors), labels)
    cosines = scores.own_cosines(_points(vectors), labels, middles)
    assert scores.mean_of_each(cosines, labels, 2) == pytest.approx([np.cos(np.deg2rad(30)), 1])


def test_the_simplified_silhouette_worked_by_hand():
    vectors = np.array([[1, 0], [0.8, 0.6]])
    middles = np.array([[1, 0], [0, 1]], dtype=np.float32)
    found = scores.each_silhouette(_points(vectors), np.array([0, 0], dtype=np.int32), middles)
    assert found == pytest.approx([1, (0.4 - 0.2) / 0.4])
    means = scores.silhouette(_points(vectors), np.array([0, 0], dtype=np.int32), middles)
    assert means == pytest.approx([0.75, 0])


def test_one_cluster_has_no_silhouette():
    vectors, labels = _made(5), np.zeros(5, dtype=np.int32)
    assert np.isnan(
        scores.silhouette(_points(vectors), labels, scores.centres(_points(vectors), labels))
    ).all()


def test_the_nearest_centre_is_found_with_its_cosine():
    labels, cosines = scores.nearest_centre(_points(_made()), _made(6, 2).astype(np.float32))
    products = _made() @ _made(6, 2).T
    assert np.array_equal(labels, products.argmax(axis=1))
    assert np.allclose(cosines, products.max(axis=1), atol=1e-6)
