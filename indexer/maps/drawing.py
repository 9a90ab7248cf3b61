"""What is drawn of a map: the points under a filter with their texts, metadata and clusters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.clusters.saved import SavedClusters, saved_clustering
from nearsay.indexer.filters.parse import Where, parse_field
from nearsay.indexer.maps.field import Field, field_of, value_at
from nearsay.indexer.maps.map import Map
from nearsay.indexer.maps.sample import sampled
from nearsay.indexer.neighbours.explored import Explored
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard

__all__ = ["CLUSTER", "ClusterLabel", "Drawing", "drawing"]

CLUSTER = "cluster"  # what colours by clusters; a metadata field of that name: metadata.cluster
_PAGE = 2000
_MOST_FIELDS = 60  # of metadata; where names are made up for each document there are as many as documents


@dataclass(frozen=True, slots=True)
class ClusterLabel:
    """A cluster's name, and where it stands on the map."""

    number: int
    name: str
    size: int  # passages that are drawn
    x: float  # the median of its points
    y: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """The points of a picture, by rising passage number."""

    collection: str
    about: str  # what it shows, in a line
    ids: NDArray[np.int64]  # (n,) passage numbers
    places: NDArray[np.float32]  # (n, 2)
    rows: Sequence[PassageRow]  # (n,)
    clusters: NDArray[np.int32] | None  # (n,) numbers, -1 = in none; None without a clustering
    labels: tuple[ClusterLabel, ...]  # by falling size, ties by number
    fields: tuple[Field, ...]  # metadata
    colour_by: str | None  # CLUSTER, a field's name, None = one colour
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return int(self.ids.size)

    @property
    def field(self) -> Field | None:
        """The metadata field that it is coloured by, if it is one."""
        return next((field for field in self.fields if field.name == self.colour_by), None)


def drawing(
    explored: Explored,
    found: Map,
    *,
    where: Where | None = None,
    colour_by: str | None = None,
    most: int | None = None,
    longest: int | None = None,
    listener: ProgressListener = unheard,
) -> Drawing:
    """Gather what is drawn; BadInputError for a field that nothing has, and where nothing passes the filter.

    colour_by: CLUSTER or a metadata field; None = by clusters where there are any
    most:      of more points so many, drawn at random, are shown; None = all
    longest:   characters of each text that are kept in memory; None = all
    """
    notes = list(found.notes)
    ids, places = found.points.ids, found.points.places
    snapshot = explored.snapshot()
    allowed = explored.allowed(snapshot, where)
    chosen = ids if allowed is None else ids[np.isin(ids, allowed, assume_unique=True)]
    if most is not None and chosen.size > most:
        notes.append(f"{most:,} passages of {chosen.size:,} are drawn, taken at random.")
        chosen = sampled(chosen, most)
    rows = _rows(explored, snapshot.collection.id, chosen, longest, listener)
    there = np.isin(ids, np.fromiter(rows, dtype=np.int64, count=len(rows)))
    ids, places = ids[there], places[there]
    if not ids.size:
        raise BadInputError(
            f"no passage of collection '{explored.name}' passes the filter {where!r}. Draw others: --where"
        )
    ordered = [rows[number] for number in ids.tolist()]
    saved = saved_clustering(explored)
    clusters, labels = _clusters(saved, ids, places)
    fields, left_out = _fields(ordered, colour_by)
    if left_out:
        notes.append(f"the {_MOST_FIELDS} commonest metadata fields are shown, {left_out:,} are not.")
    if clusters is None:
        if colour_by == CLUSTER:
            raise BadInputError(
                f"collection '{explored.name}' has no clusters to colour by. "
                f"Make them: nearsay explore clusters {explored.name}"
            )
        notes.append(f"no clusters were made yet. Names on the map: nearsay explore clusters {explored.name}")
    newer = 0 if saved is None else int((ids > saved.row.through).sum())
    if newer:
        remedy = f"nearsay explore clusters {explored.name} --replace"
        notes.append(f"{counted(newer, 'passage')} came after the clustering. Take them in: {remedy}")
    if colour_by is None and clusters is not None:
        colour_by = CLUSTER
    about = f"{ids.size:,} passages"
    if where is not None:
        about += f" of {len(found):,}, where {where}"
    return Drawing(
        explored.name, about, ids, places, ordered, clusters, labels, fields, colour_by, tuple(notes)
    )


def _rows(
    explored: Explored,
    collection_id: int,
    ids: NDArray[np.int64],
    longest: int | None,
    listener: ProgressListener,
) -> dict[int, PassageRow]:
    """The passages that are still there, read a page at a time."""
    rows: dict[int, PassageRow] = {}
    for begin in range(0, ids.size, _PAGE):
        with explored.store.database.reading() as connection:
            some = ids[begin : begin + _PAGE].tolist()
            rows |= passages.read_passages(connection, collection_id, some, longest=longest)
        listener(Progress(min(begin + _PAGE, ids.size), ids.size, "reading", "passages"))
    return rows


def _clusters(
    saved: SavedClusters | None, ids: NDArray[np.int64], places: NDArray[np.float32]
) -> tuple[NDArray[np.int32] | None, tuple[ClusterLabel, ...]]:
    if saved is None or not saved.ids.size:
        return None, ()
    at = np.searchsorted(saved.ids, ids).clip(max=saved.ids.size - 1)
    numbers = np.where(saved.ids[at] == ids, saved.numbers[at], -1).astype(np.int32)
    return numbers, _labels(numbers, places, saved.names)


def _labels(
    numbers: NDArray[np.int32], places: NDArray[np.float32], names: Mapping[int, str]
) -> tuple[ClusterLabel, ...]:
    labels = []
    for number in np.unique(numbers[numbers >= 0]).tolist():
        inside = places[numbers == number]
        x, y = np.median(inside, axis=0).tolist()
        labels.append(ClusterLabel(number, names.get(number) or f"cluster {number}", len(inside), x, y))
    return tuple(sorted(labels, key=lambda label: (-label.size, label.number)))


def _fields(rows: Sequence[PassageRow], colour_by: str | None) -> tuple[tuple[Field, ...], int]:
    """The commonest fields at the top of the metadata in the order in which they come, and the one asked for.

    Also how many are left out.
    """
    counted = Counter(name for row in rows for name in row.metadata)
    commonest = {name for name, _ in counted.most_common(_MOST_FIELDS)}
    names = [name for name in counted if name in commonest or _shown(name) == colour_by]
    paths: dict[str, Sequence[str]] = {_shown(name): (name,) for name in names}
    if colour_by is not None and colour_by not in paths and colour_by != CLUSTER:
        paths[colour_by] = parse_field(colour_by)
    fields = []
    for name, path in paths.items():
        values: list[JsonValue] = [value_at(row.metadata, path) for row in rows]
        if any(value is not None for value in values):
            fields.append(field_of(name, values))
        elif name == colour_by:
            known = ", ".join(_shown(name) for name in names) or "none"
            raise BadInputError(f"no passage that is drawn has a field '{colour_by}'. There are: {known}")
    return tuple(fields), len(counted) - len(names)


def _shown(name: str) -> str:
    return f"metadata.{name}" if name == CLUSTER else name
