"""The lexical tables of PostgreSQL, read: https://www.postgresql.org/docs/current/textsearch.html."""

from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue.lexical_rows import POSTGRES_CONFIGURATION, plain_words
from nearsay.indexer.query.query_words import MOST_WORDS, ROWS, QueryWord, counts

__all__ = ["numbers_with", "passage_counts", "scored", "words_of"]

_MEASURED = 1_000  # passages that the average length is taken from: the first
_MOST_TIMES = 30  # a word is counted up to so often in a passage
# ts_rank of a single word that stands n times is (1 + 1/4 + … + 1/n²) / (π²/6), and 0 where it does not:
# halfway between two of these lies the border between n and n + 1.
_SUMS: Final = np.cumsum([0.0, *(1.0 / np.arange(1, _MOST_TIMES + 1) ** 2)]) / 1.64493406685
_BORDERS: Final = ", ".join(f"{border:.6f}" for border in (_SUMS[:-1] + _SUMS[1:]) / 2)
_QUERY = f"plainto_tsquery('{POSTGRES_CONFIGURATION}', %s)"


def words_of(query: str) -> list[str]:
    """The query's words, each once, as those of the passages were split; PostgreSQL stems them."""
    return list(dict.fromkeys(plain_words(query).split()))[:MOST_WORDS]


def passage_counts(
    connection: sa.Connection, table: str, words: Sequence[str], most: int
) -> tuple[int, list[int]]:
    """About how many passages there are, and how many of them have each word, counted up to `most`."""
    highest = f"SELECT coalesce(max(passage), 0) FROM {table}"  # noqa: S608 - a name of ours
    passages = connection.exec_driver_sql(highest).scalar_one()
    one = f"(SELECT count(*) FROM (SELECT 1 FROM {table} WHERE words @@ {_QUERY} LIMIT {most}) AS hits)"  # noqa: S608
    return passages, counts(connection, one, words)


def numbers_with(connection: sa.Connection, table: str, words: Sequence[QueryWord]) -> NDArray[np.int64]:
    """Every passage with any of the words, rising, unscored."""
    any_of_them = " || ".join([_QUERY] * len(words))
    statement = f"SELECT passage FROM {table} WHERE words @@ ({any_of_them}) ORDER BY passage"  # noqa: S608
    rows = connection.exec_driver_sql(statement, tuple(word.text for word in words)).yield_per(ROWS)
    return np.fromiter(rows.scalars(), dtype=np.int64)


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

    allowed: the passages that may come, None = all
    having:  words of which they have one, and the passages that need not; None = any
    """
    wanted = (" && " if every_word else " || ").join([_QUERY] * len(words))
    parameters: list[object] = [word.text for word in words]
    among = ""
    if allowed is not None:
        among = "AND passage = ANY(%s::bigint[])"
        parameters.append(allowed.tolist())
    if having is not None:
        rarest = " || ".join([_QUERY] * len(having[0]))
        among += f"AND (words @@ ({rarest}) OR passage = ANY(%s::bigint[]))"
        parameters += [*(word.text for word in having[0]), having[1].tolist()]
    # Each word's BM25 from how often it stands in the passage: 0 times gives 0.
    times = f"width_bucket(ts_rank('{{1,1,1,1}}', words, {_QUERY})::float8, ARRAY[{_BORDERS}]::float8[])"
    length = "1.2 * (0.25 + 0.75 * tokens / average)"
    part = f"(SELECT %s::float8 * 2.2 * n / (n + {length}) FROM (SELECT {times} AS n) AS counted)"  # noqa: S608
    statement = f"""
        WITH measured AS (
            SELECT greatest(avg(tokens), 1)::float8 AS average
            FROM (SELECT tokens FROM {table} ORDER BY passage LIMIT {_MEASURED}) AS first
        ), found AS (
            SELECT passage, tokens, words FROM {table} WHERE words @@ ({wanted}) {among}
            ORDER BY passage LIMIT {most}
        )
        SELECT passage, {" + ".join([part] * len(words))} FROM found, measured
    """  # noqa: S608 - names of ours; every word is a parameter
    for word in words:
        parameters += [word.rarity, word.text]
    rows = connection.exec_driver_sql(statement, tuple(parameters)).yield_per(ROWS)
    pairs = np.fromiter(chain.from_iterable(rows), dtype=np.float64).reshape(-1, 2)
    return pairs[:, 0].astype(np.int64), pairs[:, 1]
