"""Explore, clusters: what there is in a collection, by name, and what moved since the last time."""

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.command_shown import show_command
from nearsay.app.ui.download import offer_download
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.explore.cluster_card import cluster_card
from nearsay.app.ui.explore.cluster_form import NEAREST, SMALLEST, cluster_form
from nearsay.app.ui.explore.cluster_words import ORDERS, moved_words, ordered
from nearsay.app.ui.explore.looking import newest_runs, watch_newest
from nearsay.app.ui.explore.paged import show_paged
from nearsay.app.ui.explore.state import remembered, state_of
from nearsay.app.ui.runs.watching import runs_of
from nearsay.app.ui.runs.words import moment
from nearsay.app.ui.visit import Visit
from nearsay.data.quantity import counted
from nearsay.indexer.clusters.clustering import Cluster, Clustering

__all__ = ["members_file", "show_clusters_view"]

_A_PAGE = 12  # clusters
_MANY_OUTLIERS = 0.5  # of the passages: with more, what can be done about it is said
_AGAIN = "Cluster again"
_MOST_EXPORTED = 200_000  # passages in one file that a page makes


def show_clusters_view(visit: Visit) -> None:
    """The clusters as cards, and the form that makes them."""
    watch_newest(visit, newest_runs(visit, RunKind.CLUSTER), "clusters")
    explorer = visit.collection.explore
    if not explorer.has_clusters():
        st.markdown("Clusters are passages that say like things; each gets a name from its words.")
        if visit.may_write:
            cluster_form(visit, "Make clusters")
        else:
            st.info("There are no clusters yet, and this page only reads.")
        return
    found = remembered(f"{state_of(visit)}|clusters", explorer.clusters)
    _about(visit, found)
    _cards(visit, found)


def _about(visit: Visit, found: Clustering) -> None:
    """The sizes of it all, what came since, what moved, and the way to make them anew."""
    count = sum(each.level == 0 for each in found.clusters)
    with st.container(horizontal=True):
        st.metric("clusters", f"{count:,}", width="content")
        st.metric("passages", f"{found.passages:,}", width="content")
        st.metric("outliers", f"{found.outliers:,}", width="content", help="Passages in no cluster.")
    if visit.may_write and found.outliers > _MANY_OUTLIERS * found.passages:
        _many_outliers(found)
    if found.newer:
        _newer(visit, found)
    st.caption(as_markdown(f"Made {moment(found.created_at)} UTC by the method {found.method}."))
    _export(visit, found)
    moved = moved_words(found)
    if moved:
        with st.expander(f"Since the clustering before: {as_markdown(moved[0])}", icon=":material/compare:"):
            st.markdown("\n".join(f"- {as_markdown(line)}" for line in moved))
    if visit.may_write:
        with st.expander(_AGAIN, icon=":material/refresh:"):
            st.caption(
                "A cluster that is found again keeps its number, and the name that you gave it. "
                "The others are replaced."
            )
            cluster_form(visit, _AGAIN)


def _many_outliers(found: Clustering) -> None:
    """That more passages are left over than are in clusters, and which choices of the form change it."""
    least = found.parameters.get("least_size")
    smaller = (
        f"give a number below {least} as **{SMALLEST}**, or " if isinstance(least, int) and least > 1 else ""
    )
    st.info(
        f"{found.outliers:,} of {counted(found.passages, 'passage')} are in no cluster. Under **{_AGAIN}**, "
        f"{smaller}tick **{NEAREST}**.",
        icon=":material/info:",
    )


def _export(visit: Visit, found: Clustering) -> None:
    """Every passage with its cluster; of very many only the command that writes them."""
    arguments = ["explore", "clusters", visit.name or "", "--out", f"{visit.name}-clusters.csv"]
    if found.passages > _MOST_EXPORTED:
        st.caption(
            "A file of every passage with its cluster is written by a command, since there are so many."
        )
        show_command(visit, arguments)
        return
    offer_download(
        "Every passage with its cluster",
        partial(members_file, visit),
        f"{visit.name}-clusters.csv",
        key="cl_export",
    )


def members_file(visit: Visit) -> bytes:
    """Each passage in a cluster as CSV, in which nothing is computed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "members.csv"
        visit.collection.explore.write_clusters(file)
        return file.read_bytes()


def _newer(visit: Visit, found: Clustering) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(f"{counted(found.newer, 'passage')} came since, in no cluster yet.")
        at_work = any(not run.state.ended for run in newest_runs(visit, RunKind.CLUSTER))
        if visit.may_write and not at_work and st.button("Put them in", key="cl_newer"):
            visit.check_writing()
            arguments = ["explore", "clusters", visit.name or "", "--assign"]
            title = f"New passages of {visit.name} into their clusters"
            runs_of(visit).start(RunKind.CLUSTER, arguments, title=title, collection=visit.name)
            st.rerun()


def _cards(visit: Visit, found: Clustering) -> None:
    levels = max((each.level for each in found.clusters), default=0)
    level = 0
    with st.container(horizontal=True, vertical_alignment="bottom"):
        wanted = st.text_input(
            "Find a cluster", key="cl_find", bind="query-params", placeholder="a word of its name or terms"
        )
        order = st.selectbox("Sorted by", ORDERS, key="cl_sort", bind="query-params", width=180)
        if levels:
            level = st.selectbox(
                "Level",
                range(levels + 1),
                key="cl_level",
                bind="query-params",
                width=180,
                help="0: the clusters themselves; 1: those that they belong to, and so on.",
            )
    shown = ordered(found.clusters, level=level, order=order, wanted=wanted)
    if not shown:
        st.info("No cluster has that in its name or terms.")
        return
    show_paged(shown, _A_PAGE, "cl_page", partial(_two_columns, visit, found))


def _two_columns(visit: Visit, found: Clustering, shown: Sequence[Cluster]) -> None:
    """Row by row, so that their order stays that of the list on a phone, too, where there is one column."""
    for start in range(0, len(shown), 2):
        for column, each in zip(st.columns(2), shown[start : start + 2], strict=False):
            with column:
                cluster_card(visit, found, each)
