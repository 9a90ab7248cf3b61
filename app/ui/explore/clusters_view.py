"""Explore, clusters: the topics of a collection, and how they changed since the previous clustering."""

from collections.abc import Container, Sequence
from functools import partial
from typing import Final

import streamlit as st

from nearsay.app.jobs import JobKind, JobState
from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.card import passage_html
from nearsay.app.ui.command_form import Asks, ask_options
from nearsay.app.ui.controls import pick, show_notes, show_paged
from nearsay.app.ui.download import csv_bytes, offer_download
from nearsay.app.ui.errors import showing_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.explore.looking import like_link, offer_file, offer_look
from nearsay.app.ui.opened import remembered, state_of
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import moment, newest_jobs, show_command, watch_newest
from nearsay.data.quantity import counted
from nearsay.indexer.clusters.clustering import Cluster, Clustering, ClusteringReport, ClusterMethod
from nearsay.indexer.filters.choices import Choice, written
from nearsay.indexer.results import newest

METHODS: Final[dict[ClusterMethod, str]] = {
    ClusterMethod.GRAPH: (
        "Communities of passages that are each other's neighbours. Finds the number of clusters itself, and "
        "a hierarchy above them."
    ),
    ClusterMethod.KMEANS: "A given number of spherical clusters; every passage is in one.",
}

ORDERS: Final = ("size", "cohesion", "silhouette", "name", "number")


def ordered(
    clusters: Sequence[Cluster], *, level: int = 0, order: str = "size", wanted: str = ""
) -> list[Cluster]:
    """Return the clusters of a level, sorted; wanted: only those with this text in their name or terms."""
    low = wanted.strip().casefold()
    shown = [
        each
        for each in clusters
        if each.level == level and (not low or low in " ".join((each.name, *each.terms)).casefold())
    ]
    if order == "name":
        return sorted(shown, key=lambda each: (each.name.casefold(), each.number))
    if order == "number":
        return sorted(shown, key=lambda each: each.number)
    return sorted(shown, key=lambda each: (-_value(each, order), each.number))


def _value(each: Cluster, name: str) -> float:
    found = getattr(each, name)
    return -2.0 if found is None else float(found)


def share_words(each: Cluster, everything: int) -> str:
    """Return size and quality in words: "412 passages (1.6%), cohesion 0.62, silhouette 0.05"."""
    parts = [
        f"{counted(each.size, 'passage')} ({each.size / max(everything, 1):.1%})",
        f"cohesion {each.cohesion:.2f}",
    ]
    if each.silhouette is not None:
        parts.append(f"silhouette {each.silhouette:.2f}")
    return ", ".join(parts)


def beneath(clusters: Sequence[Cluster], number: int) -> list[Cluster]:
    """Return the clusters whose parent is this one, largest first."""
    return sorted(
        (each for each in clusters if each.parent == number), key=lambda each: (-each.size, each.number)
    )


def members_of(clusters: Sequence[Cluster], number: int) -> set[int]:
    """Return the numbers of the level-0 clusters within a cluster; itself, if it is of level 0."""
    found, pending = set(), [number]
    level = {each.number: each.level for each in clusters}
    while pending:
        at = pending.pop()
        if level.get(at) == 0:
            found.add(at)
        pending += [each.number for each in beneath(clusters, at)]
    return found


_TERMS = 10
_MOST_EXPORTED = 200_000  # passages in a file that the page generates
_LONGEST_NAME = 200  # characters
_COLUMNS = ("cluster", "name", "id", "passage", "title", "text", "metadata")


def cluster_card(visit: Visit, found: Clustering, each: Cluster) -> None:
    """Draw the card of a cluster; on higher levels with its child clusters."""
    number = each.number
    with st.container(border=True, height="stretch"):  # as tall as its neighbour
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{as_markdown(each.name)}**")
            st.badge(f"{number}", color="gray", help="The cluster's number, for filters: cluster \\= 12")
        st.caption(as_markdown(share_words(each, found.passages)))
        st.markdown(as_markdown(", ".join(each.terms[:_TERMS])))
        _family(found, each)
        if each.central:
            with st.expander("Central passages", icon=":material/format_quote:"):
                for one in each.central:
                    st.html(passage_html(title=one.title, id_=one.id, text=one.text))
                    like_link(one.id)
        with st.container(horizontal=True, vertical_alignment="center"):
            link_to("search", "Search in it", icon=":material/search:", **filter_of(each))
            if visit.may_write:
                _rename(visit, each)
            if each.size <= _MOST_EXPORTED:  # for larger ones, the command writes a file of all
                offer_download(
                    "Members",
                    partial(members_csv, visit, found, members_of(found.clusters, number)),
                    f"{visit.name}-cluster-{number}.csv",
                    key=f"cl_members_{number}",
                    quiet=True,
                )


def members_csv(visit: Visit, found: Clustering, only: Container[int] | None = None) -> bytes:
    """Return the passages in clusters as CSV, computing nothing; only: numbers of clusters."""
    return csv_bytes(visit.collection.explore.cluster_rows(found, only), _COLUMNS)


def filter_of(each: Cluster) -> dict[str, str]:
    """Return the parameters of a search within a cluster: a sidebar filter on level 0, else an expression."""
    if each.level:
        return {"where": f"cluster = {each.number}"}
    return {"filter": written({"cluster": Choice(values=(each.number,))})}


def _family(found: Clustering, each: Cluster) -> None:
    names = {one.number: one.name for one in found.clusters}
    if each.parent in names:
        st.caption(f"part of {as_markdown(names[each.parent])}")
    children = beneath(found.clusters, each.number)
    if len(children) > 1:
        with st.expander(f"{len(children):,} subclusters"):
            lines = (f"- {as_markdown(one.name)} ({one.size:,})" for one in children)
            st.markdown("\n".join(lines))


def _rename(visit: Visit, each: Cluster) -> None:
    with (
        st.popover("Rename", icon=":material/edit:", type="tertiary"),
        st.form(f"cl_rename_{each.number}", border=False),
    ):
        # Without the name in the key the field would keep an old value, even of another collection.
        key = f"cl_name_{visit.name}_{each.number}_{each.name}"
        name = st.text_input("New name", each.name, max_chars=_LONGEST_NAME, key=key)
        if st.form_submit_button("Save", type="primary"):
            with showing_errors():
                visit.check_writing()
                visit.collection.explore.rename_cluster(each.number, name)
                st.rerun()


SMALLEST = "Smallest cluster size"
NEAREST = "Assign each outlier to the nearest cluster"
_ASKS: Final = {
    "clusters": Asks("Number of clusters", usual="as many as the neighbour graph has communities"),
    "resolution": Asks(usual="automatic"),
    "least_size": Asks(SMALLEST, usual="automatic"),
    "assign_outliers": Asks(NEAREST),
}


def cluster_form(visit: Visit, label: str) -> None:
    """Draw the options and the button that starts the job."""
    called = {method: str(method) for method in METHODS}
    method = pick("Method", called, "cl_method", "Keep the default if in doubt.")
    st.caption(METHODS[method])
    own = "clusters" if method is ClusterMethod.KMEANS else "resolution"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = ask_options("explore clusters", [own, "least_size"], "cl", _ASKS)
    chosen |= ask_options("explore clusters", ["assign_outliers"], "cl", _ASKS)
    arguments = ["explore", "clusters", visit.name or "", "--method", str(method), *options_of(chosen)]
    title, icon = f"Clusters of {visit.name}", ":material/bubble_chart:"
    offer_look(visit, label, arguments, title, "cl_start", icon, first=True)
    show_command(visit, arguments)


_A_PAGE = 12  # clusters
_MANY_OUTLIERS = 0.5  # share of the passages above which a remedy is shown
_AGAIN = "Cluster again"


def show_clusters_view(visit: Visit) -> None:
    """Show the clusters as cards, and the form that creates them."""
    jobs = newest_jobs(visit, JobKind.CLUSTER)
    watch_newest(visit, jobs, "clusters")
    explorer = visit.collection.explore
    if not explorer.has_clusters():
        st.markdown("A cluster is a group of similar passages, named by its most typical words.")
        if visit.may_write:
            cluster_form(visit, "Find clusters")
        else:
            st.info("There are no clusters yet, and this server is read-only.")
        return
    found = remembered(f"{state_of(visit)}|clusters", explorer.clusters)
    _about(visit, found)
    done = next((job for job in jobs if job.state is JobState.DONE), None)
    if done is not None and (made := newest(done.folder.output(), ClusteringReport)) is not None:
        show_notes(made.notes if made.created_at == found.created_at else ())
    if found.clusters:
        _cards(visit, found)


def _about(visit: Visit, found: Clustering) -> None:
    count = sum(each.level == 0 for each in found.clusters)
    with st.container(horizontal=True):
        st.metric("clusters", f"{count:,}", width="content")
        st.metric("passages", f"{found.passages:,}", width="content")
        st.metric("outliers", f"{found.outliers:,}", width="content", help="Passages in no cluster.")
    if visit.may_write and found.outliers > _MANY_OUTLIERS * found.passages:
        _many_outliers(found)
    if found.newer:
        _newer(visit, found)
    st.caption(as_markdown(f"Created {moment(found.created_at)} UTC with the method {found.method}."))
    arguments, file = ["explore", "clusters", visit.name or ""], f"{visit.name}-clusters.csv"
    label, make = "Every passage with its cluster", partial(members_csv, visit, found)
    offer_file(visit, label, make, file, "cl_export", arguments, most=_MOST_EXPORTED)
    if found.movement is not None:
        moved = found.movement.lines({each.number: each.name for each in found.clusters})
        with st.expander(f"Since the last clustering: {as_markdown(moved[0])}", icon=":material/compare:"):
            st.markdown("\n".join(f"- {as_markdown(line)}" for line in moved))
    if visit.may_write:
        with st.expander(_AGAIN, icon=":material/refresh:"):
            st.caption(
                "A cluster that is found again keeps its number and the name that you gave it. "
                "The others are replaced."
            )
            cluster_form(visit, _AGAIN)


def _many_outliers(found: Clustering) -> None:
    least = found.parameters.get("least_size")
    smaller = f"set **{SMALLEST}** below {least}, or " if isinstance(least, int) and least > 1 else ""
    st.info(
        f"Outliers: {found.outliers:,} of {counted(found.passages, 'passage')}. Under **{_AGAIN}**, "
        f"{smaller}tick **{NEAREST}**.",
        icon=":material/info:",
    )


def _newer(visit: Visit, found: Clustering) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        are = "is" if found.newer == 1 else "are"
        st.info(f"{counted(found.newer, 'passage')} added since {are} in no cluster yet.")
        arguments = ["explore", "clusters", visit.name or "", "--assign"]
        title = f"Assign new passages of {visit.name} to clusters"
        offer_look(visit, "Assign them", arguments, title, "cl_newer", ":material/add:", first=False)


def _cards(visit: Visit, found: Clustering) -> None:
    levels = max((each.level for each in found.clusters), default=0)
    level = 0
    with st.container(horizontal=True, vertical_alignment="bottom"):
        wanted = st.text_input(
            "Find a cluster", key="cl_find", bind="query-params", placeholder="a word of its name or terms"
        )
        order = st.selectbox("Sort by", ORDERS, key="cl_sort", bind="query-params", width=180)
        if levels:
            level = st.selectbox(
                "Level",
                range(levels + 1),
                key="cl_level",
                bind="query-params",
                width=180,
                help="0: the clusters themselves; 1: their parents, and so on.",
            )
    shown = ordered(found.clusters, level=level, order=order, wanted=wanted)
    if not shown:
        st.info("No cluster has that in its name or terms.")
        return
    show_paged(shown, _A_PAGE, "cl_page", partial(_two_columns, visit, found))


def _two_columns(visit: Visit, found: Clustering, shown: Sequence[Cluster]) -> None:
    """Draw row by row, so that the order also holds in one column on a phone."""
    for start in range(0, len(shown), 2):
        for column, each in zip(st.columns(2), shown[start : start + 2], strict=False):
            with column:
                cluster_card(visit, found, each)
