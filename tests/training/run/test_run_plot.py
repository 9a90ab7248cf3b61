"""A picture of a run's metrics."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib import image
from matplotlib.figure import Figure

from nearsay.training.run.run_plot import plot_run

LINES = [
    {"step": 1, "loss": 3.0, "mlm_accuracy": 0.1, "gradient_norm": 2.0, "tokens": 10},
    {"step": 2, "loss": 2.0, "mlm_accuracy": 0.3, "gradient_norm": 2.0, "tokens": 20},
    {"step": 2, "evaluation": {"loss": 2.5, "mlm_accuracy": 0.2, "perplexity": 12.0, "matthews": -0.4}},
]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved."""
    saved: list[Figure] = []
    real = Figure.savefig

    def save(figure: Figure, *arguments: object, **options: object) -> None:
        saved.append(figure)
        real(figure, *arguments, **options)  # type: ignore[arg-type]  # passed through

    monkeypatch.setattr(Figure, "savefig", save)
    return saved


def curves(figure: Figure, panel: int) -> dict[str, list[list[float]]]:
    return {
        str(line.get_label()): [list(line.get_xdata()), list(line.get_ydata())]
        for line in figure.axes[panel].lines
    }


def test_losses_are_on_the_left_and_shares_on_the_right(tmp_path: Path, figures: list[Figure]) -> None:
    plot_run(LINES, tmp_path / "plot.png", title="A run")
    (figure,) = figures
    assert curves(figure, 0) == {"loss": [[1, 2], [3.0, 2.0]], "loss, evaluated": [[2], [2.5]]}
    assert curves(figure, 1) == {
        "mlm accuracy": [[1, 2], [0.1, 0.3]],
        "mlm accuracy, evaluated": [[2], [0.2]],
        "matthews, evaluated": [[2], [-0.4]],
    }
    assert [panel.get_xlabel() for panel in figure.axes] == ["step", "step"]
    assert figure.axes[1].get_ylim()[0] <= -0.4  # a correlation below 0 is seen, too
    colours = [line.get_color() for line in figure.axes[0].lines]
    assert colours[0] == colours[1]


def test_the_file_is_a_picture_with_something_in_both_halves(tmp_path: Path) -> None:
    plot_run(LINES, tmp_path / "plot.png", title="A run")
    picture = image.imread(tmp_path / "plot.png")
    assert picture.shape[:2] == (480, 1200)
    for half in np.split(picture[..., :3], 2, axis=1):
        coloured = half.max(axis=2) - half.min(axis=2) > 0.2  # axes, grid and text are grey
        assert coloured.sum() > 100


def test_shares_begin_at_nothing(tmp_path: Path, figures: list[Figure]) -> None:
    plot_run(LINES[:2], tmp_path / "plot.png", title="A run")
    assert figures[0].axes[1].get_ylim()[0] == 0.0


@pytest.mark.parametrize("lines", [[], LINES[:1], LINES[2:], [{"step": 1, "loss": None, "accuracy": 0.5}]])
def test_a_run_of_few_lines_is_drawn_too(tmp_path: Path, lines: list[dict[str, object]]) -> None:
    plot_run(lines, tmp_path / "plot.png", title="A run")  # type: ignore[arg-type]  # JSON values
    assert image.imread(tmp_path / "plot.png").shape[:2] == (480, 1200)
