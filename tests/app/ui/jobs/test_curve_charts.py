"""A training's curves, drawn."""

import pytest

from nearsay.app.ui.jobs.page import _chart, curves


@pytest.mark.parametrize("count", [3, 500])
def test_every_line_is_named_however_long_it_is(count):
    lines = [{"step": step, "loss": 2.0, "mlm_loss": 1.0} for step in range(count)]
    drawn = _chart(curves(lines)["Loss"]).to_dict()
    line, dots = drawn["layer"]
    assert line["encoding"]["color"]["scale"]["domain"] == ["loss", "mlm loss"]
    assert dots["encoding"]["shape"]["scale"]["domain"] == ["loss", "mlm loss"]
    assert len(drawn["data"].get("values", [])) in (0, 2 * count)
    assert ("transform" in dots) == (count == 500)  # long lines are not dotted


def test_one_line_alone_needs_no_legend_and_small_numbers_have_an_exponent():
    lines = [{"step": step, "learning_rate": 1e-5 * step} for step in range(3)]
    line, _ = _chart(curves(lines)["Learning rate"]).to_dict()["layer"]
    assert line["encoding"]["color"]["legend"] is None
    assert line["encoding"]["y"]["axis"]["format"] == ".1e"
