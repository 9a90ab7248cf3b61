"""What a search gives."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

from nearsay.data.document import JsonValue
from nearsay.indexer.explain.explanation import Explanation

__all__ = ["Hit", "HitScores", "Hits", "Lineage"]


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a hit comes from, oldest step first: what made the encoder, the encoder, the generation."""

    encoder: str
    fingerprint: str
    generation: int
    plan: str  # how the vectors were searched: exact, an index's kind such as ivf, or a GPU's: gpu-flat-fp16
    made_by: tuple[str, ...]  # vocabulary, pretraining and fine-tuning runs, as far as the encoder says
    device: str = "cpu"  # where the vectors were searched


@dataclass(frozen=True, slots=True)
class HitScores:
    """What is known of how well a passage answers; None where it was not asked or not found out."""

    dense: float | None = None  # cosine similarity: -1 to 1, higher is closer
    lexical: float | None = (
        None  # BM25 of the query's words: above 0, higher is better; None: has none, or few
    )
    # Of a full match by words, which has the query's five rarest words once each: in hybrid mode what is
    # above .4 adds to the cosine.
    word_share: float | None = None
    fused: float | None = None  # of the two, in hybrid mode
    rerank: float | None = None  # the cross-encoder's own scale, higher is better


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers, with its document."""

    rank: int  # from 1
    score: float  # what it was ranked by, higher is better: the cosine, BM25, both fused, or a judge's score
    id: str  # of the document
    title: str
    text: str  # of the passage
    metadata: Mapping[str, JsonValue]
    source: str | None
    passage: int  # 0-based place of the passage in its document
    start: int  # characters of the document's text
    end: int
    lineage: Lineage
    scores: HitScores = HitScores()
    explanation: Explanation | None = None  # why it matched, if that was asked

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        row = asdict(self) | {"metadata": dict(self.metadata)}
        if self.explanation is None:
            del row["explanation"]
        return row


@dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """The hits of one search, best first, and what has to be said about them."""

    hits: tuple[Hit, ...]
    asked: int  # how many were asked for
    qualifying: int | None  # passages that can be found under the filter; None: many, not counted
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
