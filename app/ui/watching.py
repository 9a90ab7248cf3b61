"""A job on a page: its progress and log, and buttons that cancel and resume it.

from nearsay.app.ui.watching import running_jobs, start_job, watch_job

job = start_job(visit, ["documents", "add", …], "Add papers")
watch_job(visit, job)  # polls while it runs; the page is rerun once it has ended
for job in running_jobs(visit):  # after a reload: jobs that still run
    watch_job(visit, job)
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal

import streamlit as st

from nearsay.app.jobs import Job, JobKind, JobProgress, Jobs, JobState, duration
from nearsay.app.jobs.command_line import shell_line
from nearsay.app.ui.controls import capitalised, on_page
from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.data.document import visible
from nearsay.data.errors import BadInputError

_LOOKED_AT = 200  # newest jobs of a collection among which those of a kind are searched
_RESUMABLE = (JobState.FAILED, JobState.CANCELLED, JobState.INTERRUPTED)
_UNKNOWN = """<progress aria-label="running; duration unknown"
style="width: 100%; accent-color: #1F5FAF"></progress>"""


def jobs_of(visit: Visit) -> Jobs:
    """Return the jobs of the page's library."""
    return Jobs(visit.library, precision=visit.settings.precision)


def start_job(
    visit: Visit, arguments: Sequence[str], title: str, *, collection: str | None = None, kept: str = ""
) -> Job:
    """Start a command in the background. Raises BadInputError if nothing may be changed.

    collection: the one that it is about, if the arguments name none
    kept: session key under which its number is stored, for `watch_started`
    """
    visit.check_writing()
    job = jobs_of(visit).start(JobKind.of(arguments), arguments, title=title, collection=collection)
    _seen().add(job.number)
    if kept:
        st.session_state[kept] = job.number
    return job


def offer_job(
    visit: Visit,
    label: str,
    arguments: Sequence[str],
    title: str,
    key: str,
    icon: str,
    *,
    begin: Callable[..., object] = start_job,
    shell: bool = True,
    **how: Any,  # noqa: ANN401 - as Streamlit's own
) -> None:
    """Draw a button that starts a command, and below it the command line, unless shell is False.

    begin: starts it
    how: further arguments of `st.button`
    """
    if st.button(label, key=key, icon=icon, **how):
        begin(visit, arguments, title)
        st.rerun()
    if shell:
        show_command(visit, arguments)


def running_jobs(visit: Visit) -> list[Job]:
    """Return the running and waiting jobs, newest first."""
    jobs = jobs_of(visit)
    found = [
        job
        for state in (JobState.WAITING, JobState.RUNNING)  # in this order: one may start meanwhile
        for job in jobs.list(state, limit=None)
    ]
    return sorted({job.number: job for job in found}.values(), key=lambda job: -job.number)


def followed(visit: Visit, job: Job) -> Job:
    """Return the last job that resumed this one, or the job itself."""
    if job.state not in _RESUMABLE:
        return job
    return jobs_of(visit).successor(job.number) or job


def watch_started(
    visit: Visit,
    name: str,
    kinds: Collection[JobKind],
    *,
    place: str = "",
    log: int = 2,
    beside: Callable[[Job, bool], None] = lambda *_: None,
) -> list[Job]:
    """Show running jobs of these kinds, and the job whose number is stored in the session.

    The stored job is the last that was started here, or one that was running when the visitor came. It is
    shown until it has ended and is dismissed. A resumed one is replaced by its successor, a removed one
    forgotten.

    beside: draws more about a job; its second argument tells whether it is the stored one
    """
    jobs = {job.number: job for job in running_jobs(visit) if job.kind in kinds}
    mine: int | None = st.session_state.get(name)
    if mine is None:
        mine = next(iter(jobs), None)
    else:
        try:
            kept = followed(visit, jobs_of(visit).get(mine))
            mine = jobs.setdefault(kept.number, kept).number
        except BadInputError:
            mine = next(iter(jobs), None)
    st.session_state[name] = mine
    for job in jobs.values():
        watch_job(visit, job, place=place, log=log)
        own = job.number == mine
        with st.container(horizontal=True, vertical_alignment="center"):
            beside(job, own)
            away = f"{name.removesuffix('_job')}_away"
            if own and job.state.ended and st.button("Dismiss", key=away, icon=":material/close:"):
                del st.session_state[name]
                st.rerun()
    return list(jobs.values())


def newest_jobs(visit: Visit, kind: JobKind) -> list[Job]:
    """Return the collection's jobs of a kind, newest first.

    Jobs of a deleted collection of the same name are excluded.
    """
    since = visit.collection.snapshot().collection.created_at
    every = jobs_of(visit).list(collection=visit.name, limit=_LOOKED_AT)
    return [
        job
        for job in every
        if job.kind is kind and datetime.fromisoformat(job.created_at) >= datetime.fromisoformat(since)
    ]


def watch_newest(visit: Visit, jobs: Sequence[Job], place: str) -> None:
    """Show the newest of some jobs while it runs, and if it fails, its error for the rest of the session."""
    seen = _seen()
    if not jobs:
        return
    newest = jobs[0]
    if not newest.state.ended:
        seen.add(newest.number)
    elif newest.state is JobState.DONE:
        return
    if newest.number in seen:
        watch_job(visit, newest, place=place)


def _seen() -> set[int]:
    """Return the jobs that were started, or seen running, in this session."""
    seen: set[int] = st.session_state.setdefault("jobs_seen", set())
    return seen


def watch_job(
    visit: Visit,
    job: Job,
    *,
    place: str = "",
    log: int = 6,
    done: str | None = None,
    follow: bool = True,
) -> None:
    """Show a job: title, state, progress, the end of its log, and Cancel; after its end, the outcome.

    Polls twice a second while the job runs, and reruns the page when it ends, so that its results appear.
    Read results after the job: a page without them is then rerun.

    job: as the rest of the page has read it; shown as running if it was, even if it has ended since
    place: part of the buttons' keys, for pages that show a job twice
    log: lines of the log that are shown while it runs
    done: message of success in plain text; default: "Done" with the duration
    follow: show the job that resumed this one; False: the job is the one in the address, which Resume changes

    Nothing is shown where nothing may be changed, since commands and logs have paths of the server.
    """
    if not visit.may_write:
        return
    if follow:
        job = followed(visit, job)
    with st.container(border=True):
        if job.state.ended:
            _ended(visit, job, place, log, done, follow=follow)
        else:
            _at_work(visit, job.number, place, log)
        show_line(job.command)


@st.fragment(run_every=0.5)
def _at_work(visit: Visit, number: int, place: str, log: int) -> None:
    with showing_errors():
        try:
            job = jobs_of(visit).get(number)
        except BadInputError:  # it was removed
            st.rerun()
        if job.state.ended:
            st.rerun()
        _head(job)
        look = job.progress()
        _progress(visit, job, look)
        _log(job, log, "" if look is None else look.doing)
        if visit.may_write:
            _stopping(visit, job, place)


def _stopping(visit: Visit, job: Job, place: str) -> None:
    label, icon = (
        ("Stop at once", ":material/stop_circle:") if job.stopping else ("Cancel", ":material/stop:")
    )
    help_ = "Keeps what it has written; you can resume it later."
    with st.container(horizontal=True, vertical_alignment="center"):
        key = f"cancel{place}-{job.number}-{job.stopping}"
        st.button(label, key=key, icon=icon, help=help_, on_click=_cancel, args=(visit, job.number))
        if job.stopping:
            st.caption("It stops after its current step, which may take a moment.")


@showing_errors()
def _cancel(visit: Visit, number: int) -> None:
    visit.check_writing()
    jobs_of(visit).cancel(number)


def _ended(visit: Visit, job: Job, place: str, log: int, done: str | None, *, follow: bool) -> None:
    _head(job)
    seconds = job.seconds()
    time = "" if seconds is None else f" after {duration(seconds)}"
    if job.state is JobState.DONE:
        in_time = "." if seconds is None else f" in {duration(seconds)}."
        st.success(as_markdown(done or f"Done{in_time}"), icon=STATE_ICONS[job.state])
        return
    if job.state is JobState.FAILED:
        text = " ".join(visible(job.message or "it failed without a message. See its log").split())
        st.error(as_markdown(capitalised(on_page(text), job.arguments)), icon=STATE_ICONS[job.state])
    elif job.state is JobState.CANCELLED:
        st.info(as_markdown(f"Cancelled{time}."), icon=STATE_ICONS[job.state])  # its log reports what is kept
    else:
        st.warning(
            "Interrupted: its process was killed or the machine was shut down. What it wrote is kept.",
            icon=STATE_ICONS[job.state],
        )
    _log(job, log)
    if visit.may_write and jobs_of(visit).successor(job.number) is None:
        help_ = "Runs the same command again; a training resumes from its last checkpoint."
        key = f"resume{place}-{job.number}"
        if st.button("Resume", key=key, icon=":material/resume:", help=help_):
            visit.check_writing()
            following = jobs_of(visit).resume(job.number)
            if not follow:
                st.query_params["job"] = str(following.number)
            st.rerun()


def _head(job: Job) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{as_markdown(visible(job.title))}**", width="content")
        state = "stopping" if job.stopping else str(job.state)
        st.badge(state, icon=STATE_ICONS[job.state], color=STATE_COLOURS[job.state])
        st.caption(f"job {job.number}", width="content")


def _progress(visit: Visit, job: Job, look: JobProgress | None) -> None:
    before = [other for other in running_jobs(visit) if other.number < job.number]
    if job.state is JobState.WAITING and before:
        st.caption(f"Waiting for job {before[-1].number} of this library.")
        return
    if look is None:
        st.html(_UNKNOWN)
        st.caption("Starting …" if job.state is JobState.WAITING else "Running …")
        return
    text = as_markdown(visible(look.words()))
    if look.share is None:
        st.html(_UNKNOWN)
        st.caption(text)
    else:
        st.progress(min(max(look.share, 0.0), 1.0), text=text)


def _log(job: Job, lines: int, doing: str = "") -> None:
    """Show the end of the log, without what the error message or the progress bar shows.

    doing: text of the progress bar
    """
    found = job.log(last=lines) if lines else []
    shown = (job.message or "").splitlines()
    new = (line for line in found if line.removeprefix("Error: ") not in shown)
    last = [visible(line) for line in new if not doing or not line.startswith(f"{doing}:")]
    if last:
        st.code("\n".join(last), language=None, wrap_lines=True)


Colour = Literal["gray", "blue", "green", "red", "orange"]

STATE_ICONS: Final = {
    JobState.WAITING: ":material/schedule:",
    JobState.RUNNING: ":material/play_circle:",
    JobState.DONE: ":material/check_circle:",
    JobState.FAILED: ":material/error:",
    JobState.CANCELLED: ":material/cancel:",
    JobState.INTERRUPTED: ":material/power_off:",
}
STATE_COLOURS: Final[dict[JobState, Colour]] = {
    JobState.WAITING: "gray",
    JobState.RUNNING: "blue",
    JobState.DONE: "green",
    JobState.FAILED: "red",
    JobState.CANCELLED: "gray",
    JobState.INTERRUPTED: "orange",
}


def moment(at: str | None) -> str:
    """Return an ISO 8601 time as date and minute in UTC; "" for None."""
    return "" if at is None else datetime.fromisoformat(at).strftime("%Y-%m-%d %H:%M")


def show_command(visit: Visit, arguments: Sequence[str]) -> None:
    """Show the command, folded; arguments: of `nearsay`."""
    library = visit.library.store.folder if visit.may_write else "LIBRARY"  # no paths for visitors
    show_line(shell_line(arguments, Path(library)))


def show_line(line: str) -> None:
    """Show a command line, folded."""
    with st.expander("Command line", icon=":material/terminal:"):
        st.code(visible(line), language="bash", wrap_lines=True)
