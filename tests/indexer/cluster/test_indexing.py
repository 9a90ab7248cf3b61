"""Indexing by the workers of a Ray cluster: groups with the same centroids."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

if find_spec("ray") is None or find_spec("faiss") is None:
    pytest.skip("Ray or FAISS is not installed", allow_module_level=True)
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}  # read when Ray is imported

import ray
from grouped_collection import (
    BATCH,
    COUNT,
    ROWS,
    SOON,
    VECTORS,
    WIDTH,
    ends_itself,
    has_only_its_files,
    ids_of,
    indexes,
    near,
    segments,
    unsound,
    with_lists,
    without_index,
)
from ray_processes import MEMORY, kill_one, live_nodes, processes

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Cluster, Library, VectorsOnly, collection_writing
from nearsay.indexer.cluster import indexing
from nearsay.indexer.cluster.indexing import Builder, _Recipe
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans.candidate_index import CandidateIndex, UnitedIndex
from nearsay.indexer.plans.centroids import Centroids, Lists
from nearsay.indexer.plans.engine import fill
from nearsay.indexer.plans.engines import InvertedLists, engine_of, open_index
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.snapshots.segment_writer import emptied
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.segment import SegmentKind, VectorSegment
from nearsay.indexer.vectors.vector_store import VectorStore, merge
from nearsay.indexer.writing import compaction, index_state

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Ray's own


@pytest.mark.long
def test_workers_build_an_index_by_groups_that_keeps_the_contract(folder: Path) -> None:
    with Library.open(folder) as library:
        made = library.collection("made")
        plan, index = made.snapshot().plan, made.snapshot().index
        assert isinstance(index, UnitedIndex)
        assert len(index.parts) == 3
        assert plan.kind is PlanKind.IVF_PQ, "the smallest that keeps the contract"
        (taken,) = (row for row in plan.report if row.verdict == "taken")
        assert taken.recall_at_least is not None
        assert taken.recall_at_least >= 0.95
        queries = near(200, seed=5)
        nearest = np.argsort(-(queries @ VECTORS.T), axis=1)[:, :10]
        shares = [
            len({*map(str, truth)} & {*found}) / 10
            for truth, found in zip(nearest, ids_of(made, queries), strict=True)
        ]
        assert float(np.mean(shares)) >= 0.9
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


@pytest.mark.long
def test_the_same_workers_write_the_same_index_again(folder: Path, nodes: Any) -> None:
    with Library.open(folder, cluster=Cluster(nodes.address, workers=3, cpus=0.25)) as library:
        before = [row.sha256 for row in segments(library) if row.kind is SegmentKind.INDEX]
        library.collection("made").rebuild()
        after = [row.sha256 for row in segments(library) if row.kind is SegmentKind.INDEX]
    assert len(before) == 3
    assert after == before


def _one_and_several(folder: Path, kind: PlanKind) -> tuple[_Recipe, Builder, Builder]:
    """A trained index, who has filled it with everything, and who has filled three groups."""
    engine = engine_of(kind)
    assert isinstance(engine, InvertedLists)
    shape = engine.shapes(COUNT, WIDTH)[0]
    trained = CandidateIndex(engine, engine.trained(VECTORS, shape), 0).serialise()
    recipe = _Recipe(kind, shape, trained)
    with Library.open(folder) as library:
        rows = [row for row in segments(library) if row.kind is SegmentKind.VECTORS]
        made = library.collection("made")
        (generation,) = made.generations()
    where = str(folder), f"sqlite:///{folder / 'catalogue.sqlite'}", made._record.row(), generation
    one, several = Builder(*where, [rows]), Builder(*where, [rows[:2], rows[2:3], rows[3:]])
    assert one.build(recipe) == several.build(recipe) == COUNT
    return recipe, one, several


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        (PlanKind.IVF, 3),
        (PlanKind.IVF_SQ8, 3),
        # Where all of a list is proposed, the lists that are looked into decide alone, and they are the same.
        (PlanKind.IVF, COUNT),
        (PlanKind.IVF_SQ8, COUNT),
        (PlanKind.IVF_PQ, COUNT),
    ],
)
def test_groups_answer_exactly_as_one_index_of_the_same_centroids_and_probes(
    folder: Path, kind: PlanKind, factor: int
) -> None:
    recipe, one, several = _one_and_several(folder, kind)
    for probes in (1, 4):
        asked = recipe, {"probes": probes, "factor": factor}, near(100, seed=7), 10
        for alone, united in zip(one.found(*asked), several.found(*asked), strict=True):
            np.testing.assert_array_equal(united.ids, alone.ids)
            np.testing.assert_array_equal(united.scores, alone.scores)


@pytest.mark.parametrize("factor", [1, 3])
def test_groups_of_quantised_vectors_find_all_that_one_index_finds_or_what_scores_higher(
    folder: Path, factor: int
) -> None:
    # A code names its vector only roughly, so that the order of codes is not that of scores. What is among
    # the first thirty codes of everything is among the first thirty of its group: the groups propose all
    # that one index proposes and up to three times as many, and exact scores decide. For `ivf` and `ivf-sq8`
    # the further ones never win.
    recipe, one, several = _one_and_several(folder, PlanKind.IVF_PQ)
    parameters, queries = {"probes": 4, "factor": factor}, near(100, seed=7)
    (whole,), parts = one._indexes(recipe), several._indexes(recipe)
    proposed = [part.looking(parameters).proposed(queries, 10) for part in parts]
    for alone, by_groups in zip(
        whole.looking(parameters).proposed(queries, 10), np.concatenate(proposed, axis=1), strict=True
    ):
        assert {*alone.tolist()} <= {*by_groups.tolist()}
    asked, better = (recipe, parameters, queries, 10), 0
    for single, united in zip(one.found(*asked), several.found(*asked), strict=True):
        assert (united.scores >= single.scores).all()
        last, kept = united.scores[-1], dict(zip(united.ids.tolist(), united.scores.tolist(), strict=True))
        for number, score in zip(single.ids.tolist(), single.scores.tolist(), strict=True):
            assert kept.get(number) == score or (number not in kept and score <= last)
        better += not np.array_equal(united.ids, single.ids)
    assert better, "else `ivf-pq` belongs to the test above"


@pytest.mark.parametrize("kind", [PlanKind.IVF_PQ, PlanKind.IVF_SQ8, PlanKind.IVF])
@pytest.mark.parametrize("queries", [1, 50])
def test_the_lists_of_a_query_are_chosen_once_for_all_groups(
    monkeypatch: pytest.MonkeyPatch, kind: PlanKind, queries: int
) -> None:
    engine = engine_of(kind)
    assert isinstance(engine, InvertedLists)
    shape = {**engine.shapes(COUNT, WIDTH)[0], "lists": 64}
    trained = CandidateIndex(engine, engine.trained(VECTORS, shape), 0).serialise()
    parts = []
    for begin in range(0, COUNT, COUNT // 4):
        part = open_index(kind, trained, begin + COUNT // 4, parameters={"probes": 5, "factor": 3})
        ids = np.arange(begin, begin + COUNT // 4)
        part.faiss_index.add_with_ids(VECTORS[ids], ids)
        parts.append(part)
    vectors = VectorStore([VectorSegment("made", np.arange(COUNT), VECTORS)], WIDTH)
    asked, together = near(queries, seed=21), UnitedIndex(parts, vectors)
    alive = np.arange(COUNT) % 3 != 0
    chosen, choose = list[int](), Centroids.nearest

    def counted(self: Centroids, rows: NDArray[np.float32], probes: int) -> Lists:
        chosen.append(len(rows))
        return choose(self, rows, probes)

    for some in (None, alive):
        each = [part.nearest_many(vectors, asked, 10, some) for part in parts]
        wanted = [merge(list(of_query), 10) for of_query in zip(*each, strict=True)]
        chosen.clear()
        with monkeypatch.context() as patch:
            patch.setattr(Centroids, "nearest", counted)
            patch.setattr(CandidateIndex, "candidates", with_lists)
            found = together.nearest_many(vectors, asked, 10, some)
        assert chosen == [queries]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one.ids, other.ids)
            np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.long
@pytest.mark.usefixtures("one_builder")
def test_what_comes_later_shares_the_centroids_of_the_groups(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_state, "TAIL", 100)
    with Library.open(tmp_path / "library", cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        made = without_index(library)
        made.tune()
        made.add_rows(ROWS[2000:2450], vectors=VECTORS[2000:2450], index="now")
        snapshot = made.snapshot()
        index = snapshot.index
        assert isinstance(index, UnitedIndex)
        assert [len(part) for part in index.parts] == [1000, 1000, 450]
        assert len({part.where for part in index.parts}) == 1
        (path, row) = next(
            (library.store.segment(1, row.sha256), row)
            for row in segments(library)
            if row.kind is SegmentKind.INDEX
        )
        whole = emptied(path, row, snapshot.generation.encoder, snapshot.plan)
        assert whole is not None
        assert len(whole) == 0
        fill(whole.faiss_index, snapshot.vectors, snapshot.vectors.ids)
        wide = {"probes": 4, "factor": COUNT}
        for one, other in zip(
            whole.looking(wide).nearest_many(snapshot.vectors, near(50, seed=25), 10),
            index.looking(wide).nearest_many(snapshot.vectors, near(50, seed=25), 10),
            strict=True,
        ):
            np.testing.assert_array_equal(one.ids, other.ids)
            np.testing.assert_array_equal(one.scores, other.scores)
        before = {part.where for part in index.parts}
        made.rebuild()
        again = made.snapshot().index
        assert isinstance(again, UnitedIndex)
        assert {part.where for part in again.parts} == before, "and so do groups that are built again"
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


@pytest.mark.long
def test_a_worker_that_is_killed_while_it_builds_is_started_again(tmp_path: Path, nodes: Any) -> None:
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.doing == "building the index" and not killed:
            killed.append(kill_one(nodes.address, "ray::Builder"))

    with Library.open(tmp_path / "library", cluster=Cluster(nodes.address, workers=2, cpus=0.5)) as library:
        made = library.collection("made", encoder=VectorsOnly("made", WIDTH))
        made.add_rows(ROWS[:2000], vectors=VECTORS[:2000], index="later")
        made.rebuild(progress=kill)
        assert killed
        assert made.snapshot().plan.kind is not PlanKind.EXACT
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


_STEPS = ("drawn", "exact", "build", "found", "written")


def _dies_after_each(steps: Sequence[str], flags: Path) -> type[Builder]:
    """A worker whose process ends when it has done a step, before it says so; once for each step.

    flags: a folder, where a file of each step names the worker that died. None dies more often than it is
    started again.
    """

    def dying(step: str) -> Callable[..., Any]:
        done = getattr(Builder, step)

        def last(self: Builder, *given: Any) -> Any:
            found, mine = done(self, *given), ray.get_runtime_context().get_actor_id()
            if sum(flag.read_text() == mine for flag in flags.iterdir()) < indexing._TRIES:
                with suppress(FileExistsError), (flags / step).open("x") as flag:
                    flag.write(mine)
                    flag.flush()
                    os.kill(os.getpid(), signal.SIGKILL)
            return found

        return last

    return type("Dies", (Builder,), {step: dying(step) for step in steps})


@pytest.mark.long
def test_a_worker_that_is_killed_does_its_step_again_whichever_it_is(
    unindexed: Path, undisturbed: list[str], nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = unindexed.parent / "died"
    flags.mkdir()
    monkeypatch.setattr(indexing, "Builder", _dies_after_each(_STEPS, flags))
    with Library.open(unindexed, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        library.collection("made").tune()
        assert {flag.name for flag in flags.iterdir()} == {*_STEPS}
        assert indexes(library) == undisturbed
        assert unsound(library) == []
        has_only_its_files(library)


def _takes_its_machine_down_after(step: str, flag: Path) -> type[Builder]:
    """A worker whose machine goes away when it has done a step, before it says so; once."""
    done = getattr(Builder, step)

    def last(self: Builder, *given: Any) -> Any:
        found = done(self, *given)
        with suppress(FileExistsError):
            flag.touch(exist_ok=False)
            os.kill(os.getppid(), signal.SIGKILL)  # Ray's own process there; all others end with it
            time.sleep(SOON)
        return found

    return type("TakesDown", (Builder,), {step: last})


@pytest.fixture(scope="module")
def machines(nodes: Any) -> Iterator[list[Any]]:
    """The machines of two cores: what one test leaves of them is there for the next one."""
    there: list[Any] = []
    yield there
    for machine in there:
        nodes.remove_node(machine, allow_graceful=False)


@pytest.mark.long
@pytest.mark.parametrize("step", _STEPS)
def test_a_machine_that_goes_away_at_any_step_costs_nothing_but_time(
    unindexed: Path,
    undisturbed: list[str],
    nodes: Any,
    machines: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    flag = unindexed.parent / "gone"
    monkeypatch.setattr(indexing, "Builder", _takes_its_machine_down_after(step, flag))
    for lost in [machine for machine in machines if machine.node_id not in live_nodes()]:
        nodes.remove_node(lost, allow_graceful=False)
        machines.remove(lost)
    # Each has room for one of the two workers, and where the driver is there is none.
    while len(machines) < 3:
        machines.append(nodes.add_node(num_cpus=2, object_store_memory=MEMORY))
    before = live_nodes()
    with Library.open(unindexed, cluster=Cluster(nodes.address, workers=2, cpus=2)) as library:
        library.collection("made").tune()
        assert flag.exists()
        assert len(before - live_nodes()) == 1
        assert indexes(library) == undisturbed
        assert unsound(library) == []
        has_only_its_files(library)


_INDEXES = """
import sys
from nearsay.indexer import Cluster, Library
library = Library.open(sys.argv[1], cluster=Cluster(sys.argv[2], workers=2, cpus=.25))
library.collection("made").tune(progress=lambda now: print(now.doing, flush=True))
"""


@pytest.mark.long
@pytest.mark.usefixtures("one_builder")
def test_a_driver_that_is_killed_while_workers_build_leaves_what_was_there(
    tmp_path: Path, nodes: Any
) -> None:
    folder = tmp_path / "library"
    with Library.open(folder) as library:
        without_index(library)
    driver = subprocess.Popen(
        [sys.executable, "-c", _INDEXES, str(folder), nodes.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert driver.stdout is not None
    with driver.stdout:
        assert "building the index\n" in driver.stdout
        driver.kill()
        driver.wait()
    with Library.open(folder, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        made = library.collection("made")
        assert made.snapshot().plan.kind is PlanKind.EXACT
        assert len(ids_of(made, near(1, seed=31))[0]) == 10
        assert made.tune().kind is not PlanKind.EXACT
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


_INDEXES_AND_DIES = """
import os, signal, sys
from nearsay.indexer import Cluster, Library
from nearsay.indexer.cluster import indexing, joining
from nearsay.indexer.writing import index_upkeep
folder, address, step = sys.argv[1:]
driver = os.getpid()

def die(*given, **named):
    os.kill(driver, signal.SIGKILL)

class Ends(indexing.Builder):
    def written(self, *given):
        found = super().written(*given)
        die()
        return found

moved = index_upkeep.moved

def moved_last(*given):
    moved(*given)
    die()

if step == "writes":
    indexing.Builder = Ends
else:
    indexing.free_room = lambda *_: 1
if step == "takes over":
    index_upkeep.moved = moved_last
elif step == "has committed":
    index_upkeep.trim = die
library = Library.open(folder, cluster=Cluster(address, workers=2, cpus=.25))
library.collection("made").tune()
"""


@pytest.mark.long
@pytest.mark.usefixtures("one_builder")
@pytest.mark.parametrize("step", ["writes", "takes over", "has committed"])
def test_a_driver_that_is_killed_while_parts_of_an_index_are_entered_leaves_what_was_there_or_all_of_it(
    unindexed: Path, undisturbed: list[str], nodes: Any, step: str
) -> None:
    query = near(3, seed=33)
    with Library.open(unindexed) as library:
        before = ids_of(library.collection("made"), query)
    ends_itself(_INDEXES_AND_DIES, str(unindexed), nodes.address, step)
    until = time.monotonic() + SOON
    while processes(nodes.address, "ray::Ends", "ray::Builder") and time.monotonic() < until:
        time.sleep(0.05)  # what a worker still writes is there to be removed
    with Library.open(unindexed, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        made = library.collection("made")
        assert indexes(library) == (undisturbed if step == "has committed" else [])
        assert (made.snapshot().plan.kind is PlanKind.EXACT) == (step != "has committed")
        if step != "has committed":
            assert ids_of(made, query) == before
        assert unsound(library) == []
        made.tune()
        assert indexes(library) == undisturbed
        assert unsound(library) == []
        has_only_its_files(library)


_REBUILDS_LATE = """
import os, pathlib, sys, time
from nearsay.data.errors import NearsayError
from nearsay.indexer import Cluster, Library
from nearsay.indexer.cluster import indexing, joining
from nearsay.indexer.writing import index_upkeep
folder, address = sys.argv[1:]
index_upkeep.EXACT_UP_TO = 1000

class Late(indexing.Builder):
    def written(self, *given):
        here = pathlib.Path(folder).parent
        (here / "arrived").touch()
        while not (here / "go").exists():
            time.sleep(.02)
        found = super().written(*given)
        (here / "written").touch()
        return found

indexing.Builder = Late
library = Library.open(folder, cluster=Cluster(address, workers=1, cpus=.25))
try:
    library.collection("made").rebuild()
except NearsayError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@pytest.mark.long
@pytest.mark.usefixtures("one_builder")
def test_a_worker_that_writes_its_index_after_its_driver_was_replaced_enters_nothing(
    unindexed: Path, undisturbed: list[str], nodes: Any
) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", _REBUILDS_LATE, str(unindexed), nodes.address],
        stderr=subprocess.PIPE,
        text=True,
    )
    with first, Library.open(unindexed, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        until = time.monotonic() + SOON
        while not (unindexed.parent / "arrived").exists() and time.monotonic() < until:
            time.sleep(0.02)
        (unindexed / "locks" / "1.lock").unlink()  # and with it the lock of the first driver
        made = library.collection("made")
        made.rebuild()
        plan = made.snapshot().generation.plan
        assert indexes(library) == undisturbed
        (unindexed.parent / "go").touch()
        _, said = first.communicate(timeout=SOON)
        assert first.returncode == 1
        assert "LostLockError" in said.splitlines()[-1]
        assert (unindexed.parent / "written").exists()
        assert not list(library.store.building.glob("*")), "and what it wrote is gone"
        assert indexes(library) == undisturbed
        assert made.snapshot().generation.plan == plan
        assert unsound(library) == []
        has_only_its_files(library)


@pytest.mark.long
@pytest.mark.usefixtures("one_builder")
def test_of_two_drivers_that_index_at_once_one_keeps_its_index(
    unindexed: Path, undisturbed: list[str], nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(nodes.address, workers=2, cpus=0.25)
    keep = collection_writing.keep_prepared
    refused: list[BusyError] = []

    def meanwhile(*given: Any) -> Plan:
        monkeypatch.setattr(collection_writing, "keep_prepared", keep)
        with pytest.raises(BusyError) as raised:  # it has built the same files by now
            second.optimize()
        refused.append(raised.value)
        return keep(*given)

    def replaced(progress: Progress) -> None:
        if progress.doing == "building the index" and len(refused) == 1:
            refused.append(BusyError("the first one is"))
            third.tune(recall=0.9)

    with (
        Library.open(unindexed, cluster=cluster) as library,
        Library.open(unindexed, cluster=cluster) as other,
        Library.open(unindexed, cluster=Cluster(nodes.address, workers=1, cpus=0.25)) as another,
    ):
        first, second, third = (each.collection("made") for each in (library, other, another))
        monkeypatch.setattr(collection_writing, "keep_prepared", meanwhile)
        assert first.optimize().kind is PlanKind.IVF_PQ
        assert len(refused) == 1
        assert indexes(library) == undisturbed
        assert second.optimize() == first.optimize()
        assert indexes(library) == undisturbed, "nothing was due"
        with pytest.raises(BusyError, match="indexed by another process meanwhile"):
            first.tune(progress=replaced)
        kept = indexes(library)
        assert len(kept) == 1
        assert kept != undisturbed
        assert first.snapshot().plan.contract.recall == 0.9
        assert [*library.store.building.glob("*")] == []
        assert unsound(library) == []
        has_only_its_files(library)


class _WithoutRoom(Builder):
    """A worker whose process may not write files; the kernel refuses them."""

    def written(self, recipe: _Recipe, folder: str) -> list[tuple[str, int]]:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        try:
            return super().written(recipe, folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.long
def test_workers_whose_disk_is_full_leave_the_index_that_was_there(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with Library.open(tmp_path / "library", cluster=Cluster(nodes.address, workers=2, cpus=0.5)) as library:
        made = without_index(library)
        with monkeypatch.context() as patch:
            patch.setattr(indexing, "Builder", _WithoutRoom)
            with pytest.raises(NearsayError, match="no room left"):
                made.tune()
        assert made.snapshot().plan.kind is PlanKind.EXACT
        assert not list((tmp_path / "library" / "segments").rglob(".*")), "nothing half-written is left"
        monkeypatch.setattr(indexing, "free_room", lambda *_: 1)  # as `one_builder`, from here on
        assert made.tune().kind is not PlanKind.EXACT
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


@pytest.mark.long
def test_a_worker_that_cannot_open_its_files_says_which(
    unindexed: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Library.open(unindexed, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        made = library.collection("made")
        assert made.snapshot().searchable == 2000  # opened here, and gone for the workers
        path = library.store.segment(1, segments(library)[-1].sha256)
        path.rename(path.with_suffix(".away"))
        with pytest.raises(NearsayError, match=path.stem[:12]):
            made.tune()
        path.with_suffix(".away").rename(path)
        monkeypatch.setattr(indexing, "free_room", lambda *_: 1)  # as `one_builder`, from here on
        assert made.tune().kind is not PlanKind.EXACT
        assert unsound(library) == []


@pytest.mark.long
@pytest.mark.usefixtures("one_builder")
def test_workers_measure_with_queries_of_the_user(folder: Path, nodes: Any) -> None:
    queries = near(400, seed=23)
    with Library.open(folder, cluster=Cluster(nodes.address, workers=3, cpus=0.25)) as library:
        made = library.collection("made")
        for few in (9, 60):
            with pytest.raises(BadInputError, match=rf"\b{few} queries cannot show .*0\.95@10.*73 or more"):
                made.tune(queries=queries[:few])
        plan = made.tune(recall="0.9@10", queries=queries)
        assert plan.queries == "400 given queries"
        assert not plan.estimated
        assert [row.recall_at_least >= 0.9 for row in plan.report if row.verdict == "taken"] == [True]  # type: ignore[operator]
        assert len([row for row in segments(library) if row.kind is SegmentKind.INDEX]) == 3
        assert not list((folder / "segments" / "building").glob("*")), "nothing is left where it was built"
        found = ids_of(made, queries[:100])
    nearest = np.argsort(-(queries[:100] @ VECTORS.T), axis=1)[:, :10]
    shares = [len({*map(str, one)} & {*ids}) / 10 for one, ids in zip(nearest, found, strict=True)]
    assert float(np.mean(shares)) >= 0.88


@pytest.mark.long
def test_workers_build_the_index_that_optimize_makes(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Library.open(tmp_path, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        made = library.collection("made", encoder=VectorsOnly("made", WIDTH))
        for begin in range(0, 2000, BATCH):
            some = slice(begin, begin + BATCH)
            report = made.add_rows(ROWS[some], vectors=VECTORS[some])
        assert any("nearsay index optimize made --cluster ADDRESS" in note for note in report.notes)
        assert made.optimize().kind is PlanKind.IVF_PQ
        index = made.snapshot().index
        assert isinstance(index, UnitedIndex)
        assert len(index.parts) > 1


@pytest.mark.usefixtures("one_builder")
def test_files_that_are_replaced_before_workers_open_them_are_looked_for_again(
    unindexed: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grouped, merged = indexing._grouped, list[object]()

    def meanwhile(*given: Any) -> Any:
        if not merged:
            with monkeypatch.context() as patch, Library.open(unindexed) as other:
                patch.setattr(compaction, "_SMALL", 10**9)
                merged.append(other.collection("made").compact())
        return grouped(*given)

    monkeypatch.setattr(indexing, "_grouped", meanwhile)
    with Library.open(unindexed, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        made = library.collection("made")
        assert made.tune().kind is not PlanKind.EXACT
        assert len([row for row in segments(library) if row.kind is SegmentKind.VECTORS]) == 1
        assert unsound(library) == []
