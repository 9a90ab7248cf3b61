"""Starting a training: its run, which the page then watches, and the same as a command line."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from nearsay.app.runs import RunKind, RunState
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.runs.watching import runs_of, to_watch, watch_run
from nearsay.app.ui.visit import Visit

__all__ = ["start_run", "watch_started"]

_STARTED = "training_run"
_TRIED = {RunKind.SENTENCE: "Try an encoder", RunKind.PRETRAIN: "Try a BERT"}  # where, on the page Encoders
_WATCHED = (RunKind.VOCABULARY, RunKind.PRETRAIN, RunKind.SENTENCE)


def start_run(
    visit: Visit, kind: RunKind, arguments: Sequence[str], *, title: str, product: Path | None = None
) -> None:
    """Start it and show the page anew, with the run at its top."""
    visit.check_writing()
    run = runs_of(visit).start(
        kind,
        arguments,
        title=title,
        product=None if product is None else str(product),
    )
    st.session_state[_STARTED] = run.number
    st.rerun()


def watch_started(visit: Visit) -> None:
    """The trainings at work, and what was started or seen at work in this session, until it is put away."""
    runs, mine = to_watch(visit, _STARTED, _WATCHED)
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
