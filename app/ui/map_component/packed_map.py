"""A drawing of a map as the bytes that the browser gets, once."""

import gzip
import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.maps.drawing import Drawing, map_content

__all__ = ["LONGEST", "MOST_POINTS", "PackedMap", "packed_map"]

MOST_POINTS = 30_000  # of more a sample is drawn: of a million it is there in 2.1 s instead of 2.7
_PREVIEW = 120  # characters of a title and of a text
LONGEST = _PREVIEW + 1  # of a text that has to be known: with one more it is cut
_MOST_TEXTS = 20_000  # of more points only titles are sent
_MOST_VALUES = 1_000  # of a field of categories, where no texts are sent
_DIGEST = 16  # characters
_ALIGNED = 8  # bytes; a browser reads arrays of numbers at multiples of their size alone


@dataclass(frozen=True, slots=True, eq=False)
class PackedMap:
    """A drawing, and the same for the browser."""

    drawn: Drawing
    packed: bytes  # the digest, then what `map_points.js` unpacks
    digest: str  # of what is packed: maps of the same are the same

    def __len__(self) -> int:
        return len(self.drawn)


def packed_map(drawn: Drawing) -> PackedMap:
    """Pack a drawing; up to 20,000 passages with the first 120 characters of each, beyond only titles."""
    with_texts = len(drawn) <= _MOST_TEXTS
    content = map_content(
        drawn,
        title_length=_PREVIEW,
        text_length=_PREVIEW if with_texts else 0,
        most_values=None if with_texts else _MOST_VALUES,
    )
    if not with_texts:  # something has to be said of each
        titles = zip(content["title"], drawn.rows, strict=True)
        content["title"] = [title or row.text[:_PREVIEW] for title, row in titles]
    body = gzip.compress(_written(content), 5, mtime=0)
    digest = hashlib.sha256(body).hexdigest()[:_DIGEST]
    return PackedMap(drawn, digest.encode() + body, digest)


def _written(content: dict[str, Any]) -> bytes:
    """The length of a JSON text (32 bits, little-endian), the text, and the arrays that it points at.

    In it an array is {"kind": "f4", "from": bytes after the text's end, "count": 3}; all begin at multiples
    of eight bytes of the whole.
    """
    parts: list[bytes] = []
    at = 0

    def put(values: NDArray[Any]) -> dict[str, int | str]:
        nonlocal at
        stored = np.ascontiguousarray(values).astype(values.dtype.newbyteorder("<"), copy=False)
        written = stored.tobytes() + bytes(-stored.nbytes % _ALIGNED)
        parts.append(written)
        begin, at = at, at + len(written)
        return {
            "kind": f"{values.dtype.kind}{values.dtype.itemsize}",
            "from": begin,
            "count": int(values.size),
        }

    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=put)
    head = text.encode("utf-8", "replace")
    head += b" " * (-(4 + len(head)) % _ALIGNED)
    return b"".join((struct.pack("<I", len(head)), head, *parts))
