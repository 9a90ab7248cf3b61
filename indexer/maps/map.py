"""A collection's map as it stands, and what has to be said of it."""

from dataclasses import dataclass

from nearsay.data.document import JsonValue
from nearsay.indexer.maps.map_points import MapPoints

__all__ = ["Map"]


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
