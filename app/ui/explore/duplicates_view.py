"""Explore, duplicates: groups of near-duplicate documents, and what to do with them."""

from collections.abc import Collection as Ids
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import streamlit as st

from nearsay.app.ui.card import metadata_line
from nearsay.app.ui.controls import (
    capitalised,
    choose_part,
    confirmed,
    first_of,
    show_notes,
    show_paged,
    widths,
)
from nearsay.app.ui.download import csv_bytes, json_lines_bytes, offer_download
from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_html, as_markdown, distinct_labels, json_text
from nearsay.app.ui.explore.looking import Look, like_link, look_at, offer_file
from nearsay.app.ui.removing import ask_to_remove, names_html
from nearsay.app.ui.visit import Visit
from nearsay.data.document import visible
from nearsay.data.quantity import counted
from nearsay.indexer import Collection
from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.catalogue.passages import headline
from nearsay.indexer.duplicates.groups import DuplicateGroup, Link
from nearsay.indexer.duplicates.merging import Difference, Merged, Part, difference, merge, merged_document
from nearsay.indexer.duplicates.pairs import Pair
from nearsay.indexer.neighbours.points import Shown
from nearsay.indexer.results import every
from nearsay.indexer.vectors.errors import UnknownDocumentError


@st.dialog("Merge documents?", width="medium")
def ask_to_merge(visit: Visit, stays: str, gone: Sequence[str]) -> None:
    """Ask before merging, showing which metadata is taken over and which is lost."""
    with showing_errors():
        kept = visit.collection.document(stays)
        merged = merged_document(visit.collection, stays, gone)
        st.markdown(f"**{as_markdown(headline(kept.title, kept.id, kept.text))}** keeps its title and text.")
        st.html(merged_html(merged))
        st.markdown(f"Removed with all passages: **{counted(len(gone), 'document')}**")
        st.html(names_html(gone))
        if confirmed("Merge", "Cancel", "merge", ":material/merge:"):
            visit.check_writing()
            removed = merge(visit.collection, stays, gone)
            st.toast(f"Merged; {counted(removed, 'document')} removed.", icon=":material/merge:")
            st.rerun()


def merged_html(merged: Merged) -> str:
    """Return the fields that are filled in, and the conflicting values that will be lost."""
    filled = "".join(
        f"<li>{as_html(name)}: {as_html(json_text(merged.metadata[name]))}</li>" for name in merged.filled
    )
    conflicts = "".join(
        f"<li>{as_html(each.field)}: {as_html(json_text(each.kept))} is kept; lost: "
        f"{as_html(first_of([json_text(value) for value in each.others]))}</li>"
        for each in merged.conflicts
    )
    taken = f"<div>Taken over:</div><ul>{filled}</ul>" if filled else "<div>No field is missing.</div>"
    lost = f"<div>Conflicting values:</div><ul>{conflicts}</ul>" if conflicts else ""
    return f'<div class="ns-card">{taken}{lost}</div>'


def side_html(parts: tuple[Part, ...], mark: Literal["del", "ins"]) -> str:
    """Return one of the texts as HTML; mark: the element around words that only this text has."""
    text = "".join(_piece(part, mark) for part in parts)
    return f'<div class="ns-card"><div class="ns-text">{text}</div></div>'


def _two_texts(compared: Difference, heads: Sequence[str], links: Sequence[str] = ()) -> None:
    """Show two texts side by side, each under its HTML head; links: ids for the links "More like this"."""
    sides = (side_html(compared.first, "del"), side_html(compared.second, "ins"))
    for at, (column, head, side) in enumerate(zip(st.columns(2), heads, sides, strict=True)):
        with column:
            st.html(f'<div class="ns-card">{head}</div>{side}')
            if links:
                like_link(links[at])


def _facts_html(each: StoredDocument, other: StoredDocument) -> str:
    fields = metadata_line(each.metadata, beside=other.metadata)
    facts = " · ".join(part for part in (each.id, fields) if part)
    called = f'<div class="ns-title">{as_html(each.title)}</div>' if each.title.strip() else ""
    return f'{called}<div class="ns-meta">{as_html(facts)}</div>'


def _piece(part: Part, mark: str) -> str:
    words = part.text.rstrip()
    shown = as_html(visible(words))
    marked = f"<{mark}>{shown}</{mark}>" if part.alone and words else shown
    return marked + as_html(visible(part.text[len(words) :]))


_MEMBERS = 30  # documents shown of a group


def apart_of(visit: Visit) -> set[frozenset[str]]:
    """Return the groups that were marked as no duplicates in this session."""
    found: set[frozenset[str]] = st.session_state.setdefault(f"dup_apart_{visit.name}", set())
    return found


def group_key(ids: Sequence[str]) -> str:
    """Return a key for the widgets of a group, which changes with its documents."""
    return "|".join(sorted(ids)[:3]) + f"|{len(ids)}"


def labels_of(documents: Sequence[StoredDocument]) -> dict[str, str]:
    """Return a label for each document of a group: title and id, or its text; the central one is marked."""
    called = {}
    for each in documents:
        name = headline(each.title, each.id, each.text)
        called[each.id] = visible(f"{name} ({each.id})" if each.title not in ("", each.id) else name)
    called = distinct_labels(called)
    return {id_: f"{name}: most central" if not at else name for at, (id_, name) in enumerate(called.items())}


def show_group(visit: Visit, ids: Sequence[str]) -> None:
    """Show a group, with the document that stays on the left and another one on the right."""
    documents = _read(visit, ids[:_MEMBERS])
    if len(documents) < 2:
        return
    key = group_key(ids)
    labels = labels_of(documents)
    by_id = {each.id: each for each in documents}
    with st.container(border=True):
        st.markdown(f"**{len(ids):,} near-duplicates**")
        if len(ids) > len(documents):
            st.caption(f"{len(documents):,} of them are shown.")
        left, right = st.columns(2)
        stays = left.selectbox(
            "Keep",
            list(by_id),
            format_func=labels.__getitem__,
            key=f"dup_stays_{key}",
            help="The most central document is the nearest to the centre of the group.",
        )
        beside = right.selectbox(
            "Compare with",
            [id_ for id_ in by_id if id_ != stays],
            format_func=labels.__getitem__,
            key=f"dup_beside_{key}_{stays}",
            help="Words that only the first has are struck through; those that only the second has, "
            "underlined.",
        )
        _side_by_side(by_id[stays], by_id[beside])
        gone = [id_ for id_ in ids if id_ != stays]
        _actions(visit, ids, by_id[stays], gone, key)


def _read(visit: Visit, ids: Sequence[str]) -> list[StoredDocument]:
    found = []
    for id_ in ids:
        try:
            found.append(visit.collection.document(id_))
        except UnknownDocumentError:  # removed meanwhile
            continue
    return found


def _side_by_side(left: StoredDocument, right: StoredDocument) -> None:
    compared = difference(left.text, right.text)
    _two_texts(compared, (_facts_html(left, right), _facts_html(right, left)))
    if compared.same:
        st.caption("The texts are identical." if not compared.cut else "The beginnings are identical.")
    elif compared.cut:
        st.caption("Only the beginnings of these long texts are compared and shown.")


def _actions(visit: Visit, ids: Sequence[str], stays: StoredDocument, gone: list[str], key: str) -> None:
    if not visit.may_write:
        return
    with st.container(horizontal=True):
        if st.button(
            "Keep this one …", key=f"dup_keep_{key}", icon=":material/check:", help="The others are removed."
        ):
            kept = f"“{headline(stays.title, stays.id, stays.text)}” is kept unchanged."
            ask_to_remove(visit, gone, as_markdown(kept))
        if st.button(
            "Merge into it …",
            key=f"dup_merge_{key}",
            icon=":material/merge:",
            help="Fills in its missing metadata from the others, then removes them.",
        ):
            ask_to_merge(visit, stays.id, gone)
        if st.button(
            "Not duplicates",
            key=f"dup_apart_{key}",
            icon=":material/call_split:",
            type="tertiary",
            help="Hides the group while this page is open; changes nothing.",
        ):
            apart_of(visit).add(frozenset(ids))
            st.rerun()


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of near-duplicates, largest first."""

    groups: tuple[tuple[str, ...], ...]  # ids of documents, the representative first
    notes: tuple[str, ...] = ()  # plain sentences


def groups_of(found: Iterable[DuplicateGroup], notes: tuple[str, ...] = ()) -> Groups:
    """Return the document ids of groups that were found now or by a job."""
    every_id = ((group.representative.id, *(other.id for other in group.others)) for group in found)
    return Groups(tuple(every_id), notes)


def _groups_now(collection: Collection, threshold: float, link: str) -> Groups:
    found = collection.explore.duplicates(threshold, link=link)
    return groups_of(found, found.notes)


def still_there(collection: Collection, found: Groups, since: str) -> Groups:
    """Return the groups without documents that were deleted or changed since; groups of one are dropped.

    since: when they were compared (ISO 8601)
    """
    every = [id_ for group in found.groups for id_ in group]
    there = collection.explore.untouched(every, since)
    kept = (tuple(id_ for id_ in group if id_ in there) for group in found.groups)
    return Groups(tuple(group for group in kept if len(group) > 1), found.notes)


def left_over(found: Groups, apart: Ids[frozenset[str]]) -> list[tuple[str, ...]]:
    """Return the groups without those marked as no duplicates."""
    return [group for group in found.groups if frozenset(group) not in apart]


def superfluous(groups: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the documents that are removed if the representative of each group stays."""
    return [id_ for group in groups for id_ in group[1:]]


_QUICK = 8_000  # passages: every two are compared
_MOST = 1_000  # pairs
_TEXTS = ("first text", "second text")
_COLUMNS = ("cosine", "first", "first id", "first text", "second", "second id", "second text")


def show_pairs(visit: Visit) -> None:
    """Show a table of pairs, and the selected one side by side."""
    top = st.number_input("How many pairs", 10, _MOST, 100, 10, key="pairs_top", bind="query-params")
    arguments = ("explore", "pairs", visit.name or "", "--limit", str(top))
    look = Look(
        "pairs",
        f"Most similar pairs in {visit.name}",
        arguments,
        _QUICK,
        lambda: _pairs_now(visit.collection, top),
        lambda job: Shown(tuple(every(job.folder.output(), Pair)), 0, job.notes()),
    )
    look_at(visit, look, partial(_show, visit))


def _pairs_now(collection: Collection, top: int) -> Shown[Pair]:
    found = collection.explore.pairs(top)
    return Shown(tuple(found), found.looked_at, found.notes)


def pair_rows(pairs: Iterable[Pair]) -> list[dict[str, object]]:
    """Return a row for each pair."""
    return [
        {
            "cosine": round(pair.cosine, 4),
            "first": headline(pair.first.title, pair.first.id, pair.first.text),
            "second": headline(pair.second.title, pair.second.id, pair.second.text),
            "first text": pair.first.text,
            "second text": pair.second.text,
            "first id": pair.first.id,
            "second id": pair.second.id,
        }
        for pair in pairs
    ]


def _show(visit: Visit, pairs: Shown[Pair]) -> None:
    show_notes(pairs.notes)
    if not pairs:
        st.info("There are no pairs: the collection has fewer than two documents.")
        return
    rows = pair_rows(pairs)
    these = hash(tuple((one.id, one.ordinal) for pair in pairs for one in (pair.first, pair.second)))
    event = st.dataframe(
        rows,
        hide_index=True,
        key=f"pairs_table_{visit.name}_{these}",  # resets the selection when the pairs change
        on_select="rerun",
        selection_mode="single-row",
        column_config=widths(first="medium", second="medium")
        | {name: st.column_config.TextColumn(capitalised(name), width="medium") for name in _TEXTS}
        | {"cosine": st.column_config.NumberColumn("Cosine", format="%.4f", width="small")},
    )
    offer_download("CSV", lambda: csv_bytes(rows, _COLUMNS), f"{visit.name}-pairs.csv", key="pairs_csv")
    chosen = event["selection"]["rows"]
    if not chosen or chosen[0] >= len(pairs):
        st.caption("Select a row to see the two side by side.")
        return
    first, second = pairs[chosen[0]].first, pairs[chosen[0]].second
    titles = [f'<div class="ns-title">{as_html(each.title or each.id)}</div>' for each in (first, second)]
    _two_texts(difference(first.text, second.text), titles, (first.id, second.id))


_MOST_EXPORTED = 200_000  # passages of a collection that the page exports
_A_PAGE = 5  # groups
_LINKS = {
    Link.TRANSITIVE: "documents are connected by a chain of near-duplicates",
    Link.COMPLETE: "every two are near-duplicates",
}


def show_duplicates_view(visit: Visit) -> None:
    """Show groups of documents, or pairs of passages."""
    if choose_part("What", ["groups", "pairs"], "dup_what") == "pairs":
        show_pairs(visit)
    else:
        _show_groups(visit)


def _show_groups(visit: Visit) -> None:
    with st.container(horizontal=True):
        threshold = st.slider(
            "Minimum cosine",
            0.80,
            1.0,
            0.95,
            0.01,
            key="dup_cosine",
            bind="query-params",
            help="The similarity of near-duplicates: 1 is identical text, 0.95 differs in a few words.",
        )
        link = st.selectbox(
            "Grouping",
            [str(each) for each in Link],
            key="dup_link",
            bind="query-params",
            help="; ".join(f"{name}: {meaning}" for name, meaning in _LINKS.items()) + ".",
        )
    name = visit.name or ""
    arguments = ("explore", "duplicates", name, "--threshold", f"{threshold:g}", "--link", link)
    look = Look(
        "duplicates",
        f"Duplicates in {name}",
        arguments,
        _QUICK,
        lambda: _groups_now(visit.collection, threshold, link),
        lambda job: groups_of(every(job.folder.output(), DuplicateGroup), job.notes()),
        partial(still_there, visit.collection),
    )
    look_at(visit, look, partial(_show_found, visit, arguments))


def _show_found(visit: Visit, arguments: Sequence[str], found: Groups) -> None:
    apart = apart_of(visit)
    groups = left_over(found, apart)
    hidden = len(found.groups) - len(groups)
    show_notes(found.notes)
    if hidden:
        why = "that you marked as not duplicates."
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"Hidden in this session: {counted(hidden, 'group')} {why}", width="content")
            st.button("Show again", key="dup_again", type="tertiary", on_click=apart.clear)
    if not groups:
        what = "No other documents are" if hidden else "No two documents are"
        st.success(f"{what} that similar.", icon=":material/check_circle:")
        return
    gone = superfluous(groups)
    with st.container(horizontal=True):
        st.metric("groups", f"{len(groups):,}", width="content")
        st.metric("redundant", f"{len(gone):,}", width="content", help="If one of each group is kept.")
    with st.container(horizontal=True):
        if visit.may_write and st.button(
            "Keep one of each group …", key="dup_all", icon=":material/done_all:"
        ):
            ask_to_remove(visit, gone, "The most central document of each group is kept unchanged.")
        label, make = "Export without duplicates", partial(_kept_lines, visit, frozenset(gone))
        file = f"{visit.name}-one-of-each.jsonl"
        offer_file(visit, label, make, file, "dup_export", arguments, most=_MOST_EXPORTED)
    show_paged(groups, _A_PAGE, "dup_page", partial(_show_some, visit))


def _show_some(visit: Visit, groups: Sequence[tuple[str, ...]]) -> None:
    for group in groups:
        show_group(visit, group)


def _kept_lines(visit: Visit, gone: frozenset[str]) -> bytes:
    """Return all documents except these as JSON lines, which can be added again."""
    kept = (each for each in visit.collection.documents() if each.id not in gone)
    return json_lines_bytes(
        {"id": each.id, "title": each.title, "text": each.text, "metadata": dict(each.metadata)}
        for each in kept
    )
