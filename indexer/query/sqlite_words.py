"""The lexical tables of SQLite, read: FTS5, https://sqlite.org/fts5.html."""

import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.bulk import numbers_in
from nearsay.indexer.query.query_words import MOST_WORDS, QueryWord, counts

__all__ = ["numbers_with", "passage_counts", "scored", "words_of"]

_SCALE: Final = 1e12  # scores come as whole numbers of this part: written in half the time, read in a third
_WORD = re.compile(r"[^\W_]+")
# The accents that FTS5 drops where they follow a letter, as bits from U+0300 (its `Isdiacritic`); it splits a
# word at every other one, and so does _WORD.
_DROPPED_BITS: Final = 0x08029FDF | 0x000361F8 << 32
_DROPPED: Final = dict.fromkeys(0x300 + bit for bit in range(50) if _DROPPED_BITS >> bit & 1)


def words_of(query: str) -> list[str]:
    """The query's words, each once, in lower case; FTS5 strips their diacritics and stems them.

    Lower case may leave an accent behind a letter, as in "İstanbul": it must not split the word.
    """
    found = _WORD.findall(unicodedata.normalize("NFC", query).lower().translate(_DROPPED))
    return list(dict.fromkeys(found))[:MOST_WORDS]


def passage_counts(
    connection: sa.Connection, table: str, words: Sequence[str], most: int
) -> tuple[int, list[int]]:
    """How many passages there are, and how many of them have each word, counted up to `most`."""
    passages = connection.exec_driver_sql(f"SELECT count(*) FROM {table}_docsize").scalar_one()  # noqa: S608
    one = f"(SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT {most}))"  # noqa: S608
    return passages, counts(connection, one, [f'"{word}"' for word in words])


def numbers_with(connection: sa.Connection, table: str, words: Sequence[QueryWord]) -> NDArray[np.int64]:
    """Every passage with any of the words, rising, unscored."""
    statement = f"SELECT group_concat(rowid) FROM {table} WHERE {table} MATCH ?"  # noqa: S608 - a name of ours
    return numbers_in(connection.exec_driver_sql(statement, (_any_of(words),)).scalar_one())


def scored(
    connection: sa.Connection,
    table: str,
    words: Sequence[QueryWord],
    most: int,
    allowed: NDArray[np.int64] | None = None,
    *,
    every_word: bool = False,
    having: tuple[Sequence[QueryWord], NDArray[np.int64]] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The passages with any of the words, or every one, and their BM25, by rising number, the first `most`.

    allowed: the passages that may come, None = all. Each word is quoted, so nothing of it is read as syntax
    having:  words of which they have one, and the passages that need not; None = any
    """
    match = " AND ".join(map(_quoted, words)) if every_word else _any_of(words)
    # With the sign SQLite does not look each number up: FTS5 would count the words anew every time.
    among, parameters = "", [match]
    if allowed is not None:
        among = "AND +rowid IN (SELECT value FROM json_each(?))"
        parameters.append(json.dumps(allowed.tolist()))
    if having is not None:
        one = f"SELECT rowid FROM {table} WHERE {table} MATCH ? UNION ALL SELECT value FROM json_each(?)"  # noqa: S608
        among += f" AND +rowid IN ({one})"
        parameters += [_any_of(having[0]), json.dumps(having[1].tolist())]
    score = f"CAST(round(bm25({table}) * {-_SCALE}) AS INTEGER)"
    rows = f"SELECT rowid AS number, {score} AS score FROM {table} WHERE {table} MATCH ? {among} LIMIT {most}"  # noqa: S608
    # In one row: each row takes Python's lock, for which other threads wait, the encoder of the query too.
    statement = f"SELECT group_concat(number), group_concat(score) FROM ({rows})"  # noqa: S608
    numbers, scores = connection.exec_driver_sql(statement, tuple(parameters)).one()
    return numbers_in(numbers), numbers_in(scores) / _SCALE


def _any_of(words: Sequence[QueryWord]) -> str:
    return " OR ".join(map(_quoted, words))


def _quoted(word: QueryWord) -> str:
    return f'"{word.text}"'
