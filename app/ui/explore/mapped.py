"""The kept map as the page draws it, and what was chosen on it as rows of a table."""

from collections.abc import Iterable, Sequence
from typing import Any

from nearsay.app.ui.explore.looking import remembered_map, state_of
from nearsay.app.ui.map_component.packed_map import LONGEST, MOST_POINTS, PackedMap, packed_map
from nearsay.app.ui.visit import Visit
from nearsay.indexer import Hit
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.maps.drawing import Drawing

__all__ = ["columns_of", "documents_of", "drawn_places", "full_rows", "kept_drawing", "rows_at"]


def kept_drawing(visit: Visit) -> tuple[PackedMap, int] | None:
    """The map that is kept, packed for the browser, and how many passages are on it; None without one.

    It is read once for a state of the collection; of many passages a sample, always the same, is drawn.
    """
    explorer = visit.collection.explore
    number = explorer.kept_map_number()
    if number is None:
        return None

    def make() -> tuple[PackedMap, int] | None:
        found = explorer.kept_map()
        if found is None or not len(found):
            return None
        return packed_map(explorer.drawing(found, most=MOST_POINTS, longest=LONGEST)), len(found)

    return remembered_map(f"{state_of(visit)}|map {number}", make)


def rows_at(drawn: Drawing, places: Iterable[int]) -> list[dict[str, Any]]:
    """A row for each of the drawing's points: title, beginning of the text, cluster, id, metadata."""
    names = _names(drawn)
    return [_row(drawn, names, drawn.rows[place], place) for place in places]


def full_rows(drawn: Drawing, places: Sequence[int], read: Iterable[PassageRow]) -> list[dict[str, Any]]:
    """The same with whole texts; read: the passages of these places that are still there."""
    place_of = {drawn.rows[place].number: place for place in places}
    names = _names(drawn)
    return [_row(drawn, names, row, place_of[row.number]) for row in read if row.number in place_of]


def columns_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The columns of such rows: title, text and cluster first, then metadata by its first coming."""
    return list(dict.fromkeys(name for row in rows for name in row))


def documents_of(drawn: Drawing, places: Iterable[int]) -> list[str]:
    """The ids of the documents that points belong to, each once."""
    return list(dict.fromkeys(drawn.rows[place].document_id for place in places))


def drawn_places(drawn: Drawing, hits: Iterable[Hit]) -> list[int]:
    """The numbers of the passages among search hits that are drawn, best first."""
    wanted = {(hit.id, hit.passage): rank for rank, hit in enumerate(hits)}
    found = [
        (wanted[key], row.number) for row in drawn.rows if (key := (row.document_id, row.ordinal)) in wanted
    ]
    return [number for _, number in sorted(found)]


def _row(drawn: Drawing, names: dict[int, str], passage: PassageRow, place: int) -> dict[str, Any]:
    row: dict[str, Any] = {"title": passage.title, "text": passage.text}
    if drawn.clusters is not None:
        number = int(drawn.clusters[place])
        row["cluster"] = names.get(number)
    row |= {"id": passage.document_id, "passage": passage.ordinal}
    known = {f"metadata.{name}" if name in row else name: value for name, value in passage.metadata.items()}
    return row | known


def _names(drawn: Drawing) -> dict[int, str]:
    return {label.number: label.name for label in drawn.labels}
