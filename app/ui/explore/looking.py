"""Explorations: computed in the page if that is fast, otherwise by a job whose results are read back."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import streamlit as st

from nearsay.app.jobs import Job, JobKind, JobState
from nearsay.app.jobs.command_line import checked
from nearsay.app.ui.card import passage_html
from nearsay.app.ui.download import offer_download
from nearsay.app.ui.opened import remembered, state_of
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import moment, newest_jobs, offer_job, show_command, watch_newest
from nearsay.indexer.catalogue.passages import headline
from nearsay.indexer.neighbours.points import Near, ShownPassage


def like_link(document: str) -> None:
    """Link to a search for passages like a document."""
    link_to("search", "More like this", icon=":material/hub:", like=document)


def show_passage(found: ShownPassage, *, note: str = "", below: str = "") -> None:
    """Show a passage as a card; note: beside its title; below: under its text."""
    st.html(
        passage_html(
            title=found.title,
            id_=found.id,
            text=found.text,
            rank=found.rank,
            metadata=found.metadata,
            note=note,
            below=below,
        )
    )


def near_words(what: str, near: Near | None) -> str:
    """Return the nearest passage of another in a line; "" if it was deleted."""
    return "" if near is None else f"{what} ({near.cosine:.2f}): {headline(near.title, near.id, near.text)}"


_Rows = TypeVar("_Rows")


@dataclass(frozen=True, slots=True)
class Look(Generic[_Rows]):
    """An exploration."""

    name: str  # part of its widgets' keys
    title: str  # the job's title
    arguments: tuple[str, ...]  # of `nearsay`
    most: int  # passages; for larger collections it takes more than about two seconds
    at_once: Callable[[], _Rows]
    from_job: Callable[[Job], _Rows]  # read the results from the job's output
    still: Callable[[_Rows, str], _Rows] = lambda rows, _: rows  # update those of a job begun at a time


def is_quick(visit: Visit, most: int) -> bool:
    """Return whether the collection has at most this many passages."""
    return visit.collection.snapshot().searchable <= most


def look_at(visit: Visit, look: Look[_Rows], show: Callable[[_Rows], None]) -> None:
    """Show the results if there are any, and the equivalent command."""
    found = _results(visit, look)
    if found is not None:
        show(found)
    show_command(visit, look.arguments)


def _results(visit: Visit, look: Look[_Rows]) -> _Rows | None:
    """Return the results; None, after offering or showing the job, while there are none."""
    if is_quick(visit, look.most):
        return remembered(f"{state_of(visit)}|{shlex.join(look.arguments)}", look.at_once)
    subject = checked(look.arguments).subject
    before = [job for job in newest_jobs(visit, JobKind.of(look.arguments)) if job.subject == subject]
    done = next((job for job in before if job.state is JobState.DONE), None)
    watch_newest(visit, before, look.name)
    _offer(visit, look, before, done)
    if done is None:
        return None
    key = f"{visit.library.store.folder}|job {done.number}|{done.created_at}"
    found = remembered(key, lambda: look.from_job(done))
    return look.still(found, str(done.started_at))


def offer_look(
    visit: Visit, label: str, arguments: Sequence[str], title: str, key: str, icon: str, *, first: bool
) -> None:
    """Draw the button that starts a job, unless one of its kind is running or nothing may be changed.

    first: there are no results yet
    """
    if visit.may_write and all(job.state.ended for job in newest_jobs(visit, JobKind.of(arguments))):
        kind = "primary" if first else "secondary"
        offer_job(visit, label, arguments, title, key, icon, shell=False, type=kind)


def _offer(visit: Visit, look: Look[_Rows], before: list[Job], done: Job | None) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        label, icon = "Start" if done is None else "Run again", ":material/search_insights:"
        offer_look(visit, label, look.arguments, look.title, f"look-{look.name}", icon, first=done is None)
        if done is not None:
            st.caption(f"As of {moment(done.started_at)} UTC, without later changes.")
        elif not before or before[0].state.ended:
            count = visit.collection.snapshot().searchable
            why = f"For {count:,} passages this takes a while, so it runs as a job in the background."
            st.caption(why if visit.may_write else "There are no results yet, and this server is read-only.")


def offer_file(
    visit: Visit,
    label: str,
    make: Callable[[], bytes],
    file_name: str,
    key: str,
    arguments: Sequence[str],
    *,
    most: int,
) -> None:
    """Offer a file; for collections with more passages than `most`, show the command that writes it."""
    if is_quick(visit, most):
        offer_download(label, make, file_name, key=key)
        return
    st.caption(f"{label}: the collection is too large for the page; this command writes the file.")
    show_command(visit, [*arguments, "--out", file_name])
