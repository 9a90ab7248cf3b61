"""What a map that is drawn says: colours, legend, and plain values and arrays for a browser."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.maps.drawing import CLUSTER, Drawing, Field, FieldKind

__all__ = [
    "RAMP",
    "REST",
    "Legend",
    "cluster_legend",
    "field_legend",
    "map_content",
]


# Tableau's ten and ten more of their kind, the strongest first; the first twelve differ for the colour-blind.
CATEGORIES: Final = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#1fa3a3", "#d4a72c", "#9c755f", "#e377c2"),
    *("#6b8e23", "#5b6fd6", "#c2533c", "#2e9e6b", "#a05195", "#3f97c9", "#8a7f2e", "#d97aa6", "#7a62c9"),
)
REST: Final = "#a3a7ae"  # what has no value or belongs nowhere
OTHERS: Final = "#7d828a"  # what shares a colour
# Viridis, https://bids.github.io/colormap/, without its darkest end, which dark ground swallows.
RAMP: Final = ("#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725")


def _shades() -> tuple[str, ...]:
    """The categories' colours, then each of them lighter and darker: what many clusters are told apart by."""
    base = np.array([[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in CATEGORIES], np.float64)
    lighter, darker = base + 0.36 * (255 - base), base * 0.74
    rows = np.concatenate((base, darker, lighter)).round().astype(int)
    return tuple(f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in rows.tolist())


SHADES: Final = _shades()


def spread_colours(middles: Sequence[tuple[float, float]]) -> list[str]:
    """A colour for each cluster, in their order: no two alike as long as there are shades, then far apart.

    middles: where each lies. The first take the strongest colours; every further one takes the shade that
    least resembles those of its neighbours, and repeats one only when all are taken, where its bearer is
    farthest away.
    """
    places: NDArray[np.float64] = np.asarray(middles, dtype=np.float64).reshape(-1, 2)
    taken: list[int] = []
    reach = _NEAR * float(np.hypot(*np.ptp(places, axis=0))) if len(places) else 1.0
    for at, place in enumerate(places):
        if at < len(CATEGORIES):
            taken.append(at)
            continue
        away = np.hypot(*(places[:at] - place).T)
        borne = np.array(taken)
        free = [shade for shade in range(len(SHADES)) if shade not in taken]
        if free:
            closeness = np.exp(-((away / max(reach, 1e-9)) ** 2))
            taken.append(min(free, key=lambda shade: float(closeness @ _ALIKE[shade, borne])))
        else:
            taken.append(max(range(len(SHADES)), key=lambda shade: float(away[borne == shade].min())))
    return [SHADES[shade] for shade in taken]


def _likeness() -> NDArray[np.float64]:
    """How alike two shades look, 1 for the same: (shades, shades).

    Distance in Oklab, Ottosson 2020, https://bottosson.github.io/posts/oklab/
    """
    rows = [[int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)] for colour in SHADES]
    srgb = np.array(rows)
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
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
    lab = np.cbrt(linear @ np.array(to_cones).T) @ np.array(to_lab).T
    apart = np.linalg.norm(lab[:, None] - lab[None], axis=-1)
    return np.asarray(np.exp(-((apart / _ALIKE_WITHIN) ** 2)))


_NEAR = 0.15  # of the map's diagonal: clusters so near to each other are seen together
_ALIKE_WITHIN = 0.12  # in Oklab: what is seen to differ at the size of a point
_ALIKE: Final = _likeness()


_NAMED = (
    60  # values that each have a name on the map; of more the commonest have a colour, the rest share one
)


@dataclass(frozen=True, slots=True)
class Name:
    """What stands on the map."""

    text: str
    size: int  # points
    x: float  # the median of its points
    y: float
    code: int


@dataclass(frozen=True, slots=True)
class Legend:
    """Categories by falling size."""

    codes: NDArray[np.int32]  # (n,) of each point; -1 = none
    texts: tuple[str, ...]  # what each code means
    colours: tuple[str, ...]  # of each code
    missing: str  # what -1 means
    names: tuple[Name, ...]  # on the map, by falling size


def cluster_legend(drawn: Drawing) -> Legend | None:
    """Every cluster with a colour and a name; None without a clustering."""
    if drawn.clusters is None:
        return None
    code = {label.number: at for at, label in enumerate(drawn.labels)}
    codes = np.array([code.get(number, -1) for number in drawn.clusters.tolist()], dtype=np.int32)
    names = tuple(Name(each.name, each.size, each.x, each.y, code[each.number]) for each in drawn.labels)
    texts = tuple(label.name for label in drawn.labels)
    return Legend(codes, texts, _colours(names), "in no cluster", names)


def field_legend(drawn: Drawing, field: Field) -> Legend:
    """The values of a field of categories."""
    if len(field.values) > _NAMED:
        most = len(CATEGORIES)
        texts = (*field.values[:most], "others")
        colours = (*CATEGORIES, OTHERS)
        return Legend(field.codes.clip(max=most), texts, colours, "no value", ())
    names = []
    for code, text in enumerate(field.values):
        inside = drawn.places[field.codes == code]
        x, y = np.median(inside, axis=0).tolist()
        names.append(Name(text, len(inside), x, y, code))
    return Legend(field.codes, field.values, _colours(tuple(names)), "no value", tuple(names))


def _colours(names: tuple[Name, ...]) -> tuple[str, ...]:
    return tuple(spread_colours([(name.x, name.y) for name in names]))


def map_content(
    drawn: Drawing, *, title_length: int, text_length: int, most_values: int | None = None
) -> dict[str, Any]:
    """What the script that draws the map wants: texts, lists of them, and arrays of a value a point.

    title_length, text_length: characters of each title and text; no texts at all with text_length 0
    most_values:               fields of more categories are left out; None = none are
    Arrays are float32 (x, y), int32 (codes; -1 = none) and float64 (numbers; NaN = none).
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
    """codes, values: what each point has, of which the legend may put several together."""
    return {
        "name": name,
        "kind": str(FieldKind.CATEGORY),
        "codes": codes,
        "values": values,
        "shown": legend.texts,
        "colours": legend.colours,
        "missing": legend.missing,
        "names": [asdict(each) for each in legend.names],
    }


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
