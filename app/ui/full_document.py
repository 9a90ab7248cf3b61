"""The full text of a document, page by page, with a passage marked."""

import secrets

import streamlit as st

from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_html, as_markdown
from nearsay.app.ui.page_link import bring_into_view
from nearsay.app.ui.visit import Visit
from nearsay.indexer.catalogue.passages import headline

_PAGE = 10_000  # characters of a page
_SLACK = 600  # a page ends up to this much earlier, at a line or word
_READING = "reading"  # session key: text, page, whether to scroll to it, and a nonce for that
_PASSAGE, _TOP = ".ns-document .ns-passage", ".ns-document"


def open_document(visit: Visit, id_: str, start: int, end: int) -> None:
    """Show a document in a dialog, opened at the passage from character `start` to `end`."""
    document = visit.collection.document(id_)
    title = as_markdown(headline(document.title, document.id, document.text)) or "Document"
    st.session_state.pop(_READING, None)  # opens at the passage, not at the last page read

    @st.dialog(title, width="large", icon=":material/description:")
    @showing_errors()
    def show() -> None:
        st.caption(
            as_markdown(f"id {document.id}" + (f" · from {document.source}" if document.source else ""))
        )
        show_text(f"{visit.name}|{document.id}", document.text, start, end)
        if document.metadata:
            st.json(dict(document.metadata), expanded=2)

    show()


def show_text(name: str, text: str, start: int = 0, end: int = 0) -> None:
    """Show one page of a text with buttons to turn it; for a fragment or dialog, which a click reruns.

    name: identifies the text
    start, end: the passage to mark, none if they are equal
    """
    what = (name, len(text), start, end)
    if st.session_state.get(_READING, (None,))[0] != what:
        _turn(what, page_at(text, start), turned=end > start)
    _, page, turned, when = st.session_state[_READING]
    count, (first, last) = page_count(text), page_edges(text, page)
    st.html(document_html(text, start, end, first, last))
    marked = max(start, first) < min(end, last)
    if turned:
        bring_into_view(_PASSAGE if marked else _TOP, when, centre=marked)
    if count == 1:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="ns_turning"):
        for label, icon, to in (
            ("Previous", ":material/chevron_left:", page - 1),
            ("Next", ":material/chevron_right:", page + 1),
        ):
            st.button(
                label,
                key=f"read-{label}",
                icon=icon,
                disabled=not 0 <= to < count,
                on_click=_turn,
                args=(what, to),
            )
        if end > start and not marked:
            st.button(
                "To the passage",
                key="read-passage",
                icon=":material/my_location:",
                on_click=_turn,
                args=(what, page_at(text, start)),
            )
        st.caption(f"Page {page + 1:,} of {count:,}")


def page_count(text: str) -> int:
    """Return the number of pages of a text, at least 1."""
    return max(1, -(-len(text) // _PAGE))


def page_edges(text: str, page: int) -> tuple[int, int]:
    """Return the start and end (exclusive) of a page, counted from 0."""
    return _edge(text, page), _edge(text, page + 1)


def page_at(text: str, place: int) -> int:
    """Return the page of a character."""
    last = page_count(text) - 1
    page = min(max(place, 0) // _PAGE, last)
    return page + 1 if page < last and _edge(text, page + 1) <= place else page


def document_html(text: str, start: int, end: int, first: int, last: int) -> str:
    """Return characters `first` to `last` of the text, escaped, with the passage marked."""
    begin = min(max(start, first), last)
    stop = min(max(end, begin), last)
    before, inside, after = (as_html(text[a:b]) for a, b in ((first, begin), (begin, stop), (stop, last)))
    passage = f'<span class="ns-passage">{inside}</span>' if inside else ""
    lead, rest = ("… " if first else ""), (" …" if last < len(text) else "")
    shown = f"{lead}{before}{passage}{after}{rest}"
    return f'<div class="ns-card ns-document"><div class="ns-text">{shown}</div></div>'


def _edge(text: str, page: int) -> int:
    """Return the start of a page: after the last line end, or space, shortly before its nominal start."""
    at = page * _PAGE
    if at <= 0 or at >= len(text):
        return min(max(at, 0), len(text))
    for sign in ("\n", " "):
        found = text.rfind(sign, at - _SLACK, at)
        if found >= 0:
            return found + 1
    return at


def _turn(what: tuple[str, int, int, int], page: int, *, turned: bool = True) -> None:
    """Go to a page; turned: scroll to it once."""
    st.session_state[_READING] = (what, page, turned, secrets.token_hex(4))
