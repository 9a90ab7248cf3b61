"""A collection's map brought up to date and written to a file."""

from dataclasses import dataclass
from pathlib import Path

from nearsay.data.document import JsonValue
from nearsay.indexer.filters.parse import Where, parse
from nearsay.indexer.maps.drawing import drawing
from nearsay.indexer.maps.mapping import current_map
from nearsay.indexer.maps.output import MapFormat, map_format, write_drawing
from nearsay.indexer.maps.page import LONGEST, MOST_POINTS
from nearsay.indexer.neighbours.explored import Explored
from nearsay.indexer.vectors.progress import ProgressListener, unheard

__all__ = ["MapReport", "draw_map"]


@dataclass(frozen=True, slots=True)
class MapReport:
    """What was drawn, and of which map."""

    collection: str
    generation: int
    out: str | None  # None: it was only kept
    bytes: int
    drawn: int  # passages in the file
    mapped: int  # passages on the map
    laid_out: bool  # just now, not before
    added: int  # passages that were put among the others just now
    clusters: int  # that have a name on it
    colour_by: str | None
    parameters: dict[str, JsonValue]
    notes: tuple[str, ...]


def draw_map(
    explored: Explored,
    out: Path | None,
    *,
    where: Where | None = None,
    colour_by: str | None = None,
    anew: bool = False,
    seed: int | None = None,
    listener: ProgressListener = unheard,
) -> MapReport:
    """Write the live generation's map by the ending of `out`; None = only bring it up to date and keep it.

    What cannot be written, and a filter that cannot be read, is refused before anything is laid out.
    """
    kind = None if out is None else map_format(out)
    if where is not None:
        parse(where)
    found = current_map(explored, anew=anew, seed=seed, listener=listener)
    if out is None or kind is None:
        return MapReport(
            found.collection,
            found.generation,
            None,
            0,
            0,
            len(found),
            found.new,
            found.added,
            0,
            None,
            found.parameters,
            found.notes,
        )
    most = MOST_POINTS if kind is MapFormat.HTML else None
    longest = {MapFormat.HTML: LONGEST, MapFormat.PNG: 0, MapFormat.SVG: 0}.get(kind)
    drawn = drawing(
        explored, found, where=where, colour_by=colour_by, most=most, longest=longest, listener=listener
    )
    written = write_drawing(drawn, out)
    return MapReport(
        found.collection,
        found.generation,
        str(out),
        written,
        len(drawn),
        len(found),
        found.new,
        found.added,
        len(drawn.labels),
        drawn.colour_by,
        found.parameters,
        drawn.notes,
    )
