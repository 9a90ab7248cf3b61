"""Compare without knowing whose passages are whose: one list of both, marked, and counted."""

import hashlib
from collections.abc import Sequence

import numpy as np
import streamlit as st

from nearsay.app.ui.compare.side import Side
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.explore.passage_html import passage_html
from nearsay.app.ui.visit import Visit
from nearsay.indexer import Hit, Hits
from nearsay.indexer.judgements.interleaving import Preference, preference, team_draft, won
from nearsay.indexer.judgements.minimal_test import Verdict

__all__ = ["interleaved", "show_blind"]

_OUTCOMES = "blind_outcomes"  # in the session: of each comparison the queries, and which side won each
_SHOWN = 10

Drawn = list[tuple[Hit, Verdict]]


def interleaved(query: str, left: Sequence[Hit], right: Sequence[Hit], sides: str) -> Drawn:
    """The passages of both sides as one list by team draft, each with whose it is; the same at every look."""
    hits = {(hit.id, hit.passage): hit for hit in (*right, *left)}
    seed = int.from_bytes(hashlib.sha256(f"{sides}\0{query}".encode("utf-8", "surrogatepass")).digest()[:8])
    first, second = ([(hit.id, hit.passage) for hit in ranking] for ranking in (left, right))
    drawn = team_draft(first, second, _SHOWN, np.random.default_rng(seed))
    return [(hits[place], team) for place, team in drawn]


def show_blind(visit: Visit, query: str, found: Sequence[tuple[Side, Hits]]) -> None:
    """The list to mark, and what the questions so far say.

    found: left and right
    """
    (left, ours), (right, theirs) = found
    sides = f"{visit.name}: {left} or {right}"
    outcomes: dict[str, Verdict] = st.session_state.setdefault(_OUTCOMES, {}).setdefault(sides, {})
    drawn = interleaved(query, ours.hits, theirs.hits, sides)
    if query in outcomes:
        st.markdown("This question is counted. Ask the next one above.")
    elif not drawn:
        st.markdown("**Nothing was found on either side.**")
    else:
        _ask(visit, query, drawn, outcomes)
    _tell(preference(list(outcomes.values())), left, right)


def _ask(visit: Visit, query: str, drawn: Drawn, outcomes: dict[str, Verdict]) -> None:
    st.caption("Mark what answers. Either side put in about half of these, and which is not shown.")
    marked = []
    for place, (hit, _) in enumerate(drawn):
        with st.container(border=True):
            st.html(passage_html(title=hit.title, text=hit.text, whole=True))
            marked.append(st.checkbox("Answers", key=f"blind {query} {place}"))
    if st.button("Count this question", type="primary", icon=":material/done_all:", shortcut="ctrl+enter"):
        outcomes[query] = won([team for (_, team), mark in zip(drawn, marked, strict=True) if mark])
        if visit.may_write:
            with telling_errors():
                for (hit, _), mark in zip(drawn, marked, strict=True):
                    if mark:
                        visit.collection.judgements.add(query, hit, True)
        st.rerun()


def _tell(found: Preference, left: Side, right: Side) -> None:
    """How many questions were counted; who is ahead is said once it is decided."""
    asked = found.first + found.second + found.ties
    if not asked:
        return
    with st.container(horizontal=True):
        st.metric("Questions", asked)
        st.metric("Ties", found.ties)
        st.metric("Sign test", f"p = {found.p_value:.3f}", help="Exact, two-sided, ties left out.")
    if found.verdict is Verdict.OPEN and not st.toggle("Show who is ahead", key="blind-reveal"):
        st.caption("Not decided yet. To know who is ahead may sway what you mark.")
        return
    score = f"{left} {found.first}, {right} {found.second}"
    share = f"{found.share.low:.0%} to {found.share.high:.0%}"
    said = f"{score}; of the questions that are not ties {share} go to {right}."
    if found.verdict is Verdict.OPEN:
        st.markdown(as_markdown(said))
    else:
        better = left if found.verdict is Verdict.FIRST else right
        st.success(as_markdown(f"Decided: {better} is better. {said}"), icon=":material/check_circle:")
