"""What came of training a sentence encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nearsay.data.document import JsonValue
from nearsay.training.evaluation.judged.bootstrap import Interval
from nearsay.training.evaluation.judged.outcome import Outcome

__all__ = ["Change", "SentenceResult"]


@dataclass(frozen=True, slots=True)
class Change:
    """One evaluation, of the base and of what was made of it."""

    before: Outcome
    after: Outcome
    difference: Interval  # of after less before, at 95 %: over items drawn anew, for this one training

    @property
    def gained(self) -> float:
        """After less before; above 0 is better."""
        return self.after.figure - self.before.figure

    @property
    def verdict(self) -> str:
        """Whether it was worth it, in a word."""
        if not self.difference.excludes_zero:
            return "no clear change"
        return "better" if self.difference.low > 0 else "worse"

    def to_json(self) -> dict[str, JsonValue]:
        """Give the figures for result.json."""
        return {
            "set": self.after.name,
            "kind": str(self.after.kind),
            "figure": self.after.main,
            "items": self.after.items,
            "before": self.before.figure,
            "after": self.after.figure,
            "difference_low": self.difference.low,
            "difference_high": self.difference.high,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class SentenceResult:
    """How a run ended."""

    finished: bool  # False: it was asked to stop, and the same call goes on
    seconds: float  # of training, over all its stops
    steps: int = 0
    stopped_early: bool = False  # the dev figure did not get better any more
    pairs_per_second: float = 0.0  # rows learned from
    training: Mapping[str, float] = field(default_factory=dict)  # over the last steps
    dev: Mapping[str, float] = field(default_factory=dict)  # of the weights that were kept
    base_dev: Mapping[str, float] = field(default_factory=dict)  # of what the run began with
    changes: Sequence[Change] = ()  # the requested evaluations, before and after
    leads: bool = True  # whether this is the process, of several, that measured and wrote
