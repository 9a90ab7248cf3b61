"""More like this: documents to be near to, and documents to keep away from."""

from collections.abc import Sequence

import streamlit as st

from nearsay.app.ui.escaping import as_html, distinct_labels
from nearsay.app.ui.search.asked import Asked, keep_likeness
from nearsay.app.ui.visit import Visit
from nearsay.data.document import beginning
from nearsay.data.errors import NearsayError
from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.catalogue.passage import headline

__all__ = ["like_buttons", "show_likeness"]

_TITLE, _TEXT = 60, 300  # characters
_SHOWN = 3  # documents whose beginnings are shown


def show_likeness(visit: Visit, asked: Asked) -> None:
    """What the results are like, and not like; each can be taken away, and ids be added."""
    documents = {id_: _document(visit, id_) for id_ in (*asked.like, *asked.unlike)}
    names = distinct_labels({id_: _called(id_, one) for id_, one in documents.items()})
    with st.container(border=True):
        st.markdown("**Passages like these documents**")
        for id_ in asked.like[:_SHOWN]:
            one = documents[id_]
            if one is not None:
                title, text = as_html(_called(id_, one)), as_html(beginning(one.text, _TEXT))
                st.html(f'<div class="ns-liked"><strong>{title}</strong><div>{text}</div></div>')
        left, right = st.columns(2)
        sides: tuple[tuple[str, Sequence[str]], ...] = (("Like", asked.like), ("Not like", asked.unlike))
        for place, (label, there) in zip((left, right), sides, strict=True):
            key = f"{label} chosen"
            st.session_state[key] = list(there)
            with place:
                st.multiselect(
                    label,
                    list(there),
                    key=key,
                    format_func=lambda id_: names.get(id_, id_),
                    accept_new_options=True,
                    placeholder="A document's id",
                    help="Documents count by the mean of their passages; what they say not to be like counts "
                    "three tenths of that.",
                    on_change=_changed,
                )
        st.button(
            "Back to the search",
            icon=":material/arrow_back:",
            type="tertiary",
            on_click=keep_likeness,
            args=((), ()),
        )


def like_buttons(asked: Asked, id_: str, key: str) -> None:
    """More like a document, or less; `key`: of the card that they stand on."""
    like, unlike = ([one for one in side if one != id_] for side in (asked.like, asked.unlike))
    st.button(
        "More like this",
        key=f"like {key}",
        icon=":material/read_more:",
        type="tertiary",
        on_click=keep_likeness,
        args=([*like, id_], unlike),
    )
    if asked.like:
        st.button(
            "Not like this",
            key=f"unlike {key}",
            icon=":material/block:",
            type="tertiary",
            on_click=keep_likeness,
            args=(like, [*unlike, id_]),
        )


def _changed() -> None:
    keep_likeness(st.session_state["Like chosen"], st.session_state["Not like chosen"])


def _document(visit: Visit, id_: str) -> StoredDocument | None:
    try:
        return visit.collection.document(id_)
    except NearsayError:  # the search says what is wrong with it
        return None


def _called(id_: str, document: StoredDocument | None) -> str:
    """What a document is called: plain text, since the widget shows it as it is."""
    called = "" if document is None else headline(document.title, id_, document.text)
    return beginning(called, _TITLE) or id_
