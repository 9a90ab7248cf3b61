"""`cluster = 12` in a filter, wherever filters go."""

import io
import json
from collections.abc import Callable, Iterable, Iterator

import pytest

from nearsay.data.chunking import Chunking
from nearsay.indexer import Collection
from nearsay.indexer.catalogue.clusterings import NamedCluster
from nearsay.indexer.clusters import partition
from nearsay.indexer.filters import selection
from nearsay.indexer.filters.expression import Compare, InClusters, Operator, Or
from nearsay.indexer.filters.parse import CLUSTER, Where, _ClusterResolver
from nearsay.indexer.query import export
from nearsay.indexer.query.export import export_passages
from nearsay.indexer.vectors.errors import BadFilterError, BusyError

ON_BOTH = pytest.mark.parametrize("zoo", ["sqlite", "postgresql"], indirect=True)
PETS, PLANTS, BEASTS = 1, 2, 3
EVERY = {*(f"pet{i}" for i in range(5)), *(f"plant{i}" for i in range(4)), *(f"beast{i}" for i in range(3))}


def of(kind: str) -> set[str]:
    return {id_ for id_ in EVERY if id_.startswith(kind)}


@pytest.fixture
def clustered(zoo: Collection) -> Collection:
    zoo.explore.cluster("kmeans", clusters=3)
    return zoo


ASKED: list[tuple[Where, set[str]]] = [
    ("cluster = 1", of("pet")),
    ("cluster = 1.0", of("pet")),
    ("cluster in (1, 3)", of("pet") | of("beast")),
    ("cluster not in (1, 3)", of("plant")),
    ("cluster != 1", of("plant") | of("beast")),
    ("cluster >= 2", of("plant") | of("beast")),
    ("cluster > 3", set()),
    ("cluster = 1 or kind = 'beast'", of("pet") | of("beast")),
    ("cluster = 2 and id in ('plant1', 'pet1')", {"plant1"}),
    ("cluster = 1 and cluster = 2", set()),
    ("not (cluster = 1 or cluster = 2)", of("beast")),
    ("cluster is missing", set()),
    ("cluster is not missing", EVERY),
    ("cluster = 'elephant'", of("beast")),
    ("cluster in ('elephant', 2)", of("beast") | of("plant")),
    ("cluster contains 'eleph'", of("beast")),
    ({"cluster": 3}, of("beast")),
    ({"cluster": [1, 2], "kind": "plant"}, of("plant")),
    ({"cluster": None}, set()),
]


@pytest.mark.long
@ON_BOTH
def test_clusters_are_asked_for_as_fields_are(clustered: Collection) -> None:
    clustered.explore.rename_cluster(BEASTS, "elephant")
    for where, expected in ASKED:
        asked_everywhere(clustered, where, expected)


def test_many_clusters_are_looked_for_in_one_look_at_all() -> None:
    looks = 0

    class Every(list[NamedCluster]):
        def __iter__(self) -> Iterator[NamedCluster]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    every = Every(NamedCluster(number, None, 0, f"name {number}") for number in range(2_000))
    called: dict[str | float, set[int]] = {number: {number} for number in range(2_000)}
    called["name 7"] = {7}
    asked = [Compare(CLUSTER, Operator.EQUAL, value) for value in (*range(100, 2_000), "name 7", 7.0)]
    where = Or((*asked, Compare(("year",), Operator.EQUAL, 1)))
    found = _ClusterResolver(1, every, called, "zoo").of(where)
    assert found == Or((InClusters(1, (7, *range(100, 2_000))), where.operands[-1]))
    assert looks <= 1


def asked_everywhere(clustered: Collection, where: Where, expected: set[str]) -> None:
    for mode in ("dense", "lexical", "hybrid"):
        words = "cat dog apple elephant roses grass hen wheat"
        hits = clustered.search(words, 20, where=where, mode=mode)
        assert {hit.id for hit in hits} == expected, (where, mode)
    assert {each.id for each in clustered.documents(where)} == expected, where
    out = io.BytesIO()
    assert clustered.export(out, where=where) == len(expected)
    assert {json.loads(line)["id"] for line in out.getvalue().splitlines()} == expected
    assert clustered.export(io.BytesIO(), where=where, vectors=True) == len(expected)
    assert clustered.facets("kind", where=where).documents == len(expected), where
    assert {each.id for each in clustered.documents(where)} >= {
        hit.id for hit in clustered.similar("pet0", 20, where=where)
    }


@pytest.mark.long
@ON_BOTH
def test_removing_by_cluster(clustered: Collection) -> None:
    assert clustered.remove(where="cluster = 2") == 4
    assert {each.id for each in clustered.documents()} == of("pet") | of("beast")


@ON_BOTH
def test_counts_by_cluster(clustered: Collection) -> None:
    found = clustered.facets("cluster")
    assert [(each.value, each.documents) for each in found.values] == [(1, 5), (2, 4), (3, 3)]
    assert (found.missing, found.documents, found.different) == (0, 12, 3)
    clustered.add_rows([{"id": "new", "text": "ab cd", "kind": "other"}])
    found = clustered.facets("cluster", where="kind in ('pet', 'other')")
    assert [(each.value, each.documents) for each in found.values] == [(1, 5)]
    assert (found.missing, found.documents) == (1, 6)


@ON_BOTH
def test_passages_are_found_by_their_own_cluster_documents_by_any(zoo: Collection) -> None:
    mixed = zoo.library.collection("mixed", chunking=Chunking.parse("sentences"))
    mixed.add_rows(
        [
            {"id": "both", "text": "Dog cat hen. Grass apple roses.", "kind": "both"},
            {"id": "pets", "text": "Cat dog hen. Hen dog dog.", "kind": "pets"},
            {"id": "plants", "text": "Apple wheat. Roses grass.", "kind": "plants"},
        ]
    )
    mixed.explore.cluster("kmeans", clusters=2)
    (pets,) = {each.number for each in mixed.explore.clusters().clusters if "dog" in each.name}
    for where in (f"cluster = {pets}", f"cluster = {pets} or id = 'pets'"):
        hits = mixed.search("dog grass", 10, where=where)
        assert sorted((hit.id, hit.passage) for hit in hits) == [("both", 0), ("pets", 0), ("pets", 1)]
        assert hits.qualifying == 3  # not the other passage of "both"
    assert {each.id for each in mixed.documents(f"cluster = {pets}")} == {"both", "pets"}
    counted = {each.value: each.documents for each in mixed.facets("cluster").values}
    assert counted == {1: 2, 2: 2}
    assert mixed.facets("cluster").missing == 0
    for where, kinds in (
        (f"cluster = {pets}", {"both", "pets"}),
        (f"cluster != {pets}", {"plants"}),
        ("cluster = 1 and cluster = 2", {"both"}),
    ):
        assert {each.id for each in mixed.documents(where)} == kinds
        assert {each.value for each in mixed.facets("kind", where=where).values} == kinds
        assert mixed.facets("cluster", where=where).documents == mixed.count(where) == len(kinds)
    assert mixed.explore.cluster(clusters=1, where=f"cluster = {pets}").passages == 3


def test_what_came_since_is_in_no_cluster(clustered: Collection) -> None:
    clustered.add_rows([{"id": "new", "text": "cat hen"}])
    assert [hit.id for hit in clustered.search("cat", 20, where="cluster is missing")] == ["new"]
    assert "new" not in {hit.id for hit in clustered.search("cat", 20, where="cluster = 1")}


def test_removed_passages_never_come_back(clustered: Collection) -> None:
    clustered.remove(["pet0"])
    hits = clustered.search("cat", 20, where="cluster = 1")
    assert {hit.id for hit in hits} == of("pet") - {"pet0"}
    assert hits.qualifying == 4


def test_a_cluster_that_is_not_there_is_an_error(clustered: Collection) -> None:
    said = r"no cluster .*there are: 1, 2, 3. List them: nearsay explore"
    for where in ("cluster = 4", "cluster != 9", "cluster = 'pets'", "cluster = true"):
        with pytest.raises(BadFilterError, match=said):
            clustered.search("cat", where=where)
        with pytest.raises(BadFilterError, match=said):
            clustered.remove(where=where)


def test_without_clusters_the_error_says_how_to_make_them(zoo: Collection) -> None:
    with pytest.raises(BadFilterError, match=": nearsay explore clusters zoo"):
        zoo.search("cat", where="cluster = 1")
    zoo.remove(where="metadata.cluster = 1")  # no such field: nothing
    assert len(list(zoo.documents())) == 12


@ON_BOTH
def test_a_field_of_that_name_is_reached_until_there_are_clusters_and_by_its_path_then(
    zoo: Collection,
) -> None:
    zoo.add_rows([{"id": "own", "text": "cat cow", "cluster": 2}])
    assert [each.id for each in zoo.documents("cluster = 2")] == ["own"]
    assert [hit.id for hit in zoo.search("cat", where="cluster = 2")] == ["own"]
    made = zoo.explore.cluster("kmeans", clusters=3)
    assert "metadata.cluster that field" in made.notes[0]
    assert {hit.id for hit in zoo.search("cat", 20, where="cluster = 2")} == of("plant")
    assert [hit.id for hit in zoo.search("cat", 20, where="metadata.cluster = 2")] == ["own"]
    assert [each.documents for each in zoo.facets("metadata.cluster").values] == [1]


def test_the_live_generations_clusters_are_asked(clustered: Collection) -> None:
    clustered.rebuild("wide")
    clustered.promote()
    with pytest.raises(BadFilterError, match="Find clusters"):
        clustered.search("cat", where="cluster = 1")
    clustered.explore.cluster("kmeans", clusters=1)
    assert len(clustered.search("cat", 20, where="cluster = 1")) == 12
    clustered.rollback()
    assert {hit.id for hit in clustered.search("cat", 20, where="cluster = 1")} == of("pet")


def test_a_higher_level_stands_for_all_within_it(zoo: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "coarser_numbers", lambda _clusters: [2])
    monkeypatch.setattr(partition, "_MOST", 1)
    monkeypatch.setattr(partition, "_LEAST", 2)
    zoo.add_rows({"id": f"meal{i}", "text": "cat grass", "kind": "meal"} for i in range(2))
    found = zoo.explore.cluster("kmeans", clusters=4)
    assert sum(each.level == 1 for each in found.clusters) == 2
    for each in found.clusters:
        hits = zoo.search("cat", 20, where=f"cluster = {each.number}")
        assert len(hits) == each.size


@ON_BOTH
def test_large_clusters_are_searched_as_small_ones_are(
    clustered: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "LISTED", 2)
    monkeypatch.setattr("nearsay.indexer.query.ranking._MOST_DRAWN", 1)
    for where in ("cluster = 1", "cluster in (1, 2) and kind = 'pet'", "cluster not in (2, 3)"):
        for _ in range(2):
            found = clustered.search("cat", 20, where=where, mode="dense")
            assert {hit.id for hit in found} == of("pet"), where
            assert {hit.id for hit in clustered.search("cat dog", 20, where=where)} == of("pet"), where


@ON_BOTH
def test_a_known_filter_is_asked_anew_of_new_clusters(clustered: Collection) -> None:
    asked = "cluster = 1", "not cluster = 1", "cluster >= 2 and kind in ('plant', 'beast')"

    def found() -> list[set[str]]:
        return [{hit.id for hit in clustered.search("cat", 20, where=where)} for where in asked]

    before = [of("pet"), EVERY - of("pet"), EVERY - of("pet")]
    assert found() == found() == before
    clustered.explore.cluster("kmeans", clusters=1)
    assert found() == [EVERY, set(), set()]
    clustered.explore.cluster("kmeans", clusters=1, least_size=13)
    assert [hit.id for hit in clustered.search("cat", 1, where="cluster is missing")] != []


def _documents(zoo: Collection) -> Iterable[object]:
    return zoo.documents("cluster = 1")


def _passages(zoo: Collection) -> Iterable[object]:
    return export_passages(zoo.library.store, zoo.snapshot(), "cluster = 1")


@pytest.mark.parametrize("read", [_documents, _passages])
def test_documents_of_two_clusterings_are_never_mixed(
    clustered: Collection, read: Callable[[Collection], Iterable[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_PAGE", 2)
    found = iter(read(clustered))
    next(found)
    clustered.explore.cluster("kmeans", clusters=2)
    with pytest.raises(BusyError):
        list(found)
