"""The curves of a training."""

from itertools import pairwise

import pytest

from nearsay.app.ui.jobs.page import CurvePoint, curves


def test_losses_scores_rate_and_speed_are_drawn_apart():
    lines = [
        {"step": 1, "loss": 2.0, "mlm_loss": 1.5, "mlm_accuracy": 0.1, "learning_rate": 0.0, "tokens": 9},
        {"step": 2, "loss": 1.0, "mlm_loss": 0.5, "mlm_accuracy": 0.2, "tokens_per_second": 50.0},
    ]
    found = {curve.title: curve for curve in curves(lines)}
    assert list(found) == ["Loss", "Score", "Learning rate", "Tokens a second"]
    assert found["Loss"].series == ("loss", "mlm loss")
    assert found["Score"].points == (
        CurvePoint(1, 0.1, "mlm accuracy", held_out=False),
        CurvePoint(2, 0.2, "mlm accuracy", held_out=False),
    )


def test_what_the_dev_set_says_is_a_line_of_its_own():
    lines = [{"step": 1, "loss": 2.0}, {"step": 1, "evaluation": {"mlm_loss": 3.0, "sts_score": 0.8}}]
    loss, score = curves(lines)
    assert loss.series == ("loss", "dev mlm loss")
    assert score.points == (CurvePoint(1, 0.8, "dev sts score", held_out=True),)


def test_lines_that_are_damaged_are_left_out():
    lines = [{"loss": 1.0}, {"step": 1, "loss": None}, {"step": 2, "loss": "much"}, {"step": 3, "loss": 4}]
    (loss,) = curves(lines)
    assert loss.points == (CurvePoint(3, 4.0, "loss", held_out=False),)
    assert curves([]) == []


@pytest.mark.parametrize("count", [1_000, 1_001, 25_003])
def test_a_long_line_is_thinned_and_keeps_its_end(count):
    (loss,) = curves([{"step": step, "loss": 1.0} for step in range(1, count + 1)])
    assert len(loss.points) <= 1_000
    assert loss.points[-1].step == count
    steps = [point.step for point in loss.points]
    assert len({after - before for before, after in pairwise(steps)}) == 1
