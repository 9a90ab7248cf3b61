import numpy as np
import pytest
from scipy.cluster import hierarchy
from sklearn.metrics import adjusted_rand_score

from nearsay.data.errors import NearsayError
from nearsay.indexer.clusters import partition as partition_module
from nearsay.indexer.clusters.partition import (
    RESOLUTIONS,
    DistinctPoints,
    chosen_number,
    coarser_numbers,
    distinct,
    graph_communities,
    kmeans,
    levels_above,
)
from nearsay.indexer.neighbours.graph import NeighbourGraph, memberships, neighbour_graph, united
from nearsay.indexer.neighbours.points import Points


def _unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _bunches(bunches, each, spread, seed=0, dimension=24):
    generator = np.random.default_rng(seed)
    middles = _unit(generator.standard_normal((bunches, dimension)))
    whose = np.repeat(np.arange(bunches), each)
    return _unit(middles[whose] + _unit(generator.standard_normal((whose.size, dimension))) * spread), whose


def _given(vectors):
    return distinct(Points.from_array(np.arange(len(vectors), dtype=np.int64), vectors), 3)


def _rows(found: DistinctPoints):
    return found.points.rows(np.arange(len(found)))


# --- the graph's communities ---


def test_fuzzy_weights_sum_to_the_logarithm_and_unite_both_directions():
    vectors, _ = _bunches(3, 20, 0.8)
    graph = neighbour_graph(Points.from_array(np.arange(60), vectors), 8)
    one_way = NeighbourGraph(graph.neighbours, graph.cosines, exact=True)
    weights = united(one_way.neighbours, memberships(one_way.distances, itself=False)).toarray()
    assert np.array_equal(weights, weights.T)
    assert weights.max() <= 1 + 1e-6
    distances = 1 - graph.cosines[0]
    beyond = distances - distances[0]
    scale = np.geomspace(1e-4, 4, 200_001)
    sums = sum(np.exp(-gap / scale) for gap in beyond)
    expected = np.exp(-beyond / scale[np.abs(sums - np.log2(8)).argmin()])
    for place, weight in zip(graph.neighbours[0], expected, strict=True):
        if 0 not in graph.neighbours[place]:
            assert weights[0, place] == pytest.approx(weight, abs=1e-3)
        else:
            assert weights[0, place] > weight - 1e-3


def test_the_graphs_communities_beat_kmeans_on_its_own_ground_of_long_shapes():
    # two arcs of a circle: each is long, and a third of it lies nearer to the other's middle
    angle = np.concatenate([np.linspace(0, 2.6, 60), np.linspace(3.2, 5.8, 60)])
    vectors = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)
    whose = np.repeat([0, 1], 60)
    found = _given(vectors)
    labels = graph_communities(found, 0.1).labels[found.back]
    assert adjusted_rand_score(whose, labels) == 1


def test_a_higher_resolution_gives_more_communities():
    found = _given(_bunches(10, 30, 0.8)[0])
    numbers = [graph_communities(found, resolution).labels.max() for resolution in (0.05, 1, 8)]
    assert numbers[0] < numbers[1] < numbers[2]


@pytest.mark.parametrize("bunches", [3, 6, 12, 30])
def test_the_chosen_number_is_that_of_the_bunches(bunches):
    vectors, whose = _bunches(bunches, 40, 0.3, dimension=64)
    found = _given(vectors)
    assert chosen_number(found) == bunches
    communities = graph_communities(found)
    assert adjusted_rand_score(whose, communities.labels[found.back]) == 1
    assert communities.resolution in RESOLUTIONS


def test_the_chosen_number_counts_bunches_of_few_passages_too():
    assert chosen_number(_given(_bunches(15, 4, 0.3, dimension=64)[0])) == 15


def test_without_scikit_network_the_error_names_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sknetwork.clustering", None)
    with pytest.raises(NearsayError, match="pip install scikit-network"):
        graph_communities(_given(_bunches(2, 10, 0.3)[0]))


# --- k-means ---


def test_kmeans_finds_bunches_and_puts_each_passage_to_the_nearest_centre():
    vectors, whose = _bunches(7, 30, 0.3, dimension=48)
    found = _given(vectors)
    labels, centres = kmeans(found, 7, 1)
    assert adjusted_rand_score(whose, labels[found.back]) == 1
    assert np.allclose(np.linalg.norm(centres, axis=1), 1, atol=1e-5)
    assert np.array_equal(labels, (_rows(found) @ centres.T).argmax(axis=1))


def test_copies_pull_a_centre_as_often_as_they_are_there():
    angles = np.deg2rad([0, 30])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)[[0, 0, 0, 1]]
    expected = vectors.sum(axis=0) / np.linalg.norm(vectors.sum(axis=0))
    assert np.allclose(kmeans(_given(vectors), 1, 1)[1][0], expected, atol=1e-5)


def test_more_clusters_than_different_passages_are_as_many_as_these():
    assert kmeans(_given(np.eye(3, dtype=np.float32)), 10, 1)[1].shape == (3, 3)


# --- the levels above ---


def test_levels_hold_a_fifth_each_as_long_as_eight_are_left():
    assert [coarser_numbers(count) for count in (39, 40, 77, 1000)] == [[], [8], [15], [200, 40, 8]]


def test_clusters_that_lie_together_get_the_same_parent():
    middles, whose = _bunches(8, 5, 0.3, dimension=16)
    (parents,) = levels_above(middles, np.full(40, 10, dtype=np.int64))
    assert adjusted_rand_score(whose, parents) == 1


def test_every_level_is_a_cut_of_one_tree():
    middles = _unit(np.random.default_rng(1).standard_normal((200, 12)))
    sizes = np.full(200, 10, dtype=np.int64)
    merges = hierarchy.linkage(middles.astype(np.float64), "ward")
    lowest, above = levels_above(middles, sizes)
    for count, parents in ((40, lowest), (8, above[lowest])):
        cut = hierarchy.fcluster(merges, count, criterion="maxclust")
        assert adjusted_rand_score(cut, parents) == 1


def test_a_level_that_puts_nearly_all_into_one_cluster_is_left_out():
    middles, whose = _bunches(8, 5, 0.3, dimension=16)
    sizes = np.where(whose == 3, 100, 10).astype(np.int64)
    assert levels_above(middles, sizes) == ()  # 500 of 850 passages
    assert len(levels_above(middles, np.where(whose == 3, 60, 10).astype(np.int64))) == 1  # 300 of 650


def test_very_many_clusters_get_their_levels_too():
    middles = _unit(np.random.default_rng(0).standard_normal((4100, 8)))
    levels = levels_above(middles, np.ones(4100, dtype=np.int64))
    assert [level.size for level in levels] == [4100, 820, 164]


# --- the graph of large sets ---


@pytest.fixture
def asked(monkeypatch):
    """Of each graph that is made from now on whether it has to be exact."""
    found, real = [], partition_module.neighbour_graph

    def graph(points, k, *, exact, listener):
        found.append(exact)
        return real(points, k, exact=exact, listener=listener)

    monkeypatch.setattr(partition_module, "neighbour_graph", graph)
    return found


def test_beyond_the_exact_size_the_graph_misses_a_few_neighbours_and_the_communities_none(monkeypatch, asked):
    monkeypatch.setattr(partition_module, "EXACT_UP_TO", 500)
    vectors, whose = _bunches(12, 100, 0.4, dimension=32)
    communities = graph_communities(_given(vectors))
    assert adjusted_rand_score(whose, communities.labels[_given(vectors).back]) == 1
    assert communities.recall >= 0.95
    assert asked == [False]


def test_without_faiss_the_graph_is_exact(monkeypatch, asked):
    monkeypatch.setattr(partition_module, "EXACT_UP_TO", 20)
    monkeypatch.setattr(partition_module, "faiss_is_installed", lambda: False)
    assert graph_communities(_given(_bunches(3, 20, 0.4)[0])).recall == 1
    assert asked == [None]
