"""Searching by shards: actors of a Ray cluster, each of which holds a part of a collection.

A shard opens its files as any process does and scores with its own vectors; the caller encodes the query,
chooses the lists that the index looks into, asks all shards and merges what they found. Filters and words
stay in the catalogue, which the caller reads.
Shards outlive who started them. Every answer says which commit it is of: answers of two are not mixed.
"""

import contextlib
import hashlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError, StorageError, first_line
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.generations import GenerationRow, SegmentRow, SegmentState
from nearsay.indexer.catalogue.store import Cluster, Store
from nearsay.indexer.catalogue.tables import libraries
from nearsay.indexer.catalogue.writer_lock import serving_lock
from nearsay.indexer.cluster.joining import (
    NAMESPACE,
    answers_of,
    connection,
    connection_lost,
    free_room,
    is_lost,
    joined,
    leave_lost,
    raised_by,
    ray_module,
    refuse_far,
    room_of,
)
from nearsay.indexer.plans.centroids import Centroids, Chosen, Where, open_centroids, probes_at
from nearsay.indexer.plans.engine import faiss_is_installed
from nearsay.indexer.plans.engines import engine_of, usual_probes
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError
from nearsay.indexer.snapshots.snapshot import Part, Passages, Snapshot, parted, take
from nearsay.indexer.vectors.errors import (
    BusyError,
    ClusterError,
    DamagedSegmentError,
    UnknownCollectionError,
)
from nearsay.indexer.vectors.segment import SegmentHeader, SegmentKind, open_index_bytes
from nearsay.indexer.vectors.vector_store import NOTHING, Candidates, merge

logger = logging.getLogger("nearsay")

_PATIENCE: Final = 60.0  # seconds for an answer: there may be files to read
_INLINE: Final = 65_536  # bytes: larger arrays are stored once and read by all shards
_KEPT: Final = 2  # snapshots of different generations in a shard


@dataclass(frozen=True, slots=True)
class ShardState:
    """A shard, and what it holds."""

    shard: int  # from 0
    replica: int  # from 0
    passages: int
    bytes: int  # memory of its process that is its own, mapped files not counted


@dataclass(frozen=True, slots=True)
class _Moment:
    """Which commit of which generation is searched."""

    collection: int
    version: int
    generation: int


class Shard:
    """Searches one part of a collection, in a process of its own."""

    def __init__(self, folder: str, database: str | sa.URL, collection: tuple[int, str], part: Part) -> None:
        """Nothing is opened yet; collection: its id and its name; part: which passages."""
        self._place = Path(folder), database
        self._collection, self._part = collection, part
        self._held: dict[int, Snapshot] = {}  # by generation; the last that was asked for stands last

    @cached_property
    def _store(self) -> Store:
        folder, database = self._place
        return Store(folder, Database(database))

    def ready(self, moment: _Moment) -> tuple[int, int]:
        """Open what is to be searched; how many passages, and the bytes of memory that are its own."""
        snapshot = self._at(moment)
        status = Path("/proc/self/status")
        held = 0
        if status.is_file():
            said = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            held = int(said["RssAnon"].split()[0]) * 1024
        return snapshot.searchable, held

    def nearest_many(
        self, moment: _Moment, queries: NDArray[np.float32], k: int, allowed: Passages | None
    ) -> tuple[int, list[Candidates]]:
        """The commit that was searched, and the k nearest of each query (n, d)."""
        snapshot = self._at(moment)
        return snapshot.collection.version, snapshot.nearest_many(queries, k, allowed)

    def looked_up(
        self, moment: _Moment, queries: NDArray[np.float32], k: int, reach: float, chosen: Chosen | None
    ) -> tuple[int, list[Candidates]]:
        """The same, with the index looking `reach` times as far as usual; chosen: into which lists."""
        snapshot = self._at(moment)
        found = snapshot.looked_up(queries, k, snapshot.alive, reach, chosen=chosen)
        return snapshot.collection.version, found

    def reaches_beyond(self, moment: _Moment, reach: float) -> tuple[int, bool]:
        """Whether its index can look further than so many times as far."""
        snapshot = self._at(moment)
        return snapshot.collection.version, snapshot.reaches_beyond(reach)

    def _at(self, moment: _Moment) -> Snapshot:
        """What was committed last, unless the moment that is asked for is open already."""
        held = self._held.pop(moment.generation, None)
        now = moment.collection, moment.version
        if held is None or (held.collection.id, held.collection.version) != now:
            with self._store.database.reading() as connection:
                number, name = self._collection
                row = collections.find(connection, name)
                if row is None or row.id != number:
                    raise UnknownCollectionError(
                        f"collection '{name}' was deleted since this shard began to serve it. Serve the one "
                        f"that is there: nearsay cluster serve {name}"
                    )
                every = generations.all_of(connection, row.id)
                chosen = generations.numbered(every, moment.generation, row.name)
                held = take(connection, self._store, row, held, chosen, part=self._part)
            assert held is not None  # noqa: S101 - a generation was named
        while len(self._held) >= _KEPT:
            del self._held[next(iter(self._held))]
        self._held[moment.generation] = held
        return held


class Shards:
    """The shards of a collection that run on a cluster, found by their names; safe to share."""

    def __init__(self, cluster: Cluster, store: Store) -> None:
        """Nothing is joined yet."""
        self.cluster, self._store = cluster, store
        self._stack, self._joined = ExitStack(), False
        # Actors by connection and collection, shard and replica.
        self._found: dict[tuple[int, int], list[list[Any]]] = {}
        self._turn = count()

    def ask(self, collection: CollectionRow, method: str, *given: Any) -> list[Any]:  # noqa: ANN401
        """What each shard gave; None for one that does not answer.

        ClusterError where none serve the collection, or the connection was lost: the next call joins the
        cluster again. What a shard raises is raised.
        """
        if self._joined and not ray_module().is_initialized():
            self.close()  # its connection was lost since the last call
        if not self._joined:
            self._stack.enter_context(joined(self.cluster))
            self._joined = True
        asked_through = connection()
        try:
            return self._answers(collection, method, given)
        except (Exception, SystemExit) as error:  # as in `joined`
            if not is_lost(error):
                raise
            leave_lost(asked_through)
            self.close()
            raise connection_lost(error) from error

    def _answers(self, collection: CollectionRow, method: str, given: Sequence[Any]) -> list[Any]:
        ray = ray_module()
        shared: list[Any] = []
        asked: list[list[Any]] = []
        for known in (True, False):
            shards = self._shards(collection, known=known)
            if shards == asked:
                break  # they are still the same
            asked = shards
            if not shared:
                shared = [ray.put(one) if _bytes(one) > _INLINE else one for one in given]
            answers = self._answers_of(shards, method, shared)
            if any(answer is not None for answer in answers):
                break  # else others may have been started in their place
        return answers

    def _shards(self, collection: CollectionRow, *, known: bool) -> list[list[Any]]:
        """The actors by shard and replica; known: as they were found before, when all were there."""
        shards = self._found.get((connection(), collection.id)) if known else None
        if shards is None:
            shards = _running(self._store, collection.name)
            key = connection(), collection.id
            self._found.pop(key, None)
            if shards and all(shards):  # else they are being started
                self._found[key] = shards
        if not shards:
            raise ClusterError(
                f"no shards serve collection '{collection.name}' on the cluster. "
                f"Start them: nearsay cluster serve {collection.name}"
            )
        return shards

    def _answers_of(self, shards: Sequence[Sequence[Any]], method: str, given: Sequence[Any]) -> list[Any]:
        """What a replica of each shard gave; where one gives nothing, all that are left are asked next."""
        ray, turn = ray_module(), next(self._turn)
        answers: list[Any] = [None] * len(shards)
        for other in range(max(map(len, shards))):
            calls = {
                at: getattr(replicas[(turn + other) % len(replicas)], method).remote(*given)
                for at, replicas in enumerate(shards)
                if answers[at] is None and other < len(replicas)
            }
            until = time.monotonic() + _PATIENCE  # for all together
            for at, call in calls.items():
                try:
                    answers[at] = ray.get(call, timeout=max(0.0, until - time.monotonic()))
                except ray.exceptions.RayTaskError as error:
                    raise raised_by(error) from error
                except ray.exceptions.RayError as error:  # its process ended, or its machine, or it is late
                    if is_lost(error):
                        raise
                    logger.info("a shard does not answer: %s", first_line(error))
        return answers

    def opened(
        self,
        connection: sa.Connection,
        store: Store,
        row: CollectionRow,
        before: Snapshot | None,
        chosen: GenerationRow,
    ) -> Snapshot | None:
        """Open a snapshot that the shards search, as `take` opens one that this process does."""
        found = take(connection, store, row, before, chosen, elsewhere=True)
        if found is None:
            return None
        kept = {each.name: getattr(found, each.name) for each in fields(Snapshot)}
        segments = generations.segments_of(connection, row.id, chosen.number)
        known = before.chooser if isinstance(before, ShardedSnapshot) else None
        chooser = _chooser(store, found, segments, known)
        return ShardedSnapshot(**kept, shards=self, chooser=chooser, covered=_covered(found, segments))

    def close(self) -> None:
        """Leave the cluster."""
        self._found.clear()
        self._stack.close()
        self._joined = False


@dataclass(frozen=True)
class ShardedSnapshot(Snapshot):
    """A moment of a collection that shards search; its vectors are mapped for the few that are read here."""

    shards: Shards | None = None
    chooser: "ListChooser | None" = None  # None where no index has lists
    missing: set[int] = field(default_factory=set)  # shards that did not answer
    covered: int | None = None  # the last passage that the shards' indexes cover; None without any
    whole: bool = False  # an answer without some shards is refused, whatever the cluster says

    @property
    def through(self) -> int | None:
        """The last passage that the shards' indexes cover; None without any."""
        return self.covered

    def for_one_search(self) -> "ShardedSnapshot":
        """The same, which remembers of this search alone who did not answer."""
        mine = replace(self, missing=set())
        mine.__dict__["chance"] = self.chance
        return mine

    def for_measuring(self) -> "ShardedSnapshot":
        """The same, which refuses an answer without some shards."""
        return replace(self, whole=True)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What has to be said of an answer, shards that did not give theirs included."""
        if not self.missing:
            return self.notes
        named = ", ".join(str(at) for at in sorted(self.missing))
        said = (
            f"a part of the collection was not searched: shard {named} did not answer. Try again in a "
            f"moment, or restart all: nearsay cluster serve {self.collection.name}"
        )
        return (*self.notes, said)

    @property
    def answered_by(self) -> str:
        """The kind of index that answers."""
        return str(self.plan.kind)

    def nearest_many(
        self,
        queries: NDArray[np.float32],
        k: int,
        allowed: Passages | None = None,
        sure_of: int | None = None,
    ) -> list[Candidates]:
        """The k nearest living passages of each query, by all shards.

        Where only some are allowed, each shard knows for itself how far it has to look, and whether by lists.
        """
        if allowed is None:
            return self._of_all(queries, k, k if sure_of is None else sure_of)
        return self._merged("nearest_many", np.ascontiguousarray(queries), k, allowed)

    def newer(
        self,
        queries: NDArray[np.float32],
        k: int,  # noqa: ARG002
        alive: NDArray[np.bool_] | None = None,  # noqa: ARG002
    ) -> list[Candidates]:
        """Nothing: `looked_up` has them."""
        return [NOTHING] * len(queries)

    def looked_up(
        self,
        queries: NDArray[np.float32],
        k: int,
        alive: NDArray[np.bool_],
        reach: float = 1.0,
        newer: Sequence[Candidates] | None = None,  # noqa: ARG002
        chosen: Chosen | None = None,
        *,
        further: bool = False,  # noqa: ARG002
    ) -> list[Candidates]:
        """The k nearest living passages, the indexes looking `reach` times as far as usual.

        The lists of a query are chosen here, once for all shards; chosen: they are already.
        """
        if alive is not self.alive:
            raise TypeError("shards know what is alive; name what is allowed instead")
        queries = np.ascontiguousarray(queries)
        if chosen is None and self.chooser is not None:
            chosen = self.chooser.chosen(self.plan, queries, reach)
        return self._merged("looked_up", queries, k, reach, chosen)

    def reaches_beyond(self, reach: float) -> bool:
        """Whether any shard's index can look further."""
        return any(self._asked("reaches_beyond", reach))

    def _merged(self, method: str, queries: NDArray[np.float32], k: int, *more: Any) -> list[Candidates]:  # noqa: ANN401
        every = self._asked(method, queries, k, *more)
        return [merge([found[at] for found in every], k) for at in range(len(queries))]

    def _asked(self, method: str, *given: Any) -> list[Any]:  # noqa: ANN401
        """What the shards gave that answer; ClusterError where one does not and no part is wanted."""
        assert self.shards is not None  # noqa: S101 - for the type checker
        moment = _Moment(self.collection.id, self.collection.version, self.generation.number)
        answers = self.shards.ask(self.collection, method, moment, *given)
        missing = [at for at, answer in enumerate(answers) if answer is None]
        there = [answer for answer in answers if answer is not None]
        if missing and (self.whole or not self.shards.cluster.partial or not there):
            raise ClusterError(
                f"{counted(len(missing), 'shard')} of {len(answers)} of collection '{self.collection.name}' "
                f"{'does' if len(missing) == 1 else 'do'} not answer, so the search failed. Ray restarts "
                "failed shards: try again in a moment, or accept partial results with --partial. Stopped "
                "shards stay away until you start all again: "
                f"nearsay cluster serve {self.collection.name} --shards {len(answers)}"
            )
        if any(version != self.collection.version for version, _ in there):
            raise StaleSnapshotError
        self.missing.update(missing)
        return [answer for _, answer in there]


class ListChooser:
    """Chooses the lists of a query for all groups of an index that have the centroids of one of them.

    A group with other centroids is left to its shard. The centroids are mapped when they are first asked for;
    of the rest of the file nothing is read.
    """

    def __init__(self, path: Path, segment: SegmentRow, header: SegmentHeader) -> None:
        """Of one index of a generation, the file and what it should be."""
        self.segment = segment.id  # not its content: a mended file has it again, what is mapped has not
        self._path, self._sha256, self._header = path, segment.sha256, header
        self._opening = threading.Lock()
        self._opened = False
        self._centroids: Centroids | None = None

    def chosen(self, plan: Plan, queries: NDArray[np.float32], reach: float) -> Chosen | None:
        """The lists of each query (n, d), contiguous, for an index that looks `reach` times as far as usual.

        None where the file cannot be opened here: shards choose for themselves.
        """
        centroids = self._open()
        if centroids is None:
            return None
        lists = centroids.count
        probes = min(probes_at(reach, usual_probes(plan, lists), lists), lists)
        return Chosen(Where(centroids.hash, probes), centroids.nearest(queries, probes))

    def _open(self) -> Centroids | None:
        with self._opening:
            if not self._opened:
                try:
                    # Not read through: shards check their files, and their hash of the centroids this one's.
                    held = open_index_bytes(self._path, self._sha256, self._header, unread=True)
                    self._centroids = open_centroids(held, self._header.dimension)
                    self._opened = True
                except (DamagedSegmentError, StorageError) as error:
                    self._opened = isinstance(error, DamagedSegmentError)  # else it is tried again
                    logger.warning("shards choose the lists of a query for themselves: %s", first_line(error))
            return self._centroids


def _covered(found: Snapshot, segments: Iterable[SegmentRow]) -> int | None:
    """The last passage that a snapshot's indexes cover; None where one of them cannot be used."""
    indexes = [row for row in segments if row.kind is SegmentKind.INDEX]
    sound = all(row.state is SegmentState.CURRENT for row in indexes)
    usable = indexes if sound and found.plan.kind is not PlanKind.EXACT else []
    return max((row.last_passage for row in usable), default=None)


def _chooser(
    store: Store, found: Snapshot, segments: Iterable[SegmentRow], before: ListChooser | None
) -> ListChooser | None:
    """What chooses lists for a snapshot; before: an earlier one's, taken again if it is of the same file."""
    plan = found.plan
    if plan.kind is PlanKind.EXACT or not engine_of(plan.kind).has_centroids or not faiss_is_installed():
        return None
    usable = (row for row in segments if row.kind is SegmentKind.INDEX and row.state is SegmentState.CURRENT)
    row = next(usable, None)  # further ones have its centroids, as a rule
    if row is None:
        return None
    if before is not None and before.segment == row.id:
        return before
    path = store.segment(found.collection.id, row.sha256)
    return ListChooser(path, row, row.header(found.generation.encoder))


def _bytes(given: object) -> int:
    """Of the arrays in it."""
    if isinstance(given, tuple):
        return sum(map(_bytes, given))
    return given.nbytes if isinstance(given, np.ndarray) else 0


def serve(store: Store, collection: CollectionRow, shards: int, replicas: int = 1) -> list[ShardState]:
    """Start the shards of a collection's live generation, in the place of those that run; what each holds.

    ClusterError where its files do not divide into so many, or the cluster has no room for all; BusyError
    while another process does the same.
    """
    cluster = _cluster_of(store)
    if shards < 1 or replicas < 1:
        raise BadInputError(f"{shards} shards of {replicas} replicas. Give 1 or more of each")
    ray = ray_module()

    with store.database.reading() as connection:
        generation = generations.live(connection, collection.id)
        if generation is None:
            raise ClusterError(f"collection '{collection.name}' is empty: there is nothing to serve")
        rows = generations.segments_of(connection, collection.id, generation.number)
    parts = parted(rows, shards)
    if len(parts) < shards:
        name, files = collection.name, sum(row.kind is SegmentKind.VECTORS for row in rows)
        why, more = f"its vectors are in {counted(files, 'file')}", ""
        if files > len(parts):
            why = "an index is held by one shard"
            more = f", or build its index in groups: nearsay index rebuild {name} --cluster ADDRESS"
        raise ClusterError(
            f"collection '{name}' divides into {counted(len(parts), 'part')}, not {shards}: {why}. "
            f"Serve it by fewer (--shards {len(parts)}){more}"
        )
    url = store.database.engine.url
    with joined(cluster), _sole(store, collection):
        refuse_far(store)
        needed, each = len(parts) * replicas, replace(cluster, gpus=0.0, workers=None)
        if room_of(each) < needed:  # said before those that run are ended
            raise _too_many(needed, each, room_of(each))
        _end(store, collection.name)
        if (room := free_room(each, needed, "a shard")) < needed:
            raise _too_many(needed, each, room)
        moment = _Moment(collection.id, collection.version, generation.number)
        started, begun = [], uuid.uuid4().hex  # what is ended keeps its name for a moment
        for at, part in enumerate(parts):
            for replica in range(replicas):
                name = f"{_prefix(store, collection.name)}{begun}-{at}-{len(parts)}-{replica}"
                actor: Any = ray.remote(Shard).options(
                    name=name,
                    namespace=NAMESPACE,  # a program that joined the cluster itself may have another
                    scheduling_strategy="SPREAD",  # else two replicas may stand on one machine of several
                    lifetime="detached",
                    num_cpus=cluster.cpus,
                    num_gpus=0,
                    max_restarts=-1,
                    max_task_retries=0,
                    max_concurrency=1,
                )
                given = str(store.folder), url, (collection.id, collection.name), part
                started.append((at, replica, actor.remote(*given)))
        try:
            opened = answers_of([actor.ready.remote(moment) for _, _, actor in started])
        except StaleSnapshotError:
            raise BusyError(
                f"collection '{collection.name}' is being compacted. Run the command again"
            ) from None
    return [
        ShardState(at, replica, passages, held)
        for (at, replica, _), (passages, held) in zip(started, opened, strict=True)
    ]


def _too_many(needed: int, each: Cluster, room: int) -> ClusterError:
    return ClusterError(
        f"{counted(needed, 'shard')}, replicas counted, take {each.cpus:g} of a core each, and the cluster "
        f"has room for {room}. Serve by fewer, give each less (--worker-cpus .25), end what holds the cores, "
        "or add a machine"
    )


def release(store: Store, name: str, collection: CollectionRow | None) -> int:
    """End the shards of a collection, None = of one that was deleted; how many there were."""
    with joined(_cluster_of(store)), nullcontext() if collection is None else _sole(store, collection):
        return _end(store, name)


def _cluster_of(store: Store) -> Cluster:
    if store.cluster is None:
        raise BadInputError(
            "shards run on a cluster, and the library was opened without one. Name it: "
            "Library.open(…, cluster=Cluster(ADDRESS))"
        )
    return store.cluster


def _sole(store: Store, collection: CollectionRow) -> contextlib.AbstractContextManager[None]:
    """The right to start and end its shards: two who did so at once would wait for each other's cores."""
    return serving_lock(store.locks, collection.name, collection.id, store.database, store.wait)


def _end(store: Store, collection: str) -> int:
    """End all shards of a collection; how many there were."""
    every = [actor for shards in _sets(store, collection) for each in shards for actor in each]
    for actor in every:
        ray_module().kill(actor)
    return len(every)


def _prefix(store: Store, collection: str) -> str:
    """How the names of a collection's shards begin: of this library in this folder, not of its copies."""
    with store.database.reading() as connection:
        library: str = connection.execute(sa.select(libraries.c.id)).scalar_one()
    place = os.fsencode(store.folder) + b"\0" + collection.encode()
    return f"shard-{library}-{hashlib.sha256(place).hexdigest()[:32]}-"


def _running(store: Store, collection: str) -> list[list[Any]]:
    """The actors of a collection by shard and replica; none for a shard that is gone.

    While some take the place of others there are two sets, of which one may be whole.
    """
    sets = _sets(store, collection)
    return max(sets, key=lambda shards: sum(map(bool, shards)) / len(shards), default=[])


def _sets(store: Store, collection: str) -> list[list[list[Any]]]:
    """The actors that were started together, by shard and replica."""
    ray = ray_module()

    prefix = _prefix(store, collection)
    found: dict[str, list[list[Any]]] = {}
    named = ray.util.list_named_actors(all_namespaces=True)
    for name in sorted(one["name"] for one in named if one["namespace"] == NAMESPACE):
        if name.startswith(prefix):
            begun, shard, parts, _ = name.removeprefix(prefix).split("-")
            shards = found.setdefault(begun, [[] for _ in range(int(parts))])
            with contextlib.suppress(ValueError):  # it ended just now
                shards[int(shard)].append(ray.get_actor(name, NAMESPACE))
    return [shards for shards in found.values() if any(shards)]
