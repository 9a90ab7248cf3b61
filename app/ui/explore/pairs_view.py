"""Explore, pairs: the passages that are most alike, two by two."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.command_shown import show_command
from nearsay.app.ui.download import offer_download
from nearsay.app.ui.escaping import as_html
from nearsay.app.ui.explore.difference import difference, side_html
from nearsay.app.ui.explore.links import like_link
from nearsay.app.ui.explore.looking import Look, found_by
from nearsay.app.ui.explore.rows_file import csv_bytes
from nearsay.app.ui.visit import Visit

__all__ = ["pair_rows", "pairs_from_output", "show_pairs"]

_QUICK = 8_000  # passages: every two are compared
_MOST = 1_000  # pairs
_COLUMNS = ("cosine", "first", "first id", "first text", "second", "second id", "second text")


def show_pairs(visit: Visit) -> None:
    """A table of pairs, and the chosen one side by side."""
    top = st.number_input("How many pairs", 10, _MOST, 100, 10, key="pairs_top", bind="query-params")
    arguments = ("explore", "pairs", visit.name or "", "--limit", str(top))
    look = Look(
        "pairs",
        f"Most similar pairs in {visit.name}",
        RunKind.EXPLORE,
        arguments,
        _QUICK,
        lambda: [json.loads(json.dumps(asdict(pair))) for pair in visit.collection.explore.pairs(top)],
        pairs_from_output,
    )
    found = found_by(visit, look)
    if found is not None:
        _show(visit, found.rows)
    show_command(visit, arguments)


def pairs_from_output(rows: Iterable[Any]) -> list[dict[str, Any]]:
    """From what `nearsay explore pairs --json` printed."""
    return [dict(row) for row in rows if isinstance(row, Mapping)]


def pair_rows(pairs: Iterable[Mapping[str, Any]]) -> list[dict[str, object]]:
    """A flat row for each pair."""
    return [
        {"cosine": round(float(pair["cosine"]), 4)}
        | {
            f"{side}{name}": pair[side][field] or (pair[side]["id"] if field == "title" else "")
            for name, field in (("", "title"), (" text", "text"), (" id", "id"))
            for side in ("first", "second")
        }
        for pair in pairs
    ]


def _show(visit: Visit, pairs: list[dict[str, Any]]) -> None:
    if not pairs:
        st.info("There is no pair: it takes two documents.")
        return
    rows = pair_rows(pairs)
    event = st.dataframe(
        rows,
        hide_index=True,
        key=f"pairs_table_{visit.name}_{len(pairs)}",  # a row that was chosen is one of these pairs
        on_select="rerun",
        selection_mode="single-row",
        column_config={
            "cosine": st.column_config.NumberColumn("cosine", format="%.4f", width="small"),
            "first": st.column_config.TextColumn("first", width="medium"),
            "second": st.column_config.TextColumn("second", width="medium"),
            "first text": st.column_config.TextColumn("first text", width="medium"),
            "second text": st.column_config.TextColumn("second text", width="medium"),
        },
    )
    offer_download("CSV", lambda: csv_bytes(rows, _COLUMNS), f"{visit.name}-pairs.csv", key="pairs_csv")
    chosen = event["selection"]["rows"]
    if not chosen or chosen[0] >= len(pairs):
        st.caption("Choose a row to see the two side by side.")
        return
    first, second = pairs[chosen[0]]["first"], pairs[chosen[0]]["second"]
    compared = difference(first["text"], second["text"])
    left, right = st.columns(2)
    with left:
        _side(first, side_html(compared.first, "del"))
    with right:
        _side(second, side_html(compared.second, "ins"))


def _side(passage: Mapping[str, Any], text: str) -> None:
    title = as_html(passage["title"] or passage["id"])
    st.html(f'<div class="ns-card"><div class="ns-title">{title}</div></div>{text}')
    like_link(passage["id"])
