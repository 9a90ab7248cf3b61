"""The documents of a collection: browsed, found, opened, edited and deleted."""

import json
from collections.abc import Mapping
from typing import Final, Literal

import streamlit as st

from nearsay.app.ui.asked import LONGEST_FILTER, are_short, example_filter
from nearsay.app.ui.collections.adding import DOCUMENT_WIDTHS
from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.controls import as_note, pick, widths
from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_markdown, distinct_labels, json_text
from nearsay.app.ui.full_document import show_text
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.removing import ask_to_remove
from nearsay.app.ui.visit import Visit
from nearsay.data.document import Document, JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer import Collection
from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.catalogue.passages import headline
from nearsay.indexer.query.browsing import DocumentPage, DocumentRow, PassageSpan
from nearsay.indexer.vectors.errors import UnknownDocumentError

LONGEST_TEXT = 200_000  # characters of a text that can be edited on the page


def metadata_text(metadata: Mapping[str, JsonValue]) -> str:
    """Return the metadata as indented JSON."""
    return json.dumps(dict(metadata), ensure_ascii=False, indent=2)


def edited_document(
    *, id_: str | None, title: str, text: str, metadata: str, source: str | None = None
) -> Document:
    """Return the document in a form. Raises BadInputError if the text or the metadata is invalid."""
    if not text.strip():
        raise BadInputError("the text is empty. Write what the document says")
    if len(text) > LONGEST_TEXT:
        raise BadInputError(
            f"the text has {len(text):,} characters; the limit on this page is {LONGEST_TEXT:,}. "
            "Add it as a file"
        )
    return Document(
        text=text,
        id=(id_ or "").strip() or None,
        title=title.strip(),
        metadata=_parsed(metadata),
        source=source,
    )


def _parsed(text: str) -> dict[str, JsonValue]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"the metadata is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}. "
            'Write it as {"year": 2019, "venue": "acl"}'
        ) from error
    if not isinstance(value, dict):
        raise BadInputError(
            'the metadata is not an object with named fields. Write it as {"year": 2019, "venue": "acl"}'
        )
    return value


def _refuse(name: str) -> float:
    raise BadInputError(f"the metadata contains {name}, which JSON does not allow. Write null, or omit it")


def _each_once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for name, value in pairs:
        if name in found:
            raise BadInputError(f"the metadata names the field {name!r} twice. Name it once")
        found[name] = value
    return found


def shown_row(row: DocumentRow) -> dict[str, object]:
    """Return a row of the table of documents."""
    return {
        "id": row.id,
        "title": row.title,
        "text": " ".join(row.beginning.split()),
        "metadata": json.dumps(dict(row.metadata), ensure_ascii=False) if row.metadata else "",
        "updated": row.updated_at[:10],
    }


_WAITING: Final = 500  # passages without a vector; if there are more, a job embeds them first
_MOST_PASSAGES: Final = 500  # of a document, in the table
_FORM: Final = "doc-form"  # session key: the key of the last form drawn


def show_document(visit: Visit, collection: Collection, id_: str) -> None:
    """Show everything stored for a document, and the form that changes it."""
    if st.button("Back to the list", icon=":material/arrow_back:", key="doc-back"):
        _close()
    try:
        found = collection.document(id_)
    except UnknownDocumentError as error:
        st.info(as_markdown(as_note(str(error))))
        return
    st.markdown(f"#### {as_markdown(headline(found.title, found.id, found.text))}")
    facts = [f"id {found.id}", counted(found.passages, "passage"), f"added {found.added_at[:10]}"]
    if found.updated_at != found.added_at:
        facts.append(f"changed {found.updated_at[:10]}")
    if found.source:
        facts.append(f"from {found.source}")
    st.caption(as_markdown(" · ".join(facts)))
    _text(collection, found, collection.browser.passages(found.id) if found.passages > 1 else [])
    if visit.may_write:
        with st.expander("Edit", icon=":material/edit:"):
            _edit(visit, collection, found)
    with st.container(horizontal=True, vertical_alignment="center"):
        link_to("search", "More like this", icon=":material/search:", like=found.id)
        if visit.may_write and st.button("Delete …", icon=":material/delete:", key="doc-delete"):
            ask_to_remove(visit, [found.id])


def show_new_document(visit: Visit, collection: Collection) -> None:
    """Show a form for one document."""
    with st.form("new-document", border=False):
        id_ = st.text_input("Id", help="Identifies the document; derived from its text if left empty.")
        title = st.text_input("Title", help="Embedded together with the text.")
        text = st.text_area("Text", height=160)
        metadata = st.text_area("Metadata", placeholder='{"year": 2019}', help=_METADATA, height=80)
        if st.form_submit_button("Add it", type="primary", icon=":material/add:"):
            with showing_errors():
                document = edited_document(id_=id_, title=title, text=text, metadata=metadata)
                if document.id in collection:
                    raise BadInputError(f"there is a document '{document.id}' already. Open it to change it")
                _write(visit, collection, document, "Added.")


_METADATA: Final = "Fields to filter by, as a JSON object."


@st.fragment
def _text(collection: Collection, found: StoredDocument, beside: list[PassageSpan]) -> None:
    """Show the text, page by page; a passage that is selected below is marked in it."""
    with showing_errors():
        text = st.container(border=True)
        chosen = None
        if found.metadata:
            st.dataframe(
                [{"field": name, "value": json_text(value)} for name, value in found.metadata.items()],
                hide_index=True,
                height="content",
            )
        if beside:
            chosen = _chosen_passage(collection, found, beside)
        with text:
            start, end = (0, 0) if chosen is None else (chosen.start, chosen.end)
            show_text(f"{collection.name}|{found.id}", found.text, start, end)


def _chosen_passage(
    collection: Collection, found: StoredDocument, rows: list[PassageSpan]
) -> PassageSpan | None:
    with st.expander(f"Its {counted(found.passages, 'passage')}", icon=":material/segment:"):
        st.caption(
            "Each has its own vector; a search finds passages, not documents. Tick one to see it in the text."
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
            "Somebody changed this document after you opened it, so your edit was not saved. Its text now is "
            "above, your edit in the form. Save again to overwrite it.",
            icon=":material/edit_notifications:",
        )
    kept = {"title": found.title, "text": found.text, "metadata": metadata_text(found.metadata)}
    for name, value in kept.items():
        st.session_state.setdefault(f"{key}-{name}", value)
    with st.form(key, border=False):
        title = st.text_input("Title", key=f"{key}-title", help="Embedded with the text.")
        text = st.text_area("Text", height=220, key=f"{key}-text")
        metadata = st.text_area("Metadata", height=160, key=f"{key}-metadata", help=_METADATA)
        if st.form_submit_button("Save", type="primary", icon=":material/save:"):
            with showing_errors():
                document = edited_document(
                    id_=found.id, title=title, text=text, metadata=metadata, source=found.source
                )
                _write(visit, collection, document, "Saved.")


def _take_over(key: str) -> bool:
    """Copy a submitted edit of an earlier state of the document into the form of this key.

    Returns whether there was one; the form that it was submitted with is not drawn any more.
    """
    before = st.session_state.get(_FORM)
    st.session_state[_FORM] = key
    if before in (None, key) or not st.session_state.get(f"FormSubmitter:{before}-Save"):
        return False
    for name in ("title", "text", "metadata"):
        st.session_state[f"{key}-{name}"] = st.session_state[f"{before}-{name}"]
    return True


def _write(visit: Visit, collection: Collection, document: Document, message: str) -> None:
    """Add one document now, which takes a fraction of a second unless many passages have no vector yet."""
    visit.check_writing()
    if collection.overview().waiting > _WAITING:
        st.session_state["collections-said"] = (
            "An earlier addition was stopped, and its passages are embedded first. A job was started for "
            "that; repeat your change when it is done."
        )
        start(visit, ["index", "rebuild", "--", collection.name], f"Finish embedding {collection.name}")
    with st.spinner("Writing and embedding …"):
        report = collection.add_rows([document])
    if report.near_duplicates is not None and report.near_duplicates.first:
        twin = report.near_duplicates.first[0]
        message += f" It is a near-duplicate of {twin.original} (cosine {twin.cosine:.3f})."
    if not (report.added or report.updated or report.relabelled):
        message = "Nothing was changed."
    st.session_state["collections-said"] = message
    st.rerun()


def _close() -> None:
    st.query_params.pop("doc", None)
    st.rerun()


_A_PAGE: Final = 50
_NARROW: Final = 10  # characters of an id that a narrow column holds
_IDS, _IDS_HEIGHT = 10, 260  # ids listed without scrolling; the height in pixels for more
_COUNTED: Final = 10_000  # matching documents are counted up to this
_FOUND: Final = 100  # documents found by words


def show_documents(visit: Visit) -> None:
    """Show the table, or the document in the address."""
    if visit.name is None:
        st.info("Choose a collection in the sidebar.")
        return
    collection = visit.collection
    st.subheader(f"Documents of {as_markdown(collection.name)}", anchor=False)
    opened = st.query_params.get("doc")
    if opened is not None:
        show_document(visit, collection, opened)
        return
    find, where = _asked(collection)
    both_short = are_short(("The text to find", find))
    if not both_short or not are_short(("The filter", where or ""), most=LONGEST_FILTER):
        return
    if find:
        rows = _found(collection, find, where)
        st.caption(
            f"{counted(len(rows), 'document')}: matches in the id first, then the best {_FOUND} matches in "
            "title or text."
        )
        page = DocumentPage(tuple(rows), more_before=False, more_after=False)
    else:
        page = _page(collection, where)
        st.caption(_how_many(collection, page, where))
    chosen = _table(collection, page, find, where)
    if chosen:  # the table cuts long ids
        height: Literal["content"] | int = "content" if len(chosen) <= _IDS else _IDS_HEIGHT
        st.code("\n".join(row.id for row in chosen), language=None, wrap_lines=True, height=height)
    elif page.rows:
        more = ", and to open or delete them" if visit.may_write else ""
        st.caption(f"Tick rows in the table to see their full ids{more}.")
    if page.rows or page.more_before:
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
            placeholder="words of a title or text, or part of an id",
            help="Words of a document, or part of its id. To search by meaning, use the page Search.",
            on_change=_first_page,
        )
    with right:
        fields, page = collection.overview().fields, collection.browser.page(limit=1)
        named = ", ".join(fields[:6])
        where = st.text_input(
            "Filter",
            key="docs_where",
            bind="query-params",
            placeholder=example_filter(page.rows[0].metadata if page.rows else {}),
            help=f"Only documents that match. Fields: {as_markdown(named) or 'none'}; also id, "
            "title, text, source.",
            on_change=_first_page,
        )
    return (find or "").strip(), (where or "").strip() or None


def _found(collection: Collection, find: str, where: str | None) -> list[DocumentRow]:
    browser = collection.browser
    by_name = browser.ids_containing(find, where, limit=_A_PAGE)
    named = {row.id for row in by_name}
    with_words = browser.with_words(find, where, limit=_FOUND)
    return [*by_name, *(row for row in with_words if row.id not in named)]


def _page(collection: Collection, where: str | None) -> DocumentPage:
    return collection.browser.page(where, after=_place("after"), before=_place("before"), limit=_A_PAGE)


def _how_many(collection: Collection, page: DocumentPage, where: str | None) -> str:
    """Return the number of documents in words; with a filter, counted only up to a limit to stay fast."""
    if where is None:
        return counted(collection.browser.count(), "document") + "."
    if not page.more_before and not page.more_after:
        total = len(page.rows)
    else:
        total = collection.browser.count(where, up_to=_COUNTED)
    number = f"{_COUNTED:,} or more documents" if total >= _COUNTED else counted(total, "document")
    return f"{number} {'matches' if total == 1 else 'match'} the filter."


def _place(name: str) -> int | None:
    given = st.query_params.get(name, "")
    if name == "before" and _place("after") is not None:
        return None
    return int(given) if given.isdecimal() and len(given) < 19 else None


def _table(
    collection: Collection, page: DocumentPage, find: str, where: str | None
) -> tuple[DocumentRow, ...]:
    if not page.rows:
        if page.more_before:
            st.info("There are no more.")
        elif find or where:
            st.info("No document matches. Change the filter or the words.")
        return ()
    long = any(len(row.id) > _NARROW for row in page.rows)
    shown = hash(tuple(row.number for row in page.rows))  # new key for other rows: selections are positions
    event = st.dataframe(
        [shown_row(row) for row in page.rows],
        hide_index=True,
        key=f"docs-{collection.name}-{find}-{where}-{shown}",
        on_select="rerun",
        selection_mode="multi-row",
        column_config=DOCUMENT_WIDTHS | (widths(id="medium") if long else {}),
    )
    return tuple(page.rows[at] for at in event.selection.rows if at < len(page.rows))


def _turning(page: DocumentPage) -> None:
    ends = [row.number for row in page.rows] or [0]
    with st.container(horizontal=True, key="docs-turning"):
        for label, icon, more, turn in (
            ("First", "first_page", page.more_before, ()),
            ("Previous", "chevron_left", page.more_before, ("before", ends[0])),
            ("Next", "chevron_right", page.more_after, ("after", ends[-1])),
        ):
            st.button(
                label,
                icon=f":material/{icon}:",
                key=f"docs-{label.lower()}",
                disabled=not more,
                on_click=_turn,
                args=turn,
            )


def _open_by_name(page: DocumentPage) -> None:
    names = distinct_labels({row.id: _called(row) for row in page.rows})
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = pick("Open a document", names, "docs-open", index=None, placeholder="choose one of these")
        if chosen is not None:
            _open(chosen)


def _called(row: DocumentRow) -> str:
    """Return the id and title, or the beginning of the text if the id is only a hash."""
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
            ask_to_remove(visit, [row.id for row in chosen])
        if where and st.button(
            "Delete all that match the filter …", icon=":material/delete_sweep:", key="docs-delete-where"
        ):
            ask_to_remove(visit, where=where)
    with st.expander("Write a new document", icon=":material/edit_note:"):
        show_new_document(visit, collection)


def _open(id_: str) -> None:
    st.query_params["doc"] = id_
    st.rerun()


def _turn(name: str = "", number: int = 0) -> None:
    with showing_errors():
        _first_page()
        if name:
            st.query_params[name] = str(number)


def _first_page() -> None:
    for name in ("after", "before"):
        st.query_params.pop(name, None)
