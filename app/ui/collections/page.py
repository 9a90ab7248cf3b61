"""The page Collections: what is in the library, and what is done to it."""

from collections.abc import Mapping, Sequence

import streamlit as st

from nearsay.app.jobs import Job, JobKind, JobState
from nearsay.app.ui.collections.adding import FILES, FOLDER, SAMPLES, show_adding
from nearsay.app.ui.collections.at_work import NEXT_PART, PART, Part, look_at, show_at_work
from nearsay.app.ui.collections.documents_part import show_documents
from nearsay.app.ui.collections.generations_part import show_generations
from nearsay.app.ui.controls import choose_part, first_of, on_page, widths
from nearsay.app.ui.errors import telling_errors
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
    """What a card shows below the sizes: a label and a value each."""
    live = found.live
    clusters = "none yet" if found.clusters is None else f"{found.clusters:,}"
    if found.clusters is not None and found.unclustered:
        clusters += f", {counted(found.unclustered, 'newer passage')} in none"
    said = [
        (
            "Encoder",
            "none yet" if live is None else f"{live.encoder.name}, {live.encoder.dimension} dimensions",
        ),
        ("Clusters", clusters),
        ("Fields", first_of(found.fields) or "none"),
    ]
    if found.gate is not None:
        said.append(("Near-duplicates", f"{found.gate.action}, cosine {found.gate.threshold:g} and above"))
    return said


def to_be_told(found: CollectionOverview, *, may_write: bool = True) -> list[str]:
    """What needs attention, each with its remedy on this page, unless the page only reads."""
    said: list[tuple[str, str]] = []
    if not found.documents:
        said.append(("This collection is empty.", "Add documents, or delete it under Generations."))
    if found.waiting and found.documents:
        wrong = "cannot be found by meaning yet: an addition is running or was stopped."
        remedy = (
            "To resume a stopped one, add the same documents again or resume it on the page Jobs; mending "
            "the live generation under Generations embeds what it had read."
        )
        said.append((f"{counted(found.waiting, 'passage')} {wrong}", remedy))
    if found.live is not None:
        warning = Plan.from_json(found.live.plan).warning(found.name)
        if warning is not None:
            said.append((on_page(warning), ""))
    if found.unindexed > EXACT_UP_TO:
        wrong = "have no index, so every search compares its question with each of them."
        said.append((f"{counted(found.unindexed, 'passage')} {wrong}", "Build one under Generations."))
    waiting = [row for row in found.generations if row.state == "ready"]
    if waiting:
        wrong = f"Generation {waiting[-1].number}, by {waiting[-1].encoder.name}, is ready."
        said.append((wrong, "Promote it under Generations."))
    if found.removed and found.removed >= 0.2 * max(found.passages, 1):
        wrong = f"{counted(found.removed, 'removed passage')} still take space."
        said.append((wrong, "Compact the collection under Generations."))
    return [f"{wrong} {remedy}".rstrip() if may_write else wrong for wrong, remedy in said]


_LOOKED_AT = 200  # newest jobs among which the last report is looked for


def show_health(visit: Visit) -> None:
    """Start the doctor, and show what it found last."""
    st.subheader("Health", anchor=False)
    st.markdown(
        "The doctor checks that the rows, words, fields, vectors and indexes of every collection agree, and "
        "reports what this machine has. It changes nothing."
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
            "Prove it",
            help="Also compare all words with the text, and encode fifty passages of "
            "each collection again and search for them. Minutes for a million passages.",
        )
        if st.form_submit_button("Ask the doctor", type="primary", icon=":material/stethoscope:"):
            start_job(visit, ["doctor", *(["--prove"] if prove else [])], "Ask the doctor")
            st.rerun()


def _report(visit: Visit, job: Job) -> None:
    rows = finding_rows(list(every(job.output(), Finding)))
    if not rows or job.state not in (JobState.DONE, JobState.FAILED):
        watch_job(visit, job, place="health")
        return
    said = f"{verdict(rows)} Asked {moment(job.created_at)} UTC."
    if any(row["state"] == "✗ wrong" for row in rows):
        st.error(as_markdown(said), icon=":material/error:")
    else:
        st.success(as_markdown(said), icon=":material/check_circle:")
    st.dataframe(
        rows,
        hide_index=True,
        height="content",
        column_config=widths(state="small", what="medium", found="large"),
    )
    wrong = [row for row in rows if row["state"] == "✗ wrong"]
    for row in wrong:  # whole sentences: a cell may cut them
        st.markdown(f"- **{as_markdown(row['what'])}**: {as_markdown(row['found'])}")
    show_line(job.command)


def finding_rows(found: Sequence[Finding]) -> list[dict[str, str]]:
    """A line a finding, what is wrong first; word and mark tell it, not a colour."""
    return [
        {"state": "✓ sound" if one.sound else "✗ wrong", "what": one.subject, "found": one.detail}
        for one in sorted(found, key=lambda one: one.sound)
    ]


def verdict(rows: Sequence[Mapping[str, str]]) -> str:
    """All in one sentence."""
    wrong = sum(row["state"] == "✗ wrong" for row in rows)
    if not rows:
        return "Nothing was looked at."
    if not wrong:
        return f"Everything is sound: {len(rows)} things were looked at."
    verb = "is" if wrong == 1 else "are"
    return f"{wrong} of the {len(rows)} things that were looked at {verb} wrong; each says how it is mended."


_A_ROW = 3  # cards beside each other on a wide screen; on a narrow one they stand below each other


def show_overview(visit: Visit) -> None:
    """A card for each collection: what it holds, by which encoder, and what is to be done."""
    names = visit.library.names()
    at_work = {job.collection for job in running_jobs(visit)}
    for begin in range(0, len(names), _A_ROW):
        columns = st.columns(min(_A_ROW, max(2, len(names))))
        for column, name in zip(columns, names[begin : begin + _A_ROW], strict=False):
            with column, telling_errors():
                _card(visit, visit.library.collection(name).overview(), at_work=name in at_work)


def _card(visit: Visit, found: CollectionOverview, *, at_work: bool) -> None:
    with st.container(border=True, key=f"card-{found.name}"):
        st.subheader(as_markdown(found.name), anchor=False)
        st.markdown(f"**{counted(found.documents, 'document')}**, {counted(found.passages, 'passage')}")
        st.caption("  \n".join(f"{label}: {as_markdown(value)}" for label, value in facts(found)))
        if at_work:  # what is not as it should be may be so only until that is done
            st.info("It is being worked on.", icon=":material/sync:")
        for said in () if at_work else to_be_told(found, may_write=visit.may_write):
            st.warning(as_markdown(said), icon=":material/warning:")
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
    """Show the page: what is at work, then one of its parts."""
    if not visit.library.names():
        _offer_first_collection(visit)
        return
    st.title("Collections", anchor=False)
    if visit.may_write and show_at_work(visit):
        _look_for_new(visit, visit.library.names())
    if said := st.session_state.pop("collections-said", None):
        st.toast(as_markdown(said), icon=":material/check:")
    # Health tells of the machine: its programs, and where things lie on it.
    parts = [part for part in Part if visit.may_write or part not in (Part.ADD, Part.HEALTH)]
    wanted = st.session_state.pop(NEXT_PART, None)
    if wanted in parts:
        st.session_state[PART] = wanted
    _PARTS[choose_part("Part of the page", parts, PART, elsewhere=True)](visit)


@st.fragment(run_every=1.0)
def _look_for_new(visit: Visit, names: list[str]) -> None:
    """Draw the page again once what is at work has made a collection: its job may take hours from then on."""
    with telling_errors():
        if visit.library.names() != names:
            st.rerun()


def _offer_first_collection(visit: Visit) -> None:
    """Three ways to the first collection; each ends with a search of it."""
    st.title("Welcome to nearsay", anchor=False)
    st.markdown("nearsay finds the sentences that say nearly the same, whatever words they use.")
    if not visit.may_write:
        st.info("There is nothing in this library yet, and this page only reads.")
        return
    if show_at_work(visit):
        return
    st.markdown("**There is nothing to search yet. How do you want to begin?**")
    ways = [SAMPLES, FILES, *([FOLDER] if visit.may_name_files else [])]
    show_adding(visit, choose_part("How to begin", ways, "begin"))
