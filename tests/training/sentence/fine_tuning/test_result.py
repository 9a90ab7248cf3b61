"""Whether a training was worth it."""

import pytest

from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.evaluation.judged.reports import JudgedChange


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
    change = JudgedChange("dev", EvaluationKind.STS, "spearman", 10, 80.0, 81.0, low, high)
    assert change.gained == 1.0
    assert change.verdict == verdict
