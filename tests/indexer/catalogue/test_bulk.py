"""Many rows at once into either database."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from nearsay.indexer.catalogue.bulk import insert_columns, one_of, update_columns
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.json_values import json_text
from nearsay.indexer.catalogue.tables import Json

_COLUMNS = ("number", "end", "text", "fields", "sure", "source")


@pytest.fixture
def table() -> sa.Table:
    """A table with a column of each kind that the catalogue has; one is called `end`."""
    return sa.Table(
        "things",
        sa.MetaData(),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("end", sa.Integer),
        sa.Column("text", sa.String(40)),
        sa.Column("fields", Json),
        sa.Column("sure", sa.Boolean),
        sa.Column("source", sa.Text, nullable=True),
    )


@pytest.fixture
def database(open_database: Callable[[], Database], table: sa.Table) -> Iterator[Database]:
    """An empty database of each kind in turn with that table."""
    opened = open_database()
    with opened.writing() as connection:
        table.create(connection)
    return opened


def _columns(rows: Sequence[tuple[object, ...]]) -> dict[str, list[object]]:
    return {name: [row[place] for row in rows] for place, name in enumerate(_COLUMNS)}


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1250])
def test_every_row_arrives_as_sqlalchemy_would_have_written_it(
    database: Database, table: sa.Table, count: int
) -> None:
    texts = ["plain", "Ж {quoted, 'so' \"or\" so} \\ %s ? :name", "", "NULL", "tab\tline\nend"]
    fields: list[dict[str, object]] = [{}, {"é": [1, None, "x"], "deep": {"a": 1.5}}, {"quote": '"\\'}]
    rows = [
        (number, number * 2, texts[number % 5], fields[number % 3], number % 2 == 0, ("/a", None)[number % 2])
        for number in range(count)
    ]
    with database.writing() as connection:
        insert_columns(connection, table, _columns([(*row[:3], json_text(row[3]), *row[4:]) for row in rows]))
    with database.reading() as connection:
        found = connection.execute(sa.select(table).order_by(table.c.number)).all()
    assert [tuple(row) for row in found] == rows


@pytest.mark.parametrize("count", [0, 1, 501, 1250])
def test_rows_get_other_values_by_their_keys_some_hundred_in_a_statement(
    database: Database, table: sa.Table, count: int
) -> None:
    rows = [(number, number % 3, "old", "{}", True, "/a") for number in range(1300)]
    with database.writing() as connection:
        insert_columns(connection, table, _columns(rows))
        statements = 0

        def run(*told: Any) -> None:
            nonlocal statements
            statements += 1
            assert not told[-1]  # not a row at a time

        sa.event.listen(connection, "before_cursor_execute", run)
        ends = [7 if number == 1 else number % 3 for number in range(count)]  # of 1 no row is there
        keys = {"number": range(count), "end": ends}
        anew = {"fields": ['{"é": 1}'] * count, "source": [None] * count, "text": map(str, range(count))}
        update_columns(connection, table, keys, {name: [*values] for name, values in anew.items()})
        assert statements == (-(-count // 500) if connection.dialect.name == "sqlite" else min(count, 1))
    with database.reading() as connection:
        found = connection.execute(sa.select(table).order_by(table.c.number)).all()
    changed = {number for number in range(count) if number != 1}
    assert [tuple(row) for row in found] == [
        (*row[:2], str(row[0]), {"é": 1}, True, None) if row[0] in changed else (*row[:3], {}, *row[4:])
        for row in rows
    ]


def test_a_row_that_is_there_already_refuses_all_of_them(database: Database, table: sa.Table) -> None:
    rows = [(number, 0, "", "{}", True, None) for number in range(600)]
    with database.writing() as connection:
        insert_columns(connection, table, _columns(rows[550:551]))
    with pytest.raises(sa.exc.IntegrityError), database.writing() as connection:
        insert_columns(connection, table, _columns(rows))
    with database.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() == 1


def test_columns_of_several_lengths_are_refused(database: Database, table: sa.Table) -> None:
    columns = _columns([(1, 0, "", "{}", True, None)]) | {"text": ["one", "two"]}
    with database.writing() as connection, pytest.raises(ValueError, match="several lengths"):
        insert_columns(connection, table, columns)


@pytest.mark.parametrize("count", [0, 1, 2, 40_000])
def test_any_number_of_values_may_be_asked_for(database: Database, table: sa.Table, count: int) -> None:
    with database.writing() as connection:
        insert_columns(
            connection, table, _columns([(n, n, f"text {n}", "{}", True, None) for n in range(100)])
        )
    with database.reading() as connection:
        asked = [90 + n for n in range(count)]
        statement = sa.select(table.c.number).where(one_of(table.c.number, asked), table.c.end > 90)
        assert sorted(connection.execute(statement).scalars()) == [n for n in asked if 90 < n < 100]
        by_name = sa.select(table.c.number).where(one_of(table.c.number, "some"))
        assert sorted(connection.execute(by_name, {"some": asked}).scalars()) == [n for n in asked if n < 100]


@pytest.mark.parametrize("text", ["a" * 40, "Ж {quoted} \"or\" 'so'", ":some ? %s [1]", ""])
def test_texts_are_compared_whole_and_by_an_index(database: Database, table: sa.Table, text: str) -> None:
    with database.writing() as connection:
        sa.Index("of_text", table.c.text).create(connection)
        insert_columns(connection, table, _columns([(1, 1, text, "{}", True, None)]))
    with database.reading() as connection:
        for asked, found in (([text, "b"], [1]), ([f"{text}a"], []), ([text[:-1] or "c"], [])):
            statement = sa.select(table.c.number).where(one_of(table.c.text, asked))
            assert connection.execute(statement).scalars().all() == found
        if database.dialect == "sqlite":
            plan = connection.exec_driver_sql(
                f"EXPLAIN QUERY PLAN {statement.compile(connection)}", ("[]",)
            ).all()
            assert "of_text (text=?)" in str(plan)
