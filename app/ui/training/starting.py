"""Starting a training: its run, which the page then watches, and the same as a command line."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from nearsay.app.runs import RunKind, RunState
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.page_link import link_to, scroll_to_top
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import STATE_ICONS, running_runs, runs_of, start_run, to_watch, watch_run
from nearsay.data.document import visible
from nearsay.data.errors import BadInputError

__all__ = ["start_training", "watch_started"]

_STARTED, _AT_TOP = "training_run", "training_at_top"
_TRIED = {RunKind.SENTENCE: "Try an encoder", RunKind.PRETRAIN: "Try a BERT"}  # where, on the page Encoders
_WATCHED = (RunKind.VOCABULARY, RunKind.PRETRAIN, RunKind.SENTENCE)
_LOOKED_AT = 200  # newest runs among which the last training is sought


def start_training(visit: Visit, arguments: Sequence[str], title: str, product: Path) -> None:
    """Start it and show the page anew, with the run at its top.

    BadInputError if a run that is at work, or waits for its turn, makes the same product.
    """
    for other in running_runs(visit):
        if (other.product or "").casefold() == str(product).casefold():
            raise BadInputError(
                f"run {other.number} is making '{product.name}' already. Wait for it, or take another name"
            )
    st.session_state[_AT_TOP] = start_run(visit, arguments, title, kept=_STARTED).number
    st.rerun()


def watch_started(visit: Visit) -> None:
    """The trainings at work, and what was started or seen at work in this session, until it is put away.

    Where there is none, the last one of all, as a link.
    """
    runs, mine = to_watch(visit, _STARTED, _WATCHED)
    if _AT_TOP in st.session_state:  # the button that started it stands far below
        scroll_to_top(st.session_state[_AT_TOP])
    for run in runs:
        watch_run(visit, run, log=4)
        with st.container(horizontal=True):
            link_to("runs", "Curves, result and log", icon=":material/open_in_full:", run=str(run.number))
            if mine is not None and run.number == mine.number and run.state.ended:
                if run.state is RunState.DONE and run.kind in _TRIED:
                    link_to("encoders", "Try it", icon=":material/hub:", part=_TRIED[run.kind])
                if st.button("Put away", key="training_away", icon=":material/close:"):
                    del st.session_state[_STARTED]
                    st.rerun()
    if not runs:
        _last(visit)


def _last(visit: Visit) -> None:
    """The way to the training that ended last: its result outlives the visit in which it was started."""
    ended = (run for run in runs_of(visit).list(limit=_LOOKED_AT) if run.kind in _WATCHED and run.state.ended)
    last = max(ended, key=lambda run: run.ended_at or run.created_at, default=None)
    if last is not None:
        label = f"The last one: {as_markdown(visible(last.title))}, {last.state}"
        link_to("runs", label, icon=STATE_ICONS[last.state], run=str(last.number))
