"""Relevant or not: buttons that keep what a person says of a result."""

from collections.abc import Mapping

import streamlit as st

from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.visit import Visit
from nearsay.indexer import Hit
from nearsay.indexer.catalogue.mode import SearchMode

__all__ = ["judge_buttons", "judged_of"]

Judged = Mapping[tuple[str, int], bool]


def judged_of(visit: Visit, query: str) -> Judged:
    """What was said for the query of each passage, by its document's id and its place."""
    return visit.collection.judgements.of(query) if query.strip() else {}


def judge_buttons(
    visit: Visit, query: str, hit: Hit, mode: SearchMode | None, judged: Judged, *, page: str
) -> None:
    """Two buttons; pressing one that is pressed takes the word back. Nothing where the page only reads.

    page: whose buttons they are, for their keys
    """
    if not visit.may_write:
        return
    word = judged.get((hit.id, hit.passage))
    for relevant, label, icon in (
        (True, "Relevant", ":material/thumb_up:"),
        (False, "Not relevant", ":material/thumb_down:"),
    ):
        pressed = word is relevant
        st.button(
            label,
            key=f"{page} {relevant} {hit.id} {hit.passage}",
            icon=":material/check_circle:" if pressed else icon,
            type="primary" if pressed else "tertiary",
            help="Press again to take it back." if pressed else None,
            on_click=_judge,
            args=(visit, query, hit, mode, relevant, pressed),
        )


@telling_errors()
def _judge(
    visit: Visit, query: str, hit: Hit, mode: SearchMode | None, relevant: bool, pressed: bool
) -> None:
    visit.check_writing()
    if pressed:
        visit.collection.judgements.remove(query, hit)
    else:
        visit.collection.judgements.add(query, hit, relevant, mode=mode)
