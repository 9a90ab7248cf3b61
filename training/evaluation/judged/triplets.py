"""Triplets as a judged set."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import ClassVar, Self

import numpy as np

from nearsay.training.evaluation.encoded_texts import Progress, encoded_texts
from nearsay.training.evaluation.judged.drawing import drawn_note, drawn_rows
from nearsay.training.evaluation.judged.kind import EvaluationKind
from nearsay.training.evaluation.judged.outcome import Outcome, mean_of_drawn
from nearsay.training.evaluation.triplet_accuracy import right_triplets, triplet_accuracy
from nearsay.training.evaluation.vector_similarity import Similarity
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["TripletSet"]


@dataclass(frozen=True, slots=True)
class TripletSet:
    """Anchor, positive, negative; the share whose positive is nearer by the cosine decides."""

    kind: ClassVar = EvaluationKind.TRIPLETS
    name: str
    triplets: tuple[tuple[str, str, str], ...]  # anchor, positive, negative
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.triplets)

    def texts(self) -> Iterator[str]:
        """The three of each triplet."""
        for triplet in self.triplets:
            yield from triplet

    def held_out(self) -> Iterator[tuple[str, str, str]]:
        """The triplets."""
        return iter(self.triplets)

    def limited(self, most: int, seed: int) -> Self:
        """At most so many of its triplets."""
        rows = drawn_rows(len(self), most, seed)
        if len(rows) == len(self):
            return self
        note = drawn_note(self.name, len(rows), len(self), seed)
        return replace(self, triplets=tuple(self.triplets[row] for row in rows), notes=(*self.notes, note))

    def measure(self, encoder: TextEncoder, progress: Progress | None = None) -> Outcome:
        """As `right_triplets`; every text is encoded as a passage, as triplets are of one kind of text."""
        started = perf_counter()
        texts = list(self.texts())
        vectors, truncated = encoded_texts(
            encoder, texts, listener=None if progress is None else lambda done: progress(done, len(texts))
        )
        right = right_triplets(vectors[::3], vectors[1::3], vectors[2::3])
        return Outcome(
            name=self.name,
            kind=self.kind,
            metrics=triplet_accuracy(right),
            main="accuracy",
            items=len(self),
            truncated=truncated,
            seconds=perf_counter() - started,
            resampled=mean_of_drawn(right[Similarity.COSINE].astype(np.float64)),
            details={"triplets": len(self)},
        )
