"""Bulk inserts, reads and comparisons, without SQLAlchemy's overhead per row."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from nearsay.indexer.vectors.errors import CatalogueError


class one_of(FunctionElement[bool]):  # noqa: N801 - read as a function, as SQLAlchemy's own are
    """Whether a column's value is among many.

    They are sent as one parameter, so the statement is compiled only once, and takes more values than
    `column.in_`, which writes one parameter for each of at most a few thousand.
    """

    name = "one_of"
    type = sa.Boolean()
    inherit_cache = True

    def __init__(
        self,
        column: sa.ColumnElement[Any],
        values: Sequence[Any] | str,
        each: sa.types.TypeEngine[Any] | None = None,
    ) -> None:
        """values: values of one type, or the name of the statement's parameter for them.

        each: the type; None = the column's. SQLite compares by the types of the values in any case
        """
        kind = _Many(column.type if each is None else each)
        if isinstance(values, str):
            super().__init__(column, sa.bindparam(values, type_=kind))
        else:
            super().__init__(column, sa.bindparam(None, list(values), type_=kind))

    def self_group(self, against: object = None) -> "one_of":  # noqa: ARG002
        """Return self: SQLAlchemy would otherwise compare with 1, which no index can serve."""
        return self


class _Many(sa.types.TypeDecorator[Sequence[Any]]):
    """A parameter of many values: JSON for SQLite, an array for PostgreSQL."""

    impl = sa.JSON
    cache_ok = True

    def __init__(self, each: sa.types.TypeEngine[Any]) -> None:
        super().__init__()
        # Of any length: PostgreSQL would cut what is longer than the column, and find what was not asked for.
        self.each = sa.Text() if isinstance(each, sa.String) else sa.BigInteger()

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        return dialect.type_descriptor(sa.JSON() if dialect.name == "sqlite" else ARRAY(self.each))


@compiles(one_of)
def _compiled(element: one_of, compiler: sa.sql.compiler.SQLCompiler, **options: Any) -> str:  # noqa: ANN401
    column, values = (compiler.process(each, **options) for each in element.clauses)
    if compiler.dialect.name == "sqlite":
        return f"{column} IN (SELECT value FROM json_each({values}))"  # noqa: S608 - compiled parts
    return f"{column} = ANY ({values})"


def count_of(connection: sa.Connection, rows: sa.FromClause, *where: sa.ColumnElement[bool]) -> int:
    """Count the rows that meet the conditions."""
    statement = sa.select(sa.func.count()).select_from(rows).where(*where)
    return int(connection.execute(statement).scalar_one())


def highest(connection: sa.Connection, column: sa.ColumnElement[int], *where: sa.ColumnElement[bool]) -> int:
    """The highest number in a column of the rows that meet the conditions; 0 without any."""
    return connection.execute(sa.select(sa.func.max(column)).where(*where)).scalar_one() or 0


def number_list(connection: sa.Connection, statement: sa.Select[Any]) -> NDArray[np.int64]:
    """The only column of integers of a statement, in any order.

    At most some 50 million, because a text in a database holds at most a gigabyte.
    """
    return number_lists(connection, statement)[0]


def number_lists(connection: sa.Connection, statement: sa.Select[Any]) -> Sequence[NDArray[np.int64]]:
    """The same for several columns; all lists have the order of the rows."""
    rows = statement.subquery()
    listed = connection.execute(sa.select(*(sa.func.aggregate_strings(each, ",") for each in _texts(rows))))
    return [numbers_in(text) for text in listed.one()]


def numbers_in(text: str | None) -> NDArray[np.int64]:
    """Integers from a comma-separated list made by the database; None = empty."""
    if text is None:
        return np.zeros(0, dtype=np.int64)
    numbers = np.zeros(0, dtype=np.int64)
    with contextlib.suppress(DeprecationWarning, ValueError):  # NumPy stops at what is no number, and warns
        numbers = np.fromstring(text, dtype=np.int64, sep=",")
    if numbers.size != text.count(",") + 1:
        raise CatalogueError(
            "the catalogue is damaged (a number is none). See where: nearsay doctor --prove. "
            "Restore it from a backup"
        )
    return numbers


def _texts(rows: sa.Subquery) -> list[sa.ColumnElement[str]]:
    return [sa.cast(column, sa.Text) for column in rows.c]


_ROWS = 500  # in one statement of SQLite's: of 12 columns, 6,000 values of the 32,766 that it takes


def insert_columns(
    connection: sa.Connection, table: sa.TableClause, columns: Mapping[str, Sequence[object]]
) -> None:
    """Insert rows given as columns of equal length, with values as the driver takes them (JSON as text).

    SQLite gets some hundreds per statement, so that Python's interpreter lock is released once for all of
    them and other threads do not alternate with each row. PostgreSQL gets arrays, one per column, because
    sending each row takes as long as storing it. For that, `table` has to know its columns' types.
    """
    names = ", ".join(f'"{name}"' for name in columns)
    for rows, values in _given(connection, table, columns):
        connection.exec_driver_sql(f'INSERT INTO "{table.name}" ({names}) {rows}', values)


def update_columns(
    connection: sa.Connection,
    table: sa.TableClause,
    keys: Mapping[str, Sequence[object]],
    columns: Mapping[str, Sequence[object]],
) -> None:
    """Update rows; keys and new values are columns of equal length, see `insert_columns`."""
    places = {name: f"c{place}" for place, name in enumerate([*keys, *columns])}
    anew = ", ".join(f'"{name}" = given.{places[name]}' for name in columns)
    which = " AND ".join(f'"{table.name}"."{name}" = given.{places[name]}' for name in keys)
    for rows, values in _given(connection, table, {**keys, **columns}):
        connection.exec_driver_sql(
            f"WITH given ({', '.join(places.values())}) AS ({rows}) "  # noqa: S608 - our own names
            f'UPDATE "{table.name}" SET {anew} FROM given WHERE {which}',
            values,
        )


def _given(
    connection: sa.Connection, table: sa.TableClause, columns: Mapping[str, Sequence[object]]
) -> Iterator[tuple[str, tuple[object, ...]]]:
    """Rows as SQL, with a parameter per value (for PostgreSQL per column), and the parameters."""
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1:
        raise ValueError(f"the columns of '{table.name}' are of several lengths: {sorted(lengths)}")
    (count,), width = lengths, len(columns)
    if connection.dialect.name != "sqlite":
        kinds = (f"%s::{table.c[name].type.compile(connection.dialect)}[]" for name in columns)
        if count:
            yield (
                f"SELECT * FROM unnest({', '.join(kinds)})",  # noqa: S608 - our own names
                tuple(list(column) for column in columns.values()),
            )
        return
    row = f"({', '.join('?' * width)})"
    for begin in range(0, count, _ROWS):
        rows = min(_ROWS, count - begin)
        some: list[object] = [None] * (rows * width)
        for place, column in enumerate(columns.values()):
            some[place::width] = column[begin : begin + rows]
        yield f"VALUES {', '.join([row] * rows)}", tuple(some)
