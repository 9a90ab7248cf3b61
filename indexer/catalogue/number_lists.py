"""Long lists of numbers from SQL, a text a list: a row each costs four times as much."""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.vectors.errors import CatalogueError

__all__ = ["number_list", "number_lists"]


def number_list(connection: sa.Connection, statement: sa.Select[Any]) -> NDArray[np.int64]:
    """The one column of whole numbers that a statement gives, in any order.

    At most some 50 million: a text in a database holds no more than a gigabyte.
    """
    return number_lists(connection, statement)[0]


def number_lists(connection: sa.Connection, statement: sa.Select[Any]) -> Sequence[NDArray[np.int64]]:
    """The same of several columns; what stood in a row stands at one place of all lists."""
    rows = statement.subquery()
    listed = connection.execute(sa.select(*(sa.func.aggregate_strings(each, ",") for each in _texts(rows))))
    return [np.zeros(0, dtype=np.int64) if text is None else _numbers(text) for text in listed.one()]


def _numbers(text: str) -> NDArray[np.int64]:
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
