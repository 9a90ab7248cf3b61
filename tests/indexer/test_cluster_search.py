"""Indexing by the workers of a Ray cluster, and searching by its shards."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
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
from ray_processes import kill_one, processes

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Cluster, ClusterError, Collection, Library, VectorsOnly, collection_writing
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import SegmentRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.cluster import indexing, serving
from nearsay.indexer.cluster.indexing import Builder, _Recipe
from nearsay.indexer.cluster.joining import joined, nodes_of
from nearsay.indexer.cluster.serving import Shard, ShardedSnapshot, Shards, _prefix, _running
from nearsay.indexer.doctor import examine
from nearsay.indexer.filters import selection
from nearsay.indexer.plans.candidate_index import CandidateIndex, UnitedIndex
from nearsay.indexer.plans.centroids import Centroids, Lists
from nearsay.indexer.plans.engine import fill
from nearsay.indexer.plans.engines import InvertedLists, engine_of, open_index
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.snapshots.segment_writer import emptied
from nearsay.indexer.snapshots.snapshot import Part, part_of, parted
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.segment import SegmentKind, VectorSegment
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore, merge
from nearsay.indexer.writing import compaction
from nearsay.indexer.writing.index_upkeep import left_for_later, prepare_index, refresh_index

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Ray's own

_MEMORY = 80 * 2**20
_SOON = 180.0  # seconds after which something that should have happened has not
_COUNT, _WIDTH = 4000, 32
_BATCH = 500  # passages in a segment


def _made(count: int = _COUNT, seed: int = 3) -> NDArray[np.float32]:
    """Vectors (count, 32) of unit length around sixty centres."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(60, _WIDTH))
    rows = centres[generator.integers(60, size=count)] + 0.5 * generator.normal(size=(count, _WIDTH))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


_VECTORS = _made()
_ROWS = [{"id": str(at), "text": f"row {at}", "tenth": at % 10} for at in range(_COUNT)]


def _near(count: int, seed: int) -> NDArray[np.float32]:
    """Queries (count, 32), each near a stored vector but none of them."""
    generator = np.random.default_rng(seed)
    rows = _VECTORS[generator.integers(_COUNT, size=count)] + 0.05 * generator.normal(size=(count, _WIDTH))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def _filled(library: Library) -> Collection:
    made = library.collection("made", encoder=VectorsOnly("made", _WIDTH))
    for begin in range(0, _COUNT, _BATCH):
        some = slice(begin, begin + _BATCH)
        last = begin + _BATCH == _COUNT
        made.add_rows(_ROWS[some], vectors=_VECTORS[some], index="now" if last else "later")
    return made


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of a head and a node with a core each, which this process has joined."""
    os.environ["RAY_AUTH_TOKEN"] = "0" * 64
    from ray.cluster_utils import Cluster as Nodes

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": _MEMORY}
    cluster = Nodes(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1, object_store_memory=_MEMORY)
    try:
        with joined(Cluster(cluster.address)):
            yield cluster
    finally:
        cluster.shutdown()
        del os.environ["RAY_AUTH_TOKEN"]


@pytest.fixture(autouse=True)
def _index_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(refresh_index.__kwdefaults__, "exact_up_to", 1000)
    monkeypatch.setattr(compaction, "_SMALL", 1)  # files that are divided among shards are not merged


@pytest.fixture(scope="module")
def folder(nodes: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose collection was indexed by three workers."""
    folder: Path = tmp_path_factory.mktemp("library") / "library"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(refresh_index.__kwdefaults__, "exact_up_to", 1000)
        patch.setattr(compaction, "_SMALL", 1)
        with Library.open(folder, cluster=Cluster(nodes.address, workers=3, cpus=0.25)) as library:
            _filled(library)
    return folder


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose collection has no index."""
    folder: Path = tmp_path_factory.mktemp("template") / "library"
    with Library.open(folder) as library:
        _unindexed(library)
    return folder


@pytest.fixture
def unindexed(template: Path, tmp_path: Path) -> Path:
    """A copy of it, of this test alone."""
    shutil.copytree(template, tmp_path / "library")
    return tmp_path / "library"


@pytest.fixture(scope="module")
def undisturbed(template: Path, tmp_path_factory: pytest.TempPathFactory, nodes: Any) -> list[str]:
    """The hashes of the index that two workers build of it when nothing happens to them."""
    folder = tmp_path_factory.mktemp("undisturbed") / "library"
    shutil.copytree(template, folder)
    with Library.open(folder, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        library.collection("made").tune()
        return _indexes(library)


def _indexes(library: Library) -> list[str]:
    """The hashes of the parts of its index."""
    return [row.sha256 for row in _segments(library) if row.kind is SegmentKind.INDEX]


def _unsound(library: Library) -> list[str]:
    return [str(finding) for finding in examine(library, prove=True) if not finding.sound]


def _has_only_its_files(library: Library) -> None:
    """A compaction a day later leaves the files of the catalogue and no others."""
    for path in library.store.building.glob("*"):
        os.utime(path, (0, 0))
    library.collection("made").compact()
    assert [*library.store.building.glob("*")] == []
    files = {path.stem for path in library.store.segments(1).iterdir()}
    assert files == {row.sha256 for row in _segments(library)}


def _segments(library: Library) -> list[SegmentRow]:
    with library.store.database.reading() as connection:
        return generations.segments_of(connection, 1, 1)


def _ids(collection: Collection, queries: NDArray[np.float32], **how: Any) -> list[list[str]]:
    return [[hit.id for hit in hits] for hits in collection.search(queries, 10, mode="dense", **how)]


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
        queries = _near(200, seed=5)
        nearest = np.argsort(-(queries @ _VECTORS.T), axis=1)[:, :10]
        shares = [
            len({*map(str, truth)} & {*found}) / 10
            for truth, found in zip(nearest, _ids(made, queries), strict=True)
        ]
        assert float(np.mean(shares)) >= 0.9
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


@pytest.mark.long
def test_the_same_workers_write_the_same_index_again(folder: Path, nodes: Any) -> None:
    with Library.open(folder, cluster=Cluster(nodes.address, workers=3, cpus=0.25)) as library:
        before = [row.sha256 for row in _segments(library) if row.kind is SegmentKind.INDEX]
        library.collection("made").rebuild()
        after = [row.sha256 for row in _segments(library) if row.kind is SegmentKind.INDEX]
    assert len(before) == 3
    assert after == before


def _one_and_several(folder: Path, kind: PlanKind) -> tuple[_Recipe, Builder, Builder]:
    """A trained index, who has filled it with everything, and who has filled three groups."""
    engine = engine_of(kind)
    assert isinstance(engine, InvertedLists)
    shape = engine.shapes(_COUNT, _WIDTH)[0]
    trained = CandidateIndex(engine, engine.trained(_VECTORS, shape), 0).serialise()
    recipe = _Recipe(kind, shape, trained)
    with Library.open(folder) as library:
        rows = [row for row in _segments(library) if row.kind is SegmentKind.VECTORS]
    where = str(folder), f"sqlite:///{folder / 'catalogue.sqlite'}", (1, 1)
    one, several = Builder(*where, [rows]), Builder(*where, [rows[:2], rows[2:3], rows[3:]])
    assert one.build(recipe) == several.build(recipe) == _COUNT
    return recipe, one, several


@pytest.mark.parametrize(
    ("kind", "factor"),
    [
        (PlanKind.IVF, 3),
        (PlanKind.IVF_SQ8, 3),
        # Where all of a list is proposed, the lists that are looked into decide alone, and they are the same.
        (PlanKind.IVF, _COUNT),
        (PlanKind.IVF_SQ8, _COUNT),
        (PlanKind.IVF_PQ, _COUNT),
    ],
)
def test_groups_answer_exactly_as_one_index_of_the_same_centres_and_probes(
    folder: Path, kind: PlanKind, factor: int
) -> None:
    recipe, one, several = _one_and_several(folder, kind)
    for probes in (1, 4):
        asked = recipe, _near(100, seed=7), 10, {"probes": probes, "factor": factor}
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
    parameters, queries = {"probes": 4, "factor": factor}, _near(100, seed=7)
    (whole,), parts = one._indexes(recipe), several._indexes(recipe)
    proposed = [part.looking(parameters).proposed(queries, 10) for part in parts]
    for alone, by_groups in zip(
        whole.looking(parameters).proposed(queries, 10), np.concatenate(proposed, axis=1), strict=True
    ):
        assert {*alone.tolist()} <= {*by_groups.tolist()}
    asked, better = (recipe, queries, 10, parameters), 0
    for single, united in zip(one.found(*asked), several.found(*asked), strict=True):
        assert (united.scores >= single.scores).all()
        last, kept = united.scores[-1], dict(zip(united.ids.tolist(), united.scores.tolist(), strict=True))
        for number, score in zip(single.ids.tolist(), single.scores.tolist(), strict=True):
            assert kept.get(number) == score or (number not in kept and score <= last)
        better += not np.array_equal(united.ids, single.ids)
    assert better, "else `ivf-pq` belongs to the test above"


_candidates = CandidateIndex.candidates


def _with_lists(self: CandidateIndex, *given: Any) -> NDArray[np.int64]:
    """What an index proposes that is not left to choose lists for itself."""
    assert given[-1] is not None
    return _candidates(self, *given)


@pytest.mark.parametrize("kind", [PlanKind.IVF_PQ, PlanKind.IVF_SQ8, PlanKind.IVF])
@pytest.mark.parametrize("queries", [1, 50])
def test_the_lists_of_a_query_are_chosen_once_for_all_groups(
    monkeypatch: pytest.MonkeyPatch, kind: PlanKind, queries: int
) -> None:
    engine = engine_of(kind)
    assert isinstance(engine, InvertedLists)
    shape = {**engine.shapes(_COUNT, _WIDTH)[0], "lists": 64}
    trained = CandidateIndex(engine, engine.trained(_VECTORS, shape), 0).serialise()
    parts = []
    for begin in range(0, _COUNT, _COUNT // 4):
        part = open_index(kind, trained, begin + _COUNT // 4, parameters={"probes": 5, "factor": 3})
        ids = np.arange(begin, begin + _COUNT // 4)
        part.faiss_index.add_with_ids(_VECTORS[ids], ids)
        parts.append(part)
    vectors = VectorStore([VectorSegment("made", np.arange(_COUNT), _VECTORS)], _WIDTH)
    asked, together = _near(queries, seed=21), UnitedIndex(parts, vectors)
    alive = np.arange(_COUNT) % 3 != 0
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
            patch.setattr(CandidateIndex, "candidates", _with_lists)
            found = together.nearest_many(vectors, asked, 10, some)
        assert chosen == [queries]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one.ids, other.ids)
            np.testing.assert_array_equal(one.scores, other.scores)


@pytest.mark.long
def test_what_comes_later_shares_the_centres_of_the_groups(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(refresh_index.__kwdefaults__, "tail", 100)
    with Library.open(tmp_path / "library", cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        made = _unindexed(library)
        made.tune()
        made.add_rows(_ROWS[2000:2450], vectors=_VECTORS[2000:2450], index="now")
        snapshot = made.snapshot()
        index = snapshot.index
        assert isinstance(index, UnitedIndex)
        assert [len(part) for part in index.parts] == [1000, 1000, 450]
        assert len({part.centres_hash for part in index.parts}) == 1
        (path, row) = next(
            (library.store.segment(1, row.sha256), row)
            for row in _segments(library)
            if row.kind is SegmentKind.INDEX
        )
        whole = emptied(path, row, snapshot.generation.encoder, snapshot.plan)
        assert whole is not None
        assert len(whole) == 0
        fill(whole.faiss_index, snapshot.vectors, snapshot.vectors.ids)
        wide = {"probes": 4, "factor": _COUNT}
        for one, other in zip(
            whole.looking(wide).nearest_many(snapshot.vectors, _near(50, seed=25), 10),
            index.looking(wide).nearest_many(snapshot.vectors, _near(50, seed=25), 10),
            strict=True,
        ):
            np.testing.assert_array_equal(one.ids, other.ids)
            np.testing.assert_array_equal(one.scores, other.scores)
        before = {part.centres_hash for part in index.parts}
        made.rebuild()
        again = made.snapshot().index
        assert isinstance(again, UnitedIndex)
        assert {part.centres_hash for part in again.parts} == before, "and so do groups that are built again"
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


@pytest.mark.long
def test_a_worker_that_is_killed_while_it_builds_is_started_again(tmp_path: Path, nodes: Any) -> None:
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if progress.doing == "building the index" and not killed:
            killed.append(kill_one(nodes.address, "ray::Builder"))

    with Library.open(tmp_path / "library", cluster=Cluster(nodes.address, workers=2, cpus=0.5)) as library:
        made = library.collection("made", encoder=VectorsOnly("made", _WIDTH))
        made.add_rows(_ROWS[:2000], vectors=_VECTORS[:2000], index="later")
        made.rebuild(progress=kill)
        assert killed
        assert made.snapshot().plan.kind is not PlanKind.EXACT
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


def _dies_after(step: str, flag: Path) -> type[Builder]:
    """A worker whose process ends when it has done a step, before it says so; once."""
    done = getattr(Builder, step)

    def last(self: Builder, *given: Any) -> Any:
        found = done(self, *given)
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    return type("Dies", (Builder,), {step: last})


@pytest.mark.long
@pytest.mark.parametrize("step", ["drawn", "exact", "build", "found", "written"])
def test_a_worker_that_is_killed_at_any_step_does_it_again(
    unindexed: Path, undisturbed: list[str], nodes: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    flag = unindexed.parent / "died"
    monkeypatch.setattr(indexing, "Builder", _dies_after(step, flag))
    with Library.open(unindexed, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        library.collection("made").tune()
        assert flag.exists()
        assert _indexes(library) == undisturbed
        assert _unsound(library) == []
        _has_only_its_files(library)


def _unindexed(library: Library) -> Collection:
    made = library.collection("made", encoder=VectorsOnly("made", _WIDTH))
    for begin in range(0, 2000, _BATCH):
        some = slice(begin, begin + _BATCH)
        made.add_rows(_ROWS[some], vectors=_VECTORS[some], index="later")
    return made


@pytest.mark.long
def test_a_machine_that_goes_away_while_it_builds_costs_nothing_but_time(tmp_path: Path, nodes: Any) -> None:
    machines = [nodes.add_node(num_cpus=2, object_store_memory=_MEMORY)]
    built: list[int] = []

    def replace(progress: Progress) -> None:
        if progress.doing == "building the index" and not built:
            built.append(progress.done)
            nodes.remove_node(machines.pop(), allow_graceful=False)
            machines.append(nodes.add_node(num_cpus=2, object_store_memory=_MEMORY))

    with Library.open(tmp_path / "library", cluster=Cluster(nodes.address, workers=4)) as library:
        made = _unindexed(library)
        made.tune(progress=replace)  # four workers of four cores, two of which are the machine's
        assert built
        assert made.snapshot().plan.kind is not PlanKind.EXACT
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []
    nodes.remove_node(machines.pop())


_INDEXES = """
import sys
from nearsay.indexer import Cluster, Library
library = Library.open(sys.argv[1], cluster=Cluster(sys.argv[2], workers=2, cpus=.25))
library.collection("made").tune(progress=lambda now: print(now.doing, flush=True))
"""


@pytest.mark.long
def test_a_driver_that_is_killed_while_workers_build_leaves_what_was_there(
    tmp_path: Path, nodes: Any
) -> None:
    folder = tmp_path / "library"
    with Library.open(folder) as library:
        _unindexed(library)
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
        assert len(_ids(made, _near(1, seed=31))[0]) == 10
        assert made.tune().kind is not PlanKind.EXACT
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


_INDEXES_AND_DIES = """
import os, signal, sys
from nearsay.indexer import Cluster, Library
from nearsay.indexer.cluster import indexing
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
elif step == "takes over":
    index_upkeep.moved = moved_last
elif step == "has committed":
    index_upkeep.trim = die
library = Library.open(folder, cluster=Cluster(address, workers=2, cpus=.25))
library.collection("made").tune()
"""


def _ends_itself(program: str, *given: str) -> None:
    """Run a driver that kills itself."""
    ended = subprocess.run(
        [sys.executable, "-c", program, *given], capture_output=True, text=True, check=False, timeout=_SOON
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


@pytest.mark.long
@pytest.mark.parametrize("step", ["writes", "takes over", "has committed"])
def test_a_driver_that_is_killed_while_parts_of_an_index_are_entered_leaves_what_was_there_or_all_of_it(
    unindexed: Path, undisturbed: list[str], nodes: Any, step: str
) -> None:
    query = _near(3, seed=33)
    with Library.open(unindexed) as library:
        before = _ids(library.collection("made"), query)
    _ends_itself(_INDEXES_AND_DIES, str(unindexed), nodes.address, step)
    until = time.monotonic() + _SOON
    while processes(nodes.address, "ray::Ends", "ray::Builder") and time.monotonic() < until:
        time.sleep(0.05)  # what a worker still writes is there to be removed
    with Library.open(unindexed, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        made = library.collection("made")
        assert _indexes(library) == (undisturbed if step == "has committed" else [])
        assert (made.snapshot().plan.kind is PlanKind.EXACT) == (step != "has committed")
        if step != "has committed":
            assert _ids(made, query) == before
        assert _unsound(library) == []
        made.tune()
        assert _indexes(library) == undisturbed
        assert _unsound(library) == []
        _has_only_its_files(library)


_REBUILDS_LATE = """
import os, pathlib, sys, time
from nearsay.data.errors import NearsayError
from nearsay.indexer import Cluster, Library
from nearsay.indexer.cluster import indexing
from nearsay.indexer.writing.index_upkeep import refresh_index
folder, address = sys.argv[1:]
refresh_index.__kwdefaults__["exact_up_to"] = 1000

class Late(indexing.Builder):
    def written(self, *given):
        here = pathlib.Path(folder).parent
        (here / "arrived").touch()
        while not (here / "go").exists():
            time.sleep(.02)
        return super().written(*given)

indexing.Builder = Late
library = Library.open(folder, cluster=Cluster(address, workers=1, cpus=.25))
try:
    library.collection("made").rebuild()
except NearsayError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@pytest.mark.long
def test_a_worker_that_writes_its_index_after_its_driver_was_replaced_enters_nothing(
    unindexed: Path, undisturbed: list[str], nodes: Any
) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", _REBUILDS_LATE, str(unindexed), nodes.address],
        stderr=subprocess.PIPE,
        text=True,
    )
    with first, Library.open(unindexed, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        until = time.monotonic() + _SOON
        while not (unindexed.parent / "arrived").exists() and time.monotonic() < until:
            time.sleep(0.02)
        (unindexed / "locks" / "1.lock").unlink()  # and with it the lock of the first driver
        made = library.collection("made")
        made.rebuild()
        plan = made.snapshot().generation.plan
        assert _indexes(library) == undisturbed
        (unindexed.parent / "go").touch()
        _, said = first.communicate(timeout=_SOON)
        assert first.returncode == 1
        assert "LostLockError" in said.splitlines()[-1]
        files = {path.stem for path in library.store.segments(1).iterdir()}
        assert files - {row.sha256 for row in _segments(library)}, "one worker builds another file"
        assert _indexes(library) == undisturbed
        assert made.snapshot().generation.plan == plan
        assert _unsound(library) == []
        _has_only_its_files(library)


@pytest.mark.long
def test_of_two_drivers_that_index_at_once_one_keeps_its_index(
    unindexed: Path, undisturbed: list[str], nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(prepare_index.__kwdefaults__, "exact_up_to", 1000)
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
        assert _indexes(library) == undisturbed
        assert second.optimize() == first.optimize()
        assert _indexes(library) == undisturbed, "nothing was due"
        with pytest.raises(BusyError, match="indexed by another process meanwhile"):
            first.tune(progress=replaced)
        kept = _indexes(library)
        assert len(kept) == 1
        assert kept != undisturbed
        assert first.snapshot().plan.contract.recall == 0.9
        assert [*library.store.building.glob("*")] == []
        assert _unsound(library) == []
        _has_only_its_files(library)


@pytest.mark.long
def test_a_catalogue_that_is_started_again_while_workers_index_and_shards_search_loses_nothing(
    tmp_path: Path, nodes: Any, own_postgresql_server: postgresql_server.Server
) -> None:
    restarted: list[str] = []

    def restart(progress: Progress) -> None:
        if progress.doing == "building the index" and not restarted:
            restarted.append(progress.doing)
            own_postgresql_server.stop()
            own_postgresql_server.start()

    folder, query = tmp_path / "library", _near(3, seed=35)
    with (
        postgresql_server.new_database(own_postgresql_server.url) as url,
        Library.open(folder, database=url, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library,
        Library.open(folder, database=url, cluster=Cluster(nodes.address, searches=True)) as searching,
    ):
        made, sharded = _unindexed(library), searching.collection("made")
        with contextlib.suppress(NearsayError):  # it may go on by itself
            made.tune(progress=restart)
        assert restarted
        made.tune()
        assert len(_indexes(library)) == 2
        assert sum(state.passages for state in library.serve("made", 2)) == 2000
        wanted = _ids(made, query)
        assert _ids(sharded, query) == wanted
        own_postgresql_server.stop()
        own_postgresql_server.start()
        assert _ids(sharded, query) == wanted
        made.add_rows([{"id": "new", "text": "new"}], vectors=query[:1], index="later")
        assert _ids(sharded, query)[0][0] == "new", "each shard reads the catalogue again"
        assert _unsound(library) == []
        assert library.release("made") == 2


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
        made = _unindexed(library)
        with monkeypatch.context() as patch:
            patch.setattr(indexing, "Builder", _WithoutRoom)
            with pytest.raises(NearsayError, match="no room left"):
                made.tune()
        assert made.snapshot().plan.kind is PlanKind.EXACT
        assert not list((tmp_path / "library" / "segments").rglob(".*")), "nothing half-written is left"
        assert made.tune().kind is not PlanKind.EXACT
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


@pytest.mark.long
def test_workers_measure_with_queries_of_the_user(folder: Path, nodes: Any) -> None:
    queries = _near(400, seed=23)
    with Library.open(folder, cluster=Cluster(nodes.address, workers=3, cpus=0.25)) as library:
        made = library.collection("made")
        with pytest.raises(BadInputError, match="9 queries are too few"):
            made.tune(queries=queries[:9])
        plan = made.tune(recall="0.9@10", queries=queries)
        assert plan.queries == "400 given queries"
        assert not plan.estimated
        assert [row.recall_at_least >= 0.9 for row in plan.report if row.verdict == "taken"] == [True]  # type: ignore[operator]
        assert len([row for row in _segments(library) if row.kind is SegmentKind.INDEX]) == 3
        assert not list((folder / "segments" / "building").glob("*")), "nothing is left where it was built"
        found = _ids(made, queries[:100])
    nearest = np.argsort(-(queries[:100] @ _VECTORS.T), axis=1)[:, :10]
    shares = [len({*map(str, one)} & {*ids}) / 10 for one, ids in zip(nearest, found, strict=True)]
    assert float(np.mean(shares)) >= 0.88


@pytest.fixture
def served(folder: Path, nodes: Any) -> Iterator[tuple[Collection, Callable[..., Collection]]]:
    """The collection as this process searches it, and what gives it as three shards do."""
    address = nodes.address
    with Library.open(folder, cluster=Cluster(address, cpus=0.25)) as library:
        made = library.collection("made")
        assert [state.passages for state in library.serve("made", 3)] == pytest.approx(
            [_COUNT / 3] * 3, abs=_BATCH
        )
        libraries = []

        def by_shards(**how: Any) -> Collection:
            libraries.append(Library.open(folder, cluster=Cluster(address, searches=True, **how)))
            return libraries[-1].collection("made")

        yield made, by_shards
        for one in libraries:
            one.close()
        library.release("made")


@pytest.mark.long
def test_workers_build_the_index_that_optimize_makes(
    nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for function in (left_for_later, prepare_index):
        monkeypatch.setitem(function.__kwdefaults__, "exact_up_to", 1000)
    with Library.open(tmp_path, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
        made = library.collection("made", encoder=VectorsOnly("made", _WIDTH))
        for begin in range(0, 2000, _BATCH):
            some = slice(begin, begin + _BATCH)
            report = made.add_rows(_ROWS[some], vectors=_VECTORS[some])
        assert any("nearsay index optimize made --cluster ADDRESS" in note for note in report.notes)
        assert made.optimize().kind is PlanKind.IVF_PQ
        index = made.snapshot().index
        assert isinstance(index, UnitedIndex)
        assert len(index.parts) > 1


@pytest.mark.long
@pytest.mark.parametrize("listed", [20_000, 0])
def test_shards_find_what_one_process_finds(
    served: Any, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    monkeypatch.setattr(selection, "LISTED", listed)
    made, by_shards = served
    sharded, queries = by_shards(), _near(30, seed=9)
    assert _ids(sharded, queries) == _ids(made, queries)
    for where in ("tenth = 3", "tenth != 3", "id = '17'", "tenth > 100"):
        assert _ids(sharded, queries, where=where) == _ids(made, queries, where=where)
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


def _in_shards(library: Library) -> ShardedSnapshot:
    """The collection as three shards search it that stand in this process."""
    with library.store.database.reading() as connection:
        row = collections.find(connection, "made")
        assert row is not None
        live = generations.live(connection, row.id)
        assert live is not None
        here = _Here(library.store, row, parted(_segments(library), 3))
        found = here.opened(connection, library.store, row, None, live)
    assert isinstance(found, ShardedSnapshot)
    return found


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
    queries = _near(count, seed=45)
    with Library.open(folder) as library:
        whole, sharded = library.collection("made").snapshot(), _in_shards(library)
        probes = whole.plan.parameters["probes"]
        for reach in (1.0, 2.0):
            wanted = whole.looked_up(queries, 10, whole.alive, reach)
            choices.clear()
            with monkeypatch.context() as patch:
                patch.setattr(CandidateIndex, "candidates", _with_lists)
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
    query = _near(1, seed=47)
    with Library.open(folder) as library:
        whole = library.collection("made").snapshot()
        wanted = whole.nearest_many(query, 10)
        for chooser in ("other", "none"):
            sharded = _in_shards(library)
            assert sharded.chooser is not None
            if chooser == "other":
                other = faiss.IndexFlatIP(_WIDTH)
                other.add(_VECTORS[: whole.plan.shape["lists"]])
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
        first.nearest_many(_near(1, seed=49), 10)
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
    sharded, queries = by_shards(), _near(20, seed=51)
    actors = [actor for (actor,) in _running(made.library.store, 1)]
    ray.get([actor.__ray_call__.remote(watch) for actor in actors])
    found = [_ids(sharded, query[None])[0] for query in queries]
    assert len(choices) == len(queries)
    assert ray.get([actor.__ray_call__.remote(watched) for actor in actors]) == [0, 0, 0]
    assert found == [_ids(made, query[None])[0] for query in queries]


@pytest.mark.long
def test_shards_see_what_was_added_and_removed(served: Any) -> None:
    made, by_shards = served
    sharded, query = by_shards(), _near(1, seed=11)
    first = _ids(sharded, query)[0][0]
    made.add_rows([{"id": "new", "text": "new"}], vectors=query, index="later")
    try:
        assert _ids(sharded, query)[0][:2] == ["new", first]
        made.remove(["new"])
        assert _ids(sharded, query)[0][0] == first
    finally:
        made.remove(["new"], missing="ignore")


@pytest.mark.long
def test_a_shard_that_was_killed_is_started_again(served: Any, nodes: Any) -> None:
    made, by_shards = served
    sharded, query = by_shards(), _near(1, seed=13)
    kill_one(nodes.address, "ray::Shard")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(ClusterError):  # while it is being started
            found = _ids(sharded, query)
            break
    assert found == _ids(made, query)


@pytest.mark.long
def test_shards_of_a_machine_that_goes_away_are_started_on_others(folder: Path, nodes: Any) -> None:
    def node_of(_: Any) -> str:  # here, so that it is sent as it is: a worker does not import the tests
        import ray

        node: str = ray.get_runtime_context().get_node_id()
        return node

    query, before = _near(1, seed=15), nodes_of()
    machines = [nodes.add_node(num_cpus=2, object_store_memory=_MEMORY)]
    (added,) = nodes_of() - before
    with (
        Library.open(folder, cluster=Cluster(nodes.address)) as library,
        Library.open(folder, cluster=Cluster(nodes.address, searches=True)) as searching,
    ):
        made, sharded = library.collection("made"), searching.collection("made")
        assert len(library.serve("made", 3)) == 3  # of four cores, two of which are the new machine's
        wanted = _ids(made, query)
        assert _ids(sharded, query) == wanted
        shards = [actor for (actor,) in _running(library.store, 1)]
        assert added in ray.get([actor.__ray_call__.remote(node_of) for actor in shards])
        nodes.remove_node(machines.pop(), allow_graceful=False)
        machines.append(nodes.add_node(num_cpus=2, object_store_memory=_MEMORY))
        until, found = time.monotonic() + _SOON, [["nothing"]]
        while found != wanted and time.monotonic() < until:
            with contextlib.suppress(ClusterError):  # while they are being started
                found = _ids(sharded, query)
        assert found == wanted
        assert library.release("made") == 3
    nodes.remove_node(machines.pop())


@pytest.mark.long
def test_without_a_shard_an_answer_is_refused_or_said_to_be_a_part(served: Any) -> None:
    made, by_shards = served
    query = _near(1, seed=17)[0]
    (name,) = (name for name in ray.util.list_named_actors() if name.endswith("-1-3-0"))
    ray.kill(ray.get_actor(name))  # for good
    with pytest.raises(ClusterError, match=r"1 shard of 3 of collection 'made' does not answer") as raised:
        by_shards().search(query, 10, mode="dense")
    assert str(raised.value).endswith("nearsay cluster serve made --shards 3")
    hits = by_shards(partial=True).search(query, _COUNT, mode="dense")
    assert any("shard 1 did not answer" in note for note in hits.notes)
    assert any("nearsay cluster serve made" in note for note in hits.notes)
    assert len(hits) == pytest.approx(2 * _COUNT / 3, abs=2 * _BATCH)
    assert {hit.id for hit in hits} < {hit.id for hit in made.search(query, _COUNT, mode="dense")}


@pytest.mark.long
def test_a_search_among_shards_that_are_being_started_finds_the_others_later(
    served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, by_shards = served
    query, sharded = _near(1, seed=37), by_shards()
    with monkeypatch.context() as patch:
        patch.setattr(serving, "_running", lambda *given: [*_running(*given)[:2], []])
        with pytest.raises(ClusterError, match="1 shard of 3"):
            sharded.search(query[0], 10, mode="dense")
    assert _ids(sharded, query) == _ids(made, query)


def _processes_of(library: Library) -> list[str]:
    """Which shards and replicas there are."""
    names = (name for name in ray.util.list_named_actors() if name.startswith(_prefix(library.store, 1)))
    return sorted(name.removeprefix(_prefix(library.store, 1)).partition("-")[2] for name in names)


_SERVES_AND_DIES = """
import os, signal, sys
import ray
from nearsay.indexer import Cluster, Library
from nearsay.indexer.cluster import serving
folder, address, step = sys.argv[1:]

def die(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

start, started = ray.actor.ActorClass._remote, []

def two(*given, **named):
    if len(started) == 2:
        # Till then they end with who started them.
        ray.get([actor.__ray_ready__.remote() for actor in started])
        die()
    started.append(start(*given, **named))
    return started[-1]

def last(calls):
    ray.get(calls)
    die()

if step == "ended":
    serving.free_room = die
elif step == "started":
    ray.actor.ActorClass._remote = two
else:
    serving.answers_of = last
library = Library.open(folder, cluster=Cluster(address, cpus=.25))
library.serve("made", 3)
"""


@pytest.mark.long
def test_a_driver_that_is_killed_while_it_starts_shards_is_made_good_by_the_same_command(
    served: Any, folder: Path, nodes: Any
) -> None:
    made, by_shards = served
    query, sharded = _near(3, seed=39), by_shards()
    wanted, library = _ids(made, query), made.library
    assert _ids(sharded, query) == wanted
    left = {"ended": [], "started": ["0-3-0", "1-3-0"], "opened": ["0-3-0", "1-3-0", "2-3-0"]}
    remedies = {"ended": "nearsay cluster serve made", "started": "nearsay cluster serve made --shards 3"}
    for step, there in left.items():
        _ends_itself(_SERVES_AND_DIES, str(folder), nodes.address, step)
        assert _processes_of(library) == there
        if step in remedies:
            with pytest.raises(ClusterError) as raised:
                _ids(sharded, query)
            assert str(raised.value).endswith(remedies[step])
        else:
            assert _ids(sharded, query) == wanted, "they open their files without who started them"
        assert sum(state.passages for state in library.serve("made", 3)) == _COUNT
        assert _ids(sharded, query) == wanted
    assert _unsound(library) == []


@pytest.mark.long
def test_shards_that_are_served_again_take_the_place_of_those_before(served: Any) -> None:
    made, by_shards = served
    query, sharded = _near(3, seed=41), by_shards()
    wanted = _ids(made, query)
    for shards, replicas in ((3, 1), (2, 2)):
        assert _ids(sharded, query) == wanted
        states = made.library.serve("made", shards, replicas)
        assert sum(state.passages for state in states) == replicas * _COUNT
        assert _ids(sharded, query) == wanted
        assert len(_running(made.library.store, 1)) == shards
        assert _processes_of(made.library) == [
            f"{at}-{shards}-{replica}" for at in range(shards) for replica in range(replicas)
        ]


@pytest.mark.long
def test_of_two_drivers_that_serve_at_once_the_last_one_has_its_shards(
    served: Any, folder: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, by_shards = served
    query, sharded, free_room = _near(3, seed=43), by_shards(), serving.free_room
    cluster, raised = Cluster(nodes.address, cpus=0.25), list[BusyError]()
    with (
        Library.open(folder, cluster=cluster) as impatient,
        Library.open(folder, cluster=cluster, wait=_SOON) as patient,
    ):
        waiting = threading.Thread(target=patient.serve, args=("made", 2))

        def meanwhile(*given: Any) -> int:
            monkeypatch.setattr(serving, "free_room", free_room)
            for refused in (lambda: impatient.serve("made", 2), lambda: impatient.release("made")):
                with pytest.raises(BusyError) as busy:
                    refused()
                raised.append(busy.value)
            waiting.start()
            return free_room(*given)

        monkeypatch.setattr(serving, "free_room", meanwhile)
        assert len(made.library.serve("made", 3)) == 3, "nobody ended them before they were ready"
        assert len(raised) == 2
        waiting.join(_SOON)
        assert not waiting.is_alive()
    assert _processes_of(made.library) == ["0-2-0", "1-2-0"]
    assert _ids(sharded, query) == _ids(made, query)


@pytest.mark.long
def test_a_replica_answers_for_another(folder: Path, nodes: Any) -> None:
    query = _near(1, seed=19)
    with (
        Library.open(folder, cluster=Cluster(nodes.address, cpus=0.25)) as library,
        Library.open(folder, cluster=Cluster(nodes.address, searches=True)) as searching,
    ):
        made = library.collection("made")
        assert len(library.serve("made", 2, replicas=2)) == 4
        (name,) = (name for name in ray.util.list_named_actors() if name.endswith("-1-2-0"))
        ray.kill(ray.get_actor(name))
        for _ in range(4):
            assert _ids(searching.collection("made"), query) == _ids(made, query)
        assert library.release("made") == 3
        with pytest.raises(ClusterError, match="nearsay cluster serve made"):
            searching.collection("made").search(query, 3, mode="dense")


def test_one_index_of_everything_is_not_divided(tmp_path: Path, nodes: Any) -> None:
    with Library.open(tmp_path / "library", cluster=Cluster(nodes.address)) as library:
        made = library.collection("made", encoder=VectorsOnly("made", _WIDTH))
        made.add_rows(_ROWS[:100], vectors=_VECTORS[:100])
        with pytest.raises(ClusterError, match=r"1 part, not 2.*nearsay index rebuild made --cluster"):
            library.serve("made", 2)


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
def test_the_collection_that_a_shard_serves_is_found_by_number_and_name(folder: Path) -> None:
    from nearsay.indexer import UnknownCollectionError
    from nearsay.indexer.cluster.serving import _Moment

    with Library.open(folder) as library, library.store.database.reading() as connection:
        row = collections.find(connection, "made")
        assert row is not None
    url = f"sqlite:///{folder / 'catalogue.sqlite'}"
    moment = _Moment(row.version, 1)
    assert Shard(str(folder), url, (row.id, "made"), Part(1, None)).ready(moment)[0] == _COUNT
    with pytest.raises(UnknownCollectionError, match="deleted"):
        Shard(str(folder), url, (row.id + 1, "made"), Part(1, None)).ready(moment)
