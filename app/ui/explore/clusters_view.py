"""Explore, clusters: what there is in a collection, by name, and what moved since the last time."""

from collections.abc import Container, Sequence
from functools import partial
from typing import Final

import streamlit as st

from nearsay.app.jobs import JobKind, JobState
from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.card import passage_html
from nearsay.app.ui.command_form import Asks, ask_options
from nearsay.app.ui.controls import pick, say_notes, show_paged
from nearsay.app.ui.download import csv_bytes, offer_download
from nearsay.app.ui.errors import telling_errors
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
        "Communities of passages that are each other's neighbours. Finds by itself how many there are, and "
        "groups of clusters above them."
    ),
    ClusterMethod.KMEANS: "As many round clusters as you say; every passage is in one.",
}

ORDERS: Final = ("size", "cohesion", "silhouette", "name", "number")


def ordered(
    clusters: Sequence[Cluster], *, level: int = 0, order: str = "size", wanted: str = ""
) -> list[Cluster]:
    """The clusters of a level, best first; wanted: only those that have it in their name or terms."""
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
    """How large a cluster is and how tight: "412 passages (1.6%), cohesion 0.62, silhouette 0.05"."""
    parts = [
        f"{counted(each.size, 'passage')} ({each.size / max(everything, 1):.1%})",
        f"cohesion {each.cohesion:.2f}",
    ]
    if each.silhouette is not None:
        parts.append(f"silhouette {each.silhouette:.2f}")
    return ", ".join(parts)


def beneath(clusters: Sequence[Cluster], number: int) -> list[Cluster]:
    """The clusters that belong to one of a higher level, the largest first."""
    return sorted(
        (each for each in clusters if each.parent == number), key=lambda each: (-each.size, each.number)
    )


def members_of(clusters: Sequence[Cluster], number: int) -> set[int]:
    """The clusters of the lowest level within one: itself, if it is of that level."""
    found, pending = set(), [number]
    level = {each.number: each.level for each in clusters}
    while pending:
        at = pending.pop()
        if level.get(at) == 0:
            found.add(at)
        pending += [each.number for each in beneath(clusters, at)]
    return found


_TERMS = 10
_MOST_EXPORTED = 200_000  # passages in one file that a page makes
_LONGEST_NAME = 200  # characters
_COLUMNS = ("cluster", "name", "id", "passage", "title", "text", "metadata")


def cluster_card(visit: Visit, found: Clustering, each: Cluster) -> None:
    """A card; of a cluster of a higher level with those that belong to it."""
    number = each.number
    with st.container(border=True, height="stretch"):  # as high as its neighbour
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{as_markdown(each.name)}**")
            st.badge(f"{number}", color="gray", help="Its number, which a filter names: cluster \\= 12")
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
            if each.size <= _MOST_EXPORTED:  # a larger one is in the file of all that a command writes
                offer_download(
                    "Members",
                    partial(members_csv, visit, found, members_of(found.clusters, number)),
                    f"{visit.name}-cluster-{number}.csv",
                    key=f"cl_members_{number}",
                    quiet=True,
                )


def members_csv(visit: Visit, found: Clustering, only: Container[int] | None = None) -> bytes:
    """Each passage in a cluster as CSV, in which nothing is computed; only: in clusters of these numbers."""
    return csv_bytes(visit.collection.explore.cluster_rows(found, only), _COLUMNS)


def filter_of(each: Cluster) -> dict[str, str]:
    """A search within it, as the address says it: by its name in the sidebar, where that lists its level."""
    if each.level:
        return {"where": f"cluster = {each.number}"}
    return {"filter": written({"cluster": Choice(values=(each.number,))})}


def _family(found: Clustering, each: Cluster) -> None:
    """What it belongs to, and what belongs to it."""
    names = {one.number: one.name for one in found.clusters}
    if each.parent in names:
        st.caption(f"belongs to {as_markdown(names[each.parent])}")
    children = beneath(found.clusters, each.number)
    if len(children) > 1:
        with st.expander(f"{len(children):,} clusters belong to it"):
            lines = (f"- {as_markdown(one.name)} ({one.size:,})" for one in children)
            st.markdown("\n".join(lines))


def _rename(visit: Visit, each: Cluster) -> None:
    with (
        st.popover("Rename", icon=":material/edit:", type="tertiary"),
        st.form(f"cl_rename_{each.number}", border=False),
    ):
        # A key without the name would show what the field held before, of another collection even.
        key = f"cl_name_{visit.name}_{each.number}_{each.name}"
        name = st.text_input("New name", each.name, max_chars=_LONGEST_NAME, key=key)
        if st.form_submit_button("Save", type="primary"):
            with telling_errors():
                visit.check_writing()
                visit.collection.explore.rename_cluster(each.number, name)
                st.rerun()


SMALLEST = "Smallest cluster"
NEAREST = "Put each outlier into the nearest cluster"
_ASKS: Final = {
    "clusters": Asks("How many clusters", usual="chosen by how well they are apart"),
    "resolution": Asks(usual="chosen"),
    "least_size": Asks(SMALLEST, usual="the usual"),
    "assign_outliers": Asks(NEAREST),
}


def cluster_form(visit: Visit, label: str) -> None:
    """Choices and the button that starts the job."""
    called = {method: str(method) for method in METHODS}
    method = pick("How clusters are found", called, "cl_method", "Leave it as it is if you do not know.")
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
_MANY_OUTLIERS = 0.5  # of the passages: with more, what can be done about it is said
_AGAIN = "Cluster again"


def show_clusters_view(visit: Visit) -> None:
    """The clusters as cards, and the form that makes them."""
    jobs = newest_jobs(visit, JobKind.CLUSTER)
    watch_newest(visit, jobs, "clusters")
    explorer = visit.collection.explore
    if not explorer.has_clusters():
        st.markdown("Clusters are passages that say similar things; each is named by its words.")
        if visit.may_write:
            cluster_form(visit, "Make clusters")
        else:
            st.info("There are no clusters yet, and this page only reads.")
        return
    found = remembered(f"{state_of(visit)}|clusters", explorer.clusters)
    _about(visit, found)
    done = next((job for job in jobs if job.state is JobState.DONE), None)
    if done is not None and (made := newest(done.folder.output(), ClusteringReport)) is not None:
        say_notes(made.notes if made.created_at == found.created_at else ())
    if found.clusters:
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
    arguments, file = ["explore", "clusters", visit.name or ""], f"{visit.name}-clusters.csv"
    label, make = "Every passage with its cluster", partial(members_csv, visit, found)
    offer_file(visit, label, make, file, "cl_export", arguments, most=_MOST_EXPORTED)
    if found.movement is not None:
        moved = found.movement.lines({each.number: each.name for each in found.clusters})
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
        f"In no cluster: {found.outliers:,} of {counted(found.passages, 'passage')}. Under **{_AGAIN}**, "
        f"{smaller}tick **{NEAREST}**.",
        icon=":material/info:",
    )


def _newer(visit: Visit, found: Clustering) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.info(f"{counted(found.newer, 'passage')} came since, in no cluster yet.")
        arguments = ["explore", "clusters", visit.name or "", "--assign"]
        title = f"New passages of {visit.name} into their clusters"
        offer_look(visit, "Put them in", arguments, title, "cl_newer", ":material/add:", first=False)


def _cards(visit: Visit, found: Clustering) -> None:
    levels = max((each.level for each in found.clusters), default=0)
    level = 0
    with st.container(horizontal=True, vertical_alignment="bottom"):
        wanted = st.text_input(
            "Find a cluster", key="cl_find", bind="query-params", placeholder="a word of it"
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
