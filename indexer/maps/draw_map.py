"""Update a collection's map and write it to a file."""

import base64
import datetime as dt
import gzip
import hashlib
import html
import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.durable import ending_of, replacing
from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.data.picture import PICTURES, write_picture
from nearsay.data.report import Report
from nearsay.indexer.filters.parse import Where, parse
from nearsay.indexer.maps.drawing import (
    CLUSTER,
    RAMP,
    REST,
    Drawing,
    Field,
    FieldKind,
    Legend,
    cluster_legend,
    drawing,
    field_legend,
    map_content,
)
from nearsay.indexer.maps.mapping import current_map
from nearsay.indexer.neighbours.points import Explored
from nearsay.indexer.query.export import write_csv, write_lines
from nearsay.indexer.vectors.progress import ProgressListener, unheard

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH: Final = 13.0  # inches
_HEIGHTS: Final = (5.5, 11.0)
_BESIDE: Final = 3.6  # inches for the legend
_PLAIN: Final = "#3b6fb6"
_MOST_NAMES = 60  # names tried on the map; those that would overlap a larger cluster's are skipped
_MOST_IN_LEGEND = 34
_RASTER = 5_000  # points; more are a bitmap inside an .svg
_INK: Final = "#1d1f23"


def map_figure(drawn: Drawing) -> "Figure":
    """Draw the map as a matplotlib figure."""
    from matplotlib.figure import Figure

    low, high = _inner(drawn.places)
    height = float(np.clip((_WIDTH - _BESIDE) * (high - low)[1] / (high - low)[0] + 0.8, *_HEIGHTS))
    figure = Figure(figsize=(_WIDTH, height), facecolor="white")
    axes = figure.add_axes((0.01, 0.02, 1.0 - _BESIDE / _WIDTH, 0.92))
    title = _plain(f"{drawn.collection}: {drawn.about}", 150)
    axes.set_title(title, loc="left", fontsize=13, color=_INK)
    axes.set_aspect("equal", adjustable="box", anchor="W")
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    field = drawn.field
    legend = None
    if field is not None and field.kind is FieldKind.CATEGORY:
        legend = field_legend(drawn, field)
    elif drawn.colour_by == CLUSTER:
        legend = cluster_legend(drawn)
    if legend is not None:
        _by_category(axes, drawn, legend)
    elif field is not None:
        _by_number(figure, axes, drawn, field)
    else:
        _points(axes, drawn.places, _PLAIN, len(drawn))
    named = legend if legend is not None and legend.names else cluster_legend(drawn)
    if named is not None:
        _names(figure, axes, named)
    return figure


def _inner(places: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high = np.quantile(places.astype(np.float64), (0.001, 0.999), axis=0, method="inverted_cdf")
    margin = np.maximum(0.04 * (high - low), 1e-3)
    return low - margin, high + margin


def _points(axes: "Axes", places: NDArray[np.float32], colour: Any, total: int, **more: Any) -> Any:  # noqa: ANN401
    size = float(np.clip(70_000 / max(total, 1), 0.9, 26.0))
    opacity = float(np.clip(12 / np.log2(max(total, 2)) - 0.32, 0.35, 0.9))
    drawn: dict[str, Any] = {"alpha": opacity, "linewidths": 0, "rasterized": total > _RASTER}
    return axes.scatter(places[:, 0], places[:, 1], s=size, c=colour, **drawn, **more)


def _by_number(figure: "Figure", axes: "Axes", drawn: Drawing, field: Field) -> None:
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.ticker import MaxNLocator

    there = ~np.isnan(field.numbers)
    _points(axes, drawn.places[~there], REST, len(drawn))
    colours = LinearSegmentedColormap.from_list("ramp", list(RAMP))
    low, high = field.span
    shown = _points(
        axes, drawn.places[there], field.numbers[there], len(drawn), cmap=colours, vmin=low, vmax=high
    )
    beside = figure.add_axes((1.02 - _BESIDE / _WIDTH, 0.25, 0.018, 0.5))
    bar = figure.colorbar(shown, cax=beside, extend=_beyond(field, low, high))
    bar.ax.set_ylabel(_plain(field.name, 40))
    if bar.solids is not None:
        bar.solids.set_alpha(1)
    if field.kind is FieldKind.DATE:
        bar.ax.yaxis.set_major_formatter(lambda days, _: _day_text(days))
    elif not (field.numbers[there] % 1.0).any():  # no ticks between integers
        bar.ax.yaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        bar.ax.yaxis.set_major_formatter(lambda number, _: f"{number:.0f}")


def _beyond(field: Field, low: float, high: float) -> Literal["neither", "both", "min", "max"]:
    below, above = bool(np.nanmin(field.numbers) < low), bool(np.nanmax(field.numbers) > high)
    if below:
        return "both" if above else "min"
    return "max" if above else "neither"


def _by_category(axes: "Axes", drawn: Drawing, legend: Legend) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.lines import Line2D

    codes, rest = legend.codes, legend.codes < 0
    _points(axes, drawn.places[rest], REST, len(drawn))
    table = np.array([to_rgb(colour) for colour in legend.colours]).reshape(-1, 3)
    _points(axes, drawn.places[~rest], table[codes[~rest]], len(drawn))
    counts = np.bincount(codes[~rest], minlength=len(legend.texts))
    entries = [
        Line2D([], [], marker="o", linestyle="", color=colour, label=f"{_plain(name, 34)}  {count:,}")
        for name, colour, count in zip(legend.texts, legend.colours, counts.tolist(), strict=True)
    ]
    if len(entries) > _MOST_IN_LEGEND:
        left = int(counts[_MOST_IN_LEGEND - 1 :].sum())
        more = f"{len(entries) - _MOST_IN_LEGEND + 1} more  {left:,}"
        entries = [*entries[: _MOST_IN_LEGEND - 1], Line2D([], [], linestyle="", label=more)]
    if rest.any():
        missing = f"{legend.missing}  {int(rest.sum()):,}"
        entries.append(Line2D([], [], marker="o", linestyle="", color=REST, label=missing))
    axes.legend(
        handles=entries,
        title=_plain(drawn.colour_by or "", 40),
        loc="center left",
        bbox_to_anchor=(1.0, 0.5),
        borderaxespad=0.5,
        frameon=False,
        fontsize=9,
        alignment="left",
    )


def _names(figure: "Figure", axes: "Axes", legend: Legend) -> None:
    """Draw names at their points' medians, the largest first, skipping those that would overlap."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patheffects import withStroke

    if not legend.names:
        return
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]  # determines the positions
    taken: list[Any] = []
    largest = legend.names[0].size
    for name in legend.names[:_MOST_NAMES]:
        text = axes.text(
            name.x,
            name.y,
            _wrapped(name.name),
            fontsize=7.5 + 3.0 * float(np.sqrt(name.size / largest)),
            fontweight="bold",
            color=_INK,
            ha="center",
            va="center",
            linespacing=1.05,
            path_effects=[withStroke(linewidth=2.6, foreground="white")],
            in_layout=False,
        )
        box = text.get_window_extent().padded(2.0)
        right = _inwards(box.x0, box.x1, *axes.bbox.intervalx)
        up = _inwards(box.y0, box.y1, *axes.bbox.intervaly)
        if right or up:  # the name would overlap the legend or the edge
            x, y = axes.transData.transform((name.x, name.y)).tolist()
            x, y = axes.transData.inverted().transform((x + right, y + up)).tolist()
            text.set_position((x, y))
            box = box.translated(right, up)
        if any(box.overlaps(other) for other in taken):
            text.remove()
        else:
            taken.append(box)


def _inwards(low: float, high: float, least: float, most: float) -> float:
    """The shift that moves the interval low to high into least to most."""
    return max(least - low, 0.0) - max(high - most, 0.0)


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(_plain(name, 60), 24, max_lines=2, placeholder=" …")) or "?"


def _plain(text: str, length: int) -> str:
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def _day_text(days: float) -> str:
    """The date as ISO 8601; empty beyond the calendar, where an axis may have ticks."""
    day = round(days) + dt.date(1970, 1, 1).toordinal()
    return dt.date.fromordinal(day).isoformat() if 1 <= day <= dt.date.max.toordinal() else ""


COLUMNS = ("passage", "id", "title", "text", "x", "y", "cluster", "cluster_name", "metadata")
_ROW_GROUP = 50_000


def write_parquet(drawn: Drawing, stream: BinaryIO) -> None:
    """Write a row for each passage; `metadata` is JSON, and each field a column, too.

    Raises MissingExtraError without pyarrow.
    """
    arrow = parquet_module()
    from pyarrow.parquet import ParquetWriter

    types = {"passage": arrow.int64(), "x": arrow.float32(), "y": arrow.float32(), "cluster": arrow.int32()}
    named = ((f"metadata.{it.name}" if it.name.lower() in COLUMNS else it.name, it) for it in drawn.fields)
    fields = {name: arrow.array(_values(field), from_pandas=True) for name, field in named}
    types |= {name: values.type for name, values in fields.items()}
    schema = arrow.schema([(name, types.get(name, arrow.string())) for name in (*COLUMNS, *fields)])
    begin = 0
    with ParquetWriter(stream, schema) as writer:
        for rows in _groups(_rows(drawn)):
            columns = {name: [row[name] for row in rows] for name in COLUMNS}
            columns["metadata"] = [_json(each) for each in columns["metadata"]]
            columns |= {name: values.slice(begin, len(rows)) for name, values in fields.items()}
            writer.write_table(arrow.table(columns, schema=schema))
            begin += len(rows)


def _values(field: Field) -> NDArray[Any]:
    if field.kind is FieldKind.CATEGORY:
        return np.array([*field.values, None], dtype=object)[field.codes]  # -1 is the last: None
    return field.numbers if field.kind is FieldKind.NUMBER else field.numbers.astype("datetime64[D]")


def parquet_module() -> Any:  # noqa: ANN401 - pyarrow has no types
    """Import pyarrow; raises MissingExtraError if it is not installed."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("Writing Parquet files", "parquet") from error
    return pa


def _rows(drawn: Drawing) -> Iterator[dict[str, Any]]:
    names = {label.number: label.name for label in drawn.labels}
    clusters = [-1] * len(drawn) if drawn.clusters is None else drawn.clusters.tolist()
    for number, (x, y), row, cluster in zip(
        drawn.ids.tolist(), drawn.places.tolist(), drawn.rows, clusters, strict=True
    ):
        yield {
            "passage": number,
            "id": row.document_id,
            "title": row.title,
            "text": row.text,
            "x": x,
            "y": y,
            "cluster": None if cluster < 0 else cluster,
            "cluster_name": names.get(cluster),
            "metadata": dict(row.metadata),
        }


def _groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while group := list(islice(rows, _ROW_GROUP)):
        yield group


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# A map as a self-contained page: no server, no network.
#
# Passages are compressed JSON in base 64, which the script shows as text, never as markup. The page's content
# security policy allows no requests, and no script but its own.


MOST_POINTS = 250_000  # a page of more would be slow to open
_CHARACTERS = 20_000_000  # of text in all, some 10 MB once compressed
_PREVIEW = (60, 600)  # least and most characters of a passage
LONGEST = _PREVIEW[1] + 1  # characters of a text that a page needs, to see whether it is cut


def preview_length(points: int) -> int:
    """The number of characters to show of each passage, so that the page stays small."""
    return min(max(_CHARACTERS // max(points, 1), _PREVIEW[0]), _PREVIEW[1])


def map_page(drawn: Drawing) -> bytes:
    """The map as an HTML page in UTF-8."""
    script, style = (_part(f"map_view.{kind}") + _part(f"page.{kind}") for kind in ("js", "css"))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; "
        "form-action 'none'"
    )
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(f"{drawn.collection}: map"),
        "style": style,
        "data": _packed(_content(drawn)),
        "script": script,
    }
    page = _part("page.html")
    for name, part in parts.items():
        before, after = page.split(f"@{name}@", 1)
        page = before + part + after
    return page.encode()


def _part(name: str) -> str:
    return files("nearsay.indexer.maps").joinpath(name).read_text("utf-8")


def _hash(part: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()}'"


def _packed(content: dict[str, Any]) -> str:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_listed)
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode()


def _listed(values: NDArray[Any]) -> list[int | float | None]:
    numbers = [None if each != each else each for each in values.tolist()]  # noqa: PLR0124 - NaN
    return [int(each) if each is not None and float(each).is_integer() else each for each in numbers]


def _content(drawn: Drawing) -> dict[str, Any]:
    length = preview_length(len(drawn))
    content = map_content(drawn, title_length=length, text_length=length)
    for axis in ("x", "y"):
        content[axis] = np.round(content[axis].astype(float), 4)
    if any(len(row.text) > length for row in drawn.rows):
        content["notes"].append(f"Texts are cut to {length} characters; the page searches only these.")
    return content


_POINTS_AN_INCH = 160


class MapFormat(StrEnum):
    """File formats by extension."""

    HTML = "html"
    PNG = "png"
    SVG = "svg"
    PARQUET = "parquet"
    CSV = "csv"
    JSON_LINES = "jsonl"


def map_format(path: Path) -> MapFormat:
    """The format by the file's extension.

    Raises BadInputError for an unknown extension, a folder, or a file in a missing folder, and
    MissingExtraError for .parquet without pyarrow.
    """
    found = MapFormat(ending_of(path, *MapFormat))
    if path.is_dir():
        raise BadInputError(f"{path} is a folder. Give a file in it: {path / 'map.html'}")
    if not path.parent.is_dir():
        raise BadInputError(f"the folder {path.parent} does not exist. Create it: mkdir -p {path.parent}")
    if found is MapFormat.PARQUET:
        parquet_module()
    return found


def write_drawing(drawn: Drawing, path: Path) -> int:
    """Write the map to a file, atomically; returns the file's size in bytes."""
    kind = map_format(path)
    if kind in PICTURES:
        write_picture(path, lambda: map_figure(drawn), dpi=_POINTS_AN_INCH, tight=True)
        return path.stat().st_size
    with replacing(path) as stream:
        if kind is MapFormat.HTML:
            stream.write(map_page(drawn))
        elif kind is MapFormat.PARQUET:
            write_parquet(drawn, stream)
        elif kind is MapFormat.CSV:
            rows = (row | {"metadata": _json(row["metadata"])} for row in _rows(drawn))
            write_csv(rows, COLUMNS, stream, defuse=False)
        else:
            write_lines(_rows(drawn), stream)
    return path.stat().st_size


@dataclass(frozen=True, slots=True)
class MapReport(Report):
    """The written map and its file."""

    REPORT: ClassVar = "map"

    collection: str
    generation: int
    out: str | None  # None: no file was written
    bytes: int
    drawn: int  # passages in the file
    mapped: int  # passages on the map
    laid_out: bool  # whether this call laid the map out
    added: int  # passages that this call projected into the map
    clusters: int  # named on the map
    colour_by: str | None
    parameters: dict[str, JsonValue]
    notes: tuple[str, ...]


def draw_map(
    explored: Explored,
    out: str | Path | None,
    *,
    where: Where | None = None,
    colour_by: str | None = None,
    anew: bool = False,
    seed: int | None = None,
    progress: ProgressListener = unheard,
) -> MapReport:
    """Write the map to a file: .html (self-contained), .png, .svg, .parquet, .csv or .jsonl.

    out:       None = only update the saved map
    where:     draw only matching passages; the map covers the whole collection
    colour_by: "cluster" or a metadata field; None = clusters, if there are any
    anew:      lay the map out again
    seed:      of the layout

    An invalid path or filter raises an error before the layout.
    """
    out = None if out is None else Path(out)
    kind = None if out is None else map_format(out)
    if where is not None:
        parse(where)
    found = current_map(explored, anew=anew, seed=seed, progress=progress)
    report = MapReport(
        found.collection,
        found.generation,
        out=None if out is None else str(out),
        bytes=0,
        drawn=0,
        mapped=len(found),
        laid_out=found.new,
        added=found.added,
        clusters=0,
        colour_by=None,
        parameters=found.parameters,
        notes=found.notes,
    )
    if out is None or kind is None:
        return report
    most = MOST_POINTS if kind is MapFormat.HTML else None
    longest = {MapFormat.HTML: LONGEST, MapFormat.PNG: 0, MapFormat.SVG: 0}.get(kind)
    drawn = drawing(
        explored, found, where=where, colour_by=colour_by, most=most, longest=longest, progress=progress
    )
    return replace(
        report,
        bytes=write_drawing(drawn, out),
        drawn=len(drawn),
        clusters=len(drawn.labels),
        colour_by=drawn.colour_by,
        notes=drawn.notes,
    )
