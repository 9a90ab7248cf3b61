"""Documents page by page, in both catalogues."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library, UnreadableWordsError
from nearsay.indexer.query import browsing
from nearsay.indexer.query.lexical import lexical_candidates, words_in

_ROWS = [
    {"id": f"Doc-{at}", "title": f"title {at}", "text": f"{'a ' * at}cat sat.", "year": 2000 + at}
    for at in range(10)
]


@pytest.fixture
def collection(catalogue_url: str, tmp_path: Path, words: WordsEncoder) -> Iterator[Collection]:
    """Ten documents, of which the fourth was removed."""
    database = None if catalogue_url.startswith("sqlite") else catalogue_url
    with Library.open(tmp_path / "library", database=database, load_encoder=lambda _: words) as library:
        cats = library.collection("cats")
        cats.add_rows(_ROWS)
        cats.remove(["Doc-3"])
        yield cats


def _ids(page: object) -> list[str]:
    return [row.id for row in page.rows]


def test_pages_follow_each_other_and_miss_nothing(collection: Collection) -> None:
    seen, after = [], None
    for _ in range(4):
        page = collection.browser.page(after=after, limit=3)
        assert page.more_before is (after is not None)
        seen += _ids(page)
        after = page.rows[-1].number
        if not page.more_after:
            break
    assert seen == [f"Doc-{at}" for at in range(10) if at != 3]


def test_the_page_before_is_the_one_that_was_seen(collection: Collection) -> None:
    first = collection.browser.page(limit=3)
    second = collection.browser.page(after=first.rows[-1].number, limit=3)
    back = collection.browser.page(before=second.rows[0].number, limit=3)
    assert _ids(back) == _ids(first)
    assert (back.more_before, back.more_after) == (False, True)
    last = collection.browser.page(before=10**9, limit=2)
    assert _ids(last) == ["Doc-8", "Doc-9"]
    assert (last.more_before, last.more_after) == (True, False)


@pytest.mark.parametrize("read", [False, True])
def test_a_filter_thins_pages_and_is_counted(collection: Collection, read: bool) -> None:
    if read:
        collection.facets("year")
    page = collection.browser.page("year >= 2006", limit=3)
    assert _ids(page) == ["Doc-6", "Doc-7", "Doc-8"]
    assert page.more_after
    assert collection.browser.count("year >= 2006") == 4
    assert collection.browser.count("year >= 2006 and title = 'title 8'") == 1
    assert collection.browser.count() == 9


def test_a_count_is_taken_anew_when_the_collection_changed(collection: Collection) -> None:
    assert collection.browser.count("year >= 2006") == 4
    collection.remove(["Doc-9"])
    assert collection.browser.count("year >= 2006") == 3


def test_counting_ends_where_it_is_told_to(collection: Collection) -> None:
    assert collection.browser.count("year >= 2006", up_to=3) == 3
    assert collection.browser.count("year >= 2006") == 4
    assert collection.browser.count("year >= 2006", up_to=3) == 3
    assert collection.browser.count("year >= 2006", up_to=9) == 4


@pytest.mark.long
def test_a_row_shows_the_beginning_of_a_long_text(collection: Collection) -> None:
    collection.add_rows([{"id": "long", "text": "word " * 400}])
    row = collection.browser.by_id(["long"])[0]
    assert row.beginning == ("word " * 400)[:240]


def test_ids_are_found_by_a_piece_in_whatever_case(collection: Collection) -> None:
    assert [row.id for row in collection.browser.ids_containing("oc-8")] == ["Doc-8"]
    assert [row.id for row in collection.browser.ids_containing("DOC-", limit=2)] == ["Doc-0", "Doc-1"]
    assert collection.browser.ids_containing("%") == []
    assert [row.id for row in collection.browser.ids_containing("doc", "year = 2005")] == ["Doc-5"]


def test_documents_come_in_the_order_that_is_asked_for(collection: Collection) -> None:
    found = collection.browser.by_id(["Doc-7", "gone", "Doc-1"])
    assert [row.id for row in found] == ["Doc-7", "Doc-1"]
    assert found[0].metadata == {"year": 2007}


def test_passages_are_the_pieces_of_the_text(collection: Collection) -> None:
    text = "A cat sat. " * 12
    collection.add_rows([{"id": "long", "text": text}])
    pieces = collection.browser.passages("long")
    assert len(pieces) == collection.document("long").passages > 1
    assert [piece.ordinal for piece in pieces] == list(range(len(pieces)))
    assert all(text[piece.start : piece.end].startswith("A cat") for piece in pieces)
    assert collection.browser.passages("gone") == []


def test_a_page_that_cannot_be_is_refused(collection: Collection) -> None:
    with pytest.raises(BadInputError, match="a page of 0"):
        collection.browser.page(limit=0)
    with pytest.raises(BadInputError, match="not both"):
        collection.browser.page(after=1, before=2)


def test_a_documents_passages_are_found_without_reading_the_others(library: Library) -> None:
    cats = library.collection("cats")
    cats.add_rows(_ROWS)
    asked: list[tuple[str, Any]] = []
    engine = library.store.database.engine

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT") and "passages" in statement:
            asked.append((statement, parameters))

    sa.event.listen(engine, "before_cursor_execute", note)
    assert [row.ordinal for row in cats.browser.passages("Doc-4")] == [0]
    assert cats.browser.passages("nothing") == []
    sa.event.remove(engine, "before_cursor_execute", note)
    assert asked
    with engine.connect() as connection:
        for statement, parameters in asked:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            assert [row[3] for row in plan if "SCAN" in row[3] or "(collection_id=?)" in row[3]] == []


def test_no_id_holds_what_no_id_can_hold(collection: Collection) -> None:
    assert collection.browser.ids_containing("Doc-1\0") == []


def test_as_many_ids_as_are_asked_for_are_looked_up(library: Library) -> None:
    many = library.collection("many")
    many.add_rows({"id": str(number), "text": f"row {number}"} for number in range(1100))
    wanted = [str(number) for number in range(1099, -1, -1)]
    assert [row.id for row in many.browser.by_id([*wanted, "none"])] == wanted


def test_a_limit_that_makes_no_sense_is_refused(collection: Collection) -> None:
    for limit in (0, -1):
        with pytest.raises(BadInputError, match=f"{limit}"):
            collection.browser.ids_containing("Doc", limit=limit)
        with pytest.raises(BadInputError, match=f"{limit}"):
            collection.browser.with_words("cat", limit=limit)
    with pytest.raises(BadInputError, match="-1"):
        collection.browser.count(up_to=-1)


def test_words_find_documents_best_first_each_once(collection: Collection) -> None:
    often = "There was a dog in our old house, and it slept all day. " * 6
    collection.add_rows([{"id": "dogs", "text": often}, {"id": "dog", "text": "dog"}])
    assert [row.id for row in collection.browser.with_words("dog")] == ["dog", "dogs"]
    assert [row.id for row in collection.browser.with_words("dog", limit=1)] == ["dog"]
    assert [row.id for row in collection.browser.with_words("sat", "year = 2005")] == ["Doc-5"]
    assert collection.browser.with_words("zebra") == []
    assert "Doc-3" not in [row.id for row in collection.browser.with_words("cat")]


def test_words_so_common_that_not_all_are_ranked_find_what_passes_a_filter(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "lexical_candidates", partial(lexical_candidates, budget=2))
    assert [row.id for row in collection.browser.with_words("sat", "year = 2009")] == ["Doc-9"]


def test_words_find_what_waits_for_its_vectors(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Iterator[object]:
        raise BadInputError("the encoder broke. Mend it")
        yield

    monkeypatch.setattr(WordsEncoder, "stream", broken)
    with pytest.raises(BadInputError, match="broke"):
        collection.add_rows([{"id": "late", "text": "a zebra"}])
    assert collection.overview().waiting == 1
    assert len(collection.search("zebra", mode="lexical")) == 0
    assert [row.id for row in collection.browser.with_words("zebra")] == ["late"]


def test_damaged_words_are_told_with_the_name_of_their_collection(library: Library) -> None:
    cats = library.collection("cats")
    cats.add_rows(_ROWS)
    with library.store.database.writing() as connection:
        connection.exec_driver_sql("DROP TABLE " + words_in(connection, cats._record.row().id).name)
    with pytest.raises(UnreadableWordsError, match="'cats'"):
        cats.browser.with_words("cat")
