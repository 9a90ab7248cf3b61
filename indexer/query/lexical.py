"""Passages by the words that they share with a query, best first.

The score is BM25 (Robertson & Zaragoza 2009, https://doi.org/10.1561/1500000019) with k1 = 1.2, b = 0.75:
a sum over the query's words of how rare the word is times how much of it the passage has. SQLite's FTS5
computes it; for PostgreSQL the same sum is put together of ts_rank, which tells how often a word stands in
a passage.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.exc import DBAPIError

from nearsay.indexer.catalogue.lexical_rows import table_name
from nearsay.indexer.query import postgres_words, sqlite_words
from nearsay.indexer.query.query_words import BUDGET, QueryWord, affordable, is_damaged, is_gone
from nearsay.indexer.vectors.errors import UnreadableWordsError

__all__ = ["LexicalCandidates", "Narrowing", "lexical_candidates"]

_LISTED: Final = 20_000  # passages: so few that may be found are named in the statement
_LEAST_RARITY: Final = 1e-6  # of a word that half of the passages have, or more
_FULL: Final = 5  # words that make a full match: no passage has all of a long query's
_LEAST_FULL: Final = 0.1  # of the rarest word's worth: what is less is no evidence, as in a query of "the"
_FEW: Final = 1_000  # passages: among so few a word that half of them have may be all that a query has

_Scored = tuple[NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Which passages are scored: those with one of the query's rarest words, of which some are enough.

    With 1,000 pairs the ten best are 99.6 to 100 % those by all words, in six tenths of the time among ten
    thousand passages (tests/benchmarks/narrowing.py).
    """

    enough: int  # (word, passage) pairs that the rarest words together have
    besides: NDArray[np.int64]  # (n,) passages that are scored if they have any word


@dataclass(frozen=True, slots=True)
class LexicalCandidates:
    """Passages that have words of the query, by falling score, ties by rising number."""

    ids: NDArray[np.int64]  # (n,)
    scores: NDArray[np.float64]  # (n,), above 0, higher is better
    full_score: float  # of an imagined passage of average length with each of the query's rarest words once
    used: tuple[str, ...]  # the query's words that were looked for
    common: tuple[str, ...]  # those left out because they stand in too many passages
    complete: bool  # False: every word is so common that only some of the passages with one were ranked
    narrowed: bool = False  # True: passages that have the commoner words alone were left out


def lexical_candidates(
    connection: sa.Connection,
    collection_id: int,
    query: str,
    count: int | None = None,
    allowed: NDArray[np.int64] | None = None,
    budget: int = BUDGET,
    *,
    narrowing: Narrowing | None = None,
) -> LexicalCandidates:
    """The `count` passages whose words answer the query best; fewer if fewer have any of its words.

    query:   any text: its words are looked for, nothing in it is syntax; one without words finds nothing
    count:   None for all that the budget lets be scored
    allowed: rising passage numbers that may be found, None = all; few of them cost the budget no more
    budget:  how many (word, passage) pairs are scored at most. The query's rarest words are taken until it is
             spent: in a collection of no more passages than the budget has room for, that is all of them
    narrowing: leaves passages out that have the query's commoner words alone; not where `allowed` are named

    Among more than 1,000 passages, words that half of them have are looked for only where the query has no
    others: they score next to nothing and take most of the time.

    Where even the rarest word stands in more passages than the budget has room for, the result is not
    `complete`: the passages that have its two rarest words are ranked (of words that are all so common its
    first two), the oldest if they are too many, then the oldest with the rarest while the budget lasts.
    UnreadableWordsError if the collection's table is gone or damaged.
    """
    table = table_name(collection_id)
    dialect = sqlite_words if connection.dialect.name == "sqlite" else postgres_words
    words = dialect.words_of(query)
    try:
        passages, counts = dialect.passage_counts(connection, table, words, budget + 1)
        if max(counts, default=0) > max(passages, 0):
            raise _unreadable(table)
        found = [
            QueryWord(word, many, _rarity(many, passages)) for word, many in zip(words, counts, strict=True)
        ]
        return _ranked(connection, table, found, passages, count, allowed, budget, narrowing=narrowing)
    except DBAPIError as error:
        if is_gone(error) or is_damaged(error):
            raise _unreadable(table) from error
        raise


def _unreadable(table: str) -> UnreadableWordsError:
    return UnreadableWordsError(
        f"{table} is gone or damaged. Enter its words anew: nearsay index rebuild COLLECTION"
    )


def _ranked(
    connection: sa.Connection,
    table: str,
    words: Sequence[QueryWord],
    passages: int,
    count: int | None,
    allowed: NDArray[np.int64] | None,
    budget: int,
    *,
    narrowing: Narrowing | None,
) -> LexicalCandidates:
    dialect = sqlite_words if connection.dialect.name == "sqlite" else postgres_words
    known = [word for word in words if word.passages]
    if passages > _FEW:
        known = [word for word in known if word.rarity > _LEAST_RARITY] or known
    few = allowed if allowed is not None and allowed.size <= _LISTED else None
    used, common = affordable(known, budget, None if few is None else few.size)
    complete = not used or min(used[0].passages, budget + 1 if few is None else few.size) <= budget
    ids, scores = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
    having: tuple[Sequence[QueryWord], NDArray[np.int64]] | None = None
    if narrowing is not None and allowed is None and complete:
        rarest = _rarest(used, narrowing.enough)
        having = (rarest, narrowing.besides) if len(rarest) < len(used) else None
    if used and complete:
        ids, scores = dialect.scored(connection, table, used, budget, few, having=having)
    elif used and (allowed is None or few is not None):
        known = sorted(known, key=lambda word: word.passages)
        used, common = known[:2], known[2:]
        ids, scores = _oldest(connection, table, used, budget, few)
    elif used and allowed is not None:
        there = dialect.numbers_with(connection, table, used)
        there = there[np.isin(there, allowed)]
        complete = there.size <= budget
        ids, scores = dialect.scored(connection, table, used, budget, there[:budget])
    if allowed is not None and few is None:
        kept = np.isin(ids, allowed)
        ids, scores = ids[kept], scores[kept]
    # A word that no passage has makes a full match impossible: it counts as the rarest.
    full_score = sum(sorted(word.rarity for word in words if word not in common)[-_FULL:])
    full_score = max(full_score, _LEAST_FULL * _rarity(0, passages))
    order = np.lexsort((ids, -scores))[:count]
    names = tuple(word.text for word in used), tuple(word.text for word in common)
    narrowed = having is not None
    return LexicalCandidates(
        ids[order], scores[order], full_score, *names, complete=complete, narrowed=narrowed
    )


def _rarest(words: Sequence[QueryWord], enough: int) -> Sequence[QueryWord]:
    """The first of the words, which come by rising number of passages, that together have enough of them.

    What ties with the last of them is taken, too: the order of a query's words decides nothing.
    """
    spent = 0
    for word in words:
        spent += word.passages
        if spent >= enough:
            return [each for each in words if each.passages <= word.passages]
    return words


def _oldest(
    connection: sa.Connection,
    table: str,
    words: Sequence[QueryWord],
    budget: int,
    allowed: NDArray[np.int64] | None,
) -> _Scored:
    """Passages with both words (or the one), and for what is left of the budget the oldest with the first."""
    dialect = sqlite_words if connection.dialect.name == "sqlite" else postgres_words
    ids, scores = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
    if len(words) > 1:
        most = max(budget // len(words), 1)
        ids, scores = dialect.scored(connection, table, words, most, allowed, every_word=True)
        if ids.size == most:
            return ids, scores
    others, theirs = dialect.scored(connection, table, words[:1], budget - ids.size * len(words), allowed)
    new = ~np.isin(others, ids)
    return np.concatenate([ids, others[new]]), np.concatenate([scores, theirs[new]])


def _rarity(passages_with_it: int, passages: int) -> float:
    """The inverse document frequency, as FTS5 has it: never below a millionth."""
    return (
        max(log((passages - passages_with_it + 0.5) / (passages_with_it + 0.5)), _LEAST_RARITY)
        if passages
        else 0.0
    )
