"""Clusters through time as the page shows them: a chart, and a table with trends."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

__all__ = ["TimeLine", "called", "chart_rows", "line_chart", "time_line", "trend_rows"]

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
