"""Jobs on collections: starting them and showing their progress and results."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import streamlit as st

from nearsay.app.jobs import Job, JobKind, JobState
from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.opened import get_ready
from nearsay.app.ui.page_link import NEXT_COLLECTION, leave_collection, link_to, open_page, scroll_to_top
from nearsay.app.ui.uploads import Uploads
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import followed, jobs_of, running_jobs, start_job, watch_job
from nearsay.data.document import visible
from nearsay.data.errors import BadInputError
from nearsay.indexer import AddReport
from nearsay.indexer.results import newest

PART: Final = "see"  # the key of the widget that chooses a part, and its name in the address
NEXT_PART: Final = "collections_next"  # session key: the part to choose in the next run
_AT_TOP: Final = "collections_at_top"  # session key: the job that was started last


class Part(StrEnum):
    """The parts of the page, named as on the page and in the address."""

    OVERVIEW = "Overview"
    ADD = "Add"
    DOCUMENTS = "Documents"
    GENERATIONS = "Generations"
    HEALTH = "Health"


def look_at(part: Part, name: str) -> None:
    """Open a part of the page for a collection; for a button's callback."""
    with showing_errors():
        st.session_state[PART] = part
        st.session_state[NEXT_COLLECTION] = name
        leave_collection()
        if part is Part.ADD:
            st.session_state["add_into"] = name


_SHOWN: Final = (
    *(JobKind.ADD, JobKind.REMOVE, JobKind.REBUILD, JobKind.PROMOTE, JobKind.ROLLBACK, JobKind.TUNE),
    *(JobKind.COMPACT, JobKind.DEMO, JobKind.OTHER),
)
_FILLS: Final = (JobKind.ADD, JobKind.DEMO)
_ASKED: Final = (
    "walks are a tug of war, my arm is killing me",
    "ceiling gadget keeps beeping though nothing is burning",
    "why is the sky dark at night",
)


def start(
    visit: Visit,
    arguments: Sequence[str],
    title: str,
    *,
    collection: str | None = None,
    elsewhere: bool = False,
) -> None:
    """Start a command in the background and show it; the job's number is put into the address.

    elsewhere: the caller is not on the page Collections, which is opened
    """
    is_first = not visit.library.names()
    job = start_job(visit, arguments, title, collection=collection)
    if is_first:  # load the encoder here while the job embeds in its own process
        get_ready(visit.library, visit.settings)
    st.session_state[NEXT_PART] = Part.OVERVIEW if JobKind.of(arguments) in _FILLS else None
    if elsewhere:
        open_page("collections", job=str(job.number))
    st.session_state[_AT_TOP] = job.number
    st.query_params["job"] = str(job.number)
    st.rerun()


def show_at_work(visit: Visit) -> bool:
    """Show the running jobs, and the result of the job in the address. Returns whether any is running."""
    _clear_uploads(visit)
    if _AT_TOP in st.session_state:  # the button that started it is far below or in a dialog
        scroll_to_top(st.session_state[_AT_TOP])
    at_work = [job for job in running_jobs(visit) if job.kind in _SHOWN]
    asked = _asked(visit)
    if at_work and asked is None:  # so that a visitor who comes now also sees the result
        st.query_params["job"] = str(at_work[0].number)
    for job in at_work:
        watch_job(visit, job, place="collections")
    if asked is not None and asked.number not in {job.number for job in at_work}:
        _show_ended(visit, asked)
    return bool(at_work)


def _asked(visit: Visit) -> Job | None:
    number = st.query_params.get("job", "")
    if not number.isdecimal() or len(number) > 15:
        return None
    try:
        job = followed(visit, jobs_of(visit).get(int(number)))
    except BadInputError:
        return None
    return job if job.kind in _SHOWN else None


def _show_ended(visit: Visit, job: Job) -> None:
    report = newest(job.output(100), AddReport) if job.kind is JobKind.ADD else None
    watch_job(visit, job, place="collections", done=None if report is None else report.sentence)
    if job.state is JobState.DONE and report is not None:
        remarks = [visible(line) for line in report.lines() if line != report.sentence]
        if remarks:
            st.code("\n".join(remarks), language=None, wrap_lines=True)
    if job.state is JobState.DONE and job.kind in _FILLS and job.collection in visit.library.names():
        _offer_search(job)
    else:
        _close()


def _offer_search(job: Job) -> None:
    name = str(job.collection)
    with st.container(border=True):
        st.markdown(f"**{as_markdown(name)} is ready to search.** Ask a question in your own words.")
        with st.form(f"first-search-{job.number}", border=False), st.container(horizontal=True):
            query = st.text_input(
                "Question",
                placeholder="describe what you are looking for, in any words",
                label_visibility="collapsed",
            )
            if st.form_submit_button("Search", type="primary", icon=":material/search:") and query.strip():
                open_page("search", collection=name, q=query.strip())
        if job.kind is JobKind.DEMO:
            for asked in _ASKED:
                link_to("search", as_markdown(asked), icon=":material/search:", collection=name, q=asked)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button(
                "Browse its documents",
                icon=":material/description:",
                key="first-documents",
                on_click=look_at,
                args=(Part.DOCUMENTS, name),
            )
            if st.button("See its topics", icon=":material/scatter_plot:", key="first-topics"):
                open_page("explore", collection=name)
            _close()


def _close() -> None:
    if st.button("Close", key="collections-close", icon=":material/close:"):
        del st.query_params["job"]
        st.rerun()


def _clear_uploads(visit: Visit) -> None:
    uploads = Uploads(visit.library.store.folder)
    if visit.may_write and uploads.folder.is_dir() and any(uploads.folder.iterdir()):
        uploads.clear(jobs_of(visit).list(limit=None))
