"""The map of a collection: the one that is kept, brought up to date, or a new one."""

from dataclasses import replace

import numpy as np

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import generations, maps
from nearsay.indexer.catalogue.maps import MapRow
from nearsay.indexer.catalogue.store import now
from nearsay.indexer.maps.laying_out import extended, laid_out
from nearsay.indexer.maps.map import Map
from nearsay.indexer.maps.map_options import MapOptions
from nearsay.indexer.maps.map_points import MapPoints
from nearsay.indexer.neighbours.explored import Explored
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["current_map"]

_MOST_PROJECTED = 0.5  # of the different passages: with more it is said that the map should be laid out anew


def current_map(
    explored: Explored,
    *,
    seed: int | None = None,
    anew: bool = False,
    options: MapOptions | None = None,
    listener: ProgressListener = unheard,
) -> Map:
    """The live generation's map, with passages that are new projected into it; kept.

    A generation without one begins from the map that was made last and is turned to lie on it; so does a map
    with fewer passages than one has neighbours, once as many come. `anew` lays out from nothing. seed: of a
    map that is laid out; None = the usual one. BadInputError for a collection without vectors.
    """
    snapshot = explored.snapshot()
    if not snapshot.searchable:
        raise BadInputError(
            f"collection '{explored.name}' has no passage with a vector, so there is nothing to map. "
            f"Add documents: nearsay documents add {explored.name} FILE"
        )
    options = options or MapOptions()
    chosen = options if seed is None else replace(options, seed=seed)
    points = explored.points(snapshot)
    own, before = (None, None) if anew else _kept(explored, snapshot)
    if own is not None:
        found = _brought_up_to_date(explored, own, points, chosen, listener)
        if seed is not None and seed != found.parameters.get("seed"):
            said = f"the kept map has the seed {found.parameters.get('seed')}"
            found = replace(found, notes=(*found.notes, f"{said}. Lay it out anew for another: --replace"))
    else:
        found = _new(explored, snapshot, points, chosen, before, listener)
    if found.new or found.added:
        found = _keep(explored, snapshot, found)
    return found


def _kept(explored: Explored, snapshot: Snapshot) -> tuple[MapRow | None, MapRow | None]:
    """The live generation's map; where it has none, the newest of another generation."""
    with explored.store.database.reading() as connection:
        own = maps.of_generation(connection, snapshot.collection.id, snapshot.generation.number)
        before = None if own is not None else maps.newest(connection, snapshot.collection.id)
    return own, before


def _brought_up_to_date(
    explored: Explored, row: MapRow, points: Points, options: MapOptions, listener: ProgressListener
) -> Map:
    known = MapPoints.from_bytes(row.points, explored.name).among(points.ids)
    found = Map(explored.name, row.generation, known, dict(row.parameters), row.created_at, 0, new=False)
    missing = len(points) - len(known)
    if not missing:
        return found
    base = int(known.laid_out.sum())
    if base <= min(
        options.neighbours, missing
    ):  # among a handful, or nobody, the new ones would fall together
        return _laid_out(explored.name, row.generation, points, options, (row.generation, known), listener)
    grown = extended(points, known, options, listener=listener)
    different = np.unique(grown.places, axis=0)  # copies share a place
    placed = 1.0 - base / len(different)
    notes: tuple[str, ...] = ()
    if placed > _MOST_PROJECTED and base < options.most_laid_out // 2:
        said = f"{placed:.0%} of the different passages were put among the {base:,} laid out before"
        notes = (f"{said}. Lay all of them out: nearsay explore map {explored.name} --replace",)
    return replace(found, points=grown, added=missing, created_at=now(), notes=notes)


def _new(
    explored: Explored,
    snapshot: Snapshot,
    points: Points,
    options: MapOptions,
    before: MapRow | None,
    listener: ProgressListener,
) -> Map:
    older = None
    if before is not None:
        older = (before.generation, MapPoints.from_bytes(before.points, explored.name))
    return _laid_out(explored.name, snapshot.generation.number, points, options, older, listener)


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
        notes = (f"begun from the map of generation {older[0]}, and turned to lie on it",)
    return Map(name, generation, made.points, parameters, now(), added=0, new=True, notes=notes)


def _keep(explored: Explored, snapshot: Snapshot, found: Map) -> Map:
    """Save it, unless another generation went live or somebody else writes just now: that is noted."""
    try:
        with (
            explored.locked(snapshot.collection, "map") as store,
            store.database.writing() as connection,
        ):
            live = generations.live(connection, snapshot.collection.id)
            if live is None or live.number != found.generation:
                said = "another generation went live meanwhile, so the map was not kept. Run it again"
                return replace(found, notes=(*found.notes, said))
            row = MapRow(found.generation, found.parameters, found.points.to_bytes(), found.created_at)
            through = int(found.points.ids[-1])
            maps.replace(connection, snapshot.collection.id, row, passages=len(found), through=through)
    except BusyError as busy:
        return replace(found, notes=(*found.notes, f"the map was not kept: {busy}"))
    return found
