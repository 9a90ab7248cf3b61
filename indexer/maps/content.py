"""What a map that is drawn in a browser says, as plain values and arrays."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.maps.drawing import CLUSTER, Drawing
from nearsay.indexer.maps.field import Field, FieldKind
from nearsay.indexer.maps.legend import Legend, cluster_legend, field_legend
from nearsay.indexer.maps.palette import RAMP

__all__ = ["map_content"]


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
