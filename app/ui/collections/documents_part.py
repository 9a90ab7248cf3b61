"""The documents of a collection: looked through page by page, found, opened, deleted."""

from typing import Final

import streamlit as st

from nearsay.app.ui.collections.deleting import ask_to_delete
from nearsay.app.ui.collections.document_panel import show_document, show_new_document
from nearsay.app.ui.collections.document_text import example_filter, shown_row
from nearsay.app.ui.distinct_labels import distinct_labels
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.search.question_length import LONGEST_FILTER, are_short
from nearsay.app.ui.visit import Visit
from nearsay.data.quantity import counted
from nearsay.indexer import Collection
from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.catalogue.passage import headline
from nearsay.indexer.query.browsing import DocumentPage, DocumentRow

__all__ = ["show_documents"]

_A_PAGE: Final = 50
_COUNTED: Final = 10_000  # documents that pass a filter
_FOUND: Final = 100  # documents with the words that are looked for


def show_documents(visit: Visit) -> None:
    """The table, and the document that the address names."""
    if visit.name is None:
        st.info("Choose a collection in the sidebar.")
        return
    collection = visit.collection
    st.subheader(f"Documents of {as_markdown(collection.name)}", anchor=False)
    _leave_another(collection.name)
    opened = st.query_params.get("doc")
    if opened is not None:
        show_document(visit, collection, opened)
        return
    find, where = _asked(collection)
    if not are_short(("What is looked for", find)) or not are_short(
        ("The filter", where or ""), most=LONGEST_FILTER
    ):
        return
    if find:
        rows = _found(collection, find, where)
        st.caption(
            f"{counted(len(rows), 'document')}: first those with it in the id, then those with the words, "
            f"the best {_FOUND} of them."
        )
        page = DocumentPage(tuple(rows), more_before=False, more_after=False)
    else:
        page = _page(collection, where)
        st.caption(_how_many(collection, page, where))
    chosen = _table(collection, page, find, where)
    if not find:
        _turning(page)
    _open_by_name(page)
    if visit.may_write:
        _changing(visit, collection, chosen, where if not find else None)


def _asked(collection: Collection) -> tuple[str, str | None]:
    left, right = st.columns(2)
    with left:
        find = st.text_input(
            "Find",
            key="docs_find",
            bind="query-params",
            placeholder="words in title or text, or a part of an id",
            help="Words that stand in a document, or a piece of its id. For search by meaning, use Search.",
            on_change=_first_page,
        )
    with right:
        fields, page = collection.overview().fields, collection.browser.page(limit=1)
        named = ", ".join(fields[:6])
        where = st.text_input(
            "Filter",
            key="docs_where",
            bind="query-params",
            placeholder=example_filter(fields, page.rows[0].metadata if page.rows else {}),
            help=f"Only documents for which this holds. Fields: {as_markdown(named) or 'none'}; also id, "
            "title, text, source.",
            on_change=_first_page,
        )
    return (find or "").strip(), (where or "").strip() or None


def _found(collection: Collection, find: str, where: str | None) -> list[DocumentRow]:
    browser = collection.browser
    by_name = browser.ids_containing(find, where, limit=_A_PAGE)
    hits = collection.search(find, k=_FOUND, where=where, mode=SearchMode.LEXICAL, by_document=True)
    named = {row.id for row in by_name}
    ids = [id_ for id_ in dict.fromkeys(hit.id for hit in hits) if id_ not in named]
    return [*by_name, *browser.by_id(ids)]


def _page(collection: Collection, where: str | None) -> DocumentPage:
    return collection.browser.page(where, after=_place("after"), before=_place("before"), limit=_A_PAGE)


def _how_many(collection: Collection, page: DocumentPage, where: str | None) -> str:
    """Counted only as far as it is quick: a filter over fields that are not declared reads every document."""
    if where is None:
        return counted(collection.browser.count(), "document") + "."
    if not page.more_before and not page.more_after:
        return counted(len(page.rows), "document") + " pass the filter."
    total = collection.browser.count(where, up_to=_COUNTED)
    number = f"{_COUNTED:,} documents and more" if total >= _COUNTED else counted(total, "document")
    return f"{number} pass the filter."


def _place(name: str) -> int | None:
    given = st.query_params.get(name, "")
    if name == "before" and _place("after") is not None:
        return None
    return int(given) if given.isdecimal() and len(given) < 19 else None


def _table(
    collection: Collection, page: DocumentPage, find: str, where: str | None
) -> tuple[DocumentRow, ...]:
    if not page.rows:
        st.info("No document is like that. Take the filter or the words back.")
        return ()
    event = st.dataframe(
        [shown_row(row) for row in page.rows],
        hide_index=True,
        key=f"docs-{collection.name}-{find}-{where}-{page.rows[0].number}-{len(page.rows)}",
        on_select="rerun",
        selection_mode="multi-row",
        column_config={
            "id": st.column_config.TextColumn("Id", width="small"),
            "title": st.column_config.TextColumn("Title", width="medium"),
            "text": st.column_config.TextColumn("Text", width="large"),
            "metadata": st.column_config.TextColumn("Metadata", width="medium"),
            "updated": st.column_config.TextColumn("Updated", width="small"),
        },
    )
    return tuple(page.rows[at] for at in event.selection.rows if at < len(page.rows))


def _turning(page: DocumentPage) -> None:
    with st.container(horizontal=True, key="docs-turning"):
        st.button(
            "First",
            icon=":material/first_page:",
            key="docs-first",
            disabled=not page.more_before,
            on_click=_first_page,
        )
        st.button(
            "Previous",
            icon=":material/chevron_left:",
            key="docs-previous",
            disabled=not page.more_before,
            on_click=_turn,
            args=("before", page.rows[0].number if page.rows else 0),
        )
        st.button(
            "Next",
            icon=":material/chevron_right:",
            key="docs-next",
            disabled=not page.more_after,
            on_click=_turn,
            args=("after", page.rows[-1].number if page.rows else 0),
        )


def _open_by_name(page: DocumentPage) -> None:
    names = distinct_labels({row.id: _called(row) for row in page.rows})
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Open a document",
            list(names),
            index=None,
            key="docs-open",
            placeholder="choose one of these",
            format_func=lambda id_: names.get(id_, id_),
        )
        if chosen is not None:
            _open(chosen)


def _called(row: DocumentRow) -> str:
    """Its id and title; how its text begins where the id is but a hash."""
    return f"{row.id}: {row.title}" if row.title else headline("", row.id, row.beginning)


def _changing(
    visit: Visit, collection: Collection, chosen: tuple[DocumentRow, ...], where: str | None
) -> None:
    with st.container(horizontal=True):
        if len(chosen) == 1 and st.button("Open", icon=":material/open_in_full:", key="docs-open-one"):
            _open(chosen[0].id)
        if chosen and st.button(
            f"Delete {counted(len(chosen), 'document')} …", icon=":material/delete:", key="docs-delete"
        ):
            ask_to_delete(visit, collection, ids=[row.id for row in chosen])
        if where and st.button(
            "Delete all that pass the filter …", icon=":material/delete_sweep:", key="docs-delete-where"
        ):
            ask_to_delete(visit, collection, where=where)
    if not chosen:
        st.caption("Tick rows in the table to open or delete them.")
    with st.expander("Write a new document", icon=":material/edit_note:"):
        show_new_document(visit, collection)


def _open(id_: str) -> None:
    st.query_params["doc"] = id_
    st.rerun()


def _turn(name: str, number: int) -> None:
    with telling_errors():
        _first_page()
        st.query_params[name] = str(number)


def _leave_another(name: str) -> None:
    """A place in the list, and an open document, are of the collection that they were chosen in."""
    if st.session_state.get("docs_of", name) != name:
        _first_page()
        st.query_params.pop("doc", None)
    st.session_state["docs_of"] = name


def _first_page() -> None:
    for name in ("after", "before"):
        st.query_params.pop(name, None)
