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


@pytest.mark.parametrize(
    ("items", "verdict"), [(1, "no clear change"), (5, "no clear change"), (6, "better")]
)
def test_a_handful_of_items_that_all_changed_one_way_may_be_chance(items: int, verdict: str) -> None:
    # Five coins show one side in 2 / 2^5 = 6 % of cases, six in 3 %.
    change = JudgedChange("dev", EvaluationKind.RETRIEVAL, "ndcg_at_10", items, 0.5, 1.0, 0.5, 0.5)
    assert change.verdict == verdict
