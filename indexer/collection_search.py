"""From a collection's queries to their hits."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.indexer.collection_encoder import CollectionEncoder
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.hit import Hits
from nearsay.indexer.hybrid.fusion import Fusion
from nearsay.indexer.hybrid.mode import SearchMode
from nearsay.indexer.hybrid.ranking import DEPTH
from nearsay.indexer.hybrid.reranking import RERANKED, PairJudge, PairJudges
from nearsay.indexer.latest_snapshot import LatestSnapshot
from nearsay.indexer.search import SearchRequest, search
from nearsay.indexer.store import Store
from nearsay.indexer.vector_store import Candidates, unit_length
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["CollectionSearch", "SearchOptions"]

_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How is searched; see `Collection.search`."""

    where: Where | None
    mode: SearchMode | str
    by_document: bool
    fusion: Fusion | str
    rerank: str | PairJudge | None
    explain: bool
    generation: int | None = None


class CollectionSearch:
    """Encodes queries as the generation that is searched was encoded, and searches its newest snapshot."""

    def __init__(self, store: Store, encoder: CollectionEncoder, snapshot: LatestSnapshot) -> None:
        """Nothing is read or loaded yet."""
        self._store = store
        self._encoder = encoder
        self._snapshot = snapshot
        self._judges = PairJudges(store.device)

    def search(self, queries: Sequence[str], k: int, options: SearchOptions) -> list[Hits]:
        """The hits of each query; BadInputError for a query, a k or a choice that makes no sense."""
        if isinstance(queries, str):
            raise BadInputError(f"'{queries}' is one query, not a list of queries. Put it in a list")
        for number, query in enumerate(queries, 1):
            _check(query, f"query {number} of {len(queries)}" if len(queries) > 1 else "the query")
        mode, fusion = _chosen(SearchMode, options.mode, "mode"), _chosen(Fusion, options.fusion, "fusion")
        SearchRequest(k=k)  # a bad k is refused before anything is loaded
        if not queries:
            return []
        judge = None if options.rerank is None else self._judges.judge(options.rerank)
        snapshot = self._snapshot.take(options.generation)
        encoder: TextEncoder | None = None
        vectors: NDArray[np.float32] | None = None
        if mode is not SearchMode.LEXICAL or options.explain:
            encoder = self._encoder.of(snapshot.generation)
        if encoder is not None and mode is not SearchMode.LEXICAL:
            vectors = unit_length(encoder.encode(list(queries), kind=TextKind.QUERY))
        nearest: Sequence[Candidates | None] = [None] * len(queries)
        drawn = max(k, DEPTH if mode is SearchMode.HYBRID else 0, RERANKED if judge is not None else 0)
        if vectors is not None and len(queries) > 1 and options.where is None:
            nearest = snapshot.nearest_many(vectors, drawn)
        return [
            search(
                self._store,
                snapshot,
                None if vectors is None else vectors[i],
                SearchRequest(
                    k=k,
                    where=options.where,
                    by_document=options.by_document,
                    mode=mode,
                    fusion=fusion,
                    text=query,
                    judge=judge,
                    explained_by=encoder if options.explain else None,
                ),
                nearest[i],
                drawn,
            )
            for i, query in enumerate(queries)
        ]


def _check(query: str, which: str) -> None:
    if not isinstance(query, str):
        raise BadInputError(f"{which} is a {type(query).__name__}, not text. Search for one text at a time")
    if not query.strip():
        raise BadInputError(f"{which} is empty. Write what you look for")


def _chosen(choices: type[_Choice], given: str, what: str) -> _Choice:
    try:
        return choices(given)
    except ValueError:
        raise BadInputError(f"'{given}' is not a {what}. Take one of: {', '.join(choices)}") from None
