"""Merging near-duplicates: what the one that stays takes over is shown before anything is written."""

import json
from collections.abc import Sequence

import streamlit as st

from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_html, as_markdown
from nearsay.app.ui.explore.removing import names_html
from nearsay.app.ui.visit import Visit
from nearsay.data.document import Document, JsonValue
from nearsay.data.quantity import counted
from nearsay.indexer import Collection
from nearsay.indexer.catalogue.passage import headline
from nearsay.indexer.duplicates.merging import Merged, merged_metadata

__all__ = ["ask_to_merge", "merge", "merged_html"]


@st.dialog("Merge documents?", width="medium")
def ask_to_merge(visit: Visit, stays: str, gone: Sequence[str]) -> None:
    """Ask, with what is taken over and what is lost; yes merges them."""
    with telling_errors():
        kept = visit.collection.document(stays)
        merged = _merged(visit.collection, stays, gone)
        st.markdown(
            f"**{as_markdown(headline(kept.title, kept.id, kept.text))}** stays with its own title and text."
        )
        st.html(merged_html(merged))
        st.markdown(f"Removed with all passages: **{counted(len(gone), 'document')}**")
        st.html(names_html(gone))
        with st.container(horizontal=True):
            if st.button("Merge them", type="primary", key="merge_yes", icon=":material/merge:"):
                visit.check_writing()
                removed = merge(visit.collection, stays, gone)
                st.toast(f"Merged; {counted(removed, 'document')} removed.", icon=":material/merge:")
                st.rerun()
            if st.button("Leave them", key="merge_no"):
                st.rerun()


def merge(collection: Collection, stays: str, gone: Sequence[str]) -> int:
    """Give a document the metadata that it lacks and others have, then remove those; how many.

    Stopped between the two, the document has what it took over and the others are still there.
    """
    kept = collection.document(stays)
    merged = _merged(collection, stays, gone)
    if merged.changes:
        collection.add_rows(
            [
                Document(
                    text=kept.text,
                    id=kept.id,
                    title=kept.title,
                    metadata=merged.metadata,
                    source=kept.source,
                )
            ]
        )
    return collection.remove(gone)


def merged_html(merged: Merged) -> str:
    """What is filled in, and what the others say that will be lost."""
    filled = "".join(
        f"<li>{as_html(name)}: {as_html(_value(merged.metadata[name]))}</li>" for name in merged.filled
    )
    conflicts = "".join(
        f"<li>{as_html(each.field)}: {as_html(_value(each.kept))} stays; lost: "
        f"{as_html(', '.join(_value(value) for value in each.others))}</li>"
        for each in merged.conflicts
    )
    taken = f"<div>It takes over:</div><ul>{filled}</ul>" if filled else "<div>It lacks nothing.</div>"
    lost = f"<div>In these the others say something else:</div><ul>{conflicts}</ul>" if conflicts else ""
    return f'<div class="ns-card">{taken}{lost}</div>'


def _merged(collection: Collection, stays: str, gone: Sequence[str]) -> Merged:
    return merged_metadata(
        collection.document(stays).metadata, [collection.document(id_).metadata for id_ in gone]
    )


def _value(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
