"""The collections as cards."""

import streamlit as st

from nearsay.app.ui.collections.card_words import facts, to_be_told
from nearsay.app.ui.collections.part import Part, look_at
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.runs.watching import running_runs
from nearsay.app.ui.visit import Visit
from nearsay.data.quantity import counted
from nearsay.indexer.writing.overview import CollectionOverview

__all__ = ["show_overview"]

_A_ROW = 3  # cards beside each other on a wide screen; on a narrow one they stand below each other


def show_overview(visit: Visit) -> None:
    """A card for each collection: what it holds, by which encoder, and what is to be done."""
    names = visit.library.names()
    at_work = {run.collection for run in running_runs(visit)}
    for begin in range(0, len(names), _A_ROW):
        columns = st.columns(min(_A_ROW, max(2, len(names))))
        for column, name in zip(columns, names[begin : begin + _A_ROW], strict=False):
            with column, telling_errors():
                _card(visit, visit.library.collection(name).overview(), at_work=name in at_work)


def _card(visit: Visit, found: CollectionOverview, *, at_work: bool) -> None:
    with st.container(border=True, key=f"card-{found.name}"):
        st.subheader(as_markdown(found.name), anchor=False)
        st.markdown(f"**{counted(found.documents, 'document')}**, {counted(found.passages, 'passage')}")
        st.caption("  \n".join(f"{label}: {as_markdown(value)}" for label, value in facts(found)))
        if at_work:  # what is not as it should be may be so only until that is done
            st.info("It is being worked on.", icon=":material/sync:")
        for said in () if at_work else to_be_told(found):
            st.warning(as_markdown(said), icon=":material/warning:")
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            link_to("search", "Search", icon=":material/search:", collection=found.name)
            if visit.may_write:
                _go(Part.ADD, "Add", ":material/add:", found.name)
            _go(Part.DOCUMENTS, "Documents", ":material/description:", found.name)
            _go(Part.GENERATIONS, "Generations", ":material/layers:", found.name)


def _go(part: Part, label: str, icon: str, name: str) -> None:
    st.button(
        label,
        key=f"go-{part}-{name}",
        icon=icon,
        type="tertiary",
        on_click=look_at,
        args=(part, name),
    )
