"""Explorations that a page shows: done at once where that is quick, else as a run that is read back."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

import streamlit as st

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.ui.explore.state import remembered, state_of
from nearsay.app.ui.runs.watching import runs_of, watch_run
from nearsay.app.ui.runs.words import moment
from nearsay.app.ui.visit import Visit

__all__ = [
    "Found",
    "Look",
    "found_by",
    "is_quick",
    "newest_runs",
    "same_command",
    "watch_newest",
]

_Rows = TypeVar("_Rows")
_LOOKED_AT = 200  # newest runs of the collection among which an earlier look is sought
_ADDED = ("--device", "--precision")  # what a run's arguments may hold beside ours, each with a value


@dataclass(frozen=True, slots=True)
class Look(Generic[_Rows]):
    """One exploration."""

    name: str  # tells apart the keys of its buttons
    title: str  # of its run
    kind: RunKind
    arguments: tuple[str, ...]  # behind `nearsay`
    most: int  # passages: of a larger collection it takes more than some two seconds
    at_once: Callable[[], _Rows]
    from_output: Callable[[Iterable[Any]], _Rows]  # the same from what the command prints with --json


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
    before = newest_runs(visit, look.kind, look.arguments)
    done = next((run for run in before if run.state is RunState.DONE), None)
    watch_newest(visit, before, look.name)
    _offer(visit, look, before, done)
    if done is None:
        return None
    key = f"{visit.library.store.folder}|run {done.number}|{done.created_at}"
    return Found(remembered(key, lambda: look.from_output(done.folder.output())), done)


def newest_runs(visit: Visit, kind: RunKind, arguments: Sequence[str] | None = None) -> list[Run]:
    """The collection's runs of a kind, the newest first; arguments: only those of this command.

    Runs about a collection of the same name that was deleted are none of them.
    """
    since = visit.collection.snapshot().collection.created_at
    every = runs_of(visit).list(collection=visit.name, limit=_LOOKED_AT)
    return [
        run
        for run in every
        if run.kind is kind
        and datetime.fromisoformat(run.created_at) >= datetime.fromisoformat(since)
        and (arguments is None or same_command(run.arguments, arguments))
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


def same_command(ran: Sequence[str], arguments: Sequence[str]) -> bool:
    """Whether a run's arguments are these, but for where its encoder runs."""
    kept: list[str] = []
    parts = iter(ran)
    for part in parts:
        if part in _ADDED and part not in arguments:
            next(parts, None)
        else:
            kept.append(part)
    return kept == list(arguments)


def _offer(visit: Visit, look: Look[_Rows], before: list[Run], done: Run | None) -> None:
    """The button that starts a run, and when was looked last."""
    at_work = bool(before) and not before[0].state.ended
    with st.container(horizontal=True, vertical_alignment="center"):
        label = "Look now" if done is None else "Look again"
        if visit.may_write and not at_work:
            icon = ":material/search_insights:"
            kind: Literal["primary", "secondary"] = "primary" if done is None else "secondary"
            if st.button(label, key=f"look-{look.name}", type=kind, icon=icon):
                visit.check_writing()
                runs_of(visit).start(look.kind, look.arguments, title=look.title, collection=visit.name)
                st.rerun()
        if done is not None:
            st.caption(f"As of {moment(done.started_at)} UTC. What changed since is not in it.")
        elif not at_work:
            count = visit.collection.snapshot().searchable
            said = f"{count:,} passages take longer than a page should: it is done in the background."
            st.caption(said if visit.may_write else "Nobody has looked yet, and this page only reads.")
