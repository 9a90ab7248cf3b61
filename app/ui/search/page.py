"""The page Search: a question, and the passages that answer it."""

import time
from collections.abc import Callable

import streamlit as st

from nearsay.app.ui.errors import say_error, telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.search.asked import PAGE, Asked, ask, hand_filter, tell_unfiltered
from nearsay.app.ui.search.cards import show_cards
from nearsay.app.ui.search.empty import no_hits, no_query
from nearsay.app.ui.search.export import offer_export
from nearsay.app.ui.search.filters import cluster_names, show_chosen, show_filters
from nearsay.app.ui.search.judging import judged_of
from nearsay.app.ui.search.likeness import show_likeness
from nearsay.app.ui.search.question_length import tell_what_was_cut
from nearsay.app.ui.search.shell_line import search_line, similar_line
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import NearsayError
from nearsay.indexer import Hits
from nearsay.indexer.catalogue.mode import SearchMode

__all__ = ["show"]


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Search", anchor=False)
    overview = visit.collection.overview()
    if overview.live is None or not overview.passages:
        st.markdown("This collection is empty. Add documents on the page **Collections**.")
        return
    with st.sidebar:
        st.markdown(
            "**Filters**", help="Counts are of documents under the other filters, whatever the query."
        )
        widgets = st.container()
        by_hand = hand_filter()
    expert = by_hand or ""
    asked = ask(expert)
    if by_hand is None:
        tell_unfiltered()
    clusters = cluster_names(visit)
    show_chosen(asked.choices, expert, clusters)
    if asked.like:
        show_likeness(visit, asked)
    finish: Callable[[], None] | None = None
    if asked.query or asked.like:
        finish = _results(visit, asked)
    else:
        no_query(visit, overview)
    looks = visit.collection.explore.fields()
    with widgets, telling_errors():
        show_filters(visit, looks, asked.choices, expert, clusters, overview.documents)
    if finish is not None:
        finish()


def _results(visit: Visit, asked: Asked) -> Callable[[], None] | None:
    """Search, and draw what was found; what is left to do when everything else is drawn."""

    def search(k: int) -> Hits:
        where = asked.where or None
        if asked.like:
            return visit.collection.similar(
                asked.like, k, without=asked.unlike, where=where, by_document=asked.by_document
            )
        return visit.collection.search(
            asked.query, k, where=where, mode=asked.mode, by_document=asked.by_document
        )

    begun = time.perf_counter()
    try:
        with st.spinner("Searching …"):
            hits = search(asked.k)
    except NearsayError as error:
        say_error(error)
        return None
    seconds = time.perf_counter() - begun
    for note in hits.notes:
        st.info(as_markdown(note[:1].upper() + note[1:]), icon=":material/info:")
    if not asked.like and asked.mode is not SearchMode.LEXICAL:
        tell_what_was_cut(visit, visit.collection.snapshot().generation, asked.query)
    if not hits:
        no_hits(asked)
        return None
    shown = hits[asked.first : asked.first + PAGE] or hits[:PAGE]
    with st.container(horizontal=True, vertical_alignment="center", key="ns_found"):
        st.caption(_summary(hits, shown[0].rank, shown[-1].rank, seconds))
        offer_export(search, f"{visit.name}-results", asked.k)
    finish = show_cards(visit, asked, shown, judged_of(visit, "" if asked.like else asked.query))
    _leaf(shown[0].rank, len(hits))
    with st.expander("The same in a shell"):
        st.code(_shell(visit.name or "", asked), language="shell", wrap_lines=True)
    return finish


def _summary(hits: Hits, first: int, last: int, seconds: float) -> str:
    among = "" if hits.qualifying is None else f" among {hits.qualifying:,} passages"
    return f"{first:,} to {last:,} of the {len(hits):,} best{among} · {seconds:.2f} s"


def _leaf(first: int, count: int) -> None:
    """Buttons to the results before and after."""
    with st.container(horizontal=True):
        if first > 1:
            st.button("Earlier", icon=":material/chevron_left:", on_click=_go_to, args=(first - PAGE,))
        if first + PAGE <= count:
            st.button("Further", icon=":material/chevron_right:", on_click=_go_to, args=(first + PAGE,))


def _go_to(first: int) -> None:
    st.session_state["at"] = "" if first <= 1 else str(first)


def _shell(name: str, asked: Asked) -> str:
    if asked.like:
        return similar_line(
            name, asked.like, asked.unlike, asked.k, asked.where, by_document=asked.by_document
        )
    return search_line(
        name,
        asked.query,
        asked.k,
        asked.where,
        asked.mode,
        by_document=asked.by_document,
        explain=asked.shade,
    )
