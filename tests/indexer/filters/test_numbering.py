"""Which passages documents have, kept up with what is added, changed, removed and compacted."""

import numpy as np
import pytest
import sqlalchemy as sa
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.number_lists import number_list, number_lists
from nearsay.indexer.catalogue.tables import passages
from nearsay.indexer.filters import numbering as module
from nearsay.indexer.filters.known_selections import CollectionState, state_of
from nearsay.indexer.filters.numbering import KnownNumberings, Numbering, known_numberings, numbering, rising


def in_sql(connection: sa.Connection, collection_id: int) -> dict[int, list[int]]:
    columns = (passages.c.document, passages.c.number)
    found: dict[int, list[int]] = {}
    where = passages.c.collection_id == collection_id
    for document, number in connection.execute(sa.select(*columns).where(where).order_by(*columns)):
        found.setdefault(document, []).append(number)
    return found


def agrees(collection: Collection) -> int:
    with collection.library.store.database.reading() as connection:
        collection_id = collection.snapshot().collection.id
        known = numbering(connection, state_of(connection, collection_id))
        assert known is not None
        expected = in_sql(connection, collection_id)
        for document in range(max(expected) + 3):
            assert known.passages_of(np.array([document])).tolist() == expected.get(document, [])
        every = known.passages_of(np.array([*expected, *expected]))
        assert every.tolist() == sorted(number for numbers in expected.values() for number in numbers)
        return int(every.size)


def test_passages_of_documents_by_hand() -> None:
    state = CollectionState(1, 1, 0)
    # Document 1 has passages 4 and 1, document 2 none, document 3 has 2.
    known = Numbering(state, np.array([0, 0, 2, 2, 3]), np.array([4, 1, 2]), 4, 0)
    assert known.passages_of(np.array([3, 1, 3])).tolist() == [1, 2, 4]
    assert known.passages_of(np.array([2, 9])).tolist() == []
    assert rising(np.array([3, 1, 3, 2])).tolist() == [1, 2, 3]
    assert rising(np.array([], dtype=np.int64)).tolist() == []


def test_passages_are_known_after_every_change(library: Library, words: WordsEncoder) -> None:
    collection = library.collection("notes", encoder=words, chunking="sentences")
    text = "The cat sat on the mat. The dog dug a hole. The parrots said nothing at all. "
    collection.add_rows({"id": f"d{i}", "text": text * (1 + i % 3) + str(i)} for i in range(12))
    first = agrees(collection)
    collection.add_rows(
        [{"id": "d3", "text": "Something else was written here."}, {"id": "new", "text": 2 * text}]
    )
    assert agrees(collection) == first - 4 + 1 + 6
    collection.remove(["d0", "d7"])
    agrees(collection)
    collection.compact()
    collection.add_rows([{"id": "d0", "text": text}])
    agrees(collection)


def test_an_earlier_state_than_the_known_is_left_to_sql(library: Library, words: WordsEncoder) -> None:
    collection = library.collection("notes", encoder=words)
    collection.add_rows([{"id": "1", "text": "a cat"}])
    with library.store.database.reading() as connection:
        state = state_of(connection, collection.snapshot().collection.id)
        assert numbering(connection, state) is numbering(connection, state)
        earlier = CollectionState(state.collection_id, state.version - 1, state.compactions)
        assert numbering(connection, earlier) is None


def test_lists_of_numbers_come_whole(catalogue: Database) -> None:
    given = [(1, -5), (3, 70_000_000_000), (2, 0)]
    selects = (sa.select(sa.literal(a).label("a"), sa.literal(b, sa.BigInteger).label("b")) for a, b in given)
    rows = sa.union_all(*selects).subquery()
    with catalogue.reading() as connection:
        first, second = number_lists(connection, sa.select(rows.c.a, rows.c.b))
        nothing = number_list(connection, sa.select(rows.c.a).where(rows.c.a > 9))
    assert dict(zip(first.tolist(), second.tolist(), strict=True)) == dict(given)
    assert nothing.tolist() == []


def numbered(collection_id: int) -> Numbering:
    state = CollectionState(collection_id, 1, 0)
    return Numbering(state, np.zeros(4, dtype=np.int64), np.zeros(6, dtype=np.int64), 0, 0)  # 80 bytes


def test_the_collection_filtered_longest_ago_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BYTES", 200)
    known = KnownNumberings()
    known.put(numbered(1))
    known.put(numbered(2))
    known.get(1)
    known.put(numbered(3))
    assert [known.get(each) is not None for each in (1, 2, 3)] == [True, False, True]
    monkeypatch.setattr(module, "_BYTES", 79)
    known.put(numbered(4))
    assert not any(known.get(each) for each in (1, 2, 3, 4))


def test_each_collection_is_read_under_a_lock_of_its_own() -> None:
    known = KnownNumberings()
    assert known.lock_of(1) is known.lock_of(1)
    with known.lock_of(1):
        assert known.lock_of(2).acquire(blocking=False)


def test_a_deleted_collection_is_forgotten_when_another_is_read(
    library: Library, words: WordsEncoder
) -> None:
    gone, stays = (library.collection(name, encoder=words) for name in ("gone", "stays"))
    for collection in (gone, stays):
        collection.add_rows([{"id": "1", "text": "a cat"}])
    agrees(gone)
    number = gone.snapshot().collection.id
    gone.delete()
    agrees(stays)
    with library.store.database.reading() as connection:
        known = known_numberings(connection)
        assert known.get(number) is None
        assert known.get(stays.snapshot().collection.id) is not None
