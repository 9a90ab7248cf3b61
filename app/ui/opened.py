"""The library of the page: opened once per process, and shared by all sessions."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import streamlit as st

from nearsay.app.bulk_work import bulk_work
from nearsay.app.ui.errors import is_import_clash
from nearsay.app.ui.map_component.show_map import LONGEST, MOST_POINTS, PackedMap, packed_map
from nearsay.app.ui.settings import Settings
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import NearsayError
from nearsay.indexer import Library
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.text_encoder import TextKind

_log = logging.getLogger(__name__)
_SECONDS = 1.0  # delay of background loading: the first page of a million passages took 2.9 s instead of 3.7


_opened_in: dict[str, str] = {}  # by folder: the identity of the library opened last


def is_there(settings: Settings) -> bool:
    """Return whether there is a library in the folder."""
    return _identity(settings).exists()


def was_opened(settings: Settings) -> bool:
    """Return whether this process has opened a library in the folder."""
    return settings.library in _opened_in


def _identity(settings: Settings) -> Path:
    return Path(settings.library) / "library.json"


def create_library(settings: Settings) -> Library:
    """Create the library."""
    _open(settings, create=True).close()
    return opened(settings)


def opened(settings: Settings) -> Library:
    """Return the library; loading its encoder by a first search starts in the background.

    If the folder was deleted and another library created there, return that one: the open files of the first
    would still answer, and hide writes from others.
    """
    try:
        name = _identity(settings).read_text("utf-8")
    except OSError:  # just deleted: opening it reports that
        name = ""
    library = _opened(settings, name)
    if _opened_in.get(settings.library, name) != name:  # cached results of the previous library
        _remembered.clear()
        _remembered_map.clear()
    _opened_in[settings.library] = name
    return library


@st.cache_resource(show_spinner=False)  # also runs before the first visit, without a page
def _opened(settings: Settings, name: str) -> Library:
    del name  # part of the cache's key
    library = _open(settings, create=False)
    if library.names():
        get_ready(library, settings)
    return library


def get_ready(library: Library, settings: Settings) -> None:
    """Load in the background what the first visitors need; the delay lets the current page go first."""
    beside = threading.Timer(_SECONDS, _warm, (library, settings))
    beside.daemon, beside.name = True, "first search"
    beside.start()


def _open(settings: Settings, *, create: bool) -> Library:
    return Library.open(
        settings.library,
        database=settings.database,
        device=settings.device,
        precision=settings.precision,
        create=create,
        wait=0.0,  # report at once that a collection is locked
    )


def _warm(library: Library, settings: Settings) -> None:
    with bulk_work():  # lets pages go first
        for what, work in (("the first search failed", _search), ("drawing the map failed", _draw)):
            try:  # the encoder first: the map of a large collection takes longer
                _twice(work, library, settings)
            except NearsayError as error:  # the page reports it
                _log.info("%s: %s", what, error)
            except Exception:  # noqa: BLE001 - nothing waits for this thread, so its errors go to the log
                _log.exception("%s", what)


def _twice(work: Callable[[Library, Settings], None], library: Library, settings: Settings) -> None:
    try:
        work(library, settings)
    except Exception as error:
        if not is_import_clash(error):
            raise
        work(library, settings)


def _draw(library: Library, settings: Settings) -> None:
    for name in library.names()[:1]:
        kept_drawing(Visit(settings, library, name))


def _search(library: Library, settings: Settings) -> None:
    del settings
    names = library.names()
    if names:
        library.shared(names[0]).get_ready()
    else:
        library.encoder(BUNDLED_NAME).encode(["the first search"], kind=TextKind.QUERY)


_Found = TypeVar("_Found")
_MOST = 24  # cached results of all sessions
_MOST_MAPS = 3  # one of 30,000 short passages takes some 30 MB


def state_of(visit: Visit) -> str:
    """Return a key for the collection's state, which changes with its documents, vectors and clusters."""
    snapshot = visit.collection.snapshot()
    row = snapshot.collection
    parts = (visit.library.store.folder, row.id, row.version, row.compactions, snapshot.generation.number)
    return "|".join(str(part) for part in parts)


def remembered(key: str, make: Callable[[], _Found]) -> _Found:
    """Return `make()`, cached by key for all sessions, so it must not be changed."""
    return cast("_Found", _remembered(key, make))


def remembered_map(key: str, make: Callable[[], _Found]) -> _Found:
    """The same for maps: few are cached, because they are large and change with every update.

    Also for threads outside of a page: it shows no spinner.
    """
    return cast("_Found", _remembered_map(key, make))


@st.cache_resource(max_entries=_MOST_MAPS, show_spinner=False)
def _remembered_map(key: str, _make: Callable[[], object]) -> object:
    del key
    return _make()


@st.cache_resource(max_entries=_MOST, ttl=3600.0, show_spinner="Computing …")
def _remembered(key: str, _make: Callable[[], object]) -> object:
    del key
    return _make()


def kept(name: str, about: object, make: Callable[[], _Found], most: int = 1) -> _Found:
    """Return `make()`, cached in the session while `about` is equal; the last `most` are kept."""
    found: list[tuple[object, _Found]] = st.session_state.setdefault(name, [])
    for known, value in found:
        if known == about:
            return value
    made = make()
    st.session_state[name] = [*found, (about, made)][-most:]
    return made


def kept_drawing(visit: Visit) -> tuple[PackedMap, int] | None:
    """Return the stored map, packed for the browser, and the number of its passages; None without one.

    Cached per state of the collection; of many passages a fixed sample is drawn.
    """
    explorer = visit.collection.explore
    number = explorer.kept_map_number()
    if number is None:
        return None

    def make() -> tuple[PackedMap, int] | None:
        found = explorer.kept_map()
        if found is None or not len(found):
            return None
        return packed_map(explorer.drawing(found, most=MOST_POINTS, longest=LONGEST)), len(found)

    return remembered_map(f"{state_of(visit)}|map {number}", make)
