"""Search results."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue, beginning
from nearsay.data.errors import NearsayError
from nearsay.data.function_words import grammatical_words

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ExplainedPassage:
    """A passage of a search result."""

    title: str  # of its document, "" for none; encoded before the text
    text: str  # of the passage
    score: float | None = None  # the cosine that the search reported; None = recompute it


@dataclass(frozen=True, slots=True)
class WordShare:
    """The contribution of one word to a score; negative if it lowers the similarity."""

    text: str
    start: int  # characters of the text that it stands in
    end: int
    share: float


def telling(*texts: Sequence[WordShare]) -> list[tuple[WordShare, ...]]:
    """The content words among words of one language: no punctuation, no function words.

    An encoder gives shares to "the" and "that" as well, which explain nothing.
    """
    empty = grammatical_words({word.text.casefold() for words in texts for word in words})
    return [
        tuple(
            word
            for word in words
            if any(map(str.isalnum, word.text)) and word.text.replace("’", "'").casefold() not in empty
        )
        for words in texts
    ]


@dataclass(frozen=True, slots=True)
class MatchedWord:
    """A word of the passage that also occurs in the query, after the normalisation of lexical search."""

    text: str
    start: int  # characters of the title or the passage's text
    end: int
    in_title: bool


@dataclass(frozen=True, slots=True)
class BestSentence:
    """The sentence of a longer passage whose own vector is closest to the query's."""

    text: str
    start: int  # characters of the passage's text
    end: int
    score: float  # cosine similarity of the sentence alone


@dataclass(frozen=True, slots=True)
class Explanation:
    """A cosine similarity split into contributions of words, with the words and the sentence that match.

    The shares of `words` and `title`, `rest` and `rounding` add up to `score`. So do those of `query`,
    `query_rest` and `rounding`, which split the same score among the words of the query.
    """

    words: tuple[WordShare, ...]  # of the passage's text, in its order
    title: tuple[WordShare, ...]  # of the document's title
    rest: float  # of special tokens, the prompt and constants; if not exact, also what no word explains
    query: tuple[WordShare, ...]  # of the query's words
    query_rest: float
    score: float  # cosine similarity, -1 to 1; the one that the search reported, if there is one
    rounding: float  # the score minus the one that is recomputed for this explanation
    exact: bool  # False: the vector is not a sum over tokens, so the shares are approximate
    seen: int  # characters of the passage's text that the encoder read; text after them has no share
    matched: tuple[str, ...]  # words of the query that occur in the passage, as spelled in the query
    matches: tuple[MatchedWord, ...]  # where they occur
    sentence: BestSentence | None  # None if the passage is a single sentence

    def strongest_words(self, count: int = 8) -> list[tuple[str, float]]:
        """The words with the largest positive shares, summed over their occurrences.

        Lower-cased, without function words.
        """
        together: dict[str, float] = {}
        for word in itertools.chain(*telling(self.title, self.words)):
            key = word.text.casefold()
            together[key] = together.get(key, 0.0) + word.share
        ordered = sorted(together.items(), key=lambda pair: (-pair[1], pair[0]))
        return [(word, share) for word, share in ordered if share > 0][:count]

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Lineage:
    """The origin of a hit: what the encoder was trained from, oldest first, the encoder, the generation."""

    encoder: str
    fingerprint: str
    generation: int
    plan: str  # how the vectors were searched: exact, a kind of index such as ivf, or on a GPU gpu-flat-fp16
    made_by: tuple[str, ...]  # vocabulary, pretraining and fine-tuning runs, as recorded by the encoder
    device: str = "cpu"  # where the vectors were searched


@dataclass(frozen=True, slots=True)
class HitScores:
    """The scores of a passage; None = not computed or not found."""

    dense: float | None = None  # cosine similarity: -1 to 1, higher is closer
    lexical: float | None = None  # BM25: above 0, higher is better; None: no match, or only common words
    word_share: float | None = None  # BM25 over that of the query's five rarest words; counts above .4
    fused: float | None = None  # the combination of both, in hybrid mode
    rerank: float | None = None  # the cross-encoder's own scale, higher is better


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found by a search, with its document."""

    rank: int  # from 1
    score: float  # of the ranking, higher is better: cosine, BM25, both fused, or a reranker's score
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
    explanation: Explanation | None = None  # why it matched, if requested
    vector: NDArray[np.float32] | None = field(default=None, compare=False, repr=False)  # (d,), if requested

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON object."""
        row = asdict(replace(self, vector=None)) | {"metadata": dict(self.metadata)}
        if self.explanation is None:
            del row["explanation"]
        del row["vector"]
        if self.vector is not None:
            row["vector"] = self.vector.tolist()
        return row


@dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """The hits of one search, best first, with notes."""

    hits: tuple[Hit, ...]
    asked: int  # how many were requested
    qualifying: int | None  # searchable passages that match the filter; None = many, not counted
    notes: tuple[str, ...] = ()  # sentences: fewer hits than requested, pending passages, an unusable index

    @overload
    def __getitem__(self, at: int) -> Hit: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Hit]: ...
    def __getitem__(self, at: int | slice) -> Hit | Sequence[Hit]:
        return self.hits[at]

    def __len__(self) -> int:
        return len(self.hits)

    def __repr__(self) -> str:
        """One line per hit: rank, score, id and the beginning of its text."""
        lines = [f"{hit.rank:4} {hit.score:.3f} {hit.id}: {beginning(hit.text, _SHOWN)}" for hit in self.hits]
        return "\n".join([f"Hits({len(self.hits)} of {self.asked} asked for)", *lines, *self.notes])

    def to_arrow(self) -> "pa.Table":
        """Convert to a pyarrow table, one row per hit: metadata as JSON text, vectors as fixed-size lists.

        Raises NearsayError without pyarrow.
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise NearsayError("an Arrow table needs pyarrow. Install it: pip install pyarrow") from error
        columns = self._columns()
        vectors = columns.pop("vector", None)
        columns["metadata"] = [json.dumps(row, ensure_ascii=False) for row in columns["metadata"]]
        table = pa.table({name: pa.array(values, _TYPES[name]) for name, values in columns.items()})
        if vectors is not None:
            held = pa.FixedSizeListArray.from_arrays(np.concatenate(vectors), len(vectors[0]))
            table = table.append_column("vector", held)
        return table

    def to_pandas(self) -> "pd.DataFrame":
        """Convert to a pandas data frame, one row per hit. Raises NearsayError without pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise NearsayError("a data frame needs pandas. Install it: pip install pandas") from error
        return pd.DataFrame(self._columns()).astype(dict.fromkeys(_SCORES, "float64"))  # of None alone, too

    def _columns(self) -> dict[str, list[Any]]:
        columns = {name: [getattr(hit, name) for hit in self.hits] for name in _TYPES if name not in _SCORES}
        columns |= {name: [getattr(hit.scores, name) for hit in self.hits] for name in _SCORES}
        if self.hits and all(hit.vector is not None for hit in self.hits):
            columns["vector"] = [hit.vector for hit in self.hits]
        return columns


_SHOWN = 80  # characters of a text
_SCORES = ("dense", "lexical", "word_share", "fused", "rerank")
_TYPES: Mapping[str, str] = {  # of the columns, as pyarrow names them
    **dict.fromkeys(("rank", "passage", "start", "end"), "int64"),
    **dict.fromkeys(("id", "title", "text", "metadata", "source"), "string"),
    **dict.fromkeys(("score", *_SCORES), "float64"),
}
