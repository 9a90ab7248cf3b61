"""Many rows into a table at once, without SQLAlchemy's work on each of them."""

import functools
from collections.abc import Sequence
from itertools import chain

import sqlalchemy as sa

__all__ = ["insert_rows"]

_ROWS = 500  # in one statement of SQLite's: of 12 columns, 6,000 values of the 32,766 that it takes


def insert_rows(
    connection: sa.Connection,
    table: sa.TableClause,
    columns: Sequence[str],
    rows: Sequence[tuple[object, ...]],
) -> None:
    """Insert rows; each holds the columns' values in their order, as the driver takes them: JSON as text.

    SQLite gets some hundreds in a statement: Python's interpreter lock is given back once for all of them,
    so that other threads do not take turns with each row. PostgreSQL gets them a column at a time, as arrays:
    to send each row would take as long as to store it. There `table` has to know its columns' types.
    """
    if not rows:
        return
    if connection.dialect.name != "sqlite":
        values = tuple(list(column) for column in zip(*rows, strict=True))
        connection.exec_driver_sql(_from_arrays(table, columns, connection.dialect), values)
        return
    whole = len(rows) - len(rows) % _ROWS
    for begin in range(0, whole, _ROWS):
        some = tuple(chain.from_iterable(rows[begin : begin + _ROWS]))
        connection.exec_driver_sql(_values(table.name, tuple(columns), _ROWS), some)
    if whole < len(rows):
        connection.exec_driver_sql(_values(table.name, tuple(columns), 1), list(rows[whole:]))


@functools.cache
def _values(table: str, columns: tuple[str, ...], rows: int) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    row = f"({', '.join('?' * len(columns))})"
    return f'INSERT INTO "{table}" ({names}) VALUES {", ".join([row] * rows)}'  # noqa: S608 - our own names


def _from_arrays(table: sa.TableClause, columns: Sequence[str], dialect: sa.Dialect) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    arrays = ", ".join(f"%s::{table.c[name].type.compile(dialect)}[]" for name in columns)
    return f'INSERT INTO "{table.name}" ({names}) SELECT * FROM unnest({arrays})'  # noqa: S608 - our own names
