"""Indexing a generation by the workers of a Ray cluster.

The index is trained once, on vectors drawn from everywhere, and each worker fills copies of it with groups of
passages: the centroids and the code book are the same in all, so that what a group proposes is what one index
of everything would have proposed of it. Candidates of all groups are scored exactly, each by its worker. The
kind is the smallest that keeps the contract, measured over the whole: every worker answers the same queries,
by its index and by looking at all of its vectors, and the driver merges both.

A worker holds what it has built. One that dies is restarted and builds it again; the driver alone commits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.indexer.catalogue import passages
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.generations import GenerationRow, SegmentRow
from nearsay.indexer.catalogue.store import Cluster, Store
from nearsay.indexer.cluster.joining import (
    answers_of,
    end_processes,
    free_room,
    joined,
    ray_module,
    refuse_far,
    room_of,
)
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engine import SEED, fill
from nearsay.indexer.plans.engines import ENGINES, InvertedLists, engine_of, open_index
from nearsay.indexer.plans.plan import GIVEN_QUERIES, Measured, Plan, PlanKind
from nearsay.indexer.plans.trials import (
    DECIDING,
    PROPOSING,
    TrialQueries,
    answered,
    enough_to_show,
    given,
    judged,
    refuse_few,
    with_recall,
)
from nearsay.indexer.snapshots.quarantine import open_all
from nearsay.indexer.snapshots.segment_writer import IndexPart, emptied, written_index
from nearsay.indexer.vectors.progress import Progress, ProgressListener, unheard
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore, merge

_GROUP: Final = 8_000_000  # passages in a group at most, where segments allow it
_KINDS: Final = (PlanKind.IVF_PQ, PlanKind.IVF_SQ8, PlanKind.IVF)  # the smallest first
_TRIES: Final = 3  # for a worker that died
_DOING: Final = "building the index"
_MEASURING: Final = "measuring kinds of index"


@dataclass(frozen=True, slots=True)
class _Recipe:
    """The trained and empty index that every group is filled into."""

    kind: PlanKind
    shape: Mapping[str, int]
    trained: NDArray[np.uint8]  # FAISS's own serialisation


# Of a group its vectors, which passages are alive, and the numbers of these.
_Group: TypeAlias = tuple[VectorStore, NDArray[np.bool_], NDArray[np.int64]]


class Builder:
    """Builds and asks the indexes of some groups, in a process of its own."""

    def __init__(
        self,
        folder: str,
        database: str | sa.URL,
        collection: CollectionRow,
        generation: GenerationRow,
        groups: Sequence[Sequence[SegmentRow]],
    ) -> None:
        """Nothing is opened yet: an actor that does not start could not say why.

        groups: files of vectors that follow each other
        """
        self._place = Path(folder), database
        self._collection, self._generation, self._rows = collection, generation, groups
        self._opened_groups: list[_Group] | None = None
        self._built: tuple[bytes, list[CandidateIndex]] | None = None

    @property
    def _groups(self) -> list[_Group]:  # no cached_property: its lock in Python 3.11 cannot be pickled
        if self._opened_groups is None:
            folder, database = self._place
            self._store = Store(folder, Database(database))
            with self._store.database.reading() as connection:
                self._opened_groups = [self._opened(connection, rows) for rows in self._rows]
        return self._opened_groups

    def sizes(self) -> list[int]:
        """How many living passages each group has."""
        return [ids.size for _, _, ids in self._groups]

    def drawn(self, counts: Sequence[int], seed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """So many passages of each group, drawn by chance, and their vectors (n, d)."""
        numbers, rows = [], []
        for (vectors, _, ids), count in zip(self._groups, counts, strict=True):
            generator = np.random.default_rng((seed, int(ids[0]) if ids.size else 0))
            chosen = np.sort(generator.choice(ids, size=min(count, ids.size), replace=False))
            numbers.append(chosen)
            rows.append(vectors.rows(vectors.positions(chosen)))
        return np.concatenate(numbers), np.concatenate(rows)

    def exact(self, queries: NDArray[np.float32], k: int) -> list[Candidates]:
        """The k nearest of each query (n, d) by looking at all."""
        found = [vectors.nearest_many(queries, k, alive) for vectors, alive, _ in self._groups]
        return _merged(found, k)

    def build(self, recipe: _Recipe) -> int:
        """Build, where that is not done; how many passages."""
        return sum(len(index) for index in self._indexes(recipe))

    def found(
        self, recipe: _Recipe, parameters: Mapping[str, int], queries: NDArray[np.float32], k: int
    ) -> list[Candidates]:
        """The k nearest of each query (n, d) through the indexes."""
        found = [
            index.looking(parameters).nearest_many(vectors, queries, k, alive)
            for index, (vectors, alive, _) in zip(self._indexes(recipe), self._groups, strict=True)
        ]
        return _merged(found, k)

    def written(self, recipe: _Recipe, folder: str) -> list[tuple[str, int]]:
        """Write the segments of the indexes into a folder; the name and the count of each."""
        place, made_by = Path(folder), self._generation.encoder
        return [(written_index(place, made_by, index).name, len(index)) for index in self._indexes(recipe)]

    def _opened(self, connection: sa.Connection, rows: Sequence[SegmentRow]) -> _Group:
        opened = open_all(self._store, self._collection, self._generation, rows, seen=True)
        vectors = VectorStore(opened.segments, opened.dimension, gives_back=True)
        before, through = rows[0].first_passage - 1, rows[-1].last_passage
        alive = np.zeros(through + 1, dtype=np.bool_)
        alive[passages.passage_numbers(connection, self._collection.id, after=before, through=through)] = True
        alive.flags.writeable = False
        return vectors, alive, vectors.ids[alive[vectors.ids]]

    def _indexes(self, recipe: _Recipe) -> list[CandidateIndex]:
        key = recipe.trained.tobytes()
        if self._built is None or self._built[0] != key:
            self._built = None  # memory holds one of them
            built = []
            for vectors, alive, ids in self._groups:
                index = open_index(recipe.kind, recipe.trained, alive.size - 1)
                fill(index.faiss_index, vectors, ids)
                built.append(index)
            self._built = key, built
        return self._built[1]


def index_on_cluster(
    store: Store,
    collection: CollectionRow,
    generation: GenerationRow,
    rows: Sequence[SegmentRow],
    plan: Plan,
    folder: Path,
    *,
    measured: bool,
    indexes: Sequence[SegmentRow] = (),
    queries: NDArray[np.float32] | None = None,
    listener: ProgressListener = unheard,
) -> tuple[Plan, tuple[IndexPart, ...]]:
    """Build the index of a generation by groups; the plan, and the written segments.

    rows:     its segments of vectors
    folder:   where the segments are written
    measured: choose the kind and how far a search looks, to keep the plan's contract over the whole; False:
        as the plan has them, if its kind has centroids that groups can share. The plan is exact, and there
        are no segments, where no kind keeps it
    indexes:  its segments of indexes, whose centroids are taken where nothing is measured
    queries:  (n, d) unit length, the user's own, to measure with; None: stored vectors

    The caller enters what comes back. StaleSnapshotError where others replaced files before workers had them.
    """
    cluster = store.cluster
    assert cluster is not None  # noqa: S101 - for the type checker
    with joined(cluster):
        indexing = _Indexing(store, cluster, collection, generation, rows, plan, folder, listener=listener)
        try:
            if measured or not isinstance(engine_of(plan.kind), InvertedLists):
                return indexing.measured(queries)
            made_by = generation.encoder
            empty = (
                emptied(store.segment(collection.id, each.sha256), each, made_by, plan) for each in indexes
            )
            return indexing.as_it_was(next((one for one in empty if one is not None), None))
        finally:
            indexing.end()


class _Indexing:
    def __init__(
        self,
        store: Store,
        cluster: Cluster,
        collection: CollectionRow,
        generation: GenerationRow,
        rows: Sequence[SegmentRow],
        plan: Plan,
        folder: Path,
        *,
        listener: ProgressListener,
    ) -> None:
        ray = ray_module()

        refuse_far(store)
        self._plan, self._listener = plan, listener
        self._dimension = generation.encoder.dimension
        self._folder = folder
        rows = sorted(rows, key=lambda row: row.first_passage)
        total = sum(row.count for row in rows)
        # As many as there are workers when nothing else runs: what is free now does not show in the index.
        groups = _grouped(rows, max(room_of(cluster), -(-total // _GROUP)))
        self._spans = [(group[0].first_passage, group[-1].last_passage) for group in groups]
        self._spans[-1] = self._spans[-1][0], max(self._spans[-1][1], rows[-1].last_passage)
        workers = free_room(
            cluster, min(max(1, room_of(cluster)), len(groups)), "a worker that builds an index"
        )
        url = store.database.engine.url
        # A call is tried as long as its worker is started again: while a machine goes, tries fail at once.
        actor = ray.remote(Builder).options(
            num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_restarts=_TRIES, max_task_retries=-1
        )
        cuts = [at * len(groups) // workers for at in range(workers + 1)]
        self._shares = [slice(begin, end) for begin, end in pairwise(cuts)]  # the groups of each worker
        self._builders: list[Any] = [
            actor.remote(str(store.folder), url, collection, generation, groups[share])
            for share in self._shares
        ]
        try:
            self._sizes = [size for sizes in self._each("sizes") for size in sizes]
        except BaseException:
            self.end()
            raise
        self._total = sum(self._sizes)

    def as_it_was(self, kept: CandidateIndex | None) -> tuple[Plan, tuple[IndexPart, ...]]:
        """The plan, and the segments of the kind that it has; kept: trained and empty, None: train one."""
        kind, shape = self._plan.kind, self._plan.shape
        recipe = self._trained(kind, shape) if kept is None else _Recipe(kind, shape, kept.serialise())
        self._build(recipe)
        return replace(self._plan, check=None), self._written(recipe)

    def end(self) -> None:
        """End the workers."""
        end_processes(self._builders)

    def measured(self, queries: NDArray[np.float32] | None) -> tuple[Plan, tuple[IndexPart, ...]]:
        """The plan that keeps the contract, and the written segments."""
        contract, report, trial = self._plan.contract, list[Measured](), self._trial(queries)
        plan = replace(
            self._plan,
            measured_at=self._total,
            queries=f"{len(trial):,} {'stored vectors' if queries is None else GIVEN_QUERIES}",
            check=None,
        )
        for kind in _KINDS if enough_to_show(len(trial), contract.recall) else ():
            for shape in ENGINES[kind].shapes(self._total, self._dimension):
                expected = ENGINES[kind].expected_bytes(self._total, self._dimension, shape)
                row = Measured(kind, dict(shape), bytes=expected)
                if contract.memory_bytes is not None and expected > contract.memory_bytes:
                    report.append(replace(row, verdict="not built: takes more than the memory that is given"))
                    continue
                recipe = self._trained(kind, shape)
                self._build(recipe)
                self._listener(Progress(len(report), None, _MEASURING, "candidates"))
                row = self._climbed(recipe, row, *trial.parted())
                report.append(row)
                if row.verdict == "taken":
                    chosen = plan.chosen(
                        kind,
                        shape=dict(shape),
                        parameters=row.parameters,
                        report=tuple(report),
                        note="the smallest kind that keeps the contract, measured over the whole",
                    )
                    return chosen, self._written(recipe)
        note = f"no index can be shown to keep {contract}: searched exactly, from the mapped vectors"
        return plan.chosen(PlanKind.EXACT, shape={}, parameters={}, report=tuple(report), note=note), ()

    def _climbed(
        self, recipe: _Recipe, row: Measured, proposing: TrialQueries, deciding: TrialQueries
    ) -> Measured:
        """The first setting that keeps the recall, or the last there is with what it lacks."""
        for parameters in engine_of(recipe.kind).ladder(self._total, recipe.shape):
            found = partial(self._nearest, deciding.asked, "found", recipe, dict(parameters))
            recalls, failing = judged(found, proposing, deciding, self._plan.contract.recall)
            row = with_recall(replace(row, parameters=dict(parameters), verdict=failing or "taken"), recalls)
            if not failing:
                break
        return row

    def _nearest(self, k: int, method: str, *given: Any) -> list[Candidates]:  # noqa: ANN401 - as it has them
        """The k nearest of each query of all that the workers find; given: what the method takes before k."""
        return _merged(self._each(method, *given, k), k)

    def _trial(self, queries: NDArray[np.float32] | None) -> TrialQueries:
        """The user's own queries, or stored vectors, each to find its neighbours but not itself.

        In an order by chance; BadInputError for too few of the user's.
        """
        generator, at = np.random.default_rng(SEED), self._plan.contract.at

        def exact(some: NDArray[np.float32], count: int) -> list[Candidates]:
            return self._nearest(count, "exact", some)

        if queries is not None:
            refuse_few(len(queries), self._plan.contract)
            return given(queries, at, generator, exact)
        own, vectors = self._drawn(PROPOSING + DECIDING, SEED + 1)
        order = generator.permutation(own.size)
        return answered(vectors[order], own[order], at, exact)

    def _trained(self, kind: PlanKind, shape: Mapping[str, int]) -> _Recipe:
        engine = engine_of(kind)
        if not isinstance(engine, InvertedLists):
            msg = f"{kind} has no centroids that workers could share"
            raise TypeError(msg)
        sample = self._drawn(engine.training_vectors(shape), SEED)[1]
        self._listener(Progress(0, None, "training the index", "vectors"))
        index = CandidateIndex(engine, engine.trained(sample, shape), 0)
        return _Recipe(kind, dict(shape), index.serialise())

    def _drawn(self, count: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """A sample of passages, ascending, from each group its share, and their vectors."""
        share = min(1.0, count / max(self._total, 1))
        counts = [int(np.ceil(share * size)) for size in self._sizes]
        calls = [
            builder.drawn.remote(counts[mine], seed)
            for builder, mine in zip(self._builders, self._shares, strict=True)
        ]
        numbers, rows = zip(*answers_of(calls), strict=True)
        return np.concatenate(numbers), np.concatenate(rows)

    def _build(self, recipe: _Recipe) -> None:
        ray = ray_module()

        shared = ray.put(recipe)
        waiting = {builder.build.remote(shared): builder for builder in self._builders}
        done = 0
        self._listener(Progress(0, self._total, _DOING, "passages"))
        while waiting:
            (ready,), _ = ray.wait(list(waiting), num_returns=1)
            del waiting[ready]
            (count,) = answers_of([ready])
            done += count
            self._listener(Progress(done, self._total, _DOING, "passages"))

    def _written(self, recipe: _Recipe) -> tuple[IndexPart, ...]:
        written = [one for each in self._each("written", recipe, str(self._folder)) for one in each]
        parts = zip(written, self._spans, strict=True)
        return tuple(IndexPart(self._folder / name, count, span) for (name, count), span in parts if count)

    def _each(self, method: str, *given: Any) -> list[Any]:  # noqa: ANN401 - what the method takes and gives
        ray = ray_module()

        shared = [ray.put(one) for one in given]
        return answers_of([getattr(builder, method).remote(*shared) for builder in self._builders])


def _grouped(rows: Sequence[SegmentRow], count: int) -> list[list[SegmentRow]]:
    """The files in up to `count` groups of about as many vectors, each a run of them."""
    total = sum(row.count for row in rows)
    groups: dict[int, list[SegmentRow]] = {}
    before = 0
    for row in rows:
        at = (2 * before + row.count) * count // (2 * total)
        groups.setdefault(at, []).append(row)
        before += row.count
    return [groups[at] for at in sorted(groups)]


def _merged(found: Sequence[list[Candidates]], k: int) -> list[Candidates]:
    return [merge(list(of_query), k) for of_query in zip(*found, strict=True)]
