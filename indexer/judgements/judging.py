"""Judging what decides between two ways of searching: which passage is next, and what is known so far."""

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError, check_string
from nearsay.indexer.catalogue.judgements import Judgement, JudgementState
from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.judgements.minimal_test import DEPTH, Difference, MinimalTest, Pair
from nearsay.indexer.query.hit import Hit, Hits, Lineage
from nearsay.indexer.query.ranking import Fusion

if TYPE_CHECKING:
    from nearsay.indexer.judgements.judgements import Judgements

__all__ = ["Judged", "JudgedComparison", "SearchWay", "ToJudge", "plain_query"]


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


_GENERATION: Final = "generation="

Search = Callable[..., list[Hits]]


@dataclass(frozen=True, slots=True)
class SearchWay:
    """A way of searching a collection, as one of two that are compared."""

    mode: SearchMode = SearchMode.HYBRID
    fusion: Fusion = Fusion.WEIGHTED  # in hybrid mode
    generation: int | None = None  # None: the live one

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `dense`, `rrf`, `generation=2` or several with commas; BadInputError for anything else."""
        mode, fusion, generation = SearchMode.HYBRID, Fusion.WEIGHTED, None
        for part in filter(None, (one.strip() for one in text.split(","))):
            if part in list(SearchMode):
                mode = SearchMode(part)
            elif part in list(Fusion):
                fusion = Fusion(part)
            elif part.startswith(_GENERATION) and part.removeprefix(_GENERATION).isdecimal():
                generation = int(part.removeprefix(_GENERATION))
            elif part != "live":
                raise BadInputError(
                    f"'{part}' is no way of searching. Take live, {', '.join([*SearchMode, *Fusion])} or "
                    f"{_GENERATION}2, or several with commas"
                )
        return cls(mode, fusion, generation)

    def __str__(self) -> str:
        """What `parse` reads."""
        fusion = [str(self.fusion)] if self.fusion is not Fusion.WEIGHTED else []
        generation = [f"{_GENERATION}{self.generation}"] if self.generation is not None else []
        return ",".join([str(self.mode), *fusion, *generation])


@dataclass(frozen=True, slots=True)
class ToJudge:
    """A passage to judge for a query."""

    query: str
    hit: Hit  # how one of the two ways found it

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; which of the two ways found it, and where, is not in it."""
        hit = self.hit
        named = {"query": self.query, "id": hit.id, "passage": hit.passage}
        return named | {"title": hit.title, "text": hit.text}


class JudgedComparison:
    """Two ways of searching, some queries, and what was judged of the passages that decide between them.

    Made by `Judgements.compare`. The rankings are made once, when it is; judgements are read anew each time,
    so that several people judge at once.
    """

    def __init__(
        self,
        judgements: "Judgements",
        search: Search,
        queries: Iterable[str],
        first: SearchWay,
        second: SearchWay,
        *,
        level: float,
        margin: float,
    ) -> None:
        """Search for every query in both ways."""
        self.first, self.second = first, second
        self._judgements = judgements
        self.queries = tuple(dict.fromkeys(plain_query(query) for query in queries))
        if not self.queries:
            raise BadInputError(
                "there is no query to compare by. Name some, or judge passages of a few first"
            )
        if first == second:
            raise BadInputError(f"'{first}' is compared with itself. Name two ways that differ")
        self._hits: dict[Pair, Hit] = {}
        rankings = self._ranked(search, first), self._ranked(search, second)
        # Judgements that another order asked for must not be drawn by the same chances.
        generations = sorted({hit.lineage.generation for hit in self._hits.values()})
        seed = f"{first} {second} {generations}"
        self.test = MinimalTest(*rankings, seed=seed, level=level, margin=margin)

    def next(self) -> ToJudge | None:
        """The passage that tells most about the difference, by chance; None when each was judged."""
        pair = self.test.next(self._judged())
        return None if pair is None else ToJudge(pair[0], self._hits[pair])

    def judge(
        self, asked: ToJudge, relevant: bool | None, *, rater: str | None = None, note: str | None = None
    ) -> Judgement:
        """Keep what somebody says of it; None = cannot say, which counts as not relevant here."""
        return self._judgements.add(asked.query, asked.hit, relevant, rater=rater, note=note)

    def difference(self) -> Difference:
        """How much better the second way is, as far as the judgements say."""
        return self.test.difference(self._judged())

    def _ranked(self, search: Search, way: SearchWay) -> dict[str, list[Hashable]]:
        options = asdict(way)
        found = search(list(self.queries), DEPTH, **options)
        ranked: dict[str, list[Hashable]] = {}
        for query, hits in zip(self.queries, found, strict=True):
            ranked[query] = [(hit.id, hit.passage) for hit in hits]
            for hit in hits:
                self._hits.setdefault((query, (hit.id, hit.passage)), hit)
        return ranked

    def _judged(self) -> dict[Pair, bool]:
        """What was said of passages that are still as they were then."""
        every = (*self._judgements.list(), *self._judgements.unsure())
        return {
            (one.query, (one.document, one.passage)): one.relevant
            for one in every
            if one.state is JudgementState.CURRENT
        }
