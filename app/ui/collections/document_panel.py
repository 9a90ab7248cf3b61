"""One document: looked at, edited, deleted; and a new one."""

from typing import Final

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.collections.deleting import ask_to_delete
from nearsay.app.ui.collections.document_text import LONGEST_TEXT, edited_document, metadata_text
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.search.full_document import show_text
from nearsay.app.ui.search.ids import written_ids
from nearsay.app.ui.visit import Visit
from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer import Collection
from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.catalogue.passage import headline
from nearsay.indexer.query.browsing import PassageRow
from nearsay.indexer.vectors.errors import UnknownDocumentError

__all__ = ["show_document", "show_new_document"]

_WAITING: Final = 500  # passages that wait for their vectors: more are embedded by a run first
_MOST_PASSAGES: Final = 500  # of a document that are shown
_FORM: Final = "doc-form"  # in the session: the key of the form that was drawn last


def show_document(visit: Visit, collection: Collection, id_: str) -> None:
    """Everything that is kept of a document, and the form that changes it."""
    if st.button("Back to the list", icon=":material/arrow_back:", key="doc-back"):
        _close()
    try:
        found = collection.document(id_)
    except UnknownDocumentError as error:
        st.info(as_markdown(str(error)))
        return
    st.markdown(f"#### {as_markdown(headline(found.title, found.id, found.text))}")
    facts = [f"id {found.id}", counted(found.passages, "passage"), f"added {found.added_at[:10]}"]
    if found.updated_at != found.added_at:
        facts.append(f"changed {found.updated_at[:10]}")
    if found.source:
        facts.append(f"from {found.source}")
    st.caption(as_markdown(" · ".join(facts)))
    _text(collection, found, _passages(collection, found))
    if visit.may_write:
        with st.expander("Edit", icon=":material/edit:"):
            _edit(visit, collection, found)
    with st.container(horizontal=True, vertical_alignment="center"):
        link_to("search", "More like this", icon=":material/search:", like=written_ids([found.id]))
        if visit.may_write and st.button("Delete …", icon=":material/delete:", key="doc-delete"):
            ask_to_delete(visit, collection, ids=[found.id])


def show_new_document(visit: Visit, collection: Collection) -> None:
    """A form for one document."""
    with st.form("new-document", border=False):
        id_ = st.text_input("Id", help="What it is called; made from its text if left empty.")
        title = st.text_input("Title", help="Embedded together with the text.")
        text = st.text_area("Text", height=160)
        metadata = st.text_area("Metadata", placeholder='{"year": 2019}', help=_METADATA, height=80)
        if st.form_submit_button("Add it", type="primary", icon=":material/add:"):
            with telling_errors():
                document = edited_document(id_=id_, title=title, text=text, metadata=metadata)
                if document.id in collection:
                    raise BadInputError(f"there is a document '{document.id}' already. Open it to change it")
                _write(visit, collection, document, "Added.")


_METADATA: Final = "Fields to filter by, as a JSON object."


@st.fragment
def _text(collection: Collection, found: StoredDocument, beside: list[PassageRow]) -> None:
    """The text, page by page; a passage that is chosen below is marked in it."""
    with telling_errors():
        text = st.container(border=True)
        chosen = None
        if found.metadata:
            st.dataframe(
                [{"field": name, "value": _shown(value)} for name, value in found.metadata.items()],
                hide_index=True,
                height="content",
            )
        if beside:
            chosen = _chosen_passage(collection, found, beside)
        with text:
            start, end = (0, 0) if chosen is None else (chosen.start, chosen.end)
            show_text(f"{collection.name}|{found.id}", found.text, start, end)


def _passages(collection: Collection, found: StoredDocument) -> list[PassageRow]:
    return collection.browser.passages(found.id) if found.passages > 1 else []


def _chosen_passage(
    collection: Collection, found: StoredDocument, rows: list[PassageRow]
) -> PassageRow | None:
    with st.expander(f"Its {counted(found.passages, 'passage')}", icon=":material/segment:"):
        st.caption(
            "Each has one vector of its own; a search finds the passage, not the document. Tick one to see "
            "it in the text."
        )
        if len(rows) > _MOST_PASSAGES:
            st.caption(f"The first {_MOST_PASSAGES} are shown.")
        event = st.dataframe(
            [
                {"passage": row.ordinal + 1, "text": " ".join(found.text[row.start : row.end].split())}
                for row in rows[:_MOST_PASSAGES]
            ],
            hide_index=True,
            height="content" if len(rows) <= 10 else 400,
            key=f"doc-passages-{collection.name}-{found.id}-{found.updated_at}",
            on_select="rerun",
            selection_mode="single-row",
        )
    return next((rows[at] for at in event.selection.rows if at < len(rows)), None)


def _edit(visit: Visit, collection: Collection, found: StoredDocument) -> None:
    if len(found.text) > LONGEST_TEXT:
        st.info("The text is too long to be edited here. Change its file, and add it again.")
        return
    key = f"doc-{collection.name}-{found.id}-{found.updated_at}"
    if _take_over(key):
        st.warning(
            "Somebody changed this document after you opened it, so nothing was saved yet. Above is what it "
            "says now, in the form what you wrote. Save again to replace it.",
            icon=":material/edit_notifications:",
        )
    with st.form(key, border=False):
        title = st.text_input("Title", found.title, key=f"{key}-title", help="Embedded with the text.")
        text = st.text_area("Text", found.text, height=220, key=f"{key}-text")
        metadata = st.text_area(
            "Metadata", metadata_text(found.metadata), height=160, key=f"{key}-metadata", help=_METADATA
        )
        if st.form_submit_button("Save", type="primary", icon=":material/save:"):
            with telling_errors():
                document = edited_document(
                    id_=found.id, title=title, text=text, metadata=metadata, source=found.source
                )
                _write(visit, collection, document, "Saved.")


def _take_over(key: str) -> bool:
    """Put what was written about an earlier state of the document, and sent, into the form of that key.

    Whether anything was: the form that it was sent with is not drawn any more.
    """
    before = st.session_state.get(_FORM)
    st.session_state[_FORM] = key
    if before in (None, key) or not st.session_state.get(f"FormSubmitter:{before}-Save"):
        return False
    for name in ("title", "text", "metadata"):
        st.session_state[f"{key}-{name}"] = st.session_state[f"{before}-{name}"]
    return True


def _write(visit: Visit, collection: Collection, document: Document, said: str) -> None:
    """Add one document here and now: a fraction of a second, unless much waits to be embedded before it."""
    visit.check_writing()
    if collection.overview().waiting > _WAITING:
        st.session_state["collections-said"] = (
            "An earlier addition was stopped, and its passages are embedded first. That is started now; "
            "come back with this when it is done."
        )
        start(
            visit,
            RunKind.REBUILD,
            ["index", "rebuild", "--", collection.name],
            title=f"Embed what waits in {collection.name}",
            collection=collection.name,
        )
    with st.spinner("Writing and embedding …"):
        report = collection.add_rows([document])
    if report.near_duplicates is not None and report.near_duplicates.first:
        twin = report.near_duplicates.first[0]
        said += f" It says nearly what {twin.original} says (cosine {twin.cosine:.3f})."
    if not (report.added or report.updated or report.relabelled):
        said = "Nothing was changed."
    st.session_state["collections-said"] = said
    st.rerun()


def _shown(value: object) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _close() -> None:
    st.query_params.pop("doc", None)
    st.rerun()
