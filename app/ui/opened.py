"""The library that the page is about: opened once per process, and shared by everybody who looks."""

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
_SECONDS = 1.0  # until what is loaded beside begins: the first page of a million came in 2.9 instead of 3.7 s


_opened_in: dict[str, str] = {}  # by folder: what names the library that was opened there last


def is_there(settings: Settings) -> bool:
    """Whether there is a library in the folder."""
    return _identity(settings).exists()


def was_there(settings: Settings) -> bool:
    """Whether this process has opened a library in the folder."""
    return settings.library in _opened_in


def _identity(settings: Settings) -> Path:
    """The file that names the library."""
    return Path(settings.library) / "library.json"


def make_library(settings: Settings) -> Library:
    """Make the library that is not there yet."""
    _open(settings, create=True).close()
    return opened(settings)


def opened(settings: Settings) -> Library:
    """The library; its first search is made soon, beside everything else, since it loads the encoder.

    Where the folder was deleted and another library made there, that one: the open files of the first would
    go on answering, and keep what is written to them from everybody.
    """
    try:
        name = _identity(settings).read_text("utf-8")
    except OSError:  # it went this moment: opening it says so
        name = ""
    library = _opened(settings, name)
    if _opened_in.get(settings.library, name) != name:  # what was found in the other one
        _remembered.clear()
        _remembered_map.clear()
    _opened_in[settings.library] = name
    return library


@st.cache_resource(show_spinner=False)  # it is opened before anybody looks, where nothing can be shown
def _opened(settings: Settings, name: str) -> Library:
    del name  # another library has another
    library = _open(settings, create=False)
    if library.names():
        get_ready(library, settings)
    return library


def get_ready(library: Library, settings: Settings) -> None:
    """Load, beside everything else, what the first looks would wait for; the page is slower meanwhile.

    Not at once: the page that is on its way comes first.
    """
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
        wait=0.0,  # who holds a collection is told at once
    )


def _warm(library: Library, settings: Settings) -> None:
    with bulk_work():  # whoever looks at a page meanwhile gets their turn sooner
        for what, work in (("the first search was not made", _search), ("the map was not drawn", _draw)):
            try:  # the encoder is light, the map of a large collection is not
                _twice(work, library, settings)
            except NearsayError as error:  # whoever looks is told
                _log.info("%s: %s", what, error)
            except Exception:  # noqa: BLE001 - nobody waits for this thread: the log is all that hears it
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
_MOST = 24  # findings of everybody who looks at the page
_MOST_MAPS = 3  # one of 30,000 short passages takes some 30 MB


def state_of(visit: Visit) -> str:
    """Names the collection as it is now: another text once documents, vectors or clusters are others."""
    snapshot = visit.collection.snapshot()
    row = snapshot.collection
    parts = (visit.library.store.folder, row.id, row.version, row.compactions, snapshot.generation.number)
    return "|".join(str(part) for part in parts)


def remembered(key: str, make: Callable[[], _Found]) -> _Found:
    """What `make` gives, found once for a key; it is shared by all who look, so it must not be changed."""
    return cast("_Found", _remembered(key, make))


def remembered_map(key: str, make: Callable[[], _Found]) -> _Found:
    """The same for maps, of which few are kept: they are large, and another is made with each change.

    Also for threads in which no page runs: it shows nothing of its own.
    """
    return cast("_Found", _remembered_map(key, make))


@st.cache_resource(max_entries=_MOST_MAPS, show_spinner=False)
def _remembered_map(key: str, _make: Callable[[], object]) -> object:
    del key
    return _make()


@st.cache_resource(max_entries=_MOST, ttl=3600.0, show_spinner="Looking …")
def _remembered(key: str, _make: Callable[[], object]) -> object:
    del key
    return _make()


def kept(name: str, about: object, make: Callable[[], _Found], most: int = 1) -> _Found:
    """What `make` gives, found once in a session while it is about the same; the last few are kept."""
    found: list[tuple[object, _Found]] = st.session_state.setdefault(name, [])
    for known, value in found:
        if known == about:
            return value
    made = make()
    st.session_state[name] = [*found, (about, made)][-most:]
    return made


def kept_drawing(visit: Visit) -> tuple[PackedMap, int] | None:
    """The map that is kept, packed for the browser, and how many passages are on it; None without one.

    It is read once for a state of the collection; of many passages a sample, always the same, is drawn.
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
