"""Cluster a collection and save the clusters with its live generation."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError, NearsayError, first_line
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import clusterings, collections, documents, generations, passages
from nearsay.indexer.catalogue.clusterings import ClusteringRow, ClusterRow, Members
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.clusters import scores
from nearsay.indexer.clusters.clustering import (
    CentralPassage,
    Cluster,
    Clustering,
    ClusterMethod,
    ClusterOptions,
    Match,
    Movement,
    match,
    movement,
)
from nearsay.indexer.clusters.names import Encode, name_clusters, terms_by_cluster
from nearsay.indexer.clusters.partition import SEED, Partition, partition
from nearsay.indexer.clusters.phrases import PhraseCounter
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.neighbours.points import Explored, Points, no_vectors
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.vector_store import places_in, unit_length
from nearsay.training.sentence.text_encoder import TextKind

_TEXTS = 20_000  # read for names, in all clusters together
_MOST_TEXTS = 2_000  # of one cluster
_LEAST_TEXTS = 10
_FALLBACK = 40  # characters of the passage that names a cluster without phrases
_CENTRAL = 3  # passages
_NEAREST = 20  # candidates for them
_ALIKE = 0.95  # cosine similarity from which only one of two passages is shown


@dataclass(frozen=True, slots=True)
class Described:
    """The clusters of one level."""

    labels: NDArray[np.int32]  # (n,) by place in the points; -1 = outlier
    cosines: NDArray[np.float32]  # (n,) to the centre of the passage's cluster; 0 for an outlier
    sizes: NDArray[np.int64]  # (clusters,)
    cohesion: NDArray[np.float64]  # (clusters,)
    silhouette: NDArray[np.float64]  # (clusters,) NaN if there is only one cluster
    names: list[str]
    terms: list[list[str]]
    central: list[list[PassageRow]]


def describe(
    store: Store,
    collection_id: int,
    points: Points,
    labels: NDArray[np.int32],
    encode: Encode | None,
    listener: ProgressListener,
) -> Described:
    """Score and name clusters, and choose their central passages.

    encode: phrases to vectors of the points' kind, for names; see `name_clusters`

    Names of a large cluster come from a sample, spread evenly from its centre to its edge; ties are resolved
    by text.
    """
    middles = scores.centres(points, labels)
    cosines = scores.own_cosines(points, labels, middles)
    sizes = np.bincount(labels[labels >= 0], minlength=len(middles))
    order = np.lexsort((-cosines, labels))[int((labels < 0).sum()) :]
    members = np.split(order, np.cumsum(sizes)[:-1]) if sizes.size else []
    central: list[list[PassageRow]] = []
    phrases = PhraseCounter()

    for done, of_cluster in enumerate(members, 1):
        nearest = of_cluster[:_NEAREST]
        sample = _spread(of_cluster, len(members))
        with store.database.reading() as connection:
            rows = passages.read_passages(connection, collection_id, points.ids[nearest].tolist())
            read = passages.encoded_texts(connection, collection_id, points.ids[sample].tolist())
        # Cosines are rounded so that vectors that differ only by rounding tie.
        central.append(_without_near_duplicates(points, nearest, np.round(cosines[nearest], 5), rows))
        phrases.add(read.values())
        listener(Progress(done, len(members), "naming clusters", "clusters"))
    counted = phrases.counted()
    fallbacks = [(rows[0].title or rows[0].text) if rows else "" for rows in central]
    fallbacks = [" ".join(each.split())[:_FALLBACK].strip() for each in fallbacks]
    return Described(
        labels=labels,
        cosines=cosines,
        sizes=sizes,
        cohesion=scores.mean_of_each(cosines, labels, len(middles)),
        silhouette=scores.silhouette(points, labels, middles),
        names=name_clusters(counted, fallbacks, middles, encode),
        terms=terms_by_cluster(counted),
        central=central,
    )


def _spread(members: NDArray[np.int64], clusters: int) -> NDArray[np.int64]:
    most = min(_MOST_TEXTS, max(_LEAST_TEXTS, _TEXTS // clusters))
    if members.size <= most:
        return members
    chosen: NDArray[np.int64] = members[np.linspace(0, members.size - 1, most).astype(np.int64)]
    return chosen


def _without_near_duplicates(
    points: Points, nearest: NDArray[np.int64], cosines: NDArray[np.float32], rows: dict[int, PassageRow]
) -> list[PassageRow]:
    """The passages nearest to the centre, without near-duplicates of one another."""
    found = [
        (-float(cosine), rows[number], place)
        for number, cosine, place in zip(points.ids[nearest].tolist(), cosines, nearest, strict=True)
        if number in rows
    ]
    found.sort(key=lambda each: (each[0], each[1].title, each[1].text, each[1].document_id))
    chosen: list[tuple[PassageRow, NDArray[np.float32]]] = []
    for _, row, place in found:
        vector = points.rows(np.array([place]))[0]
        if not any(_same(row.text, other.text) or float(vector @ its) >= _ALIKE for other, its in chosen):
            chosen.append((row, vector))
        if len(chosen) == _CENTRAL:
            break
    return [row for row, _ in chosen]


def _same(one: str, other: str) -> bool:
    return one.casefold().split() == other.casefold().split()


@dataclass(frozen=True, slots=True)
class SavedClusters:
    """A saved clustering: the cluster of each passage."""

    row: ClusteringRow  # method, parameters, time; `through`: the highest passage number that was clustered
    clusters: tuple[ClusterRow, ...]  # of every level, the lowest first
    ids: NDArray[np.int64]  # (n,) passage numbers, ascending, without outliers
    numbers: NDArray[np.int32]  # (n,) their clusters' numbers

    @classmethod
    def of(cls, connection: sa.Connection, row: ClusteringRow) -> "SavedClusters":
        """Read a clustering; it may include passages that have been removed since."""
        every = tuple(clusterings.clusters_of(connection, row.id))
        return cls(row, every, *clusterings.members(connection, row.id))

    @property
    def names(self) -> dict[int, str]:
        """The name of each cluster, of all levels, by its number."""
        return {each.number: each.name for each in self.clusters}

    @property
    def parents(self) -> dict[int, int]:
        """The parent of each cluster that has one."""
        return {each.number: each.parent for each in self.clusters if each.parent is not None}

    def of_level(self, level: int) -> list[int]:
        """The cluster numbers of a level."""
        return [each.number for each in self.clusters if each.level == level]


@dataclass(frozen=True, slots=True)
class Compared:
    """Two clusterings over the passages that both include."""

    old: NDArray[np.int32]  # (n,) each passage's index among the old clusters of level 0, -1 = outlier
    new: NDArray[np.int32]  # (n,) the same among the new ones
    numbers: list[list[int]]  # the old clusters' numbers by index, for each level
    matches: list[tuple[Match, ...]]


def read_earlier(connection: sa.Connection, collection_id: int) -> SavedClusters | None:
    """The live generation's clustering, else the latest one; None if there is none.

    After a rollback the live generation's is not the latest, but it is the one that users see and rename. The
    latest is available even if its generation was dropped.
    """
    row = clusterings.of_live(connection, collection_id) or clusterings.latest(connection, collection_id)
    return None if row is None else SavedClusters.of(connection, row)


def compare(before: SavedClusters, points: Points, levels: Sequence[NDArray[np.int32]]) -> Compared:
    """Match the clusters of each level to the earlier ones, by the passages in both clusterings.

    levels: (n,) the points' new labels, for each level
    """
    shared = points.ids <= before.row.through
    ids = points.ids[shared]
    own = np.append(before.numbers, 0).astype(np.int32)[places_in(before.ids, ids)]  # 0 for -1: outlier
    numbers: list[list[int]] = []
    matches: list[tuple[Match, ...]] = []
    lowest = _places(own, before.of_level(0))
    for level, labels in enumerate(levels):
        numbers.append(before.of_level(level))
        matches.append(match(_places(own, numbers[-1]), labels[shared]))
        own = _mapped(own, before.parents)
    return Compared(lowest, levels[0][shared], numbers, matches)


def _places(numbers: NDArray[np.int32], of_level: list[int]) -> NDArray[np.int32]:
    table = np.full(max([0, *of_level, int(numbers.max(initial=0))]) + 1, -1, dtype=np.int32)
    table[of_level] = np.arange(len(of_level), dtype=np.int32)
    return table[numbers]


def _mapped(numbers: NDArray[np.int32], parents: dict[int, int]) -> NDArray[np.int32]:
    table = np.zeros(max([0, *parents, int(numbers.max(initial=0))]) + 1, dtype=np.int32)
    for number, parent in parents.items():
        table[number] = parent
    return table[numbers]


def numbered(
    connection: sa.Connection, collection_id: int, sizes: Sequence[int], compared: Compared | None
) -> list[list[int]]:
    """The cluster numbers of each level: matched clusters keep theirs, the others get unused ones."""
    numbers: list[list[int]] = []
    for level, size in enumerate(sizes):
        kept: dict[int, int] = {}
        if compared is not None:
            known = compared.numbers[level]
            kept = {each.after: known[each.before] for each in compared.matches[level]}
        lacking = size - len(kept)
        first = clusterings.take_cluster_numbers(connection, collection_id, lacking)
        fresh = iter(range(first, first + lacking))
        numbers.append([kept[place] if place in kept else next(fresh) for place in range(size)])
    return numbers


def report_of(
    before: SavedClusters | None, compared: Compared | None, numbers: Sequence[int]
) -> dict[str, Any]:
    """The movement since the earlier clustering at level 0, as JSON.

    numbers: of the new clusters by index
    """
    if before is None or compared is None:
        return {}
    of_level = compared.numbers[0]
    moved = movement(compared.old, compared.new, of_level, numbers, compared.matches[0])
    previous = {"method": before.row.method, "generation": before.row.made_of}
    previous["created_at"] = before.row.created_at
    names = {str(each.number): each.name for each in before.clusters if each.number in moved.gone}
    return {"before": previous, "movement": moved.to_json(), "gone": names}


_LARGE = 1000  # mean passages in a cluster above which a note says how to get smaller ones
_PHRASES = 256  # encoded at a time, few enough to need no torch


def cluster_collection(
    explored: Explored,
    options: ClusterOptions,
    *,
    seed: int = SEED,
    where: Where | None = None,
    save: bool = True,
    listener: ProgressListener = unheard,
) -> Clustering:
    """Find and name clusters, match them to the previous ones, and save them.

    where: cluster only matching passages; the result is not saved, as saved clusters cover the whole
           collection

    Raises BadInputError if there is nothing to cluster; BusyError if another process holds the writer lock at
    the start, or at the end for longer than the clustering took, or if another generation went live
    meanwhile. The lock is held only while the result is compared and written.
    """
    started = time.monotonic()
    if seed < 0:
        raise BadInputError(f"the seed is {seed}. Give 0 or a larger number")
    look = explored.look(where)
    snapshot, points = look.snapshot, look.points
    if not len(points):
        why = no_vectors(explored)
        if where is not None and snapshot.searchable:
            why = f"no passage of '{explored.name}' matches the filter. Choose another filter"
        raise BadInputError(f"there is nothing to cluster: {why}")
    if (options.clusters or 0) > len(points):
        raise BadInputError(
            f"cannot find {options.clusters:,} clusters in {len(points):,} passages. Give a smaller number"
        )
    if save and where is None:
        with explored.locked(snapshot.collection, "cluster"):  # fails before the work rather than after it
            pass
    parted = partition(points, options, seed=seed, listener=listener)
    labels = _levels(parted)
    total = sum(int(each.max(initial=-1)) + 1 for each in labels)
    encode, unnamed = _phrase_encoder(explored, snapshot.generation, listener)
    notes = (*look.waiting, *unnamed)
    found = int(labels[0].max(initial=-1)) + 1
    graph = options.method is ClusterMethod.GRAPH and options.resolution is None
    if graph and 0 < found * _LARGE < len(points):
        fit, taken = counted(found, "large cluster"), parted.parameters["resolution"]
        notes = (*notes, f"{fit} fit best. For smaller ones, give a resolution above {taken:g}")
    levels: list[Described] = []
    for each in labels:
        named = sum(level.sizes.size for level in levels)

        def report(progress: Progress, before: int = named) -> None:
            listener(replace(progress, done=before + progress.done, total=total))

        levels.append(describe(explored.store, snapshot.collection.id, points, each, encode, report))
    row = ClusteringRow(
        id=0,
        collection_id=snapshot.collection.id,
        generation=snapshot.generation.number,
        method=str(parted.method),
        parameters={"asked": _given_options(options) | {"seed": seed}, "used": dict(parted.parameters)},
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
        members = _members(points, levels[0], numbers[0])
        return shown(explored, row, _rows(levels, parted, numbers, {}), members, saved=False, notes=notes)
    listener(Progress(0, None, "saving the clusters"))
    wait = max(explored.store.wait, time.monotonic() - started)
    with explored.locked(snapshot.collection, "cluster", wait) as store:
        made, has_field = _saved(store, explored.name, snapshot.generation, points, parted, levels, row)
    if has_field:
        own = "documents have a metadata field 'cluster'"
        notes = (f"{own}: in filters, cluster is this clustering, and metadata.cluster that field", *notes)
    return shown(explored, *made, saved=True, notes=notes)


def _phrase_encoder(
    explored: Explored, generation: GenerationRow, listener: ProgressListener
) -> tuple[Encode | None, tuple[str, ...]]:
    """An encoder of phrases into the passages' vector space, or None and a note that gives the reason."""
    if generation.encoder.source.startswith("vectors:"):  # computed elsewhere
        name = generation.encoder.name
        return None, (f"names were chosen by words only, as the vectors of {name} are computed elsewhere",)
    try:
        encoder = explored.encoder(generation)
    except NearsayError as error:
        return None, (f"names were chosen by words only, without the encoder: {first_line(error)}",)

    def encode(phrases: Sequence[str]) -> NDArray[np.float32]:
        vectors = []
        for begin in range(0, len(phrases), _PHRASES):
            listener(Progress(begin, len(phrases), "encoding phrases for names", "phrases"))
            vectors.append(encoder.encode(phrases[begin : begin + _PHRASES], kind=TextKind.QUERY))
        listener(Progress(len(phrases), len(phrases), "encoding phrases for names", "phrases"))
        return unit_length(np.concatenate(vectors))

    return encode, ()


def _saved(
    store: Store,
    name: str,
    generation: GenerationRow,
    points: Points,
    parted: Partition,
    levels: list[Described],
    row: ClusteringRow,
) -> tuple[tuple[ClusteringRow, tuple[ClusterRow, ...], Members], bool]:
    """Save the clustering; returns it, and whether documents have a metadata field `cluster`."""
    database = store.database
    with database.reading() as connection:
        before = read_earlier(connection, row.collection_id)
        has_field = "cluster" in documents.fields_seen(connection, row.collection_id)
        # Passages that were removed and compacted meanwhile must not be saved.
        existing = passages.passage_numbers(connection, row.collection_id)
    labels = [each.labels for each in levels]
    compared = None if before is None else compare(before, points, labels)
    with database.writing() as connection:
        live = generations.live(connection, row.collection_id)
        if live is None or live.identity != generation.identity:
            raise BusyError(
                f"generation {row.generation} of '{name}' is no longer live, so its clusters were not saved. "
                "Run the command again"
            )
        numbers = numbered(connection, row.collection_id, [each.sizes.size for each in levels], compared)
        known = {} if before is None else {each.number: each for each in before.clusters}
        rows = _rows(levels, parted, numbers, known)
        row = replace(row, report=report_of(before, compared, numbers[0]))
        members = _members(points, levels[0], numbers[0])
        values = {name: getattr(row, name) for name in ClusteringRow.__slots__ if name != "id"}
        id_ = clusterings.replace(connection, values, rows, members.among(existing))
        collections.changed(connection, row.collection_id)
    return (replace(row, id=id_), rows, members), has_field


def _given_options(options: ClusterOptions) -> dict[str, Any]:
    """The options that differ from the defaults, and the method, as arguments of `Explorer.cluster`."""
    usual = ClusterOptions()
    asked = {name: value for name, value in asdict(options).items() if value != getattr(usual, name)}
    return asked | {"method": str(options.method)}


def shown(
    explored: Explored,
    row: ClusteringRow,
    every: tuple[ClusterRow, ...],
    members: Members,
    *,
    saved: bool,
    sizes: dict[int, int] | None = None,
    looked_at: int | None = None,
    newer: int = 0,
    notes: tuple[str, ...] = (),
) -> Clustering:
    """A clustering with its central passages.

    sizes, looked_at: current values; None = as when the clusters were found
    """
    wanted = [number for each in every for number in each.central]
    with explored.store.database.reading() as connection:
        rows = passages.read_passages(connection, row.collection_id, wanted)
    central = {
        number: CentralPassage(number, found.document_id, found.title, found.text)
        for number, found in rows.items()
    }
    clusters = []
    for each in every:
        its = tuple(central[number] for number in each.central if number in central)
        size = each.size if sizes is None else sizes.get(each.number, 0)
        clusters.append(Cluster(**asdict(each) | {"central": its, "size": size}))
    moved = row.report.get("movement")
    looked_at = row.passages if looked_at is None else looked_at
    return Clustering(
        collection=explored.name,
        generation=row.generation,
        method=row.method,
        parameters=row.parameters["used"],
        clusters=tuple(clusters),
        passages=looked_at,
        outliers=looked_at - members.ids.size,
        newer=newer,
        movement=None if moved is None else Movement.from_json(moved),
        created_at=row.created_at,
        saved=saved,
        members=members,
        notes=notes,
    )


def _levels(parted: Partition) -> list[NDArray[np.int32]]:
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
