"""Which passages are drawn where there are more than can be."""

import numpy as np

from nearsay.indexer.maps.drawing import sampled


def test_where_there_are_no_more_all_are_drawn() -> None:
    ids = np.array([3, 5, 8])
    assert sampled(ids, 3) is ids


def test_a_sample_is_rising_different_and_the_same_each_time() -> None:
    ids = np.arange(0, 2_000_000, 2)
    found = sampled(ids, 1_000)
    assert found.size == 1_000
    assert (np.diff(found) > 0).all()
    assert np.isin(found, ids).all()
    assert found.tolist() == sampled(ids, 1_000).tolist()
    assert found.tolist() != sampled(ids, 1_000, seed=1).tolist()


def test_a_sample_comes_from_everywhere() -> None:
    found = sampled(np.arange(1_000_000), 50_000)
    shares = np.histogram(found, bins=10, range=(0, 1_000_000))[0] / 50_000
    assert np.abs(shares - 0.1).max() < 0.01
