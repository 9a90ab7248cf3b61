import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.indexer.clusters.partition import distinct
from nearsay.indexer.neighbours.points import Points


def _points(vectors):
    return Points.from_array(np.arange(len(vectors), dtype=np.int64), vectors)


def _made(count, seed=0, dimension=40):
    vectors = np.random.default_rng(seed).standard_normal((count, dimension), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_points_does_not_show_in_the_order_of_their_content(seed):
    vectors = _made(50)[np.random.default_rng(1).integers(0, 50, 120)]
    mixed = np.random.default_rng(seed).permutation(120)
    one, other = distinct(_points(vectors), 7), distinct(_points(vectors[mixed]), 7)
    every = np.arange(len(one))
    assert np.array_equal(one.points.rows(every), other.points.rows(every))
    assert np.array_equal(one.counts, other.counts)
    assert np.array_equal(one.back[mixed], other.back)


def test_copies_are_counted_and_every_point_finds_its_own_vector():
    vectors = _made(3)[[0, 1, 0, 2, 0]]
    found = distinct(_points(vectors), 7)
    assert len(found) == 3
    assert np.array_equal(found.points.rows(found.back), vectors)
    assert found.counts[found.back].tolist() == [3, 1, 3, 1, 3]


def test_another_seed_gives_another_order():
    vectors = _made(100)
    assert not np.array_equal(distinct(_points(vectors), 1).back, distinct(_points(vectors), 2).back)


def test_the_first_in_order_are_a_fair_sample():
    vectors = _made(4000)
    vectors = vectors[np.argsort(vectors[:, 0])]
    places = np.argsort(distinct(_points(vectors), 1).back)[:1000]
    assert abs(places.mean() - 2000) < 4 * 4000 / np.sqrt(12 * 1000)


def test_vectors_that_differ_in_the_last_bits_stand_in_the_same_places():
    vectors = _made(500)
    nearly = np.nextafter(vectors, np.float32(2))
    same = distinct(_points(vectors), 1).back == distinct(_points(nearly), 1).back
    assert same.mean() > 0.9


def test_zeros_of_both_signs_are_the_same():
    vectors = np.array([[1, 0], [1, -0.0]], dtype=np.float32)
    assert len(distinct(_points(vectors), 1)) == 1
