"""What the page says while it has no results to show."""

import streamlit as st

from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.search.asked import Asked, begin_anew, keep_choices
from nearsay.app.ui.search.examples import example_queries
from nearsay.app.ui.visit import Visit
from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.writing.overview import CollectionOverview

__all__ = ["no_hits", "no_query"]

_LOOKED_AT = 60  # documents
_CLUSTERED = 200_000  # passages: in more, central passages take a moment to find


def no_query(visit: Visit, overview: CollectionOverview) -> None:
    """What is in the collection, and queries to begin with."""
    one = overview.documents == 1
    encoder = "" if overview.live is None else f", encoded by {as_markdown(overview.live.encoder.name)}"
    st.markdown(
        f"**{as_markdown(overview.name)}** holds {overview.documents:,} document{'' if one else 's'} in "
        f"{overview.passages:,} passage{'' if overview.passages == 1 else 's'}{encoder}. "
        "Ask in your own words: what means nearly the same is found, whatever words it uses."
    )
    examples = example_queries(_telling(visit, overview))
    if examples:
        with st.container(gap="xxsmall"):
            st.markdown("For example:")
            for number, query in enumerate(examples):
                st.button(
                    as_markdown(query),
                    key=f"example {number}",
                    icon=":material/search:",
                    type="tertiary",
                    on_click=_take,
                    args=(query,),
                )


def no_hits(asked: Asked) -> None:
    """Why nothing was found, and what to try."""
    st.markdown("**Nothing was found.**")
    if asked.where:
        st.markdown("The filter may let too little through.")
        st.button("Search without the filter", on_click=_unfiltered, icon=":material/filter_alt_off:")
    if asked.mode is SearchMode.LEXICAL and not asked.like:
        st.markdown("By words alone only passages with the query's own words are found.")
        st.button("Search by meaning, too", on_click=_by_meaning, icon=":material/search:")


def _telling(visit: Visit, overview: CollectionOverview) -> list[tuple[str, str]]:
    """Title and text of passages that show what there is: the most central ones, or the first."""
    if overview.clusters and overview.passages <= _CLUSTERED:
        clusters = [each for each in visit.collection.explore.clusters().clusters if each.level == 0]
        return [(one.title, one.text) for each in clusters for one in each.central[:1]]
    documents = visit.collection.documents()
    return [(one.title, one.text) for _, one in zip(range(_LOOKED_AT), documents, strict=False)]


def _take(query: str) -> None:
    st.session_state["q"] = query
    begin_anew()


def _unfiltered() -> None:
    keep_choices({})
    st.session_state["where"] = ""


def _by_meaning() -> None:
    st.session_state["mode"] = str(SearchMode.HYBRID)
    begin_anew()
