"""A run that no longer gets better is ended."""

import math

import pytest

from nearsay.training.run.loop import Patience


def ended_after(figures: list[float], most: int | None) -> int | None:
    patience = Patience("score", most)
    for count, figure in enumerate(figures, 1):
        patience.count({"score": figure})
        if patience.ended:
            return count
    return None


@pytest.mark.parametrize(
    ("figures", "most", "expected"),
    [
        ([0.5, 0.4, 0.3], 2, 3),  # two in a row without a new best
        ([0.5, 0.4, 0.6, 0.5, 0.5], 2, 5),  # the third begins the count anew
        ([0.5, 0.5], 1, 2),  # as good is not better
        ([0.5, math.nan], 1, 2),
        ([0.1, 0.2, 0.3, 0.4], 1, None),
        ([0.5, 0.4, 0.3, 0.2], None, None),  # without a limit it never ends
    ],
)
def test_it_ends_after_so_many_evaluations_without_a_new_best(
    figures: list[float], most: int | None, expected: int | None
) -> None:
    assert ended_after(figures, most) == expected


def test_evaluations_without_the_metric_do_not_count() -> None:
    patience = Patience("score", 1)
    patience.count({"other": 1.0})
    assert not patience.ended
