"""Explorations that a page shows: done at once where that is quick, else as a run that is read back."""

import csv
import io
import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

import streamlit as st

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.runs.command_line import checked
from nearsay.app.ui.asked import written_ids
from nearsay.app.ui.card import passage_html
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_html
from nearsay.app.ui.opened import remembered, state_of
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import moment, runs_of, start_run, watch_run
from nearsay.data.formulas import defused
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue.passage import headline
from nearsay.indexer.neighbours.shown import Near, ShownPassage

__all__ = [
    "Look",
    "ask_to_remove",
    "cluster_link",
    "csv_bytes",
    "found_by",
    "is_quick",
    "json_lines_bytes",
    "like_link",
    "names_html",
    "near_words",
    "newest_runs",
    "show_paged",
    "show_passage",
    "watch_newest",
]


_Item = TypeVar("_Item")


def show_paged(items: Sequence[_Item], size: int, key: str, show: Callable[[Sequence[_Item]], None]) -> None:
    """Show the page of the list that is chosen under it; a list of one page has no choice."""
    pages = max(1, -(-len(items) // size))
    place = st.container()
    at = st.pagination(pages, key=key) if pages > 1 else 1
    with place:
        show(items[(at - 1) * size : at * size])


def like_link(document: str) -> None:
    """A link to the passages nearest to a document."""
    link_to("search", "More like this", icon=":material/hub:", like=written_ids([document]))


def cluster_link(number: int) -> None:
    """A link to the search in one cluster."""
    link_to("search", "Search in it", icon=":material/search:", where=f"cluster = {number}")


def show_passage(found: ShownPassage, *, said: str = "", below: str = "") -> None:
    """A passage as a card; said: beside its title, below: under its text."""
    st.html(
        passage_html(
            title=headline(found.title, found.id, found.text),
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


_NAMED = 50  # documents that are named one by one


@st.dialog("Remove documents?", width="medium")
def ask_to_remove(visit: Visit, ids: Sequence[str], why: str = "") -> None:
    """Ask, with the documents named; yes removes them."""
    with telling_errors():
        st.markdown(f"Removed with all passages: **{counted(len(ids), 'document')}**. {why}".strip())
        st.html(names_html(ids))
        with st.container(horizontal=True):
            if st.button("Remove them", type="primary", key="remove_yes", icon=":material/delete:"):
                remove_and_say(visit, ids)
                st.rerun()
            if st.button("Keep them", key="remove_no"):
                st.rerun()


def remove_and_say(visit: Visit, ids: Sequence[str]) -> None:
    """Remove documents that somebody has confirmed."""
    visit.check_writing()
    with st.spinner("Removing …"):
        removed = visit.collection.remove(ids)
    st.toast(f"{counted(removed, 'document')} removed.", icon=":material/delete:")


def names_html(ids: Sequence[str]) -> str:
    """The ids as a list; of many the first, and how many more there are."""
    named = "".join(f"<li>{as_html(id_)}</li>" for id_ in ids[:_NAMED])
    more = f"<li>and {len(ids) - _NAMED:,} more</li>" if len(ids) > _NAMED else ""
    return f'<div class="ns-card"><ul>{named}{more}</ul></div>'


def csv_bytes(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> bytes:
    """A header and a line a row, UTF-8; a text that a spreadsheet would compute gets an apostrophe before it.

    A list or an object is written as JSON, None as nothing.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([_cell(name) for name in columns])
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return text.getvalue().encode("utf-8", "replace")


def json_lines_bytes(rows: Iterable[Mapping[str, object]]) -> bytes:
    """A JSON object a line, UTF-8."""
    return b"".join(
        json.dumps(dict(row), ensure_ascii=False).encode("utf-8", "replace") + b"\n" for row in rows
    )


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, list | tuple | dict | bool):
        value = json.dumps(value, ensure_ascii=False)
    return defused(value)


_Rows = TypeVar("_Rows")
_LOOKED_AT = 200  # newest runs of the collection among which an earlier look is sought


@dataclass(frozen=True, slots=True)
class Look(Generic[_Rows]):
    """One exploration."""

    name: str  # tells apart the keys of its buttons
    title: str  # of its run
    arguments: tuple[str, ...]  # behind `nearsay`
    most: int  # passages: of a larger collection it takes more than some two seconds
    at_once: Callable[[], _Rows]
    from_output: Callable[[Iterable[Any]], _Rows]  # the same from the reports of a run that found it


@dataclass(frozen=True, slots=True)
class Found(Generic[_Rows]):
    """What an exploration found."""

    rows: _Rows
    run: Run | None  # that found it; None: it is about the collection as it is now


def is_quick(visit: Visit, most: int) -> bool:
    """Whether the collection has at most so many passages."""
    return visit.collection.snapshot().searchable <= most


def found_by(visit: Visit, look: Look[_Rows]) -> Found[_Rows] | None:
    """What is found, or None while somebody has to start a run or to wait for it: then the page says so."""
    if is_quick(visit, look.most):
        found = remembered(f"{state_of(visit)}|{shlex.join(look.arguments)}", look.at_once)
        return Found(found, None)
    subject = checked(look.arguments).subject
    before = [run for run in newest_runs(visit, RunKind.of(look.arguments)) if run.subject == subject]
    done = next((run for run in before if run.state is RunState.DONE), None)
    watch_newest(visit, before, look.name)
    _offer(visit, look, before, done)
    if done is None:
        return None
    key = f"{visit.library.store.folder}|run {done.number}|{done.created_at}"
    return Found(remembered(key, lambda: look.from_output(done.folder.output())), done)


def newest_runs(visit: Visit, kind: RunKind) -> list[Run]:
    """The collection's runs of a kind, the newest first.

    Runs about a collection of the same name that was deleted are none of them.
    """
    since = visit.collection.snapshot().collection.created_at
    every = runs_of(visit).list(collection=visit.name, limit=_LOOKED_AT)
    return [
        run
        for run in every
        if run.kind is kind and datetime.fromisoformat(run.created_at) >= datetime.fromisoformat(since)
    ]


def watch_newest(visit: Visit, runs: Sequence[Run], place: str) -> None:
    """Show the newest of some runs while it is at work; if it then fails, how, for as long as one stays."""
    seen: set[int] = st.session_state.setdefault("explore_seen", set())
    if not runs:
        return
    newest = runs[0]
    if not newest.state.ended:
        seen.add(newest.number)
    elif newest.state is RunState.DONE:
        return
    if newest.number in seen:
        watch_run(visit, newest, place=place)


def _offer(visit: Visit, look: Look[_Rows], before: list[Run], done: Run | None) -> None:
    """The button that starts a run, and when was looked last."""
    at_work = bool(before) and not before[0].state.ended
    with st.container(horizontal=True, vertical_alignment="center"):
        label = "Look now" if done is None else "Look again"
        if visit.may_write and not at_work:
            icon = ":material/search_insights:"
            kind: Literal["primary", "secondary"] = "primary" if done is None else "secondary"
            if st.button(label, key=f"look-{look.name}", type=kind, icon=icon):
                start_run(visit, look.arguments, look.title)
                st.rerun()
        if done is not None:
            st.caption(f"As of {moment(done.started_at)} UTC. What changed since is not in it.")
        elif not at_work:
            count = visit.collection.snapshot().searchable
            said = f"{count:,} passages take longer than a page should: it is done in the background."
            st.caption(said if visit.may_write else "Nobody has looked yet, and this page only reads.")
