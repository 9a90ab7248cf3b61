"""The page Compare: one query, two encoders, modes or generations side by side."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from nearsay.app.ui.compare.agreement import PERSISTENCE, overlap, rank_biased_overlap
from nearsay.app.ui.compare.blind import show_blind
from nearsay.app.ui.compare.drawing import drawing, place_of
from nearsay.app.ui.compare.passages import show_passages
from nearsay.app.ui.compare.side import Ranking, Side, comparable, described, usual_sides
from nearsay.app.ui.errors import say_error
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.search.asked import choices_now, hand_filter, query_control, tell_unfiltered
from nearsay.app.ui.search.choices import filter_text
from nearsay.app.ui.search.filters import cluster_names, show_chosen
from nearsay.app.ui.search.question_length import short_enough, tell_what_was_cut
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import NearsayError
from nearsay.indexer import Hits
from nearsay.indexer.catalogue.generations import GenerationRow

__all__ = ["show"]

_DEPTHS = ("10", "20", "50")
_RANKED_HELP = (
    "hybrid: by meaning and by words, their scores weighted. hybrid-rrf: the same by reciprocal ranks. "
    "dense: by meaning alone. lexical: by words alone."
)


@dataclass(frozen=True, slots=True)
class _Found:
    """What one side gave."""

    side: Side
    hits: Hits
    seconds: float


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Compare", anchor=False)
    generations = comparable(visit.collection.generations())
    if not any(each.state == "live" for each in generations):
        st.markdown("This collection is empty. Add documents on the page **Collections**.")
        return
    wide, narrow = st.columns([8, 2], vertical_alignment="bottom")
    with wide:
        query = query_control("compare")
    with narrow:
        depth = int(st.selectbox("Results", _DEPTHS, key="depth", bind="query-params"))
    query = short_enough(query)
    sides = _sides(generations)
    if len(generations) == 1:
        _how_to_make_another(visit.name or "")
    where = _filter(visit)
    if not query:
        st.markdown("Ask something: both sides answer, and what changes between them is drawn.")
        return
    found = [_searched(visit, side, query, depth, where) for side in sides]
    if found[0] is None or found[1] is None:
        return
    by_meaning = {side.generation for side in sides if side.ranking is not Ranking.LEXICAL}
    for each in generations:
        if each.number in by_meaning:
            tell_what_was_cut(visit, each, query)
    blind = st.toggle(
        "Blind",
        key="blind",
        bind="query-params",
        help="The passages of both sides as one list, without saying whose they are: mark what answers.",
    )
    if blind:
        show_blind(visit, query, [(one.side, one.hits) for one in found if one is not None])
        return
    _show_found(found[0], found[1], depth)
    show_passages(visit, query, [(one.side, one.hits) for one in found if one is not None])


def _sides(generations: Sequence[GenerationRow]) -> tuple[Side, Side]:
    """The two choices, which stand in the address."""
    numbers = [str(each.number) for each in generations]
    by_number = {str(each.number): each for each in generations}
    chosen = []
    for place, name, usual in zip(
        st.columns(2, border=True), ("left", "right"), usual_sides(generations), strict=True
    ):
        with place:
            number = st.selectbox(
                f"Generation to the {name}",
                numbers,
                index=numbers.index(str(usual.generation)),
                key=name,
                bind="query-params",
                help="The collection embedded by one encoder; another is made by rebuilding with another.",
            )
            ranking = st.selectbox(
                f"Ranked to the {name}",
                [str(each) for each in Ranking],
                index=list(Ranking).index(usual.ranking),
                key=f"{name}-mode",
                bind="query-params",
                help=_RANKED_HELP,
            )
            st.caption(as_markdown(described(by_number[number])))
            chosen.append(Side(int(number), Ranking(ranking)))
    return chosen[0], chosen[1]


def _filter(visit: Visit) -> str:
    """What holds on both sides: the filter of the page Search, and one by hand."""
    with st.sidebar:
        by_hand = hand_filter()
    expert = by_hand or ""
    if by_hand is None:
        tell_unfiltered()
    try:
        choices = choices_now()
    except NearsayError as error:
        say_error(error)
        choices = {}
    show_chosen(choices, expert, cluster_names(visit))
    return filter_text(choices, expert)


def _searched(visit: Visit, side: Side, query: str, depth: int, where: str) -> _Found | None:
    begun = time.perf_counter()
    try:
        with st.spinner(f"Searching in {side} …"):
            hits = visit.collection.search(
                query,
                depth,
                where=where or None,
                mode=side.ranking.mode,
                fusion=side.ranking.fusion,
                generation=side.generation,
            )
    except NearsayError as error:
        say_error(error)
        return None
    return _Found(side, hits, time.perf_counter() - begun)


def _show_found(left: _Found, right: _Found, depth: int) -> None:
    for one in (left, right):
        for note in one.hits.notes:
            st.info(as_markdown(f"{one.side}: {note[:1].upper()}{note[1:]}"), icon=":material/info:")
    if not left.hits and not right.hits:
        st.markdown("**Nothing was found on either side.**")
        return
    before, after = ([place_of(hit) for hit in one.hits] for one in (left, right))
    new = len(set(after) - set(before))
    with st.container(horizontal=True):
        st.metric(
            f"Overlap at {depth}",
            f"{overlap(before, after):.0%}",
            help="The share of the results that both sides have, wherever they stand.",
        )
        st.metric(
            "Rank-biased overlap",
            f"{rank_biased_overlap(before, after):.2f}",
            help=f"How far the rankings agree, the first places counting most (p = {PERSISTENCE}): 1 is the "
            "same ranking, 0 has nothing in common. Webber, Moffat and Zobel 2010.",
        )
        st.metric("New to the right", new, help="Passages that only the right side has among these.")
    st.html(drawing(left.hits.hits, right.hits.hits, (str(left.side), str(right.side))))
    st.caption(f"{left.seconds:.2f} s to the left, {right.seconds:.2f} s to the right")


def _how_to_make_another(name: str) -> None:
    with st.expander("Compare with another encoder"):
        st.markdown(
            "There is one generation yet, so two ways of ranking can be compared. To compare encoders, "
            "embed the collection by another one: on the page **Collections**, or in a shell. The live "
            "generation goes on answering meanwhile, and the new one can be compared before it goes live."
        )
        st.code(f"nearsay index rebuild {name} --encoder ENCODER", language="shell")
