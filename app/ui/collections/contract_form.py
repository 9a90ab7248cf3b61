"""The contract of a collection: how much is found, in how much memory; measured and chosen anew."""

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.collections.tune_arguments import tune_arguments
from nearsay.app.ui.command_shown import show_command
from nearsay.app.ui.errors import say_error
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import NearsayError
from nearsay.indexer.plans.plan import EXACT_UP_TO, Plan, memory_text
from nearsay.indexer.writing.overview import CollectionOverview

__all__ = ["show_contract_form"]


def show_contract_form(visit: Visit, found: CollectionOverview) -> None:
    """Ask what it has to keep, and measure the indexes."""
    contract = Plan.from_json({} if found.live is None else found.live.plan).contract
    with st.expander("Tune: the fastest index that keeps a contract", icon=":material/speed:"):
        if found.passages <= EXACT_UP_TO:
            st.caption(
                f"Up to about {EXACT_UP_TO:,} passages, {found.passages:,} here, comparing all of them takes "
                "milliseconds, and an index is measured only if you ask for it here. The contract holds from "
                "then on, however large the collection grows."
            )
        with st.form(f"tune-{found.name}", border=False), st.container(horizontal=True):
            recall = st.number_input(
                "Recall",
                min_value=min(0.5, contract.recall),  # a command may have said less
                max_value=1.0,
                value=contract.recall,
                step=0.01,
                format="%.3f",
                help="The share of the truly nearest passages that a search has to find, on average.",
                width=160,
            )
            at = st.number_input(
                "of the nearest",
                min_value=1,
                max_value=100,
                value=contract.at,
                help="How many of the nearest passages count.",
                width=160,
            )
            memory = st.text_input(
                "Memory",
                "none" if contract.memory_bytes is None else memory_text(contract.memory_bytes),
                help="The most that the index may hold in memory, as 2GB or 512MB; none is no limit.",
                width=160,
            )
            sent = st.form_submit_button("Measure and choose", icon=":material/speed:")
        try:
            arguments = tune_arguments(found.name, recall, int(at), memory)
        except NearsayError as error:  # what stands below the form stays
            say_error(error)
            return
        if sent:
            title = f"Tune {found.name}"
            start(visit, RunKind.TUNE, arguments, title=title, collection=found.name)
        show_command(visit, arguments)
