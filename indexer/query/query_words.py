"""Which of a query's words are looked for, and how the database says that a lexical table cannot be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

__all__ = ["BUDGET", "MOST_WORDS", "ROWS", "QueryWord", "affordable", "counts", "is_damaged", "is_gone"]


_UNDEFINED_TABLE: Final = "42P01"  # https://www.postgresql.org/docs/current/errcodes-appendix.html


def is_gone(error: DBAPIError) -> bool:
    """Whether there is no such table (any longer)."""
    return getattr(error.orig, "sqlstate", None) == _UNDEFINED_TABLE or "no such table" in str(error.orig)


def is_damaged(error: DBAPIError) -> bool:
    """Whether FTS5 found its table damaged, which says nothing against the rest of the catalogue."""
    return getattr(error.orig, "sqlite_errorname", None) == "SQLITE_CORRUPT_VTAB"


# Scoring takes 1.5 to 2 microseconds a (word, passage) pair in SQLite: about 50 milliseconds at the most.
BUDGET: Final = 30_000
# Rows of a result that are held at a time. Thousands at once set Python's collector going in every search,
# and in every sixtieth it went through all objects of the process: 40 to 120 ms.
ROWS: Final = 100
_AT_ONCE = 64  # words counted in one statement
MOST_WORDS: Final = 256  # of a query: the first; more say nothing about what is looked for


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of the query and what it is worth in the collection."""

    text: str  # as it stands in the query, in lower case; the database stems it
    passages: int  # that have it, counted up to a limit
    rarity: float  # inverse document frequency


def counts(connection: sa.Connection, one: str, words: Sequence[str]) -> list[int]:
    """What a scalar query with one parameter gives for each of the words, many in a statement."""
    found: list[int] = []
    for begin in range(0, len(words), _AT_ONCE):
        some = tuple(words[begin : begin + _AT_ONCE])
        found += connection.exec_driver_sql(f"SELECT {', '.join([one] * len(some))}", some).one()
    return found


def affordable(
    words: Sequence[QueryWord], budget: int, among: int | None = None
) -> tuple[list[QueryWord], list[QueryWord]]:
    """The words that can be scored within the budget, rarest first, and those that cannot.

    The rarest word is always taken, however common it is; of equally common ones the first in the query.
    among: so many passages may be found at all, None = any
    """
    used: list[QueryWord] = []
    common: list[QueryWord] = []
    spent = 0
    for word in sorted(words, key=lambda word: word.passages):
        pairs = word.passages if among is None else min(word.passages, among)
        if used and spent + pairs > budget:
            common.append(word)
        else:
            used.append(word)
            spent += pairs
    return used, common
