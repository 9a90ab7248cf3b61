"""`cluster = 12` in a filter, wherever filters go."""

import io
import json

import pytest

from nearsay.data.chunking import Chunking
from nearsay.indexer import Collection
from nearsay.indexer.errors import BadFilterError
from nearsay.indexer.filters import selection
from nearsay.indexer.filters.parse import Where

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


@pytest.mark.parametrize(("where", "expected"), ASKED)
def test_clusters_are_asked_for_as_fields_are(
    clustered: Collection, where: Where, expected: set[str]
) -> None:
    clustered.explore.rename_cluster(BEASTS, "elephant")
    for mode in ("dense", "lexical", "hybrid"):
        words = "cat dog apple elephant roses grass hen wheat"
        hits = clustered.search(words, 20, where=where, mode=mode)
        assert {hit.id for hit in hits} == expected
    assert {each.id for each in clustered.documents(where)} == expected
    out = io.BytesIO()
    assert clustered.export(out, where=where) == len(expected)
    assert {json.loads(line)["id"] for line in out.getvalue().splitlines()} == expected
    assert clustered.export(io.BytesIO(), where=where, vectors=True) == len(expected)
    counts = clustered.facets("kind", where=where)
    assert counts.documents == len(expected)
    assert {each.id for each in clustered.documents(where)} >= {
        hit.id for hit in clustered.similar("pet0", 20, where=where)
    }


def test_removing_by_cluster(clustered: Collection) -> None:
    assert clustered.remove(where="cluster = 2") == 4
    assert {each.id for each in clustered.documents()} == of("pet") | of("beast")


def test_counts_by_cluster(clustered: Collection) -> None:
    found = clustered.facets("cluster")
    assert [(each.value, each.documents) for each in found.values] == [(1, 5), (2, 4), (3, 3)]
    assert (found.missing, found.documents, found.different) == (0, 12, 3)
    clustered.add_rows([{"id": "new", "text": "ab cd", "kind": "other"}])
    found = clustered.facets("cluster", where="kind in ('pet', 'other')")
    assert [(each.value, each.documents) for each in found.values] == [(1, 5)]
    assert (found.missing, found.documents) == (1, 6)


def test_passages_are_found_by_their_own_cluster_documents_by_any(zoo: Collection) -> None:
    mixed = zoo.library.collection("mixed", chunking=Chunking.parse("sentences"))
    mixed.add_rows(
        [
            {"id": "both", "text": "Dog cat hen. Grass apple roses."},
            {"id": "pets", "text": "Cat dog hen. Hen dog dog."},
            {"id": "plants", "text": "Apple wheat. Roses grass."},
        ]
    )
    mixed.explore.cluster("kmeans", clusters=2)
    (pets,) = {each.number for each in mixed.explore.clusters().clusters if "dog" in each.name}
    hits = mixed.search("dog grass", 10, where=f"cluster = {pets}")
    assert sorted((hit.id, hit.passage) for hit in hits) == [("both", 0), ("pets", 0), ("pets", 1)]
    assert {each.id for each in mixed.documents(f"cluster = {pets}")} == {"both", "pets"}
    counted = {each.value: each.documents for each in mixed.facets("cluster").values}
    assert counted == {1: 2, 2: 2}
    assert mixed.facets("cluster").missing == 0
    assert mixed.facets("cluster", where=f"cluster = {pets}").documents == 2
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


@pytest.mark.parametrize("where", ["cluster = 4", "cluster != 9", "cluster = 'pets'", "cluster = true"])
def test_a_cluster_that_is_not_there_is_an_error(clustered: Collection, where: str) -> None:
    for ask in (lambda: clustered.search("cat", where=where), lambda: clustered.remove(where=where)):
        with pytest.raises(
            BadFilterError, match=r"no cluster .*there are: 1, 2, 3. See them: nearsay explore"
        ):
            ask()


def test_without_clusters_the_error_says_how_to_make_them(zoo: Collection) -> None:
    with pytest.raises(BadFilterError, match="Make them: nearsay explore clusters zoo"):
        zoo.search("cat", where="cluster = 1")
    zoo.remove(where="metadata.cluster = 1")  # no such field: nothing
    assert len(list(zoo.documents())) == 12


def test_a_field_of_that_name_is_reached_until_there_are_clusters_and_by_its_path_then(
    zoo: Collection,
) -> None:
    zoo.add_rows([{"id": "own", "text": "cat cow", "cluster": 2}])
    zoo.declare_fields(["cluster"])
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
    with pytest.raises(BadFilterError, match="Make them"):
        clustered.search("cat", where="cluster = 1")
    clustered.explore.cluster("kmeans", clusters=1)
    assert len(clustered.search("cat", 20, where="cluster = 1")) == 12
    clustered.rollback()
    assert {hit.id for hit in clustered.search("cat", 20, where="cluster = 1")} == of("pet")


def test_a_higher_level_stands_for_all_within_it(zoo: Collection) -> None:
    found = zoo.explore.cluster("agglomerative", clusters=3)
    for each in found.clusters:
        hits = zoo.search("cat", 20, where=f"cluster = {each.number}")
        assert len(hits) == each.size


@pytest.mark.parametrize(
    "where", ["cluster = 1", "cluster in (1, 2) and kind = 'pet'", "cluster not in (2, 3)"]
)
def test_large_clusters_are_searched_as_small_ones_are(
    clustered: Collection, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "LISTED", 2)
    monkeypatch.setattr("nearsay.indexer.dense.LISTED", 2)
    monkeypatch.setattr("nearsay.indexer.dense._MOST_DRAWN", 1)
    for _ in range(2):
        assert {hit.id for hit in clustered.search("cat", 20, where=where, mode="dense")} == of("pet")
        assert {hit.id for hit in clustered.search("cat dog", 20, where=where)} == of("pet")
