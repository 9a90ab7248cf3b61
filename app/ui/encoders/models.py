"""The models that the page tries: each loaded once per process, whoever looks, and few at a time."""

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
# transformers fails where two threads import it at once, as at the page's start.
_LOADING = threading.Lock()


def encoder(visit: Visit, source: str) -> "Encoder":
    """The encoder; one that the library has loaded already is taken from there."""
    if source in _live_sources(visit):
        return cast("Encoder", visit.library.encoder(source))
    return cast("Encoder", _loaded(visit, "sentence.encoder:Encoder", source))


def filler(visit: Visit, bert: str) -> "Filler":
    """A BERT with its head for masked words."""
    return cast("Filler", _loaded(visit, "bert.fill:Filler", bert))


def next_sentence(visit: Visit, bert: str) -> "NextSentence":
    """A BERT with its next-sentence head."""
    return cast("NextSentence", _loaded(visit, "bert.fill:NextSentence", bert))


def reader(visit: Visit, source: str) -> "AttentionReader":
    """An encoder, or a BERT, whose inside is looked into."""
    return cast("AttentionReader", _loaded(visit, "bert.attention:AttentionReader", source))


def _live_sources(visit: Visit) -> list[str]:
    """The encoders of collections that are searched: the library holds them anyway."""
    return [each.source for each in visit.library.encoders.list() if each.live_in]


def _loaded(visit: Visit, kind: str, source: str) -> object:
    """kind: module and class, below `nearsay.training`."""
    with contextlib.suppress(NearsayError):  # of an encoder that is gone whoever searches is told
        for live in _live_sources(visit)[:1]:  # the first search comes first
            visit.library.encoder(live)
    return _load(kind, source, visit.settings.device, visit.settings.precision, stamp(source))


@st.cache_resource(max_entries=_KEPT, show_spinner="Loading the model …")
def _load(kind: str, source: str, device: str | None, precision: str, changed: int) -> object:
    del changed
    with _LOADING:
        from nearsay.training.encoder.hardware import Precision

        how = {"precision": Precision(precision)} if kind.endswith(":Encoder") else {}
        return resolve_name(f"nearsay.training.{kind}").load(source, device=device, **how)
