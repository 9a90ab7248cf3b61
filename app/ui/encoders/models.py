"""The models that the page tries, each loaded once per process, and few at a time."""

import contextlib
import threading
from pkgutil import resolve_name
from typing import TYPE_CHECKING, cast

import streamlit as st

from nearsay.app.ui.visit import Visit
from nearsay.data.errors import NearsayError
from nearsay.indexer.encoders import stamp

if TYPE_CHECKING:
    from nearsay.training.bert.attention import AttentionReader
    from nearsay.training.bert.fill import Filler, NextSentence
    from nearsay.training.sentence.encoder import Encoder

_KEPT = 6  # a model may take gigabytes
# transformers fails if two threads import it at once, as happens when the page starts.
_LOADING = threading.Lock()


def encoder(visit: Visit, source: str) -> "Encoder":
    """Return an encoder, the library's own if it has loaded it."""
    if source in _live_sources(visit):
        return cast("Encoder", visit.library.encoder(source))
    return cast("Encoder", _loaded(visit, "sentence.encoder:Encoder", source))


def filler(visit: Visit, bert: str) -> "Filler":
    """Return a BERT with its head for masked words."""
    return cast("Filler", _loaded(visit, "bert.fill:Filler", bert))


def next_sentence(visit: Visit, bert: str) -> "NextSentence":
    """Return a BERT with its next-sentence head."""
    return cast("NextSentence", _loaded(visit, "bert.fill:NextSentence", bert))


def reader(visit: Visit, source: str) -> "AttentionReader":
    """Return an encoder, or a BERT, that exposes its attention."""
    return cast("AttentionReader", _loaded(visit, "bert.attention:AttentionReader", source))


def _live_sources(visit: Visit) -> list[str]:
    """Return the live encoders of collections, which the library keeps loaded."""
    return [each.source for each in visit.library.encoders.list() if each.live_in]


def _loaded(visit: Visit, kind: str, source: str) -> object:
    """Return a model, cached.

    kind: module and class, below `nearsay.training`
    """
    with contextlib.suppress(NearsayError):  # a search reports an encoder that is missing
        for live in _live_sources(visit)[:1]:  # before others, since searches need it
            visit.library.encoder(live)
    return _load(kind, source, visit.settings.device, visit.settings.precision, stamp(source))


@st.cache_resource(max_entries=_KEPT, show_spinner="Loading the model …")
def _load(kind: str, source: str, device: str | None, precision: str, changed: int) -> object:
    del changed
    with _LOADING:
        from nearsay.training.encoder.hardware import Precision

        how = {"precision": Precision(precision)} if kind.endswith(":Encoder") else {}
        return resolve_name(f"nearsay.training.{kind}").load(source, device=device, **how)
