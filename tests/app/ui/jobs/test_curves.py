"""The curves of a training."""

from itertools import pairwise

import pytest

from nearsay.app.ui.jobs.page import curves


def series(points):
    return list(dict.fromkeys(point["series"] for point in points))


def test_losses_scores_rate_and_speed_are_drawn_apart():
    lines = [
        {"step": 1, "loss": 2.0, "mlm_loss": 1.5, "mlm_accuracy": 0.1, "learning_rate": 0.0, "tokens": 9},
        {"step": 2, "loss": 1.0, "mlm_loss": 0.5, "mlm_accuracy": 0.2, "tokens_per_second": 50.0},
    ]
    found = curves(lines)
    assert list(found) == ["Loss", "Score", "Learning rate", "Tokens a second"]
    assert series(found["Loss"]) == ["loss", "mlm loss"]
    assert found["Score"] == [
        {"step": 1, "value": 0.1, "series": "mlm accuracy", "held_out": False},
        {"step": 2, "value": 0.2, "series": "mlm accuracy", "held_out": False},
    ]


def test_what_the_dev_set_says_is_a_line_of_its_own():
    lines = [{"step": 1, "loss": 2.0}, {"step": 1, "evaluation": {"mlm_loss": 3.0, "sts_score": 0.8}}]
    found = curves(lines)
    assert series(found["Loss"]) == ["loss", "dev mlm loss"]
    assert found["Score"] == [{"step": 1, "value": 0.8, "series": "dev sts score", "held_out": True}]


def test_lines_that_are_damaged_are_left_out():
    lines = [{"loss": 1.0}, {"step": 1, "loss": None}, {"step": 2, "loss": "much"}, {"step": 3, "loss": 4}]
    assert curves(lines) == {"Loss": [{"step": 3, "value": 4.0, "series": "loss", "held_out": False}]}
    assert curves([]) == {}


@pytest.mark.parametrize("count", [1_000, 1_001, 25_003])
def test_a_long_line_is_thinned_and_keeps_its_end(count):
    (loss,) = curves([{"step": step, "loss": 1.0} for step in range(1, count + 1)]).values()
    steps = [point["step"] for point in loss]
    assert len(steps) <= 1_000
    assert steps[-1] == count
    assert len({after - before for before, after in pairwise(steps)}) == 1
