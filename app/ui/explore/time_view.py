"""Explore, through time: which clusters grow and shrink, and what is new since a date."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.command_shown import show_command
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.explore.date_fields import date_fields
from nearsay.app.ui.explore.links import like_link
from nearsay.app.ui.explore.looking import Look, found_by
from nearsay.app.ui.explore.passage_html import passage_html
from nearsay.app.ui.explore.state import remembered, state_of
from nearsay.app.ui.explore.time_line import TimeLine, called, line_chart, time_line, trend_rows
from nearsay.app.ui.visit import Visit
from nearsay.indexer.catalogue.passage import headline
from nearsay.indexer.exploring.dates import Period

__all__ = ["show_time_view"]

_QUICK = 150_000  # passages whose dates are read and counted
_QUICK_NEW = 20_000  # passages: each new one is held against every older one
_SAMPLE = 1_000  # documents from which the fields with dates are seen
_ADDED = "when it was added"
_AUTO = "by their span"
_MOST_SHOWN = 12  # lines of a chart
_NEW = 10  # passages that are shown of what is new


def show_time_view(visit: Visit) -> None:
    """The chart of clusters, and what is new."""
    explorer = visit.collection.explore
    fields = remembered(f"{state_of(visit)}|dates", lambda: _fields(visit))
    field = st.selectbox(
        "The date of a document",
        [*fields, _ADDED],
        key="time_field",
        bind="query-params",
        help="A metadata field that holds dates, or when the document came into the collection.",
    )
    dated = None if field == _ADDED else field
    if explorer.has_clusters():
        _through_time(visit, dated)
    else:
        st.info("There are no clusters yet whose size could be followed. Make them under Clusters.")
    st.subheader("What is new")
    _news(visit, dated)


def _fields(visit: Visit) -> list[str]:
    sample = islice(visit.collection.documents(), _SAMPLE)
    return date_fields(document.metadata for document in sample)


def _through_time(visit: Visit, field: str | None) -> None:
    with st.container(horizontal=True):
        by = st.selectbox("Periods", [_AUTO, *Period], key="time_by", bind="query-params", width=180)
        counted = st.selectbox(
            "Counted",
            ["documents", "passages"],
            key="time_counted",
            bind="query-params",
            width=180,
            help="A document counts where most of its passages are.",
        )
        level = st.number_input(
            "Level",
            0,
            5,
            0,
            key="time_level",
            bind="query-params",
            width=180,
            help="0: the clusters themselves; 1: those that they belong to, and so on.",
        )
    arguments = ["explore", "time", visit.name or "", "--level", str(level), "--unit", counted]
    arguments += [] if field is None else ["--field", field]
    arguments += [] if by == _AUTO else ["--period", by]
    look = Look(
        "time",
        f"Clusters of {visit.name} through time",
        RunKind.EXPLORE,
        tuple(arguments),
        _QUICK,
        lambda: time_line(
            visit.collection.explore.over_time(
                field, None if by == _AUTO else by, level=level, counted=counted
            ).to_json()
        ),
        time_line,
    )
    found = found_by(visit, look)
    if found is not None:
        _chart(found.rows)
    show_command(visit, arguments)


def _chart(line: TimeLine) -> None:
    if not line.rows:
        st.info("There is nothing to count.")
        return
    inside = [row for row in line.rows if row["cluster"] is not None]
    growing = _steepest(inside, "grows")
    shrinking = _steepest(inside, "shrinks")
    which = st.segmented_control(
        "Lines",
        ["largest", "growing", "shrinking"],
        default="largest",
        required=True,
        key="time_lines",
        bind="query-params",
        help="Growing and shrinking: by more than chance (p < 0.001), the steepest first.",
    )
    chosen = {"largest": inside, "growing": growing, "shrinking": shrinking}[which][:8]
    if chosen:
        st.altair_chart(line_chart(line, chosen))
        empty = line.totals.count(0)
        if empty:
            hold, them = ("holds nothing and has", "it") if empty == 1 else ("hold nothing and have", "them")
            of_all = f"{empty:,} of the {len(line.periods):,} periods"
            st.caption(f"{of_all} {hold} no point: lines pass over {them}.")
    else:
        st.info(f"No cluster is {which} by more than chance.")
    for word, some in (("Growing", growing), ("Shrinking", shrinking)):
        if some:
            st.markdown(f"**{word} most:** {as_markdown('; '.join(called(row) for row in some[:3]))}")
    with st.expander("Every cluster, with its trend", icon=":material/table_rows:"):
        share = st.column_config.NumberColumn(format="percent", help="On the straight line of its shares.")
        st.dataframe(
            trend_rows(line),
            hide_index=True,
            column_config={
                "share over time": st.column_config.LineChartColumn(width="medium", y_min=0.0),
                "from": share,
                "to": share,
            },
        )


def _steepest(rows: list[Mapping[str, Any]], way: str) -> list[Mapping[str, Any]]:
    changing = (row for row in rows if row["trend"][way])
    return sorted(changing, key=lambda row: -abs(row["trend"]["last_share"] - row["trend"]["first_share"]))


def _news(visit: Visit, field: str | None) -> None:
    since = st.text_input(
        "Since",
        key="time_since",
        bind="query-params",
        placeholder="2026-11-01",
        help="A year, a month or a day: 2026, 2026-11, 2026-11-01.",
        width=240,
    ).strip()
    if not since:
        st.caption("Name a date to see what came since, and is unlike everything before.")
        return
    arguments = ["explore", "new", visit.name or "", "--since", since, "--limit", str(_NEW)]
    arguments += [] if field is None else ["--field", field]
    look = Look(
        "new",
        f"What is new in {visit.name} since {since}",
        RunKind.EXPLORE,
        tuple(arguments),
        _QUICK_NEW,
        lambda: json.loads(
            json.dumps(asdict(visit.collection.explore.new_since(since, field, count=_NEW)), default=str)
        ),
        _first,
    )
    found = found_by(visit, look)
    if found is not None and found.rows:
        _show_news(found.rows)
    show_command(visit, arguments)


def _first(rows: Iterable[Any]) -> dict[str, Any]:
    return next((dict(row) for row in rows if isinstance(row, Mapping)), {})


def _show_news(news: Mapping[str, Any]) -> None:
    st.markdown(
        f"**{news['documents']:,} new documents** with {news['passages']:,} passages; "
        f"before: {news['older_documents']:,} documents."
    )
    for note in news["notes"]:
        st.caption(as_markdown(note[:1].upper() + note[1:]))
    if news["clusters"]:
        share = st.column_config.NumberColumn(format="percent")
        st.dataframe(
            [
                {
                    "cluster": called({"cluster": each["number"], "name": each["name"]}),
                    "new": each["new"],
                    "before": each["before"],
                    "of the new": each["share_of_new"],
                    "of those before": each["share_before"],
                }
                for each in news["clusters"]
            ],
            hide_index=True,
            column_config={"of the new": share, "of those before": share},
        )
    if news["unlike"]:
        st.markdown("**Least like anything before:**")
    for each in news["unlike"]:
        near = each["nearest"]
        below = (
            ""
            if near is None
            else f"nearest before ({near['cosine']:.2f}): {headline(near['title'], near['id'], near['text'])}"
        )
        with st.container(border=True):
            st.html(
                passage_html(
                    title=headline(each["title"], each["id"], each["text"]),
                    text=each["text"],
                    rank=each["rank"],
                    metadata=each["metadata"],
                    below=below,
                )
            )
            like_link(each["id"])
