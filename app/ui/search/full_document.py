"""A document's whole text, over the page."""

import streamlit as st

from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_html, as_markdown
from nearsay.app.ui.visit import Visit

__all__ = ["document_html", "open_document"]

_LONGEST = 200_000  # characters that are shown


def open_document(visit: Visit, id_: str, start: int, end: int) -> None:
    """Show a document with one passage marked: characters `start` to `end` of its text."""
    document = visit.collection.document(id_)
    title = as_markdown(document.title) or as_markdown(document.id) or "Document"

    @st.dialog(title, width="large", icon=":material/description:")
    @telling_errors()
    def show() -> None:
        st.caption(
            as_markdown(f"id {document.id}" + (f" · from {document.source}" if document.source else ""))
        )
        st.html(document_html(document.text, start, end))
        if document.metadata:
            st.json(dict(document.metadata), expanded=2)

    show()


def document_html(text: str, start: int, end: int, longest: int = _LONGEST) -> str:
    """The text, escaped, the passage marked; of a longer text what is around the passage."""
    first = max(0, min(start - longest // 2, len(text) - longest))
    last = min(len(text), first + longest)
    before, inside, after = (
        as_html(part)
        for part in (text[first:start], text[start : min(end, last)], text[max(end, start) : last])
    )
    lead, rest = ("… " if first else ""), (" …" if last < len(text) else "")
    return (
        f'<div class="ns-card ns-document"><div class="ns-text">{lead}{before}'
        f'<span class="ns-passage">{inside}</span>{after}{rest}</div></div>'
    )
