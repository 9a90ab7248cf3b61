"""More like this: documents to be near to, and documents to keep away from."""

from collections.abc import Sequence

import streamlit as st

from nearsay.app.ui.distinct_labels import distinct_labels
from nearsay.app.ui.search.asked import Asked, keep_likeness
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import NearsayError

__all__ = ["like_buttons", "show_likeness"]

_TITLE = 60  # characters


def show_likeness(visit: Visit, asked: Asked) -> None:
    """What the results are like, and not like; each can be taken away, and ids be added."""
    names = distinct_labels({id_: _title(visit, id_) for id_ in (*asked.like, *asked.unlike)})
    with st.container(border=True):
        st.markdown("**Passages like these documents**")
        one, two = st.columns(2)
        sides: tuple[tuple[str, Sequence[str]], ...] = (("Like", asked.like), ("Not like", asked.unlike))
        for place, (label, there) in zip((one, two), sides, strict=True):
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


def _title(visit: Visit, id_: str) -> str:
    """What a document is called: plain text, since the widget shows it as it is."""
    try:
        title = " ".join(visit.collection.document(id_).title.split())
    except NearsayError:  # the search says what is wrong with it
        return id_
    return (title if len(title) <= _TITLE else f"{title[: _TITLE - 1]}…") or id_
