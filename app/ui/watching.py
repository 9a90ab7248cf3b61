"""A run on a page: how far it is, what it says, and the buttons that stop it or go on with it.

from collections.abc import Sequence
from nearsay.app.ui.watching import running_runs, start_run, watch_run

run = start_run(visit, ["documents", "add", …], "Add papers")
watch_run(visit, run)  # polls while it is at work; when it has ended the page is run again, once
for run in running_runs(visit, visit.name):  # after a reload: what is still at work
    watch_run(visit, run)
"""

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import streamlit as st

from nearsay.app.runs import Run, RunKind, RunProgress, Runs, RunState
from nearsay.app.runs.command_line import shell_line
from nearsay.app.ui.controls import capitalised
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.data.document import visible
from nearsay.data.errors import BadInputError

__all__ = [
    "KIND_NAMES",
    "STATE_COLOURS",
    "STATE_ICONS",
    "duration",
    "followed",
    "moment",
    "offer_run",
    "progress_words",
    "running_runs",
    "runs_of",
    "show_command",
    "start_run",
    "to_watch",
    "took",
    "watch_run",
    "watch_started",
]


_CAN_GO_ON = (RunState.FAILED, RunState.CANCELLED, RunState.INTERRUPTED)
_UNKNOWN = """<progress aria-label="at work; how long it takes is not known"
style="width: 100%; accent-color: #1F5FAF"></progress>"""


def runs_of(visit: Visit) -> Runs:
    """The runs of the library that the page is about."""
    return Runs(visit.library, precision=visit.settings.precision)


def start_run(
    visit: Visit, arguments: Sequence[str], title: str, *, collection: str | None = None, kept: str = ""
) -> Run:
    """Start a command in the background; BadInputError where nothing may be changed.

    collection: the one that it is about, where the arguments name none
    kept: under which the session remembers its number, for `to_watch`
    """
    visit.check_writing()
    run = runs_of(visit).start(RunKind.of(arguments), arguments, title=title, collection=collection)
    if kept:
        st.session_state[kept] = run.number
    return run


def offer_run(
    visit: Visit,
    label: str,
    arguments: Sequence[str],
    title: str,
    key: str,
    icon: str,
    *,
    begin: Callable[..., object] = start_run,
    shell: bool = True,
    **how: Any,  # noqa: ANN401 - as Streamlit's own
) -> None:
    """A button that starts a command, and below it the same as a command line, unless shell is False.

    begin: what starts it; how: what else `st.button` takes
    """
    if st.button(label, key=key, icon=icon, **how):
        begin(visit, arguments, title)
        st.rerun()
    if shell:
        show_command(visit, arguments)


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
    return runs_of(visit).successor(run.number) or run


def watch_started(
    visit: Visit,
    name: str,
    kinds: Collection[RunKind],
    *,
    place: str = "",
    log: int = 2,
    beside: Callable[[Run, bool], None] = lambda *_: None,
) -> list[Run]:
    """Show what `to_watch` gives; what was started here until it is put away, once it has ended.

    beside: draws what else belongs to a run; True: it is the one that the session keeps
    """
    runs, mine = to_watch(visit, name, kinds)
    for run in runs:
        watch_run(visit, run, place=place, log=log)
        own = mine is not None and run.number == mine.number
        with st.container(horizontal=True):
            beside(run, own)
            away = f"{name.removesuffix('_run')}_away"
            if own and run.state.ended and st.button("Put away", key=away, icon=":material/close:"):
                del st.session_state[name]
                st.rerun()
    return runs


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

    Polls twice a second while the run is at work, and runs the whole page again when it ends, so that its
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


@st.fragment(run_every=0.5)
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
        st.error(as_markdown(capitalised(said, run.arguments)), icon=STATE_ICONS[run.state])
    elif run.state is RunState.CANCELLED:
        st.info(as_markdown(f"Cancelled{time}. What it wrote is kept."), icon=STATE_ICONS[run.state])
    else:
        st.warning(
            "Interrupted: its process was killed, or the machine went off. What it wrote is kept.",
            icon=STATE_ICONS[run.state],
        )
    _log(run, log)
    if visit.may_write and runs_of(visit).successor(run.number) is None:
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


Colour = Literal["gray", "blue", "green", "red", "orange"]

STATE_ICONS: Final = {
    RunState.WAITING: ":material/schedule:",
    RunState.RUNNING: ":material/play_circle:",
    RunState.DONE: ":material/check_circle:",
    RunState.FAILED: ":material/error:",
    RunState.CANCELLED: ":material/cancel:",
    RunState.INTERRUPTED: ":material/power_off:",
}
STATE_COLOURS: Final[dict[RunState, Colour]] = {
    RunState.WAITING: "gray",
    RunState.RUNNING: "blue",
    RunState.DONE: "green",
    RunState.FAILED: "red",
    RunState.CANCELLED: "gray",
    RunState.INTERRUPTED: "orange",
}
KIND_NAMES: Final = {
    RunKind.ADD: "adding",
    RunKind.REMOVE: "removing",
    RunKind.REBUILD: "rebuild",
    RunKind.PROMOTE: "promotion",
    RunKind.ROLLBACK: "rollback",
    RunKind.TUNE: "tuning",
    RunKind.COMPACT: "compaction",
    RunKind.EXPORT: "export",
    RunKind.DEMO: "demo",
    RunKind.CLUSTER: "clusters",
    RunKind.MAP: "map",
    RunKind.DUPLICATES: "duplicates",
    RunKind.EXPLORE: "exploring",
    RunKind.INSIDE: "sample of tokens",
    RunKind.VOCABULARY: "vocabulary",
    RunKind.PRETRAIN: "pretraining",
    RunKind.SENTENCE: "fine-tuning",
    RunKind.DISTIL: "distillation",
    RunKind.NEGATIVES: "hard negatives",
    RunKind.HEAD: "training of a head",
    RunKind.TRAIN: "training",
    RunKind.EVALUATE: "evaluation",
    RunKind.ENCODE: "encoding",
    RunKind.DOCTOR: "doctor",
    RunKind.OTHER: "other",
}


def duration(seconds: float) -> str:
    """A time that people can take in: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 0.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    steps = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
    unit, large, below, small = next(step for step in steps if whole >= step[1])
    rest = whole % large // small
    return f"{whole // large} {unit}" + (f" {rest} {below}" if rest else "")


def moment(at: str | None) -> str:
    """An ISO 8601 moment as date and minute in UTC; nothing for none."""
    return "" if at is None else _moment(at).strftime("%Y-%m-%d %H:%M")


def took(run: Run, now: datetime | None = None) -> float | None:
    """Seconds that a run has worked, up to its end or to `now`; None where nobody knows."""
    if run.started_at is None:
        return None
    if run.ended_at is not None:
        end = _moment(run.ended_at)
    elif run.state.ended:  # killed
        return None
    else:
        end = now or datetime.now(UTC)
    return max((end - _moment(run.started_at)).total_seconds(), 0.0)


def progress_words(look: RunProgress) -> str:
    """How far a run is: "embedding: 1,200 of about 23,300 passages, 350 a second, 1 min 3 s left"."""
    counted = f"{look.done:,} {look.unit}"
    if look.total:
        about = "" if look.unit == "steps" else "about "  # a training knows; of a corpus it is an estimate
        counted = f"{look.done:,} of {about}{max(look.total, look.done):,} {look.unit}"
    parts = [f"{look.doing}: {counted}" if look.doing else counted]
    if look.rate:
        slow = look.rate < 1.0
        parts.append(f"{1 / look.rate:,.1f} s each" if slow else f"{look.rate:,.0f} a second")
    if look.seconds_left is not None and not (look.total and look.done >= look.total):
        parts.append(f"{duration(look.seconds_left)} left")
    return ", ".join(parts)


def _moment(at: str) -> datetime:
    read = datetime.fromisoformat(at)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


def show_command(visit: Visit, arguments: Sequence[str]) -> None:
    """Show the command, folded away; arguments: what stands behind `nearsay`."""
    library = visit.library.store.folder if visit.may_write else "LIBRARY"  # others need not know where it is
    with st.expander("The same in a shell", icon=":material/terminal:"):
        st.code(shell_line(arguments, Path(library)), language="bash", wrap_lines=True)
