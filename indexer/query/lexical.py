"""Lexical search: the passages that share words with a query, best first.

The score is BM25 (Robertson & Zaragoza 2009, https://doi.org/10.1561/1500000019) with k1 = 1.2, b = 0.75: a
sum over the query's words of inverse document frequency times saturated term frequency. SQLite's FTS5
computes it; for PostgreSQL it is composed from ts_rank, which reveals the term frequency.
"""

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import log
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.exc import DBAPIError

from nearsay.indexer.catalogue.bulk import numbers_in
from nearsay.indexer.catalogue.lexical_rows import (
    POSTGRES_CONFIGURATION,
    is_damaged,
    is_gone,
    plain_words,
    table_name,
)
from nearsay.indexer.vectors.errors import UnreadableWordsError

# Scoring takes 1.5 to 2 microseconds a (word, passage) pair in SQLite: about 50 milliseconds at the most.
BUDGET: Final = 30_000
# Rows of a result that are held at a time. Thousands at once set Python's collector going in every search,
# and in every sixtieth it went through all objects of the process: 40 to 120 ms.
ROWS: Final = 100
_AT_ONCE = 64  # words counted in one statement
MOST_WORDS: Final = 256  # of a query: the first; more say nothing about what is looked for


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of the query and its weight in the collection."""

    text: str  # as in the query, in lower case; the database stems it
    passages: int  # number of passages that contain it, counted up to a limit
    rarity: float  # inverse document frequency


def affordable(
    words: Sequence[QueryWord], budget: int, among: int | None = None
) -> tuple[list[QueryWord], list[QueryWord]]:
    """The words that can be scored within the budget, rarest first, and the others.

    The rarest word is always included; of equally common ones, the first in the query.
    among: number of passages that are allowed, None = any
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


_Scored = tuple[NDArray[np.int64], NDArray[np.float64]]
_Having = tuple[Sequence[QueryWord], NDArray[np.int64]]


def _counts(connection: sa.Connection, one: str, words: Sequence[str]) -> list[int]:
    """Run a scalar query with one parameter for each of the words, many per statement."""
    found: list[int] = []
    for begin in range(0, len(words), _AT_ONCE):
        some = tuple(words[begin : begin + _AT_ONCE])
        found += connection.exec_driver_sql(f"SELECT {', '.join([one] * len(some))}", some).one()
    return found


_SCALE: Final = 1e12  # scores come as whole numbers of this part: written in half the time, read in a third
_WORD = re.compile(r"[^\W_]+")
# The accents that FTS5 drops where they follow a letter, as bits from U+0300 (its `Isdiacritic`); it splits a
# word at every other one, and so does _WORD.
_DROPPED_BITS: Final = 0x08029FDF | 0x000361F8 << 32
_DROPPED: Final = dict.fromkeys(0x300 + bit for bit in range(50) if _DROPPED_BITS >> bit & 1)


@dataclass(frozen=True, slots=True)
class _Sqlite:
    """Reads a lexical table of SQLite: FTS5, https://sqlite.org/fts5.html."""

    connection: sa.Connection
    name: str

    @staticmethod
    def words_of(query: str) -> list[str]:
        """The query's distinct words in lower case; FTS5 removes their diacritics and stems them.

        Lower case may leave a combining accent, as in "İstanbul", which must not split the word.
        """
        found = _WORD.findall(unicodedata.normalize("NFC", query).lower().translate(_DROPPED))
        return list(dict.fromkeys(found))[:MOST_WORDS]

    def passage_counts(self, words: Sequence[str], most: int) -> tuple[int, list[int]]:
        """Number of all passages, and of those that contain each word, counted up to `most`."""
        passages = self.connection.exec_driver_sql(f"SELECT count(*) FROM {self.name}_docsize").scalar_one()  # noqa: S608
        one = f"(SELECT count(*) FROM (SELECT 1 FROM {self.name} WHERE {self.name} MATCH ? LIMIT {most}))"  # noqa: S608
        return passages, _counts(self.connection, one, [*map(quoted, words)])

    def numbers_with(self, words: Sequence[QueryWord]) -> NDArray[np.int64]:
        """All passages that contain any of the words, ascending, without scores."""
        statement = f"SELECT group_concat(rowid) FROM {self.name} WHERE {self.name} MATCH ?"  # noqa: S608 - a name of ours
        return numbers_in(self.connection.exec_driver_sql(statement, (_any_of(words),)).scalar_one())

    def scored(
        self,
        words: Sequence[QueryWord],
        most: int,
        allowed: NDArray[np.int64] | None = None,
        *,
        every_word: bool = False,
        having: _Having | None = None,
    ) -> _Scored:
        """The first `most` passages with any of the words (None = all), ascending, and their BM25.

        allowed: passages to consider, None = all
        having:  words of which they need one, and passages exempt from this; None = no condition
        """
        name = self.name
        # Each word is quoted, so that nothing of it is read as syntax.
        match = (" AND " if every_word else " OR ").join(quoted(word.text) for word in words)
        # With the sign SQLite does not look each number up: FTS5 would count the words again every time.
        among, parameters = "", [match]
        if allowed is not None:
            among = "AND +rowid IN (SELECT value FROM json_each(?))"
            parameters.append(json.dumps(allowed.tolist()))
        if having is not None:
            one = f"SELECT rowid FROM {name} WHERE {name} MATCH ? UNION ALL SELECT value FROM json_each(?)"  # noqa: S608
            among += f" AND +rowid IN ({one})"
            parameters += [_any_of(having[0]), json.dumps(having[1].tolist())]
        score = f"CAST(round(bm25({name}) * {-_SCALE}) AS INTEGER)"
        rows = (
            f"SELECT rowid AS number, {score} AS score FROM {name} WHERE {name} MATCH ? {among} LIMIT {most}"  # noqa: S608
        )
        # In one row: each takes Python's lock, for which other threads wait, the encoder of the query too.
        statement = f"SELECT group_concat(number), group_concat(score) FROM ({rows})"  # noqa: S608
        numbers, scores = self.connection.exec_driver_sql(statement, tuple(parameters)).one()
        return numbers_in(numbers), numbers_in(scores) / _SCALE


def _any_of(words: Sequence[QueryWord]) -> str:
    return " OR ".join(quoted(word.text) for word in words)


def quoted(word: str) -> str:
    """A word, and a variant with letters and accents apart: FTS5 joins only those of Latin script."""
    joined, apart = unicodedata.normalize("NFC", word), unicodedata.normalize("NFD", word)
    latin = apart.translate(_DROPPED).isascii()
    return f'"{word}"' if latin or apart == joined else f'("{joined}" OR "{apart}")'


_MEASURED = 1_000  # passages that the average length is taken from: the first
_MOST_TIMES = 30  # a word is counted up to so often in a passage
# ts_rank of a single word that stands n times is (1 + 1/4 + … + 1/n²) / (π²/6), and 0 where it does not:
# halfway between two of these lies the border between n and n + 1.
_SUMS: Final = np.cumsum([0.0, *(1.0 / np.arange(1, _MOST_TIMES + 1) ** 2)]) / 1.64493406685
_BORDERS: Final = ", ".join(f"{border:.6f}" for border in (_SUMS[:-1] + _SUMS[1:]) / 2)
_QUERY = f"plainto_tsquery('{POSTGRES_CONFIGURATION}', %s)"


@dataclass(frozen=True, slots=True)
class _Postgres:
    """Reads a lexical table of PostgreSQL: https://www.postgresql.org/docs/current/textsearch.html."""

    connection: sa.Connection
    name: str

    @staticmethod
    def words_of(query: str) -> list[str]:
        """The query's distinct words, split like those of the passages; PostgreSQL stems them."""
        return list(dict.fromkeys(plain_words(query).split()))[:MOST_WORDS]

    def passage_counts(self, words: Sequence[str], most: int) -> tuple[int, list[int]]:
        highest = f"SELECT coalesce(max(passage), 0) FROM {self.name}"  # noqa: S608 - a name of ours
        passages = self.connection.exec_driver_sql(highest).scalar_one()
        one = (
            f"(SELECT count(*) FROM (SELECT 1 FROM {self.name} WHERE words @@ {_QUERY} LIMIT {most}) AS hits)"  # noqa: S608
        )
        return passages, _counts(self.connection, one, words)

    def numbers_with(self, words: Sequence[QueryWord]) -> NDArray[np.int64]:
        any_of_them = " || ".join([_QUERY] * len(words))
        statement = f"SELECT passage FROM {self.name} WHERE words @@ ({any_of_them}) ORDER BY passage"  # noqa: S608
        rows = self.connection.exec_driver_sql(statement, tuple(word.text for word in words)).yield_per(ROWS)
        return np.fromiter(rows.scalars(), dtype=np.int64)

    def scored(
        self,
        words: Sequence[QueryWord],
        most: int,
        allowed: NDArray[np.int64] | None = None,
        *,
        every_word: bool = False,
        having: _Having | None = None,
    ) -> _Scored:
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
                FROM (SELECT tokens FROM {self.name} ORDER BY passage LIMIT {_MEASURED}) AS first
            ), found AS (
                SELECT passage, tokens, words FROM {self.name} WHERE words @@ ({wanted}) {among}
                ORDER BY passage LIMIT {most}
            )
            SELECT passage, {" + ".join([part] * len(words))} FROM found, measured
        """  # noqa: S608 - names of ours; every word is a parameter
        for word in words:
            parameters += [word.rarity, word.text]
        rows = self.connection.exec_driver_sql(statement, tuple(parameters)).yield_per(ROWS)
        pairs = np.fromiter(chain.from_iterable(rows), dtype=np.float64).reshape(-1, 2)
        return pairs[:, 0].astype(np.int64), pairs[:, 1]


_LISTED: Final = 20_000  # passages: so few that may be found are named in the statement
_LEAST_RARITY: Final = 1e-6  # of a word that half of the passages have, or more
_FULL: Final = 5  # words that make a full match: no passage has all of a long query's
_LEAST_FULL: Final = 0.1  # of the rarest word's worth: what is less is no evidence, as in a query of "the"
_FEW: Final = 1_000  # passages: among so few a word that half of them have may be all that a query has
# (word, passage) pairs of a query's rarest words that are enough: the ten best are 99.6 to 100 % those by all
# words, in six tenths of the time among ten thousand passages (tests/benchmarks/narrowing.py).
_ENOUGH: Final = 1_000


@dataclass(frozen=True, slots=True)
class LexicalCandidates:
    """Passages with words of the query, by descending score, then ascending number."""

    ids: NDArray[np.int64]  # (n,)
    scores: NDArray[np.float64]  # (n,), above 0, higher is better
    full_score: float  # BM25 of a made-up passage of average length with the rarest words once
    used: tuple[str, ...]  # words of the query that were searched for
    common: tuple[str, ...]  # words left out because too many passages contain them
    complete: bool  # False: all words are so common that only some of their passages were ranked
    narrowed: bool = False  # True: passages with only the commoner words were left out


def words_in(connection: sa.Connection, collection_id: int) -> _Sqlite | _Postgres:
    """Open a collection's lexical table."""
    return (_Sqlite if connection.dialect.name == "sqlite" else _Postgres)(
        connection, table_name(collection_id)
    )


def lexical_candidates(
    connection: sa.Connection,
    collection_id: int,
    query: str,
    allowed: NDArray[np.int64] | None = None,
    budget: int = BUDGET,
    *,
    besides: NDArray[np.int64] | None = None,
) -> LexicalCandidates:
    """Find the passages whose words match the query best, as far as the budget allows.

    query:   any text, without syntax; without words, nothing is found
    allowed: ascending passage numbers that may be found, None = all; a few of them cost the budget no more
    budget:  maximum number of (word, passage) pairs to score. The query's rarest words are used until it is
             spent; in a collection with fewer passages than the budget, these are all words
    besides: leave out passages with only the query's commoner words, except these; None = leave out none

    With more than 1,000 passages, words that half of them contain are used only if the query has no others,
    because they score next to nothing and take most of the time.

    If even the rarest word is in more passages than the budget allows, the result is not `complete`: it ranks
    the passages with the two rarest words (the query's first two, if all reach the counting limit), only the
    oldest if there are too many, then the oldest with the rarest word until the budget is spent. Raises
    UnreadableWordsError if the collection's table is missing or damaged.
    """
    table = words_in(connection, collection_id)
    words = table.words_of(query)
    try:
        passages, counts = table.passage_counts(words, budget + 1)
        if max(counts, default=0) > max(passages, 0):
            raise _unreadable(table.name)
        found = [
            QueryWord(word, many, _rarity(many, passages)) for word, many in zip(words, counts, strict=True)
        ]
        return _ranked(table, found, passages, allowed, budget, besides)
    except DBAPIError as error:
        if is_gone(error) or is_damaged(error):
            raise _unreadable(table.name) from error
        raise


def unreadable_words(collection: str) -> UnreadableWordsError:
    """The error for a collection whose words cannot be read."""
    return UnreadableWordsError(
        f"the words of collection '{collection}' are missing or damaged. "
        f"Recreate them: nearsay index rebuild {collection}"
    )


def _unreadable(table: str) -> UnreadableWordsError:
    return UnreadableWordsError(
        f"{table} is missing or damaged. Recreate them: nearsay index rebuild COLLECTION"
    )


def _ranked(
    table: _Sqlite | _Postgres,
    words: Sequence[QueryWord],
    passages: int,
    allowed: NDArray[np.int64] | None,
    budget: int,
    besides: NDArray[np.int64] | None,
) -> LexicalCandidates:
    known = [word for word in words if word.passages]
    if passages > _FEW:
        known = [word for word in known if word.rarity > _LEAST_RARITY] or known
    few = allowed if allowed is not None and allowed.size <= _LISTED else None
    used, common = affordable(known, budget, None if few is None else few.size)
    complete = not used or min(used[0].passages, budget + 1 if few is None else few.size) <= budget
    ids, scores = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
    having: _Having | None = None
    if besides is not None and allowed is None and complete:
        rarest = _rarest(used)
        having = (rarest, besides) if len(rarest) < len(used) else None
    if used and complete:
        ids, scores = table.scored(used, budget, few, having=having)
    elif used and (allowed is None or few is not None):
        known = sorted(known, key=lambda word: word.passages)
        used, common = known[:2], known[2:]
        ids, scores = _oldest(table, used, budget, few)
    elif used and allowed is not None:
        there = table.numbers_with(used)
        there = there[np.isin(there, allowed)]
        complete = there.size <= budget
        ids, scores = table.scored(used, budget, there[:budget])
    if allowed is not None and few is None:
        kept = np.isin(ids, allowed)
        ids, scores = ids[kept], scores[kept]
    # A word that no passage has makes a full match impossible: it counts as the rarest.
    full_score = sum(sorted(word.rarity for word in words if word not in common)[-_FULL:])
    full_score = max(full_score, _LEAST_FULL * _rarity(0, passages))
    order = np.lexsort((ids, -scores))
    names = tuple(word.text for word in used), tuple(word.text for word in common)
    return LexicalCandidates(ids[order], scores[order], full_score, *names, complete, having is not None)


def _rarest(words: Sequence[QueryWord]) -> Sequence[QueryWord]:
    """The first words, which come in ascending order of their passages, that together have enough of them.

    Words tied with the last one are included, so that the order of words in the query has no influence.
    """
    spent = 0
    for word in words:
        spent += word.passages
        if spent >= _ENOUGH:
            return [each for each in words if each.passages <= word.passages]
    return words


def _oldest(
    table: _Sqlite | _Postgres,
    words: Sequence[QueryWord],
    budget: int,
    allowed: NDArray[np.int64] | None,
) -> _Scored:
    """Passages with both words (or the only one); for the rest of the budget, the oldest with the first."""
    ids, scores = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
    if len(words) > 1:
        most = max(budget // len(words), 1)
        ids, scores = table.scored(words, most, allowed, every_word=True)
        if ids.size == most:
            return ids, scores
    others, theirs = table.scored(words[:1], budget - ids.size * len(words), allowed)
    new = ~np.isin(others, ids)
    return np.concatenate([ids, others[new]]), np.concatenate([scores, theirs[new]])


def _rarity(passages_with_it: int, passages: int) -> float:
    """The inverse document frequency as FTS5 computes it, at least a millionth."""
    if not passages:
        return 0.0
    return max(log((passages - passages_with_it + 0.5) / (passages_with_it + 0.5)), _LEAST_RARITY)
