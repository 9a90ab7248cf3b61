"""The library that the page is about: opened once per process, and shared by everybody who looks."""

import logging
import threading
from pathlib import Path

import streamlit as st

from nearsay.app.ui.settings import Settings
from nearsay.data.errors import NearsayError
from nearsay.indexer import Library
from nearsay.training.sentence.bundled import BUNDLED_NAME

__all__ = ["get_ready", "is_there", "make_library", "opened"]

_log = logging.getLogger(__name__)


def is_there(settings: Settings) -> bool:
    """Whether there is a library in the folder."""
    return (Path(settings.library) / "library.json").exists()


def make_library(settings: Settings) -> Library:
    """Make the library that is not there yet."""
    _open(settings, create=True).close()
    return opened(settings)


@st.cache_resource(show_spinner="Opening the library …")
def opened(settings: Settings) -> Library:
    """The library; its first search is made at once, beside everything else, since it loads the encoder."""
    library = _open(settings, create=False)
    if library.names():
        get_ready(library)
    return library


def get_ready(library: Library) -> None:
    """Load, beside everything else, what the first search would wait for; the page is slower meanwhile."""
    threading.Thread(target=_warm, args=(library,), daemon=True, name="first search").start()


def _open(settings: Settings, *, create: bool) -> Library:
    return Library.open(
        settings.library,
        database=settings.database,
        device=settings.device,
        precision=settings.precision,
        create=create,
    )


def _warm(library: Library) -> None:
    try:
        names = library.names()
        if names:
            library.shared(names[0]).search("the first search", k=1)
        else:
            library.encoder(BUNDLED_NAME).encode(["the first search"])
    except NearsayError as error:  # whoever searches is told
        _log.info("the first search was not made: %s", error)
