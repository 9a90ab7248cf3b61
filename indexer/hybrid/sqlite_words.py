"""The lexical tables of SQLite, read: FTS5, https://sqlite.org/fts5.html."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.hybrid.query_words import MOST_WORDS, QueryWord

__all__ = ["passage_counts", "scored", "words_of"]

_WORD = re.compile(r"[^\W_]+")
_AT_ONCE = 64  # words counted in one statement


def words_of(query: str) -> list[str]:
    """The query's words, each once, in lower case; FTS5 strips their diacritics and stems them."""
    found = _WORD.findall(unicodedata.normalize("NFC", query).lower())
    return list(dict.fromkeys(found))[:MOST_WORDS]


def passage_counts(
    connection: sa.Connection, table: str, words: Sequence[str], most: int
) -> tuple[int, list[int]]:
    """How many passages there are, and how many of them have each word, counted up to `most`."""
    passages = connection.exec_driver_sql(f"SELECT count(*) FROM {table}_docsize").scalar_one()  # noqa: S608
    counts: list[int] = []
    one = f"(SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT {most}))"  # noqa: S608
    for begin in range(0, len(words), _AT_ONCE):
        some = tuple(f'"{word}"' for word in words[begin : begin + _AT_ONCE])
        row = connection.exec_driver_sql(f"SELECT {', '.join([one] * len(some))}", some).one()
        counts += row
    return passages, counts


def scored(
    connection: sa.Connection, table: str, words: Sequence[QueryWord], most: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The passages with any of the words and their BM25, by rising number, the first `most`.

    Each word is quoted, so nothing of it is read as FTS5's syntax.
    """
    match = " OR ".join(f'"{word.text}"' for word in words)
    statement = f"SELECT rowid, -bm25({table}) FROM {table} WHERE {table} MATCH ? LIMIT {most}"  # noqa: S608
    rows = connection.exec_driver_sql(statement, (match,)).all()
    # Not np.array(rows): it asks each row what it is, which takes ten times as long as finding them.
    pairs = np.fromiter(chain.from_iterable(rows), dtype=np.float64, count=2 * len(rows)).reshape(-1, 2)
    return pairs[:, 0].astype(np.int64), pairs[:, 1]
