"""The menu of pages, the sidebar, and what is shown while there is no library."""

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import streamlit as st

from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.opened import create_library, is_there, opened, was_opened
from nearsay.app.ui.page_link import CHOSEN, NEXT_COLLECTION, keep_history, leave_collection
from nearsay.app.ui.settings import Settings
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import NearsayError
from nearsay.indexer import Library


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A page of the menu."""

    path: str  # its URL path
    title: str
    icon: str
    module: str  # defines `show(visit)`; imported when the page is first shown
    read_only: bool = True  # also shown where nothing may be changed


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
_SEEN = "pages_seen"  # session key: the pages that were shown without an error
# In a library without collections these show the page Collections.
_NEEDS_DOCUMENTS = ("search", "compare", "judge", "explore")


def run() -> None:
    """Show the page of the address; Streamlit calls this for every rerun."""
    # Our own image: Streamlit would download a Material icon for the tab.
    here = Path(str(files("nearsay.app.ui")))
    icon, logo = str(here / "icon.svg"), str(here / "logo.svg")
    st.set_page_config(page_title="nearsay", page_icon=icon, layout="wide")
    st.logo(logo, size="large", icon_image=icon)
    settings = Settings.from_environment()
    with showing_errors():
        shown = is_there(settings)
        # Before anything can end this run: Streamlit would otherwise lose the page that the address names.
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
    """Open the library and import the first page, so that the first visitor does not wait for it."""
    settings = Settings.from_environment()
    with contextlib.suppress(NearsayError):  # the first visitor sees it
        if is_there(settings):
            opened(settings)
    importlib.import_module(PAGES[0].module)


def show_page(path: str, settings: Settings) -> None:
    """Show a page of the menu for the collection that is chosen in the sidebar.

    path: the page's address
    """
    seen: set[str] = st.session_state.setdefault(_SEEN, set())
    with showing_errors(again=path not in seen):  # no click is lost on a page not shown yet
        library = opened(settings)
        name, names = st.session_state.get(CHOSEN), library.names()
        shown = "collections" if path in _NEEDS_DOCUMENTS and not names else path
        module = next(entry.module for entry in PAGES if entry.path == shown)
        show: Callable[[Visit], None] = importlib.import_module(module).show
        show(Visit(settings, library, name if name in names else None))
        seen.add(path)


def _streamlit_page(entry: PageEntry, settings: Settings) -> "st.Page":
    """Return Streamlit's entry of a page; where nothing may be changed, pages for changes are hidden."""
    closed = settings.read_only and not entry.read_only

    def show() -> None:
        if closed:
            _show_unavailable(entry)
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


def _show_unavailable(entry: PageEntry) -> None:
    """Explain why this page is not available, to a visitor who followed a link to it."""
    st.title(entry.title, anchor=False)
    st.info(
        f"The page {entry.title} makes changes, and this server is read-only. You can use the pages in the "
        "menu.",
        icon=":material/lock:",
    )


def _sidebar(settings: Settings, library: Library) -> None:
    with st.sidebar:
        names = library.names()
        addressed = st.query_params.get("collection")
        wanted = st.session_state.pop(NEXT_COLLECTION, None) or addressed
        if wanted in names:
            st.session_state[CHOSEN] = wanted
        elif names and (chosen := st.session_state.get(CHOSEN)) not in names:
            leave_collection()  # it was deleted
            st.session_state[CHOSEN] = names[0]
            if chosen is not None:  # a click meant for the deleted one must not act on another
                st.rerun()
        if names:
            st.selectbox("Collection", names, key=CHOSEN, on_change=_another_collection)
            # In the first run `keep_history` adds it, since adding it here would create a history entry.
            if addressed != st.session_state[CHOSEN] and (addressed or _SEEN in st.session_state):
                st.query_params["collection"] = st.session_state[CHOSEN]
        if settings.read_only:
            st.badge("read only", icon=":material/lock:", color="gray")
        if settings.with_password and st.button("Sign out", icon=":material/logout:", type="tertiary"):
            st.logout()  # at this address, `door` ends the browser's session
    if names and wanted and wanted not in names:  # an old link, or just deleted
        message = f"The collection '{wanted}' does not exist any more. Showing '{st.session_state[CHOSEN]}'."
        st.warning(as_markdown(message), icon=":material/warning:")


def _another_collection() -> None:
    leave_collection()
    st.session_state[NEXT_COLLECTION] = st.session_state[CHOSEN]


def _offer_library(settings: Settings) -> None:
    """Offer to create the library; it is never created unasked, since its path may be mistyped."""
    if was_opened(settings):
        _show_missing(settings)
        return
    st.title("Welcome to nearsay", anchor=False)
    st.markdown("nearsay finds the sentences that say nearly the same, whatever words they use.")
    if settings.read_only:
        st.info("There is no library here, and this server is read-only.")
        return
    place = as_markdown(settings.library)
    st.markdown(f"There is no library in **{place}** yet.")
    st.caption(
        "A library is a folder that holds your texts, their vectors and indexes, and your judgements. "
        "Nothing leaves this machine."
    )
    if st.button("Create a library here", type="primary", icon=":material/create_new_folder:"):
        create_library(settings)
        st.rerun()


def _show_missing(settings: Settings) -> None:
    """Report that the library disappeared; none is created in its place, in case it comes back."""
    st.title("The library is missing", anchor=False)
    if settings.read_only:
        st.error("It was there before. Ask the server's administrator, then reload.", icon=_GONE)
        return
    st.error(
        f"It was in {as_markdown(settings.library)}: the folder was moved or deleted, or its drive is not "
        "connected. Restore it, then reload the page. To create a new library there, restart nearsay ui.",
        icon=_GONE,
    )
