"""Declared fields: their values follow the documents, and filters over them are looked up."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import field_values
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.tables import declared_fields
from nearsay.indexer.catalogue.tables import field_values as values_table
from nearsay.indexer.filters import fields
from nearsay.indexer.filters.parse import parse
from nearsay.indexer.filters.selection import declared_of, narrowest
from nearsay.indexer.vectors.errors import BadFilterError

ROWS: list[dict[str, object]] = [
    {"id": "1", "text": "a cat sat", "year": 2019, "tags": ["a", "b", "a", 1, 1.0, None], "open": True},
    {"id": "2", "text": "the dog dug", "year": "2020", "tags": [], "author": {"name": "Ä"}},
    {"id": "3", "text": "considerably lengthier", "year": None, "tags": "a and b", "open": False},
    {"id": "4", "text": "parrots whistle", "day": "2021-03-05T10:30:00Z", "author": {"name": "x" * 600}},
]
NAMES = ("year", "tags", "open", "author.name", "day", "author")


@pytest.fixture
def papers(catalogue_url: str, tmp_path: Path, words: WordsEncoder) -> Iterator[Collection]:
    """A collection with four documents, its catalogue of each kind in turn."""
    database = None if catalogue_url.startswith("sqlite") else catalogue_url
    with Library.open(tmp_path / "library", database=database, load_encoder=lambda _: words) as library:
        collection = library.collection("papers")
        collection.add_rows(ROWS)
        yield collection


def database_of(collection: Collection) -> Database:
    return collection.library.store.database


def kept(collection: Collection) -> dict[str, set[tuple[object, ...]]]:
    """The rows of every declared field."""
    columns = [values_table.c[name] for name in ("document", "place", "element", "kind", "text", "number")]
    found: dict[str, set[tuple[object, ...]]] = {}
    with database_of(collection).reading() as connection:
        for field in field_values.declared(connection, collection.snapshot().collection.id):
            rows = connection.execute(sa.select(*columns).where(values_table.c.field == field.id))
            found[".".join(field.path)] = {tuple(row) for row in rows}
    return found


def test_a_value_is_kept_with_what_it_counts_as(papers: Collection) -> None:
    report = papers.declare_fields(NAMES)
    assert (report.declared, report.already, report.documents, report.notes) == (NAMES, (), 4, ())
    assert kept(papers) == {
        "year": {(1, 0, False, "number", None, 2019), (2, 0, False, "text", "2020", 2020)},
        "tags": {
            (1, 0, False, "other", None, None),
            (1, 1, True, "text", "a", None),
            (1, 2, True, "text", "b", None),
            (1, 4, True, "number", None, 1),
            (2, 0, False, "other", None, None),
            (3, 0, False, "text", "a and b", None),
        },
        "open": {(1, 0, False, "true", None, None), (3, 0, False, "false", None, None)},
        "author.name": {(2, 0, False, "text", "Ä", None), (4, 0, False, "text", "x" * 500, None)},
        "day": {(4, 0, False, "text", "2021-03-05T10:30:00Z", None)},
        "author": {(2, 0, False, "other", None, None), (4, 0, False, "other", None, None)},
    }
    assert report.values == 15


@pytest.mark.long
def test_declared_values_follow_every_change_of_the_documents(papers: Collection) -> None:
    papers.declare_fields(NAMES)
    papers.add_rows(
        [
            {"id": "5", "text": "newer entry", "year": 2022, "tags": ["c"]},  # added
            {"id": "1", "text": "a cat sat", "year": 2018, "tags": ["z"]},  # relabelled
            {"id": "2", "text": "another wording here", "year": 2017},  # written anew
        ]
    )
    papers.remove(["3"])
    after = kept(papers)
    assert {row[0] for row in after["tags"]} == {1, 5}
    assert sorted(row[5] for row in after["year"]) == [2017, 2018, 2022]
    papers.forget_fields(NAMES)
    assert kept(papers) == {}
    papers.declare_fields(NAMES)
    assert kept(papers) == after


def test_a_deleted_collection_leaves_no_values_behind(papers: Collection) -> None:
    papers.declare_fields(["year", "tags"])
    papers.delete()
    with database_of(papers).reading() as connection:
        for table in (values_table, declared_fields):
            assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() == 0


def test_declaring_again_does_nothing_and_a_field_that_no_document_has_is_said(papers: Collection) -> None:
    papers.declare_fields(["metadata.year"])
    version = papers.snapshot().collection.version
    assert papers.declare_fields(["year"]).already == ("year",)
    assert papers.snapshot().collection.version == version
    report = papers.declare_fields(["yeer", "`a.b`"])
    assert report.notes == (Naming("no document", "'yeer'"), Naming("no document", "'`a.b`'"))
    assert papers.declared_fields() == ("year", "yeer", "`a.b`")
    assert papers.forget_fields(["yeer"]) == ("yeer",)
    assert papers.declared_fields() == ("year", "`a.b`")


def test_what_cannot_be_declared_or_taken_back_is_refused(papers: Collection) -> None:
    with pytest.raises(BadInputError, match="'title' is a document's own"):
        papers.declare_fields(["year", "title"])
    with pytest.raises(BadInputError, match="Put it in a list"):
        papers.declare_fields("year")
    with pytest.raises(BadFilterError, match="is not a field's name"):
        papers.declare_fields(["a..b"])
    assert papers.declared_fields() == ()
    papers.declare_fields(["open"])
    with pytest.raises(BadInputError, match=r"'year'.*'papers'.*open"):
        papers.forget_fields(["open", "year"])
    assert papers.declared_fields() == ("open",)


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("tags contains 'a'", "13"),
        ("tags contains 'nd'", "3"),
        ("tags = 'a'", "1"),
        ("day = 2021-03-05", "4"),
        ("year >= 2019 and year < 2020", "1"),
        ({"author.name": "x" * 600}, "4"),  # longer than what is kept of a text
        ({"author.name": "x" * 500}, ""),
        ({"author.name": {"contains": "x" * 501}}, "4"),
        ({"author.name": {">": "x" * 499}}, "24"),  # Ä comes after x
        ("tags is missing", "4"),
        ("author is not missing and not open = true", "24"),
    ],
    ids=str,
)
def test_a_filter_means_the_same_with_and_without_declared_fields(
    papers: Collection, where: str, ids: str
) -> None:
    for declared in ((), NAMES):
        papers.declare_fields(declared)
        assert sorted(hit.id for hit in papers.search("words", where=where)) == list(ids)
        assert [document.id for document in papers.documents(where)] == list(ids)
    assert papers.update(where=where, metadata={"seen": True}) == len(ids)
    assert papers.count("seen = true") == len(ids)
    assert papers.remove(where=where) == len(ids)
    assert papers.count() == len(ROWS) - len(ids)


@pytest.mark.parametrize(
    ("where", "index"),
    [
        ("year = 2019", "number"),
        ("year in (2019, 2020)", "number"),
        ("year >= 2019 and year < 2022", "number"),
        ("venue = 'acl'", "text"),
        ("venue in ('acl', 'emnlp')", "text"),
        ("day = 2021-03-05", "text"),
        ("day > 2021-03-05", "text"),
        ("tags contains 3", "number"),
        ("open = true", "kind"),
    ],
)
def test_sqlite_looks_a_comparison_up_in_an_index(
    open_library: Callable[[], Library], where: str, index: str
) -> None:
    collection = open_library().collection("papers")
    collection.add_rows(ROWS)
    collection.declare_fields(["year", "venue", "day", "tags", "open"])
    collection_id = collection.snapshot().collection.id
    with database_of(collection).reading() as connection:
        declared = declared_of(connection, collection_id)
        narrowed = narrowest(connection, collection_id, parse(where), declared, 100)
        assert narrowed is not None
        assert narrowed.rest is None
        sent: list[tuple[str, object]] = []

        def note(_: object, __: object, statement: str, given: object, *___: object) -> None:
            sent.append((statement, given))

        sa.event.listen(connection, "before_cursor_execute", note)
        connection.execute(narrowed.numbers()).all()
        ((statement, given),) = sent
        steps = [row[3] for row in connection.connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)]
    looked_up = [step for step in steps if "field_values" in step]
    assert looked_up
    assert all(f"SEARCH field_values USING COVERING INDEX ix_field_values_{index}" in s for s in looked_up)


def test_a_field_that_fails_leaves_those_before_it_declared(
    papers: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare = fields.declare

    def failing(connection: sa.Connection, collection_id: int, path: tuple[str, ...], moment: str) -> object:
        found = declare(connection, collection_id, path, moment)
        if path == ("tags",):
            raise RuntimeError("stopped")
        return found

    monkeypatch.setattr(fields, "declare", failing)
    with pytest.raises(RuntimeError, match="stopped"):
        papers.declare_fields(["year", "tags", "open"])
    assert papers.declared_fields() == ("year",)
    assert set(kept(papers)) == {"year"}
    monkeypatch.undo()
    report = papers.declare_fields(["year", "tags"])
    assert (report.declared, report.already) == (("tags",), ("year",))
