"""Figures of searches that were judged, one of each query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.judgements import JudgedQueries
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.query.hit import Hits
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.training.evaluation.rank_metrics import ndcg

Answers = Mapping[tuple[str, int], NDArray[np.float32]]  # relevant passages, by document and place: vectors

_SCALE: Final = 20.0  # of the scores, as trainings of sentence encoders usually have it


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
    """What a query's answers are weighed against: hits of the live search, and answers not among them."""

    vectors: NDArray[np.float32]  # (n, d)
    words: NDArray[np.float64]  # (n,), what words added to the cosine; 0 where that is not known
    answers: NDArray[np.bool_]  # (n,), which of them are relevant

    @classmethod
    def of(cls, hits: Hits, query: NDArray[np.float32], answers: Answers) -> "Choices":
        """From hits with their vectors, by hybrid search for that query, far more than a person looks at."""
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
        """How likely the answers are for a query's vector, the mean logarithm; 0 where there are none.

        The softmax of the scores, as a ranking loss has it. It moves with every score where nDCG@10 moves
        with ranks alone, so few queries tell whether a change is a gain.
        """
        if not self.answers.any():
            return 0.0
        scores = _SCALE * (self.vectors.astype(np.float64) @ query + self.words)
        return float(scores[self.answers].mean() - np.logaddexp.reduce(scores))


def log_likelihoods(choices: Sequence[Choices], queries: NDArray[np.float32]) -> NDArray[np.float64]:
    """Of each query, (queries,); queries: (queries, d)."""
    return np.array([each.log_likelihood(query) for each, query in zip(choices, queries, strict=True)])


def answers_of(store: Store, snapshot: Snapshot, judged: JudgedQueries) -> list[Answers]:
    """The vectors of each query's relevant passages; those that were deleted since are left out."""
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
    """The mean vector of each query's answers, (queries, d); the query's own where there is none."""
    pairs = zip(queries, answers, strict=True)
    means = [np.mean([*of_it.values()], axis=0) if of_it else own for own, of_it in pairs]
    return np.array(means, dtype=np.float32)


def _key(document: str, passage: int) -> str:
    return f"{document}#{passage}"
