"""What is said of clusters, and how they are asked for."""

import pytest
from naming import Naming

from nearsay.app.ui.explore.clusters_view import (
    METHODS,
    beneath,
    members_of,
    ordered,
    share_words,
)
from nearsay.indexer.clusters.clustering import Cluster, ClusterMethod, Move, Movement


def cluster(number, size, name="", *, level=0, parent=None, cohesion=0.5, silhouette=0.1):
    return Cluster(
        number, name or f"c{number}", False, size, cohesion, silhouette, parent, level, ("sea", "salt"), ()
    )


CLUSTERS = (
    cluster(1, 5, "boats", parent=9, cohesion=0.6),
    cluster(2, 8, "ants", parent=9, silhouette=None),
    cluster(3, 8, "zinc", cohesion=0.9),
    cluster(9, 13, "animals at sea", level=1),
)


def numbers(found):
    return [each.number for each in found]


def test_clusters_come_by_size_and_then_by_number():
    assert numbers(ordered(CLUSTERS)) == [2, 3, 1]
    assert numbers(ordered(CLUSTERS, level=1)) == [9]


@pytest.mark.parametrize(
    ("order", "expected"),
    [("cohesion", [3, 1, 2]), ("silhouette", [1, 3, 2]), ("name", [2, 1, 3]), ("number", [1, 2, 3])],
)
def test_clusters_come_in_the_order_that_is_asked_for(order, expected):
    assert numbers(ordered(CLUSTERS, order=order)) == expected


def test_a_cluster_is_found_by_its_name_and_by_its_terms():
    assert numbers(ordered(CLUSTERS, wanted=" BOAT ")) == [1]
    assert numbers(ordered(CLUSTERS, wanted="salt")) == [2, 3, 1]
    assert ordered(CLUSTERS, wanted="nothing") == []


def test_a_size_is_said_with_its_share():
    assert share_words(CLUSTERS[0], 20) == Naming("5 passages", "25.0%", "cohesion 0.60", "silhouette 0.10")
    assert share_words(CLUSTERS[1], 20) == "8 passages (40.0%), cohesion 0.50"


def test_a_cluster_of_a_higher_level_holds_those_beneath_it():
    assert numbers(beneath(CLUSTERS, 9)) == [2, 1]
    assert members_of(CLUSTERS, 9) == {1, 2}
    assert members_of(CLUSTERS, 3) == {3}


def test_what_moved_is_said_by_name():
    moved = Movement(20, 6, {1: 0.9}, (3,), (7, 8), {1: (1, 3)}, {2: (7, 8)}, (Move(None, 3, 4),))
    assert moved.lines({each.number: each.name for each in CLUSTERS}) == [
        Naming("1 cluster kept", "1 new", "2 gone", "6 of 20"),
        Naming("“boats” (1)", "split", "“boats” (1)", "“zinc” (3)"),
        Naming("“ants” (2)", "merged", "cluster 7", "cluster 8"),
        Naming("4 passages", "no cluster", "“zinc” (3)"),
    ]


def test_every_method_is_explained():
    assert set(METHODS) == set(ClusterMethod)
