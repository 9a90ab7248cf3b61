"""What a reader sees."""

from collections.abc import Callable

import numpy as np
import pytest
import table_collection
from hypothesis import given, settings
from hypothesis import strategies as st
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.snapshots import snapshot as snapshots
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError, open_all
from nearsay.indexer.snapshots.snapshot import Snapshot, take
from nearsay.indexer.vectors.segment import SegmentKind, write_vectors

OpenLibrary = Callable[[], Library]


def living(snapshot: Snapshot) -> list[int]:
    return np.flatnonzero(snapshot.alive).tolist()


def afresh(collection: Collection) -> Snapshot:
    with collection._store.database.reading() as connection:
        found = take(connection, collection._store, collection._record.row())
    assert found is not None
    return found


@pytest.fixture
def collection(library: Library) -> Collection:
    """Passages 1 to 4."""
    collection = library.collection("texts")
    collection.add_rows([{"id": f"d{i}", "text": "a" * i} for i in range(1, 5)])
    return collection


def test_a_snapshot_knows_which_passages_live(collection: Collection) -> None:
    collection.remove(["d2"])
    snapshot = collection.snapshot()
    assert living(snapshot) == [1, 3, 4]
    assert snapshot.searchable == 3
    assert (snapshot.waiting, snapshot.notes, snapshot.index) == (0, (), None)


def test_nothing_is_read_again_while_nothing_changes(collection: Collection) -> None:
    assert collection.snapshot() is collection.snapshot()


def test_every_change_gives_a_new_snapshot_over_the_segments_that_are_open(collection: Collection) -> None:
    first = collection.snapshot()
    collection.add_rows([{"id": "d5", "text": "aaaaa"}])
    second = collection.snapshot()
    assert second.vectors.segments[0] is first.vectors.segments[0]
    assert living(second) == [1, 2, 3, 4, 5]
    assert living(first) == [1, 2, 3, 4]


def test_a_snapshot_is_not_changed_by_what_comes_after(collection: Collection) -> None:
    first = collection.snapshot()
    query = np.eye(8, dtype=np.float32)[0]
    before = first.nearest(query, 4).ids.tolist()
    collection.remove(["d1", "d2"])
    collection.compact()
    assert first.nearest(query, 4).ids.tolist() == before == [1, 2, 3, 4]
    assert collection.snapshot().nearest(query, 4).ids.tolist() == [3, 4]


def test_only_allowed_and_living_passages_are_found(collection: Collection) -> None:
    collection.remove(["d2"])
    snapshot = collection.snapshot()
    query = np.eye(8, dtype=np.float32)[2]
    assert snapshot.nearest(query, 9, np.array([2, 3, 4, 9, 1000])).ids.tolist() == [3, 4]
    assert snapshot.nearest(query, 9, np.zeros(0, dtype=np.int64)).ids.tolist() == []


def test_a_collection_without_a_live_generation_has_no_snapshot(library: Library) -> None:
    row = library.collection("empty")._record.made()
    with library.store.database.reading() as connection:
        assert take(connection, library.store, row) is None


def test_a_collection_whose_documents_are_all_gone_has_an_empty_snapshot(collection: Collection) -> None:
    collection.remove(document.id for document in collection)
    assert living(collection.snapshot()) == []
    collection.compact()
    snapshot = collection.snapshot()
    assert (living(snapshot), len(snapshot.vectors), snapshot.searchable) == ([], 0, 0)
    assert snapshot.nearest(np.eye(8, dtype=np.float32)[0], 3).ids.tolist() == []


def test_a_passage_removed_before_its_vector_was_written_is_dead_when_the_vector_comes(
    collection: Collection, open_library: OpenLibrary
) -> None:
    """A killed run left it waiting; the next embeds it though its document was removed meanwhile."""
    reader = open_library().collection("texts")
    collection.remove(["d4"])
    with collection._store.database.writing() as connection:  # passage 4 as if it had never got its vector
        (row,) = generations.segments_of(connection, 1)
        generations.remove_segment(connection, row)
        folder, live = collection._store.segments(1), collection._record.live()
        vectors, fingerprint = np.eye(8, dtype=np.float32), live.encoder.fingerprint
        path = write_vectors(folder, np.arange(1, 4), vectors[:3], fingerprint)
        generations.add_segment(connection, live, SegmentKind.VECTORS, path, 3, (1, 3))
        collections.changed(connection, 1)
    assert living(reader.snapshot()) == [1, 2, 3]
    path = write_vectors(folder, np.array([4]), vectors[3:4], fingerprint)
    with collection._store.database.writing() as connection:
        generations.add_segment(connection, live, SegmentKind.VECTORS, path, 1, (4, 4))
        collections.changed(connection, 1)
    assert living(afresh(reader)) == [1, 2, 3]
    assert living(reader.snapshot()) == [1, 2, 3]


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "change", "remove", "compact", "rebuild", "look"]), st.integers(0, 7)),
    max_size=12,
)


@pytest.mark.long
@settings(deadline=None, max_examples=15)
@given(STEPS)
def test_a_snapshot_taken_from_the_last_one_equals_one_taken_afresh(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("steps") / "library"
    encoder = WordsEncoder()
    with (
        Library.open(folder, load_encoder=lambda _: encoder) as writer,
        Library.open(folder, load_encoder=lambda _: encoder) as other,
    ):
        collection, reader = writer.collection("texts"), other.collection("texts")
        texts = {f"d{i}": "a" for i in range(4)}
        collection.add_rows([{"id": id_, "text": text} for id_, text in texts.items()])
        for at, (step, which) in enumerate(steps):
            id_ = f"d{which}"
            if step == "add" or (step == "change" and id_ in texts):
                texts[id_] = "a " * at + "bb"
                collection.add_rows([{"id": id_, "text": texts[id_]}])
            elif step == "remove" and id_ in texts:
                del texts[id_]
                collection.remove([id_])
            elif step == "compact":
                collection.compact()
            elif step == "rebuild":
                collection.rebuild()
            elif step == "look":
                reader.snapshot()
        kept, fresh = reader.snapshot(), afresh(reader)
        assert living(kept) == living(fresh)
        assert kept.searchable == len(texts)
        assert kept.vectors.ids.tolist() == fresh.vectors.ids.tolist()
        hits = reader.search("a", 20)
        assert {hit.id: hit.text for hit in hits} == {id_: text.strip() for id_, text in texts.items()}


@pytest.mark.long
def test_a_segment_that_a_compaction_replaced_while_it_was_opened_is_not_damaged(
    collection: Collection, open_library: OpenLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_library().collection("texts")
    collection.remove(["d1"])
    real = generations.segments_of
    calls: list[int] = []

    def replaced_just_after(connection: object, collection_id: int, generation: int | None = None) -> object:
        rows = real(connection, collection_id, generation)
        if not calls:
            calls.append(1)
            collection.compact()
        return rows

    monkeypatch.setattr(generations, "segments_of", replaced_just_after)
    assert [hit.id for hit in reader.search("aa", 9)] == ["d2", "d3", "d4"]
    assert not collection._store.quarantine.exists()


def test_a_stale_snapshot_says_so(collection: Collection, open_library: OpenLibrary) -> None:
    reader = open_library().collection("texts")
    collection.remove(["d1"])
    database = reader._store.database
    with database.reading() as connection:
        row = reader._record.row()
        generations.segments_of(connection, row.id)  # the transaction has begun to see
        collection.compact()
        with pytest.raises(StaleSnapshotError):
            take(connection, reader._store, row)


def test_files_that_went_with_their_collection_are_stale_for_merges_too(collection: Collection) -> None:
    store, row, (generation,) = collection._store, collection._record.row(), collection.generations()
    with store.database.reading() as connection:
        segments = generations.segments_of(connection, row.id)
    collection.delete()
    with pytest.raises(StaleSnapshotError):
        open_all(store, row, generation, segments)


@pytest.mark.parametrize("copied", [0, 100_000])
def test_several_queries_among_some_passages_get_what_each_would_alone(
    open_table: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch, copied: int
) -> None:
    monkeypatch.setattr(snapshots, "_COPIED", copied)
    snapshot = open_table().snapshot()
    allowed = np.flatnonzero(snapshot.alive)[3::7]
    queries = table_collection.TABLE[table_collection.COUNT :][:20]
    for query, found in zip(queries, snapshot.nearest_many(queries, 10, allowed), strict=True):
        alone = snapshot.nearest(query, 10, allowed)
        np.testing.assert_array_equal(found.ids, alone.ids)
        np.testing.assert_array_equal(found.scores, alone.scores)
        scores = snapshot.vectors.rows(snapshot.vectors.positions(allowed)) @ query
        assert set(found.ids) == set(allowed[np.argsort(-scores)[:10]])
