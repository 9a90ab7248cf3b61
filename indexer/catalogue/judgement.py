"""A person's word that a passage does or does not answer a query."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.catalogue.passage import encoded_text

__all__ = ["JudgedQuery", "Judgement", "JudgementCounts", "JudgementState"]


class JudgementState(StrEnum):
    """What became of the passage since it was judged."""

    CURRENT = "current"  # it stands in the collection as it was judged
    CHANGED = "changed"  # its document has another text, or none, at that place
    REMOVED = "removed"  # its document is gone


@dataclass(frozen=True, slots=True)
class Judgement:
    """One judgement; it holds what was judged, so that it outlives the document."""

    query: str
    document: str  # its id
    passage: int  # 0-based place of the passage in its document
    relevant: bool  # the passage answers the query
    title: str  # of the document, as it was judged
    text: str  # of the passage, as it was judged
    rank: int | None  # from 1, of the hit that was judged; None: it was no hit
    score: float | None  # of that hit
    mode: SearchMode | None  # how that hit was looked for
    encoder: str | None  # the name of that which answered, or would have; None: none did yet
    fingerprint: str | None  # of the encoder
    generation: int | None  # that answered, or would have
    created_at: str  # ISO 8601, UTC; of the last word
    state: JudgementState = JudgementState.CURRENT
    unsure: bool = False  # whoever judged it could not say; `relevant` is False and means nothing
    rater: str | None = None  # who said so
    note: str | None = None

    @property
    def encoded(self) -> str:
        """What an encoder is given for the passage: title and text."""
        return encoded_text(self.title, self.text)

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """How often passages were judged for a query."""

    query: str
    relevant: int
    not_relevant: int
    judged_at: str  # the last time, ISO 8601, UTC


@dataclass(frozen=True, slots=True)
class JudgementCounts:
    """How many judgements a collection has."""

    queries: int
    relevant: int
    not_relevant: int
    changed: int  # of these: the passage is another one now
    removed: int  # of these: the document is gone

    @property
    def judgements(self) -> int:
        """All of them."""
        return self.relevant + self.not_relevant
