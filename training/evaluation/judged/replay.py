"""What an encoder must not forget: general sets that come with nearsay, measured before and after."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from nearsay.data import samples
from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.training.evaluation.judged.bootstrap import bootstrap_difference
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.evaluation.judged.judged_set import EvaluationKind, JudgedSet, evaluate_judged_set
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.sentence.text_encoder import Progress, VectorEncoder

_MOST_LOST: Final = 0.01  # that a set may lose; correlations count in points of 100


@dataclass(frozen=True, slots=True)
class Replayed:
    """A general set, by one encoder and by another."""

    name: str  # the set's
    before: float  # its figure: nDCG@10, or a correlation times 100
    after: float
    low: float  # of the difference's bootstrap interval at 95 %, after less before
    high: float
    held: bool  # it lost no more than it may

    def __str__(self) -> str:
        """The figures, in a few words."""
        return f"{self.name} {self.after:.3f} against {self.before:.3f}: {self.after - self.before:+.3f}"


def general_sets() -> list[JudgedSet]:
    """The samples' scored pairs and their search."""
    return [
        read_judged_set(samples.sample_file("scored-pairs"), name="general pairs"),
        general_search(),
    ]


def general_search() -> RetrievalJudgedSet:
    """The samples' search, of which alone an encoder of queries can lose anything."""
    return RetrievalJudgedSet("general search", read_retrieval_set(samples.folder()))


def held(kind: EvaluationKind, gained: float) -> bool:
    """Whether a set lost no more than .01, or a correlation no more than 1 point."""
    return gained >= -_MOST_LOST * (100 if kind is EvaluationKind.STS else 1)


def replay(
    before: VectorEncoder,
    after: VectorEncoder,
    sets: Sequence[JudgedSet] | None = None,
    progress: Progress | None = None,
) -> tuple[Replayed, ...]:
    """Measure two encoders on general sets; None = all of `general_sets`.

    progress: of each encoder on each set, see `evaluate_judged_set`
    """
    found = []
    for judged in general_sets() if sets is None else sets:
        one, other = (evaluate_judged_set(encoder, judged, progress=progress) for encoder in (before, after))
        difference, gained = bootstrap_difference(one, other), other.figure - one.figure
        found.append(
            Replayed(
                judged.name,
                round(one.figure, 4),
                round(other.figure, 4),
                round(difference.low, 4),
                round(difference.high, 4),
                held(judged.kind, gained),
            )
        )
    return tuple(found)
