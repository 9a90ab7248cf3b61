"""The page Encoders: the list of encoders, and views that try them and look inside."""

from collections.abc import Callable
from pkgutil import resolve_name

import streamlit as st

from nearsay.app.jobs import Job, JobKind, JobState
from nearsay.app.ui.controls import choose_part
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import jobs_of, watch_started

_LIST, _TRY, _INSIDE, _BERT = "List", "Try an encoder", "Inside", "Try a BERT"
_SHOWN = {_TRY: "trying:try_encoder", _INSIDE: "inside:look_inside", _BERT: "trying:try_bert"}
_STARTED = "encoders_job"
_NEEDS_MORE = "classification:"  # these need a training file


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Encoders", anchor=False)
    part = choose_part("Part of the page", [_LIST, _TRY, _INSIDE, _BERT], "part")
    if part in _SHOWN:  # imported when shown: the models' libraries take seconds to load
        show_part: Callable[[Visit], None] = resolve_name(f"nearsay.app.ui.encoders.{_SHOWN[part]}")
        show_part(visit)
    else:
        _list(visit)


def _list(visit: Visit) -> None:
    from nearsay.app.ui.encoders.entry_card import show_entry
    from nearsay.app.ui.offered import evaluation_sets

    watch_started(visit, _STARTED, (JobKind.EVALUATE, JobKind.REBUILD), place="enc", beside=_beside)
    jobs = jobs_of(visit).list(limit=None)
    sets = {spec: label for spec, label in evaluation_sets(visit).items() if not spec.startswith(_NEEDS_MORE)}
    for entry in visit.library.encoders.list():
        show_entry(visit, entry, jobs, sets)
    if visit.may_write:
        link_to("training", "Train another", icon=":material/model_training:")


def _beside(job: Job, mine: bool) -> None:
    """Link to the promotion of a generation that was embedded here."""
    if mine and job.kind is JobKind.REBUILD and job.state is JobState.DONE and job.collection is not None:
        label, icon = "Promote it on the page Collections", ":material/upgrade:"
        link_to("collections", label, icon=icon, collection=job.collection, see="Generations")
