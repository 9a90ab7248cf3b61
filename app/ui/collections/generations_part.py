"""The generations of a collection: which is live, how each is indexed, and what can be done with them."""

from typing import TYPE_CHECKING, Any, Final

import streamlit as st

from nearsay.app.jobs.command_line import options_of
from nearsay.app.jobs.results import built_words, generation_row, results_of, settings_words
from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.controls import confirmed, on_page, pick
from nearsay.app.ui.errors import show_error, showing_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.offered import ask_encoder
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import offer_job, show_command
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.quantity import counted
from nearsay.indexer import Collection
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState
from nearsay.indexer.encoders import source_of
from nearsay.indexer.judgements.gate import QUERIES
from nearsay.indexer.plans.plan import EXACT_UP_TO, Plan, PlanKind, RecallContract, TunedPlan, memory_text
from nearsay.indexer.writing.overview import CollectionOverview
from nearsay.indexer.writing.report_plot import front

if TYPE_CHECKING:
    import altair as alt


def show_upkeep(visit: Visit, found: CollectionOverview) -> None:
    """Show the forms that index, compact and delete."""
    if found.live is not None:
        with st.expander("Index: fast searches of many passages", icon=":material/bolt:"):
            _index(visit, found)
    with st.expander("Compact: free the space of removed passages", icon=":material/compress:"):
        _compact(visit, found)
    with st.expander("Delete the collection", icon=":material/delete_forever:"):
        _delete(visit, found)


def _index(visit: Visit, found: CollectionOverview) -> None:
    st.caption(
        f"{counted(found.unindexed, 'passage')} without an index. Up to {EXACT_UP_TO:,} are compared one by "
        "one in milliseconds; for more, indexes are measured and one is built over all passages. Searches "
        "continue meanwhile."
    )
    newer = st.checkbox(
        "Only passages added since the last index",
        key=f"optimize-newer-{found.name}",
        help="If there is an index, index only the new passages, once they are a twentieth of it and at "
        "least 16,384. Faster.",
    )
    arguments = ["index", "optimize", *options_of({"newer": newer}), "--", found.name]
    key, icon = f"optimize-{found.name}", ":material/bolt:"
    offer_job(visit, "Index", arguments, f"Index {found.name}", key, icon, begin=start)


def _compact(visit: Visit, found: CollectionOverview) -> None:
    retired = [row for row in found.generations if row.state is GenerationState.RETIRED]
    st.caption(
        f"{counted(found.removed, 'removed passage')} still in segments. Small segments are merged; searches "
        "continue meanwhile."
    )
    drop = False
    if retired:
        numbers = ", ".join(str(row.number) for row in retired)
        drop = st.checkbox(
            f"Also delete retired generations ({numbers}): you cannot roll back to them",
            key=f"compact-drop-{found.name}",
        )
    arguments = ["index", "compact", *(["--drop-retired", "--yes"] if drop else []), "--", found.name]
    key, icon = f"compact-{found.name}", ":material/compress:"
    offer_job(visit, "Compact", arguments, f"Compact {found.name}", key, icon, begin=start)


def _delete(visit: Visit, found: CollectionOverview) -> None:
    st.markdown(
        f"This deletes {counted(found.documents, 'document')}, their vectors, clusters, the map and the "
        "judgements of results. It cannot be undone."
    )
    with st.form(f"delete-{found.name}", border=False):
        typed = st.text_input(f"Type its name to delete it: {as_markdown(found.name)}")
        sent = st.form_submit_button("Delete the collection", icon=":material/delete_forever:")
    if sent and typed.strip() != found.name:
        st.error("The name does not match; nothing was deleted.")
    elif sent:
        arguments = ["collections", "remove", "--yes", "--", found.name]
        start(visit, arguments, f"Delete the collection {found.name}")


def promotion_changes(
    live: GenerationRow | None, chosen: GenerationRow, waiting: int, refined: str | None = None
) -> list[str]:
    """Return what changes when a generation replaces the live one.

    waiting: number of passages that have no vector in it yet
    refined: how the live one's queries are refined
    """
    changes: list[str] = []
    if chosen.gate is not None and chosen.gate.get("forced"):
        changes.append(f"It did not pass the gate when it was promoted before: {chosen.gate['figures']}.")
    if live is not None:
        before, after = live.encoder, chosen.encoder
        if before.fingerprint != after.fingerprint:
            changes.append(
                f"Queries and passages are compared by {after.name} ({after.dimension} dimensions) "
                f"instead of {before.name} ({before.dimension} dimensions): results may change."
            )
        if before.max_tokens != after.max_tokens:
            were = "was" if chosen.truncated == 1 else "were"
            changes.append(
                f"The encoder reads {after.max_tokens} tokens of a passage instead of {before.max_tokens}; "
                f"{counted(chosen.truncated, 'passage')} {were} truncated."
            )
        one, other = Plan.from_json(live.plan), Plan.from_json(chosen.plan)
        if (one.kind, one.contract) != (other.kind, other.contract):
            changes.append(
                f"Its index is {other.kind} ({other.contract}) instead of {one.kind} ({one.contract})."
            )
        changes.append(
            f"Each generation has its own clusters and map: if generation {chosen.number} has none, create "
            f"them again. Those of generation {live.number} are kept with it."
        )
        if refined is not None:
            anew = chosen.state is not GenerationState.RETIRED  # a retired one keeps its own refinement
            changes.append(
                f"Improvements by judgements stay with generation {live.number}: {refined}."
                + " Improve again on the page Judge." * anew
            )
        changes.append(f"Generation {live.number} is kept as retired, so that you can roll back to it.")
    if waiting:
        are = "is" if waiting == 1 else "are"
        changes.append(f"{counted(waiting, 'passage')} without a vector in it {are} embedded first.")
    return changes


def show_rollout(visit: Visit, collection: Collection, found: CollectionOverview) -> None:
    """Offer to promote generations that are ready, to rebuild, repair and roll back."""
    live = found.live
    ready = [row for row in found.generations if row.state is GenerationState.READY]
    retired = [row for row in found.generations if row.state is GenerationState.RETIRED]
    if ready:
        _offer_promotion(visit, collection, ready, None if live is None else live.number)
    with st.expander("Rebuild with another encoder", icon=":material/model_training:", expanded=False):
        _ask_rebuild(visit, found)
    with st.expander("Repair the live generation", icon=":material/healing:"):
        st.caption(
            "Vectors and indexes that are damaged or missing are rebuilt from the stored text, and pending "
            "passages are embedded. Nothing changes if there is nothing to repair."
        )
        arguments = ["index", "rebuild", "--", found.name]
        key, icon = f"mend-{found.name}", ":material/healing:"
        offer_job(visit, "Repair", arguments, f"Repair {found.name}", key, icon, begin=start)
    if retired and live is not None:
        before = max(retired, key=lambda row: row.promotion or 0)
        label = f"Roll back to generation {before.number} …"
        if st.button(label, key=f"rollback-{found.name}", icon=":material/undo:"):
            _confirm(visit, collection, before, live.number, back=True)


def _offer_promotion(
    visit: Visit, collection: Collection, ready: list[GenerationRow], live: int | None
) -> None:
    for row in ready:
        with st.container(border=True):
            st.markdown(
                f"**Generation {row.number}**, embedded by {as_markdown(row.encoder.name)}, is ready. "
                "Compare its results with the live one's, then promote it."
            )
            with st.container(horizontal=True, vertical_alignment="center"):
                link_to("compare", "Compare", icon=":material/compare_arrows:", collection=collection.name)
                label = f"Promote generation {row.number} …"
                if st.button(label, key=f"promote-{collection.name}-{row.number}", icon=":material/upgrade:"):
                    _confirm(visit, collection, row, live, back=False)


def _ask_rebuild(visit: Visit, found: CollectionOverview) -> None:
    st.caption(
        "Every passage is embedded again into a new generation, while the live one answers. Nothing "
        "changes for searches until you promote the new one."
    )
    live = found.live
    source = ask_encoder(
        visit,
        key="rebuild_encoder",
        label="New encoder",
        without=None if live is None else source_of(live.encoder),
    )
    at_once = st.checkbox("Promote it as soon as it is ready", key="rebuild_promote")
    arguments = [
        *("index", "rebuild", "--encoder", source or "ENCODER"),
        *(["--promote"] if at_once else []),
        *("--", found.name),
    ]
    names = {each.source: each.name for each in visit.library.encoders.list()}
    title = f"Rebuild {found.name} with {names.get(source or '', source)}"
    label = f"Rebuild {counted(found.passages, 'passage')}"
    key, icon, shell = f"rebuild-{found.name}", ":material/play_arrow:", source is not None
    how = {"type": "primary", "disabled": source is None}
    offer_job(visit, label, arguments, title, key, icon, begin=start, shell=shell, **how)


@st.dialog("Change the live generation", icon=":material/layers:")
def _confirm(
    visit: Visit, collection: Collection, chosen: GenerationRow, live: int | None, *, back: bool
) -> None:
    """Ask before a promotion or rollback; live: number of the live generation when the button was clicked."""
    with showing_errors():
        found = collection.overview()
        if found.live is not None and found.live.number != live:  # the command would leave another one
            raise BadInputError(f"generation {found.live.number} went live meanwhile. Reload the page")
        what = "Roll back to" if back else "Promote"
        st.markdown(
            f"**{what} generation {chosen.number}** of {as_markdown(collection.name)}? This will change:"
        )
        refined = None if found.live is None else collection.browser.refined(found.live)
        for change in promotion_changes(found.live, chosen, collection.browser.waiting(chosen), refined):
            st.markdown(f"- {as_markdown(change)}")
        arguments = ["index", "rollback", "--", collection.name]
        if not back:
            force = st.checkbox(
                "Promote it even if it fails the gate",
                key=f"promote-force-{collection.name}-{chosen.number}",
                help=f"With {QUERIES} or more judged queries in the test part, it is measured first and "
                "promoted only if it is shown not to be worse. If ticked, it is promoted anyway, and its "
                "results are marked.",
            )
            forced = ["--force"] if force else []
            number = str(chosen.number)
            arguments = ["index", "promote", "--generation", number, *forced, "--", collection.name]
        sure = confirmed(what.removesuffix(" to"), "Cancel", "rollout")
        if sure:
            start(visit, arguments, f"{what} generation {chosen.number} of {collection.name}")
        show_command(visit, arguments)


def tune_arguments(collection: str, recall: float, at: int, memory: str) -> list[str]:
    """Return the arguments of `nearsay`. Raises BadInputError for an invalid contract."""
    share, limit = f"{recall:g}@{at}", memory.strip().replace(" ", "") or "none"
    RecallContract.parse(share, limit)
    return ["index", "tune", "--recall", share, "--memory", limit, "--", collection]


def show_contract_form(visit: Visit, found: CollectionOverview) -> None:
    """Ask for the contract, and measure the indexes."""
    contract = Plan.from_json({} if found.live is None else found.live.plan).contract
    with st.expander("Tune: the smallest index that meets a contract", icon=":material/speed:"):
        if found.passages <= EXACT_UP_TO:
            st.caption(
                f"This collection has {found.passages:,} passages. Comparing up to about {EXACT_UP_TO:,} "
                "takes milliseconds, so indexes are measured only if you ask for it here. The contract then "
                "applies however large the collection grows."
            )
        with (
            st.form(f"tune-{found.name}", border=False),
            st.container(horizontal=True, vertical_alignment="bottom"),
        ):
            recall = st.number_input(
                "Recall",
                min_value=min(0.5, contract.recall),  # the command line allows less
                max_value=1.0,
                value=contract.recall,
                step=0.01,
                format="%.3f",
                help="The share of the true nearest passages that a search must find, on average.",
                width=160,
            )
            at = st.number_input(
                "of the nearest",
                min_value=1,
                max_value=100,
                value=contract.at,
                help="How many of the nearest passages are counted.",
                width=160,
            )
            kept = "none" if contract.memory_bytes is None else memory_text(contract.memory_bytes)
            memory = st.text_input(
                "Memory",
                kept,
                help="The most memory that the index may use, such as 2GB or 512MB; none: no limit.",
                width=160,
            )
            sent = st.form_submit_button("Measure and choose", icon=":material/speed:")
        if memory == kept and contract.memory_bytes is not None:
            memory = str(contract.memory_bytes)  # the text was rounded
        try:
            arguments = tune_arguments(found.name, recall, int(at), memory)
        except NearsayError as error:  # shown here, so that the rest of the page is drawn
            show_error(error)
            return
        if sent:
            start(visit, arguments, f"Tune {found.name}")
        show_command(visit, arguments)


_PLOT_HEIGHT, _LEGEND_LINE = 380, 26  # pixels: of the plot and its axes, and of each kind below
_GREY: Final = "#8a8f98"  # visible in the light and the dark theme


def pareto_points(plan: Plan) -> list[dict[str, Any]]:
    """Return a point for each measured setting, with whether it is Pareto-optimal and whether taken."""
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
    """Return the chart in the colours of the page's theme; None if nothing was measured.

    Kinds of index differ by shape as well as by colour.
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
    """Show the table, the plan of one generation with its report, and the forms."""
    if visit.name is None:
        st.info("Choose a collection in the sidebar.")
        return
    collection = visit.collection
    found = collection.overview()
    st.subheader(f"Generations of {as_markdown(found.name)}", anchor=False)
    st.caption(
        "A generation is the collection embedded by one encoder, with an index. One is live and answers "
        "searches; you can build another beside it, try it on the page Compare, promote it, and roll back."
    )
    if not found.generations:
        st.info("There are none yet. Add documents first.")
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
        key = f"plan-{found.name}-{chosen.number}"  # resets the choice when another generation goes live
        number = pick("Plan of generation", called, key, index=rows.index(chosen))
        chosen = next(row for row in rows if row.number == number)
    with st.container(border=True):
        _plan_of(visit, found, chosen)


def _plan_of(visit: Visit, found: CollectionOverview, row: GenerationRow) -> None:
    plan = Plan.from_json(row.plan)
    st.markdown(f"**Plan of generation {row.number}**: {plan.kind}, {as_markdown(str(plan.contract))}")
    if plan.kind is PlanKind.EXACT and not plan.report:
        index = visit.remedy(
            "For more, *Index*, below, measures kinds of index and chooses the smallest that meets the "
            "contract."
        )
        st.caption(
            f"Every vector is compared, so nothing is missed. Up to about {EXACT_UP_TO:,} passages that "
            f"takes milliseconds.{index}"
        )
    measured = results_of([TunedPlan(found.name, plan)])
    warning, check = plan.warning(found.name), measured.facts.get("checked again")
    if warning is not None:
        st.warning(as_markdown(on_page(warning)), icon=":material/warning:")
    elif check is not None:
        st.success(
            as_markdown(f"Checked again {check}. The contract is met."), icon=":material/check_circle:"
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
            "Each point is a measured setting: higher finds more, further left is faster. Filled: "
            "Pareto-optimal. Dashed: the contract's recall. Circled: the chosen setting."
        )
    verdicts = {"verdict": st.column_config.TextColumn("verdict", width="large")}
    on_gpus = measured.facts.get("on GPUs", "")
    for place, rows in enumerate(measured.tables):
        if place:
            st.caption(as_markdown(f"On GPUs: {on_gpus}"))
        if rows:
            st.dataframe(rows, hide_index=True, height="content", column_config=verdicts)
