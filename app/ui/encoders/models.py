"""The models that the page tries: each loaded once per process, whoever looks, and few at a time."""

import contextlib
import threading
from typing import TYPE_CHECKING, cast

import streamlit as st

from nearsay.app.ui.visit import Visit
from nearsay.data.errors import NearsayError
from nearsay.indexer.encoders import stamp

if TYPE_CHECKING:
    from nearsay.training.bert.attention import AttentionReader
    from nearsay.training.bert.fill import Filler, NextSentence
    from nearsay.training.sentence.encoder import Encoder

__all__ = ["encoder", "filler", "next_sentence", "reader"]

_KEPT = 3  # of each kind: a model may take gigabytes
# transformers fails where two threads import it at once, as at the page's start.
_LOADING = threading.Lock()


def encoder(visit: Visit, source: str) -> "Encoder":
    """The encoder; one that the library has loaded already is taken from there."""
    if source in _live_sources(visit):
        return cast("Encoder", visit.library.encoder(source))
    _wait_for_the_first_search(visit)
    return _encoder(source, visit.settings.device, visit.settings.precision, stamp(source))


def filler(visit: Visit, bert: str, changed: int) -> "Filler":
    """A BERT with its head for masked words; changed: a number that changes with its folder."""
    _wait_for_the_first_search(visit)
    return _filler(bert, visit.settings.device, changed)


def next_sentence(visit: Visit, bert: str, changed: int) -> "NextSentence":
    """A BERT with its next-sentence head."""
    _wait_for_the_first_search(visit)
    return _next_sentence(bert, visit.settings.device, changed)


def reader(visit: Visit, source: str) -> "AttentionReader":
    """An encoder, or a BERT, whose inside is looked into."""
    _wait_for_the_first_search(visit)
    return _reader(source, visit.settings.device, stamp(source))


def _live_sources(visit: Visit) -> list[str]:
    """The encoders of collections that are searched: the library holds them anyway."""
    return [each.source for each in visit.library.encoders.list() if each.live_in]


def _wait_for_the_first_search(visit: Visit) -> None:
    with contextlib.suppress(NearsayError):  # of an encoder that is gone whoever searches is told
        for source in _live_sources(visit)[:1]:
            visit.library.encoder(source)


@st.cache_resource(max_entries=_KEPT, show_spinner="Loading the encoder …")
def _encoder(source: str, device: str | None, precision: str, changed: int) -> "Encoder":
    del changed
    with _LOADING:
        from nearsay.training.encoder.hardware import Precision
        from nearsay.training.sentence.encoder import Encoder

        return Encoder.load(source, device=device, precision=Precision(precision))


@st.cache_resource(max_entries=_KEPT, show_spinner="Loading the BERT …")
def _filler(bert: str, device: str | None, changed: int) -> "Filler":
    del changed
    with _LOADING:
        from nearsay.training.bert.fill import Filler

        return Filler.load(bert, device=device)


@st.cache_resource(max_entries=_KEPT, show_spinner="Loading the BERT …")
def _next_sentence(bert: str, device: str | None, changed: int) -> "NextSentence":
    del changed
    with _LOADING:
        from nearsay.training.bert.fill import NextSentence

        return NextSentence.load(bert, device=device)


@st.cache_resource(max_entries=_KEPT, show_spinner="Loading the encoder …")
def _reader(source: str, device: str | None, changed: int) -> "AttentionReader":
    del changed
    with _LOADING:
        from nearsay.training.bert.attention import AttentionReader

        return AttentionReader.load(source, device=device)
