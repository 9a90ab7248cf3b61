"""The pages together: which page is shown, and what stands beside it."""

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import streamlit as st

from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.opened import is_there, make_library, opened, was_there
from nearsay.app.ui.page_link import CHOSEN, NEXT_COLLECTION, keep_history, leave_collection
from nearsay.app.ui.settings import Settings
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import NearsayError
from nearsay.indexer import Library


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page of the menu."""

    path: str  # its address
    title: str
    icon: str
    module: str  # holds `show(visit)`; imported when it is first looked at
    read_only: bool = True  # it is shown where nothing may be changed, too


PAGES = (
    PageEntry("search", "Search", ":material/search:", "nearsay.app.ui.search.page"),
    PageEntry("compare", "Compare", ":material/compare_arrows:", "nearsay.app.ui.compare.page"),
    PageEntry("judge", "Judge", ":material/rule:", "nearsay.app.ui.judging.page", read_only=False),
    PageEntry("explore", "Explore", ":material/scatter_plot:", "nearsay.app.ui.explore.page"),
    PageEntry("collections", "Collections", ":material/folder_open:", "nearsay.app.ui.collections.page"),
    PageEntry("encoders", "Encoders", ":material/hub:", "nearsay.app.ui.encoders.page"),
    PageEntry(
        "training", "Training", ":material/model_training:", "nearsay.app.ui.training.page", read_only=False
    ),
    PageEntry("jobs", "Jobs", ":material/timeline:", "nearsay.app.ui.jobs.page", read_only=False),
)
_GONE = ":material/folder_off:"
_SEEN = "pages_seen"  # in the session: the pages that were shown whole
# Where there is nothing yet, the way in is shown instead, by the page Collections.
_NEEDS_DOCUMENTS = ("search", "compare", "judge", "explore")


def run() -> None:
    """Show what the address asks for; Streamlit calls this anew at every look."""
    # A picture of our own: Streamlit would fetch a Material icon for the tab from outside.
    here = Path(str(files("nearsay.app.ui")))
    icon, logo = str(here / "icon.svg"), str(here / "logo.svg")
    st.set_page_config(page_title="nearsay", page_icon=icon, layout="wide")
    st.logo(logo, size="large", icon_image=icon)
    settings = Settings.from_environment()
    with telling_errors():
        shown = is_there(settings)
        # Named before anything ends this run: else Streamlit would forget which page the address asked for.
        pages = [_streamlit_page(entry, settings) for entry in PAGES]
        chosen = st.navigation(pages, position="sidebar" if shown else "hidden")
        st.html(here / "page.css")
        if not shown:
            _offer_library(settings)
            return
        library = opened(settings)
        _sidebar(settings, library)
        keep_history()
        chosen.run()


def prepare() -> None:
    """What the first look would wait for, done before it: open the library, import the first page."""
    settings = Settings.from_environment()
    with contextlib.suppress(NearsayError):  # whoever looks is told
        if is_there(settings):
            opened(settings)
    importlib.import_module(PAGES[0].module)


def show_page(path: str, settings: Settings) -> None:
    """One page of the menu by its address, with the collection that the sidebar names."""
    seen: set[str] = st.session_state.setdefault(_SEEN, set())
    with telling_errors(again=path not in seen):  # nothing was pressed on a page that was not shown yet
        library = opened(settings)
        name, names = st.session_state.get(CHOSEN), library.names()
        shown = "collections" if path in _NEEDS_DOCUMENTS and not names else path
        module = next(entry.module for entry in PAGES if entry.path == shown)
        show: Callable[[Visit], None] = importlib.import_module(module).show
        show(Visit(settings, library, name if name in names else None))
        seen.add(path)


def _streamlit_page(entry: PageEntry, settings: Settings) -> "st.Page":
    """A page of the menu; one that is for changes stays out of the menu where nothing may be changed."""
    closed = settings.read_only and not entry.read_only

    def show() -> None:
        if closed:
            _say_closed(entry)
        else:
            show_page(entry.path, settings)

    return st.Page(
        show,
        title=entry.title,
        icon=entry.icon,
        url_path=entry.path,
        default=entry is PAGES[0],
        visibility="hidden" if closed else "visible",
    )


def _say_closed(entry: PageEntry) -> None:
    """What somebody sees who follows the link of another, who may change things."""
    st.title(entry.title, anchor=False)
    st.info(
        f"The page {entry.title} is for changes, and here everything can only be read. The pages in the menu "
        "are open to you.",
        icon=":material/lock:",
    )


def _sidebar(settings: Settings, library: Library) -> None:
    """The choice of a collection, which every page shares, and what everybody should know."""
    with st.sidebar:
        names = library.names()
        addressed = st.query_params.get("collection")
        wanted = st.session_state.pop(NEXT_COLLECTION, None) or addressed
        if wanted in names:
            st.session_state[CHOSEN] = wanted
        elif names and (chosen := st.session_state.get(CHOSEN)) not in names:
            leave_collection()  # it was deleted
            st.session_state[CHOSEN] = names[0]
            if chosen is not None:  # what was pressed was meant for that one, and is forgotten by this
                st.rerun()
        if names:
            st.selectbox("Collection", names, key=CHOSEN, on_change=_another_collection)
            # At the first look `keep_history` adds it: from here it would be an entry of the history.
            if addressed != st.session_state[CHOSEN] and (addressed or _SEEN in st.session_state):
                st.query_params["collection"] = st.session_state[CHOSEN]
        if settings.read_only:
            st.badge("read only", icon=":material/lock:", color="gray")
        if settings.with_password and st.button("Sign out", icon=":material/logout:", type="tertiary"):
            st.logout()  # Streamlit's own way out, at which the door forgets the browser
    if names and wanted and wanted not in names:  # a link that is old, or it was deleted meanwhile
        said = f"There is no collection '{wanted}' here any more. This is '{st.session_state[CHOSEN]}'."
        st.warning(as_markdown(said), icon=":material/warning:")


def _another_collection() -> None:
    leave_collection()
    st.session_state[NEXT_COLLECTION] = st.session_state[CHOSEN]


def _offer_library(settings: Settings) -> None:
    """Offer to make the library, once its folder was looked at: a name that was mistyped makes none."""
    if was_there(settings):
        _say_gone(settings)
        return
    st.title("Welcome to nearsay", anchor=False)
    st.markdown("nearsay finds the sentences that say nearly the same, whatever words they use.")
    if settings.read_only:
        st.info("There is no library here, and this page only reads.")
        return
    place = as_markdown(settings.library)
    st.markdown(f"There is no library in **{place}** yet.")
    st.caption(
        "A library is a folder in which everything lives: your texts, what was made of them, and what you "
        "say about them. Nothing leaves this machine."
    )
    if st.button("Make a library here", type="primary", icon=":material/create_new_folder:"):
        make_library(settings)
        st.rerun()


def _say_gone(settings: Settings) -> None:
    """That the library was there before; none is offered in its place, to which it may come back."""
    st.title("The library is gone", anchor=False)
    if settings.read_only:
        st.error("It was there before. Tell whoever serves this page, then load it again.", icon=_GONE)
        return
    st.error(
        f"It was in {as_markdown(settings.library)} before: the folder was moved or deleted, or its drive is "
        "not connected. Put it back, then load the page again. To make a new library there, start nearsay ui "
        "anew.",
        icon=_GONE,
    )
