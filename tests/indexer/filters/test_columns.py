"""Columns let through exactly the passages that SQL does, whatever was added, changed or removed since."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from filter_expressions import NUMBERS, TEXTS, Row, expressions, passes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from words_encoder import WordsEncoder

from nearsay.data.document import JsonValue
from nearsay.data.threads import ThreadLock
from nearsay.indexer import Library
from nearsay.indexer.catalogue import collections
from nearsay.indexer.catalogue.columns import keep_columns
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.tables import changed_documents, documents, passages, removed_passages
from nearsay.indexer.filters import column as column_module
from nearsay.indexer.filters import known as known_module
from nearsay.indexer.filters import selection
from nearsay.indexer.filters.expression import Among, Compare, Expression, Kind, Not, Operator, Or
from nearsay.indexer.filters.known import columnar, known_of, passages_passing, state_of
from nearsay.indexer.filters.parse import Where, parse
from nearsay.indexer.filters.sql import condition

NAMES = ["year", "author", "größe", "x.y", "a\\b", "$", "[0]", "0", "list", "id"]
PATHS = st.sampled_from(
    [("metadata", name) if name == "id" else (name,) for name in NAMES]
    + [("author", "name"), ("author", "0"), ("list", "0"), ("nowhere",), ("author", "x.y")]
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS | st.sampled_from([2**63, 2**64 + 3, 1e300])
VALUES = SCALARS | st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "0", "x.y"]), inner, max_size=3)
    ),
    max_leaves=5,
)
METADATA = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)
ROWS = st.lists(METADATA, min_size=1, max_size=8)
EXPRESSIONS = expressions(PATHS)


class _UndoneError(Exception):
    """Ends a transaction; of an error of Python's own, the catalogue would look for damage to its file."""


@contextlib.contextmanager
def collection(database: Database) -> Iterator[tuple[sa.Connection, int]]:
    """A collection of its own, in a transaction that leaves nothing behind."""
    known_module._KNOWN.clear()  # the next collection has the same number
    with contextlib.suppress(_UndoneError), database.writing() as connection:
        yield connection, collections.create(connection, "c", "none", "").id
        raise _UndoneError


def enter(connection: sa.Connection, key: int, rows: Sequence[dict[str, JsonValue]], first: int) -> None:
    same = {"title": "", "text": "", "content_hash": "", "row_hash": "", "named_by_content": False}
    same |= {"added_at": "", "updated_at": ""}
    numbered = list(enumerate(rows, first))
    connection.execute(
        documents.insert(),
        [same | {"collection_id": key, "number": n, "id": f"d{n}", "metadata": row} for n, row in numbered],
    )
    place = {"start": 0, "end": 0, "text_hash": "", "collection_id": key}
    connection.execute(  # two passages a document
        passages.insert(),
        [
            place | {"number": 2 * n + ordinal, "document": n, "ordinal": ordinal}
            for n, _ in numbered
            for ordinal in (0, 1)
        ],
    )
    collections.changed(connection, key)


def remove(connection: sa.Connection, key: int, document: int) -> None:
    connection.execute(passages.delete().where(passages.c.document == document))
    connection.execute(documents.delete().where(documents.c.number == document))
    gone = [{"collection_id": key, "passage": 2 * document + ordinal} for ordinal in (0, 1)]
    connection.execute(removed_passages.insert(), gone)
    collections.changed(connection, key)


def by_columns(connection: sa.Connection, key: int, expression: Expression) -> list[int]:
    assert columnar(expression)
    found = passages_passing(connection, expression, state_of(connection, key), wait=True)
    assert found is not None
    return [int(number) for number in np.flatnonzero(found)]


def by_sql(connection: sa.Connection, key: int, expression: Expression) -> list[int]:
    same = (documents.c.collection_id == passages.c.collection_id) & (
        documents.c.number == passages.c.document
    )
    chosen = condition(expression, connection.dialect.name, passage=passages.c.number)
    statement = sa.select(passages.c.number).join(documents, same).where(chosen)
    statement = statement.where(passages.c.collection_id == key).order_by(passages.c.number)
    return list(connection.execute(statement).scalars())


def by_python(rows: Mapping[int, dict[str, JsonValue]], expression: Expression) -> list[int]:
    passed = (number for number, row in rows.items() if passes(Row(row), expression))
    return [2 * number + ordinal for number in passed for ordinal in (0, 1)]


@pytest.mark.long
@pytest.mark.parametrize("known", [0, 50_000])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, changed=METADATA, asked=st.tuples(EXPRESSIONS, EXPRESSIONS), data=st.data())
def test_columns_let_through_what_python_and_sql_do_as_the_collection_grows_shrinks_and_changes(
    database: Database,
    known: int,
    rows: list[dict[str, JsonValue]],
    changed: dict[str, JsonValue],
    asked: tuple[Expression, Expression],
    data: st.DataObject,
) -> None:
    more, (first, second) = data.draw(ROWS), asked
    with collection(database) as (connection, key), pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_module, "_KNOWN_ELEMENTS", known)
        patch.setattr(column_module, "_AT_ONCE", 3)
        patch.setattr(known_module, "_LISTED", 4)
        patch.setattr(known_module, "_WORTH_KEEPING", 1)
        patch.setattr(
            known_module, "_save", lambda _, of, due: keep_columns(connection, key, of.to_save(due), "")
        )
        there: dict[int, dict[str, JsonValue]] = {}

        def agrees(expression: Expression) -> None:
            if data.draw(st.booleans()):  # another process, which finds what was kept
                known_module._KNOWN.clear()
            found = by_columns(connection, key, expression)
            assert found == by_sql(connection, key, expression) == by_python(there, expression)

        enter(connection, key, rows, 1)
        there |= dict(enumerate(rows, 1))
        agrees(first)
        enter(connection, key, more, 1 + len(rows))
        there |= dict(enumerate(more, 1 + len(rows)))
        agrees(first)
        relabelled, removed = (data.draw(st.sampled_from(sorted(there))) for _ in range(2))
        where = (documents.c.collection_id == key) & (documents.c.number == relabelled)
        connection.execute(documents.update().where(where).values(metadata=changed))
        connection.execute(changed_documents.insert().values(collection_id=key, document=relabelled))
        there[relabelled] = changed
        remove(connection, key, removed)
        del there[removed]
        agrees(Or((first, second)))  # fields that were asked before the removal, and others
        enter(connection, key, rows, 1 + len(rows) + len(more))
        there |= dict(enumerate(rows, 1 + len(rows) + len(more)))
        agrees(Or((first, Not(second))))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"`a.b`": 1}, [0]),  # one name with a dot
        ({"a.b": 1}, [1]),  # b inside a
        ({"a.`c.d`": 1}, [8]),
        ("a.`c.d` = 1", [8]),
        ({"`c.d`.e.`f.`": {"missing": False}}, [9]),
        ("`a.b` >= 1", [0]),
        ("day > 2021-03-04 and day < 2021-03-06", [2, 3]),
        ("day = 2021-03-05T10:30:00Z", [3]),
        ("tags = 'x' and not tags contains 'y'", [4]),
        ("year is missing", [0, 1, 2, 3, 4, 5, 8, 9]),
        ("year >= 2019", [6, 7]),
        ({"and": []}, [*range(10)]),
        ({"or": []}, []),
    ],
    ids=str,
)
def test_each_kind_of_value_by_hand(database: Database, where: Where, expected: list[int]) -> None:
    rows: list[dict[str, JsonValue]] = [
        {"a.b": 1},
        {"a": {"b": 1}},
        {"day": "2021-03-05"},
        {"day": "2021-03-05T10:30:00Z"},
        {"tags": ["x", None, ["y"], 3]},
        {"tags": ["x", "y"], "year": None},
        {"year": "2019"},
        {"year": 2019.5},
        {"a": {"c.d": 1}},
        {"c.d": {"e": {"f.": 0}}},
    ]
    with collection(database) as (connection, key):
        enter(connection, key, rows, 1)
        passed = by_columns(connection, key, parse(where))
        assert passed == by_sql(connection, key, parse(where))
        assert sorted({number // 2 - 1 for number in passed}) == expected


def test_a_number_beyond_what_floats_hold_is_compared_by_its_every_digit(database: Database) -> None:
    numbers = [2**53, 2**53 + 1, 2**63 - 1]
    with collection(database) as (connection, key):
        enter(connection, key, [{"n": number} for number in numbers], 1)
        for at, number in enumerate(numbers):
            for operator, expected in ((Operator.EQUAL, [at]), (Operator.LESS, [*range(at)])):
                passed = by_columns(connection, key, Compare(("n",), operator, number))
                assert sorted({each // 2 - 1 for each in passed}) == expected


@pytest.mark.parametrize(
    "numbers",
    [[], [3], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [5, 6, 7, 7, 9], [4, 0, 0, 1], [9, 8, 7], [2, 1, 4]],
)
def test_flags_are_looked_up_whether_or_not_numbers_follow_one_another(
    numbers: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_module, "_TAKEN", 4)
    flags = np.array([number % 3 == 0 for number in range(12)])
    found = column_module.taken(flags, np.array(numbers, dtype=np.int32))
    assert found.tolist() == [number % 3 == 0 for number in numbers]


def test_codes_take_a_byte_until_there_are_more_than_a_byte_tells_apart() -> None:
    rows = np.arange(1, 301)
    few = column_module.widened(column_module.empty(), [(rows, [f"[{row % 9}]" for row in rows])], 300)
    assert few is not None
    assert few.codes.dtype == np.uint8
    many = column_module.widened(few, [(rows + 300, [f"[{row}]" for row in rows])], 600)
    assert many is not None
    assert many.codes.dtype == np.uint16
    below_five = Compare(("size",), Operator.LESS, 5)
    assert many.documents(below_five).tolist() == [False] + [row % 9 < 5 for row in rows] + [
        row < 5 for row in rows
    ]
    among = Among(("size",), Kind.NUMBER, tuple(range(10, 300, 20)))  # more runs than are compared
    assert many.documents(among).tolist() == [False] * 301 + [row % 20 == 10 for row in rows]


def test_values_that_are_read_together_are_numbered_in_their_order_once_each() -> None:
    values = [3, "b", 1.5, "7", 3.0, 7, "a", None, True, ["b", 3], {"x": 1}, "b", -2]
    raw = [json.dumps([value]) for value in values]
    rows = np.arange(1, len(values) + 1)
    some = column_module.widened(column_module.empty(), [(rows, raw)], len(values))
    assert some is not None
    codes = dict(zip([repr(value) for value in values], some.codes[1:].tolist(), strict=True))
    in_order = [codes[name] for name in ("-2", "1.5", "3", "7", "'7'", "'a'", "'b'")]
    assert in_order == list(range(in_order[0], in_order[0] + 7))
    assert codes["3"] == codes["3.0"]
    assert codes["None"] == some.codes[0] == 0
    assert codes["['b', 3]"] == in_order[-1] + 1 == some.size - 1
    from_two = Compare(("size",), Operator.GREATER_OR_EQUAL, 2)
    passing = [at for at, value in enumerate(values) if value in (3, "7", 7)]
    assert np.flatnonzero(some.documents(from_two)).tolist() == [at + 1 for at in passing]


def test_an_earlier_state_than_the_one_known_is_left_to_sql(sqlite: Database) -> None:
    with collection(sqlite) as (connection, key):
        enter(connection, key, [{"n": 1}], 1)
        before = state_of(connection, key)
        enter(connection, key, [{"n": 1}], 2)
        assert by_columns(connection, key, parse("n = 1")) == [2, 3, 4, 5]
        assert passages_passing(connection, parse("n = 1"), before, wait=True) is None


@pytest.mark.parametrize("where", ["id = 'x'", "year = 1 and text contains 'x'", {"not": {"title": "x"}}])
def test_what_asks_of_texts_and_ids_is_left_to_sql(where: Where) -> None:
    assert not columnar(parse(where))


@pytest.mark.parametrize("listed", [20_000, 0])
def test_a_search_right_after_a_commit_of_any_process_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    monkeypatch.setattr(selection, "LISTED", listed)
    encoder = WordsEncoder()
    with (
        Library.open(tmp_path, load_encoder=lambda _: encoder) as ours,
        Library.open(tmp_path, load_encoder=lambda _: encoder) as theirs,
    ):
        asking, writing = ours.collection("c"), theirs.collection("c")

        def found(where: Where) -> set[str]:
            return {hit.id for hit in asking.search("a word", 100, where=where)}

        writing.add_rows({"id": f"d{i}", "text": f"word {i}", "year": i} for i in range(20))
        assert found({"year": {">=": 18}}) == {"d18", "d19"}
        writing.add_rows([{"id": "new", "text": "one word more", "year": 30, "a.b": {"c.d": 1}}])
        assert found({"year": {">=": 18}}) == {"d18", "d19", "new"}
        assert found({"`a.b`.`c.d`": 1}) == found("`a.b`.`c.d` = 1") == {"new"}
        writing.update(["d19"], metadata={"year": 1})
        assert found({"year": {">=": 18}}) == {"d18", "new"}
        assert found({"year": 1}) == {"d1", "d19"}
        writing.remove(["d18", "new"])
        assert found({"year": {">=": 18}}) == set()
        writing.update(["d1"], metadata={"year": 40})
        writing.compact()
        assert found({"year": {">=": 17}}) == {"d1", "d17"}
        writing.add_rows([{"id": "d17", "text": "another text", "year": 50}])  # in place of its text
        assert found({"year": {">=": 17}}) == {"d1", "d17"}
        assert found({"year": 50}) == {"d17"}
        writing.delete()
        writing.add_rows([{"id": "d1", "text": "word", "year": 2}])
        assert found({"year": {">=": 0}}) == {"d1"}


def test_columns_that_were_asked_longest_ago_give_way(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_module, "_BYTES", 1)
    with collection(sqlite) as (connection, key):
        enter(connection, key, [{"n": 1, "m": 2}, {"n": 2, "m": 2}], 1)
        for where, path in (("n = 1", ("n",)), ("m = 2", ("m",)), ("n = 1", ("n",))):
            assert by_columns(connection, key, parse(where)) == by_sql(connection, key, parse(where))
            assert [*known_of(connection, known_module._KnownColumns)._kept.get(key).by_path] == [path]


def test_a_search_in_a_large_collection_does_not_wait_until_a_column_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "_READ_AT_ONCE", 0)
    monkeypatch.setattr(selection, "LISTED", 0)
    with Library.open(tmp_path, load_encoder=lambda _: WordsEncoder()) as library:
        numbers = library.collection("c")
        numbers.add_rows({"id": f"d{i}", "text": f"word {i}", "year": i} for i in range(20))
        key = numbers.snapshot().collection.id
        database = library.store.database
        with database.reading() as connection:
            columns = known_of(connection, known_module._KnownColumns)

        def found(where: str) -> tuple[set[str], bool]:
            hits = {hit.id for hit in numbers.search("a word", 100, where=where, mode="dense")}
            with database.reading() as connection:
                chosen = selection.select(connection, numbers.snapshot(), where, frozenset())
            return hits, chosen.chosen is not None

        with columns._lock:
            reading = columns._read_by.setdefault(key, ThreadLock())
        with reading:  # the thread that reads goes on after it
            assert found("year > 17") == ({"d18", "d19"}, False)
        columns._readers[key].join(60)
        assert columns._kept.get(key).by_path.keys() == {("year",)}
        assert found("year > 17") == ({"d18", "d19"}, True)
        numbers.update(["d3"], metadata={"year": 30})
        assert found("year > 17") == (
            {"d3", "d18", "d19"},
            True,
        )  # brought up at once
        numbers.compact()
        assert found("year > 17")[0] == {"d3", "d18", "d19"}
        columns._readers[key].join(60)
        assert found("year > 17") == ({"d3", "d18", "d19"}, True)
