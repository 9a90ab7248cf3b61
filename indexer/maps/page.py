"""A map as one page that needs nothing else: no server, no network.

The passages' texts are in it only as compressed JSON in base 64, and its script shows them as text, never as
markup. The page's own policy lets it fetch nothing and run no script but its own.
"""

import base64
import gzip
import hashlib
import html
import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

import numpy as np

from nearsay.indexer.maps.drawing import CLUSTER, Drawing
from nearsay.indexer.maps.field import Field, FieldKind
from nearsay.indexer.maps.legend import Legend, cluster_legend, field_legend
from nearsay.indexer.maps.palette import RAMP

__all__ = ["LONGEST", "MOST_POINTS", "map_page", "preview_length"]

MOST_POINTS = 250_000  # a page of more would be slow to open
_CHARACTERS = 20_000_000  # of text in all, some 10 MB once compressed
_PREVIEW = (60, 600)  # characters of a passage: at least, at most
LONGEST = _PREVIEW[1] + 1  # of a text that a page needs to know: with one more it is cut


def preview_length(points: int) -> int:
    """How many characters of each passage are shown, so that the page stays small enough to open."""
    return min(max(_CHARACTERS // max(points, 1), _PREVIEW[0]), _PREVIEW[1])


def map_page(drawn: Drawing) -> bytes:
    """The page, UTF-8."""
    script, style = _part("page.js"), _part("page.css")
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
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 6, mtime=0)).decode()


def _content(drawn: Drawing) -> dict[str, Any]:
    length = preview_length(len(drawn))
    fields = [_field(drawn, field) for field in drawn.fields]
    names = [field.name for field in drawn.fields]
    clusters = cluster_legend(drawn)
    if clusters is not None:
        fields.insert(0, _categories(CLUSTER, clusters, clusters.codes.tolist(), clusters.texts))
        names.insert(0, CLUSTER)
    notes = list(drawn.notes)
    if any(len(row.text) > length for row in drawn.rows):
        notes.append(f"Texts are cut to {length} characters; the search looks in these.")
    return {
        "collection": drawn.collection,
        "about": drawn.about,
        "notes": notes,
        "x": np.round(drawn.places[:, 0].astype(float), 4).tolist(),
        "y": np.round(drawn.places[:, 1].astype(float), 4).tolist(),
        "id": [row.document_id for row in drawn.rows],
        "title": [_cut(row.title, length) for row in drawn.rows],
        "text": [_cut(row.text, length) for row in drawn.rows],
        "fields": fields,
        "clusters": clusters is not None,
        "chosen": names.index(drawn.colour_by) if drawn.colour_by in names else -1,
        "ramp": list(RAMP),
    }


def _field(drawn: Drawing, field: Field) -> dict[str, Any]:
    if field.kind is FieldKind.CATEGORY:
        return _categories(field.name, field_legend(drawn, field), field.codes.tolist(), field.values)
    numbers = [None if np.isnan(each) else each for each in field.numbers.tolist()]
    whole = [int(each) if each is not None and each.is_integer() else each for each in numbers]
    low, high = field.span
    return {
        "name": field.name,
        "kind": str(field.kind),
        "numbers": whole,
        "low": low,
        "high": high,
        "below": bool(np.nanmin(field.numbers) < low),
        "above": bool(np.nanmax(field.numbers) > high),
    }


def _categories(name: str, legend: Legend, codes: list[int], values: Sequence[str]) -> dict[str, Any]:
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
