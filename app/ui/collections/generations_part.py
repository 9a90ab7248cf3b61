"""The generations of a collection: which answers, how each was chosen, and what can be done."""

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from nearsay.app.jobs.results import built_words, generation_row, results_of, settings_words
from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.collections.rollout_forms import show_rollout, show_upkeep
from nearsay.app.ui.controls import on_page, pick
from nearsay.app.ui.errors import say_error
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import show_command
from nearsay.data.errors import NearsayError
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.plans.plan import EXACT_UP_TO, Plan, PlanKind, RecallContract, TunedPlan, memory_text
from nearsay.indexer.writing.overview import CollectionOverview
from nearsay.indexer.writing.report_plot import front

if TYPE_CHECKING:
    import altair as alt


def tune_arguments(collection: str, recall: float, at: int, memory: str) -> list[str]:
    """What stands behind `nearsay`; BadInputError for a contract that cannot be."""
    share, limit = f"{recall:g}@{at}", memory.strip().replace(" ", "") or "none"
    RecallContract.parse(share, limit)
    return ["index", "tune", "--recall", share, "--memory", limit, "--", collection]


def show_contract_form(visit: Visit, found: CollectionOverview) -> None:
    """Ask what it has to keep, and measure the indexes."""
    contract = Plan.from_json({} if found.live is None else found.live.plan).contract
    with st.expander("Tune: the smallest index that keeps a contract", icon=":material/speed:"):
        if found.passages <= EXACT_UP_TO:
            st.caption(
                f"Up to about {EXACT_UP_TO:,} passages, {found.passages:,} here, comparing all of them takes "
                "milliseconds, and an index is measured only if you ask for it here. The contract holds from "
                "then on, however large the collection grows."
            )
        with (
            st.form(f"tune-{found.name}", border=False),
            st.container(horizontal=True, vertical_alignment="bottom"),
        ):
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


_PLOT_HEIGHT, _LEGEND_LINE = 380, 26  # pixels: of the plot and its axes, and of each kind below
_GREY: Final = "#8a8f98"  # is seen on light and on dark


def pareto_points(plan: Plan) -> list[dict[str, Any]]:
    """A point for each measured setting, with whether nothing is better in both and whether it was taken."""
    best = front(plan.report)
    drawn = [row for row in plan.report if row.recall is not None and row.milliseconds_a_query is not None]
    return [
        {
            "kind": built_words(row.kind, row.shape),
            "recall": row.recall,
            "milliseconds": row.milliseconds_a_query,
            "setting": settings_words(row.parameters),
            "front": row in best,
            "verdict": row.verdict,
            "taken": row.verdict == "taken",
        }
        for row in drawn
    ]


def pareto_chart(plan: Plan) -> "alt.LayerChart | alt.FacetChart | None":
    """The picture, in the colours of the page's theme; None if nothing was measured.

    Shapes tell the kinds of index as well as colours do.
    """
    points = pareto_points(plan)
    if not points:
        return None
    import altair as alt

    times = [point["milliseconds"] for point in points]
    lowest = min([plan.contract.recall, *(point["recall"] for point in points)])
    log = alt.Scale(type="log", nice=False, domain=[0.7 * min(times), 1.4 * max(times)])
    scale = alt.Scale(domain=[max(0.0, lowest - 0.02), 1.005], zero=False, clamp=True)
    base = alt.Chart(alt.InlineData(points)).encode(
        x=alt.X("milliseconds:Q", title="milliseconds a query (log)", scale=log),
        y=alt.Y("recall:Q", title=f"recall at {plan.contract.at}", scale=scale),
        tooltip=[
            alt.Tooltip("kind:N", title="candidate"),
            alt.Tooltip("setting:N", title="searched"),
            alt.Tooltip("recall:Q", format=".4f"),
            alt.Tooltip("milliseconds:Q", format=".3f"),
            alt.Tooltip("verdict:N"),
        ],
    )
    legend = alt.Legend(orient="bottom", columns=1, title=None, labelLimit=260)
    height = _PLOT_HEIGHT + _LEGEND_LINE * len({point["kind"] for point in points})
    kinds = base.encode(color=alt.Color("kind:N", legend=legend), shape=alt.Shape("kind:N", legend=legend))
    line, best = (chart.transform_filter("datum.front") for chart in (base, kinds))
    promised = alt.Chart(alt.InlineData([{"promised": plan.contract.recall}]))
    return alt.layer(
        line.mark_line(interpolate="step-after", strokeDash=[2, 3], color=_GREY).encode(
            order="milliseconds:Q"
        ),
        kinds.mark_point(filled=False, size=60),
        best.mark_point(filled=True, size=90),
        base.transform_filter("datum.taken").mark_point(
            shape="circle", size=420, strokeWidth=2, color="#D55E00"
        ),
        promised.mark_rule(strokeDash=[6, 4], color=_GREY).encode(y=alt.Y("promised:Q", scale=scale)),
    ).properties(height=height)


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
        _show_plan(visit, found)
    if not visit.may_write:
        return
    if found.live is not None:
        show_rollout(visit, collection, found)
        show_contract_form(visit, found)
    show_upkeep(visit, found)


def _show_plan(visit: Visit, found: CollectionOverview) -> None:
    rows = list(found.generations)
    chosen = found.live or rows[-1]
    if len(rows) > 1:
        called = {row.number: f"{row.number}, {row.state}, {row.encoder.name}" for row in rows}
        key = f"plan-{found.name}-{chosen.number}"  # another that goes live is shown
        number = pick("Plan of generation", called, key, index=rows.index(chosen))
        chosen = next(row for row in rows if row.number == number)
    with st.container(border=True):
        _plan_of(visit, found, chosen)


def _plan_of(visit: Visit, found: CollectionOverview, row: GenerationRow) -> None:
    plan = Plan.from_json(row.plan)
    st.markdown(f"**Plan of generation {row.number}**: {plan.kind}, {as_markdown(str(plan.contract))}")
    if plan.kind is PlanKind.EXACT and not plan.report:
        index = visit.remedy(
            "Above that, *Index*, below, measures kinds of index and takes the smallest that keeps the "
            "contract."
        )
        st.caption(
            f"Every vector is compared, so nothing is missed. Up to about {EXACT_UP_TO:,} passages that "
            f"takes milliseconds.{index}"
        )
    measured = results_of([TunedPlan(found.name, plan)])
    warning, check = plan.warning(found.name), measured.facts.get("looked at again")
    if warning is not None:
        st.warning(as_markdown(on_page(warning)), icon=":material/warning:")
    elif check is not None:
        st.success(
            as_markdown(f"Looked at again {check}. The contract holds."), icon=":material/check_circle:"
        )
    if plan.note:
        st.caption(as_markdown(plan.note))
    if not plan.report:
        return
    st.caption(as_markdown(f"Measured at {plan.measured_at:,} passages with {plan.evidence}."))
    chart = pareto_chart(plan)
    if chart is not None:
        st.altair_chart(chart, width="stretch")
        st.caption(
            "Each point is a setting that was tried: higher finds more, further left is faster. Filled: "
            "nothing is better in both. Dashed: what was promised. In the circle: what was taken."
        )
    verdicts = {"verdict": st.column_config.TextColumn("verdict", width="large")}
    on_gpus = measured.facts.get("on GPUs", "")
    for place, rows in enumerate(measured.tables):
        if place:
            st.caption(as_markdown(f"On GPUs: {on_gpus}"))
        if rows:
            st.dataframe(rows, hide_index=True, height="content", column_config=verdicts)
