"""The page Jobs: running and finished jobs, and the details of one with its curves and log."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from nearsay.app.jobs import Job, JobKind, JobState, duration
from nearsay.app.jobs.results import JobResults, read_results
from nearsay.app.ui.controls import pick
from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.page_link import link_to, open_page
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import (
    STATE_COLOURS,
    STATE_ICONS,
    jobs_of,
    moment,
    watch_job,
)
from nearsay.data.document import JsonValue, visible
from nearsay.data.errors import BadInputError

if TYPE_CHECKING:
    import altair as alt

_ONE_MORE_PAGE = 25  # jobs shown at first, and with each "Show more"
_MOST = 1_000


def show(visit: Visit) -> None:
    """Show the job in the address, or the list."""
    st.title("Jobs", anchor=False)
    asked = st.query_params.get("job")
    if asked is not None:
        link_to("jobs", "All jobs", icon=":material/arrow_back:")
        show_job(visit, _named(visit, asked))
        return
    jobs = jobs_of(visit).list(limit=_MOST)
    if not jobs:
        st.info(
            "Jobs such as adding, rebuilding, clustering and training are listed here. There are none yet.",
            icon=":material/timeline:",
        )
        return
    for job in jobs:
        if not job.state.ended:
            watch_job(visit, job, log=2)
            label = "Curves and log" if job.kind in TRAININGS else "Log"
            link_to("jobs", label, icon=":material/open_in_full:", job=str(job.number))
    if any(job.state.ended for job in jobs):
        _list(visit, jobs)


def _list(visit: Visit, jobs: list[Job]) -> None:
    kinds = [kind for kind in JobKind if any(job.kind is kind for job in jobs)]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state = st.selectbox("State", ["any", *JobState], key="jobs_state", bind="query-params", width=180)
        named = {"any": "any"} | {str(each): each.label for each in kinds}
        kind = pick("Kind", named, "jobs_kind", bind="query-params", width=180)
        own = False
        if visit.name is not None:
            label = f"Only {as_markdown(visit.name)}"
            own = st.checkbox(label, key="jobs_own", bind="query-params")
    chosen = [
        job
        for job in jobs
        if (job.state.ended if state == "any" else state == job.state)  # running ones are above
        and kind in ("any", job.kind)
        and (not own or job.collection == visit.name)
    ]
    if not chosen:
        st.caption("No job matches.")
    shown = st.session_state.get("jobs_shown", _ONE_MORE_PAGE)
    for job in chosen[:shown]:
        _row(job)
    if len(chosen) > shown and st.button(f"Show more ({len(chosen) - shown:,} left)", key="jobs_more"):
        st.session_state["jobs_shown"] = shown + _ONE_MORE_PAGE
        st.rerun()


def _row(job: Job) -> None:
    with st.container(border=True, gap="xxsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            link_to("jobs", f"**{as_markdown(visible(job.title))}**", job=str(job.number))
            st.badge(str(job.state), icon=STATE_ICONS[job.state], color=STATE_COLOURS[job.state])
        seconds = job.seconds()
        parts = [f"job {job.number}", job.kind.label]
        if job.collection is not None:
            parts.append(as_markdown(job.collection))
        parts.append(moment(job.started_at or job.created_at))
        if seconds is not None:
            parts.append(duration(seconds))
        st.caption(" · ".join(parts))


def _named(visit: Visit, asked: str) -> Job:
    """Return the job in the address. Raises BadInputError if there is none."""
    with suppress(BadInputError):
        if asked.isdecimal() and len(asked) <= 9:
            return jobs_of(visit).get(int(asked))
    raise BadInputError("the job in the address does not exist. Open one from the list of all jobs")


_ALONE = {"learning_rate": "Learning rate", "tokens_per_second": "Tokens a second"}  # a chart each
_SCORES = ("accuracy", "f1", "matthews", "exact_match", "score")
_MOST_POINTS = 1_000  # of one line

Point = dict[str, Any]  # step, value, series (name of its line), held_out (whether on the dev set)


def curves(lines: Sequence[Mapping[str, JsonValue]]) -> dict[str, list[Point]]:
    """Return the points of a training's charts by title: losses, scores, learning rate, speed.

    lines: as returned by `read_metrics`; long series are thinned evenly, keeping the last point
    """
    found: dict[str, dict[str, list[Point]]] = {title: {} for title in ("Loss", "Score", *_ALONE.values())}
    for line in lines:
        step, evaluation = line.get("step"), line.get("evaluation")
        held_out = isinstance(evaluation, dict)
        for name, value in (evaluation if isinstance(evaluation, dict) else line).items():
            title = "Loss" if name.endswith("loss") else _ALONE.get(name)
            title = "Score" if name.endswith(_SCORES) else title
            if title and isinstance(step, int) and isinstance(value, int | float) and math.isfinite(value):
                series = ("dev " if held_out else "") + name.replace("_", " ")
                point = {"step": step, "value": float(value), "series": series, "held_out": held_out}
                found[title].setdefault(series, []).append(point)
    return {
        title: [point for own in series.values() for point in _thinned(own)]
        for title, series in found.items()
        if series
    }


def _thinned(own: list[Point]) -> list[Point]:
    every = math.ceil(len(own) / _MOST_POINTS)
    return own[(len(own) - 1) % every :: every]


_FEW = 40  # up to this many points of a chart are marked
_SMALL = 1e-3  # smaller values are shown in scientific notation
_COLOURS = ["#3D85D6", "#E07B00", "#2A9D5C", "#B565D0", "#D9534F", "#8A949E"]  # for both themes


def _chart(points: list[Point]) -> "alt.LayerChart | alt.FacetChart":
    import altair as alt

    names = list(dict.fromkeys(point["series"] for point in points))
    small = max(abs(point["value"]) for point in points) < _SMALL
    axis = alt.Axis(format=".1e" if small else ",.4~r")
    legend = alt.Legend(orient="bottom", title=None, columns=2, labelLimit=300) if len(names) > 1 else None
    held_out = alt.StrokeDash(
        "held_out:N", legend=None, scale=alt.Scale(domain=[False, True], range=[[1, 0], [4, 3]])
    )
    base = alt.Chart(alt.InlineData(points)).encode(
        x=alt.X("step:Q", title="step", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("value:Q", title=None, scale=alt.Scale(zero=False), axis=axis),
        color=alt.Color(
            "series:N",
            sort=names,
            legend=legend,
            scale=alt.Scale(domain=names, range=_COLOURS),
        ),
        tooltip=[
            alt.Tooltip("series:N", title="what"),
            alt.Tooltip("step:Q", format=","),
            alt.Tooltip("value:Q", format=".4g"),
        ],
    )
    marked = base if len(points) <= _FEW else base.transform_filter("datum.held_out")
    # Without an explicit domain the legend would be empty when no point is marked.
    shape = alt.Shape("series:N", sort=names, legend=legend, scale=alt.Scale(domain=names))
    line = base.mark_line(strokeWidth=2).encode(strokeDash=held_out)
    return alt.layer(line, marked.mark_point(filled=True, size=40).encode(shape=shape))


TRAININGS = (JobKind.PRETRAIN, JobKind.SENTENCE, JobKind.DISTIL, JobKind.HEAD, JobKind.TRAIN)


def metrics_of(job: Job) -> list[dict[str, JsonValue]]:
    """Return the metrics that a training has logged so far; [] for other jobs."""
    if job.kind not in TRAININGS or job.product is None:
        return []
    from nearsay.training.run.metrics_log import read_metrics

    return read_metrics(Path(job.working_folder, job.product, "run", "metrics.jsonl"))


_ROWS, _LOG_LINES = 1_000, 200  # shown of output and log


def show_job(visit: Visit, job: Job) -> None:
    """Show all details of a job."""
    watch_job(visit, job, place="open", log=0, follow=False)
    _facts(visit, job)
    if job.kind in TRAININGS:
        st.subheader("Curves", anchor=False)
        _live(visit, job, _curves)
    output = job.output(_ROWS + 1)
    results = read_results(output[:_ROWS])
    if results != JobResults():
        st.subheader("Result", anchor=False)
        show_results(results)
    if len(output) > _ROWS:
        st.caption(f"The first {_ROWS:,} rows; all are in {as_markdown(str(job.folder.output_file))}")
    st.subheader("Log", anchor=False)
    _live(visit, job, _log)
    if visit.may_write and job.state.ended:
        _removing(visit, job)


def show_results(results: JobResults) -> None:
    """Show the tables of a job's results."""
    for table in (results.changes, results.figures, *results.tables, results.rows):
        if table:
            st.dataframe(table, hide_index=True, width="stretch")
    if results.changes:
        st.caption(
            "Measured on the same items before and after. If the interval contains 0, the change may be "
            "chance."
        )
    if results.facts:
        facts = [{"what": name, "value": visible(value)} for name, value in results.facts.items()]
        st.dataframe(facts, hide_index=True, width="content")
    if results.lines:
        st.code("\n".join(visible(line) for line in results.lines), language=None, wrap_lines=True)


def _facts(visit: Visit, job: Job) -> None:
    seconds = job.seconds()
    parts = [job.kind.label, f"created {moment(job.created_at)} UTC"]
    if job.collection is not None:
        parts.append(f"collection {as_markdown(job.collection)}")
    if seconds is not None and job.state.ended:
        parts.append(f"took {duration(seconds)}")
    st.caption(" · ".join(parts))
    if job.product is not None:
        home = f"{visit.library.store.folder}/"
        where = " in the library" if job.product.startswith(home) else ""
        st.caption(f"Creates {as_markdown(visible(job.product.removeprefix(home)))}{where}")
    with st.container(horizontal=True):
        if job.resumes is not None:
            link_to("jobs", f"Resumes job {job.resumes}", icon=":material/history:", job=str(job.resumes))
        following = jobs_of(visit).successor(job.number) if job.state.ended else None
        if following is not None:
            label = f"Job {following.number} resumes this one"
            link_to("jobs", label, icon=":material/resume:", job=str(following.number))
        if job.kind is JobKind.IMPROVE and job.state is JobState.DONE and job.collection is not None:
            link_to("judge", "Apply or undo it", icon=":material/bolt:", collection=job.collection)


def _live(visit: Visit, job: Job, show: Callable[[Job], None]) -> None:
    """Show something of a job, refreshed while it is running."""

    @st.fragment(run_every=None if job.state.ended else 2.0)
    def look() -> None:
        with showing_errors():
            show(job if job.state.ended else jobs_of(visit).get(job.number))

    look()


def _curves(job: Job) -> None:
    """Draw the charts, two in a row if there are several; the dev set's lines are dashed with points."""
    drawn = curves(metrics_of(job))
    if not drawn:
        st.caption("It ended before its first step." if job.state.ended else "Shown after the first steps.")
        return
    columns = st.columns(2 if len(drawn) > 1 else 1)
    for place, (title, points) in enumerate(drawn.items()):
        with columns[place % len(columns)]:
            st.markdown(f"**{title}**")
            st.altair_chart(_chart(points), width="stretch", height=280)


def _log(job: Job) -> None:
    lines = job.log(last=_LOG_LINES)
    if not lines:
        st.caption("The log is empty.")
        return
    if len(lines) == _LOG_LINES:
        st.caption(f"The last {_LOG_LINES} lines; all are in {as_markdown(str(job.folder.log_file))}")
    with st.container(height=320 if len(lines) > 12 else "content"):
        st.code("\n".join(visible(line) for line in lines), language=None, wrap_lines=True)


def _removing(visit: Visit, job: Job) -> None:
    with st.popover("Remove this job", icon=":material/delete:"):
        st.markdown("Removes the job and its log. Its results are kept.")
        if st.button("Remove", key=f"jobs_remove-{job.number}", type="primary"):
            visit.check_writing()
            jobs_of(visit).remove(job.number)
            open_page("jobs")
