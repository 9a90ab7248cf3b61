"""A map of vectors from nothing, or begun from an older map and turned to lie on it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.maps.alignment import aligned, levelled, mean_shift
from nearsay.indexer.maps.layout import rounds_for, settled
from nearsay.indexer.maps.map_options import MapOptions
from nearsay.indexer.maps.map_points import MapPoints
from nearsay.indexer.maps.membership import memberships, united
from nearsay.indexer.maps.projection import projected
from nearsay.indexer.maps.start import begun_from, main_directions
from nearsay.indexer.neighbours.distinct import Distinct
from nearsay.indexer.neighbours.graph import neighbour_graph
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["LaidOut", "extended", "laid_out"]

_GENTLY = 0.25  # first steps from an older map's places: as good a map as by whole ones, and nearer to them


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A new map, and how it came about."""

    points: MapPoints
    distinct: int  # different vectors that were laid out
    exact: bool  # whether all neighbours are the true ones
    shift: float | None  # mean way from the older map's places, in units of its spread; None without one


def laid_out(
    points: Points,
    options: MapOptions,
    older: MapPoints | None = None,
    *,
    listener: ProgressListener = unheard,
) -> LaidOut:
    """Every passage's place.

    The same vectors give the same map in whatever order they came, on one machine. Copies lie together. Of
    more different vectors than `options.most_laid_out` a sample is laid out, which depends on the vectors
    alone, and the rest is projected. The sample's vectors are held in memory.
    """
    distinct = Distinct.of(points)
    chosen = distinct.first[: options.most_laid_out]  # they stand in the order of a hash: a random sample
    sample = Points.from_array(np.arange(chosen.size), points.rows(chosen))
    graph = neighbour_graph(sample, options.neighbours, listener=listener)
    missing = graph.neighbours < 0
    distances = np.where(missing, np.inf, np.maximum(1.0 - graph.cosines, 0.0)).astype(np.float32)
    weights = memberships(distances)
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
    found = _everywhere(points, distinct, sample, places, options, listener)
    return LaidOut(found, int(chosen.size), graph.exact, shift)


def extended(
    points: Points, known: MapPoints, options: MapOptions, *, listener: ProgressListener = unheard
) -> MapPoints:
    """The map with the passages that it lacks, projected among those of its own that were laid out.

    points: all that shall be there, those of the map among them; those do not move. Copies among the new ones
    lie together, and their order changes nothing.
    """
    new = np.flatnonzero(~np.isin(points.ids, known.ids, assume_unique=True))
    anchors = np.searchsorted(points.ids, known.ids[known.laid_out])
    distinct = Distinct.of(_at(points, new))
    added = projected(
        _at(points, new[distinct.first]),
        _at(points, anchors),
        known.places[known.laid_out],
        options.neighbours + 1,
        options.seed,
        listener=listener,
    )
    added = added[distinct.number]
    return known.joined(MapPoints(points.ids[new], added, np.zeros(new.size, dtype=np.bool_)))


def _everywhere(
    points: Points,
    distinct: Distinct,
    sample: Points,
    places: NDArray[np.float32],
    options: MapOptions,
    listener: ProgressListener,
) -> MapPoints:
    """The sample's places given to its copies, and the rest projected."""
    every = np.empty((len(distinct), 2), dtype=np.float32)
    every[: len(sample)] = places
    if len(distinct) > len(sample):
        rest = _at(points, distinct.first[len(sample) :])
        every[len(sample) :] = projected(
            rest, sample, places, options.neighbours + 1, options.seed, listener=listener
        )
    own = np.zeros(len(points), dtype=np.bool_)
    own[distinct.first[: len(sample)]] = True
    return MapPoints(points.ids, every[distinct.number], own)


def _known(ids: NDArray[np.int64], older: MapPoints | None) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Which passages an older map has (n,), and their places there (n, 2); zeros for the others."""
    known, places = np.zeros(ids.size, dtype=np.bool_), np.zeros((ids.size, 2), dtype=np.float32)
    if older is not None and len(older):
        at = np.searchsorted(older.ids, ids).clip(max=len(older) - 1)
        known = older.ids[at] == ids
        places[known] = older.places[at[known]]
    return known, places


def _at(points: Points, places: NDArray[np.int64]) -> Points:
    """Some of the points, in the order asked for, read into memory."""
    return Points.from_array(np.arange(places.size), points.rows(places))
