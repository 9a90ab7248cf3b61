"""What an `and` of declared fields lets through where each of them lets many through."""

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.number_lists import number_list
from nearsay.indexer.filters.declared import Declared, declared_rows
from nearsay.indexer.filters.expression import And, Expression, Leaf, Not, Or, gathered
from nearsay.indexer.filters.known_selections import CollectionState, Key, known_selections
from nearsay.indexer.filters.numbering import rising

__all__ = ["intersection"]


def intersection(
    connection: sa.Connection, expression: Expression, declared: Declared, state: CollectionState, most: int
) -> NDArray[np.int64] | None:
    """The documents, rising, that pass an `and` of comparisons with declared fields.

    None where it is something else, and where one of the comparisons lets more than `most` values through.
    What each lets through is remembered.
    """
    parts = gathered(expression) if isinstance(expression, And) else []
    leaves = [part for part in parts if not isinstance(part, Not | And | Or)]
    if len(leaves) != len(parts) or len(leaves) < 2:
        return None
    found: NDArray[np.int64] | None = None
    for leaf in leaves:
        documents = _documents(connection, leaf, declared, state, most)
        if documents is None:
            return None
        found = documents if found is None else np.intersect1d(found, documents, assume_unique=True)
    return found


def _documents(
    connection: sa.Connection, leaf: Leaf, declared: Declared, state: CollectionState, most: int
) -> NDArray[np.int64] | None:
    rows = declared_rows(leaf, connection.dialect.name, declared)
    if rows is None or not rows.exact:
        return None
    known = known_selections(connection)
    key = Key(state, f"documents of {leaf!r}")
    is_known, documents = known.get(key)
    if not is_known:
        listed = number_list(connection, rows.documents().limit(most + 1))
        documents = rising(listed) if listed.size <= most else None
        known.put(key, documents)
    return documents
