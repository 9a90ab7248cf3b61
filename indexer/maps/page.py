"""A map as one page that needs nothing else: no server, no network.

The passages' texts are in it only as compressed JSON in base 64, and its script shows them as text, never as
markup. The page's own policy lets it fetch nothing and run no script but its own.
"""

import base64
import gzip
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.maps.content import map_content
from nearsay.indexer.maps.drawing import Drawing

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
    """An array as JSON has it: whole numbers without a point, none for NaN."""
    numbers = [None if each != each else each for each in values.tolist()]  # noqa: PLR0124 - NaN
    return [int(each) if each is not None and float(each).is_integer() else each for each in numbers]


def _content(drawn: Drawing) -> dict[str, Any]:
    length = preview_length(len(drawn))
    content = map_content(drawn, title_length=length, text_length=length)
    for axis in ("x", "y"):
        content[axis] = np.round(content[axis].astype(float), 4)
    if any(len(row.text) > length for row in drawn.rows):
        content["notes"].append(f"Texts are cut to {length} characters; the search looks in these.")
    return content
