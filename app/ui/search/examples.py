"""Queries to begin with, made from what a collection holds."""

import re
from collections.abc import Iterable

__all__ = ["example_queries"]

_SHORTEST, _LONGEST = 12, 90  # characters of a query that a person would type
_SENTENCE = re.compile(r"(?<=[.!?])\s")


def example_queries(passages: Iterable[tuple[str, str]], count: int = 3) -> list[str]:
    """The first titles, or first sentences, that read like a query; different ones.

    passages: title and text of each, the most telling first
    """
    found: dict[str, str] = {}
    for title, text in passages:
        query = _query(title) or _query(_SENTENCE.split(text.strip(), maxsplit=1)[0])
        if query:
            found.setdefault(query.casefold(), query)
        if len(found) == count:
            break
    return list(found.values())


def _query(text: str) -> str:
    """The text on one line without its full stop; "" if it is too short or too long."""
    plain = " ".join(text.split()).rstrip(".")
    return plain if _SHORTEST <= len(plain) <= _LONGEST else ""
