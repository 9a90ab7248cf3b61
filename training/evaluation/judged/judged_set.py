"""What every judged set can do."""

from collections.abc import Iterable
from typing import Protocol, Self

from nearsay.training.evaluation.encoded_texts import Progress
from nearsay.training.evaluation.judged.kind import EvaluationKind
from nearsay.training.evaluation.judged.outcome import Outcome
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["JudgedSet", "evaluate_judged_set"]


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


def evaluate_judged_set(
    encoder: TextEncoder, judged: JudgedSet, *, progress: Progress | None = None
) -> Outcome:
    """Measure an encoder on a judged set.

    progress: called with texts encoded and texts in all
    Raises BadInputError where the set's figures are not defined, as for one pair alone.
    """
    return judged.measure(encoder, progress)
