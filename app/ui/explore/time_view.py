"""Explore, through time: which clusters grow and shrink, and what is new since a date."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import streamlit as st

from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.controls import choose_part, say_notes
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
_LABELS = 24  # periods that are named below the chart, at most


def called(number: int | None, name: str) -> str:
    """A cluster's number and name, as short as a legend needs it; no two are called the same."""
    short = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
    return short if number is None else f"{number}  {short}"


def chart_rows(line: ThroughTime, shown: Sequence[ClusterThroughTime]) -> list[dict[str, Any]]:
    """A row for each cluster that is shown and each period that holds something."""
    return [
        {"period": period, "cluster": called(each.number, each.name), "share": share, "count": count}
        for each in shown
        for period, count, share in zip(line.periods, each.counts, line.shares(each), strict=True)
        if share is not None
    ]


def trend_rows(line: ThroughTime) -> list[dict[str, Any]]:
    """A row for each cluster: how many, its share at both ends of the straight line, where it goes."""
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
    """The shares as lines, each with a colour, a dash and a sign of its own.

    colours: of the map, by the number of a cluster; others are taken where one that is shown has none

    Every period has its place on the axis, an empty one too, so that distances are to scale.
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
            y=alt.Y(  # a line at the end of the axis, which no point lies above
                "share:Q",
                title="share of its period",
                scale=alt.Scale(nice=_LINES),
                axis=alt.Axis(format="~%", tickCount=_LINES),
            ),
            color=alt.Color(series, sort=names, legend=by, scale=scale),
            strokeDash=alt.StrokeDash(series, sort=names, legend=None),  # signs are in the legend
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
_QUICK_NEW = 20_000  # passages: each new one is held against every older one
_EVERY = 1_000_000  # clusters: a command prints the largest alone
_SAMPLE = 1_000  # documents from which the fields with dates are seen
_ADDED = "when it was added"
_AUTO = "by their span"
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
        make = visit.remedy("Make them under Clusters.")
        st.info(f"There are no clusters yet whose size could be followed.{make}")
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
    period = None if by == _AUTO else by
    chosen = {"level": level, "unit": counted, "field": field, "period": period, "limit": _EVERY}
    look = Look(
        "time",
        f"Clusters of {visit.name} through time",
        ("explore", "time", visit.name or "", *options_of(chosen)),
        _QUICK,
        lambda: visit.collection.explore.over_time(field, period, level=level, counted=counted),
        lambda job: newest(job.folder.output(), ThroughTime),
    )
    look_at(visit, look, partial(_chart, visit))


def _chart(visit: Visit, line: ThroughTime | None) -> None:
    if line is None:
        return
    say_notes(line.notes)
    if not line.every:
        st.info("There is nothing to count.")
        return
    lines = {"largest": line.clusters, "growing": line.growing, "shrinking": line.shrinking}
    tip = "Growing and shrinking: by more than chance (p < 0.001), the steepest first."
    which = choose_part("Lines", list(lines), "time_lines", label_visibility="visible", help=tip)
    chosen = lines[which][:8]
    if chosen:
        with st.spinner("Looking …"):
            mapped = kept_drawing(visit)
        colours = {} if mapped is None else cluster_colours(mapped[0].drawn)
        st.altair_chart(line_chart(line, chosen, colours))
        empty = line.totals.count(0)
        if empty:
            hold, them = ("holds nothing and has", "it") if empty == 1 else ("hold nothing and have", "them")
            of_all = f"{empty:,} of the {len(line.periods):,} periods"
            st.caption(f"{of_all} {hold} no point: lines pass over {them}.")
    else:
        st.info(f"No cluster is {which} by more than chance.")
    for word, some in (("Growing", line.growing), ("Shrinking", line.shrinking)):
        if some:
            named = "; ".join(called(each.number, each.name) for each in some[:3])
            st.markdown(f"**{word} most:** {as_markdown(named)}")
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
    say_notes(news.notes)
    if news.clusters:
        share = st.column_config.NumberColumn(format="percent")
        st.dataframe(
            [
                {
                    "cluster": called(each.number, each.name),
                    "new": each.new,
                    "before": each.before,
                    "of the new": each.share_of_new,
                    "of those before": each.share_before,
                }
                for each in news.clusters
            ],
            hide_index=True,
            column_config={"of the new": share, "of those before": share},
        )
    if news.unlike:
        st.markdown("**Least like anything before:**")
    for each in news.unlike:
        with st.container(border=True):
            show_passage(each, below=near_words("nearest before", each.nearest))
            like_link(each.id)
