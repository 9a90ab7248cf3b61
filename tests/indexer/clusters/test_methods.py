import numpy as np
import pytest
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist, squareform
from sentence_transformers.util import community_detection
from sklearn.cluster import HDBSCAN, AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer.clusters import agglomerative as agglomerative_module
from nearsay.indexer.clusters import cluster_graph, density
from nearsay.indexer.clusters.agglomerative import agglomerative
from nearsay.indexer.clusters.choice_of_k import chosen_number
from nearsay.indexer.clusters.communities import threshold_communities
from nearsay.indexer.clusters.content_order import Distinct, distinct
from nearsay.indexer.clusters.dendrogram import dendrogram_plot
from nearsay.indexer.clusters.density import density_clusters
from nearsay.indexer.clusters.density_tree import excess_of_mass, single_linkage
from nearsay.indexer.clusters.graph_communities import RESOLUTIONS, fuzzy_weights, graph_communities
from nearsay.indexer.clusters.hierarchy import coarser_numbers, levels_above
from nearsay.indexer.clusters.kmeans import kmeans
from nearsay.indexer.clusters.options import Linkage
from nearsay.indexer.duplicates.closest_pairs import closest_pairs
from nearsay.indexer.neighbours.graph import NeighbourGraph, neighbour_graph
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


def _rows(found: Distinct):
    return found.points.rows(np.arange(len(found)))


def _as_labels(communities, count):
    labels = np.full(count, -1)
    for number, members in enumerate(communities):
        labels[members] = number
    return labels


# --- communities by a threshold ---


@pytest.mark.parametrize(("threshold", "listed"), [(0.99, True), (0.3, False)])
def test_pairs_are_listed_only_where_they_are_few(threshold, listed, monkeypatch):
    asked = []

    def noted(*args, **options):
        asked.append(options["threshold"])
        return closest_pairs(*args, **options)

    monkeypatch.setattr("nearsay.indexer.clusters.communities.closest_pairs", noted)
    vectors, _ = _bunches(12, 25, 0.5, 0)
    threshold_communities(_given(vectors), threshold, 2)
    assert asked == [threshold] * listed


@pytest.mark.parametrize("pairs", ["listed", "too many to list", "looked for twice"])
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("threshold", "least_size"), [(0.75, 10), (0.6, 4), (0.85, 2), (0.3, 10)])
def test_threshold_communities_are_those_of_sentence_transformers(
    seed, threshold, least_size, pairs, monkeypatch
):
    monkeypatch.setattr("nearsay.indexer.clusters.communities._LISTED", pairs != "looked for twice")
    if pairs == "too many to list":  # though the sample said otherwise
        monkeypatch.setattr("nearsay.indexer.duplicates.closest.MOST_PAIRS", 0)
    vectors, _ = _bunches(12, 25, 0.3 + 0.1 * seed, seed)
    found = _given(vectors)
    expected = community_detection(_rows(found), threshold, least_size, batch_size=64)
    assert expected or threshold > 0.6
    labels = threshold_communities(found, threshold, least_size)
    sizes = np.bincount(labels[labels >= 0], minlength=len(expected))
    labels = np.append(np.argsort(np.argsort(-sizes, kind="stable")), -1)[labels]  # by falling size
    assert np.array_equal(labels, _as_labels(expected, len(vectors)))


def test_copies_count_in_a_community_as_sentence_transformers_counts_them():
    vectors, _ = _bunches(6, 12, 0.7)
    vectors = np.concatenate([vectors, vectors[::5], vectors[::5], vectors[::10]])
    found = _given(vectors)
    expanded = np.repeat(_rows(found), found.counts, axis=0)
    labels = np.repeat(threshold_communities(found, 0.6, 6), found.counts)
    expected = _as_labels(community_detection(expanded, 0.6, 6), len(expanded))
    assert expected.max() > 2
    assert adjusted_rand_score(labels, expected) == 1
    assert np.array_equal(labels < 0, expected < 0)


def test_a_community_of_three_worked_by_hand():
    angles = np.deg2rad([0, 10, 20, 90, 95])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = _given(vectors)
    labels = threshold_communities(found, float(np.cos(np.deg2rad(11))), 2)[found.back]
    assert labels.tolist() == [0, 0, 0, 1, 1]


def test_communities_through_the_graph_agree_with_the_exact_ones_where_these_lie_apart():
    vectors, whose = _bunches(10, 30, 0.4, dimension=48)
    found = _given(vectors)
    labels = threshold_communities(found, 0.6, 10, exact=False)
    assert adjusted_rand_score(whose, labels[found.back]) == 1
    assert adjusted_rand_score(labels, threshold_communities(found, 0.6, 10, exact=True)) == 1


def test_a_community_larger_than_the_graph_shows_still_takes_in_all_within_the_threshold():
    vectors, _ = _bunches(1, 400, 0.2)
    assert (threshold_communities(_given(vectors), 0.9, 10, exact=False) >= 0).all()


# --- density ---


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("least_size", [5, 12])
def test_with_all_neighbours_density_clusters_are_those_of_scikit_learn(seed, least_size):
    vectors, _ = _bunches(8, 30, 0.5 + 0.1 * seed, seed)
    found = _given(vectors)
    expected = HDBSCAN(min_cluster_size=least_size, copy=True).fit_predict(_rows(found).astype(np.float64))
    labels = density_clusters(found, least_size, len(vectors))
    # Core distances make many edges equally long, and which of these comes first moves a passage or two.
    assert ((labels < 0) != (expected < 0)).mean() <= 0.02
    assert adjusted_rand_score(labels, expected) > 0.97


@pytest.mark.parametrize("seed", range(3))
def test_the_spanning_tree_is_the_least_one_under_mutual_reachability(seed):
    vectors, _ = _bunches(6, 15, 0.8, seed)
    found = _given(vectors)
    graph = neighbour_graph(found.points, len(vectors))
    distances = np.sqrt(np.maximum(2 - 2 * graph.cosines.astype(np.float64), 0))
    core = density._core_distances(graph, distances, found.counts, 5)
    apart = squareform(pdist(_rows(found).astype(np.float64)))
    assert np.allclose(core, np.sort(apart, axis=1)[:, 4], atol=1e-6)
    reached = np.maximum(np.maximum(core[:, None], core), apart)
    expected = hierarchy.linkage(squareform(reached, checks=False), "single")[:, 2]
    _, _, lengths = density._spanning_edges(found, graph, distances, core)
    assert np.allclose(np.sort(lengths), expected, atol=1e-6)


def test_few_neighbours_find_the_same_dense_regions_although_the_graph_falls_apart():
    vectors, whose = _bunches(8, 60, 0.3)
    labels = density_clusters(_given(vectors), 10, 10)
    inside = labels[_given(vectors).back] >= 0
    assert inside.mean() > 0.8
    assert adjusted_rand_score(whose[inside], labels[_given(vectors).back][inside]) == 1


def test_many_copies_of_a_passage_are_a_dense_region():
    vectors, _ = _bunches(2, 30, 0.3)
    lone = _bunches(1, 1, 0, seed=9)[0]
    found = _given(np.concatenate([vectors, np.repeat(lone, 12, axis=0)]))
    labels = density_clusters(found, 10, 15)[found.back]
    assert labels[-1] >= 0
    assert (labels == labels[-1]).sum() == 12


def test_a_tree_of_two_regions_and_an_outlier_worked_by_hand():
    # 0-1-2 at length 1, 3-4-5 at length 1, the two at 4, and 6 at 10
    lengths = np.array([1.0, 1, 1, 1, 4, 10])
    merges = single_linkage(np.array([0, 1, 3, 4, 2, 5]), np.array([1, 2, 4, 5, 3, 6]))
    assert merges.tolist() == [[0, 1], [7, 2], [3, 4], [9, 5], [8, 10], [11, 6]]
    labels = excess_of_mass(merges, lengths, np.ones(7, dtype=np.int64), 3)
    assert labels[6] == -1
    assert sorted([labels[:3].tolist(), labels[3:6].tolist()]) == [[0, 0, 0], [1, 1, 1]]


# --- the graph's communities ---


def test_fuzzy_weights_sum_to_the_logarithm_and_unite_both_directions():
    vectors, _ = _bunches(3, 20, 0.8)
    graph = neighbour_graph(Points.from_array(np.arange(60), vectors), 8)
    one_way = NeighbourGraph(graph.ids, graph.neighbours, graph.cosines, exact=True)
    weights = fuzzy_weights(one_way).toarray()
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
    labels = graph_communities(found, 10, 0.1).labels[found.back]
    assert adjusted_rand_score(whose, labels) == 1


def test_a_higher_resolution_gives_more_communities():
    found = _given(_bunches(10, 30, 0.8)[0])
    numbers = [graph_communities(found, 10, resolution).labels.max() for resolution in (0.05, 1, 8)]
    assert numbers[0] < numbers[1] < numbers[2]


@pytest.mark.parametrize("bunches", [3, 6, 12, 30])
def test_the_chosen_number_is_that_of_the_bunches(bunches):
    vectors, whose = _bunches(bunches, 40, 0.3, dimension=64)
    found = _given(vectors)
    assert chosen_number(found, 15) == bunches
    communities = graph_communities(found, 15)
    assert adjusted_rand_score(whose, communities.labels[found.back]) == 1
    assert communities.resolution in RESOLUTIONS


def test_the_chosen_number_counts_bunches_of_few_passages_too():
    assert chosen_number(_given(_bunches(15, 4, 0.3, dimension=64)[0]), 15) == 15


def test_without_scikit_network_the_error_names_it(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sknetwork.clustering", None)
    with pytest.raises(NearsayError, match="pip install scikit-network"):
        graph_communities(_given(_bunches(2, 10, 0.3)[0]), 5)


# --- k-means ---


def test_kmeans_finds_bunches_and_says_how_near_each_passage_is():
    vectors, whose = _bunches(7, 30, 0.3, dimension=48)
    found = _given(vectors)
    fitted = kmeans(found, 7, 1)
    assert adjusted_rand_score(whose, fitted.labels[found.back]) == 1
    assert np.allclose(np.linalg.norm(fitted.centres, axis=1), 1, atol=1e-5)
    expected = (_rows(found) * fitted.centres[fitted.labels]).sum(axis=1)
    assert np.allclose(fitted.cosines, expected, atol=1e-5)


def test_copies_pull_a_centre_as_often_as_they_are_there():
    angles = np.deg2rad([0, 30])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)[[0, 0, 0, 1]]
    expected = vectors.sum(axis=0) / np.linalg.norm(vectors.sum(axis=0))
    assert np.allclose(kmeans(_given(vectors), 1, 1).centres[0], expected, atol=1e-5)


def test_more_clusters_than_different_passages_are_as_many_as_these():
    assert kmeans(_given(np.eye(3, dtype=np.float32)), 10, 1).centres.shape == (3, 3)


# --- agglomerative ---


@pytest.mark.parametrize("linkage", list(Linkage))
def test_merging_gives_the_clusters_of_scikit_learn(linkage):
    vectors, _ = _bunches(6, 20, 0.9)
    found = _given(vectors)
    metric = "euclidean" if linkage is Linkage.WARD else "cosine"
    expected = AgglomerativeClustering(6, linkage=str(linkage), metric=metric).fit_predict(_rows(found))
    assert adjusted_rand_score(expected, agglomerative(found, 6, None, linkage).labels) == 1


def test_merging_stops_at_the_threshold():
    angles = np.deg2rad([0, 10, 60])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = _given(vectors)
    merged = agglomerative(found, None, float(np.cos(np.deg2rad(11))), Linkage.COMPLETE)
    labels = merged.labels[found.back]
    assert labels[0] == labels[1] != labels[2]
    assert merged.merges[:, 2] == pytest.approx([1 - np.cos(np.deg2rad(10)), 0.5], abs=1e-6)


def test_too_many_passages_to_merge_are_refused_with_a_remedy(monkeypatch):
    monkeypatch.setattr(agglomerative_module, "MOST", 10)
    with pytest.raises(BadInputError, match=r"20 different passages are more than 10\. Narrow them"):
        agglomerative(_given(_bunches(2, 10, 0.5)[0]), 2, None, Linkage.WARD)


def test_wards_linkage_takes_no_cosine():
    with pytest.raises(BadInputError, match="Take the linkage average or complete"):
        agglomerative(_given(_bunches(2, 10, 0.5)[0]), None, 0.5, Linkage.WARD)


@pytest.mark.parametrize(("picture", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_dendrogram_is_drawn_the_same_every_time(picture, start):
    merges = agglomerative(_given(_bunches(4, 30, 0.5)[0]), 4, None, Linkage.WARD).merges
    drawn = dendrogram_plot(merges, leaves=12, picture=picture)
    assert drawn.startswith(start)
    assert drawn == dendrogram_plot(merges, leaves=12, picture=picture)


def test_a_dendrogram_names_single_passages_and_counts_the_others():
    merges = hierarchy.linkage(np.array([[0.0], [1], [10]]), "average")
    drawn = dendrogram_plot(merges, leaves=2, name=lambda place: f"passage{place}", picture="svg")
    assert b"passage2" in drawn
    assert b"(2)" in drawn


def test_a_dendrogram_of_nothing_is_refused():
    with pytest.raises(BadInputError, match="two different passages"):
        dendrogram_plot(np.zeros((0, 4)))


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


def test_beyond_the_exact_size_the_graph_misses_a_few_neighbours_and_the_communities_none(monkeypatch):
    monkeypatch.setattr(cluster_graph, "EXACT_UP_TO", 500)
    vectors, whose = _bunches(12, 100, 0.4, dimension=32)
    communities = graph_communities(_given(vectors), 15)
    assert adjusted_rand_score(whose, communities.labels[_given(vectors).back]) == 1
    assert communities.recall >= 0.95
    assert not cluster_graph.cluster_graph(_given(vectors).points, 15).exact


def test_without_faiss_the_graph_is_exact(monkeypatch):
    monkeypatch.setattr(cluster_graph, "EXACT_UP_TO", 20)
    monkeypatch.setattr(cluster_graph, "faiss_is_installed", lambda: False)
    assert cluster_graph.cluster_graph(_given(_bunches(3, 20, 0.4)[0]).points, 5).exact
