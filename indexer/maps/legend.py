"""What the colours of a drawing's categories are and say: clusters, or the values of a metadata field."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.maps.drawing import Drawing
from nearsay.indexer.maps.field import Field
from nearsay.indexer.maps.palette import CATEGORIES, OTHERS, spread_colours

__all__ = ["Legend", "Name", "cluster_legend", "field_legend"]

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
