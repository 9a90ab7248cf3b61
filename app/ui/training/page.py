"""The page Training: forms that train a vocabulary, pretrain a BERT, and fine-tune or adapt an encoder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from pkgutil import resolve_name

import streamlit as st

from nearsay.app.jobs import Job, JobKind, JobState
from nearsay.app.ui.controls import choose_part
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.page_link import link_to, scroll_to_top
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import STATE_ICONS, jobs_of, running_jobs, start_job, watch_started
from nearsay.data.document import visible
from nearsay.data.errors import BadInputError

_FORMS = {  # the names are also in the address
    "Sentence encoder": "sentence_form:sentence_form",
    "Adapt to a collection": "sentence_form:adapt_form",
    "BERT": "pretraining_form:pretraining_form",
    "Vocabulary": "pretraining_form:vocabulary_form",
}
_STARTED, _AT_TOP = "training_job", "training_at_top"
_TRIED = {JobKind.SENTENCE: "Try an encoder", JobKind.PRETRAIN: "Try a BERT"}  # parts of the page Encoders
_WATCHED = (JobKind.VOCABULARY, JobKind.PRETRAIN, JobKind.SENTENCE)
_LOOKED_AT = 200  # newest jobs among which the last training is searched


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Training", anchor=False)
    _show_trainings(visit)
    if not visit.may_write:
        st.info("This server is read-only, so nothing can be trained here.", icon=":material/lock:")
        return
    name = _FORMS[choose_part("What to train", list(_FORMS), "train", label_visibility="visible")]
    # Imported when shown: the models' libraries take seconds to load.
    form: Callable[[Visit], None] = resolve_name(f"nearsay.app.ui.training.{name}")
    form(visit)


def start_training(visit: Visit, arguments: Sequence[str], title: str, product: Path) -> None:
    """Start a training and redraw the page with its job at the top.

    Raises BadInputError if a running or waiting job has the same output.
    """
    for other in running_jobs(visit):
        if (other.product or "").casefold() == str(product).casefold():
            raise BadInputError(
                f"job {other.number} is already creating '{product.name}'. Wait for it, or choose another "
                "name"
            )
    st.session_state[_AT_TOP] = start_job(visit, arguments, title, kept=_STARTED).number
    st.rerun()


def _show_trainings(visit: Visit) -> None:
    """Show running trainings, and the session's last one until it is dismissed; else link to the newest."""

    def beside(job: Job, mine: bool) -> None:
        link_to("jobs", "Curves, result and log", icon=":material/open_in_full:", job=str(job.number))
        if mine and job.state is JobState.DONE and job.kind in _TRIED:
            link_to("encoders", "Try it", icon=":material/hub:", part=_TRIED[job.kind])

    if _AT_TOP in st.session_state:  # the button that started it is far below
        scroll_to_top(st.session_state[_AT_TOP])
    if not watch_started(visit, _STARTED, _WATCHED, log=4, beside=beside):
        _last(visit)


def _last(visit: Visit) -> None:
    """Link to the training that ended last, whichever session started it."""
    ended = (job for job in jobs_of(visit).list(limit=_LOOKED_AT) if job.kind in _WATCHED and job.state.ended)
    last = max(ended, key=lambda job: job.ended_at or job.created_at, default=None)
    if last is not None:
        label = f"Last training: {as_markdown(visible(last.title))}, {last.state}"
        link_to("jobs", label, icon=STATE_ICONS[last.state], job=str(last.number))
