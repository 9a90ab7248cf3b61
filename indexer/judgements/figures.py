"""Metrics of searches on judged queries."""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.judgements import JudgedQueries, SearchMode, drawn
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.query.hit import Hits
from nearsay.indexer.query.search import SearchRequest, search
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import Progress, ProgressListener
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.evaluation.judged.replay import Replayed, general_search, replay
from nearsay.training.evaluation.rank_metrics import ndcg
from nearsay.training.sentence.query_adapter import QueryAdapter
from nearsay.training.sentence.remembering import Refined, Remembering
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

Answers = Mapping[tuple[str, int], NDArray[np.float32]]  # relevant passages, by document and place: vectors

Found = TypeVar("Found")

_DEPTH: Final = 10  # ranks
_COMMITS: Final = 5  # retries of a search after commits
_LIKELY_AMONG: Final = 100  # hits
_SCALE: Final = 20.0  # of the scores, as is usual in the training of sentence encoders


def ndcgs(found: Sequence[Hits], judged: JudgedQueries) -> NDArray[np.float64]:
    """nDCG@10 of the hits of each judged query, (queries,)."""
    return np.array(
        [
            ndcg(
                [_key(hit.id, hit.passage) for hit in hits],
                {_key(*at): int(word) for at, word in of_it.items()},
            )
            for hits, of_it in zip(found, judged.values(), strict=True)
        ]
    )


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """A query's relevant passages, and the hits of the live search that they compete with."""

    vectors: NDArray[np.float32]  # (n, d)
    words: NDArray[np.float64]  # (n,) contribution of words to the score; 0 if unknown
    answers: NDArray[np.bool_]  # (n,) which are relevant

    @classmethod
    def of(cls, hits: Hits, query: NDArray[np.float32], answers: Answers) -> "Choices":
        """From many hits with their vectors, by hybrid search for that query."""
        found = {
            (hit.id, hit.passage): (hit.vector, hit.score - float(hit.vector @ query))
            for hit in hits
            if hit.vector is not None
        }
        found |= {place: (vector, 0.0) for place, vector in answers.items() if place not in found}
        return cls(
            np.array([vector for vector, _ in found.values()]),
            np.array([words for _, words in found.values()]),
            np.array([place in answers for place in found], dtype=np.bool_),
        )

    def log_likelihood(self, query: NDArray[np.float32]) -> float:
        """The mean log-likelihood of the relevant passages for a query vector; 0 without any.

        The softmax of the scores, as in a ranking loss. It changes with every score, whereas nDCG@10 changes
        only with ranks, so fewer queries show whether a change is an improvement.
        """
        if not self.answers.any():
            return 0.0
        scores = _SCALE * (self.vectors.astype(np.float64) @ query + self.words)
        return float(scores[self.answers].mean() - np.logaddexp.reduce(scores))


def log_likelihoods(choices: Sequence[Choices], queries: NDArray[np.float32]) -> NDArray[np.float64]:
    """The log-likelihood of each query, (queries,); queries: (queries, d)."""
    return np.array([each.log_likelihood(query) for each, query in zip(choices, queries, strict=True)])


def answers_of(store: Store, snapshot: Snapshot, judged: JudgedQueries) -> list[Answers]:
    """The vectors of each query's relevant passages, without deleted ones."""
    found: list[Answers] = []
    with store.database.reading() as connection:
        documents = {document for of_it in judged.values() for document, _ in of_it}
        there = passages.numbers_by_id(connection, snapshot.collection.id, sorted(documents))
    for of_it in judged.values():
        relevant = [place for place, answers in of_it.items() if answers]
        numbers = {
            number: (document, at)
            for document, at in relevant
            for number in there.get(document, [])[at : at + 1]
        }
        positions = snapshot.vectors.positions(np.array(sorted(numbers), dtype=np.int64))
        ids = snapshot.vectors.ids[positions].tolist()
        rows = snapshot.vectors.rows(positions)
        found.append({numbers[number]: row for number, row in zip(ids, rows, strict=True)})
    return found


def mean_answers(queries: NDArray[np.float32], answers: Sequence[Answers]) -> NDArray[np.float32]:
    """The mean vector of each query's relevant passages, (queries, d); without any, the query's own."""
    pairs = zip(queries, answers, strict=True)
    means = [np.mean([*of_it.values()], axis=0) if of_it else own for own, of_it in pairs]
    return np.array(means, dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedPart:
    """The judged queries of a part, with their vectors."""

    judged: JudgedQueries
    vectors: NDArray[np.float32]  # (queries, d) of unit length, from the encoder

    def drawn(self, most: int) -> list[int]:
        """The ascending places of at most this many queries, a fixed sample."""
        return drawn(self.judged, most)

    def at(self, places: Sequence[int]) -> "JudgedPart":
        """The queries at these places."""
        queries = list(self.judged)
        return JudgedPart(
            {queries[at]: self.judged[queries[at]] for at in places}, self.vectors[list(places)]
        )


class LiveSearch:
    """The live search, with other query vectors or another weight of words."""

    def __init__(
        self,
        store: Store,
        snapshot: Snapshot,
        take: Callable[[int], Snapshot],
        encoder: TextEncoder,
        progress: ProgressListener,
    ) -> None:
        """take: returns the newest snapshot of a generation, for shards that no longer search the first"""
        self._store, self._take, self.encoder, self.progress = store, take, encoder, progress
        self.snapshot = snapshot.for_measuring()
        self.adapter = snapshot.adapter
        self.remembering = Remembering(encoder)  # for general sets, which are encoded for several candidates
        self._general: dict[QueryAdapter, tuple[Replayed, ...]] = {}

    def adapted(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """The query vectors after the live adapter."""
        return vectors if self.adapter is None else self.adapter(vectors)

    def figures(
        self, part: JudgedPart, vectors: NDArray[np.float32], weight: float | None
    ) -> NDArray[np.float64]:
        """nDCG@10 of each query, (queries,)."""
        return ndcgs(self.found(list(part.judged), vectors, weight), part.judged)

    def answers(self, part: JudgedPart) -> list[Answers]:
        """The vectors of each query's relevant passages."""
        return answers_of(self._store, self.snapshot, part.judged)

    def choices(self, part: JudgedPart, answers: Sequence[Answers]) -> list[Choices]:
        """Each query's relevant passages and their competitors."""
        vectors = self.adapted(part.vectors)
        request = SearchRequest(k=_LIKELY_AMONG, mode=SearchMode.HYBRID, fields=("title",), with_vectors=True)
        found = self._searched(vectors, request, list(part.judged))
        return [Choices.of(*one) for one in zip(found, vectors, answers, strict=True)]

    def found(self, texts: list[str], vectors: NDArray[np.float32], weight: float | None) -> list[Hits]:
        """The hits of queries with these vectors."""
        request = SearchRequest(k=_DEPTH, mode=SearchMode.HYBRID, word_weight=weight, fields=("title",))
        return self._searched(vectors, request, texts)

    def general(self, adapter: QueryAdapter | None) -> tuple[Replayed, ...]:
        """A general set on which a query adapter may lose, measured with it and with the live one."""
        if adapter is None:
            return ()
        if adapter not in self._general:
            before, after = (Refined(self.remembering, one) for one in (self.adapter, adapter))
            self.replayed(0, None)
            self._general[adapter] = replay(before, after, [general_search()], self.replayed)
        return self._general[adapter]

    def replayed(self, done: int, total: int | None) -> None:
        """Report the progress on general sets."""
        self.progress(Progress(done, total, "measuring on general sets", "texts"))

    def recall(self, vectors: NDArray[np.float32]) -> float | None:
        """The recall of the index; None without an index."""
        if self.snapshot.through is None:
            return None
        at = self.snapshot.plan.contract.at
        found = self._now(lambda snapshot: snapshot.nearest_many(vectors, at))
        exact = self.snapshot.vectors.nearest_many(vectors, at, self.snapshot.alive)
        pairs = zip(exact, found, strict=True)
        shares = [np.isin(true.ids, some.ids).mean() for true, some in pairs if true.ids.size]
        return float(np.mean(shares))

    def _searched(self, vectors: NDArray[np.float32], request: SearchRequest, texts: list[str]) -> list[Hits]:
        return self._now(lambda snapshot: search(self._store, snapshot, vectors, request, texts))

    def _now(self, find: Callable[[Snapshot], Found]) -> Found:
        """Search the snapshot, or a newer one of the same generation if shards have moved on.

        Raises BusyError if the collection keeps changing.
        """
        for _ in range(_COMMITS):
            with contextlib.suppress(StaleSnapshotError):
                return find(self.snapshot)
            self.snapshot = self._take(self.snapshot.generation.number).for_measuring()
        name = self.snapshot.collection.name
        raise BusyError(f"collection '{name}' keeps changing. Try again in a moment")


Way = tuple[LiveSearch, QueryAdapter | None, float | None]  # search, query adapter, weight of words


def median_milliseconds(queries: Sequence[str], ways: Sequence[Way]) -> list[float | None]:
    """The median time of encoding and searching a query each way, measured in turns."""
    if not queries:
        return [None for _ in ways]
    spent = np.zeros((len(queries), len(ways)))
    for row, query in enumerate(queries):
        ways[0][0].progress(Progress(row, len(queries), "timing", "queries"))
        for turn in range(len(ways)):
            at = (row + turn) % len(ways)
            live, adapter, weight = ways[at]
            began = time.perf_counter()
            vector = unit_length(live.encoder.encode([query], kind=TextKind.QUERY))
            live.found([query], vector if adapter is None else adapter(vector), weight)
            spent[row, at] = 1000 * (time.perf_counter() - began)
    return [round(each, 2) for each in np.median(spent, axis=0).tolist()]


def _key(document: str, passage: int) -> str:
    return f"{document}#{passage}"
