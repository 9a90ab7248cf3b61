"""The sizes of clusters over time, as values, a table and a picture."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import beginning
from nearsay.data.durable import ending_of
from nearsay.data.errors import BadInputError
from nearsay.data.picture import COLOURS, PICTURES, write_picture
from nearsay.data.report import Report
from nearsay.indexer.clusters.clustered import SavedClusters
from nearsay.indexer.clusters.current import saved_clustering
from nearsay.indexer.exploring.dates import DocumentTimes, Period, document_times, finest, period_names
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import Explored
from nearsay.indexer.query.export import write_csv, write_lines
from nearsay.indexer.vectors.errors import chosen
from nearsay.indexer.vectors.vector_store import places_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SURE: Final = 3.29  # |statistic| that chance exceeds once in a thousand times


@dataclass(frozen=True, slots=True)
class Trend:
    """The change of a share over the periods."""

    statistic: float  # of Cochran and Armitage: 0 = no trend; standard normal if there is none
    first: float  # the fitted line's share in the first period, 0 to 1
    last: float  # the same in the last period

    grows: bool = field(init=False)  # more than by chance
    shrinks: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "grows", self.statistic >= SURE)
        object.__setattr__(self, "shrinks", self.statistic <= -SURE)


def trend(counts: NDArray[np.int64], totals: NDArray[np.int64]) -> Trend:
    """Test for a trend of counts among totals, one pair for each of evenly spaced periods.

    Armitage 1955, "Tests for linear trends in proportions and frequencies": the square root of the number of
    items, times the correlation of membership with time. The line is fitted by least squares, each period
    weighted by its total, so empty periods do not count. With fewer than two periods that are not empty the
    statistic is 0.
    """
    times = np.arange(totals.size, dtype=np.float64)
    everything = float(totals.sum())
    share = float(counts.sum()) / everything if everything else 0.0
    middle = float((totals * times).sum()) / everything if everything else 0.0
    spread = float((totals * (times - middle) ** 2).sum())
    if spread == 0.0:
        return Trend(0.0, share, share)
    together = float((counts * (times - middle)).sum())
    slope = together / spread
    deviation = (share * (1.0 - share) * spread) ** 0.5
    ends = np.clip(share + slope * (np.array([0.0, times[-1]]) - middle), 0.0, 1.0)
    return Trend(together / deviation if deviation else 0.0, float(ends[0]), float(ends[1]))


OUTSIDE = -1  # an outlier
LATER = -2  # added after the clustering


class Counted(StrEnum):
    """What to count."""

    DOCUMENTS = "documents"  # each in the cluster of most of its passages, of several the first
    PASSAGES = "passages"  # each with the date of its document


@dataclass(frozen=True, slots=True)
class ClusterThroughTime:
    """One cluster over the periods."""

    number: int | None  # None: passages in no cluster
    name: str
    counts: tuple[int, ...]  # one for each period
    total: int
    trend: Trend  # of its share of the period's total


@dataclass(frozen=True, slots=True)
class ThroughTime(Report):
    """The clusters of a collection, period by period."""

    REPORT: ClassVar = "through time"

    collection: str
    field: str
    by: Period
    counted: Counted
    periods: tuple[str, ...]  # 2019, 2019-03, 2019-W10 or 2019-03-08; without gaps
    totals: tuple[int, ...]  # the number of all in each period, outliers included
    clusters: tuple[ClusterThroughTime, ...]  # by descending total, then by number
    outside: ClusterThroughTime  # passages in no cluster
    missing: int  # documents without the field
    unreadable: int  # documents whose field holds no date
    coarse: int  # documents whose date is coarser than the period, such as a year in a chart of months
    notes: tuple[str, ...]

    @property
    def growing(self) -> tuple[ClusterThroughTime, ...]:
        """Clusters whose share grows more than by chance, the greatest rise first."""
        found = (each for each in self.clusters if each.trend.grows)
        return tuple(sorted(found, key=lambda each: each.trend.first - each.trend.last))

    @property
    def shrinking(self) -> tuple[ClusterThroughTime, ...]:
        """Clusters whose share shrinks more than by chance, the greatest fall first."""
        found = (each for each in self.clusters if each.trend.shrinks)
        return tuple(sorted(found, key=lambda each: each.trend.last - each.trend.first))

    @property
    def every(self) -> tuple[ClusterThroughTime, ...]:
        """The clusters, and `outside` if it is not empty."""
        return (*self.clusters, *((self.outside,) if self.outside.total else ()))

    def shares(self, each: ClusterThroughTime) -> tuple[float | None, ...]:
        """A cluster's share of each period; None for an empty period."""
        return tuple(
            count / total if total else None for count, total in zip(each.counts, self.totals, strict=True)
        )

    def rows(self) -> list[dict[str, Any]]:
        """A row for each cluster and period, as a long table."""
        return [
            {
                "period": period,
                "cluster": each.number,
                "name": each.name,
                self.counted.value: count,
                "share": round(count / total, 6) if total else 0.0,
            }
            for each in self.every
            for period, count, total in zip(self.periods, each.counts, self.totals, strict=True)
        ]


def over_time(
    explored: Explored,
    field: str | None = None,
    by: Period | str | None = None,
    where: Where | None = None,
    *,
    level: int = 0,
    counted: Counted | str = Counted.DOCUMENTS,
) -> ThroughTime:
    """Count the documents or passages of each cluster in each period of a date field.

    field: a metadata field; None = the time of addition
    by:    day, week, month or year; None = chosen by the span of the dates, and not shorter than any date
    level: 0 = the lowest clusters, 1 = their parents, and so on; clusters without a parent at that level stay

    Documents without a date are not counted; notes report their number. Raises BadInputError without a
    clustering, and if no document has a date.
    """
    wanted = None if by is None else chosen(Period, by, "by")
    what = chosen(Counted, counted, "counted")
    if level < 0:
        raise BadInputError(f"level is {level}. Give 0 for the lowest clusters, 1 for their parents")
    look = explored.look(where)
    saved = saved_clustering(explored)
    if saved is None:
        raise BadInputError(
            f"collection '{explored.name}' has no clusters. "
            f"Find them: nearsay explore clusters {explored.name}"
        )
    ids, documents = look.points.ids, look.documents()
    numbers = np.unique(documents)
    with explored.store.database.reading() as connection:
        times = document_times(connection, look.snapshot.collection.id, field, numbers)
    times.require_some()
    period = wanted or finest(times.dates)
    fine = [date.first for date in times.dates if period.holds(date)]
    if not fine:
        raise BadInputError(f"all dates in {times.field} are coarser than a {period}. Choose a longer period")
    names = period_names(period, min(fine), max(fine))
    at = _period_of_document(times, period, list(names))
    things = _ancestors(clusters_of_passages(saved, ids), saved.parents, level)
    owners = np.searchsorted(numbers, documents)
    if what is Counted.DOCUMENTS:
        things, owners = _majority_clusters(things, owners), np.arange(numbers.size)
    later = things == LATER
    there = (at[owners] >= 0) & ~later
    clusters, table = _table(things[there], at[owners][there], len(names))
    totals, of_numbers = table.sum(axis=0), saved.names
    rows = {
        number: _row(number, counts, totals, of_numbers)
        for number, counts in zip(clusters, table, strict=True)
    }
    outside = rows.pop(OUTSIDE, None) or _row(OUTSIDE, np.zeros_like(totals), totals, of_numbers)
    coarse = int(np.count_nonzero((times.codes >= 0) & (at < 0)))
    return ThroughTime(
        collection=explored.name,
        field=times.field,
        by=period,
        counted=what,
        periods=tuple(names.values()),
        totals=tuple(totals.tolist()),
        clusters=tuple(sorted(rows.values(), key=lambda row: (-row.total, row.number or 0))),
        outside=outside,
        missing=times.missing,
        unreadable=times.unreadable,
        coarse=coarse,
        notes=(
            *times.notes(),
            *_notes(explored.name, times.field, period, coarse, int(later.sum()), what),
            *look.waiting,
        ),
    )


def clusters_of_passages(saved: SavedClusters, ids: NDArray[np.int64]) -> NDArray[np.int32]:
    """Each passage's cluster number, (n,); OUTSIDE for an outlier, LATER if added after the clustering."""
    found = np.where(ids > saved.row.through, LATER, OUTSIDE).astype(np.int32)
    at = places_in(saved.ids, ids)
    found[at >= 0] = saved.numbers[at[at >= 0]]
    return found


def _ancestors(clusters: NDArray[np.int32], parents: Mapping[int, int], level: int) -> NDArray[np.int32]:
    """Each cluster's ancestor `level` levels above; a cluster without one stays."""
    numbers, back = np.unique(clusters, return_inverse=True)
    for _ in range(min(level, len(parents))):
        numbers = np.array([parents.get(number, number) for number in numbers.tolist()], dtype=np.int32)
    return numbers[back]


def _period_of_document(times: DocumentTimes, period: Period, starts: list[Any]) -> NDArray[np.int64]:
    """The index of each document's period; -1 without one."""
    place = {start: at for at, start in enumerate(starts)}
    of_date = [place[period.start(date.first)] if period.holds(date) else -1 for date in times.dates]
    found = np.array([*of_date, -1, -1], dtype=np.int64)  # the last two for UNREADABLE and MISSING
    return found[times.codes]


def _majority_clusters(clusters: NDArray[np.int32], owners: NDArray[np.int64]) -> NDArray[np.int32]:
    """The cluster of most passages of each document; of several the lowest, with clusters before outliers.

    owners: (passages,) each passage's document, 0, 1, …; every document has a passage
    """
    numbers, rows = np.unique(clusters, return_inverse=True)
    preferred = np.lexsort((np.abs(numbers), numbers < 0))
    place = np.argsort(preferred)  # of each number in that order
    pairs, counts = np.unique(owners * numbers.size + place[rows], return_counts=True)
    of_document = pairs // numbers.size
    order = np.lexsort((-counts, of_document))  # of those with equal counts the preferred one stays first
    firsts = np.searchsorted(of_document, np.arange(of_document[-1] + 1 if pairs.size else 0))
    found: NDArray[np.int32] = numbers[preferred[pairs[order[firsts]] % numbers.size]]
    return found


def _table(
    clusters: NDArray[np.int32], periods: NDArray[np.int64], width: int
) -> tuple[list[int], NDArray[np.int64]]:
    """The cluster numbers, and the count of each in each period."""
    numbers, rows = np.unique(clusters, return_inverse=True)
    cells = np.bincount(rows * width + periods, minlength=numbers.size * width)
    return numbers.tolist(), cells.reshape(numbers.size, width).astype(np.int64)


def _row(
    number: int, counts: NDArray[np.int64], totals: NDArray[np.int64], names: Mapping[int, str]
) -> ClusterThroughTime:
    outside = number == OUTSIDE
    return ClusterThroughTime(
        number=None if outside else number,
        name="in no cluster" if outside else names.get(number, str(number)),
        counts=tuple(counts.tolist()),
        total=int(counts.sum()),
        trend=trend(counts, totals),
    )


def _notes(
    collection: str, field: str, period: Period, coarse: int, later: int, counted: Counted
) -> tuple[str, ...]:
    notes = []
    if coarse:
        documents = "document" if coarse == 1 else "documents"
        notes.append(f"not counted: {coarse:,} {documents} whose {field} is coarser than a {period}")
    if later:
        notes.append(
            f"not counted, because added after the clustering: {later:,} {counted}. "
            f"Assign them: nearsay explore clusters {collection} --assign"
        )
    return tuple(notes)


_DASHES: Final = ("-", "--", ":")  # each is used with all colours
_REST: Final = "0.75"
_NAME = 42  # characters of a name on a line of the legend
_TICKS = 16


def time_figure(found: ThroughTime, top: int) -> "Figure":
    """Draw the `top` largest clusters, and the rest together.

    The upper chart stacks the counts of each period, the lower one shows the shares as lines; the legend
    marks growing and shrinking clusters.
    """
    from matplotlib.figure import Figure

    shown = found.clusters[:top]
    rest = found.every[len(shown) :]
    totals = np.array(found.totals, dtype=np.float64)
    places = np.arange(totals.size)
    figure = Figure(figsize=(12.0, 7.5), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 3))
    height = np.zeros_like(totals)
    handles, labels = [], []
    for at, each in enumerate(shown):
        colour, dash = _look(at)
        counts = np.array(each.counts, dtype=np.float64)
        above.bar(places, counts, 1.0, bottom=height, color=colour, linewidth=0)
        (line,) = below.plot(
            places, _share(counts, totals), color=colour, linestyle=dash, marker=".", linewidth=1.6
        )
        height += counts
        handles.append(line)
        labels.append(_label(each))
    if rest:
        together = np.sum([each.counts for each in rest], axis=0).astype(np.float64)
        bars = above.bar(places, together, 1.0, bottom=height, color=_REST, linewidth=0)
        handles.append(bars[0])
        labels.append(_rest_label(found, rest))
    _axes(above, below, found)
    dated = "" if found.field == found.by else f", dated by {found.field}"
    figure.suptitle(f"{found.collection}: {found.counted} by {found.by}{dated}")
    figure.legend(handles, labels, loc="outside right center", fontsize="small", frameon=False)
    return figure


def _axes(above: "Axes", below: "Axes", found: ThroughTime) -> None:
    from matplotlib.ticker import PercentFormatter

    above.set_ylabel(str(found.counted))
    below.set_ylabel("share of all in the period")
    below.yaxis.set_major_formatter(PercentFormatter(1.0))
    below.set_ylim(bottom=0.0)
    every = -(-len(found.periods) // _TICKS)
    places = range(0, len(found.periods), every)
    below.set_xticks(list(places), [found.periods[at] for at in places])
    if found.by != "year":
        below.tick_params(axis="x", labelrotation=45)
    for axes in (above, below):
        axes.grid(axis="y", color="0.93")
        axes.set_axisbelow(True)


def _share(counts: NDArray[np.float64], totals: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(counts, totals, out=np.full_like(totals, np.nan), where=totals > 0)


def _look(at: int) -> tuple[str, str]:
    return COLOURS[at % len(COLOURS)], _DASHES[at // len(COLOURS) % len(_DASHES)]


def _label(each: ClusterThroughTime) -> str:
    mark = " ▲" if each.trend.grows else " ▼" if each.trend.shrinks else ""
    name = beginning(each.name, 2 * _NAME)
    text = "\n".join(textwrap.wrap(name, _NAME)) + f" ({each.total:,}){mark}"
    return " " * text.startswith("_") + text  # matplotlib omits labels that begin with _


def _rest_label(found: ThroughTime, rest: Sequence[ClusterThroughTime]) -> str:
    total = sum(each.total for each in rest)
    clusters = sum(each.number is not None for each in rest)
    parts = [f"{clusters} more clusters"] if clusters else []
    parts += ["in no cluster"] if found.outside.total else []
    return f"{' and '.join(parts)} ({total:,})"


SHOWN: Final = 8  # clusters shown in the picture; the others are shown together
FORMATS: Final = (*PICTURES, "csv", "jsonl")
_MOST_SHOWN = 24


def write_over_time(found: ThroughTime, path: Path, *, top: int = SHOWN) -> None:
    """Write the picture with the `top` largest clusters, or the table of all, atomically.

    The table has a row for each cluster and period: period, cluster, name, count, share of the period.
    """
    kind = ending_of(path, *FORMATS)
    if kind in PICTURES:
        if not 1 <= top <= _MOST_SHOWN:
            raise BadInputError(
                f"a picture cannot show {top} clusters. Give a number from 1 to {_MOST_SHOWN}"
            )
        write_picture(path, lambda: time_figure(found, top))
    elif kind == "jsonl":
        write_lines(found.rows(), path)
    else:
        write_csv(
            found.rows(), ["period", "cluster", "name", str(found.counted), "share"], path, defuse=False
        )
