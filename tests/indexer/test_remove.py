"""What was removed is not found again, ever, by anyone."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.vectors.errors import UnknownCollectionError, UnknownDocumentError
from nearsay.training.sentence.text_encoder import EncodedWindow

_ROWS = [{"id": f"d{number}", "text": f"{'a ' * number}cat", "year": 2000 + number} for number in range(6)]


@pytest.fixture
def cats(library: Library) -> Collection:
    """Six documents."""
    collection = library.collection("cats")
    collection.add_rows(_ROWS)
    return collection


def test_a_document_removed_by_id_is_missed_by_the_next_search(cats: Collection) -> None:
    assert cats.search("a cat", k=1)[0].id == "d1"
    assert cats.remove(["d1"]) == 1
    hits = cats.search("a cat", k=10)
    assert sorted(hit.id for hit in hits) == ["d0", "d2", "d3", "d4", "d5"]
    assert hits.qualifying == 5


def test_documents_are_removed_by_a_filter(cats: Collection) -> None:
    assert cats.remove(where="year < 2003") == 3
    assert [document.id for document in cats.documents()] == ["d3", "d4", "d5"]
    assert sorted(hit.id for hit in cats.search("a cat")) == ["d3", "d4", "d5"]


def test_ids_and_a_filter_remove_both(cats: Collection) -> None:
    assert cats.remove(["d5", "d1"], where={"year": 2001}) == 2
    assert [document.id for document in cats.documents()] == ["d0", "d2", "d3", "d4"]


def test_an_unknown_id_removes_nothing(cats: Collection) -> None:
    with pytest.raises(UnknownDocumentError, match=r"'cats' .*'x1' \(nor 1 more"):
        cats.remove(["d1", "x2", "x1"])
    assert cats.overview().documents == 6


def test_what_is_no_text_is_no_id(cats: Collection) -> None:
    with pytest.raises(BadInputError, match=r"\b5 .*no id"):
        cats.remove(["d1", 5])  # type: ignore[list-item]
    assert cats.overview().documents == 6
    assert [document.id for document in cats.get(name for name in ("d2", "d1"))] == ["d2", "d1"]


def test_removing_one_document_does_not_read_all_passages_of_the_collection(cats: Collection) -> None:
    asked: list[tuple[str, object]] = []
    engine = cats.library.store.database.engine

    def note(_connection: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        if "document" in statement or "FROM passages" in statement:
            asked.append((statement, parameters))

    sa.event.listen(engine, "before_cursor_execute", note)
    cats.remove(["d1"])
    sa.event.remove(engine, "before_cursor_execute", note)
    assert asked
    with engine.connect() as connection:
        for statement, parameters in asked:
            given: Any = parameters[0] if isinstance(parameters, list) else parameters
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given).all()
            assert not [
                step[3] for step in plan if re.match(r"SEARCH passages .*\(collection_id=\?\)", step[3])
            ]


def test_naming_an_id_twice_removes_it_once(cats: Collection) -> None:
    assert cats.remove(["d1", "d1"]) == 1


def test_removing_nothing_changes_nothing(cats: Collection) -> None:
    assert cats.remove() == 0
    assert cats.remove(where="year > 3000") == 0
    assert cats.overview().documents == 6


def test_many_documents_are_removed_at_once(library: Library) -> None:
    many = library.collection("many")
    many.add_rows({"id": number, "text": f"row {number}"} for number in range(1300))
    assert many.remove(str(number) for number in range(1299)) == 1299
    assert [hit.id for hit in many.search("a cat")] == ["1299"]


def test_a_filter_that_cannot_be_read_removes_nothing(cats: Collection) -> None:
    with pytest.raises(BadInputError):
        cats.remove(where="year <")
    assert cats.overview().documents == 6


@pytest.mark.parametrize("where", [{}, "", {"age": {}}, {"and": []}, {"and": [{}, {"not": {"or": []}}]}])
def test_an_empty_filter_removes_nothing(cats: Collection, where: Where) -> None:
    with pytest.raises(BadInputError):
        cats.remove(where=where)
    assert cats.overview().documents == 6


def test_everything_can_be_removed_and_the_search_says_so(cats: Collection) -> None:
    assert cats.remove(where="year > 0") == 6
    hits = cats.search("a cat")
    assert len(hits) == 0
    assert hits.notes == (Naming("nothing found", "no passage"),)


def test_a_removed_document_comes_back_when_it_is_added_again(cats: Collection, words: WordsEncoder) -> None:
    cats.remove(["d1"])
    words.encoded.clear()
    report = cats.add_rows(_ROWS)
    assert (report.added, report.unchanged) == (1, 5)
    assert words.encoded == ["a cat"]
    assert cats.search("a cat", k=1)[0].id == "d1"
    assert len(cats.search("a cat")) == 6


def test_another_process_sees_a_removal_at_its_next_search(
    cats: Collection, open_library: Callable[[], Library]
) -> None:
    reader = open_library().collection("cats")
    assert reader.search("a cat", k=1)[0].id == "d1"
    cats.remove(["d1"])
    assert "d1" not in {hit.id for hit in reader.search("a cat")}
    assert reader.search("a cat").qualifying == 5


def test_a_removal_before_the_vector_is_written_holds_for_a_reader_that_was_there(
    library: Library,
    open_library: Callable[[], Library],
    words: WordsEncoder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collection = library.collection("cats")
    collection.add_rows([{"id": "old", "text": "the old one"}])
    reader = open_library().collection("cats")
    stream = words.stream

    def broken(windows: Iterable[list[str]], **_: object) -> Iterator[EncodedWindow]:
        for _window in windows:
            pass
        yield from (_ for _ in [1 // 0])

    def looked_at(windows: Iterable[list[str]], **_: object) -> Iterator[EncodedWindow]:
        all_entered = list(windows)
        reader.search("a cat")  # the row was replaced; the vector of its first text is not written yet
        yield from stream(all_entered)

    monkeypatch.setattr(words, "stream", broken)
    with pytest.raises(ZeroDivisionError):
        collection.add_rows([{"id": "new", "text": "before"}])
    monkeypatch.setattr(words, "stream", looked_at)
    collection.add_rows([{"id": "new", "text": "afterwards"}])
    assert sorted(hit.text for hit in reader.search("a cat")) == ["afterwards", "the old one"]
    assert reader.search("a cat").qualifying == 2
    assert reader.vectors()[0].tolist() == collection.vectors()[0].tolist() == [1, 3]


def test_a_collection_that_was_deleted_is_unknown(cats: Collection, library: Library) -> None:
    folder = library.store.folder / "segments"
    assert list(folder.iterdir())
    cats.delete()
    assert list(folder.iterdir()) == []
    with pytest.raises(UnknownCollectionError, match=r"'cats' .*none yet"):
        cats.search("a cat")


def test_a_reader_of_a_deleted_collection_finds_all_of_the_next_of_its_name(
    cats: Collection, open_library: Callable[[], Library]
) -> None:
    reader = open_library().collection("cats")
    cats.remove(["d0", "d1", "d2"])
    assert len(reader.search("a cat")) == 3
    cats.delete()
    cats.add_rows(_ROWS)
    assert sorted(hit.id for hit in reader.search("a cat")) == ["d0", "d1", "d2", "d3", "d4", "d5"]
