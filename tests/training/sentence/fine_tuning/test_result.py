"""Whether a training was worth it."""

import pytest

from nearsay.training.evaluation.judged.bootstrap import Interval
from nearsay.training.evaluation.judged.judged_set import EvaluationKind, Outcome
from nearsay.training.sentence.fine_tuning.settings import Change


def outcome(figure: float) -> Outcome:
    return Outcome(
        name="dev",
        kind=EvaluationKind.STS,
        metrics={"spearman": figure},
        main="spearman",
        items=10,
        truncated=0,
        seconds=0.0,
        resampled=lambda _: figure,
    )


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.5, 2.0, "better"),
        (-2.0, -0.5, "worse"),
        (-0.5, 2.0, "no clear change"),
        (0.0, 1.0, "no clear change"),
    ],
)
def test_the_interval_of_the_difference_decides(low: float, high: float, verdict: str) -> None:
    change = Change(outcome(80.0), outcome(81.0), Interval(low, high))
    assert change.gained == 1.0
    assert change.verdict == verdict
    told = change.figures
    assert (told.before, told.after, told.verdict) == (80.0, 81.0, verdict)
    assert (told.difference_low, told.difference_high) == (low, high)
