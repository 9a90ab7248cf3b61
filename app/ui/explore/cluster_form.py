"""The form that puts a collection into clusters: every choice explained, none needed."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.command_shown import show_command
from nearsay.app.ui.explore.cluster_words import METHODS
from nearsay.app.ui.explore.looking import newest_runs
from nearsay.app.ui.runs.watching import runs_of
from nearsay.app.ui.visit import Visit
from nearsay.indexer.clusters.options import ClusterMethod

__all__ = ["NEAREST", "SMALLEST", "cluster_arguments", "cluster_form"]

SMALLEST = "Smallest cluster"
NEAREST = "Put each outlier into the nearest cluster"


def cluster_arguments(collection: str, method: str, chosen: Mapping[str, Any]) -> list[str]:
    """The command for choices; None and false say nothing."""
    arguments = ["explore", "clusters", collection, "--method", str(method)]
    for name, value in chosen.items():
        if value is True:
            arguments.append(f"--{name}")
        elif value is not None and value is not False:
            arguments += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
    return arguments


def cluster_form(visit: Visit, label: str) -> None:
    """Choices and the button that starts the run."""
    chosen = st.selectbox(
        "How clusters are found",
        [str(method) for method in METHODS],
        key="cl_method",
        help="Leave it as it is if you do not know.",
    )
    method = ClusterMethod(chosen)
    st.caption(METHODS[method])
    arguments = cluster_arguments(visit.name or "", method, _choices(method))
    at_work = any(not run.state.ended for run in newest_runs(visit, RunKind.CLUSTER))
    if not at_work and st.button(label, type="primary", key="cl_start", icon=":material/bubble_chart:"):
        visit.check_writing()
        title = f"Clusters of {visit.name}"
        runs_of(visit).start(RunKind.CLUSTER, arguments, title=title, collection=visit.name)
        st.rerun()
    show_command(visit, arguments)


def _choices(method: ClusterMethod) -> dict[str, Any]:
    """What can be chosen beside the method; None where the method chooses itself."""
    chosen: dict[str, Any] = {}
    with st.container(horizontal=True):
        if method is ClusterMethod.KMEANS:
            chosen["clusters"] = st.number_input(
                "How many clusters",
                min_value=1,
                value=None,
                placeholder="chosen",
                key="cl_k",
                help="Empty: chosen by how well they are apart.",
            )
        if method is ClusterMethod.GRAPH:
            chosen["resolution"] = st.number_input(
                "Resolution",
                min_value=0.1,
                max_value=1000.0,
                step=0.5,
                value=None,
                placeholder="chosen",
                key="cl_resolution",
                help="Higher gives more and smaller clusters.",
            )
        chosen["least-size"] = st.number_input(
            SMALLEST,
            min_value=1,
            value=None,
            placeholder="the usual",
            key="cl_least",
            help="Passages; those of a smaller cluster are outliers.",
        )
    chosen["assign-outliers"] = st.checkbox(NEAREST, key="cl_assign", help="Then no passage is left over.")
    return chosen
