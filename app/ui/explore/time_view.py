"""Explore, time: clusters that grow or shrink, and what is new since a date."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import streamlit as st

from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.controls import choose_part, show_notes
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.explore.looking import Look, like_link, look_at, near_words, show_passage
from nearsay.app.ui.opened import kept_drawing, remembered, state_of
from nearsay.app.ui.visit import Visit
from nearsay.data.quantity import counted
from nearsay.indexer.exploring.dates import Period, date_fields
from nearsay.indexer.exploring.through_time import ClusterThroughTime, ThroughTime
from nearsay.indexer.exploring.unlike import News
from nearsay.indexer.maps.drawing import cluster_colours
from nearsay.indexer.results import newest

if TYPE_CHECKING:
    import altair as alt

_PLOT_HEIGHT, _LEGEND_LINE = 320, 24  # pixels: of the plot and its axes, and of each name below
_NAME = 48  # characters of a name in the legend
_LINES = 5  # across the chart, roughly
_LABELS = 24  # labels on the time axis, at most


def called(number: int | None, name: str) -> str:
    """Return a unique label of a cluster for the legend: its number and shortened name."""
    short = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
    return short if number is None else f"{number}  {short}"


def chart_rows(line: ThroughTime, shown: Sequence[ClusterThroughTime]) -> list[dict[str, Any]]:
    """Return a row for each shown cluster and each period that is not empty."""
    return [
        {"period": period, "cluster": called(each.number, each.name), "share": share, "count": count}
        for each in shown
        for period, count, share in zip(line.periods, each.counts, line.shares(each), strict=True)
        if share is not None
    ]


def trend_rows(line: ThroughTime) -> list[dict[str, Any]]:
    """Return a row for each cluster: its size, the ends of its fitted line, and its trend."""
    return [
        {
            "cluster": called(each.number, each.name),
            str(line.counted): each.total,
            "share over time": [share or 0.0 for share in line.shares(each)],
            "from": each.trend.first,
            "to": each.trend.last,
            "trend": "▲ grows" if each.trend.grows else "▼ shrinks" if each.trend.shrinks else "",
        }
        for each in line.every
    ]


def line_chart(
    line: ThroughTime, shown: Sequence[ClusterThroughTime], colours: Mapping[int | None, str]
) -> "alt.Chart":
    """Return the shares as lines, each with its own colour, dash and symbol.

    colours: the map's, by cluster number; used only if every shown cluster has one

    Empty periods keep their place on the axis, so that distances are to scale.
    """
    import altair as alt

    names = [called(each.number, each.name) for each in shown]
    data = alt.InlineData(values=chart_rows(line, shown))
    by = alt.Legend(orient="bottom", columns=1, title=None, labelLimit=260, symbolStrokeWidth=0)
    series = "cluster:N"
    known = [colours[each.number] for each in shown if each.number in colours]
    scale = alt.Scale(domain=names, range=known) if len(known) == len(names) else alt.Undefined
    periods = list(line.periods)
    named = periods[:: -(-len(periods) // _LABELS) or 1]
    axis = alt.Axis(labelOverlap=True, labelAngle=0, values=named)
    chart: alt.Chart = (
        alt.Chart(data, height=_PLOT_HEIGHT + _LEGEND_LINE * len(names))
        .mark_line(point=True, strokeWidth=2)
        .encode(
            x=alt.X("period:O", title=None, scale=alt.Scale(domain=periods), axis=axis),
            y=alt.Y(  # ends the axis at a grid line above all points
                "share:Q",
                title="share of its period",
                scale=alt.Scale(nice=_LINES),
                axis=alt.Axis(format="~%", tickCount=_LINES),
            ),
            color=alt.Color(series, sort=names, legend=by, scale=scale),
            strokeDash=alt.StrokeDash(series, sort=names, legend=None),  # the legend shows symbols
            shape=alt.Shape(series, sort=names, legend=by),
            tooltip=[
                alt.Tooltip("period:O"),
                alt.Tooltip(series),
                alt.Tooltip("count:Q", title=str(line.counted)),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    return chart


_QUICK = 150_000  # passages whose dates are read and counted
_QUICK_NEW = 20_000  # passages: each new one is compared with every older one
_EVERY = 1_000_000  # clusters: without a limit the command prints only the largest
_SAMPLE = 1_000  # documents in which date fields are detected
_ADDED = "(date of addition)"  # no field is called so
_AUTO = "automatic"
_NEW = 10  # new passages that are shown


def show_time_view(visit: Visit) -> None:
    """Show the chart of clusters, and what is new."""
    explorer = visit.collection.explore
    fields = remembered(f"{state_of(visit)}|dates", lambda: _fields(visit))
    field = st.selectbox(
        "Date field",
        [*fields, _ADDED],
        key="time_field",
        bind="query-params",
        help="A metadata field with dates, or the date when the document was added.",
    )
    dated = None if field == _ADDED else field
    if explorer.has_clusters():
        _through_time(visit, dated)
    else:
        make = visit.remedy("Find them under Clusters.")
        st.info(f"There are no clusters yet to follow over time.{make}")
    st.subheader("What is new")
    _news(visit, dated)


def _fields(visit: Visit) -> list[str]:
    sample = islice(visit.collection.documents(), _SAMPLE)
    return date_fields(document.metadata for document in sample)


def _through_time(visit: Visit, field: str | None) -> None:
    with st.container(horizontal=True):
        by = st.selectbox("Periods", [_AUTO, *Period], key="time_by", bind="query-params", width=180)
        counted = st.selectbox(
            "Count",
            ["documents", "passages"],
            key="time_counted",
            bind="query-params",
            width=180,
            help="A document belongs to the cluster of most of its passages.",
        )
        level = st.number_input(
            "Level",
            0,
            5,
            0,
            key="time_level",
            bind="query-params",
            width=180,
            help="0: the clusters themselves; 1: their parents, and so on.",
        )
    period = None if by == _AUTO else by
    chosen = {"level": level, "unit": counted, "field": field, "period": period, "limit": _EVERY}
    look = Look(
        "time",
        f"Clusters of {visit.name} over time",
        ("explore", "time", visit.name or "", *options_of(chosen)),
        _QUICK,
        lambda: visit.collection.explore.over_time(field, period, level=level, counted=counted),
        lambda job: newest(job.folder.output(), ThroughTime),
    )
    look_at(visit, look, partial(_chart, visit))


def _chart(visit: Visit, line: ThroughTime | None) -> None:
    if line is None:
        return
    show_notes(line.notes)
    if not line.every:
        st.info("There is nothing to count.")
        return
    lines = {"largest": line.clusters, "growing": line.growing, "shrinking": line.shrinking}
    tip = "Growing and shrinking: with a significant trend (p < 0.001), steepest first."
    which = choose_part("Lines", list(lines), "time_lines", label_visibility="visible", help=tip)
    chosen = lines[which][:8]
    if chosen:
        with st.spinner("Looking …"):
            mapped = kept_drawing(visit)
        colours = {} if mapped is None else cluster_colours(mapped[0].drawn)
        st.altair_chart(line_chart(line, chosen, colours))
        empty = line.totals.count(0)
        if empty:
            are, have = ("is", "has") if empty == 1 else ("are", "have")
            of_all = f"{empty:,} of the {len(line.periods):,} periods"
            st.caption(f"{of_all} {are} empty and {have} no point.")
    else:
        st.info(f"No cluster is significantly {which}.")
    for word, some in (("Growing", line.growing), ("Shrinking", line.shrinking)):
        if some:
            named = "; ".join(called(each.number, each.name) for each in some[:3])
            st.markdown(f"**{word} most:** {as_markdown(named)}")
    with st.expander("Every cluster, with its trend", icon=":material/table_rows:"):
        share = st.column_config.NumberColumn(format="percent", help="On the line fitted to its shares.")
        st.dataframe(
            trend_rows(line),
            hide_index=True,
            column_config={
                "share over time": st.column_config.LineChartColumn(width="medium", y_min=0.0),
                "from": share,
                "to": share,
            },
        )


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
        st.caption("Enter a date to see what was added since, and what is least like anything before.")
        return
    chosen = {"since": since, "limit": _NEW, "field": field}
    look = Look(
        "new",
        f"What is new in {visit.name} since {since}",
        ("explore", "new", visit.name or "", *options_of(chosen)),
        _QUICK_NEW,
        lambda: visit.collection.explore.new_since(since, field, count=_NEW),
        lambda job: newest(job.folder.output(), News),
    )
    look_at(visit, look, _show_news)


def _show_news(news: News | None) -> None:
    if news is None:
        return
    st.markdown(
        f"**{counted(news.documents, 'new document')}** with {counted(news.passages, 'passage')}; "
        f"before: {counted(news.older_documents, 'document')}."
    )
    show_notes(news.notes)
    if news.clusters:
        share = st.column_config.NumberColumn(format="percent")
        st.dataframe(
            [
                {
                    "cluster": called(each.number, each.name),
                    "new": each.new,
                    "before": each.before,
                    "share of new": each.share_of_new,
                    "share before": each.share_before,
                }
                for each in news.clusters
            ],
            hide_index=True,
            column_config={"share of new": share, "share before": share},
        )
    if news.unlike:
        st.markdown("**Least like anything before:**")
    for each in news.unlike:
        with st.container(border=True):
            show_passage(each, below=near_words("nearest before", each.nearest))
            like_link(each.id)
