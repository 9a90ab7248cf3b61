"""Explore, unusual: outliers, and a diverse sample that represents the collection."""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TypeVar

import streamlit as st

from nearsay.app.jobs import Job
from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.asked import short_enough
from nearsay.app.ui.controls import choose_part, show_notes
from nearsay.app.ui.download import csv_bytes, offer_download
from nearsay.app.ui.explore.looking import Look, like_link, look_at, near_words, show_passage
from nearsay.app.ui.removing import ask_to_remove
from nearsay.app.ui.visit import Visit
from nearsay.data.quantity import counted
from nearsay.indexer.exploring.diverse import DiversePassage
from nearsay.indexer.exploring.unlike import RemotePassage
from nearsay.indexer.neighbours.points import Shown
from nearsay.indexer.results import every

_Passage = TypeVar("_Passage", RemotePassage, DiversePassage)
_QUICK_OUTLIERS = 15_000  # passages: every two are compared
_QUICK_DIVERSE = 30_000
_COLUMNS = ("rank", "score", "id", "title", "text", "passage", "metadata")


def show_unusual_view(visit: Visit) -> None:
    """Show outliers or a diverse sample."""
    what = choose_part("What", ["outliers", "a diverse sample"], "un_what")
    count = st.number_input("How many passages", 1, 200, 20, key="un_count", bind="query-params", width=200)
    (_outliers if what == "outliers" else _diverse)(visit, count)


def _outliers(visit: Visit, count: int) -> None:
    st.caption(
        "The passages with the lowest mean cosine to their nearest neighbours in other documents, lowest "
        "first: mistakes, or content found nowhere else."
    )
    arguments = ("explore", "outliers", visit.name or "", "--limit", str(count))
    look = Look(
        "outliers",
        f"Outliers of {visit.name}",
        arguments,
        _QUICK_OUTLIERS,
        lambda: visit.collection.explore.outliers(count),
        lambda job: _of_job(job, RemotePassage),
    )
    _show(visit, look, unusual_words, removing=True)


def _diverse(visit: Visit, count: int) -> None:
    st.caption("Each passage is like many others but unlike those before it: a quick overview.")
    query = st.text_input(
        "About", key="un_about", bind="query-params", placeholder="everything, or a query"
    ).strip()
    query = short_enough(query)
    balance = st.slider(
        "Balance",
        0.0,
        1.0,
        0.5,
        0.05,
        key="un_balance",
        bind="query-params",
        help="1: the most relevant, however similar; 0: the least similar to each other.",
    )
    chosen = {"limit": count, "balance": balance, "query": query or None}
    look = Look(
        "diverse",
        f"A diverse sample of {visit.name}",
        ("explore", "diverse", visit.name or "", *options_of(chosen)),
        _QUICK_DIVERSE,
        lambda: visit.collection.explore.diverse(count, query=query or None, balance=balance),
        lambda job: _of_job(job, DiversePassage),
    )
    _show(visit, look, diverse_words, removing=False)


def _of_job(job: Job, kind: type[_Passage]) -> Shown[_Passage]:
    """Return what a job found; it does not report how many passages it examined."""
    return Shown(tuple(every(job.folder.output(), kind)), 0, job.notes())


def unusual_words(found: RemotePassage) -> tuple[str, str]:
    """Return the texts beside the title and under the text of an outlier."""
    return f"mean cosine to the nearest {found.score:.2f}", near_words("nearest", found.nearest)


def diverse_words(found: DiversePassage) -> tuple[str, str]:
    """Return the text beside the title of a passage of the sample."""
    return f"represents {counted(found.stands_for, 'passage')}", ""


def _show(
    visit: Visit,
    look: Look[Shown[_Passage]],
    words: Callable[[_Passage], tuple[str, str]],
    *,
    removing: bool,
) -> None:
    def show(found: Shown[_Passage]) -> None:
        show_notes(found.notes)
        make = partial(csv_bytes, [asdict(each) for each in found], _COLUMNS)
        offer_download("CSV", make, f"{visit.name}-{look.name}.csv", key=f"{look.name}_csv")
        for each in found:
            note, below = words(each)
            with st.container(border=True):
                show_passage(each, note=note, below=below)
                with st.container(horizontal=True, vertical_alignment="center"):
                    like_link(each.id)
                    key, icon = f"un_remove_{each.rank}", ":material/delete:"
                    may = removing and visit.may_write
                    if may and st.button("Remove …", key=key, type="tertiary", icon=icon):
                        ask_to_remove(visit, [each.id])

    look_at(visit, look, show)
