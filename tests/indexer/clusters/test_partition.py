import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, v_measure_score

from nearsay.data.errors import BadInputError
from nearsay.indexer.clusters.partition import ClusterMethod, ClusterOptions, partition
from nearsay.indexer.neighbours.points import Points

METHODS = [
    ClusterOptions(),
    ClusterOptions(ClusterMethod.KMEANS),
    ClusterOptions(ClusterMethod.KMEANS, clusters=6),
    ClusterOptions(resolution=2.0, least_size=5),
    ClusterOptions(resolution=2.0, least_size=5, assign_outliers=True),
]
NAMES = [f"{options.method}-{number}" for number, options in enumerate(METHODS)]


def _points(vectors):
    return Points.from_array(np.arange(len(vectors), dtype=np.int64), vectors)


def _unit(vectors):
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _bunches(bunches=6, each=40, spread=0.4, seed=0, dimension=24):
    """Vectors around as many directions, with copies among them, in mixed order; and which is whose."""
    generator = np.random.default_rng(seed)
    middles = _unit(generator.standard_normal((bunches, dimension)))
    whose = np.repeat(np.arange(bunches), each)
    noise = _unit(generator.standard_normal((whose.size, dimension))) * spread
    vectors = _unit(middles[whose] + noise)
    vectors[1::9] = vectors[::9][: len(vectors[1::9])]
    whose[1::9] = whose[::9][: len(vectors[1::9])]
    mixed = generator.permutation(whose.size)
    return vectors[mixed], whose[mixed]


@pytest.mark.parametrize("options", METHODS, ids=NAMES)
def test_the_same_passages_in_any_order_give_the_same_clusters(options):
    vectors, _ = _bunches()
    expected = partition(_points(vectors), options)
    for seed in range(3):
        mixed = np.random.default_rng(seed).permutation(len(vectors))
        found = partition(_points(vectors[mixed]), options)
        assert np.array_equal(found.labels, expected.labels[mixed])
        assert [level.tolist() for level in found.parents] == [level.tolist() for level in expected.parents]
        assert found.parameters == expected.parameters


@pytest.mark.parametrize("options", METHODS, ids=NAMES)
def test_copies_share_a_cluster_and_sizes_fall(options):
    vectors, _ = _bunches()
    labels = partition(_points(vectors), options).labels
    for row in np.unique(vectors, axis=0):
        assert np.unique(labels[(vectors == row).all(axis=1)]).size == 1
    sizes = np.bincount(labels[labels >= 0])
    assert sizes.size > 1
    assert (sizes > 0).all()
    assert (np.diff(sizes) <= 0).all()


@pytest.mark.parametrize("options", METHODS, ids=NAMES)
def test_bunches_that_lie_apart_are_the_clusters(options):
    vectors, whose = _bunches(spread=0.25)
    labels = partition(_points(vectors), options).labels
    assert v_measure_score(whose[labels >= 0], labels[labels >= 0]) > 0.85
    assert (labels >= 0).mean() > 0.9


@pytest.mark.parametrize("seed", range(3))
def test_a_few_passages_aside_do_not_leave_all_others_in_one_cluster(seed):
    generator = np.random.default_rng(seed)
    common, aside = _unit(generator.standard_normal((2, 100)))
    weak = _unit(generator.standard_normal((8, 100)))  # topics, hardly told apart
    noise = _unit(generator.standard_normal((1260, 100))) * 2
    middles = np.vstack([common * 0.4 + weak[generator.integers(0, 8, 1200)] * 0.5, np.tile(aside, (60, 1))])
    found = partition(_points(_unit(middles + noise)))
    assert found.clusters >= 8
    assert np.bincount(found.labels[found.labels >= 0]).max() < 1260 / 4


def test_a_clear_cluster_of_nearly_all_passages_stays_whole():
    generator = np.random.default_rng(0)
    middles = np.repeat(_unit(generator.standard_normal((2, 32))), (900, 60), axis=0)
    found = partition(_points(_unit(middles + _unit(generator.standard_normal((960, 32))) * 0.6)))
    assert np.bincount(found.labels).tolist() == [900, 60]


@pytest.mark.parametrize("options", METHODS, ids=NAMES)
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_few_passages_are_no_trouble(options, count):
    vectors, _ = _bunches()
    assert partition(_points(vectors[:count]), options).labels.size == count


@pytest.mark.parametrize("options", METHODS, ids=NAMES)
def test_many_copies_of_one_passage_are_no_trouble(options):
    labels = partition(_points(np.repeat(_bunches()[0][:1], 30, axis=0)), options).labels
    assert np.unique(labels).size == 1


@pytest.mark.parametrize("options", METHODS, ids=NAMES)
def test_a_listener_that_raises_stops_every_method(options):
    def stop(_progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        partition(_points(_bunches()[0]), options, listener=stop)


def test_outliers_can_be_assigned_to_the_nearest_cluster():
    vectors = _unit(np.concatenate([_bunches(2, 30, 0.2)[0], _bunches(1, 1, seed=5)[0]]))
    apart = partition(_points(vectors), ClusterOptions(resolution=2.0, least_size=8)).labels
    options = ClusterOptions(resolution=2.0, least_size=8, assign_outliers=True)
    assigned = partition(_points(vectors), options)
    assert 0 < (apart < 0).sum() < len(apart) / 2
    assert assigned.labels.min() == 0
    assert assigned.parameters["assigned_outliers"] == int((apart < 0).sum())
    inside = apart >= 0
    assert adjusted_rand_score(assigned.labels[inside], apart[inside]) == 1


@pytest.mark.parametrize(("bunches", "each"), [(3, 4), (5, 6)])
def test_of_few_passages_hardly_any_is_left_out(bunches, each):
    for seed in range(4):
        generator = np.random.default_rng(seed)
        middles = _unit(generator.standard_normal((bunches, 24)))
        whose = np.repeat(np.arange(bunches), each)
        vectors = _unit(middles[whose] + _unit(generator.standard_normal((whose.size, 24))))
        labels = partition(_points(vectors)).labels
        assert (labels < 0).mean() < 0.2
        assert v_measure_score(whose, labels) > 0.75


def test_clusters_smaller_than_the_least_size_are_outliers():
    vectors, whose = _bunches(2, 30, 0.2)
    some = np.flatnonzero(whose == 1)[4:]
    few = np.delete(vectors, some, axis=0)
    labels = partition(_points(few), ClusterOptions("kmeans", clusters=2, least_size=5)).labels
    assert np.bincount(labels[labels >= 0]).tolist() == [30]
    assert np.array_equal(labels < 0, np.delete(whose, some) == 1)


def test_many_clusters_get_levels_above_them_that_are_whole():
    vectors, _ = _bunches(200, 4, 0.3, dimension=48)
    found = partition(_points(vectors), ClusterOptions("kmeans", clusters=200))
    assert [level.size for level in found.parents] == [200, 40]
    sizes = np.bincount(found.labels)
    for level in found.parents:
        assert np.array_equal(np.unique(level), np.arange(level.max() + 1))
        sizes = np.bincount(level, weights=sizes)
        assert (np.diff(sizes) <= 0).all()
    assert sizes.sum() == len(vectors)


@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.sampled_from(METHODS))
@settings(max_examples=40, deadline=None)
def test_any_mixture_of_copies_is_clustered(which, options):
    vectors = _bunches(3, 5)[0][which]
    labels = partition(_points(vectors), options).labels
    assert labels.size == len(which)
    assert labels.min() >= -1
    assert np.array_equal(np.unique(labels[labels >= 0]), np.arange(labels.max() + 1))


def test_the_same_clusters_come_on_one_thread_and_on_two():
    import faiss
    from threadpoolctl import threadpool_limits

    vectors, _ = _bunches(6, 60)
    before = faiss.omp_get_max_threads()
    found = []
    for threads in (1, 2):
        faiss.omp_set_num_threads(threads)
        with threadpool_limits(threads):
            found.append([partition(_points(vectors), options).labels for options in METHODS])
    faiss.omp_set_num_threads(before)
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clusters": 3}, "clusters = 3 .*graph"),
        ({"method": "kmeans", "clusters": 0}, "clusters = 0"),
        ({"resolution": 0.0}, "resolution = 0.0"),
        ({"least_size": 0}, "least_size = 0"),
        ({"method": "topics"}, "topics"),
        ({"method": "density"}, "graph, kmeans"),
        ({"method": "kmeans", "resolution": 2.0}, "choose the method graph"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, said):
    with pytest.raises(BadInputError, match=said):
        ClusterOptions(**options)
