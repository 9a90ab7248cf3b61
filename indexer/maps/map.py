"""A collection's map: its points, how it is laid out, how it is kept, and what has to be said of it."""

import struct
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer.catalogue import maps
from nearsay.indexer.neighbours.points import Explored

__all__ = ["Map", "MapOptions", "MapPoints", "kept_map", "kept_map_number"]


# The points of a map as bytes, as the catalogue keeps them.
#
# `NEARMAP1`, the count as a little-endian 64-bit number, the passages' numbers (int64, rising), their x and
# y (float32 pairs), a byte each (1: laid out itself; 0: put among those that were), and the CRC-32 of all
# that.


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
        return self.where(np.isin(self.ids, ids, assume_unique=True))

    def where(self, kept: NDArray[np.bool_]) -> "MapPoints":
        """Those at which it is True, (n,)."""
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


@dataclass(frozen=True, slots=True)
class MapOptions:
    """What decides where points come to lie."""

    seed: int = 20180209  # of the noise at the beginning and of the points that push each other off
    neighbours: int = 14  # of each passage that it is held to; umap-learn's 15 count the passage itself
    rounds: int | None = None  # of moving; None = 500 for up to 10,000 passages, 200 beyond
    most_laid_out: int = 150_000  # different vectors; of more a sample is laid out, the rest put among it

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise BadInputError(f"the seed is {self.seed}. Give 0 or a larger number")
        if self.neighbours < 1:
            raise BadInputError(f"a passage is held to {self.neighbours} neighbours. Give 1 or more")
        if self.rounds is not None and self.rounds < 1:
            raise BadInputError(f"{self.rounds} rounds move nothing. Give 1 or more")
        if self.most_laid_out < 2:
            raise BadInputError(f"{self.most_laid_out} passages are no map. Lay out 2 or more")


@dataclass(frozen=True, slots=True)
class Map:
    """Where every passage of a collection lies, two dimensions."""

    collection: str
    generation: int
    points: MapPoints
    parameters: dict[str, JsonValue]  # seed, neighbours, how many were laid out, the older map's generation
    created_at: str  # of the layout or of its last addition
    added: int  # passages that were projected into it just now
    new: bool  # whether it was laid out just now
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.points)


def kept_map_number(explored: Explored) -> int | None:
    """Another number whenever the kept map is another; None if there is none yet."""
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        return maps.number_of(connection, snapshot.collection.id, snapshot.generation.number)


def kept_map(explored: Explored) -> Map | None:
    """The map as it was kept, without laying out or adding anything; None if there is none yet.

    Passages that were removed since are not on it. NearsayError if what is kept cannot be read.
    """
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        row = maps.of_generation(connection, snapshot.collection.id, snapshot.generation.number)
    if row is None:
        return None
    points = MapPoints.from_bytes(row.points, explored.name)
    living = points.where(snapshot.finds(points.ids))
    return Map(explored.name, row.generation, living, dict(row.parameters), row.created_at, 0, new=False)
