"""Why a passage matched a query."""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["BestSentence", "ExplainedPassage", "Explanation", "MatchedWord", "WordShare"]


@dataclass(frozen=True, slots=True)
class ExplainedPassage:
    """A passage that a search gave."""

    title: str  # of its document, "" for none; it is encoded before the text
    text: str  # of the passage
    score: float | None = None  # the cosine that the search reported; None takes the explanation's own


@dataclass(frozen=True, slots=True)
class WordShare:
    """What one word has of the score; less than 0 when it pulls the passage away from the query."""

    text: str
    start: int  # characters of the text that it stands in
    end: int
    share: float


@dataclass(frozen=True, slots=True)
class MatchedWord:
    """A word of the passage that is a word of the query too, as lexical search sees it."""

    text: str
    start: int  # characters of the title or the passage's text
    end: int
    in_title: bool


@dataclass(frozen=True, slots=True)
class BestSentence:
    """The sentence of a longer passage whose own vector is nearest to the query's."""

    text: str
    start: int  # characters of the passage's text
    end: int
    score: float  # cosine similarity of the sentence alone


@dataclass(frozen=True, slots=True)
class Explanation:
    """A cosine similarity in parts, and the words and the sentence that answer the query.

    The shares of `words` and `title`, `rest` and `rounding` sum to `score`. So do those of `query`,
    `query_rest` and `rounding`, which share the same score out over the other text.
    """

    words: tuple[WordShare, ...]  # of the passage's text, in its order
    title: tuple[WordShare, ...]  # of the document's title
    rest: float  # of special tokens, the prompt and constant terms; not exact: also what no word accounts for
    query: tuple[WordShare, ...]  # of the query's words
    query_rest: float
    score: float  # cosine similarity, -1 to 1: the search's where that is known
    rounding: float  # the score less what this explanation's own pass through the encoder gives
    exact: bool  # False: the encoder's vector is no sum over tokens, and the shares are an approximation
    seen: int  # characters of the passage's text that the encoder took; what is beyond has no share
    matched: tuple[str, ...]  # words of the query that stand in the passage, as the query has them
    matches: tuple[MatchedWord, ...]  # where they stand
    sentence: BestSentence | None  # None: the passage is a single sentence

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)
