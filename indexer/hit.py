"""What a search gives."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

from nearsay.data.document import JsonValue

__all__ = ["Hit", "Hits", "Lineage"]


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a hit comes from, oldest step first: what made the encoder, the encoder, the generation."""

    encoder: str
    fingerprint: str
    generation: int
    plan: str  # how the generation was searched: exact or ivf
    made_by: tuple[str, ...]  # vocabulary, pretraining and fine-tuning runs, as far as the encoder says


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers, with its document."""

    rank: int  # from 1
    score: float  # cosine similarity: -1 to 1, higher is closer
    id: str  # of the document
    title: str
    text: str  # of the passage
    metadata: Mapping[str, JsonValue]
    source: str | None
    passage: int  # 0-based place of the passage in its document
    start: int  # characters of the document's text
    end: int
    lineage: Lineage

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self) | {"metadata": dict(self.metadata)}


@dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """The hits of one search, best first, and what has to be said about them."""

    hits: tuple[Hit, ...]
    asked: int  # how many were asked for
    qualifying: int  # passages that the filter lets through and that have a vector
    notes: tuple[str, ...] = ()  # plain sentences: fewer than asked, passages that wait, an index left out

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Hit]: ...
    def __getitem__(self, at: int | slice) -> Hit | Sequence[Hit]:
        return self.hits[at]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)
