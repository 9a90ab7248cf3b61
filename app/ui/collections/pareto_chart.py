"""The picture of how a plan was chosen: recall over the time of a query, for each candidate."""

from typing import Any, Final

from nearsay.indexer.plans.plan import Measured, Plan
from nearsay.indexer.writing.report_plot import front

__all__ = ["pareto_chart", "pareto_points"]

_GREY: Final = "#8a8f98"  # is seen on light and on dark
_TOOLTIP: Final = (
    {"field": "kind", "title": "candidate"},
    {"field": "setting", "title": "searched"},
    {"field": "recall", "type": "quantitative", "format": ".4f"},
    {"field": "milliseconds", "type": "quantitative", "format": ".3f"},
    {"field": "verdict"},
)


def pareto_points(plan: Plan) -> list[dict[str, Any]]:
    """A point for each measured setting, with whether nothing is better in both and whether it was taken."""
    best = front(plan.report)
    drawn = [row for row in plan.report if row.recall is not None and row.milliseconds_a_query is not None]
    return [
        {
            "kind": _name(row),
            "recall": row.recall,
            "milliseconds": row.milliseconds_a_query,
            "setting": ", ".join(f"{name} {value}" for name, value in row.parameters.items()),
            "front": row in best,
            "verdict": row.verdict,
            "taken": row.verdict == "taken",
        }
        for row in drawn
    ]


def pareto_chart(plan: Plan) -> dict[str, Any] | None:
    """The picture as Vega-Lite draws it, in the colours of the page's theme; None if nothing was measured.

    Shapes tell the kinds of index as well as colours do. https://vega.github.io/vega-lite/docs/
    """
    points = pareto_points(plan)
    if not points:
        return None
    times = [point["milliseconds"] for point in points]
    lowest = min([plan.contract.recall, *(point["recall"] for point in points)])
    x = {
        "field": "milliseconds",
        "type": "quantitative",
        "title": "milliseconds a query (log)",
        "scale": {"type": "log", "nice": False, "domain": [0.7 * min(times), 1.4 * max(times)]},
    }
    scale = {"domain": [max(0.0, lowest - 0.02), 1.005], "zero": False, "clamp": True}
    y = {
        "field": "recall",
        "type": "quantitative",
        "title": f"recall at {plan.contract.at}",
        "scale": scale,
    }
    legend = {"orient": "bottom", "columns": 1, "title": None, "labelLimit": 260}
    kind = {"field": "kind", "type": "nominal", "legend": legend}
    place = {"x": x, "y": y, "tooltip": list(_TOOLTIP)}
    looks = place | {"color": kind, "shape": kind}
    return {
        "data": {"values": points},
        "height": 480,
        "layer": [
            {
                "transform": [{"filter": "datum.front"}],
                "mark": {"type": "line", "interpolate": "step-after", "strokeDash": [2, 3], "color": _GREY},
                "encoding": {"x": x, "y": y, "order": {"field": "milliseconds", "type": "quantitative"}},
            },
            {"mark": {"type": "point", "filled": False, "size": 60}, "encoding": looks},
            {
                "transform": [{"filter": "datum.front"}],
                "mark": {"type": "point", "filled": True, "size": 90},
                "encoding": looks,
            },
            {
                "transform": [{"filter": "datum.taken"}],
                "mark": {
                    "type": "point",
                    "shape": "circle",
                    "size": 420,
                    "strokeWidth": 2,
                    "color": "#D55E00",
                },
                "encoding": place,
            },
            {
                "data": {"values": [{"promised": plan.contract.recall}]},
                "mark": {"type": "rule", "strokeDash": [6, 4], "color": _GREY},
                "encoding": {"y": {"field": "promised", "type": "quantitative", "scale": scale}},
            },
        ],
    }


def _name(row: Measured) -> str:
    how = ", ".join(f"{name} {value}" for name, value in row.shape.items())
    return str(row.kind) + (f" ({how})" if how else "") + (", in its file" if row.mapped else "")
