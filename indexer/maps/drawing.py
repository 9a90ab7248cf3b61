"""The contents of a drawn map: matching points with their texts, metadata, clusters and colours."""

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.clusters.clustered import SavedClusters
from nearsay.indexer.clusters.current import saved_clustering
from nearsay.indexer.filters.fields import value_at
from nearsay.indexer.filters.parse import Where, parse_field
from nearsay.indexer.maps.mapping import Map
from nearsay.indexer.neighbours.points import Explored
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.vector_store import places_in


def sampled(ids: NDArray[np.int64], most: int, seed: int = 0) -> NDArray[np.int64]:
    """A random sample of at most this many ids, ascending; the same for the same seed."""
    if ids.size <= most:
        return ids
    return np.sort(np.random.default_rng(seed).choice(ids, most, replace=False))


_BLANK = "(empty)"
_LONGEST = 120  # characters of a value
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:$|[T ])")
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d+)?$")
_MOST_EXACT = 2**53  # larger integers are identifiers, and JavaScript would round them
_MOST = 1e100  # of other numbers, to avoid overflow
_EPOCH = dt.date(1970, 1, 1).toordinal()


class FieldKind(StrEnum):
    """The type of a field's values."""

    CATEGORY = "category"
    NUMBER = "number"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class Field:
    """A field's value for each passage."""

    name: str
    kind: FieldKind
    values: tuple[str, ...]  # of categories: by descending frequency, ties by name
    codes: NDArray[np.int32]  # (n,) indices into `values`, -1 = missing; empty for numbers and dates
    numbers: NDArray[np.float64]  # (n,) for dates, days since 1970; NaN = missing; empty for categories

    @property
    def missing(self) -> int:
        """The number of passages without a value."""
        missing = self.codes < 0 if self.kind is FieldKind.CATEGORY else np.isnan(self.numbers)
        return int(missing.sum())

    @property
    def span(self) -> tuple[float, float]:
        """The range of the colour scale for numbers and dates, without a hundredth at either end."""
        low, high = np.nanquantile(self.numbers, (0.01, 0.99), method="inverted_cdf").tolist()
        return low, high


def field_of(name: str, found: Sequence[JsonValue]) -> Field:
    """The field with these values; None = missing.

    It holds numbers if all values are numbers or numeric text (years are often text), dates if all begin like
    2024-05-17, and categories otherwise: truth values, lists, and integers beyond 2^53, which are mostly
    identifiers.
    """
    there = [value for value in found if value is not None]
    empty = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.float64)
    if there and all(_is_number(value) for value in there):
        numbers = np.array([np.nan if value is None else float(str(value)) for value in found])
        return Field(name, FieldKind.NUMBER, (), empty[0], numbers)
    days = [_day(value) for value in found]
    if there and sum(day is not None for day in days) == len(there):
        numbers = np.array([np.nan if day is None else day for day in days], dtype=np.float64)
        return Field(name, FieldKind.DATE, (), empty[0], numbers)
    texts = [None if value is None else _text(value) for value in found]
    counted = Counter(text for text in texts if text is not None)
    values = tuple(sorted(counted, key=lambda text: (-counted[text], text)))
    code = {text: at for at, text in enumerate(values)}
    codes = np.array([-1 if text is None else code[text] for text in texts], dtype=np.int32)
    return Field(name, FieldKind.CATEGORY, values, codes, empty[1])


def _is_number(value: JsonValue) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, str):
        return _NUMBER.match(value) is not None
    if isinstance(value, int):
        return abs(value) <= _MOST_EXACT
    return isinstance(value, float) and abs(value) <= _MOST


def _day(value: JsonValue) -> float | None:
    if not isinstance(value, str) or not _DAY.match(value):
        return None
    try:
        return float(dt.date.fromisoformat(value[:10]).toordinal() - _EPOCH)
    except ValueError:
        return None


def _text(value: JsonValue) -> str:
    if isinstance(value, list):
        text = ", ".join(_text(each) for each in value)
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not text.strip():
        return _BLANK
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


CLUSTER = "cluster"  # colour by clusters; a metadata field of that name is metadata.cluster
_PAGE = 2000
_MOST_FIELDS = 60  # of metadata, whose field names may differ in each document


@dataclass(frozen=True, slots=True)
class ClusterLabel:
    """The name of a cluster or a field's value, and its position on the map."""

    number: int
    name: str
    size: int  # drawn passages
    x: float  # the median of its points
    y: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """The points of a drawn map, by ascending passage number."""

    collection: str
    about: str  # a one-line description
    ids: NDArray[np.int64]  # (n,) passage numbers
    places: NDArray[np.float32]  # (n, 2)
    rows: Sequence[PassageRow]  # (n,)
    clusters: NDArray[np.int32] | None  # (n,) cluster numbers, -1 = outlier; None without a clustering
    labels: tuple[ClusterLabel, ...]  # by descending size, ties by number
    fields: tuple[Field, ...]  # of the metadata
    colour_by: str | None  # CLUSTER, a field's name, or None = one colour
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return int(self.ids.size)

    @property
    def field(self) -> Field | None:
        """The metadata field that colours the points, if any."""
        return next((field for field in self.fields if field.name == self.colour_by), None)


def drawing(
    explored: Explored,
    found: Map,
    *,
    where: Where | None = None,
    colour_by: str | None = None,
    most: int | None = None,
    longest: int | None = None,
    progress: ProgressListener = unheard,
) -> Drawing:
    """Select the points of a map to draw, with their texts, metadata and clusters.

    colour_by: "cluster" or a metadata field; None = clusters, if there are any
    most:      draw at most this many points, a fixed random sample; None = all
    longest:   characters to keep of each text; None = all

    Raises BadInputError for a field without values, and if no passage matches the filter.
    """
    notes = list(found.notes)
    ids, places = found.points.ids, found.points.places
    snapshot = explored.snapshot()
    allowed = explored.allowed(snapshot, where)
    chosen = ids if allowed is None else ids[np.isin(ids, allowed, assume_unique=True)]
    if most is not None and chosen.size > most:
        notes.append(f"{most:,} of {chosen.size:,} passages are drawn, a random sample.")
        chosen = sampled(chosen, most)
    rows = _rows(explored, snapshot.collection.id, chosen, longest, progress)
    there = np.isin(ids, np.fromiter(rows, dtype=np.int64, count=len(rows)))
    ids, places = ids[there], places[there]
    if not ids.size:
        raise BadInputError(
            f"no passage of collection '{explored.name}' matches the filter {where!r}. Give another: --where"
        )
    ordered = [rows[number] for number in ids.tolist()]
    saved = saved_clustering(explored)
    clusters, labels = _clusters(saved, ids, places)
    fields, left_out = _fields(ordered, colour_by)
    if left_out:
        notes.append(f"the {_MOST_FIELDS} most frequent metadata fields are shown, {left_out:,} are not.")
    if clusters is None:
        if colour_by == CLUSTER:
            raise BadInputError(
                f"collection '{explored.name}' has no clusters to colour by. "
                f"Find them: nearsay explore clusters {explored.name}"
            )
        notes.append(f"there are no clusters yet. Find them: nearsay explore clusters {explored.name}")
    newer = 0 if saved is None else int((ids > saved.row.through).sum())
    if newer:
        remedy = f"nearsay explore clusters {explored.name} --replace"
        notes.append(f"{counted(newer, 'passage')} added after the clustering. Include them: {remedy}")
    if colour_by is None and clusters is not None:
        colour_by = CLUSTER
    about = counted(ids.size, "passage")
    if where is not None:
        about += f" of {len(found):,}, where {where}"
    return Drawing(
        explored.name, about, ids, places, ordered, clusters, labels, fields, colour_by, tuple(notes)
    )


def _rows(
    explored: Explored,
    collection_id: int,
    ids: NDArray[np.int64],
    longest: int | None,
    listener: ProgressListener,
) -> dict[int, PassageRow]:
    rows: dict[int, PassageRow] = {}
    for begin in range(0, ids.size, _PAGE):
        with explored.store.database.reading() as connection:
            some = ids[begin : begin + _PAGE].tolist()
            rows |= passages.read_passages(connection, collection_id, some, longest=longest)
        listener(Progress(min(begin + _PAGE, ids.size), ids.size, "reading", "passages"))
    return rows


def _clusters(
    saved: SavedClusters | None, ids: NDArray[np.int64], places: NDArray[np.float32]
) -> tuple[NDArray[np.int32] | None, tuple[ClusterLabel, ...]]:
    if saved is None:
        return None, ()
    at = places_in(saved.ids, ids)
    numbers = np.full(ids.size, -1, dtype=np.int32)
    numbers[at >= 0] = saved.numbers[at[at >= 0]]
    return numbers, _labels(numbers, places, saved.names)


def _labels(
    numbers: NDArray[np.int32], places: NDArray[np.float32], names: Mapping[int, str]
) -> tuple[ClusterLabel, ...]:
    labels = (
        _label(number, names.get(number) or f"cluster {number}", places[numbers == number])
        for number in np.unique(numbers[numbers >= 0]).tolist()
    )
    return tuple(sorted(labels, key=lambda label: (-label.size, label.number)))


def _label(number: int, name: str, inside: NDArray[np.float32]) -> ClusterLabel:
    """A label at the median of its points; inside: (n, 2)."""
    x, y = np.median(inside, axis=0).tolist()
    return ClusterLabel(number, name, len(inside), x, y)


def _fields(rows: Sequence[PassageRow], colour_by: str | None) -> tuple[tuple[Field, ...], int]:
    """The most frequent top-level metadata fields in the order in which they occur, and `colour_by`.

    Also returns the number of omitted fields.
    """
    counted = Counter(name for row in rows for name in row.metadata)
    commonest = {name for name, _ in counted.most_common(_MOST_FIELDS)}
    names = [name for name in counted if name in commonest or _shown(name) == colour_by]
    paths: dict[str, Sequence[str]] = {_shown(name): (name,) for name in names}
    if colour_by is not None and colour_by not in paths and colour_by != CLUSTER:
        paths[colour_by] = parse_field(colour_by)
    fields = []
    for name, path in paths.items():
        values: list[JsonValue] = [value_at(row.metadata, path) for row in rows]
        if any(value is not None for value in values):
            fields.append(field_of(name, values))
        elif name == colour_by:
            known = ", ".join(_shown(name) for name in names) or "none"
            raise BadInputError(f"no drawn passage has a field '{colour_by}'. The fields are: {known}")
    return tuple(fields), len(counted) - len(names)


def _shown(name: str) -> str:
    return f"metadata.{name}" if name == CLUSTER else name


REST: Final = "#a3a7ae"  # missing values and outliers
OTHERS: Final = "#7d828a"  # values that share a colour
# Viridis, https://bids.github.io/colormap/, without its darkest end, for dark backgrounds.
RAMP: Final = ("#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")


# Simulated protanopia and deuteranopia in linear RGB: Machado, Oliveira and Fernandes 2009,
# https://doi.org/10.1109/TVCG.2009.113, severity 1.
_NO_RED: Final = (
    (0.152286, 1.052583, -0.204868),
    (0.114503, 0.786281, 0.099216),
    (-0.003882, -0.048116, 1.051998),
)
_NO_GREEN: Final = (
    (0.367322, 0.860646, -0.227968),
    (0.280085, 0.672501, 0.047413),
    (-0.011820, 0.042940, 0.968881),
)


def _oklab(srgb: NDArray[np.float64], seen: Sequence[Sequence[float]] | None = None) -> NDArray[np.float64]:
    """Convert colours (n, 3), 0 to 1, to Oklab, a space of perceptual distances, (n, 3).

    seen: matrix that simulates a colour vision deficiency in linear RGB; None = full vision

    Ottosson 2020, https://bottosson.github.io/posts/oklab/
    """
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    if seen is not None:
        linear = np.clip(linear @ np.array(seen).T, 0, 1)
    to_cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    to_lab = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    lab: NDArray[np.float64] = np.cbrt(linear @ np.array(to_cones).T) @ np.array(to_lab).T
    return lab


def _shades(count: int) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Three of Tableau's colours, then greedily the most distinct others; and the similarity of each two.

    The distance of two colours is that of full vision, or three times that of protanopia or deuteranopia if
    less. Their similarity is the mean of the similarities by this distance and by full vision. Colours that
    are too light, too dark, nearly grey or very saturated are excluded.
    """
    steps = np.arange(0, 256, 15)
    every = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(-1, 3)
    lightness, *rest = _oklab(every / 255).T
    chroma = np.hypot(*rest)
    every = every[(lightness > 0.44) & (lightness < 0.83) & (chroma > 0.05) & (chroma < 0.2)]
    every = np.concatenate(([[78, 121, 167], [242, 142, 43], [225, 87, 89]], every))
    lab = np.stack([_oklab(every / 255), *(3 * _oklab(every / 255, seen) for seen in (_NO_RED, _NO_GREEN))])

    def apart_from(one: int) -> NDArray[np.float64]:
        away: NDArray[np.float64] = np.linalg.norm(lab - lab[:, one, None], axis=-1).min(axis=0)
        return away

    taken = [0, 1, 2]
    away = np.min([apart_from(one) for one in taken], axis=0)
    while len(taken) < count:
        taken.append(int(away.argmax()))
        away = np.minimum(away, apart_from(taken[-1]))
    apart = np.stack([apart_from(one)[taken] for one in taken])
    in_full = np.linalg.norm(lab[0, taken][:, None] - lab[0, taken], axis=-1)
    shades = tuple(f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in every[taken].tolist())
    return shades, (np.exp(-((apart / _ALIKE_WITHIN) ** 2)) + np.exp(-((in_full / _ALIKE_WITHIN) ** 2))) / 2


_ALIKE_WITHIN = 0.09  # distance in Oklab that is visible at the size of a point
_NEAR = 0.1  # share of the map's diagonal within which clusters are seen together
_SWAPS = 2 * 10**7  # pairs evaluated: half a second
_ARRANGED = 1024  # clusters at a time: time and memory grow with their square
SHADES, _ALIKE = _shades(64)
CATEGORIES = SHADES[:18]  # of the most frequent values of a field; the others share one


def spread_colours(middles: Sequence[tuple[float, float]]) -> list[str]:
    """A colour for each cluster, such that clusters seen together get the least similar shades.

    middles: the clusters' positions. Seen together are those near each other on the map, or in the legend,
             which has the same order. n clusters take the first n shades, repeated if there are more clusters
             than shades; then the pair with the greatest gain swaps shades, until no swap gains. More than
             1,024 clusters are arranged in parts.
    """
    if len(middles) > _ARRANGED:
        parts = (middles[begin : begin + _ARRANGED] for begin in range(0, len(middles), _ARRANGED))
        return [colour for part in parts for colour in spread_colours(part)]
    places: NDArray[np.float64] = np.asarray(middles, dtype=np.float64).reshape(-1, 2)
    count = len(places)
    if not count:
        return []
    reach = max(_NEAR * float(np.hypot(*np.ptp(places, axis=0))), 1e-9)
    away = np.hypot(*(places[:, None] - places).transpose(2, 0, 1)) / reach
    beside = np.abs(np.subtract.outer(np.arange(count), np.arange(count)))
    together = np.exp(-(away**2)) + np.where(beside < 3, 1 / np.maximum(beside, 1), 0.0)
    np.fill_diagonal(together, 0.0)
    shade = np.arange(count) % len(SHADES)
    cost = together @ _ALIKE[np.ix_(shade, shade)]  # of each cluster's neighbours to each shade
    for _ in range(_SWAPS // count**2):
        alike = _ALIKE[np.ix_(shade, shade)]
        own = np.diagonal(cost)
        change = cost + cost.T - own - own[:, None] - 2 * together * (1 - alike)
        i, j = np.unravel_index(change.argmin(), change.shape)
        if change[i, j] > -1e-9:
            break
        cost += np.outer(together[:, j] - together[:, i], alike[i] - alike[j])
        cost[:, [i, j]] = cost[:, [j, i]]
        shade[[i, j]] = shade[[j, i]]
    return [SHADES[at] for at in shade]


_NAMED = 60  # values up to which each has a name and a colour on the map


@dataclass(frozen=True, slots=True)
class Legend:
    """Categories by descending size."""

    codes: NDArray[np.int32]  # (n,) the category of each point; -1 = missing
    texts: tuple[str, ...]  # the name of each category
    colours: tuple[str, ...]  # of each category
    missing: str  # the name of -1
    names: tuple[ClusterLabel, ...]  # on the map, by descending size; `number` is the code


def cluster_legend(drawn: Drawing) -> Legend | None:
    """The name and colour of each cluster; None without a clustering."""
    if drawn.clusters is None:
        return None
    code = {label.number: at for at, label in enumerate(drawn.labels)}
    codes = np.array([code.get(number, -1) for number in drawn.clusters.tolist()], dtype=np.int32)
    names = tuple(replace(label, number=at) for at, label in enumerate(drawn.labels))
    texts = tuple(label.name for label in drawn.labels)
    return Legend(codes, texts, _colours(names), "in no cluster", names)


def cluster_colours(drawn: Drawing) -> dict[int | None, str]:
    """The colour of each cluster by its number; empty without a clustering."""
    legend = cluster_legend(drawn)
    if legend is None:
        return {}
    return {label.number: colour for label, colour in zip(drawn.labels, legend.colours, strict=True)}


def field_legend(drawn: Drawing, field: Field) -> Legend:
    """The legend of a categorical field."""
    if len(field.values) > _NAMED:
        most = len(CATEGORIES)
        texts = (*field.values[:most], "others")
        colours = (*CATEGORIES, OTHERS)
        return Legend(field.codes.clip(max=most), texts, colours, "no value", ())
    names = tuple(
        _label(code, text, drawn.places[field.codes == code]) for code, text in enumerate(field.values)
    )
    return Legend(field.codes, field.values, _colours(names), "no value", names)


def _colours(names: tuple[ClusterLabel, ...]) -> tuple[str, ...]:
    return tuple(spread_colours([(name.x, name.y) for name in names]))


def map_content(
    drawn: Drawing, *, title_length: int, text_length: int, most_values: int | None = None
) -> dict[str, Any]:
    """The data for the script that draws the map: texts, lists of texts, and arrays with a value a point.

    title_length, text_length: maximum characters of each title and text; text_length 0 = no texts
    most_values:               omit fields with more categories; None = no limit

    Arrays are float32 (x, y), int32 (codes; -1 = missing) and float64 (numbers; NaN = missing).
    """
    shown = [each for each in drawn.fields if most_values is None or len(each.values) <= most_values]
    fields = [_field(drawn, field) for field in shown]
    clusters = cluster_legend(drawn)
    if clusters is not None:
        fields.insert(0, _categories(CLUSTER, clusters, clusters.codes, clusters.texts))
    names = [field["name"] for field in fields]
    return {
        "collection": drawn.collection,
        "about": drawn.about,
        "notes": list(drawn.notes),
        "x": drawn.places[:, 0],
        "y": drawn.places[:, 1],
        "id": [row.document_id for row in drawn.rows],
        "title": [_cut(row.title, title_length) for row in drawn.rows],
        "text": [_cut(row.text, text_length) for row in drawn.rows] if text_length else None,
        "fields": fields,
        "clusters": clusters is not None,
        "chosen": names.index(drawn.colour_by) if drawn.colour_by in names else -1,
        "ramp": list(RAMP),
    }


def _field(drawn: Drawing, field: Field) -> dict[str, Any]:
    if field.kind is FieldKind.CATEGORY:
        return _categories(field.name, field_legend(drawn, field), field.codes, field.values)
    low, high = field.span
    return {
        "name": field.name,
        "kind": str(field.kind),
        "numbers": field.numbers,
        "low": low,
        "high": high,
        "below": bool(np.nanmin(field.numbers) < low),
        "above": bool(np.nanmax(field.numbers) > high),
    }


def _categories(name: str, legend: Legend, codes: NDArray[np.int32], values: Sequence[str]) -> dict[str, Any]:
    """codes, values: of each point; the legend may merge several values"""
    return {
        "name": name,
        "kind": str(FieldKind.CATEGORY),
        "codes": codes,
        "values": values,
        "shown": legend.texts,
        "colours": legend.colours,
        "missing": legend.missing,
        "names": [
            {"text": each.name, "size": each.size, "x": each.x, "y": each.y, "code": each.number}
            for each in legend.names
        ],
    }


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
