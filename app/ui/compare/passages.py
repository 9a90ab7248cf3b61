"""The passages of both sides, each once, to read and to judge."""

from collections.abc import Sequence

import streamlit as st

from nearsay.app.ui.compare.drawing import Place, place_of
from nearsay.app.ui.compare.side import Side
from nearsay.app.ui.search.card import card_html
from nearsay.app.ui.search.judging import judge_buttons, judged_of
from nearsay.app.ui.visit import Visit
from nearsay.indexer import Hit, Hits
from nearsay.indexer.query.matched_terms import matched_terms

__all__ = ["both_ranks", "show_passages"]


def both_ranks(left: Sequence[Hit], right: Sequence[Hit]) -> list[tuple[int | None, int | None, Place]]:
    """Each passage once with its ranks on the two sides, by the better of them, then by the other."""
    ranks = [{place_of(hit): hit.rank for hit in hits} for hits in (left, right)]
    places = dict.fromkeys(place for side in ranks for place in side)
    rows = [(ranks[0].get(place), ranks[1].get(place), place) for place in places]
    worst = len(left) + len(right) + 1

    def order(row: tuple[int | None, int | None, Place]) -> tuple[int, int]:
        here, there = sorted(rank or worst for rank in row[:2])
        return here, there

    return sorted(rows, key=order)


def show_passages(visit: Visit, query: str, found: Sequence[tuple[Side, Hits]]) -> None:
    """The passages with their ranks on both sides and buttons to judge them.

    found: left and right
    """
    (left_side, left), (right_side, right) = found
    hits = {place_of(hit): (hit, right_side) for hit in right}
    for hit in left:
        other = hits.get(place_of(hit))
        if other is None or hit.rank <= other[0].rank:
            hits[place_of(hit)] = (hit, left_side)
    rows = both_ranks(left.hits, right.hits)
    label = "Read and judge the passages" if visit.may_write else "Read the passages"
    if not rows or not st.toggle(label, key="read", bind="query-params", help="What either side has found."):
        return
    judged = judged_of(visit, query)
    chosen = [hits[place] for _, _, place in rows]
    terms = matched_terms(query, [(hit.title, hit.text) for hit, _ in chosen])
    for (hit, side), (before, after, _), words in zip(chosen, rows, terms, strict=True):
        with st.container(border=True):
            st.caption(f"left {before or '–'} · right {after or '–'}")
            st.html(card_html(hit, side.ranking.mode, None, words))
            with st.container(horizontal=True, gap="small"):
                judge_buttons(visit, query, hit, side.ranking.mode, judged, page="compare")
