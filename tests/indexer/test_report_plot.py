"""The picture of a plan's report."""

from pathlib import Path

import pytest
from matplotlib import image

from nearsay.data.errors import BadInputError
from nearsay.indexer.plans.plan import Measured, Plan, PlanKind
from nearsay.indexer.writing.report_plot import front, pareto_figure, plot_report


def row(kind: PlanKind, recall: float | None, milliseconds: float | None, verdict: str = "") -> Measured:
    return Measured(kind, recall=recall, milliseconds_a_query=milliseconds, bytes=1_000_000, verdict=verdict)


EXACT = row(PlanKind.EXACT, 1.0, 20.0)
BYTES = row(PlanKind.IVF_SQ8, 0.96, 0.3, "taken")
LISTS = row(PlanKind.IVF, 0.955, 0.5)
ROUGH = row(PlanKind.IVF_PQ, 0.9, 0.1)
LARGE = row(PlanKind.FLAT_FP16, None, None, "not built")
PLAN = Plan(PlanKind.IVF_SQ8, report=(EXACT, LISTS, ROUGH, BYTES, LARGE), measured_at=100)


def test_the_front_holds_what_nothing_beats_in_both() -> None:
    assert front(PLAN.report) == [ROUGH, BYTES, EXACT]
    assert front([LISTS, LISTS]) == [LISTS]
    assert front([LARGE]) == []
    same_time = row(PlanKind.IVF, 0.99, 0.5)
    assert front([LISTS, same_time]) == [same_time]


def test_the_picture_names_every_candidate_the_contract_and_the_choice() -> None:
    figure = pareto_figure(PLAN, "papers")
    (axes,) = figure.axes
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == [
        "exact, 1 MB",
        "ivf, 1 MB",
        "ivf-pq, 1 MB",
        "ivf-sq8, 1 MB",
        "Pareto front",
        "recall 0.95@10",
        "taken: ivf-sq8, 0.3 ms",
    ]
    assert (figure.get_suptitle(), axes.get_ylabel(), axes.get_xscale()) == ("papers", "recall at 10", "log")


@pytest.mark.long
def test_the_picture_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "plan.png"
    plot_report("papers", PLAN, path)
    assert image.imread(path).shape[2] in {3, 4}
    plot_report("papers", PLAN, tmp_path / "plan.svg")
    assert "<svg" in (tmp_path / "plan.svg").read_text()
    assert sorted(place.name for place in tmp_path.iterdir()) == ["plan.png", "plan.svg"]


def test_another_ending_and_a_plan_without_a_report_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"'plan\.gif'.*\.png, \.svg"):
        plot_report("papers", PLAN, tmp_path / "plan.gif")
    with pytest.raises(BadInputError, match="nothing to plot"):
        plot_report("papers", Plan(), tmp_path / "plan.png")
    assert list(tmp_path.iterdir()) == []
