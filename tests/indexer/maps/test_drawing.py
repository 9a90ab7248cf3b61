"""What is drawn of a collection's map."""

from collections.abc import Callable
from unittest.mock import Mock

import numpy as np
import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.clusterings import ClusterRow
from nearsay.indexer.clusters.clustered import SavedClusters
from nearsay.indexer.maps import drawing as drawing_module
from nearsay.indexer.maps.drawing import Drawing, drawing
from nearsay.indexer.maps.mapping import Map, MapPoints

Drawn = Callable[..., Drawing]
PLACES = np.array([[0, 0], [2, 0], [10, 4], [11, 6]], dtype=np.float32)


@pytest.fixture
def papers(library: Library) -> Collection:
    """Four documents of a passage each."""
    collection = library.collection("papers", chunking="none")
    collection.add_rows(
        [
            {"id": "cat", "text": "a cat sat", "legs": 4, "kind": "mammal"},
            {"id": "dog", "text": "the dog ran far", "legs": 4, "kind": "mammal", "by": {"name": "Ann"}},
            {"id": "bird", "text": "parrots whistle melodies", "legs": 2, "cluster": "feathered"},
            {"id": "fish", "text": "it swims", "legs": 0},
        ]
    )
    return collection


@pytest.fixture
def drawn(papers: Collection, monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Draws the papers at given places; clusters: each passage's number, -1 = none."""

    def draw(clusters: list[int] | None = None, through: int = 0, **options: object) -> Drawing:
        ids = papers.vectors()[0]
        saved = None
        if clusters is not None:
            inside = np.array(clusters) >= 0
            numbers = np.array(clusters, dtype=np.int32)[inside]
            pets = ClusterRow(1, None, 0, "pets", False, (), (), 3, 1.0, None)
            saved = SavedClusters(Mock(through=through or ids[-1]), (pets,), ids[inside], numbers)
        monkeypatch.setattr(drawing_module, "saved_clustering", lambda _: saved)
        points = MapPoints(ids, PLACES[: ids.size], np.ones(ids.size, dtype=np.bool_))
        found = Map("papers", 1, points, {}, "2026-01-01", 0, new=False, notes=("kept",))
        return drawing(papers.explore, found, **options)

    return draw


def test_every_passage_is_drawn_with_its_document(drawn: Drawn) -> None:
    found = drawn()
    assert [row.document_id for row in found.rows] == ["cat", "dog", "bird", "fish"]
    assert np.array_equal(found.places, PLACES)
    assert (found.about, found.clusters, found.labels, found.colour_by) == ("4 passages", None, (), None)
    assert found.notes == (
        "kept",
        Naming("no clusters", "nearsay explore clusters papers"),
    )
    assert [field.name for field in found.fields] == ["legs", "kind", "by", "metadata.cluster"]


def test_clusters_are_named_at_their_medians(drawn: Drawn) -> None:
    found = drawn([1, 1, 5, -1])
    assert found.clusters is not None
    assert found.clusters.tolist() == [1, 1, 5, -1]
    assert [(each.number, each.name, each.size, each.x, each.y) for each in found.labels] == [
        (1, "pets", 2, 1.0, 0.0),
        (5, "cluster 5", 1, 10.0, 4.0),
    ]
    assert (found.colour_by, found.notes) == ("cluster", ("kept",))


def test_passages_newer_than_the_clusters_are_counted(drawn: Drawn, papers: Collection) -> None:
    ids = papers.vectors()[0]
    assert drawn([1, 1, -1, -1], through=int(ids[1])).notes[-1] == Naming(
        "2 passages", "nearsay explore clusters papers --replace"
    )


def test_a_filter_says_what_is_drawn(drawn: Drawn) -> None:
    found = drawn([1, 1, 1, 1], where="legs < 4")
    assert [row.document_id for row in found.rows] == ["bird", "fish"]
    assert found.about == Naming("2 passages of 4", "legs < 4")
    assert (found.labels[0].size, found.labels[0].x) == (2, 10.5)
    with pytest.raises(BadInputError, match=r"'papers' .*'legs > 9'"):
        drawn(where="legs > 9")


def test_of_too_many_some_are_drawn(drawn: Drawn) -> None:
    found = drawn(most=2)
    assert len(found) == len(found.rows) == len(found.places) == 2
    assert Naming("2 of 4 passages", "random") in found.notes


@pytest.mark.long
def test_texts_are_kept_as_long_as_they_are_needed(drawn: Drawn) -> None:
    assert [row.text for row in drawn(longest=7).rows] == ["a cat s", "the dog", "parrots", "it swim"]
    assert [row.text for row in drawn(longest=0).rows] == [""] * 4


def test_a_clustering_without_a_cluster_colours_all_as_outliers(drawn: Drawn) -> None:
    for asked in (None, "cluster"):
        found = drawn([-1, -1, -1, -1], colour_by=asked)
        assert found.clusters is not None
        assert found.clusters.tolist() == [-1, -1, -1, -1]
        assert (found.labels, found.colour_by, found.notes) == ((), "cluster", ("kept",))


def test_a_field_colours_also_from_further_in(drawn: Drawn) -> None:
    assert drawn([1, 1, 1, 1], colour_by="legs").field is not None
    inner = drawn(colour_by="by.name").field
    assert inner is not None
    assert (inner.values, inner.codes.tolist()) == (("Ann",), [-1, 0, -1, -1])
    assert drawn([1, 1, 1, 1], colour_by="metadata.cluster").field is not None


def test_of_very_many_fields_the_commonest_are_shown(drawn: Drawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing_module, "_MOST_FIELDS", 2)
    found = drawn()
    assert [field.name for field in found.fields] == ["legs", "kind"]
    assert found.notes[1] == Naming(2, "shown", "2 are not")
    asked = drawn([1, 1, 1, 1], colour_by="metadata.cluster")
    assert [field.name for field in asked.fields] == ["legs", "kind", "metadata.cluster"]
    assert asked.notes[-1].endswith("1 are not.")


def test_what_cannot_colour_is_refused_with_what_can(drawn: Drawn) -> None:
    with pytest.raises(BadInputError, match=r"'wings'.*legs, kind, by, metadata\.cluster"):
        drawn(colour_by="wings")
    with pytest.raises(BadInputError, match=r"no clusters.*: nearsay explore clusters papers"):
        drawn(colour_by="cluster")


def test_a_passage_that_went_meanwhile_is_left_out(
    drawn: Drawn, papers: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = drawing_module.passages.read_passages

    def without_one(*arguments: object, **options: object) -> object:
        found = read(*arguments, **options)
        found.pop(min(found))
        return found

    monkeypatch.setattr(drawing_module.passages, "read_passages", without_one)
    assert [row.document_id for row in drawn().rows] == ["dog", "bird", "fish"]
