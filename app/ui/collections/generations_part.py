"""The generations of a collection: which answers, how each was chosen, and what can be done."""

import streamlit as st

from nearsay.app.ui.collections.contract_form import show_contract_form
from nearsay.app.ui.collections.generation_rows import (
    candidate_rows,
    check_sentence,
    generation_row,
    gpu_rows,
)
from nearsay.app.ui.collections.pareto_chart import pareto_chart
from nearsay.app.ui.collections.rollout_forms import show_rollout
from nearsay.app.ui.collections.upkeep_forms import show_upkeep
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.plans.plan import EXACT_UP_TO, Plan, PlanKind
from nearsay.indexer.writing.overview import CollectionOverview

__all__ = ["show_generations"]


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
