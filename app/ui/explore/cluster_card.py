"""One cluster on the page: its name, what it is about, and what can be done with it."""

import numpy as np
import streamlit as st

from nearsay.app.ui.download import offer_download
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.explore.cluster_words import beneath, members_of, share_words
from nearsay.app.ui.explore.links import cluster_link, like_link
from nearsay.app.ui.explore.passage_html import passage_html
from nearsay.app.ui.explore.rows_file import csv_bytes
from nearsay.app.ui.visit import Visit
from nearsay.indexer.catalogue.passage import headline
from nearsay.indexer.clusters.clustering import Cluster, Clustering

__all__ = ["cluster_card", "member_rows"]

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
                    st.html(passage_html(title=headline(one.title, one.id, one.text), text=one.text))
                    like_link(one.id)
        with st.container(horizontal=True, vertical_alignment="center"):
            cluster_link(number)
            if visit.may_write:
                _rename(visit, each)
            if each.size <= _MOST_EXPORTED:  # a larger one is in the file of all that a command writes
                offer_download(
                    "Members",
                    lambda: csv_bytes(member_rows(visit, found, each), _COLUMNS),
                    f"{visit.name}-cluster-{number}.csv",
                    key=f"cl_members_{number}",
                    quiet=True,
                )


def member_rows(visit: Visit, found: Clustering, each: Cluster) -> list[dict[str, object]]:
    """A row for every passage in a cluster, or in those that belong to it, that is still there."""
    inside = members_of(found.clusters, each.number)
    names = {one.number: one.name for one in found.clusters}
    members = found.members
    chosen = np.isin(members.numbers, sorted(inside))
    own = dict(zip(members.ids[chosen].tolist(), members.numbers[chosen].tolist(), strict=True))
    return [
        {
            "cluster": own[row.number],
            "name": names[own[row.number]],
            "id": row.document_id,
            "passage": row.ordinal,
            "title": row.title,
            "text": row.text,
            "metadata": dict(row.metadata),
        }
        for row in visit.collection.explore.passages(list(own))
    ]


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
