"""What every judged set can do."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.encoded_texts import Progress
from nearsay.training.evaluation.judged.kind import EvaluationKind
from nearsay.training.evaluation.judged.outcome import Outcome
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["JudgedSet", "PairScorer", "PairwiseSet", "evaluate_judged_set", "pairwise", "scores_of_pairs"]

_SCORED_AT_ONCE: Final = 1024  # pairs between two calls of the listener


class JudgedSet(Protocol):
    """Texts with people's judgements, and how an encoder is measured on them."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def kind(self) -> EvaluationKind:
        """What it asks of an encoder."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user: what was guessed, left out, or learned from what."""

    def __len__(self) -> int:
        """Items that are judged."""

    def texts(self) -> Iterable[str]:
        """Every text that the figure is measured on; not those it may learn from."""

    def held_out(self) -> Iterable[str | tuple[str, ...]]:
        """What no encoder may have been trained on: texts judged together as one, others alone.

        A row of one text gives the set away beside whatever it stands, as `find_leaks` has it.
        """

    def limited(self, most: int, seed: int) -> Self:
        """A set of at most so many of its items, drawn by chance, for a quick look; a note says so."""

    def measure(self, encoder: TextEncoder, progress: Progress | None = None) -> Outcome:
        """Measure an encoder; `progress` is called with texts encoded and texts in all."""


@runtime_checkable
class PairScorer(Protocol):
    """A model that reads two texts together: a cross-encoder."""

    @property
    def name(self) -> str:
        """What people call it."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Give each pair its score, (pairs,); higher fits better."""

    def cut(self, pairs: Sequence[tuple[str, str]]) -> int:
        """Count the pairs that are cut at the length limit."""


@runtime_checkable
class PairwiseSet(Protocol):
    """A judged set that needs scores of pairs alone, so that a cross-encoder can be measured on it, too."""

    def measure_pairs(self, scorer: PairScorer, progress: Progress | None = None) -> Outcome:
        """Measure a cross-encoder; `progress` is called with pairs scored and pairs in all."""


def evaluate_judged_set(
    encoder: TextEncoder | PairScorer, judged: JudgedSet, *, progress: Progress | None = None
) -> Outcome:
    """Measure an encoder, or a cross-encoder, on a judged set.

    progress: called with texts (or pairs) done and texts (or pairs) in all
    Raises BadInputError where the set's figures are not defined, as for one pair alone, and for a
    cross-encoder on a set that compares vectors.
    """
    if not isinstance(encoder, PairScorer):
        return judged.measure(encoder, progress)
    return pairwise(judged, encoder.name).measure_pairs(encoder, progress)


def pairwise(judged: JudgedSet, name: str) -> PairwiseSet:
    """Give the set as one that a cross-encoder can be measured on; BadInputError if it is none."""
    if not isinstance(judged, PairwiseSet):
        raise BadInputError(
            f"{judged.name} is a set of the kind {judged.kind}, which is measured by vectors, and the "
            f"cross-encoder {name} gives a score a pair. Name an encoder, or a set of the kind "
            "reranking, pairs, triplets or sts"
        )
    return judged


def scores_of_pairs(
    scorer: PairScorer, pairs: Sequence[tuple[str, str]], progress: Progress | None
) -> NDArray[np.float32]:
    """Score the pairs, (pairs,), and report how many are done."""
    found = [np.empty(0, dtype=np.float32)]
    for start in range(0, len(pairs), _SCORED_AT_ONCE):
        found.append(scorer.scores(pairs[start : start + _SCORED_AT_ONCE]))
        if progress is not None:
            progress(min(start + _SCORED_AT_ONCE, len(pairs)), len(pairs))
    return np.concatenate(found)
