"""Groups against scipy's connected components and its complete linkage."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from nearsay.indexer.duplicates.groups import Link, linked


def pairs_of(
    cosines: NDArray[np.float64], threshold: float
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    first, second = np.nonzero(np.triu(cosines >= threshold, 1))
    return first, second, cosines[first, second].astype(np.float32)


def by_first(labels: NDArray[np.int64]) -> list[int]:
    seen: dict[int, int] = {}
    return [seen.setdefault(int(label), len(seen)) for label in labels]


def random_cosines(count: int, seed: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((5, 6))
    vectors = centres[generator.integers(0, 5, count)] + 0.6 * generator.standard_normal((count, 6))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines: NDArray[np.float64] = vectors @ vectors.T
    return cosines


def test_a_chain_is_one_group_or_two_as_the_link_says() -> None:
    first, second = np.array([0, 1, 2]), np.array([1, 2, 3])
    cosines = np.array([0.96, 0.99, 0.97], dtype=np.float32)
    assert linked(5, first, second, cosines, Link.TRANSITIVE).tolist() == [0, 0, 0, 0, 1]
    assert linked(5, first, second, cosines, Link.COMPLETE).tolist() == [0, 1, 1, 2, 3]


def test_of_ties_the_first_are_joined() -> None:
    first, second = np.array([1, 0]), np.array([2, 1])
    cosines = np.array([0.96, 0.96], dtype=np.float32)
    assert linked(3, first, second, cosines, Link.COMPLETE).tolist() == [0, 0, 1]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("threshold", [0.6, 0.9])
def test_complete_linkage_is_that_of_scipy(seed: int, threshold: float) -> None:
    cosines = random_cosines(60, seed)
    np.fill_diagonal(cosines, 1.0)
    tree = linkage(squareform(1.0 - cosines, checks=False), "complete")
    theirs = by_first(fcluster(tree, 1.0 - threshold, "distance"))
    ours = linked(60, *pairs_of(cosines, threshold), Link.COMPLETE)
    assert ours.tolist() == theirs
    assert 1 < len(set(theirs)) < 60


@pytest.mark.parametrize("seed", range(4))
def test_transitive_groups_are_those_of_single_linkage(seed: int) -> None:
    cosines = random_cosines(80, seed)
    np.fill_diagonal(cosines, 1.0)
    tree = linkage(squareform(1.0 - cosines, checks=False), "single")
    theirs = by_first(fcluster(tree, 1.0 - 0.9, "distance"))
    assert linked(80, *pairs_of(cosines, 0.9), Link.TRANSITIVE).tolist() == theirs


@pytest.mark.parametrize("link", list(Link))
def test_without_pairs_everything_stands_alone(link: Link) -> None:
    none = np.zeros(0, dtype=np.int64)
    assert linked(3, none, none, none.astype(np.float32), link).tolist() == [0, 1, 2]
    assert linked(0, none, none, none.astype(np.float32), link).tolist() == []
