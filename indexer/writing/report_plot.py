"""The picture of each generation's report, beside the library's segments."""

from pathlib import Path

from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.plans.pareto import write_pareto_plot
from nearsay.indexer.plans.plan import Plan
from nearsay.indexer.writing.overview import CollectionOverview

__all__ = ["keep_report_plot", "plot_live", "plot_report", "report_plot", "report_plots"]


def report_plot(store: Store, collection_id: int, generation: int) -> Path:
    """Where the picture of a generation's report is, if it was measured."""
    return store.reports(collection_id) / f"{generation}.png"


def report_plots(store: Store, found: CollectionOverview) -> dict[int, Path]:
    """The pictures that are there, by the number of their generation."""
    places = {row.number: report_plot(store, row.collection_id, row.number) for row in found.generations}
    return {number: path for number, path in places.items() if path.exists()}


def plot_live(found: CollectionOverview, path: Path) -> None:
    """Draw how the live generation's plan was chosen; BadInputError if nothing was measured."""
    plan = Plan() if found.live is None else Plan.from_json(found.live.plan)
    plot_report(found.name, plan, path)


def plot_report(collection: str, plan: Plan, path: Path) -> None:
    """Write the picture to a file, .png or .svg; BadInputError if nothing was measured."""
    title = f"{collection}: {plan.measured_at:,} passages, {plan.evidence}"
    write_pareto_plot(plan, title, path)


def keep_report_plot(store: Store, collection: CollectionRow, generation: int, plan: Plan) -> Path:
    """Write the picture to its place in the library; the path."""
    path = report_plot(store, collection.id, generation)
    plot_report(collection.name, plan, path)
    return path
