"""The generations of a collection: which answers, how each was chosen, and what can be done."""

from typing import Any, Final

import streamlit as st

from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.collections.rollout_forms import (
    candidate_rows,
    check_sentence,
    generation_row,
    gpu_rows,
    show_rollout,
    show_upkeep,
)
from nearsay.app.ui.errors import say_error
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import show_command
from nearsay.data.errors import NearsayError
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.plans.plan import EXACT_UP_TO, Measured, Plan, PlanKind, RecallContract, memory_text
from nearsay.indexer.writing.overview import CollectionOverview
from nearsay.indexer.writing.report_plot import front

__all__ = [
    "show_generations",
]


def tune_arguments(collection: str, recall: float, at: int, memory: str) -> list[str]:
    """What stands behind `nearsay`; BadInputError for a contract that cannot be."""
    share, limit = f"{recall:g}@{at}", memory.strip().replace(" ", "") or "none"
    RecallContract.parse(share, limit)
    return ["index", "tune", "--recall", share, "--memory", limit, "--", collection]


def show_contract_form(visit: Visit, found: CollectionOverview) -> None:
    """Ask what it has to keep, and measure the indexes."""
    contract = Plan.from_json({} if found.live is None else found.live.plan).contract
    with st.expander("Tune: the fastest index that keeps a contract", icon=":material/speed:"):
        if found.passages <= EXACT_UP_TO:
            st.caption(
                f"Up to about {EXACT_UP_TO:,} passages, {found.passages:,} here, comparing all of them takes "
                "milliseconds, and an index is measured only if you ask for it here. The contract holds from "
                "then on, however large the collection grows."
            )
        with st.form(f"tune-{found.name}", border=False), st.container(horizontal=True):
            recall = st.number_input(
                "Recall",
                min_value=min(0.5, contract.recall),  # a command may have said less
                max_value=1.0,
                value=contract.recall,
                step=0.01,
                format="%.3f",
                help="The share of the truly nearest passages that a search has to find, on average.",
                width=160,
            )
            at = st.number_input(
                "of the nearest",
                min_value=1,
                max_value=100,
                value=contract.at,
                help="How many of the nearest passages count.",
                width=160,
            )
            memory = st.text_input(
                "Memory",
                "none" if contract.memory_bytes is None else memory_text(contract.memory_bytes),
                help="The most that the index may hold in memory, as 2GB or 512MB; none is no limit.",
                width=160,
            )
            sent = st.form_submit_button("Measure and choose", icon=":material/speed:")
        try:
            arguments = tune_arguments(found.name, recall, int(at), memory)
        except NearsayError as error:  # what stands below the form stays
            say_error(error)
            return
        if sent:
            start(visit, arguments, f"Tune {found.name}")
        show_command(visit, arguments)


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


def show_generations(visit: Visit) -> None:
    """The table, the plan of one with its report, and the forms."""
    if visit.name is None:
        st.info("Choose a collection in the sidebar.")
        return
    collection = visit.collection
    found = collection.overview()
    st.subheader(f"Generations of {as_markdown(found.name)}", anchor=False)
    st.caption(
        "A generation is the collection embedded by one encoder under one plan. One is live and answers; "
        "another can be made beside it, tried on the page Compare, promoted, and rolled back."
    )
    if not found.generations:
        st.info("There is none yet: nothing was added.")
    else:
        st.dataframe(
            [generation_row(row, found.segments) for row in found.generations],
            hide_index=True,
            height="content",
        )
        _show_plan(found)
    if not visit.may_write:
        return
    if found.live is not None:
        show_rollout(visit, collection, found)
        show_contract_form(visit, found)
    show_upkeep(visit, collection, found)


def _show_plan(found: CollectionOverview) -> None:
    rows = list(found.generations)
    chosen = found.live or rows[-1]
    if len(rows) > 1:
        chosen = st.selectbox(
            "Plan of generation",
            rows,
            index=rows.index(chosen),
            key=f"plan-{found.name}",
            format_func=lambda row: f"{row.number}, {row.state}, {row.encoder.name}",
        )
    with st.container(border=True):
        _plan_of(found, chosen)


def _plan_of(found: CollectionOverview, row: GenerationRow) -> None:
    plan = Plan.from_json(row.plan)
    st.markdown(f"**Plan of generation {row.number}**: {plan.kind}, {as_markdown(str(plan.contract))}")
    if plan.kind is PlanKind.EXACT and not plan.report:
        st.caption(
            f"Every vector is compared, so nothing is missed. Up to about {EXACT_UP_TO:,} passages that "
            "takes milliseconds. Above that *Index*, below, measures kinds of index and takes the fastest "
            "that keeps the contract."
        )
    warning = plan.warning(found.name)
    if warning is not None:
        st.warning(as_markdown(warning), icon=":material/warning:")
    elif (said := check_sentence(plan)) is not None:
        st.success(as_markdown(said), icon=":material/check_circle:")
    if plan.note:
        st.caption(as_markdown(plan.note))
    if not plan.report:
        return
    st.caption(as_markdown(f"Measured at {plan.measured_at:,} passages with {plan.evidence}."))
    chart = pareto_chart(plan)
    if chart is not None:
        st.vega_lite_chart(chart, width="stretch")
        st.caption(
            "Each point is a setting that was tried: higher finds more, further left is faster. Filled: "
            "nothing is better in both. Dashed: what was promised. In the circle: what was taken."
        )
    st.dataframe(
        candidate_rows(plan),
        hide_index=True,
        height="content",
        column_config={"verdict": st.column_config.TextColumn(width="medium")},
    )
    if plan.gpu is not None:
        st.caption("On GPUs:" if not plan.gpu.reason else as_markdown(f"On GPUs: {plan.gpu.reason}"))
        if plan.gpu.rows:
            st.dataframe(
                gpu_rows(plan),
                hide_index=True,
                height="content",
                column_config={"verdict": st.column_config.TextColumn(width="medium")},
            )
