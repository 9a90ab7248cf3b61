"""The map of a collection: read the saved one, update it, or lay out a new one."""

import struct
import time
import zlib
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.explored import MapRow, keep_map, map_number, map_of, newest_map
from nearsay.indexer.catalogue.store import now
from nearsay.indexer.maps.layout import (
    aligned,
    begun_from,
    levelled,
    main_directions,
    mean_shift,
    rounds_for,
    settled,
)
from nearsay.indexer.neighbours.graph import memberships, neighbour_graph, united
from nearsay.indexer.neighbours.points import Distinct, Explored, Points, no_vectors
from nearsay.indexer.plans.engine import faiss_is_installed
from nearsay.indexer.plans.engines import build
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.segment import VectorSegment
from nearsay.indexer.vectors.vector_store import VectorStore, places_in

# The stored format of a map's points: `NEARMAP1`, the count as a little-endian 64-bit integer, the passages'
# numbers (int64, ascending), their x and y (float32 pairs), a byte each (1: laid out, 0: projected), and the
# CRC-32 of all that.


_MAGIC = b"NEARMAP1"
_HEAD = struct.Struct("<8sQ")
_CHECK = struct.Struct("<I")
_EACH = 8 + 8 + 1  # bytes a point


@dataclass(frozen=True, slots=True)
class MapPoints:
    """Each passage's position; compared by identity."""

    ids: NDArray[np.int64]  # (n,) passage numbers, ascending
    places: NDArray[np.float32]  # (n, 2)
    laid_out: NDArray[np.bool_]  # (n,) False: a copy, or projected into the layout

    def __len__(self) -> int:
        return int(self.ids.size)

    def among(self, ids: NDArray[np.int64]) -> "MapPoints":
        """The points of these passages."""
        return self.where(np.isin(self.ids, ids, assume_unique=True))

    def where(self, kept: NDArray[np.bool_]) -> "MapPoints":
        """The points for which the mask (n,) is True."""
        return MapPoints(self.ids[kept], self.places[kept], self.laid_out[kept])

    def joined(self, other: "MapPoints") -> "MapPoints":
        """The points of both, which are disjoint."""
        ids = np.concatenate([self.ids, other.ids])
        order = np.argsort(ids, kind="stable")
        places = np.concatenate([self.places, other.places])[order]
        return MapPoints(ids[order], places, np.concatenate([self.laid_out, other.laid_out])[order])

    def to_bytes(self) -> bytes:
        """Serialize for `from_bytes`."""
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
        """Deserialize; raises NearsayError naming the collection if the bytes are damaged."""
        fault = _fault(stored)
        if fault is not None:
            raise NearsayError(
                f"the map of collection '{collection}' cannot be read: {fault}. "
                f"Lay it out again: nearsay explore map {collection} --replace"
            )
        count = _HEAD.unpack_from(stored)[1]
        at = _HEAD.size
        ids = np.frombuffer(stored, "<i8", count, at).astype(np.int64)
        places = np.frombuffer(stored, "<f4", 2 * count, at + 8 * count).astype(np.float32).reshape(-1, 2)
        laid_out = np.frombuffer(stored, np.uint8, count, at + 16 * count).astype(np.bool_)
        return cls(ids, places, laid_out)


def _fault(stored: bytes) -> str | None:
    if len(stored) < _HEAD.size + _CHECK.size or not stored.startswith(_MAGIC):
        return f"{len(stored)} bytes that are not a map of this version of nearsay"
    count = _HEAD.unpack_from(stored)[1]
    expected = _HEAD.size + _EACH * count + _CHECK.size
    if len(stored) != expected:
        return f"{len(stored):,} bytes where {count:,} points take {expected:,}"
    if zlib.crc32(stored[: -_CHECK.size]) != _CHECK.unpack(stored[-_CHECK.size :])[0]:
        return "its checksum is wrong"
    return None


@dataclass(frozen=True, slots=True)
class MapOptions:
    """Parameters of a layout."""

    seed: int = 20180209  # of the initial noise and the repelling points
    neighbours: int = 14  # of each passage in the graph; umap-learn's 15 include the passage itself
    rounds: int | None = None  # None = 500 for up to 10,000 passages, 200 beyond
    most_laid_out: int = 150_000  # distinct vectors; of more, a sample is laid out and the rest projected

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise BadInputError(f"the seed is {self.seed}. Give 0 or a larger number")


@dataclass(frozen=True, slots=True)
class Map:
    """The position of every passage of a collection in two dimensions."""

    collection: str
    generation: int
    points: MapPoints
    parameters: dict[str, JsonValue]  # seed, neighbours, points laid out, the older map's generation
    created_at: str  # of the layout or its latest addition
    added: int  # passages that this call projected into the map
    new: bool  # whether this call laid the map out
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.points)


def kept_map_number(explored: Explored) -> int | None:
    """A number that changes whenever the saved map changes; None if there is no map."""
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        return map_number(connection, snapshot.collection.id, snapshot.generation.number)


def kept_map(explored: Explored) -> Map | None:
    """The saved map as it is, without passages removed since; None if there is none.

    Raises NearsayError if it cannot be read.
    """
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        row = map_of(connection, snapshot.collection.id, snapshot.generation.number)
    if row is None:
        return None
    points = MapPoints.from_bytes(row.points, explored.name)
    living = points.where(snapshot.finds(points.ids))
    return Map(explored.name, row.generation, living, dict(row.parameters), row.created_at, 0, new=False)


_DOING = "projecting"
_MOST_PRODUCTS = 500_000_000  # of vectors; beyond, inverted lists are as fast and miss one in 10,000
_QUERIES = 1024
_PROBES = 32  # lists


def nearest_anchors(
    new: Points, anchors: Points, k: int, *, listener: ProgressListener = unheard
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The k nearest anchors of each new passage, nearest first, ties by place, and their cosines, (n, k).

    Exact for up to half a billion products, and without FAISS; beyond by probing a few inverted lists, which
    may miss neighbours.
    """
    numbers = np.arange(1, len(anchors) + 1, dtype=np.int64)  # passage numbers start at 1
    stored = VectorStore([VectorSegment("", numbers, anchors.rows(numbers - 1))], anchors.dimension)
    index = None
    if len(new) * len(anchors) > _MOST_PRODUCTS and faiss_is_installed():
        index = build(PlanKind.IVF, stored, numbers, len(anchors)).looking({"probes": _PROBES})
    width = min(k, len(anchors))
    near = np.empty((len(new), width), dtype=np.int64)
    cosines = np.empty((len(new), width), dtype=np.float32)
    for begin, rows in new.blocks(_QUERIES):
        of_index = None if index is None else index.nearest_many(stored, rows, width)
        for at, found in enumerate(of_index or stored.nearest_many(rows, width), begin):
            # If the probed lists hold fewer, the nearest are repeated.
            near[at], cosines[at] = np.resize(found.ids, width) - 1, np.resize(found.scores, width)
        listener(Progress(begin + len(rows), len(new), _DOING, "passages"))
    return near, cosines


_ROUNDING = 1e-6  # cosine distances below are those of copies
_ROUNDS, _FEW_ROUNDS = 100, 30  # of umap-learn's transform, up to 10,000 points and beyond
_MANY = 10_000
_SHARE = 0.25  # initial learning rate, as in umap-learn's transform
_LEAST = 16  # anchors for repulsion


def projected(
    new: Points,
    anchors: Points,
    places: NDArray[np.float32],
    neighbours: int,
    seed: int,
    *,
    listener: ProgressListener = unheard,
) -> NDArray[np.float32]:
    """The position of each new passage in an existing layout.

    places:  (m, 2) of the anchors, the passages of the layout
    returns: (n, 2)

    Each passage starts at the weighted mean of its nearest anchors and is optimized while they are fixed, as
    in umap-learn's transform, independently of other new passages. A passage with an anchor's vector gets its
    place.
    """
    from scipy.sparse import csr_matrix

    near, cosines = nearest_anchors(new, anchors, neighbours, listener=listener)
    distances = np.maximum(1.0 - cosines, 0.0)
    distances[distances < _ROUNDING] = 0.0
    begun = weighted_places(distances, near, places)
    copies = distances[:, 0] == 0.0
    weights = memberships(distances, from_nearest=False)
    weights[copies] = 0.0
    if copies.all() or len(anchors) < _LEAST:
        return begun
    together = np.concatenate([places, begun])
    count = len(anchors) + len(near)  # new points have edges to their anchors only
    rows = np.repeat(np.arange(len(anchors), count), near.shape[1])
    graph = csr_matrix((weights.ravel(), (rows, near.ravel())), shape=(count, count))
    rounds = _ROUNDS if len(new) <= _MANY else _FEW_ROUNDS
    settled_places = settled(
        graph, together, rounds=rounds, seed=seed, first_share=_SHARE, fixed=len(anchors), listener=listener
    )
    return settled_places[len(anchors) :]


def weighted_places(
    distances: NDArray[np.float32], near: NDArray[np.int64], places: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The mean of the neighbours' places, weighted as in the initialization of umap-learn's transform.

    distances: (n, k) cosine distances to the neighbours
    near:      (n, k) indices of places
    places:    (m, 2)

    A point with the same vector as a neighbour takes its place.
    """
    weights = memberships(distances, from_nearest=False)
    same = distances[:, 0] == 0.0
    weights[same] = 0.0
    weights[same, 0] = 1.0
    total = weights.sum(axis=1, keepdims=True)
    weights = np.where(total > 0.0, weights / np.where(total > 0.0, total, 1.0), 1.0 / weights.shape[1])
    found: NDArray[np.float32] = np.einsum("nk,nkd->nd", weights, places[near]).astype(np.float32)
    return found


_GENTLY = 0.25  # initial learning rate from an older map: as good as 1, and nearer to the old places


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A new layout."""

    points: MapPoints
    distinct: int  # distinct vectors that were laid out
    exact: bool  # whether all neighbours are exact
    shift: float | None  # mean distance from the older map's places, in units of its spread; None without one


def laid_out(
    points: Points,
    options: MapOptions,
    older: MapPoints | None = None,
    *,
    listener: ProgressListener = unheard,
) -> LaidOut:
    """Lay out all passages.

    The map does not depend on the order of the passages, on one machine. Copies share a place. Of more
    distinct vectors than `options.most_laid_out` a sample, which depends on the vectors only, is laid out in
    memory, and the rest is projected.
    """
    distinct = Distinct.of(points)
    chosen = distinct.first[: options.most_laid_out]  # sorted by hash, so a random sample
    sample = Points.from_array(np.arange(chosen.size), points.rows(chosen))
    graph = neighbour_graph(sample, options.neighbours, listener=listener)
    weights = memberships(graph.distances)
    known, old_places = _known(points.ids[chosen], older)
    if known.any():
        start = begun_from(known, old_places, graph.neighbours, weights, options.seed)
    else:
        start = main_directions(sample.rows(np.arange(len(sample))), options.seed)
    places = start
    if chosen.size > 1:
        places = settled(
            united(graph.neighbours, weights),
            start,
            rounds=options.rounds or rounds_for(chosen.size),
            seed=options.seed,
            first_share=_GENTLY if known.any() else 1.0,
            listener=listener,
        )
    shift = None
    if known.any():
        shared = np.flatnonzero(known)
        places = aligned(places, shared, old_places[shared])
        shift = mean_shift(places[shared], old_places[shared])
    else:
        places = levelled(places)
    every = np.empty((len(distinct), 2), dtype=np.float32)  # of the distinct vectors
    every[: chosen.size] = places
    if len(distinct) > chosen.size:
        rest, width = points.some(distinct.first[chosen.size :]), options.neighbours + 1
        every[chosen.size :] = projected(rest, sample, places, width, options.seed, listener=listener)
    own = np.zeros(len(points), dtype=np.bool_)
    own[chosen] = True
    found = MapPoints(points.ids, every[distinct.number], own)
    return LaidOut(found, int(chosen.size), graph.exact, shift)


def extended(
    points: Points, known: MapPoints, options: MapOptions, *, listener: ProgressListener = unheard
) -> MapPoints:
    """The map with missing passages projected into its layout.

    points: all passages, including those of the map, which do not move

    Copies share a place; the order of new passages does not matter.
    """
    new = np.flatnonzero(~np.isin(points.ids, known.ids, assume_unique=True))
    anchors = np.searchsorted(points.ids, known.ids[known.laid_out])
    distinct = Distinct.of(points.some(new))
    added = projected(
        points.some(new[distinct.first]),
        points.some(anchors),
        known.places[known.laid_out],
        options.neighbours + 1,
        options.seed,
        listener=listener,
    )
    added = added[distinct.number]
    return known.joined(MapPoints(points.ids[new], added, np.zeros(new.size, dtype=np.bool_)))


def _known(ids: NDArray[np.int64], older: MapPoints | None) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Which passages an older map has (n,), and their places there (n, 2); zeros for the others."""
    places = np.zeros((ids.size, 2), dtype=np.float32)
    at = places_in(ids[:0] if older is None else older.ids, ids)
    if older is not None:
        places[at >= 0] = older.places[at[at >= 0]]
    return at >= 0, places


_MOST_PROJECTED = 0.5  # share of the distinct passages above which a note recommends a new layout


def current_map(
    explored: Explored,
    *,
    anew: bool = False,
    seed: int | None = None,
    progress: ProgressListener = unheard,
) -> Map:
    """The map of all passages, with new ones projected into it; it is saved.

    anew: lay out from scratch. Otherwise the map of a new encoder starts from the old map's places and is
          aligned with it, as does a map with fewer passages than neighbours once that many were added
    seed: of the layout; the same passages with the same seed give the same map. None = that of the saved map,
          of this encoder or the one before, if any

    Raises BadInputError for a collection without vectors.
    """
    started = time.monotonic()
    look = explored.look()
    snapshot, points = look.snapshot, look.points
    if not snapshot.searchable:
        raise BadInputError(f"there is nothing to map: {no_vectors(explored)}")
    with explored.store.database.reading() as connection:
        own = map_of(connection, snapshot.collection.id, snapshot.generation.number)
        before = own or newest_map(connection, snapshot.collection.id)  # of another generation
    if seed is None and before is not None:
        seed = before.parameters.get("seed")
    chosen = MapOptions() if seed is None else MapOptions(seed=seed)
    if own is not None and not anew:
        found = _updated(explored, own, points, chosen, progress)
        if seed is not None and seed != found.parameters.get("seed"):
            note = f"the saved map has the seed {found.parameters.get('seed')}. Lay it out again with {seed}"
            command = f"nearsay explore map {explored.name} --seed {seed} --replace"
            found = replace(found, notes=(*found.notes, f"{note}: {command}"))
    else:
        number, older = snapshot.generation.number, None
        if before is not None and not anew:
            older = (before.generation, MapPoints.from_bytes(before.points, explored.name))
        found = _laid_out(explored.name, number, points, chosen, older, progress)
    if found.new or found.added:
        found = _save(explored, snapshot, found, started)
    return replace(found, notes=(*found.notes, *look.waiting))


def _updated(
    explored: Explored, row: MapRow, points: Points, options: MapOptions, listener: ProgressListener
) -> Map:
    known = MapPoints.from_bytes(row.points, explored.name).among(points.ids)
    found = Map(explored.name, row.generation, known, dict(row.parameters), row.created_at, 0, new=False)
    missing = len(points) - len(known)
    if not missing:
        return found
    base = int(known.laid_out.sum())
    if base <= min(options.neighbours, missing):  # with so few anchors the new passages would coincide
        return _laid_out(explored.name, row.generation, points, options, (row.generation, known), listener)
    grown = extended(points, known, options, listener=listener)
    different = np.unique(grown.places, axis=0)  # copies share a place
    placed = 1.0 - base / len(different)
    notes: tuple[str, ...] = ()
    if placed > _MOST_PROJECTED and base < options.most_laid_out // 2:
        note = f"{placed:.0%} of the distinct passages were projected into a layout of {base:,}"
        notes = (f"{note}. Lay all of them out: nearsay explore map {explored.name} --replace",)
    return replace(found, points=grown, added=missing, created_at=now(), notes=notes)


def _laid_out(
    name: str,
    generation: int,
    points: Points,
    options: MapOptions,
    older: tuple[int, MapPoints] | None,
    listener: ProgressListener,
) -> Map:
    made = laid_out(points, options, None if older is None else older[1], listener=listener)
    parameters: dict[str, JsonValue] = {
        "seed": options.seed,
        "neighbours": options.neighbours,
        "laid_out": made.distinct,
        "exact": made.exact,
    }
    notes: tuple[str, ...] = ()
    if older is not None and made.shift is not None:
        parameters |= {"begun_from": older[0], "shift": round(made.shift, 4)}
        notes = (f"started from the map of generation {older[0]} and aligned with it",)
    return Map(name, generation, made.points, parameters, now(), added=0, new=True, notes=notes)


def _save(explored: Explored, snapshot: Snapshot, found: Map, started: float) -> Map:
    """Save the map; if that is impossible, or another generation went live, add a note.

    started: the clock at the start; a writer is waited for as long as the work took
    """
    wait = max(explored.store.wait, time.monotonic() - started)
    try:
        with (
            explored.locked(snapshot.collection, "map", wait) as store,
            store.database.writing() as connection,
        ):
            live = generations.live(connection, snapshot.collection.id)
            if live is None or live.identity != snapshot.generation.identity:
                note = "another generation went live meanwhile, so the map was not saved. Run it again"
                return replace(found, notes=(*found.notes, note))
            row = MapRow(found.generation, found.parameters, found.points.to_bytes(), found.created_at)
            through = int(found.points.ids[-1])
            keep_map(connection, snapshot.collection.id, row, passages=len(found), through=through)
    except NearsayError as error:  # locked by another process, or read-only
        return replace(found, notes=(*found.notes, f"the map was not saved: {error}"))
    return found
