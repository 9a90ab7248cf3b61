"""Explore, through time: which clusters grow and shrink, and what is new since a date."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import streamlit as st

from nearsay.app.ui.card import passage_html
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.explore.looking import Look, found_by, like_link
from nearsay.app.ui.opened import remembered, state_of
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import show_command
from nearsay.data.document import JsonValue
from nearsay.indexer.catalogue.passage import headline
from nearsay.indexer.exploring.dates import Period, read_date

if TYPE_CHECKING:
    import altair as alt

__all__ = [
    "show_time_view",
]


_NAME = 48  # characters of a name in the legend
_LABELS = 24  # periods that are named below the chart, at most


@dataclass(frozen=True, slots=True)
class TimeLine:
    """What `nearsay explore time --json` prints, put together."""

    rows: tuple[Mapping[str, Any], ...]  # a cluster each, by falling total; in no cluster: "cluster" is null
    periods: tuple[str, ...]
    totals: tuple[int, ...]  # of everything in each period

    @property
    def counted(self) -> str:
        """documents or passages."""
        return "passages" if self.rows and "passages" in self.rows[0] else "documents"

    def shares(self, row: Mapping[str, Any]) -> list[float | None]:
        """A cluster's share of each period; None where the period holds nothing."""
        counts = row["counts"]
        return [
            counts[period] / total if total else None
            for period, total in zip(self.periods, self.totals, strict=True)
        ]


def time_line(rows: Iterable[Any]) -> TimeLine:
    """From the rows of JSON."""
    kept = tuple(row for row in rows if isinstance(row, Mapping))
    periods = tuple(kept[0]["counts"]) if kept else ()
    totals = tuple(sum(row["counts"][period] for row in kept) for period in periods)
    return TimeLine(kept, periods, totals)


def called(row: Mapping[str, Any]) -> str:
    """A cluster's number and name, as short as a legend needs it; no two are called the same."""
    name = str(row["name"])
    short = name if len(name) <= _NAME else name[: _NAME - 1] + "…"
    return short if row["cluster"] is None else f"{row['cluster']}  {short}"


def chart_rows(line: TimeLine, shown: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for each cluster that is shown and each period that holds something."""
    return [
        {"period": period, "cluster": called(row), "share": share, "count": row["counts"][period]}
        for row in shown
        for period, share in zip(line.periods, line.shares(row), strict=True)
        if share is not None
    ]


def trend_rows(line: TimeLine) -> list[dict[str, Any]]:
    """A row for each cluster: how many, its share at both ends of the straight line, where it goes."""
    return [
        {
            "cluster": called(row),
            line.counted: row[line.counted],
            "share over time": [share or 0.0 for share in line.shares(row)],
            "from": row["trend"]["first_share"],
            "to": row["trend"]["last_share"],
            "trend": "▲ grows" if row["trend"]["grows"] else "▼ shrinks" if row["trend"]["shrinks"] else "",
        }
        for row in line.rows
    ]


def line_chart(line: TimeLine, shown: Sequence[Mapping[str, Any]]) -> "alt.Chart":
    """The shares as lines, each with a colour, a dash and a sign of its own.

    Every period has its place on the axis, an empty one too, so that distances are to scale.
    """
    import altair as alt

    names = [called(row) for row in shown]
    data = alt.InlineData(values=chart_rows(line, shown))
    by = alt.Legend(orient="bottom", columns=2, title=None, labelLimit=360, symbolType="stroke")
    series = "cluster:N"
    periods = list(line.periods)
    named = periods[:: -(-len(periods) // _LABELS) or 1]
    axis = alt.Axis(labelOverlap=True, values=named)
    chart: alt.Chart = (
        alt.Chart(data, height=420)
        .mark_line(point=True, strokeWidth=2)
        .encode(
            x=alt.X("period:O", title=None, scale=alt.Scale(domain=periods), axis=axis),
            y=alt.Y("share:Q", title="share of its period", axis=alt.Axis(format="%")),
            color=alt.Color(series, sort=names, legend=by),
            strokeDash=alt.StrokeDash(series, sort=names, legend=by),
            shape=alt.Shape(series, sort=names, legend=None),
            tooltip=[
                alt.Tooltip("period:O"),
                alt.Tooltip(series),
                alt.Tooltip("count:Q", title=line.counted),
                alt.Tooltip("share:Q", format=".1%"),
            ],
        )
    )
    return chart


_SHARE = 0.9  # of a field's values have to be dates
_SPAN = range(1500, 2200)  # years; a number outside is more likely a count than a year


def date_fields(rows: Iterable[Mapping[str, JsonValue]]) -> list[str]:
    """The fields of which nine in ten values are dates of the years 1500 to 2199, the fullest first.

    rows: the metadata of documents. Fields within objects are named as a filter names them: author.born.
    """
    values: dict[str, int] = {}
    dated: dict[str, int] = {}
    for row in rows:
        for name, value in _flat(row):
            if value is None or value == "" or isinstance(value, list):
                continue
            values[name] = values.get(name, 0) + 1
            found = None if isinstance(value, bool) else read_date(value)
            if found is not None and found.first.year in _SPAN:
                dated[name] = dated.get(name, 0) + 1
    sure = [name for name, count in dated.items() if count >= _SHARE * values[name]]
    return sorted(sure, key=lambda name: (-dated[name], name))


def _flat(row: Mapping[str, JsonValue], before: str = "") -> Iterable[tuple[str, JsonValue]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


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
