"""The map that is kept with the live generation, as it is: nothing is laid out and nothing is added."""

from nearsay.indexer.catalogue import maps
from nearsay.indexer.maps.map import Map
from nearsay.indexer.maps.map_points import MapPoints
from nearsay.indexer.neighbours.explored import Explored

__all__ = ["kept_map", "kept_map_number"]


def kept_map_number(explored: Explored) -> int | None:
    """Which map the live generation has: another number whenever it was changed; None if it has none."""
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        return maps.number_of(connection, snapshot.collection.id, snapshot.generation.number)


def kept_map(explored: Explored) -> Map | None:
    """The live generation's map without passages that were removed since; None if it has none.

    Passages that came since are not on it. NearsayError if what is kept cannot be read.
    """
    snapshot = explored.snapshot()
    with explored.store.database.reading() as connection:
        row = maps.of_generation(connection, snapshot.collection.id, snapshot.generation.number)
    if row is None:
        return None
    points = MapPoints.from_bytes(row.points, explored.name)
    there = points.ids < snapshot.alive.size
    there[there] = snapshot.alive[points.ids[there]]
    living = MapPoints(points.ids[there], points.places[there], points.laid_out[there])
    return Map(explored.name, row.generation, living, dict(row.parameters), row.created_at, 0, new=False)
