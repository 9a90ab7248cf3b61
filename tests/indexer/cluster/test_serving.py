"""Searching by the shards of a Ray cluster."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

if find_spec("ray") is None or find_spec("faiss") is None:
    pytest.skip("Ray or FAISS is not installed", allow_module_level=True)
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}  # read when Ray is imported

import faiss
import postgresql_server
import ray
from grouped_collection import (
    BATCH,
    COUNT,
    ROWS,
    SOON,
    VECTORS,
    WIDTH,
    ends_itself,
    ids_of,
    indexes,
    near,
    segments,
    unsound,
    with_lists,
    without_index,
)
from ray_processes import MEMORY, kill_one, live_nodes

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Cluster, ClusterError, Collection, Library, UnknownCollectionError, VectorsOnly
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import SegmentRow, SegmentState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.cluster import serving
from nearsay.indexer.cluster.serving import Shard, ShardedSnapshot, Shards, _prefix, _running
from nearsay.indexer.filters import selection
from nearsay.indexer.judgements.gate import measure_gate
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.centroids import Centroids, Lists
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.snapshots.contract_check import checked
from nearsay.indexer.snapshots.snapshot import Part, part_of, parted
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.vectors.vector_store import Candidates

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Ray's own


@pytest.fixture
def opened(folder: Path, nodes: Any) -> Iterator[tuple[Collection, Callable[..., Collection]]]:
    """The collection as this process searches it, and what gives it as its shards do, if there are any."""
    with Library.open(folder, cluster=Cluster(nodes.address, cpus=0.25)) as library:
        libraries = []

        def by_shards(**how: Any) -> Collection:
            libraries.append(Library.open(folder, cluster=Cluster(nodes.address, searches=True, **how)))
            return libraries[-1].collection("made")

        yield library.collection("made"), by_shards
        for one in libraries:
            one.close()


@pytest.fixture
def served(
    opened: tuple[Collection, Callable[..., Collection]],
) -> tuple[Collection, Callable[..., Collection]]:
    """The same, served by three shards: those of the test before, where it left all three."""
    library = opened[0].library
    if _processes_of(library) != ["0-3-0", "1-3-0", "2-3-0"]:
        passages = [state.passages for state in library.serve("made", 3)]
        assert passages == pytest.approx([COUNT / 3] * 3, abs=BATCH)
    return opened


def _processes_of(library: Library) -> list[str]:
    """Which shards and replicas there are."""
    names = (name for name in ray.util.list_named_actors() if name.startswith(_prefix(library.store, "made")))
    return sorted(name.removeprefix(_prefix(library.store, "made")).partition("-")[2] for name in names)


@pytest.mark.long
@pytest.mark.parametrize("listed", [20_000, 0])
def test_shards_find_what_one_process_finds(
    served: Any, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    monkeypatch.setattr(selection, "LISTED", listed)
    made, by_shards = served
    sharded, queries = by_shards(), near(30, seed=9)
    assert ids_of(sharded, queries) == ids_of(made, queries)
    for where in ("tenth = 3", "tenth != 3", "id = '17'", "tenth > 100"):
        assert ids_of(sharded, queries, where=where) == ids_of(made, queries, where=where)
    for at, query in enumerate(queries[:5]):
        alone, hits = made.search(query, 7, mode="dense"), sharded.search(query, 7, mode="dense")
        assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in alone], at
        assert hits.notes == alone.notes


class _Here(Shards):
    """Shards in this process."""

    def __init__(self, store: Store, collection: CollectionRow, parts: list[Part]) -> None:
        super().__init__(Cluster("nowhere"), store)
        where = str(store.folder), f"sqlite:///{store.folder / 'catalogue.sqlite'}"
        self._here = [Shard(*where, (collection.id, collection.name), part) for part in parts]

    def ask(self, collection: CollectionRow, method: str, *given: Any) -> list[Any]:
        return [getattr(shard, method)(*given) for shard in self._here]


def _here(library: Library) -> _Here:
    """Three shards of the collection that stand in this process."""
    return _Here(library.store, library.collection("made")._record.row(), parted(segments(library), 3))


def _in_shards(library: Library) -> ShardedSnapshot:
    """The collection as they search it."""
    here = _here(library)
    with library.store.database.reading() as connection:
        row = collections.find(connection, "made")
        assert row is not None
        live = generations.live(connection, row.id)
        assert live is not None
        found = here.opened(connection, library.store, row, None, live)
    assert isinstance(found, ShardedSnapshot)
    return found


def _worse(library: Library) -> None:
    """Let the plan look into one list only: its recall falls far below the contract."""
    made = library.collection("made")
    with library.store.database.writing() as connection:
        plan = replace(Plan.from_json(made._record.live().plan), parameters={"probes": 1, "factor": 1})
        generations.set_plan(connection, made._record.live(), plan.to_json())
        collections.changed(connection, 1)


def test_what_shards_find_is_measured_like_what_one_process_finds(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "library")
    with Library.open(tmp_path / "library") as library:
        for kept in (True, False):
            whole, sharded = library.collection("made").snapshot(), _in_shards(library)
            assert sharded.through == whole.through == COUNT
            assert checked(sharded, 0.0).recall >= checked(whole, 0.0).recall, "each proposes as many"
            assert checked(sharded, 0.0).kept is checked(whole, 0.0).kept is kept
            report = measure_gate({}, lambda *_, **__: [], sharded, sharded, lambda _: None)
            assert report.contract is kept
            _worse(library)


@pytest.fixture
def worse(folder: Path, tmp_path: Path) -> Iterator[tuple[Collection, Shards]]:
    """A collection that finds less than it promises, and the shards that search it."""
    shutil.copytree(folder, tmp_path / "library")
    with Library.open(tmp_path / "library") as library:
        _worse(library)
        shards = library._shards = _here(library)
        yield library.collection("made"), shards


def test_removals_beside_shards_are_looked_at_and_without_them_nothing_is_claimed(
    worse: tuple[Collection, Shards], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, shards = worse
    answers = shards.ask
    shards.cluster = Cluster("nowhere", partial=True)
    with monkeypatch.context() as patch:
        patch.setattr(shards, "ask", lambda *given: [*answers(*given)[:2], None])
        made.remove([str(at) for at in range(600)])
    assert made.warnings() == (), "nothing is measured on a part"
    made.remove(["700"])
    (warning,) = made.warnings()
    assert "no longer holds" in warning


def test_what_others_write_while_shards_are_measured_is_measured_later(
    worse: tuple[Collection, Shards], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, shards = worse
    answers = shards.ask

    def meanwhile(*given: Any) -> list[Any]:
        return [(version + 1, answer) for version, answer in answers(*given)]

    monkeypatch.setattr(shards, "ask", meanwhile)
    assert made.remove([str(at) for at in range(600)]) == 600
    assert made.warnings() == ()


def test_others_may_write_while_shards_are_measured(
    worse: tuple[Collection, Shards], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, shards = worse
    answers, written = shards.ask, list[str]()

    def meanwhile(*given: Any) -> list[Any]:
        with made._writing.held("write", 0.0):
            written.append("written")
        return answers(*given)

    monkeypatch.setattr(shards, "ask", meanwhile)
    made.remove([str(at) for at in range(600)])
    assert written, "a shard may be as long in answering as it likes"
    (warning,) = made.warnings()
    assert "no longer holds" in warning


def test_what_has_to_be_said_of_an_index_is_said_where_shards_search(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "library")
    with Library.open(tmp_path / "library") as library:
        _worse(library)
        made = library.collection("made")
        made.remove([str(at) for at in range(600)])
        for said in ("no longer holds", "in quarantine"):
            (note,) = made.snapshot().notes
            assert said in note
            assert _in_shards(library).notes == (note,)
            with library.store.database.writing() as connection:
                index = next(row for row in segments(library) if row.kind is SegmentKind.INDEX)
                generations.set_segment_state(connection, index, SegmentState.QUARANTINED)
                collections.changed(connection, 1)


def test_the_gate_asks_no_shards(tmp_path: Path, nodes: Any) -> None:
    with Library.open(tmp_path / "library", cluster=Cluster(nodes.address, searches=True)) as library:
        made = library.collection("made", encoder=VectorsOnly("made", WIDTH))
        made.add_rows(ROWS[:10], vectors=VECTORS[:10])
        again = [{"id": "again", "text": "the first row again"}]
        report = made.add_rows(again, vectors=VECTORS[:1], near_duplicates="skip")
        assert report.near_duplicates is not None
        assert report.near_duplicates.count == 1
        assert "again" not in made


class _Replica:
    """An actor whose method gives what it is called."""

    def __init__(self, name: str) -> None:
        self.nearest_many = SimpleNamespace(remote=lambda: name)


def test_shards_that_hang_are_waited_for_together_and_once(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]

    def late(_: str, timeout: float) -> None:
        seconds[0] += timeout
        raise ray.exceptions.GetTimeoutError("late")

    actors = [[_Replica("one")], [_Replica("two")], []]
    monkeypatch.setattr(serving, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    monkeypatch.setattr(ray, "get", late)
    monkeypatch.setattr(serving, "_running", lambda *_: actors)
    with Library.open(tmp_path / "library") as library:
        shards = Shards(Cluster(nodes.address), library.store)
        asked: Any = SimpleNamespace(id=1, name="made")
        assert shards.ask(asked, "nearest_many") == [None, None, None]
        shards.close()
    assert seconds == [serving._PATIENCE]


@pytest.mark.parametrize(
    "ended", [ray.exceptions.OutOfMemoryError("killed"), ray.exceptions.ObjectLostError("00", "it", "")]
)
def test_a_replica_answers_whatever_became_of_another(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch, ended: Exception
) -> None:
    def get(name: str, timeout: float) -> str:
        assert timeout > 0
        if name == "gone":
            raise ended
        return name

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(serving, "_running", lambda *_: [[_Replica("gone"), _Replica("there")]])
    with Library.open(tmp_path / "library") as library:
        shards = Shards(Cluster(nodes.address), library.store)
        asked: Any = SimpleNamespace(id=1, name="made")
        assert [shards.ask(asked, "nearest_many") for _ in range(2)] == [["there"], ["there"]]
        shards.close()


def _same(found: Sequence[Candidates], wanted: Sequence[Candidates]) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one.ids, other.ids)
        np.testing.assert_array_equal(one.scores, other.scores)


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """For how many queries lists were chosen, and how many, each time that this process chose any."""
    made, choose = list[tuple[int, int]](), Centroids.nearest

    def counted(self: Centroids, queries: NDArray[np.float32], probes: int) -> Lists:
        made.append((len(queries), probes))
        return choose(self, queries, probes)

    monkeypatch.setattr(Centroids, "nearest", counted)
    return made


@pytest.mark.parametrize("count", [1, 30])
def test_the_lists_of_a_query_are_chosen_once_for_all_shards(
    folder: Path, choices: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    queries = near(count, seed=45)
    with Library.open(folder) as library:
        whole, sharded = library.collection("made").snapshot(), _in_shards(library)
        probes = whole.plan.parameters["probes"]
        for reach in (1.0, 2.0):
            wanted = whole.looked_up(queries, 10, whole.alive, reach)
            choices.clear()
            with monkeypatch.context() as patch:
                patch.setattr(CandidateIndex, "candidates", with_lists)
                found = sharded.looked_up(queries, 10, sharded.alive, reach)
            _same(found, wanted)
            assert choices == [(count, int(reach * probes))]
        choices.clear()
        _same(sharded.nearest_many(queries, 10), whole.nearest_many(queries, 10))
        assert len(choices) == 2, "once by shards, once by one process"
        choices.clear()
        few = np.arange(5, 500, 5)  # that are compared one by one
        _same(sharded.nearest_many(queries, 10, few), whole.nearest_many(queries, 10, few))
        assert choices == []


def test_shards_choose_for_themselves_where_they_have_other_centroids_or_none_can_be_opened(
    folder: Path, choices: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    query = near(1, seed=47)
    with Library.open(folder) as library:
        whole = library.collection("made").snapshot()
        wanted = whole.nearest_many(query, 10)
        for chooser in ("other", "none"):
            sharded = _in_shards(library)
            assert sharded.chooser is not None
            if chooser == "other":
                other = faiss.IndexFlatIP(WIDTH)
                other.add(VECTORS[: whole.plan.shape["lists"]])
                monkeypatch.setattr(sharded.chooser, "_open", lambda flat=other: Centroids(flat))
            else:
                monkeypatch.setattr(sharded.chooser, "_path", folder / "segments" / "1" / "away")
            choices.clear()
            _same(sharded.nearest_many(query, 10), wanted)
            assert len(choices) == 3 + (chooser == "other")
            _same(sharded.nearest_many(query, 10), wanted)
    (said,) = (one.message for one in caplog.records if "shards choose the lists" in one.message)
    assert "segment away is missing" in said


def test_centroids_are_opened_once_for_all_snapshots_of_the_same_index(folder: Path) -> None:
    with Library.open(folder) as library:
        first = _in_shards(library)
        first.nearest_many(near(1, seed=49), 10)
        assert first.shards is not None
        with library.store.database.reading() as connection:
            again = first.shards.opened(connection, library.store, first.collection, first, first.generation)
        assert isinstance(again, ShardedSnapshot)
        assert again.chooser is first.chooser is first.for_one_search().chooser


@pytest.mark.long
def test_shards_are_sent_the_lists_of_each_query(served: Any, choices: list[tuple[int, int]]) -> None:
    def watch(_: Any) -> None:  # here, so that it is sent as it is: a worker does not import the tests
        from nearsay.indexer.plans.centroids import Centroids

        choose, Centroids.watched = Centroids.nearest, []  # type: ignore[attr-defined]

        def noted(self: Any, queries: Any, probes: int) -> Any:
            Centroids.watched.append(probes)  # type: ignore[attr-defined]
            return choose(self, queries, probes)

        Centroids.nearest = noted  # type: ignore[method-assign]

    def watched(_: Any) -> int:
        from nearsay.indexer.plans.centroids import Centroids

        return len(Centroids.watched)  # type: ignore[attr-defined]

    made, by_shards = served
    sharded, queries = by_shards(), near(20, seed=51)
    actors = [actor for (actor,) in _running(made.library.store, "made")]
    ray.get([actor.__ray_call__.remote(watch) for actor in actors])
    found = [ids_of(sharded, query[None])[0] for query in queries]
    assert len(choices) == len(queries)
    assert ray.get([actor.__ray_call__.remote(watched) for actor in actors]) == [0, 0, 0]
    assert found == [ids_of(made, query[None])[0] for query in queries]


@pytest.mark.long
@pytest.mark.usefixtures("one_builder")
def test_a_catalogue_that_is_started_again_while_workers_index_and_shards_search_loses_nothing(
    tmp_path: Path, nodes: Any, own_postgresql_server: postgresql_server.Server
) -> None:
    restarted: list[str] = []

    def restart(progress: Progress) -> None:
        if progress.doing == "building the index" and not restarted:
            restarted.append(progress.doing)
            own_postgresql_server.stop()
            own_postgresql_server.start()

    folder, query = tmp_path / "library", near(3, seed=35)
    with (
        postgresql_server.new_database(own_postgresql_server.url) as url,
        Library.open(folder, database=url, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library,
        Library.open(folder, database=url, cluster=Cluster(nodes.address, searches=True)) as searching,
    ):
        made, sharded = without_index(library), searching.collection("made")
        with contextlib.suppress(NearsayError):  # it may go on by itself
            made.tune(progress=restart)
        assert restarted
        made.tune()
        assert len(indexes(library)) == 2
        assert sum(state.passages for state in library.serve("made", 2)) == 2000
        wanted = ids_of(made, query)
        assert ids_of(sharded, query) == wanted
        own_postgresql_server.stop()
        own_postgresql_server.start()
        assert ids_of(sharded, query) == wanted
        made.add_rows([{"id": "new", "text": "new"}], vectors=query[:1], index="later")
        assert ids_of(sharded, query)[0][0] == "new", "each shard reads the catalogue again"
        assert unsound(library) == []
        assert library.release("made") == 2


@pytest.mark.long
def test_shards_see_what_was_added_and_removed(served: Any) -> None:
    made, by_shards = served
    sharded, query = by_shards(), near(1, seed=11)
    first = ids_of(sharded, query)[0][0]
    made.add_rows([{"id": "new", "text": "new"}], vectors=query, index="later")
    try:
        assert ids_of(sharded, query)[0][:2] == ["new", first]
        made.remove(["new"])
        assert ids_of(sharded, query)[0][0] == first
    finally:
        made.remove(["new"], missing="ignore")


@pytest.mark.long
def test_a_shard_that_was_killed_is_started_again(served: Any, nodes: Any) -> None:
    made, by_shards = served
    sharded, query = by_shards(), near(1, seed=13)
    kill_one(nodes.address, "ray::Shard")
    until, found = time.monotonic() + 60, None
    while found is None and time.monotonic() < until:
        with contextlib.suppress(ClusterError):  # while it is being started
            found = ids_of(sharded, query)
    assert found == ids_of(made, query)


@pytest.mark.long
def test_a_search_among_shards_that_are_being_started_finds_the_others_later(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, by_shards = served
    query, sharded = near(1, seed=37), by_shards()
    with monkeypatch.context() as patch:
        patch.setattr(serving, "_running", lambda *given: [*_running(*given)[:2], []])
        with pytest.raises(ClusterError, match="1 shard of 3"):
            sharded.search(query[0], 10, mode="dense")
    assert ids_of(sharded, query) == ids_of(made, query)


@pytest.mark.long
def test_shards_that_are_served_again_take_the_place_of_those_before(served: Any) -> None:
    made, by_shards = served
    query, sharded = near(3, seed=41), by_shards()
    wanted = ids_of(made, query)
    for shards, replicas in ((1, 2), (3, 1)):
        assert ids_of(sharded, query) == wanted
        states = made.library.serve("made", shards, replicas)
        assert sum(state.passages for state in states) == replicas * COUNT
        assert ids_of(sharded, query) == wanted
        assert len(_running(made.library.store, "made")) == shards
        assert _processes_of(made.library) == [
            f"{at}-{shards}-{replica}" for at in range(shards) for replica in range(replicas)
        ]


_SERVES_AND_DIES = """
import os, signal, sys
import ray
from nearsay.indexer import Cluster, Library
from nearsay.indexer.cluster import serving
folder, address, step = sys.argv[1:]

def die(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

start, started = ray.actor.ActorClass._remote, []

def one(*given, **named):
    if started:
        ray.get(started[0].__ray_ready__.remote())  # till then it ends with who started it
        die()
    started.append(start(*given, **named))
    return started[-1]

def last(calls):
    ray.get(calls)
    die()

if step == "ended":
    serving.free_room = die
elif step == "started":
    ray.actor.ActorClass._remote = one
else:
    serving.answers_of = last
library = Library.open(folder, cluster=Cluster(address, cpus=.25))
library.serve("made", 2)
"""


@pytest.mark.long
def test_a_driver_that_is_killed_while_it_starts_shards_is_made_good_by_the_same_command(
    served: Any, folder: Path, nodes: Any
) -> None:
    made, by_shards = served
    query, sharded = near(3, seed=39), by_shards()
    wanted, library = ids_of(made, query), made.library
    assert ids_of(sharded, query) == wanted
    left = {"ended": [], "started": ["0-2-0"], "opened": ["0-2-0", "1-2-0"]}
    remedies = {"ended": "nearsay cluster serve made", "started": "nearsay cluster serve made --shards 2"}
    for step, there in left.items():
        ends_itself(_SERVES_AND_DIES, str(folder), nodes.address, step)
        until = time.monotonic() + SOON
        while _processes_of(library) != there:  # Ray lists for a moment whom the driver had just ended
            assert time.monotonic() < until, _processes_of(library)
            time.sleep(0.05)
        if step in remedies:
            with pytest.raises(ClusterError) as raised:
                ids_of(sharded, query)
            assert str(raised.value).endswith(remedies[step])
        else:
            assert ids_of(sharded, query) == wanted, "they open their files without who started them"
        assert sum(state.passages for state in library.serve("made", 2)) == COUNT
        assert ids_of(sharded, query) == wanted
    assert unsound(library) == []


@pytest.mark.long
def test_without_a_shard_an_answer_is_refused_or_said_to_be_a_part(served: Any) -> None:
    made, by_shards = served
    query = near(1, seed=17)[0]
    (name,) = (name for name in ray.util.list_named_actors() if name.endswith("-1-3-0"))
    ray.kill(ray.get_actor(name))  # for good
    with pytest.raises(ClusterError, match=r"1 shard of 3 of collection 'made' does not answer") as raised:
        by_shards().search(query, 10, mode="dense")
    assert str(raised.value).endswith("nearsay cluster serve made --shards 3")
    partial = by_shards(partial=True)
    assert any("shard 1 did not answer" in note for note in partial.similar("17").notes)
    assert not partial.snapshot().missing, "said of that search alone"
    hits = partial.search(query, COUNT, mode="dense")
    assert any("shard 1 did not answer" in note for note in hits.notes)
    assert any("nearsay cluster serve made" in note for note in hits.notes)
    assert len(hits) == pytest.approx(2 * COUNT / 3, abs=2 * BATCH)
    assert {hit.id for hit in hits} < {hit.id for hit in made.search(query, COUNT, mode="dense")}


@pytest.mark.long
def test_shards_of_a_machine_that_goes_away_are_started_on_others(folder: Path, nodes: Any) -> None:
    def node_of(_: Any) -> str:  # here, so that it is sent as it is: a worker does not import the tests
        import ray

        node: str = ray.get_runtime_context().get_node_id()
        return node

    query, before = near(1, seed=15), live_nodes()
    machines = [nodes.add_node(num_cpus=2, object_store_memory=MEMORY)]
    (added,) = live_nodes() - before
    with (
        Library.open(folder, cluster=Cluster(nodes.address)) as library,
        Library.open(folder, cluster=Cluster(nodes.address, searches=True)) as searching,
    ):
        made, sharded = library.collection("made"), searching.collection("made")
        assert len(library.serve("made", 3)) == 3  # of four cores, two of which are the new machine's
        wanted = ids_of(made, query)
        assert ids_of(sharded, query) == wanted
        shards = [actor for (actor,) in _running(library.store, "made")]
        assert added in ray.get([actor.__ray_call__.remote(node_of) for actor in shards])
        nodes.remove_node(machines.pop(), allow_graceful=False)
        machines.append(nodes.add_node(num_cpus=2, object_store_memory=MEMORY))
        until, found = time.monotonic() + SOON, [["nothing"]]
        while found != wanted and time.monotonic() < until:
            with contextlib.suppress(ClusterError):  # while they are being started
                found = ids_of(sharded, query)
        assert found == wanted
        assert library.release("made") == 3
    nodes.remove_node(machines.pop())


@pytest.mark.long
def test_shards_that_run_stay_where_no_machine_is_large_enough_for_others(
    served: Any, folder: Path, nodes: Any
) -> None:
    made, _ = served
    with Library.open(folder, cluster=Cluster(nodes.address, cpus=64)) as library:
        with pytest.raises(ClusterError, match=r"1 shard.*64.*room for 0"):
            library.serve("made", 1)
        for shards, replicas in ((0, 1), (1, 0)):
            with pytest.raises(BadInputError, match=f"{shards} shards of {replicas}"):
                library.serve("made", shards, replicas)
    with Library.open(folder) as library:
        for act in (lambda: library.serve("made", 1), lambda: library.release("made")):
            with pytest.raises(BadInputError, match="cluster="):
                act()
    assert _processes_of(made.library) == ["0-3-0", "1-3-0", "2-3-0"]


@pytest.mark.long
def test_replicas_stand_on_different_machines(served: Any) -> None:
    made, _ = served
    assert len(made.library.serve("made", 1, replicas=2)) == 2
    prefix = _prefix(made.library.store, "made")
    every = [actor for actor in ray.state.actors().values() if actor["Name"].startswith(prefix)]
    machines = {actor["Address"]["NodeID"] for actor in every if actor["State"] == "ALIVE"}
    assert len(machines) == 2


def _begun(library: Library) -> Collection:
    made = library.collection("made", encoder=VectorsOnly("made", WIDTH))
    made.add_rows(ROWS[:10], vectors=VECTORS[:10])
    return made


@pytest.mark.long
def test_shards_of_a_deleted_collection_give_way_and_can_be_ended(tmp_path: Path, nodes: Any) -> None:
    folder, query = tmp_path / "library", VECTORS[:1]
    with (
        Library.open(folder, cluster=Cluster(nodes.address, cpus=0.25)) as library,
        Library.open(folder, cluster=Cluster(nodes.address, searches=True)) as searching,
    ):
        made = _begun(library)
        library.serve("made", 1)
        made.delete()
        made = _begun(library)
        with pytest.raises(UnknownCollectionError, match="nearsay cluster serve made"):
            ids_of(searching.collection("made"), query)
        library.serve("made", 1)
        assert ids_of(searching.collection("made"), query)[0][0] == "0"
        made.delete()
        assert library.release("made") == 1
        with pytest.raises(UnknownCollectionError, match="made"):
            library.release("made")


_SERVES_IN_A_NAMESPACE_OF_ITS_OWN = """
import sys
import ray
from nearsay.indexer import Cluster, Library
folder, address = sys.argv[1:]
ray.init(address, namespace="of a program")
with Library.open(folder, cluster=Cluster(address, cpus=.25)) as library:
    library.serve("made", 1)
"""


@pytest.mark.long
def test_shards_are_found_in_whatever_namespace_a_program_joined(
    served: Any, folder: Path, nodes: Any
) -> None:
    made, by_shards = served
    command = [sys.executable, "-c", _SERVES_IN_A_NAMESPACE_OF_ITS_OWN, str(folder), nodes.address]
    subprocess.run(command, check=True, capture_output=True, timeout=SOON)
    query = near(1, seed=53)
    assert _processes_of(made.library) == ["0-1-0"], "the three before gave way"
    assert ids_of(by_shards(), query) == ids_of(made, query)


@pytest.mark.long
def test_of_two_drivers_that_serve_at_once_the_last_one_has_its_shards(
    opened: Any, folder: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, by_shards = opened
    query, sharded, free_room = near(3, seed=43), by_shards(), serving.free_room
    cluster, raised = Cluster(nodes.address, cpus=0.25), list[BusyError]()
    with (
        Library.open(folder, cluster=cluster) as impatient,
        Library.open(folder, cluster=cluster, wait=SOON) as patient,
    ):
        waiting = threading.Thread(target=patient.serve, args=("made", 1))

        def meanwhile(*given: Any) -> int:
            monkeypatch.setattr(serving, "free_room", free_room)
            for refused in (lambda: impatient.serve("made", 2), lambda: impatient.release("made")):
                with pytest.raises(BusyError) as busy:
                    refused()
                raised.append(busy.value)
            waiting.start()
            return free_room(*given)

        monkeypatch.setattr(serving, "free_room", meanwhile)
        assert len(made.library.serve("made", 2)) == 2, "nobody ended them before they were ready"
        assert len(raised) == 2
        waiting.join(SOON)
        assert not waiting.is_alive()
    assert _processes_of(made.library) == ["0-1-0"]
    assert ids_of(sharded, query) == ids_of(made, query)


@pytest.mark.long
def test_a_replica_answers_for_another(folder: Path, nodes: Any) -> None:
    query = near(1, seed=19)
    with (
        Library.open(folder, cluster=Cluster(nodes.address, cpus=0.25)) as library,
        Library.open(folder, cluster=Cluster(nodes.address, searches=True)) as searching,
    ):
        made = library.collection("made")
        assert len(library.serve("made", 2, replicas=2)) == 4
        (name,) = (name for name in ray.util.list_named_actors() if name.endswith("-1-2-0"))
        ray.kill(ray.get_actor(name))
        for _ in range(4):
            assert ids_of(searching.collection("made"), query) == ids_of(made, query)
        assert library.release("made") == 3
        with pytest.raises(ClusterError, match="nearsay cluster serve made"):
            searching.collection("made").search(query, 3, mode="dense")


@pytest.mark.usefixtures("one_builder")
def test_what_cannot_be_divided_says_why_and_its_remedy_is_one(
    tmp_path: Path, unindexed: Path, nodes: Any
) -> None:
    cluster = Cluster(nodes.address, workers=2, cpus=0.25)
    with Library.open(tmp_path / "small", cluster=cluster) as library:
        made = library.collection("made", encoder=VectorsOnly("made", WIDTH))
        made.add_rows(ROWS[:100], vectors=VECTORS[:100])
        with pytest.raises(ClusterError, match=r"1 part, not 2.*1 file.*--shards 1") as raised:
            library.serve("made", 2)
        assert "index" not in str(raised.value)
    with Library.open(unindexed) as alone:
        alone.collection("made").tune()
    with Library.open(unindexed, cluster=cluster) as library:
        with pytest.raises(ClusterError, match=r"1 part, not 2.*nearsay index rebuild made --cluster"):
            library.serve("made", 2)
        library.collection("made").rebuild()
        assert len(library.serve("made", 2)) == 2
        assert library.release("made") == 2


@pytest.mark.usefixtures("one_builder")
def test_a_flat_index_that_was_made_without_a_cluster_gives_way_to_lists_in_groups(
    unindexed: Path, nodes: Any
) -> None:
    with Library.open(unindexed) as alone:
        made = alone.collection("made")
        made.tune()
        snapshot = made.snapshot()
        flat = snapshot.plan.chosen(PlanKind.FLAT_FP16, shape={})
        with alone.store.database.writing() as connection:
            generations.set_plan(connection, snapshot.generation, flat.to_json())
    cluster = Cluster(nodes.address, workers=2, cpus=0.25)
    with Library.open(unindexed, cluster=cluster) as library:
        made = library.collection("made")
        made.rebuild()
        assert made.snapshot().plan.kind not in (PlanKind.FLAT_FP16, PlanKind.EXACT)
        assert len(library.serve("made", 2)) == 2
        assert library.release("made") == 2


def _row(number: int, kind: SegmentKind, first: int, last: int) -> SegmentRow:
    return SegmentRow(number, 1, kind, "current", str(number), 1, last - first + 1, first, last)  # type: ignore[arg-type]


def test_parts_are_cut_where_no_file_reaches_across() -> None:
    vectors = [_row(at, SegmentKind.VECTORS, 100 * at + 1, 100 * at + 100) for at in range(8)]
    assert parted(vectors, 2) == [Part(1, 401), Part(401, None)]
    indexes = [_row(10, SegmentKind.INDEX, 1, 500), _row(11, SegmentKind.INDEX, 501, 700)]
    parts = parted([*vectors, *indexes], 3)
    assert parts == [Part(1, 501), Part(501, 701), Part(701, None)]
    held = [{row.id for row in part_of([*vectors, *indexes], part)} for part in parts]
    assert held == [{0, 1, 2, 3, 4, 10}, {5, 6, 11}, {7}]
    newer = _row(12, SegmentKind.VECTORS, 801, 810)
    assert {row.id for row in part_of([*vectors, *indexes, newer], parts[-1])} == {7, 12}
    assert len(parted(vectors[:1], 4)) == 1
    assert parted([], 4) == [Part(1, None)]


@pytest.mark.long
def test_shards_are_those_of_one_library_in_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    with Library.open(tmp_path / "library"):
        pass
    shutil.copytree(tmp_path / "library", tmp_path / "copy")
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "library", Path("library"), tmp_path / "copy"):
        with Library.open(folder) as library:
            names.append(_prefix(library.store, "made"))
    assert names[0] == names[1] != names[2]


def test_the_collection_that_a_shard_serves_is_found_by_number_and_name(folder: Path) -> None:
    from nearsay.indexer.cluster.serving import _Moment

    with Library.open(folder) as library, library.store.database.reading() as connection:
        row = collections.find(connection, "made")
        assert row is not None
    url = f"sqlite:///{folder / 'catalogue.sqlite'}"
    moment = _Moment(row.id, row.version, 1)
    assert Shard(str(folder), url, (row.id, "made"), Part(1, None)).ready(moment)[0] == COUNT
    with pytest.raises(UnknownCollectionError, match="deleted"):
        Shard(str(folder), url, (row.id + 1, "made"), Part(1, None)).ready(moment)
