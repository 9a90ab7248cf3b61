"""Explore, duplicates: groups of documents that say nearly the same, and what becomes of them."""

import json
import shlex
from collections.abc import Iterator, Sequence
from functools import partial

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.command_shown import show_command
from nearsay.app.ui.download import offer_download
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.explore.duplicate_group import apart_of, show_group
from nearsay.app.ui.explore.duplicates_found import (
    Groups,
    groups_at_once,
    groups_from_output,
    left_over,
    still_there,
    superfluous,
)
from nearsay.app.ui.explore.looking import Look, found_by, is_quick
from nearsay.app.ui.explore.paged import show_paged
from nearsay.app.ui.explore.pairs_view import show_pairs
from nearsay.app.ui.explore.removing import ask_to_remove
from nearsay.app.ui.visit import Visit
from nearsay.data.quantity import counted
from nearsay.indexer.duplicates.linking import Link

__all__ = ["show_duplicates_view"]

_QUICK = 8_000  # passages: every two are compared
_MOST_EXPORTED = 200_000  # passages of a collection whose documents a page puts into one file
_A_PAGE = 5  # groups
_LINKS = {
    Link.TRANSITIVE: "a chain of near-duplicates leads from each to each",
    Link.COMPLETE: "every two are near-duplicates",
}


def show_duplicates_view(visit: Visit) -> None:
    """Groups of documents, or pairs of passages."""
    what = st.segmented_control(
        "What",
        ["groups", "pairs"],
        default="groups",
        required=True,
        key="dup_what",
        bind="query-params",
        label_visibility="collapsed",
    )
    if what == "pairs":
        show_pairs(visit)
    else:
        _show_groups(visit)


def _show_groups(visit: Visit) -> None:
    with st.container(horizontal=True):
        threshold = st.slider(
            "Least cosine",
            0.80,
            1.0,
            0.95,
            0.01,
            key="dup_cosine",
            bind="query-params",
            help="How similar near-duplicates are: 1 is the same text, 0.95 a few words changed.",
        )
        link = st.selectbox(
            "A group is",
            [str(each) for each in Link],
            key="dup_link",
            bind="query-params",
            help="; ".join(f"{name}: {said}" for name, said in _LINKS.items()) + ".",
        )
    name = visit.name or ""
    arguments = ("explore", "duplicates", name, "--threshold", f"{threshold:g}", "--link", link)
    look = Look(
        "duplicates",
        f"Duplicates in {name}",
        RunKind.DUPLICATES,
        arguments,
        _QUICK,
        lambda: groups_at_once(visit.collection, threshold, link),
        groups_from_output,
    )
    found = found_by(visit, look)
    if found is not None:
        since = None if found.run is None else found.run.started_at
        _show_found(visit, still_there(visit.collection, found.rows, since), arguments)
    show_command(visit, arguments)


def _show_found(visit: Visit, found: Groups, arguments: Sequence[str]) -> None:
    apart = apart_of(visit)
    groups = left_over(found, apart)
    hidden = len(found.groups) - len(groups)
    for note in found.notes:
        st.caption(as_markdown(note[:1].upper() + note[1:]))
    if hidden:
        said = "of which you said that they are no duplicates."
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"Hidden in this session: {counted(hidden, 'group')} {said}", width="content")
            st.button("Show again", key="dup_again", type="tertiary", on_click=apart.clear)
    if not groups:
        what = "No other documents are" if hidden else "No two documents are"
        st.success(f"{what} that similar.", icon=":material/check_circle:")
        return
    gone = superfluous(groups)
    with st.container(horizontal=True):
        st.metric("groups", f"{len(groups):,}", width="content")
        st.metric("documents could go", f"{len(gone):,}", width="content", help="If one of each group stays.")
    with st.container(horizontal=True):
        if visit.may_write and st.button(
            "Keep the best of every group …", key="dup_all", icon=":material/done_all:"
        ):
            ask_to_remove(visit, gone, "The most central of each group stays, as it is.")
        _export(visit, gone, arguments)
    show_paged(groups, _A_PAGE, "dup_page", partial(_show_some, visit))


def _export(visit: Visit, gone: Sequence[str], arguments: Sequence[str]) -> None:
    """Every document but those that could go; of very many only the command that writes them."""
    name = f"{visit.name}-one-of-each.jsonl"
    if not is_quick(visit, _MOST_EXPORTED):
        with st.popover("Export with one of each", icon=":material/download:"):
            st.markdown("A file of so many documents is written by the command:")
            st.code(shlex.join(["nearsay", *arguments, "--out", name]), language="bash", wrap_lines=True)
        return
    offer_download(
        "Export with one of each",
        lambda: b"".join(_kept_lines(visit, frozenset(gone))),
        name,
        key="dup_export",
        tip="Every document but those that could go, as JSON lines that can be added again.",
    )


def _show_some(visit: Visit, groups: Sequence[tuple[str, ...]]) -> None:
    for group in groups:
        show_group(visit, group)


def _kept_lines(visit: Visit, gone: frozenset[str]) -> Iterator[bytes]:
    for document in visit.collection.documents():
        if document.id not in gone:
            row = {"id": document.id, "title": document.title, "text": document.text}
            line = json.dumps(row | {"metadata": dict(document.metadata)}, ensure_ascii=False)
            yield line.encode("utf-8", "replace") + b"\n"
