"""What was read of a field is kept in the catalogue, and other processes bring it up from there."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.columns import kept_column
from nearsay.indexer.catalogue.tables import columns
from nearsay.indexer.filters import known as known_module
from nearsay.indexer.filters import selection
from nearsay.indexer.filters.column import Column, empty, unpacked, widened
from nearsay.indexer.filters.known import known_of

ROWS = [
    {
        "id": f"d{i}",
        "text": f"word {i}",
        "year": 2000 + i,
        "open": i % 2 == 0,
        "tags": ["ä", i, {}],
        "big": 2**60 + i,
    }
    for i in range(40)
]


@pytest.fixture(autouse=True)
def everything_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_module, "_WORTH_KEEPING", 1)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many documents were read for each window of a column."""
    counts: list[int] = []
    values = known_module._values

    def counting(*arguments: object) -> object:
        found = values(*arguments)  # type: ignore[arg-type]
        counts.append(found[0].size)
        return found

    monkeypatch.setattr(known_module, "_values", counting)
    return counts


@pytest.fixture
def place(catalogue_url: str, tmp_path: Path) -> tuple[Path, str | None]:
    """A library's folder and its catalogue, of each kind in turn."""
    return tmp_path / "library", None if catalogue_url.startswith("sqlite") else catalogue_url


def opened(place: tuple[Path, str | None]) -> Library:
    """As another process opens it: nothing is known yet."""
    return Library.open(place[0], database=place[1], load_encoder=lambda _: WordsEncoder())


@pytest.fixture
def papers(place: tuple[Path, str | None]) -> Iterator[Collection]:
    with opened(place) as library:
        collection = library.collection("papers")
        collection.add_rows(ROWS)
        yield collection


def found(collection: Collection, where: str) -> list[str]:
    return sorted(hit.id for hit in collection.search("word", 100, where=where, mode="dense"))


def kept(collection: Collection) -> list[str]:
    with collection.library.store.database.reading() as connection:
        return sorted(connection.execute(sa.select(columns.c.path)).scalars())


def test_another_process_reads_only_what_came_since(
    papers: Collection, place: tuple[Path, str | None], read: list[int]
) -> None:
    asked = {
        "year > 2037": ["d38", "d39"],
        "tags contains 'ä' and year < 2002": ["d0", "d1"],
        f"big >= {2**60 + 39}": ["d39"],
        "open = true and tags contains 38": ["d38"],
    }
    for where, ids in asked.items():
        assert found(papers, where) == ids
    assert kept(papers) == ['["big"]', '["open"]', '["tags"]', '["year"]', "[]"]
    read.clear()
    with opened(place) as library:
        other = library.collection("papers")
        for where, ids in asked.items():
            assert found(other, where) == ids
        assert sum(read) == 0
        papers.add_rows([{"id": "new", "text": "word new", "year": 2050}])
        papers.update(["d3"], metadata={"year": 2040})
        papers.remove(["d38"])
    with opened(place) as library:
        assert found(library.collection("papers"), "year > 2037") == ["d3", "d39", "new"]
        assert sum(read) == 2  # the new and the changed one
        assert {look.name: look.counted for look in library.collection("papers").fields()}["year"]


def test_columns_go_with_a_compaction_and_with_their_collection(papers: Collection) -> None:
    assert found(papers, "year > 2037") == ["d38", "d39"]
    papers.compact()
    assert kept(papers) == []
    assert found(papers, "year > 2037") == ["d38", "d39"]
    assert kept(papers) == ['["year"]', "[]"]
    papers.delete()
    assert kept(papers) == []


def test_a_field_that_no_document_has_is_not_kept(papers: Collection) -> None:
    assert found(papers, "nowhere = 1") == []
    assert kept(papers) == ["[]"]


def test_few_that_came_since_are_read_each_time(papers: Collection, place: tuple[Path, str | None]) -> None:
    assert found(papers, "year > 2037") == ["d38", "d39"]
    with papers.library.store.database.reading() as connection:
        before = connection.execute(sa.select(columns.c.path, columns.c.content)).all()
    papers.add_rows([{"id": "new", "text": "word new", "year": 2050}])
    with opened(place) as library:
        assert found(library.collection("papers"), "year > 2037") == ["d38", "d39", "new"]
    with papers.library.store.database.reading() as connection:
        assert sorted(connection.execute(sa.select(columns.c.path, columns.c.content)).all()) == sorted(
            before
        )


@pytest.mark.parametrize("content", [b"", b"PK no file of arrays", b"PK\x03\x04"])
def test_what_is_no_column_is_read_anew(
    papers: Collection, place: tuple[Path, str | None], content: bytes
) -> None:
    assert found(papers, "year > 2037") == ["d38", "d39"]
    with papers.library.store.database.writing() as connection:
        connection.execute(columns.update().values(content=content))
    with opened(place) as library:
        assert found(library.collection("papers"), "year > 2037") == ["d38", "d39"]


def test_a_column_with_a_byte_that_is_another_one_is_none_or_the_same() -> None:
    windows = [(np.arange(1, 4), ['["a",null]', f"[{2**60},null]", '[["b",2],null]'])]
    content = widened(empty(), windows, 3).to_bytes()
    assert unpacked(content, ["nothing"]) is None
    for place in range(0, len(content), 3):
        other = bytearray(content)
        other[place] ^= 1 << place % 8
        column = Column.from_bytes(bytes(other))
        assert column is None or column.to_bytes() == content


def test_a_whole_number_that_no_float_holds_is_a_bound(papers: Collection) -> None:
    papers.add_rows([{"id": "most", "text": "word", "big": 10**400}])
    assert found(papers, f"big > {2**60 + 38}") == ["d39", "most"]
    (look,) = (look for look in papers.fields() if look.name == "big")
    assert (look.low, look.high, look.counted) == (2**60, 10**400, True)


def test_a_column_of_too_many_characters_is_not_kept(
    papers: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    papers.add_rows([{"id": "long", "text": "word", "note": "a" * 5000}])
    monkeypatch.setattr(known_module, "_MOST_KEPT", 4999)
    assert found(papers, "note contains 'a'") == ["long"]
    assert kept(papers) == ["[]"]


def test_no_search_of_a_large_collection_waits_for_a_column_that_is_read(
    papers: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(papers, "year > 2037") == ["d38", "d39"]
    monkeypatch.setattr(selection, "_READ_AT_ONCE", 0)
    papers.add_rows([{"id": "new", "text": "word", "year": 2050}])
    with papers.library.store.database.reading() as connection:
        known = known_of(connection, known_module._KnownColumns)
    with known._read_by[papers.snapshot().collection.id]:  # not released before the searches have answered
        for where in ("year > 2038", "year > 2038 and text contains 'word'"):
            assert found(papers, where) == ["d39", "new"]
            assert papers.count(where) == 2
        assert len(papers.search("word", 100, where={"and": []}, mode="dense")) == 41


def test_no_search_of_a_large_collection_reads_what_a_column_is_far_behind(
    papers: Collection, place: tuple[Path, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(papers, "year > 2037") == ["d38", "d39"]
    monkeypatch.setattr(selection, "_READ_AT_ONCE", 0)
    monkeypatch.setattr(known_module, "_READ_AT_ONCE", 5)
    readers: set[str] = set()
    values = known_module._values

    def told(*arguments: Any) -> object:
        readers.add(threading.current_thread().name)
        return values(*arguments)

    monkeypatch.setattr(known_module, "_values", told)
    papers.add_rows({"id": f"new{i}", "text": "word", "year": 2050 + i} for i in range(10))

    def columns_of(collection: Collection) -> Any:
        with collection.library.store.database.reading() as connection:
            return known_of(connection, known_module._KnownColumns)

    with opened(place) as library:  # which finds what was kept, as this process has it
        for collection in (library.collection("papers"), papers):
            known, key = columns_of(collection), collection.snapshot().collection.id
            assert found(collection, "year > 2058") == ["new9"]
            known._readers[key].join(60)
            assert readers == {"nearsay-columns"}
            readers.clear()
            with known._read_by.setdefault(key, threading.Lock()):  # nothing is left to be read
                assert found(collection, "year > 2057") == ["new8", "new9"]
                assert known._kept.get(key).by_path[("year",)].codes.size == 51
            assert readers == set()


def test_long_values_are_read_where_a_database_has_no_room_for_all_in_one(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library", load_encoder=lambda _: WordsEncoder()) as library:
        papers = library.collection("papers")
        rows = [{"id": f"d{i}", "text": "word", "note": f"{i} {'a' * 20_000}"} for i in range(40)]
        papers.add_rows([*rows, {"id": "short", "text": "word", "note": "b"}, {"id": "none", "text": "word"}])

        def limited(connection: sqlite3.Connection, _record: object) -> None:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 500_000)

        engine = library.store.database.engine
        sa.event.listen(engine, "connect", limited)
        engine.dispose()
        assert found(papers, "note contains '7 a' or note = 'b'") == ["d17", "d27", "d37", "d7", "short"]
        counted = papers.facets("note")
        assert (counted.different, counted.missing) == (41, 1)
        papers.update(["d7"], metadata={"note": "a" * 30_000})
        assert found(papers, "note contains '7 a'") == ["d17", "d27", "d37"]


def test_a_field_of_too_much_text_is_left_to_sql_and_read_once(
    papers: Collection, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_module, "_MOST_CHARACTERS", 460)
    papers.add_rows({"id": f"long{i}", "text": "word", "note": f"{i} {'a' * 90}"} for i in range(5))
    assert found(papers, "note contains '3 a' and year is missing") == ["long3"]
    with papers.library.store.database.reading() as connection:
        known = known_of(connection, known_module._KnownColumns)
    columns_ = known._kept.get(papers.snapshot().collection.id)
    assert (columns_.by_path.keys(), columns_.too_large) == ({("year",)}, {("note",)})
    read.clear()
    papers.add_rows([{"id": "new", "text": "word", "note": "13 a"}])
    assert found(papers, "note contains '3 a'") == ["long3", "new"]
    assert papers.count("note contains '3 a'") == 2
    assert read == []
    assert papers.facets("note").different == 6
    papers.remove([f"long{i}" for i in range(5)])
    papers.compact()
    assert found(papers, "note contains '3 a'") == ["new"]
    assert known._kept.get(papers.snapshot().collection.id).by_path.keys() == {("note",)}


def test_no_search_of_a_large_collection_waits_until_a_column_is_kept(
    papers: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(papers, "year > 2037") == ["d38", "d39"]
    monkeypatch.setattr(selection, "_READ_AT_ONCE", 0)
    papers.add_rows({"id": f"new{i}", "text": "word", "year": 2050 + i} for i in range(10))
    searched, ended = threading.Event(), threading.Event()
    keep = known_module._save

    def waiting(*arguments: Any) -> None:
        assert searched.wait(60)
        keep(*arguments)
        ended.set()

    monkeypatch.setattr(known_module, "_save", waiting)
    assert found(papers, "year > 2058") == ["new9"]
    searched.set()
    assert ended.wait(60)
    with papers.library.store.database.reading() as connection:
        row = kept_column(connection, papers.snapshot().collection.id, 0, ["year"])
    assert row is not None
    column = Column.from_bytes(row.content)
    assert column is not None
    assert column.codes.size == 51


def test_who_may_not_write_and_who_would_wait_searches_all_the_same(
    papers: Collection, place: tuple[Path, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_module, "_PATIENCE", 0.05)
    with opened(place) as library, papers.library.store.database.writing() as connection:
        connection.execute(columns.insert().values(_row(papers, '["other"]')))
        assert found(library.collection("papers"), "year > 2037") == ["d38", "d39"]
    if place[1] is None:
        assert kept(papers) == ['["other"]']  # SQLite has one writer


def _row(collection: Collection, path: str) -> dict[str, object]:
    row = collection.snapshot().collection
    same = {"compactions": 0, "sequence": 0, "content": b"", "created_at": ""}
    return {"collection_id": row.id, "path": path, **same}
