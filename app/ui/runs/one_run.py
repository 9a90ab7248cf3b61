"""One run in full: live, its curves, what it found, its log, and the way to be rid of it."""

import streamlit as st

from nearsay.app.cli.printing import visible
from nearsay.app.runs import Run
from nearsay.app.runs.results import RunResults, read_results
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.page_link import link_to, open_page
from nearsay.app.ui.runs.curve_charts import show_curves
from nearsay.app.ui.runs.curves import curves
from nearsay.app.ui.runs.run_product import TRAININGS, metrics_of, out_folder
from nearsay.app.ui.runs.watching import runs_of, successor, watch_run
from nearsay.app.ui.runs.words import KIND_NAMES, duration, moment, took
from nearsay.app.ui.visit import Visit

__all__ = ["show_results", "show_run"]

_ROWS, _LOG_LINES = 1_000, 200  # of output and log that are shown


def show_run(visit: Visit, number: int) -> None:
    """Show the run of that number."""
    link_to("runs", "All runs", icon=":material/arrow_back:")
    run = runs_of(visit).get(number)
    watch_run(visit, run, place="open", log=0, follow=False)
    _facts(visit, run)
    if run.kind in TRAININGS:
        st.subheader("Curves", anchor=False)
        if run.state.ended:
            _curves(run)
        else:
            _live_curves(visit, number)
    results = read_results(run.output(_ROWS))
    if results != RunResults():
        st.subheader("Result", anchor=False)
        show_results(results)
    st.subheader("Log", anchor=False)
    if run.state.ended:
        _log(run)
    else:
        _live_log(visit, number)
    if visit.may_write and run.state.ended:
        _removing(visit, run)


def show_results(results: RunResults) -> None:
    """The tables of what a run found."""
    for table in (results.changes, results.figures, results.rows):
        if table:
            st.dataframe(table, hide_index=True, width="stretch")
    if results.changes:
        st.caption(
            "Measured on the same items before and after. Where the interval holds 0, it may be chance."
        )
    if results.facts:
        facts = [{"what": name, "value": visible(value)} for name, value in results.facts.items()]
        st.dataframe(facts, hide_index=True, width="content")
    if results.lines:
        st.code("\n".join(visible(line) for line in results.lines), language=None, wrap_lines=True)


def _facts(visit: Visit, run: Run) -> None:
    seconds = took(run)
    parts = [KIND_NAMES[run.kind], f"asked for {moment(run.created_at)} UTC"]
    if run.collection is not None:
        parts.append(f"collection {as_markdown(run.collection)}")
    if seconds is not None and run.state.ended:
        parts.append(f"took {duration(seconds)}")
    st.caption(" · ".join(parts))
    out = run.product or out_folder(run)
    if out is not None:
        st.caption(f"Makes {as_markdown(visible(_in_library(visit, str(out))))}")
    with st.container(horizontal=True):
        if run.resumes is not None:
            link_to("runs", f"Resumes run {run.resumes}", icon=":material/history:", run=str(run.resumes))
        following = successor(visit, run.number) if run.state.ended else None
        if following is not None:
            label = f"Run {following.number} resumes this one"
            link_to("runs", label, icon=":material/resume:", run=str(following.number))


@st.fragment(run_every=3.0)
def _live_curves(visit: Visit, number: int) -> None:
    with telling_errors():
        _curves(runs_of(visit).get(number))


@st.fragment(run_every=2.0)
def _live_log(visit: Visit, number: int) -> None:
    with telling_errors():
        _log(runs_of(visit).get(number))


def _curves(run: Run) -> None:
    drawn = curves(metrics_of(run))
    if drawn:
        show_curves(drawn)
    elif run.state.ended:
        st.caption("It ended before its first step.")
    else:
        st.caption("They begin with the first steps.")


def _log(run: Run) -> None:
    lines = run.log(last=_LOG_LINES)
    if not lines:
        st.caption("It has said nothing.")
        return
    if len(lines) == _LOG_LINES:
        st.caption(f"The last {_LOG_LINES} lines; all are in {as_markdown(str(run.folder.log_file))}")
    with st.container(height=320 if len(lines) > 12 else "content"):
        st.code("\n".join(visible(line) for line in lines), language=None, wrap_lines=True)


def _removing(visit: Visit, run: Run) -> None:
    with st.popover("Remove this run", icon=":material/delete:"):
        st.markdown("It is forgotten, with its log. What it made stays.")
        if st.button("Remove", key=f"runs_remove-{run.number}", type="primary"):
            visit.check_writing()
            runs_of(visit).remove(run.number)
            open_page("runs")


def _in_library(visit: Visit, made: str) -> str:
    """What a run makes, without the place of the library if it lies inside."""
    home = f"{visit.library.store.folder}/"
    return f"{made.removeprefix(home)} in the library" if made.startswith(home) else made
