"""The passages nearest to a document."""

from typing import Any

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.tables import collections as collection_table
from nearsay.indexer.catalogue.tables import passages
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import UnknownDocumentError
from nearsay.indexer.vectors.vector_store import Candidates


@pytest.fixture
def collection(library: Library) -> Collection:
    """A document of two passages, (1, 1, 0)/√2 and (1, 0, 1)/√2, and three others."""
    collection = library.collection("texts", chunking="sentences")
    collection.add_rows(
        [
            {"id": "two", "text": "Aa. Bbb.", "kind": "long"},
            {"id": "x", "text": "cc", "kind": "short"},
            {"id": "y", "text": "c", "kind": "short"},
            {"id": "z", "text": "c dd eee", "kind": "long"},
        ]
    )
    return collection


def test_where_shards_saw_a_later_commit_the_newest_is_looked_at(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, looked, look = collection.similar("x"), list[Snapshot](), Snapshot.looked_up

    def once_stale(self: Snapshot, *given: Any, **named: Any) -> list[Candidates]:
        looked.append(self)
        if len(looked) == 1:
            raise StaleSnapshotError
        return look(self, *given, **named)

    monkeypatch.setattr(Snapshot, "looked_up", once_stale)
    assert collection.similar("x") == wanted
    assert len(looked) == 2


def test_a_document_is_compared_by_the_mean_of_its_passages(collection: Collection) -> None:
    hits = collection.similar("two", 3)
    # The mean points to (2, 1, 1)/√6: 4/√18 with (1, 1, 1)/√3, 2/√6 with (1, 0, 0), 1/√6 with (0, 1, 0).
    assert [hit.id for hit in hits] == ["z", "y", "x"]
    assert [hit.score for hit in hits] == pytest.approx([4 / 18**0.5, 2 / 6**0.5, 1 / 6**0.5], abs=1e-6)
    assert hits.notes == ()


def test_none_of_its_own_passages_is_found_and_they_do_not_count(collection: Collection) -> None:
    hits = collection.similar("two", 9)
    assert "two" not in {hit.id for hit in hits}
    assert (len(hits), hits.qualifying) == (3, 3)
    assert hits.notes == (Naming("3 of the 9", "only 3 passages"),)


def test_every_passage_of_another_document_can_be_found(collection: Collection) -> None:
    hits = collection.similar("z", 4)
    # (1, 1, 1)/√3 with (1, 1, 0)/√2 and with (1, 0, 1)/√2 is 2/√6; with one axis 1/√3.
    assert [(hit.id, hit.passage) for hit in hits] == [("two", 0), ("two", 1), ("x", 0), ("y", 0)]
    assert [hit.score for hit in hits] == pytest.approx([2 / 6**0.5] * 2 + [3**-0.5] * 2, abs=1e-6)


def test_by_document_each_other_document_comes_once(collection: Collection) -> None:
    hits = collection.similar("z", 4, by_document=True)
    assert [hit.id for hit in hits] == ["two", "x", "y"]
    assert hits.notes == (Naming("3 of the 4", "only 3 documents"),)


def test_copies_of_the_document_are_found(collection: Collection) -> None:
    collection.add_rows([{"id": "copy", "text": "c dd eee"}])
    assert (collection.similar("z", 1)[0].id, collection.similar("z", 1)[0].score) == (
        "copy",
        pytest.approx(1),
    )


def test_a_filter_holds_and_does_not_bring_the_document_back(collection: Collection) -> None:
    assert [hit.id for hit in collection.similar("two", 9, where="kind = 'long'")] == ["z"]
    assert [hit.id for hit in collection.similar("two", 9, where={"kind": "short"})] == ["y", "x"]
    hits = collection.similar("two", 9, where="id = 'two'")
    assert hits.notes == (Naming("nothing found", "filter"),)


def test_removed_documents_are_not_found(collection: Collection) -> None:
    collection.remove(["z"])
    assert [hit.id for hit in collection.similar("two", 9)] == ["y", "x"]


def test_an_unknown_document_is_named(collection: Collection) -> None:
    with pytest.raises(UnknownDocumentError) as raised:
        collection.similar("nobody")
    assert str(raised.value) == Naming("'texts'", "'nobody'", "nearsay documents list texts")


def test_a_removed_document_is_unknown(collection: Collection) -> None:
    collection.remove(["z"])
    with pytest.raises(UnknownDocumentError, match="'z'"):
        collection.similar("z")


def test_a_document_without_a_vector_yet_says_how_to_finish(collection: Collection) -> None:
    with collection._store.database.writing() as connection:
        connection.execute(passages.update().where(passages.c.number == 5).values(number=50))
        connection.execute(collection_table.update().values(version=collection_table.c.version + 1))
    with pytest.raises(BadInputError) as raised:
        collection.similar("z")
    assert str(raised.value) == Naming("'z'", "no vector", "nearsay index rebuild texts")


def test_a_k_out_of_range_is_refused(collection: Collection) -> None:
    with pytest.raises(BadInputError, match="k is 0"):
        collection.similar("z", 0)
