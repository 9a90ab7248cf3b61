"""The care for a collection: quick fields, room, and its end."""

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.command_shown import show_command
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.data.quantity import counted
from nearsay.indexer import Collection
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.plans.plan import EXACT_UP_TO
from nearsay.indexer.writing.overview import CollectionOverview

__all__ = ["show_upkeep"]


def show_upkeep(visit: Visit, collection: Collection, found: CollectionOverview) -> None:
    """Index, declare fields, compact, delete."""
    if found.live is not None:
        with st.expander("Index: quick searches of many passages", icon=":material/bolt:"):
            _index(visit, found)
    if found.documents:
        with st.expander("Declare fields: quick filters and counts", icon=":material/filter_alt:"):
            _fields(visit, collection, found)
    with st.expander("Compact: free the room of what was removed", icon=":material/compress:"):
        _compact(visit, found)
    with st.expander("Delete the collection", icon=":material/delete_forever:"):
        _delete(visit, found)


def _index(visit: Visit, found: CollectionOverview) -> None:
    st.caption(
        f"{counted(found.unindexed, 'passage')} outside of an index. Up to {EXACT_UP_TO:,} are compared one "
        "by one in milliseconds. Above that one index of everything is measured and built, and indexes that "
        "additions left are merged into it. Searches go on meanwhile."
    )
    arguments = ["index", "optimize", "--", found.name]
    if st.button("Index", key=f"optimize-{found.name}", icon=":material/bolt:"):
        start(visit, RunKind.TUNE, arguments, title=f"Index {found.name}", collection=found.name)
    show_command(visit, arguments)


def _fields(visit: Visit, collection: Collection, found: CollectionOverview) -> None:
    st.caption(
        "The values of a declared field have an index of their own: filters and counts over it stay quick in "
        "collections of millions. Some ten seconds a field and million documents."
    )
    declared = collection.declared_fields()
    names = list(dict.fromkeys([*declared, *found.fields]))
    with st.form(f"declare-{found.name}", border=False):
        chosen = st.multiselect(
            "Declared fields",
            names,
            default=list(declared),
            accept_new_options=True,
            help="A field inside another is written with a dot: author.name.",
        )
        sent = st.form_submit_button("Keep these", icon=":material/save:")
    more = [name for name in chosen if name not in declared]
    less = [name for name in declared if name not in chosen]
    arguments = ["documents", "fields"]
    arguments += [part for name in more for part in ("--declare", name)]
    arguments += [part for name in less for part in ("--forget", name)]
    arguments += ["--", found.name]
    if sent and (more or less):
        title = f"Declare fields of {found.name}"
        start(visit, RunKind.OTHER, arguments, title=title, collection=found.name)
    elif sent:
        st.caption("They are as they were.")


def _compact(visit: Visit, found: CollectionOverview) -> None:
    retired = [row for row in found.generations if row.state is GenerationState.RETIRED]
    st.caption(
        f"{counted(found.removed, 'removed passage')} still in segments. Small segments are merged; searches "
        "go on meanwhile."
    )
    drop = False
    if retired:
        numbers = ", ".join(str(row.number) for row in retired)
        drop = st.checkbox(
            f"Also forget what is retired (generation {numbers}): no way back to it",
            key=f"compact-drop-{found.name}",
        )
    arguments = ["index", "compact", *(["--drop-retired", "--yes"] if drop else []), "--", found.name]
    if st.button("Compact", key=f"compact-{found.name}", icon=":material/compress:"):
        title = f"Compact {found.name}"
        start(visit, RunKind.COMPACT, arguments, title=title, collection=found.name)
    show_command(visit, arguments)


def _delete(visit: Visit, found: CollectionOverview) -> None:
    st.markdown(
        f"Everything in it goes: {counted(found.documents, 'document')}, their vectors, clusters, the map "
        "and the judgements of its results. There is no way back."
    )
    with st.form(f"delete-{found.name}", border=False):
        typed = st.text_input(f"Type its name to delete it: {as_markdown(found.name)}")
        sent = st.form_submit_button("Delete the collection", icon=":material/delete_forever:")
    if sent and typed.strip() != found.name:
        st.error("That is not its name, so nothing was deleted.")
    elif sent:
        start(
            visit,
            RunKind.REMOVE,
            ["collections", "remove", "--yes", "--", found.name],
            title=f"Delete the collection {found.name}",
            collection=found.name,
        )
