"""What is judged: a hit, or a passage of a document that no search found."""

import math
from dataclasses import dataclass
from typing import Self

from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError, check_string
from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.query.hit import Hit, Lineage

__all__ = ["Judged", "plain_query"]

_MOST = 2**31 - 1  # what the catalogue counts to


@dataclass(frozen=True, slots=True)
class Judged:
    """A passage as whoever judges it names it."""

    document: str  # its id
    passage: int | None  # 0-based place in the document; None: its only one
    rank: int | None = None  # from 1
    score: float | None = None
    mode: SearchMode | None = None
    seen: tuple[str, str] | None = None  # title and text that a hit showed
    lineage: Lineage | None = None  # of that hit

    def __post_init__(self) -> None:
        if self.passage is not None and not 0 <= self.passage <= _MOST:
            raise BadInputError(f"the passage is {self.passage}. Passages of a document are numbered from 0")
        if self.rank is not None and not 1 <= self.rank <= _MOST:
            raise BadInputError(f"the rank is {self.rank}. Ranks are numbered from 1")
        if self.score is not None and not math.isfinite(self.score):
            raise BadInputError(f"the score is {self.score}. Give a finite number, or leave it out")

    @classmethod
    def of(
        cls,
        found: Hit | str,
        passage: int | None,
        rank: int | None,
        score: float | None,
        mode: SearchMode | str | None,
    ) -> Self:
        """A hit with all that it knows of itself, or a document's id with what is said beside it."""
        try:
            looked_for = None if mode is None else SearchMode(mode)
        except ValueError:
            raise BadInputError(f"'{mode}' is no mode. Take one of: {', '.join(SearchMode)}") from None
        if isinstance(found, str):
            return cls(_stored(found, "the document's id"), passage, rank, score, looked_for)
        if passage not in (None, found.passage):
            raise BadInputError(
                f"the hit is passage {found.passage} of '{found.id}', not {passage}. Leave the passage out"
            )
        return cls(
            found.id,
            found.passage,
            found.rank if rank is None else rank,
            float(found.score if score is None else score),
            looked_for or _mode_of(found),
            (found.title, found.text),
            found.lineage,
        )


def plain_query(query: str) -> str:
    """The query without white space around it, as it is kept; BadInputError if nothing is left."""
    plain = _stored(query, "the query").strip()
    if not plain:
        raise BadInputError("the query is empty. Say what was searched for")
    return plain


def _stored(text: str, what: str) -> str:
    try:
        check_string(text, what)
    except UnusableRowError as error:
        raise BadInputError(f"{error}. Leave it out") from None
    return text


def _mode_of(hit: Hit) -> SearchMode | None:
    """How a hit was looked for, which its scores tell."""
    if hit.scores.fused is not None:
        return SearchMode.HYBRID
    if hit.scores.dense is not None:
        return SearchMode.DENSE
    return None if hit.scores.lexical is None else SearchMode.LEXICAL
