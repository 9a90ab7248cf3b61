"""Many rows at once into either database."""

from collections.abc import Callable, Iterator, Sequence

import pytest
import sqlalchemy as sa

from nearsay.indexer.catalogue.bulk import insert_columns
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
