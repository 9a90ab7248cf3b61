"""Triplets as a judged set."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.encoded_texts import Progress, encoded_texts
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    Outcome,
    PairScorer,
    drawn_note,
    drawn_rows,
    scores_of_pairs,
)
from nearsay.training.evaluation.sts import Similarity, pair_similarities
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = [
    "TripletSet",
]


def right_triplets(
    anchors: NDArray[np.float32], positives: NDArray[np.float32], negatives: NDArray[np.float32]
) -> dict[Similarity, NDArray[np.bool_]]:
    """Say of each triplet whether sim(anchor, positive) > sim(anchor, negative); a tie is wrong.

    anchors, positives, negatives: (triplets, dimension) float32
    returns: by similarity (triplets,) bool

    Reimers & Gurevych 2019, section 4.4, https://arxiv.org/abs/1908.10084
    """
    near, far = pair_similarities(anchors, positives), pair_similarities(anchors, negatives)
    return {similarity: near[similarity] > far[similarity] for similarity in Similarity}


def triplet_accuracy(right: Mapping[Similarity, NDArray[np.bool_]]) -> dict[str, float]:
    """Give the share of right triplets, 0 to 1, as `accuracy` of the cosine, `accuracy_dot` and so on.

    Raises BadInputError when there are no triplets.
    """
    if not len(right[Similarity.COSINE]):
        raise BadInputError("there are no triplets to measure on; give some")
    return {f"accuracy{similarity.suffix}": float(each.mean()) for similarity, each in right.items()}


@dataclass(frozen=True, slots=True)
class TripletSet:
    """Anchor, positive, negative; the share whose positive is nearer by the cosine decides.

    Its items are the rows of the file: a row with several positives or negatives gives several triplets of
    one anchor, which are right or wrong together. Each triplet counts the same in the figures, and intervals
    draw whole rows.
    """

    kind: ClassVar = EvaluationKind.TRIPLETS
    name: str
    triplets: tuple[tuple[str, str, str], ...]  # anchor, positive, negative
    notes: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()  # the row that each triplet is of, counted from 0, ascending; (): its own

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.rows or tuple(range(len(self.triplets))))

    def __len__(self) -> int:
        return len(set(self.rows))

    def texts(self) -> Iterator[str]:
        """The three of each triplet."""
        for triplet in self.triplets:
            yield from triplet

    def held_out(self) -> Iterator[tuple[str, str, str]]:
        """The triplets."""
        return iter(self.triplets)

    def limited(self, most: int, seed: int) -> Self:
        """At most so many of its rows, with all their triplets."""
        drawn = drawn_rows(len(self), most, seed)
        if len(drawn) == len(self):
            return self
        places = {row: place for place, row in enumerate(drawn)}
        kept = [number for number, row in enumerate(self.rows) if row in places]
        return replace(
            self,
            triplets=tuple(self.triplets[number] for number in kept),
            rows=tuple(places[self.rows[number]] for number in kept),
            notes=(*self.notes, drawn_note(self.name, len(drawn), len(self), seed)),
        )

    def measure(self, encoder: TextEncoder, progress: Progress | None = None) -> Outcome:
        """As `right_triplets`; every text is encoded as a passage, as triplets are of one kind of text."""
        started = perf_counter()
        texts = list(self.texts())
        vectors, truncated = encoded_texts(
            encoder, texts, listener=None if progress is None else lambda done: progress(done, len(texts))
        )
        right = right_triplets(vectors[::3], vectors[1::3], vectors[2::3])
        return self._outcome(right, truncated, started)

    def measure_pairs(self, scorer: PairScorer, progress: Progress | None = None) -> Outcome:
        """As `measure`, by a cross-encoder's scores of the anchor with the other two."""
        started = perf_counter()
        pairs = [(anchor, text) for anchor, *others in self.triplets for text in others]
        scores = scores_of_pairs(scorer, pairs, progress)
        right = {Similarity.COSINE: scores[::2] > scores[1::2]}
        return self._outcome(right, scorer.cut(pairs), started)

    def _outcome(
        self, right: Mapping[Similarity, NDArray[np.bool_]], truncated: int, started: float
    ) -> Outcome:
        return Outcome(
            name=self.name,
            kind=self.kind,
            metrics=triplet_accuracy(right),
            main="accuracy",
            items=len(self),
            truncated=truncated,
            seconds=perf_counter() - started,
            resampled=_share_of_drawn(right[Similarity.COSINE], np.array(self.rows, dtype=np.int64)),
            details={"triplets": len(self.triplets), "rows": len(self)},
        )


def _share_of_drawn(
    right: NDArray[np.bool_], rows: NDArray[np.int64]
) -> Callable[[NDArray[np.int64]], float]:
    """Give the share of right triplets, (triplets,), over drawn rows with all the triplets of each."""
    sizes, rights = np.bincount(rows), np.bincount(rows, weights=right)
    return lambda drawn: float(rights[drawn].sum() / sizes[drawn].sum())
