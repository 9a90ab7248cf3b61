"""Explorations that a page shows: done at once where that is quick, else as a job that is read back."""

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
    """A link to the passages nearest to a document."""
    link_to("search", "More like this", icon=":material/hub:", like=document)


def show_passage(found: ShownPassage, *, said: str = "", below: str = "") -> None:
    """A passage as a card; said: beside its title, below: under its text."""
    st.html(
        passage_html(
            title=found.title,
            id_=found.id,
            text=found.text,
            rank=found.rank,
            metadata=found.metadata,
            said=said,
            below=below,
        )
    )


def near_words(what: str, near: Near | None) -> str:
    """The passage that is nearest to another, in a line; nothing where it is gone."""
    return "" if near is None else f"{what} ({near.cosine:.2f}): {headline(near.title, near.id, near.text)}"


_Rows = TypeVar("_Rows")


@dataclass(frozen=True, slots=True)
class Look(Generic[_Rows]):
    """One exploration."""

    name: str  # tells apart the keys of its buttons
    title: str  # of its job
    arguments: tuple[str, ...]  # behind `nearsay`
    most: int  # passages: of a larger collection it takes more than some two seconds
    at_once: Callable[[], _Rows]
    from_job: Callable[[Job], _Rows]  # the same from what a job that found it printed
    still: Callable[[_Rows, str], _Rows] = lambda rows, _: rows  # what is so of them since the job began


def is_quick(visit: Visit, most: int) -> bool:
    """Whether the collection has at most so many passages."""
    return visit.collection.snapshot().searchable <= most


def look_at(visit: Visit, look: Look[_Rows], show: Callable[[_Rows], None]) -> None:
    """Show what is found, once it is, and the same as a command line."""
    found = _found_by(visit, look)
    if found is not None:
        show(found)
    show_command(visit, look.arguments)


def _found_by(visit: Visit, look: Look[_Rows]) -> _Rows | None:
    """What is found, or None while somebody has to start a job or to wait for it: then the page says so."""
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
    """The button that starts a job, where something may be changed and none of its kind is at work.

    first: nothing was found before
    """
    if visit.may_write and all(job.state.ended for job in newest_jobs(visit, JobKind.of(arguments))):
        kind = "primary" if first else "secondary"
        offer_job(visit, label, arguments, title, key, icon, shell=False, type=kind)


def _offer(visit: Visit, look: Look[_Rows], before: list[Job], done: Job | None) -> None:
    """The button that starts a job, and when was looked last."""
    with st.container(horizontal=True, vertical_alignment="center"):
        label, icon = "Look now" if done is None else "Look again", ":material/search_insights:"
        offer_look(visit, label, look.arguments, look.title, f"look-{look.name}", icon, first=done is None)
        if done is not None:
            st.caption(f"As of {moment(done.started_at)} UTC. What changed since is not in it.")
        elif not before or before[0].state.ended:
            count = visit.collection.snapshot().searchable
            said = f"{count:,} passages take longer than a page should: it is done in the background."
            st.caption(said if visit.may_write else "Nobody has looked yet, and this page only reads.")


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
    """A file of the collection; where that has more passages than `most`, the command that writes it."""
    if is_quick(visit, most):
        offer_download(label, make, file_name, key=key)
        return
    st.caption(f"{label}: a command writes the file, since there are so many.")
    show_command(visit, [*arguments, "--out", file_name])
