"""What a cluster's work survives: PostgreSQL started again, a full disk, a writer that comes back late."""

import contextlib
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest
import sqlalchemy as sa

if find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}  # read when Ray is imported

import postgresql_server
from ray import cloudpickle
from ray_processes import joined_nodes, while_embedding

from nearsay.data.errors import DiskFullError, NearsayError
from nearsay.indexer import Cluster, ClusterError, Library
from nearsay.indexer.catalogue import generations, ranges
from nearsay.indexer.cluster import embedding
from nearsay.indexer.doctor import examine
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.segment import write_vectors
from nearsay.indexer.writing import compaction
from nearsay.training.sentence.light_encoder import open_encoder
from nearsay.training.sentence.text_encoder import TextEncoder

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Ray's own

_ROWS = 16  # passages in a range
_TEXTS = [f"Sentence {number} speaks of {number % 7} birds and {number % 5} boats." for number in range(100)]
_SOON = 180.0  # seconds after which something that should have happened has not


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with joined_nodes(1) as cluster:
        yield cluster


@pytest.fixture
def open_library(tmp_path: Path, nodes: Any, postgresql_url: str) -> Iterator[Callable[..., Library]]:
    """Opens the test's library, as often as wanted: each is another driver."""
    opened: list[Library] = []

    def open_it(load: Callable[[str], TextEncoder] | None = None, host: str = "", **given: Any) -> Library:
        folder = tmp_path / "library"
        if host:  # another machine has other lock files
            folder = tmp_path / host
            folder.mkdir()
            shutil.copy(tmp_path / "library" / "library.json", folder)
            (folder / "segments").symlink_to(tmp_path / "library" / "segments")
        library = Library.open(
            folder,
            database=postgresql_url,
            cluster=Cluster(nodes.address, workers=1 if load else None),
            load_encoder=load or _plain,
            **given,
        )
        opened.append(library)
        return library

    yield open_it
    for library in opened:
        library.close()


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", _ROWS)


def _plain(source: str) -> TextEncoder:
    return open_encoder(source, device="cpu", precision="float32")


def _rows() -> list[dict[str, str]]:
    return [{"id": str(number), "text": text} for number, text in enumerate(_TEXTS)]


def _is_whole(library: Library) -> None:
    """Every row once, every vector once, nothing that `doctor` calls unsound."""
    notes = library.collection("notes")
    assert sorted(hit.id for hit in notes.search("birds", 300, mode="dense")) == sorted(map(str, range(100)))
    assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []
    with library.store.database.reading() as connection:
        (generation,) = generations.all_of(connection, 1)
        spans = [(row.first_passage, row.last_passage) for row in generations.segments_of(connection, 1)]
        assert ranges.unembedded(connection, generation) == 0
    assert all(before[1] < after[0] for before, after in zip(sorted(spans), sorted(spans)[1:], strict=False))


@pytest.mark.long
@pytest.mark.parametrize("doing", ["entering rows", ""])
def test_a_catalogue_that_is_started_again_in_between_loses_nothing(
    open_library: Callable[..., Library], own_postgresql_server: postgresql_server.Server, doing: str
) -> None:
    restarted: list[int] = []

    def restart(progress: Progress) -> None:
        if not restarted and progress.doing == doing:
            restarted.append(progress.done)
            own_postgresql_server.stop()
            own_postgresql_server.start()

    notes = open_library().collection("notes")
    with contextlib.suppress(NearsayError):  # it may go on by itself
        notes.add_rows(_rows(), progress=restart)
    assert restarted
    again = open_library()
    again.collection("notes").add_rows(_rows(), progress=lambda _: None)  # by the workers, as before
    _is_whole(again)


def _refused_by(flag: Path) -> Callable[..., Path]:
    """Writes vectors, except while there is a flag: then the kernel refuses the file."""

    def write(*given: Any, **named: Any) -> Path:
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        if flag.exists():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        try:
            return write_vectors(*given, **named)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    return write


def _without_room(flag: Path) -> Callable[[str], TextEncoder]:
    """An encoder whose process may not write files while there is a flag."""

    def load(source: str) -> TextEncoder:
        embedding.write_vectors = _refused_by(flag)
        return _plain(source)

    return load


@pytest.mark.long
def test_workers_whose_disk_is_full_say_so_and_the_same_command_goes_on(
    open_library: Callable[..., Library], tmp_path: Path
) -> None:
    flag = tmp_path / "full"
    library = open_library(_without_room(flag))
    notes = library.collection("notes")

    def fill(_: Progress) -> None:
        flag.touch()

    with pytest.raises(ClusterError, match=r"passages wait.*no room left") as raised:
        notes.add_rows(_rows(), progress=while_embedding(fill))
    assert "run the same command again" in str(raised.value)
    assert 0 < notes.snapshot().searchable < 100
    assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []
    flag.unlink()
    notes.rebuild()
    _is_whole(library)


@pytest.mark.long
def test_a_driver_whose_disk_is_full_as_it_merges_keeps_what_is_there_and_the_same_command_goes_on(
    open_library: Callable[..., Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", 8)  # 13 segments, so many that they are merged
    flag = tmp_path / "full"
    flag.touch()
    monkeypatch.setattr(compaction, "write_vectors", _refused_by(flag))
    library = open_library()
    notes = library.collection("notes")
    with pytest.raises(DiskFullError, match=r"no room left.*same command again"):
        notes.add_rows(_rows(), progress=lambda _: None)
    entered = _entered(library)
    assert len(entered) == 13
    assert sorted(path.stem for path in library.store.segments(1).iterdir()) == sorted(entered)
    _is_whole(library)
    flag.unlink()
    again = notes.add_rows(_rows(), progress=lambda _: None)
    assert (again.unchanged, again.embedded) == (100, 0)
    assert len(_entered(library)) == 1
    _is_whole(library)


def _entered(library: Library) -> list[str]:
    with library.store.database.reading() as connection:
        return [row.sha256 for row in generations.segments_of(connection, 1)]


def _dies_after_writing(flag: Path) -> Callable[[str], TextEncoder]:
    """An encoder whose process ends when it has written a file, before it says so; once."""

    def load(source: str) -> TextEncoder:
        write = embedding.write_vectors

        def last_words(*given: Any, **named: Any) -> Path:
            written = write(*given, **named)
            if not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return written

        embedding.write_vectors = last_words
        return _plain(source)

    return load


@pytest.mark.long
def test_a_range_whose_worker_dies_after_it_wrote_is_entered_once(
    open_library: Callable[..., Library], tmp_path: Path
) -> None:
    flag = tmp_path / "died"
    library = open_library(_dies_after_writing(flag))
    assert library.collection("notes").add_rows(_rows(), progress=lambda _: None).embedded == 100
    assert flag.exists()
    _is_whole(library)
    written = sorted(path.stem for path in library.store.segments(1).iterdir())
    assert written == sorted(_entered(library)), "the second file of the range is the first one"


def _late(flag: Path, arrived: Path) -> Callable[[str], TextEncoder]:
    """An encoder that waits for a flag with the texts of the last range."""

    def load(source: str) -> TextEncoder:
        encoder: Any = _plain(source)
        stream = encoder.stream

        def slowly(windows: Any, **given: Any) -> Any:
            for texts in windows:
                if _TEXTS[-1] in texts:
                    arrived.touch()
                    until = time.monotonic() + _SOON
                    while not flag.exists() and time.monotonic() < until:
                        time.sleep(0.05)
                yield from stream([texts], **given)

        encoder.stream = slowly
        return cast("TextEncoder", encoder)

    return load


@pytest.mark.long
def test_a_worker_that_finishes_after_its_driver_was_replaced_enters_nothing(
    open_library: Callable[..., Library], tmp_path: Path, postgresql_url: str
) -> None:
    flag, arrived = tmp_path / "go", tmp_path / "arrived"
    first = open_library(_late(flag, arrived))
    notes = first.collection("notes")
    raised: list[NearsayError] = []

    def add() -> None:
        try:
            notes.add_rows(_rows(), progress=lambda _: None)
        except NearsayError as error:
            raised.append(error)

    driver = threading.Thread(target=add)
    driver.start()
    until = time.monotonic() + _SOON
    while not arrived.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert arrived.exists()
    _take_the_lock_away(postgresql_url)
    second = open_library(host="elsewhere")
    second.collection("notes").rebuild()  # the second driver does what waits
    _is_whole(second)
    flag.touch()  # and now the worker of the first one comes back
    driver.join(_SOON)
    assert not driver.is_alive()
    assert len(raised) == 1
    assert "taken by" in str(raised[0])
    _is_whole(second)


def _take_the_lock_away(url: str) -> None:
    """As a pooler does that drops the connection which holds it."""
    engine = sa.create_engine(url)
    here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    holder = f"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND {here}"  # noqa: S608 - no input
    with engine.connect() as connection:
        (process,) = connection.exec_driver_sql(holder).scalars()
        assert connection.exec_driver_sql(f"SELECT pg_terminate_backend({process}, 10000)").scalar_one()
    engine.dispose()


@pytest.mark.long
def test_a_second_driver_is_refused_or_waits(open_library: Callable[..., Library]) -> None:
    first, second, third = open_library(), open_library(wait=0.0), open_library(wait=_SOON)
    busy: list[BusyError] = []
    late = [{"id": str(number), "text": text} for number, text in enumerate(_TEXTS[:3])]
    waiting = threading.Thread(target=lambda: third.collection("notes").add_rows(late))

    def meanwhile(_: Progress) -> None:
        if not busy:
            with pytest.raises(BusyError) as raised:
                second.collection("notes").add_rows(["a bird that came late"])
            busy.append(raised.value)
            waiting.start()
        assert waiting.is_alive()

    first.collection("notes").add_rows(_rows(), progress=while_embedding(meanwhile))
    assert len(busy) == 1
    waiting.join(_SOON)
    assert not waiting.is_alive()
    _is_whole(first)


@pytest.mark.long
def test_shards_over_postgresql_find_what_one_process_finds(
    open_library: Callable[..., Library], tmp_path: Path, nodes: Any, postgresql_url: str
) -> None:
    library = open_library()
    rows = [{**row, "tenth": number % 10} for number, row in enumerate(_rows())]
    library.collection("notes").add_rows(rows, progress=lambda _: None)
    cluster = Cluster(nodes.address, cpus=0.25, searches=True)
    with Library.open(
        tmp_path / "library", database=postgresql_url, cluster=cluster, load_encoder=_plain
    ) as sharded:
        assert sum(shard.passages for shard in sharded.serve("notes", 2, replicas=2)) == 200
        try:
            for mode in ("dense", "lexical", "hybrid"):
                for where in (None, "tenth = 3", "tenth != 3 and id != '7'"):
                    alone = library.collection("notes").search("three boats", 7, mode=mode, where=where)
                    hits = sharded.collection("notes").search("three boats", 7, mode=mode, where=where)
                    assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in alone]
                    assert len(hits) == 7
        finally:
            sharded.release("notes")


def _ends_elsewhere(process: int) -> Callable[[str], TextEncoder]:
    """An encoder that ends every other process that loads it."""

    def load(source: str) -> TextEncoder:
        if os.getpid() != process:
            os.kill(os.getpid(), signal.SIGKILL)
        return _plain(source)

    return load


@pytest.mark.long
def test_workers_that_all_end_while_they_start_are_an_error_and_not_a_text(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "_TRIES", 1)
    cluster = Cluster(nodes.address, workers=2)
    with Library.open(tmp_path, cluster=cluster, load_encoder=_ends_elsewhere(os.getpid())) as library:
        notes = library.collection("notes")
        with pytest.raises(ClusterError, match="a worker ended before it was done"):
            notes.add_rows(_TEXTS, progress=lambda _: None)
        assert notes.snapshot().waiting == 100


def _only_here(process: int) -> Callable[[str], TextEncoder]:
    """An encoder that no other process can load."""

    def load(source: str) -> TextEncoder:
        if os.getpid() != process:
            raise MemoryError("no room on the device")
        return _plain(source)

    return load


@pytest.mark.long
def test_workers_that_cannot_load_the_encoder_say_why(tmp_path: Path, nodes: Any) -> None:
    cluster = Cluster(nodes.address, workers=2)
    with Library.open(tmp_path, cluster=cluster, load_encoder=_only_here(os.getpid())) as library:
        notes = library.collection("notes")
        with pytest.raises(ClusterError, match=r"no room on the device.*every machine"):
            notes.add_rows(_TEXTS, progress=lambda _: None)
    with Library.open(tmp_path, cluster=cluster, load_encoder=_plain) as library:
        assert library.collection("notes").rebuild().embedded == 100
