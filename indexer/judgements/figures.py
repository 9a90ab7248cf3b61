"""Figures of searches that were judged, one of each query."""

from collections.abc import Mapping, Sequence
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


def log_likelihoods(
    found: Sequence[Hits], vectors: NDArray[np.float32], answers: Sequence[Answers]
) -> NDArray[np.float64]:
    """How likely each query's answers are among its hits, the mean logarithm, (queries,).

    found:   hits by hybrid search, far more than a person looks at; vectors: the queries, (queries, d)
    answers: of each query; one that was not found counts by its cosine; 0 where a query has none

    The softmax of the scores, as a ranking loss has it. It moves with every score where nDCG@10 moves with
    ranks alone, so few queries tell whether a change is a gain.
    """
    return np.array(
        [_log_likelihood(*of_one) for of_one in zip(found, vectors, answers, strict=True)], dtype=np.float64
    )


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


def _log_likelihood(hits: Hits, vector: NDArray[np.float32], answers: Answers) -> float:
    if not answers:
        return 0.0
    scores = {(hit.id, hit.passage): hit.score for hit in hits}
    of_answers = [scores.setdefault(place, float(answer @ vector)) for place, answer in answers.items()]
    every = _SCALE * np.array([*scores.values()])
    return float(_SCALE * np.mean(of_answers) - np.logaddexp.reduce(every))


def _key(document: str, passage: int) -> str:
    return f"{document}#{passage}"
