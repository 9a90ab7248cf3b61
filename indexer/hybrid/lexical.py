"""Passages by the words that they share with a query, best first.

The score is BM25 (Robertson & Zaragoza 2009, https://doi.org/10.1561/1500000019) with k1 = 1.2, b = 0.75:
a sum over the query's words of how rare the word is times how much of it the passage has. SQLite's FTS5
computes it; for PostgreSQL the same sum is put together of ts_rank, which tells how often a word stands in
a passage.
"""

from dataclasses import dataclass
from math import log

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.hybrid import postgres_words, sqlite_words
from nearsay.indexer.hybrid.lexical_rows import table_name
from nearsay.indexer.hybrid.query_words import BUDGET, QueryWord, affordable

__all__ = ["LexicalCandidates", "lexical_candidates"]


@dataclass(frozen=True, slots=True)
class LexicalCandidates:
    """Passages that have words of the query, by falling score, ties by rising number."""

    ids: NDArray[np.int64]  # (n,)
    scores: NDArray[np.float64]  # (n,), above 0, higher is better
    full_score: float  # of an imagined passage of average length with each word of the query once
    used: tuple[str, ...]  # the query's words that were looked for
    common: tuple[str, ...]  # those left out because they stand in too many passages
    complete: bool  # False: every word is so common that only the first passages with one were ranked


def lexical_candidates(
    connection: sa.Connection,
    collection_id: int,
    query: str,
    count: int | None = None,
    allowed: NDArray[np.int64] | None = None,
    budget: int = BUDGET,
) -> LexicalCandidates:
    """The `count` passages whose words answer the query best; fewer if fewer have any of its words.

    query:   any text: its words are looked for, nothing in it is syntax; one without words finds nothing
    count:   None for all that the budget lets be scored
    allowed: rising passage numbers that may be found, None = all
    budget:  how many (word, passage) pairs are scored at most. The query's rarest words are taken until it is
             spent: in a collection of no more passages than the budget has room for, that is all of them
    """
    table = table_name(collection_id)
    dialect = sqlite_words if connection.dialect.name == "sqlite" else postgres_words
    words = dialect.words_of(query)
    passages, counts = dialect.passage_counts(connection, table, words, budget + 1)
    found = [QueryWord(word, many, _rarity(many, passages)) for word, many in zip(words, counts, strict=True)]
    used, common = affordable([word for word in found if word.passages], budget)
    # A word that no passage has makes a full answer impossible: it counts as the rarest.
    full_score = sum(word.rarity for word in found if word not in common)
    names = tuple(word.text for word in used), tuple(word.text for word in common)
    if not used:
        nothing = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
        return LexicalCandidates(*nothing, full_score, *names, complete=True)
    ids, scores = dialect.scored(connection, table, used, budget)
    complete = used[0].passages <= budget
    if allowed is not None:
        kept = np.isin(ids, allowed)
        ids, scores = ids[kept], scores[kept]
    order = np.lexsort((ids, -scores))[:count]
    return LexicalCandidates(ids[order], scores[order], full_score, *names, complete=complete)


def _rarity(passages_with_it: int, passages: int) -> float:
    """The inverse document frequency, as FTS5 has it: never below a millionth."""
    return max(log((passages - passages_with_it + 0.5) / (passages_with_it + 0.5)), 1e-6) if passages else 0.0
