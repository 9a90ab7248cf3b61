"""The query's words that stand in a passage, as lexical search sees them."""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from nearsay.data.function_words import grammatical_words
from nearsay.indexer.catalogue.lexical_rows import TOKENIZER
from nearsay.indexer.query.hit import MatchedWord
from nearsay.indexer.query.query_words import MOST_WORDS

__all__ = ["MatchedTerms", "matched_terms"]

_WORD = re.compile(r"(?:[^\W_][\u0300-\u036f]*)+")
_CONTRACTED = re.compile(r"[^\W_]['’]\Z")
_OPEN, _CLOSE = "\x02", "\x03"
_UNMARKED = str.maketrans({"\0": " ", _OPEN: " ", _CLOSE: " "})


@dataclass(frozen=True, slots=True)
class MatchedTerms:
    """What of a query stands in one passage."""

    terms: tuple[str, ...]  # words of the query, as it has them, in its order
    words: tuple[MatchedWord, ...]  # words of the passage, the title's first


def matched_terms(query: str, passages: Sequence[tuple[str, str]]) -> list[MatchedTerms]:
    """Find the query's words in passages, each given as its title and its text.

    Function words ("that", "a") are no matches, unless the query has no other words.
    SQLite's FTS5 does it, with an index in memory that is as the catalogue's own; PostgreSQL's stemmer, a
    later edition of the same one, can differ in rare endings.
    """
    words = _telling(query, passages)[:MOST_WORDS]
    if not words or not passages:
        return [MatchedTerms((), ()) for _ in passages]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE passage USING fts5(title, body, tokenize='{TOKENIZER}')")
        connection.executemany(
            "INSERT INTO passage(rowid, title, body) VALUES (?, ?, ?)",
            [(i, *(part.translate(_UNMARKED) for part in passage)) for i, passage in enumerate(passages)],
        )
        terms: list[list[str]] = [[] for _ in passages]
        for word in words:
            for (i,) in connection.execute("SELECT rowid FROM passage WHERE passage MATCH ?", [f'"{word}"']):
                terms[i].append(word)
        found: dict[int, tuple[MatchedWord, ...]] = {}
        marked = connection.execute(
            "SELECT rowid, highlight(passage, 0, ?, ?), highlight(passage, 1, ?, ?) FROM passage "
            "WHERE passage MATCH ?",
            [_OPEN, _CLOSE, _OPEN, _CLOSE, " OR ".join(f'"{word}"' for word in words)],
        )
        for i, title, body in marked:
            found[i] = (*_marked(title, in_title=True), *_marked(body, in_title=False))
    return [MatchedTerms(tuple(some), found.get(i, ())) for i, some in enumerate(terms)]


def _telling(query: str, passages: Sequence[tuple[str, str]]) -> list[str]:
    """The query's words, each once, without function words as long as others are left.

    What follows an apostrophe ("don't", "it's") belongs to the word before it.
    """
    found = list(_WORD.finditer(query))
    texts = " ".join((query, *(part for passage in passages for part in passage)))
    empty = grammatical_words({word.casefold() for word in _WORD.findall(texts)})
    others = [
        word
        for word in found
        if word[0].casefold() not in empty and not _CONTRACTED.search(query, 0, word.start())
    ]
    return list({word[0].casefold(): word[0] for word in reversed(others or found)}.values())[::-1]


def _marked(text: str, *, in_title: bool) -> Iterator[MatchedWord]:
    """The words between marks, with their places in the text without marks."""
    at = 0
    for i, piece in enumerate(re.split(f"[{_OPEN}{_CLOSE}]", text)):
        if i % 2:
            yield MatchedWord(piece, at, at + len(piece), in_title)
        at += len(piece)
