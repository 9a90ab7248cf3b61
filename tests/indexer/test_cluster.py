"""Embedding by the workers of a Ray cluster: a head and two nodes, each a process of this machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest

if find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}  # read when Ray is imported

from ray import cloudpickle

from nearsay.indexer import Cluster, ClusterError, Library
from nearsay.indexer.catalogue import generations, ranges
from nearsay.indexer.cluster import embedding
from nearsay.indexer.cluster.joining import joined
from nearsay.indexer.doctor import examine
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.vectors.progress import Progress
from nearsay.training.sentence.light_encoder import open_encoder
from nearsay.training.sentence.text_encoder import TextEncoder

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Ray's own

_MEMORY = 80 * 2**20  # bytes of each node's object store: records are small
_ROWS = 16  # passages in a range
_TEXTS = [f"Sentence {number} speaks of {number % 7} birds and {number % 5} boats." for number in range(100)]


def test_a_cluster_without_a_token_is_not_joined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ClusterError, match="token"), joined(Cluster("127.0.0.1:1")):
        pass
    with pytest.raises(ClusterError, match="nearsay cluster up"), joined(Cluster()):
        pass


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster with a core at the head and two nodes of a core, which this process has joined."""
    os.environ["RAY_AUTH_TOKEN"] = "0" * 64
    from ray.cluster_utils import Cluster as Nodes

    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": _MEMORY}
    cluster = Nodes(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=_MEMORY)
    try:
        with joined(Cluster(cluster.address)):
            yield cluster
    finally:
        cluster.shutdown()
        del os.environ["RAY_AUTH_TOKEN"]


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", _ROWS)


def _library(folder: Path, nodes: Any, **given: Any) -> Library:
    cluster = Cluster(nodes.address, **given)
    return Library.open(folder, cluster=cluster, precision="float32", device="cpu")


def _hashes(library: Library) -> list[str]:
    with library.store.database.reading() as connection:
        return [row.sha256 for row in generations.segments_of(connection, 1)]


def _unsound(library: Library) -> list[str]:
    return [str(finding) for finding in examine(library, prove=True) if not finding.sound]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_any_number_of_workers_writes_the_segments_that_one_process_does(
    tmp_path: Path, nodes: Any, workers: int
) -> None:
    told: list[Progress] = []
    with _library(tmp_path / "spread", nodes, workers=workers) as spread:
        report = spread.collection("notes").add_rows(_TEXTS, progress=told.append)
        assert (report.added, report.embedded) == (100, 100)
        assert told[-1] == Progress(100, 100)
        assert _unsound(spread) == []
        hits = [(hit.text, hit.score) for hit in spread.collection("notes").search("three birds", 5)]
        by_workers = _hashes(spread)
    assert len(by_workers) == -(-100 // _ROWS)
    with Library.open(tmp_path / "alone", precision="float32", device="cpu") as alone:
        notes = alone.collection("notes")
        notes.add_rows(_TEXTS)
        found = notes.search("three birds", 5)
        assert [hit.text for hit in found] == [text for text, _ in hits]
        assert [hit.score for hit in found] == pytest.approx([score for _, score in hits], abs=1e-6)
    again = tmp_path / "again"
    with _library(again, nodes, workers=1) as one:
        one.collection("notes").add_rows(_TEXTS, progress=told.append)
        assert _hashes(one) == by_workers


def test_an_interrupted_embedding_goes_on_where_it_was(tmp_path: Path, nodes: Any) -> None:
    def stop(progress: Progress) -> None:
        if progress.done >= 40:
            raise KeyboardInterrupt

    with _library(tmp_path, nodes) as library:
        notes = library.collection("notes")
        with pytest.raises(KeyboardInterrupt):
            notes.add_rows(_TEXTS, progress=stop)
        with library.store.database.reading() as connection:
            (generation,) = generations.all_of(connection, 1)
            left = ranges.unembedded(connection, generation)
        assert 0 < left <= 60
        assert notes.snapshot().searchable == 100 - left
        assert notes.rebuild().embedded == left
        assert _unsound(library) == []


def test_a_worker_that_is_killed_costs_nothing_but_time(tmp_path: Path, nodes: Any) -> None:
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if not killed:
            killed.append(_kill_a_worker())

    with _library(tmp_path, nodes, workers=2) as library:
        notes = library.collection("notes")
        assert notes.add_rows(_TEXTS, progress=kill).embedded == 100
        assert killed
        assert len(notes.search("birds", 200, mode="dense")) == 100
        assert _unsound(library) == []


def test_a_machine_that_goes_away_costs_nothing_but_time(tmp_path: Path, nodes: Any) -> None:
    gone = nodes.add_node(num_cpus=2, object_store_memory=_MEMORY)
    told: list[int] = []

    def remove(progress: Progress) -> None:
        told.append(progress.done)
        if len(told) == 1:
            nodes.remove_node(gone, allow_graceful=False)

    with _library(tmp_path, nodes, workers=5) as library:
        notes = library.collection("notes")
        assert notes.add_rows(_TEXTS, progress=remove).embedded == 100
        assert len(notes.search("birds", 200, mode="dense")) == 100
        assert _unsound(library) == []


_DRIVER = """
import sys
from pathlib import Path
from nearsay.indexer import Cluster, Library
from nearsay.indexer.snapshots import segment_writer

segment_writer.ROWS = 16
texts = Path(sys.argv[2]).read_text().splitlines()
library = Library.open(sys.argv[1], cluster=Cluster(sys.argv[3]), precision="float32", device="cpu")
library.collection("notes").add_rows(texts, progress=lambda now: print(now.done, flush=True))
"""


def test_a_driver_that_is_killed_is_followed_by_another(tmp_path: Path, nodes: Any) -> None:
    texts, folder = tmp_path / "texts.txt", tmp_path / "library"
    texts.write_text("\n".join(_TEXTS))
    command = [sys.executable, "-c", _DRIVER, str(folder), str(texts), nodes.address]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert driver.stdout is not None
    with driver.stdout:
        done = int(driver.stdout.readline())  # its workers are at the next ranges
        driver.kill()
        driver.wait()
    assert 0 < done < 100
    with _library(folder, nodes) as library:
        notes = library.collection("notes")
        there = notes.snapshot().searchable
        assert done <= there < 100
        assert notes.add_rows(_TEXTS, progress=lambda _: None).embedded == 100 - there
        assert len(notes.search("birds", 200, mode="dense")) == 100
        assert _unsound(library) == []
        hashes = _hashes(library)
    with _library(tmp_path / "at once", nodes, workers=1) as once:
        once.collection("notes").add_rows(_TEXTS, progress=lambda _: None)
        assert _hashes(once) == hashes


def _kill_a_worker() -> int:
    """SIGKILL to a process that embeds; its number."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                name = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if name.startswith(b"ray::MapWorker"):
                os.kill(int(folder.name), signal.SIGKILL)
                return int(folder.name)
    raise AssertionError("no worker was found")


def _deadly(source: str) -> TextEncoder:
    """An encoder that one text kills, with its process."""
    encoder: Any = open_encoder(source, device="cpu", precision="float32")
    stream = encoder.stream

    def checked(windows: Any, **given: Any) -> Any:
        for texts in windows:
            if any("3 birds and 0 boats" in text for text in texts):
                os.kill(os.getpid(), signal.SIGKILL)
            yield from stream([texts], **given)

    encoder.stream = checked
    return cast("TextEncoder", encoder)


def test_a_text_that_kills_each_worker_is_given_up_and_the_rest_is_done(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "_GONE", 2.0)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with Library.open(tmp_path, cluster=Cluster(nodes.address), load_encoder=_deadly) as library:
        notes = library.collection("notes")
        texts = [text for text in _TEXTS[:60] if "3 birds and 0" not in text] + [_TEXTS[10]]
        with pytest.raises(ClusterError, match=r"11 passages .*ended again and again"):  # of the last range
            notes.add_rows(texts, progress=lambda _: None)
        assert (notes.snapshot().waiting, notes.snapshot().searchable) == (11, 3 * _ROWS)
        assert _unsound(library) == []


class _Fastidious:
    """An encoder that fails on some texts."""

    def __init__(self, source: str) -> None:
        self._encoder: Any = open_encoder(source, device="cpu", precision="float32")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_encoder"], name)

    def stream(self, windows: Any, **given: Any) -> Any:
        def checked() -> Iterator[list[str]]:
            for texts in windows:
                for text in texts:
                    if "3 birds and 0 boats" in text:
                        raise RuntimeError(f"{text} is poison")
                yield texts

        return self._encoder.stream(checked(), **given)


def test_what_cannot_be_embedded_is_named_and_the_rest_is_done(tmp_path: Path, nodes: Any) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    poison = [str(number) for number in range(100) if number % 7 == 3 and number % 5 == 0]
    library = Library.open(tmp_path, cluster=Cluster(nodes.address), load_encoder=_Fastidious)  # type: ignore[arg-type]
    with library:
        notes = library.collection("notes")
        rows = [{"id": str(number), "text": text} for number, text in enumerate(_TEXTS)]
        with pytest.raises(ClusterError) as raised:
            notes.add_rows(rows, progress=lambda _: None)
        assert f"{len(poison)} passages" in str(raised.value)
        assert f"'{poison[0]}' (RuntimeError: {_TEXTS[int(poison[0])]} is poison)" in str(raised.value)
        assert notes.snapshot().searchable == 100 - len(poison)
        notes.remove(poison)
        assert notes.snapshot().waiting == 0
        assert _unsound(library) == []


def _another(source: str) -> TextEncoder:
    found = open_encoder(source, device="cpu", precision="float32")
    found.fingerprint = "0" * 64  # type: ignore[misc]
    return found


def test_workers_that_have_another_encoder_are_refused(tmp_path: Path, nodes: Any) -> None:
    with _library(tmp_path, nodes) as library:
        notes = library.collection("notes")
        notes.add_rows(["a bird"])  # few: by this process
        with library.store.database.reading() as connection:
            (generation,) = generations.all_of(connection, 1)
        worker = embedding.Worker(
            str(tmp_path), f"sqlite:///{tmp_path / 'catalogue.sqlite'}", (1, 1), _another
        )
        assert generation.encoder.fingerprint[:12] in worker._refusal
