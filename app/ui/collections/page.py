"""The page Collections: its parts Overview, Add, Documents, Generations and Health."""

from collections.abc import Mapping, Sequence

import streamlit as st

from nearsay.app.jobs import Job, JobKind, JobState
from nearsay.app.ui.collections.adding import FILES, FOLDER, SAMPLES, show_adding
from nearsay.app.ui.collections.at_work import NEXT_PART, PART, Part, look_at, show_at_work
from nearsay.app.ui.collections.documents_part import show_documents
from nearsay.app.ui.collections.generations_part import show_generations
from nearsay.app.ui.controls import choose_part, first_of, on_page, widths
from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import jobs_of, moment, running_jobs, show_line, start_job, watch_job
from nearsay.data.quantity import counted
from nearsay.data.report import Finding
from nearsay.indexer.plans.plan import EXACT_UP_TO, Plan
from nearsay.indexer.results import every
from nearsay.indexer.writing.overview import CollectionOverview


def facts(found: CollectionOverview) -> list[tuple[str, str]]:
    """Return what a card shows below the sizes, as labels and values."""
    live = found.live
    clusters = "none yet" if found.clusters is None else f"{found.clusters:,}"
    if found.clusters is not None and found.unclustered:
        clusters += f", {counted(found.unclustered, 'newer passage')} not assigned"
    rows = [
        (
            "Encoder",
            "none yet" if live is None else f"{live.encoder.name}, {live.encoder.dimension} dimensions",
        ),
        ("Clusters", clusters),
        ("Fields", first_of(found.fields) or "none"),
    ]
    if found.gate is not None:
        rows.append(("Near-duplicates", f"{found.gate.action}, cosine {found.gate.threshold:g} and above"))
    return rows


def warnings_of(found: CollectionOverview, *, may_write: bool = True) -> list[str]:
    """Return what needs attention, each with its remedy on this page unless nothing may be changed."""
    warnings: list[tuple[str, str]] = []
    if not found.documents:
        warnings.append(("This collection is empty.", "Add documents, or delete it under Generations."))
    if found.waiting and found.documents:
        wrong = "cannot be found by meaning yet: an addition is running or was stopped."
        remedy = (
            "To resume a stopped one, add the same documents again or resume it on the page Jobs; repairing "
            "the live generation under Generations embeds what it had read."
        )
        warnings.append((f"{counted(found.waiting, 'passage')} {wrong}", remedy))
    if found.live is not None:
        warning = Plan.from_json(found.live.plan).warning(found.name)
        if warning is not None:
            warnings.append((on_page(warning), ""))
    if found.unindexed > EXACT_UP_TO:
        wrong = "have no index, so every search compares its query with each of them."
        warnings.append((f"{counted(found.unindexed, 'passage')} {wrong}", "Build one under Generations."))
    waiting = [row for row in found.generations if row.state == "ready"]
    if waiting:
        wrong = f"Generation {waiting[-1].number}, embedded by {waiting[-1].encoder.name}, is ready."
        warnings.append((wrong, "Promote it under Generations."))
    if found.removed and found.removed >= 0.2 * max(found.passages, 1):
        wrong = f"{counted(found.removed, 'removed passage')} still take space."
        warnings.append((wrong, "Compact the collection under Generations."))
    return [f"{wrong} {remedy}".rstrip() if may_write else wrong for wrong, remedy in warnings]


_LOOKED_AT = 200  # newest jobs among which the last report is searched


def show_health(visit: Visit) -> None:
    """Start the doctor, and show its last report."""
    st.subheader("Health", anchor=False)
    st.markdown(
        "The doctor checks that the rows, words, fields, vectors and indexes of every collection agree, and "
        "reports what is installed on this machine. It changes nothing."
    )
    latest = next((job for job in jobs_of(visit).list(limit=_LOOKED_AT) if job.kind is JobKind.DOCTOR), None)
    if latest is not None and not latest.state.ended:
        watch_job(visit, latest, place="health")
        return
    _ask(visit)
    if latest is not None:
        _report(visit, latest)


def _ask(visit: Visit) -> None:
    with st.form("doctor", border=False):
        prove = st.checkbox(
            "Thorough check",
            help="Also compare all words with the text, and encode fifty passages of each collection again "
            "and search for them. Takes minutes for a million passages.",
        )
        if st.form_submit_button("Run the doctor", type="primary", icon=":material/stethoscope:"):
            start_job(visit, ["doctor", *(["--prove"] if prove else [])], "Run the doctor")
            st.rerun()


def _report(visit: Visit, job: Job) -> None:
    rows = finding_rows(list(every(job.output(), Finding)))
    if not rows or job.state not in (JobState.DONE, JobState.FAILED):
        watch_job(visit, job, place="health")
        return
    text = f"{verdict(rows)} Checked {moment(job.created_at)} UTC."
    if any(row["state"] == "✗ wrong" for row in rows):
        st.error(as_markdown(text), icon=":material/error:")
    else:
        st.success(as_markdown(text), icon=":material/check_circle:")
    st.dataframe(
        rows,
        hide_index=True,
        height="content",
        column_config=widths(state="small", what="medium", found="large"),
    )
    wrong = [row for row in rows if row["state"] == "✗ wrong"]
    for row in wrong:  # in full: a cell may truncate them
        st.markdown(f"- **{as_markdown(row['what'])}**: {as_markdown(row['found'])}")
    show_line(job.command)


def finding_rows(found: Sequence[Finding]) -> list[dict[str, str]]:
    """Return a row for each finding, problems first; the state is a word and a symbol, not a colour."""
    return [
        {"state": "✓ sound" if one.sound else "✗ wrong", "what": one.subject, "found": one.detail}
        for one in sorted(found, key=lambda one: one.sound)
    ]


def verdict(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the summary of the report."""
    wrong = sum(row["state"] == "✗ wrong" for row in rows)
    if not rows:
        return "Nothing was checked."
    if not wrong:
        return f"All {len(rows)} checks passed."
    return f"{wrong} of {len(rows)} checks failed; each says how to repair it."


_A_ROW = 3  # cards beside each other on a wide screen; one column on a narrow one


def show_overview(visit: Visit) -> None:
    """Show a card for each collection: its size, its encoder, and what needs attention."""
    names = visit.library.names()
    at_work = {job.collection for job in running_jobs(visit)}
    for begin in range(0, len(names), _A_ROW):
        columns = st.columns(min(_A_ROW, max(2, len(names))))
        for column, name in zip(columns, names[begin : begin + _A_ROW], strict=False):
            with column, showing_errors():
                _card(visit, visit.library.collection(name).overview(), at_work=name in at_work)


def _card(visit: Visit, found: CollectionOverview, *, at_work: bool) -> None:
    with st.container(border=True, key=f"card-{found.name}"):
        st.subheader(as_markdown(found.name), anchor=False)
        st.markdown(f"**{counted(found.documents, 'document')}**, {counted(found.passages, 'passage')}")
        st.caption("  \n".join(f"{label}: {as_markdown(value)}" for label, value in facts(found)))
        if at_work:  # problems may disappear when the job is done
            st.info("A job is running on it.", icon=":material/sync:")
        for warning in () if at_work else warnings_of(found, may_write=visit.may_write):
            st.warning(as_markdown(warning), icon=":material/warning:")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            link_to("search", "Search", icon=":material/search:", collection=found.name)
            if visit.may_write:
                _go(Part.ADD, "Add", ":material/add:", found.name)
            _go(Part.DOCUMENTS, "Documents", ":material/description:", found.name)
            _go(Part.GENERATIONS, "Generations", ":material/layers:", found.name)


def _go(part: Part, label: str, icon: str, name: str) -> None:
    st.button(
        label,
        key=f"go-{part}-{name}",
        icon=icon,
        type="tertiary",
        on_click=look_at,
        args=(part, name),
    )


_PARTS = {
    Part.OVERVIEW: show_overview,
    Part.ADD: show_adding,
    Part.DOCUMENTS: show_documents,
    Part.GENERATIONS: show_generations,
    Part.HEALTH: show_health,
}


def show(visit: Visit) -> None:
    """Show the page: running jobs, then one of its parts."""
    if not visit.library.names():
        _offer_first_collection(visit)
        return
    st.title("Collections", anchor=False)
    if visit.may_write and show_at_work(visit):
        _look_for_new(visit, visit.library.names())
    if message := st.session_state.pop("collections-said", None):
        st.toast(as_markdown(message), icon=":material/check:")
    # Health is for those who may make changes: it lists programs and paths of the machine.
    parts = [part for part in Part if visit.may_write or part not in (Part.ADD, Part.HEALTH)]
    wanted = st.session_state.pop(NEXT_PART, None)
    if wanted in parts:
        st.session_state[PART] = wanted
    _PARTS[choose_part("Part of the page", parts, PART, elsewhere=True)](visit)


@st.fragment(run_every=1.0)
def _look_for_new(visit: Visit, names: list[str]) -> None:
    """Redraw the page once a running job has created a collection: the job may take hours from then on."""
    with showing_errors():
        if visit.library.names() != names:
            st.rerun()


def _offer_first_collection(visit: Visit) -> None:
    st.title("Welcome to nearsay", anchor=False)
    st.markdown("nearsay finds the sentences that say nearly the same, whatever words they use.")
    if not visit.may_write:
        st.info("This library is empty, and this server is read-only.")
        return
    if show_at_work(visit):
        return
    st.markdown("**There is nothing to search yet. What do you want to add?**")
    ways = [SAMPLES, FILES, *([FOLDER] if visit.may_name_files else [])]
    show_adding(visit, choose_part("How to begin", ways, "begin"))
