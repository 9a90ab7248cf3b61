"""A run on a page: how far it is, what it says, and the buttons that stop it or go on with it.

from nearsay.app.ui.runs.watching import running_runs, runs_of, watch_run

run = runs_of(visit).start(RunKind.ADD, [...], title="Add papers", collection=visit.name)
watch_run(visit, run)  # polls while it is at work; when it has ended the page is run again, once
for run in running_runs(visit, visit.name):  # after a reload: what is still at work
    watch_run(visit, run)
"""

import functools
from collections.abc import Collection

import streamlit as st

from nearsay.app.cli.printing import visible
from nearsay.app.runs import Run, RunKind, RunProgress, Runs, RunState
from nearsay.app.runs.worker import Worker
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.runs.words import STATE_COLOURS, STATE_ICONS, duration, progress_words, took
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError

__all__ = ["followed", "running_runs", "runs_of", "successor", "to_watch", "watch_run"]

_CAN_GO_ON = (RunState.FAILED, RunState.CANCELLED, RunState.INTERRUPTED)
_UNKNOWN = """<progress aria-label="at work; how long it takes is not known"
style="width: 100%; accent-color: #1F5FAF"></progress>"""


def runs_of(visit: Visit) -> Runs:
    """The runs of the library that the page is about."""
    return Runs(visit.library, precision=visit.settings.precision, worker=_worker())


@functools.cache
def _worker() -> Worker:
    """The one of this process."""
    return Worker()


def running_runs(visit: Visit, collection: str | None = None) -> list[Run]:
    """The runs that are at work or wait for their turn, the newest first; collection: only those about it."""
    runs = runs_of(visit)
    found = [
        run
        for state in (RunState.WAITING, RunState.RUNNING)  # one that begins meanwhile is seen at least once
        for run in runs.list(state, collection, limit=None)
    ]
    return sorted({run.number: run for run in found}.values(), key=lambda run: -run.number)


def to_watch(visit: Visit, name: str, kinds: Collection[RunKind]) -> tuple[list[Run], Run | None]:
    """The runs of these kinds that are at work, and the one that the session keeps under a name.

    The kept one is the last that was started here; who comes while one is at work sees how it ends, too. One
    that was resumed gives its place to the run that goes on with it, one that was removed is forgotten. It
    is among the runs, too.
    """
    runs = {run.number: run for run in running_runs(visit) if run.kind in kinds}
    kept: int | None = st.session_state.get(name)
    mine: Run | None = None
    if kept is not None:
        try:
            mine = followed(visit, runs_of(visit).get(kept))
        except BadInputError:
            mine = None
    if mine is not None:
        mine = runs.setdefault(mine.number, mine)
    elif runs:
        mine = next(iter(runs.values()))
    st.session_state[name] = None if mine is None else mine.number
    return list(runs.values()), mine


def followed(visit: Visit, run: Run) -> Run:
    """The last that goes on with a run, if it was resumed; else the run itself."""
    if run.state not in _CAN_GO_ON:
        return run
    return successor(visit, run.number) or run


def successor(visit: Visit, number: int) -> Run | None:
    """The run that goes on with this one, if it was resumed; the last of them if that was, too."""
    found = None
    for run in reversed(runs_of(visit).list(limit=None)):
        if run.resumes == (number if found is None else found.number):
            found = run
    return found


def watch_run(
    visit: Visit,
    run: Run,
    *,
    place: str = "",
    log: int = 6,
    done: str | None = None,
    command: bool = True,
    follow: bool = True,
) -> None:
    """Show a run: title, state, progress, the last lines of its log, cancel; when it has ended, how.

    Polls once a second while the run is at work, and runs the whole page again when it ends, so that its
    results appear. Results have to be read after the run was: then a page that lacks them is run again.

    run:     as the rest of the page takes it; one that was at work then is shown so, even if it has ended
    place:   tells apart the buttons where a page shows the same run twice
    log:     lines of the log that are shown while it works
    done:    what is said of success, as plain text; "Done." and how long it took if left out
    command: show the same as a command line
    follow:  of a run that was resumed, show the one that goes on with it; without, the page is one whose
             address names the run, and Resume changes it

    Where nothing may be changed nothing is shown: commands and logs tell where things lie on the server.
    """
    if not visit.may_write:
        return
    if follow:
        run = followed(visit, run)
    with st.container(border=True):
        if run.state.ended:
            _ended(visit, run, place, log, done, follow=follow)
        else:
            _at_work(visit, run.number, place, log)
        if command:
            with st.expander("The same in a shell", icon=":material/terminal:"):
                st.code(visible(run.command), language="bash", wrap_lines=True)


@st.fragment(run_every=1.0)
def _at_work(visit: Visit, number: int, place: str, log: int) -> None:
    with telling_errors():
        try:
            run = runs_of(visit).get(number)
        except BadInputError:  # removed in another window
            st.rerun()
        if run.state.ended:
            st.rerun()
        _head(run)
        _progress(visit, run, run.progress())
        _log(run, log)
        if visit.may_write:
            _stopping(visit, run, place)


def _stopping(visit: Visit, run: Run, place: str) -> None:
    label, icon = (
        ("Stop at once", ":material/stop_circle:") if run.stopping else ("Cancel", ":material/stop:")
    )
    help_ = "What it wrote is kept; it can be resumed later."
    with st.container(horizontal=True, vertical_alignment="center"):
        key = f"cancel{place}-{run.number}-{run.stopping}"
        st.button(label, key=key, icon=icon, help=help_, on_click=_cancel, args=(visit, run.number))
        if run.stopping:
            st.caption("It ends after what it is at; that may take a moment.")


@telling_errors()
def _cancel(visit: Visit, number: int) -> None:
    visit.check_writing()
    runs_of(visit).cancel(number)


def _ended(visit: Visit, run: Run, place: str, log: int, done: str | None, *, follow: bool) -> None:
    _head(run)
    seconds = took(run)
    time = "" if seconds is None else f" after {duration(seconds)}"
    if run.state is RunState.DONE:
        in_time = "." if seconds is None else f" in {duration(seconds)}."
        st.success(as_markdown(done or f"Done{in_time}"), icon=STATE_ICONS[run.state])
        return
    if run.state is RunState.FAILED:
        said = " ".join(visible(run.message or "it failed, and said nothing. See its log").split())
        st.error(as_markdown(said[:1].upper() + said[1:]), icon=STATE_ICONS[run.state])
    elif run.state is RunState.CANCELLED:
        st.info(as_markdown(f"Cancelled{time}. What it wrote is kept."), icon=STATE_ICONS[run.state])
    else:
        st.warning(
            "Interrupted: its process was killed, or the machine went off. What it wrote is kept.",
            icon=STATE_ICONS[run.state],
        )
    _log(run, log)
    if visit.may_write and successor(visit, run.number) is None:
        help_ = "Start the same again; a training resumes from its last checkpoint."
        key = f"resume{place}-{run.number}"
        if st.button("Resume", key=key, icon=":material/resume:", help=help_):
            visit.check_writing()
            following = runs_of(visit).resume(run.number)
            if not follow:
                st.query_params["run"] = str(following.number)
            st.rerun()


def _head(run: Run) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{as_markdown(visible(run.title))}**", width="content")
        state = "stopping" if run.stopping else str(run.state)
        st.badge(state, icon=STATE_ICONS[run.state], color=STATE_COLOURS[run.state])
        st.caption(f"run {run.number}", width="content")


def _progress(visit: Visit, run: Run, look: RunProgress | None) -> None:
    before = [other for other in running_runs(visit) if other.number < run.number]
    if run.state is RunState.WAITING and before:
        st.caption(f"It waits for its turn: run {before[-1].number} is at work in this library.")
        return
    if look is None:
        st.html(_UNKNOWN)
        st.caption("It begins …")
        return
    said = as_markdown(visible(progress_words(look)))
    if look.share is None:
        st.html(_UNKNOWN)
        st.caption(said)
    else:
        st.progress(min(max(look.share, 0.0), 1.0), text=said)


def _log(run: Run, lines: int) -> None:
    last = [visible(line) for line in run.log(last=lines)] if lines else []
    if last:
        st.code("\n".join(last), language=None, wrap_lines=True)
