"""The page Encoders: which there are, where they come from, and what they do with a text."""

from collections.abc import Callable
from pkgutil import resolve_name

import streamlit as st

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.ui.controls import choose_part
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import runs_of, watch_started

__all__ = ["show"]

_LIST, _TRY, _INSIDE, _BERT = "List", "Try an encoder", "Inside", "Try a BERT"
_SHOWN = {_TRY: "trying:try_encoder", _INSIDE: "inside:look_inside", _BERT: "trying:try_bert"}
_STARTED = "encoders_run"
_NEEDS_MORE = "classification:"  # a file to learn from, which is no choice here


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Encoders", anchor=False)
    part = choose_part("Part of the page", [_LIST, _TRY, _INSIDE, _BERT], "part")
    if part in _SHOWN:  # imported when it is looked at: the models' libraries take seconds
        show_part: Callable[[Visit], None] = resolve_name(f"nearsay.app.ui.encoders.{_SHOWN[part]}")
        show_part(visit)
    else:
        _list(visit)


def _list(visit: Visit) -> None:
    from nearsay.app.ui.encoders.entry_card import show_entry
    from nearsay.app.ui.offered import evaluation_sets

    watch_started(visit, _STARTED, (RunKind.EVALUATE, RunKind.REBUILD), place="enc", beside=_beside)
    runs = runs_of(visit).list(limit=None)
    sets = {spec: told for spec, told in evaluation_sets(visit).items() if not spec.startswith(_NEEDS_MORE)}
    for entry in visit.library.encoders.list():
        show_entry(visit, entry, runs, sets)
    if visit.may_write:
        link_to("training", "Train another", icon=":material/model_training:")


def _beside(run: Run, mine: bool) -> None:
    """The way on from an embedding that was started here."""
    if mine and run.kind is RunKind.REBUILD and run.state is RunState.DONE and run.collection is not None:
        label, icon = "Promote it on the page Collections", ":material/upgrade:"
        link_to("collections", label, icon=icon, collection=run.collection, see="Generations")
