"""One group of near-duplicates: its documents side by side, and what is done with them."""

from collections.abc import Sequence

import streamlit as st

from nearsay.app.cli.printing import visible
from nearsay.app.ui.distinct_labels import distinct_labels
from nearsay.app.ui.escaping import as_html, as_markdown
from nearsay.app.ui.explore.difference import difference, side_html
from nearsay.app.ui.explore.merge_dialog import ask_to_merge
from nearsay.app.ui.explore.removing import ask_to_remove
from nearsay.app.ui.search.card import metadata_line
from nearsay.app.ui.visit import Visit
from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.catalogue.passage import headline
from nearsay.indexer.vectors.errors import UnknownDocumentError

__all__ = ["apart_of", "group_key", "labels_of", "show_group"]

_MEMBERS = 30  # that are shown of a group


def apart_of(visit: Visit) -> set[frozenset[str]]:
    """The groups of which somebody said, in this session, that they are no duplicates."""
    found: set[frozenset[str]] = st.session_state.setdefault(f"dup_apart_{visit.name}", set())
    return found


def group_key(ids: Sequence[str]) -> str:
    """What names the widgets of a group: another for other documents."""
    return "|".join(sorted(ids)[:3]) + f"|{len(ids)}"


def labels_of(documents: Sequence[StoredDocument]) -> dict[str, str]:
    """How each document of a group is called: its title and id, or its text; the representative marked."""
    called = {}
    for each in documents:
        name = headline(each.title, each.id, each.text)
        called[each.id] = visible(f"{name} ({each.id})" if each.title not in ("", each.id) else name)
    called = distinct_labels(called)
    return {
        id_: f"{name}: the central one" if not at else name for at, (id_, name) in enumerate(called.items())
    }


def show_group(visit: Visit, ids: Sequence[str]) -> None:
    """The group with the one that stands for it on the left and one of the others on the right."""
    documents = _read(visit, ids[:_MEMBERS])
    if len(documents) < 2:
        return
    key = group_key(ids)
    labels = labels_of(documents)
    by_id = {each.id: each for each in documents}
    with st.container(border=True):
        st.markdown(f"**{len(ids):,} documents** say nearly the same")
        if len(ids) > len(documents):
            st.caption(f"{len(documents):,} of them are shown.")
        left, right = st.columns(2)
        stays = left.selectbox(
            "Stays",
            list(by_id),
            format_func=labels.__getitem__,
            key=f"dup_stays_{key}",
            help="The central one is nearest to the middle of the group.",
        )
        beside = right.selectbox(
            "Beside it",
            [id_ for id_ in by_id if id_ != stays],
            format_func=labels.__getitem__,
            key=f"dup_beside_{key}_{stays}",
            help="Words that only one of the two has are struck through or underlined.",
        )
        _side_by_side(by_id[stays], by_id[beside])
        gone = [id_ for id_ in ids if id_ != stays]
        _actions(visit, ids, by_id[stays], gone, key)


def _read(visit: Visit, ids: Sequence[str]) -> list[StoredDocument]:
    found = []
    for id_ in ids:
        try:
            found.append(visit.collection.document(id_))
        except UnknownDocumentError:  # removed in another window
            continue
    return found


def _side_by_side(left: StoredDocument, right: StoredDocument) -> None:
    compared = difference(left.text, right.text)
    for column, each, parts, mark in zip(
        st.columns(2), (left, right), (compared.first, compared.second), ("del", "ins"), strict=True
    ):
        facts = " · ".join(part for part in (each.id, metadata_line(each.metadata)) if part)
        with column:
            called = as_html(headline(each.title, each.id, each.text))
            st.html(
                f'<div class="ns-card"><div class="ns-title">{called}</div>'
                f'<div class="ns-meta">{as_html(facts)}</div></div>'
            )
            st.html(side_html(parts, "del" if mark == "del" else "ins"))
    if compared.same:
        st.caption("The texts are the same." if not compared.cut else "The beginnings are the same.")
    elif compared.cut:
        st.caption("Only the beginnings of these long texts are compared and shown.")


def _actions(visit: Visit, ids: Sequence[str], stays: StoredDocument, gone: list[str], key: str) -> None:
    if not visit.may_write:
        return
    with st.container(horizontal=True):
        if st.button(
            "Keep this one …", key=f"dup_keep_{key}", icon=":material/check:", help="The others are removed."
        ):
            ask_to_remove(
                visit, gone, as_markdown(f"“{headline(stays.title, stays.id, stays.text)}” stays, as it is.")
            )
        if st.button(
            "Merge into it …",
            key=f"dup_merge_{key}",
            icon=":material/merge:",
            help="It takes over metadata that it lacks; then the others are removed.",
        ):
            ask_to_merge(visit, stays.id, gone)
        if st.button(
            "No duplicates",
            key=f"dup_apart_{key}",
            icon=":material/call_split:",
            type="tertiary",
            help="Hides the group for as long as this page is open; nothing is changed.",
        ):
            apart_of(visit).add(frozenset(ids))
            st.rerun()
