"""Explore, unusual and diverse: what is unlike everything else, and a few passages that show it all."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any

import streamlit as st

from nearsay.app.ui.asked import short_enough
from nearsay.app.ui.card import passage_html
from nearsay.app.ui.download import offer_download
from nearsay.app.ui.explore.looking import Look, ask_to_remove, csv_bytes, found_by, like_link
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import show_command
from nearsay.indexer.catalogue.passage import headline

__all__ = ["diverse_words", "passages_from_output", "show_unusual_view", "unusual_words"]

_QUICK_OUTLIERS = 15_000  # passages: every two are compared
_QUICK_DIVERSE = 30_000
_COLUMNS = ("rank", "score", "id", "title", "text", "passage", "metadata")


def show_unusual_view(visit: Visit) -> None:
    """One of the two lists."""
    what = st.segmented_control(
        "What",
        ["outliers", "a diverse sample"],
        default="outliers",
        required=True,
        key="un_what",
        bind="query-params",
        label_visibility="collapsed",
    )
    count = st.number_input("How many passages", 1, 200, 20, key="un_count", bind="query-params", width=200)
    (_outliers if what == "outliers" else _diverse)(visit, count)


def _outliers(visit: Visit, count: int) -> None:
    st.caption(
        "The passages least like any of another document, the loneliest first: what came in by mistake, "
        "or what nobody else has said."
    )
    arguments = ("explore", "outliers", visit.name or "", "--limit", str(count))
    look = Look(
        "outliers",
        f"Outliers of {visit.name}",
        arguments,
        _QUICK_OUTLIERS,
        lambda: _rows(visit.collection.explore.outliers(count)),
        passages_from_output,
    )
    _show(visit, look, unusual_words, removing=True)


def _diverse(visit: Visit, count: int) -> None:
    st.caption("Each is like many others and unlike those before it: the quickest way to read a collection.")
    query = st.text_input(
        "About", key="un_about", bind="query-params", placeholder="everything, or a question"
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
        help="1: the most relevant, however alike; 0: the most unlike each other.",
    )
    arguments = ["explore", "diverse", visit.name or "", "--limit", str(count), "--balance", f"{balance:g}"]
    arguments += ["--query", query] if query else []
    look = Look(
        "diverse",
        f"A diverse sample of {visit.name}",
        tuple(arguments),
        _QUICK_DIVERSE,
        lambda: _rows(visit.collection.explore.diverse(count, query=query or None, balance=balance)),
        passages_from_output,
    )
    _show(visit, look, diverse_words, removing=False)


def passages_from_output(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """From what the command printed with --json."""
    return [dict(row) for row in rows if isinstance(row, Mapping)]


def unusual_words(row: Mapping[str, Any]) -> tuple[str, str]:
    """What is said of an outlier: beside its title, and under its text."""
    near = row["nearest"]
    below = (
        ""
        if near is None
        else f"nearest ({near['cosine']:.2f}): {headline(near['title'], near['id'], near['text'])}"
    )
    return f"cosine to its nearest {row['score']:.2f}", below


def diverse_words(row: Mapping[str, Any]) -> tuple[str, str]:
    """What is said of a passage of the sample."""
    return f"stands for {row['stands_for']:,} passages", ""


def _rows(found: Iterable[Any]) -> list[dict[str, Any]]:
    return [json.loads(json.dumps(asdict(each), default=str)) for each in found]


def _show(
    visit: Visit,
    look: Look[list[dict[str, Any]]],
    words: Callable[[Mapping[str, Any]], tuple[str, str]],
    *,
    removing: bool,
) -> None:
    found = found_by(visit, look)
    if found is not None:
        make = partial(csv_bytes, found.rows, _COLUMNS)
        offer_download("CSV", make, f"{visit.name}-{look.name}.csv", key=f"{look.name}_csv")
        for row in found.rows:
            said, below = words(row)
            with st.container(border=True):
                st.html(
                    passage_html(
                        title=headline(row["title"], row["id"], row["text"]),
                        text=row["text"],
                        rank=row["rank"],
                        metadata=row["metadata"],
                        said=said,
                        below=below,
                    )
                )
                with st.container(horizontal=True, vertical_alignment="center"):
                    like_link(row["id"])
                    if removing and visit.may_write:
                        _remove(visit, row)
    show_command(visit, look.arguments)


def _remove(visit: Visit, row: Mapping[str, Any]) -> None:
    if st.button("Remove …", key=f"un_remove_{row['rank']}", type="tertiary", icon=":material/delete:"):
        ask_to_remove(visit, [row["id"]])
