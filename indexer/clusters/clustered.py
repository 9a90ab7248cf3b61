"""Putting a collection into clusters, and keeping them with its live generation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError, NearsayError, first_line
from nearsay.indexer.catalogue import clusterings, collections, documents, generations, passages
from nearsay.indexer.catalogue.clusterings import ClusteringRow, ClusterRow, Members
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.clusters.description import Described, describe
from nearsay.indexer.clusters.earlier import compare, numbered, read_earlier, report_of
from nearsay.indexer.clusters.names import Encode
from nearsay.indexer.clusters.options import ClusterMethod, ClusterOptions
from nearsay.indexer.clusters.partition import SEED, Partition, partition
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.explored import Explored
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.sentence.text_encoder import TextKind

__all__ = ["Made", "cluster_collection"]

_LARGE = 1000  # passages of a cluster, on average, beyond which a note tells how to get smaller ones
_PHRASES = 256  # that are encoded at a time, few enough to need no torch


@dataclass(frozen=True, slots=True)
class Made:
    """Clusters as they were made, whether or not they were saved."""

    row: ClusteringRow
    clusters: tuple[ClusterRow, ...]  # by level
    members: Members
    saved: bool
    notes: tuple[str, ...] = ()


def cluster_collection(
    explored: Explored,
    options: ClusterOptions,
    *,
    seed: int = SEED,
    where: Where | None = None,
    save: bool = True,
    listener: ProgressListener = unheard,
) -> Made:
    """Find clusters, name them, give them the numbers of the clusters that they were before, and keep them.

    where: clusters only what it lets through, and keeps nothing: what is kept is the whole collection's

    BadInputError where there is nothing to cluster; BusyError if another generation went live meanwhile. The
    writer lock is held only while the result is compared and written.
    """
    snapshot = explored.snapshot()
    points = explored.points(snapshot, where)
    if not len(points):
        what = "is empty" if where is None else "has no passage that the filter lets through"
        raise BadInputError(f"collection '{explored.name}' {what}: there is nothing to cluster. Add to it")
    if (options.clusters or 0) > len(points):
        raise BadInputError(
            f"{options.clusters:,} clusters were asked for, and there are {len(points):,} passages. "
            "Ask for fewer"
        )
    parted = partition(points, options, seed=seed, listener=listener)
    labels = _levels(parted)
    total = sum(int(each.max(initial=-1)) + 1 for each in labels)
    encode, notes = _phrase_encoder(explored, snapshot.generation)
    found = int(labels[0].max(initial=-1)) + 1
    if options.method is ClusterMethod.GRAPH and options.resolution is None and found * _LARGE < len(points):
        notes = (*notes, f"{found} large clusters fit best by themselves. For smaller ones: --resolution 4")
    levels: list[Described] = []
    for each in labels:
        named = sum(level.sizes.size for level in levels)
        heard = partial(_heard, listener, named, total)
        levels.append(describe(explored.store, snapshot.collection.id, points, each, encode, heard))
    row = ClusteringRow(
        id=0,
        collection_id=snapshot.collection.id,
        generation=snapshot.generation.number,
        method=str(parted.method),
        parameters={"asked": _asked(options) | {"seed": seed}, "used": dict(parted.parameters)},
        report={},
        passages=len(points),
        through=int(points.ids[-1]),
        created_at=now(),
    )
    if not save or where is not None:
        firsts = np.cumsum([1, *(each.sizes.size for each in levels)]).tolist()
        numbers = [
            list(range(first, first + each.sizes.size)) for first, each in zip(firsts, levels, strict=False)
        ]
        rows = _rows(levels, parted, numbers, {})
        return Made(row, rows, _members(points, levels[0], numbers[0]), saved=False, notes=notes)
    with explored.locked(snapshot.collection, "cluster") as store:
        made = _saved(store, explored.name, points, parted, levels, row)
    return replace(made, notes=(*made.notes, *notes))


def _phrase_encoder(explored: Explored, generation: GenerationRow) -> tuple[Encode | None, tuple[str, ...]]:
    """What gives phrases the kind of vectors that the passages have; without it a note that says why."""
    try:
        encoder = explored.encoder(generation)
    except NearsayError as error:
        return None, (f"names were chosen by their words alone, without the encoder: {first_line(error)}",)

    def encode(phrases: Sequence[str]) -> NDArray[np.float32]:
        windows = [phrases[begin : begin + _PHRASES] for begin in range(0, len(phrases), _PHRASES)]
        return unit_length(np.concatenate([encoder.encode(each, kind=TextKind.QUERY) for each in windows]))

    return encode, ()


def _saved(
    store: Store,
    name: str,
    points: Points,
    parted: Partition,
    levels: list[Described],
    row: ClusteringRow,
) -> Made:
    database = store.database
    with database.reading() as connection:
        before = read_earlier(connection, row.collection_id)
        own = clusterings.of_live(connection, row.collection_id)
        has_field = "cluster" in documents.fields_seen(connection, row.collection_id)
        # What was removed since the work began may be compacted already: then nothing would take it out.
        there = passages.passage_numbers(connection, row.collection_id)
    labels = [each.labels for each in levels]
    compared = None if before is None else compare(before, points, labels)
    with database.writing() as connection:
        live = generations.live(connection, row.collection_id)
        if live is None or live.number != row.generation:
            raise BusyError(
                f"generation {row.generation} of '{name}' is no longer the live one, so its "
                "clusters were not kept. Run the same command again"
            )
        numbers = numbered(connection, row.collection_id, [each.sizes.size for each in levels], compared)
        known = {} if before is None else {each.number: each for each in before.clusters}
        rows = _rows(levels, parted, numbers, known)
        row = replace(row, report=report_of(before, compared, numbers[0]))
        who = _members(points, levels[0], numbers[0])
        values = {name: getattr(row, name) for name in ClusteringRow.__slots__ if name != "id"}
        id_ = clusterings.replace(connection, own, values, rows, who.among(there))
        collections.changed(connection, row.collection_id)
    return Made(replace(row, id=id_), rows, who, saved=True, notes=_notes(has_field=has_field))


def _heard(listener: ProgressListener, before: int, total: int, progress: Progress) -> None:
    """Tell of one level's progress as of that of all."""
    listener(replace(progress, done=before + progress.done, total=total))


def _asked(options: ClusterOptions) -> dict[str, Any]:
    """What was not left to the method, as `Explorer.cluster` takes it."""
    usual = ClusterOptions()
    asked = {name: value for name, value in asdict(options).items() if value != getattr(usual, name)}
    return asked | {"method": str(options.method)}


def _notes(*, has_field: bool) -> tuple[str, ...]:
    if not has_field:
        return ()
    said = "documents have a field 'cluster' of their own: in a filter, cluster now means these clusters"
    return (f"{said}, and metadata.cluster that field",)


def _levels(parted: Partition) -> list[NDArray[np.int32]]:
    """The labels of each level, the lowest first."""
    levels = [parted.labels]
    for parents in parted.parents:
        below = levels[-1]
        above = np.full_like(below, -1)
        above[below >= 0] = parents[below[below >= 0]]
        levels.append(above)
    return levels


def _members(points: Points, lowest: Described, numbers: Sequence[int]) -> Members:
    inside = lowest.labels >= 0
    own = np.array(numbers, dtype=np.int32)[lowest.labels[inside]]
    return Members(points.ids[inside], own, lowest.cosines[inside].astype(np.float64))


def _rows(
    levels: list[Described], parted: Partition, numbers: list[list[int]], known: dict[int, ClusterRow]
) -> tuple[ClusterRow, ...]:
    rows: list[ClusterRow] = []
    for level, described in enumerate(levels):
        parents = parted.parents[level] if level < len(parted.parents) else None
        for place, number in enumerate(numbers[level]):
            old = known.get(number)
            kept = old if old is not None and old.named_by_user else None
            parent = -1 if parents is None else int(parents[place])
            silhouette = float(described.silhouette[place])
            rows.append(
                ClusterRow(
                    number=number,
                    parent=None if parent < 0 else numbers[level + 1][parent],
                    level=level,
                    name=described.names[place] if kept is None else kept.name,
                    named_by_user=kept is not None,
                    terms=tuple(described.terms[place]),
                    central=tuple(each.number for each in described.central[place]),
                    size=int(described.sizes[place]),
                    cohesion=float(described.cohesion[place]),
                    silhouette=None if np.isnan(silhouette) else silhouette,
                )
            )
    return tuple(rows)
