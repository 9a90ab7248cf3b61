"""The page Encoders: which there are, where they come from, and what they do with a text."""

import importlib

import streamlit as st

from nearsay.app.runs import RunKind, RunState
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import runs_of, to_watch, watch_run

__all__ = ["show"]

_LIST, _TRY, _INSIDE, _BERT = "List", "Try an encoder", "Inside", "Try a BERT"
_STARTED = "encoders_run"
_NEEDS_MORE = "classification:"  # a file to learn from, which is no choice here


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Encoders", anchor=False)
    part = st.segmented_control(
        "Part of the page",
        [_LIST, _TRY, _INSIDE, _BERT],
        default=_LIST,
        key="part",
        bind="query-params",
        label_visibility="collapsed",
    )
    if part == _TRY:
        importlib.import_module("nearsay.app.ui.encoders.trying").try_encoder(visit)
    elif part == _INSIDE:
        importlib.import_module("nearsay.app.ui.encoders.inside").look_inside(visit)
    elif part == _BERT:
        importlib.import_module("nearsay.app.ui.encoders.trying_bert").try_bert(visit)
    else:
        _list(visit)


def _list(visit: Visit) -> None:
    from nearsay.app.ui.encoders.entry_card import show_entry
    from nearsay.app.ui.offered import evaluation_sets

    _watch(visit)
    runs = runs_of(visit).list(limit=None)
    sets = {spec: told for spec, told in evaluation_sets(visit).items() if not spec.startswith(_NEEDS_MORE)}
    for entry in visit.library.encoders.list():
        show_entry(visit, entry, runs, sets)
    if visit.may_write:
        link_to("training", "Train another", icon=":material/model_training:")


def _watch(visit: Visit) -> None:
    """The measuring and embedding at work, and what was started or seen here, until it is put away."""
    runs, mine = to_watch(visit, _STARTED, (RunKind.EVALUATE, RunKind.REBUILD))
    for run in runs:
        watch_run(visit, run, place="enc", log=2)
    if mine is not None and mine.state.ended:
        with st.container(horizontal=True):
            if mine.kind is RunKind.REBUILD and mine.state is RunState.DONE and mine.collection is not None:
                label = "Promote it on the page Collections"
                link_to(
                    "collections",
                    label,
                    icon=":material/upgrade:",
                    collection=mine.collection,
                    see="Generations",
                )
            if st.button("Put away", key="encoders_away", icon=":material/close:"):
                del st.session_state[_STARTED]
                st.rerun()
