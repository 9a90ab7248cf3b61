"""The page Runs: the long work of the library, live and done."""

import streamlit as st

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.runs.one_run import TRAININGS, show_run
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import (
    KIND_NAMES,
    STATE_COLOURS,
    STATE_ICONS,
    duration,
    moment,
    runs_of,
    took,
    watch_run,
)
from nearsay.data.document import visible
from nearsay.data.errors import BadInputError

__all__ = ["show"]

_ONE_MORE_PAGE = 25  # runs that are shown at first, and with each "Show more"
_MOST = 1_000


def show(visit: Visit) -> None:
    """Show the page: one run where the address names one, else the list."""
    st.title("Runs", anchor=False)
    asked = st.query_params.get("run")
    if asked is not None:
        show_run(visit, _number(asked))
        return
    runs = runs_of(visit).list(limit=_MOST)
    if not runs:
        st.info(
            "Long work is listed here: adding, rebuilding, clustering, training. There was none in this "
            "library yet.",
            icon=":material/timeline:",
        )
        return
    for run in runs:
        if not run.state.ended:
            watch_run(visit, run, log=2)
            label = "Curves and log" if run.kind in TRAININGS else "Log"
            link_to("runs", label, icon=":material/open_in_full:", run=str(run.number))
    _list(visit, runs)


def _list(visit: Visit, runs: list[Run]) -> None:
    kinds = [kind for kind in RunKind if any(run.kind is kind for run in runs)]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state = st.selectbox("State", ["any", *RunState], key="runs_state", bind="query-params", width=180)
        kind = st.selectbox(
            "Kind",
            ["any", *kinds],
            key="runs_kind",
            bind="query-params",
            format_func=lambda each: KIND_NAMES.get(each, "any"),
            width=180,
        )
        own = False
        if visit.name is not None:
            label = f"Only {as_markdown(visit.name)}"
            own = st.checkbox(label, key="runs_own", bind="query-params")
    chosen = [
        run
        for run in runs
        if (run.state.ended if state == "any" else state == run.state)  # the others stand above
        and kind in ("any", run.kind)
        and (not own or run.collection == visit.name)
    ]
    if not chosen:
        st.caption("No run is like that.")
    shown = st.session_state.get("runs_shown", _ONE_MORE_PAGE)
    for run in chosen[:shown]:
        _row(run)
    if len(chosen) > shown and st.button(f"Show more ({len(chosen) - shown:,} are left)", key="runs_more"):
        st.session_state["runs_shown"] = shown + _ONE_MORE_PAGE
        st.rerun()


def _row(run: Run) -> None:
    with st.container(border=True, gap="xxsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            link_to("runs", f"**{as_markdown(visible(run.title))}**", run=str(run.number))
            st.badge(str(run.state), icon=STATE_ICONS[run.state], color=STATE_COLOURS[run.state])
        seconds = took(run)
        parts = [f"run {run.number}", KIND_NAMES[run.kind]]
        if run.collection is not None:
            parts.append(as_markdown(run.collection))
        parts.append(moment(run.started_at or run.created_at))
        if seconds is not None:
            parts.append(duration(seconds))
        st.caption(" · ".join(parts))


def _number(asked: str) -> int:
    if not asked.isdecimal() or len(asked) > 9:
        raise BadInputError("the address names no run. Open one from the list on the page Runs")
    return int(asked)
