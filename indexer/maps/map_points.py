"""The points of a map as bytes, as the catalogue keeps them.

`NEARMAP1`, the count as a little-endian 64-bit number, the passages' numbers (int64, rising), their x and y
(float32 pairs), a byte each (1: laid out itself; 0: put among those that were), and the CRC-32 of all that.
"""

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError

__all__ = ["MapPoints"]

_MAGIC = b"NEARMAP1"
_HEAD = struct.Struct("<8sQ")
_CHECK = struct.Struct("<I")
_EACH = 8 + 8 + 1  # bytes a point


@dataclass(frozen=True, slots=True)
class MapPoints:
    """Where each passage lies; equal only to itself."""

    ids: NDArray[np.int64]  # (n,) passage numbers, rising
    places: NDArray[np.float32]  # (n, 2)
    laid_out: NDArray[np.bool_]  # (n,) False: a copy, or projected among those that were laid out

    def __len__(self) -> int:
        return int(self.ids.size)

    def among(self, ids: NDArray[np.int64]) -> "MapPoints":
        """Those of the passages `ids` that are here."""
        kept = np.isin(self.ids, ids, assume_unique=True)
        return MapPoints(self.ids[kept], self.places[kept], self.laid_out[kept])

    def joined(self, other: "MapPoints") -> "MapPoints":
        """Both, which share no passage."""
        ids = np.concatenate([self.ids, other.ids])
        order = np.argsort(ids, kind="stable")
        places = np.concatenate([self.places, other.places])[order]
        return MapPoints(ids[order], places, np.concatenate([self.laid_out, other.laid_out])[order])

    def to_bytes(self) -> bytes:
        """What `from_bytes` reads."""
        body = b"".join(
            (
                _HEAD.pack(_MAGIC, len(self)),
                self.ids.astype("<i8").tobytes(),
                self.places.astype("<f4").tobytes(),
                self.laid_out.astype(np.uint8).tobytes(),
            )
        )
        return body + _CHECK.pack(zlib.crc32(body))

    @classmethod
    def from_bytes(cls, stored: bytes, collection: str) -> "MapPoints":
        """NearsayError naming the collection if they are not what was written."""
        fault = _fault(stored)
        if fault is not None:
            raise NearsayError(
                f"the map of collection '{collection}' cannot be read: {fault}. "
                f"Lay it out anew: nearsay explore map {collection} --replace"
            )
        count = _HEAD.unpack_from(stored)[1]
        at = _HEAD.size
        ids = np.frombuffer(stored, "<i8", count, at).astype(np.int64)
        places = np.frombuffer(stored, "<f4", 2 * count, at + 8 * count).astype(np.float32).reshape(-1, 2)
        laid_out = np.frombuffer(stored, np.uint8, count, at + 16 * count).astype(np.bool_)
        return cls(ids, places, laid_out)


def _fault(stored: bytes) -> str | None:
    if len(stored) < _HEAD.size + _CHECK.size or not stored.startswith(_MAGIC):
        return f"{len(stored)} bytes that are no map of this version of nearsay"
    count = _HEAD.unpack_from(stored)[1]
    expected = _HEAD.size + _EACH * count + _CHECK.size
    if len(stored) != expected:
        return f"{len(stored):,} bytes where {count:,} points take {expected:,}"
    if zlib.crc32(stored[: -_CHECK.size]) != _CHECK.unpack(stored[-_CHECK.size :])[0]:
        return "its check sum is wrong"
    return None
