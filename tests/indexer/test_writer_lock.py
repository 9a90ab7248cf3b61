"""One writer at a time, any number of readers, and no lock that outlives its holder."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import DiskFullError, NearsayError, StorageError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import collections
from nearsay.indexer.catalogue.collections import WriterRow
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.tables import metadata
from nearsay.indexer.catalogue.writer_lock import _TURNS, serving_lock, writer_lock
from nearsay.indexer.doctor import examine
from nearsay.indexer.vectors.errors import BusyError, LostLockError
from nearsay.indexer.vectors.progress import Progress

_HOLDER = """
import pathlib, sys
from nearsay.indexer import Library
from nearsay.indexer.catalogue.writer_lock import writer_lock

with Library.open(sys.argv[1]) as library:
    store = library.store
    with writer_lock(store.locks, "pets", 1, store.database, "rebuild"):
        print("held", flush=True)
        sys.stdin.readline()
"""


@pytest.fixture
def pets(library: Library) -> Collection:
    """A collection of one document, numbered 1 in the catalogue."""
    collection = library.collection("pets")
    collection.add_rows([{"id": "cat", "text": "a cat"}])
    return collection


@pytest.fixture
def holder(pets: Collection) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds the lock until it is killed or told to end."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(pets.library.store.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_writer_is_told_who_is_writing(pets: Collection, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(
        BusyError,
        match=rf"'pets' .* process {holder.pid} \(rebuild, for \d+ s\)",
    ):
        pets.add_rows(["a dog"])
    assert pets.overview().documents == 1


@pytest.mark.parametrize(
    "write",
    [
        lambda pets: pets.add_rows(["a dog"]),
        lambda pets: pets.remove(["cat"]),
        lambda pets: pets.delete(),
        lambda pets: pets.rebuild(WordsEncoder("other")),
        lambda pets: pets.promote(),
        lambda pets: pets.rollback(),
        lambda pets: pets.compact(),
    ],
    ids=["add", "remove", "delete", "rebuild", "promote", "rollback", "compact"],
)
def test_whatever_writes_takes_the_lock(pets: Collection, write: Callable[[Collection], object]) -> None:
    before = pets.overview()
    with _held(pets), pytest.raises(BusyError, match=f"by process {os.getpid()} "):
        write(pets)
    assert pets.overview() == before


def test_the_lock_of_a_killed_process_is_free(pets: Collection, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    assert holder.wait() == -9
    assert pets.add_rows(["a dog"]).added == 1


@pytest.mark.long
def test_the_lock_of_a_process_that_ended_is_free(pets: Collection, holder: subprocess.Popen[str]) -> None:
    holder.communicate("end\n")
    assert holder.wait() == 0
    assert pets.add_rows(["a dog"]).added == 1


def test_readers_are_not_kept_waiting_by_a_writer(
    pets: Collection, holder: subprocess.Popen[str], open_library: Callable[[], Library]
) -> None:
    reader = open_library().collection("pets")
    assert [hit.id for hit in reader.search("a cat")] == ["cat"]
    assert reader.document("cat").text == "a cat"
    assert reader.overview().documents == 1


def test_readers_see_what_is_committed_while_a_writer_goes_on(
    pets: Collection, open_library: Callable[[], Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearsay.indexer.writing.ingest._ROWS", 1)
    monkeypatch.setattr("nearsay.indexer.writing.ingest._WINDOW", 1)
    reader = open_library().collection("pets")
    seen = []
    pets.add_rows(["a dog", "a cow"], progress=lambda _: seen.append(len(reader.search("a cat"))))
    assert len(seen) == 2
    assert seen[0] >= 1
    assert len(reader.search("a cat")) == 3


def test_other_collections_are_written_meanwhile(pets: Collection, library: Library) -> None:
    with _held(pets):
        assert library.collection("others").add_rows(["a dog"]).added == 1


def test_of_many_threads_one_writes_and_the_others_are_told(pets: Collection) -> None:
    at_once = threading.Barrier(8)
    written, refused = [], []

    def write(number: int) -> None:
        at_once.wait()
        try:
            with _held(pets):
                written.append(number)
                all_tried.wait(60)
        except BusyError:
            refused.append(number)
            if len(refused) == 7:
                all_tried.set()

    all_tried = threading.Event()
    threads = [threading.Thread(target=write, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(written) == 1
    assert len(refused) == 7


def test_threads_that_write_one_after_the_other_lose_nothing(pets: Collection) -> None:
    turn = threading.Lock()

    def write(number: int) -> None:
        with turn:
            pets.add_rows([{"id": number, "text": f"row {number}"}])

    threads = [threading.Thread(target=write, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pets.search("a cat", k=20)) == 9


def test_the_lock_is_free_after_an_error(pets: Collection) -> None:
    with pytest.raises(ZeroDivisionError), _held(pets):
        raise ZeroDivisionError
    assert pets.add_rows(["a dog"]).added == 1


def test_a_writer_on_another_host_is_named_with_its_host(pets: Collection) -> None:
    database = pets.library.store.database
    with _held(pets):
        with database.writing() as connection:
            collections.take_fence(connection, 1, WriterRow("node-b", 4711, "tune", 0.0))
        with pytest.raises(BusyError, match=r"process 4711 on node-b \(tune, for \d+ s\)"):
            pets.add_rows(["a dog"])


@pytest.fixture
def overtaken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the lock loses it at once to process 4711 of host node-b."""
    take = collections.take_fence

    def take_twice(connection: sa.Connection, collection_id: int, writer: WriterRow) -> int | None:
        token = take(connection, collection_id, writer)
        take(connection, collection_id, WriterRow("node-b", 4711, "tune", writer.since))
        return token

    monkeypatch.setattr("nearsay.indexer.catalogue.collections.take_fence", take_twice)


@pytest.mark.long
@pytest.mark.parametrize(
    "write",
    [
        lambda zoo: zoo.add_rows(["a dog"]),
        lambda zoo: zoo.add_rows([{"id": "d0", "text": "another text"}]),
        lambda zoo: zoo.add_rows([{"id": "d0", "text": "word0 is here", "year": 2019}]),
        lambda zoo: zoo.remove(["d0"]),
        lambda zoo: zoo.delete(),
        lambda zoo: zoo.rebuild(),
        lambda zoo: zoo.rebuild(WordsEncoder("other")),
        lambda zoo: zoo.promote(),
        lambda zoo: zoo.rollback(),
        lambda zoo: zoo.compact(),
        lambda zoo: zoo.tune(),
        lambda zoo: zoo.explore.cluster(),
        lambda zoo: zoo.explore.assign_newer(),
        lambda zoo: zoo.explore.rename_cluster(1, "one"),
    ],
    ids=[
        *("add", "change", "relabel", "remove", "delete", "mend", "rebuild", "promote"),
        *("rollback", "compact", "tune", "cluster", "assign", "rename"),
    ],
)
def test_whatever_was_overtaken_changes_nothing(
    zoo: Collection, overtaken: None, write: Callable[[Collection], object]
) -> None:
    before = _rows(zoo)
    with pytest.raises(LostLockError, match=r"'zoo' was lost .* process 4711 on node-b "):
        write(zoo)
    assert _rows(zoo) == before


def test_a_map_that_was_overtaken_is_drawn_and_not_kept(zoo: Collection, overtaken: None) -> None:
    before = _rows(zoo)
    assert "process 4711 on node-b" in zoo.explore.map().notes[-1]
    assert _rows(zoo) == before


@pytest.fixture
def zoo(library: Library) -> Collection:
    """Three generations, the second live; clusters; passages that came after them."""
    zoo = library.collection("zoo")
    zoo.add_rows({"id": f"d{i}", "text": f"word{'x' * (i % 7)} is here", "kind": i % 2} for i in range(40))
    zoo.rebuild(WordsEncoder("second"))
    zoo.promote()
    zoo.explore.cluster()
    zoo.rebuild(WordsEncoder("third"))
    zoo.add_rows([{"id": "new", "text": "a new one here"}])
    zoo.remove(["d39"])
    return zoo


def _rows(zoo: Collection) -> dict[str, list[tuple[object, ...]]]:
    """Every row of the catalogue, but who took the lock last and how often."""
    tables = dict(metadata.tables)
    found = {}
    with zoo.library.store.database.reading() as connection:
        for name, table in tables.items():
            columns = [column for column in table.c if column.name not in ("fence", "writer")]
            found[name] = sorted(map(tuple, connection.execute(sa.select(*columns))), key=repr)
    return found


def _text(number: int) -> str:
    return " ".join("x" * (1 + (number * 7 + i * i) % 8) for i in range(1 + number % 9))


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_of_two_writers_after_a_lost_lock_only_the_newer_one_writes(
    kind: str,
    tmp_path: Path,
    words: WordsEncoder,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearsay.indexer.snapshots.segment_writer.ROWS", 8)
    monkeypatch.setattr("nearsay.indexer.writing.ingest._ROWS", 16)
    monkeypatch.setattr("nearsay.indexer.writing.ingest._WINDOW", 8)
    url: str | None = request.getfixturevalue("postgresql_url") if kind == "postgresql" else None
    rows = {name: [{"id": f"{name}{i}", "text": _text(i)} for i in range(60)] for name in ("a", "b")}

    def opened(folder: Path) -> Library:
        return Library.open(folder, database=url, load_encoder=lambda _: words)

    with contextlib.ExitStack() as libraries:
        first = libraries.enter_context(opened(tmp_path / "library"))
        first.collection("papers").add_rows([{"id": "first", "text": "x yy"}])
        other = tmp_path / "library"
        if url is not None:  # another host has other lock files
            other = tmp_path / "elsewhere"
            other.mkdir()
            shutil.copy(tmp_path / "library" / "library.json", other)
            (other / "segments").symlink_to(tmp_path / "library" / "segments")
        second = libraries.enter_context(opened(other))
        came = []

        def another_comes(progress: Progress) -> None:
            if came or progress.done < 20:
                return
            _break_lock(first, url)
            came.append(second.collection("papers").add_rows(rows["b"]))

        with pytest.raises(LostLockError, match=rf"process {os.getpid()} \(add, for"):
            first.collection("papers").add_rows(iter(rows["a"]), progress=another_comes)
        assert came[0].added == 60
        assert all(finding.sound for finding in examine(second, prove=True))
        seen = second.collection("papers").overview()
        assert sum(segment.count for segment in seen.segments) == seen.passages < 121

        # The same command again finishes it, and scores are those of a library that was never in trouble.
        assert first.collection("papers").add_rows(iter(rows["a"])).unchanged == seen.passages - 61
        assert sum(segment.count for segment in first.collection("papers").overview().segments) == 121
        plain = libraries.enter_context(
            Library.open(tmp_path / "plain", load_encoder=lambda _: words)
        ).collection("papers")
        plain.add_rows([{"id": "first", "text": "x yy"}, *rows["a"], *rows["b"]])
        for query in ("xxx", "x yy zzz", _text(5)):
            wanted = {hit.id: hit.score for hit in plain.search(query, k=200, mode="dense")}
            hits = second.collection("papers").search(query, k=200, mode="dense")
            assert len(hits) == 121
            assert {hit.id: hit.score for hit in hits} == pytest.approx(wanted, abs=1e-6)


def test_a_lost_connection_is_reported_where_nobody_else_came(
    tmp_path: Path, words: WordsEncoder, postgresql_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Library.open(tmp_path / "library", database=postgresql_url, load_encoder=lambda _: words) as library:
        papers = library.collection("papers")
        broken = []

        def break_once(_: Progress) -> None:
            if not broken:
                _break_lock(library, postgresql_url)
                broken.append(True)

        with caplog.at_level("WARNING", logger="nearsay"):
            assert papers.add_rows(["a dog", "a cat"], progress=break_once).embedded == 2
        assert caplog.text == Naming("'papers'", "PostgreSQL", "lost")
        assert len(papers.search("a cat")) == 2


def test_a_server_that_stops_while_the_lock_is_asked_for_can_be_tried_again(
    tmp_path: Path, words: WordsEncoder, postgresql_url: str
) -> None:
    psycopg = pytest.importorskip("psycopg")

    def refuse(*_: object) -> None:
        raise psycopg.OperationalError("FATAL:  the database system is shutting down")

    with Library.open(tmp_path / "library", database=postgresql_url, load_encoder=lambda _: words) as library:
        library.collection("papers").add_rows(["a dog"])
        engine = library.store.database.engine
        engine.dispose()
        sa.event.listen(engine, "do_connect", refuse)
        given = library.store.locks, "papers", 1, library.store.database
        with pytest.raises(StorageError, match=r"stopped or is starting.*Try again"), serving_lock(*given):
            pass
        sa.event.remove(engine, "do_connect", refuse)
        library.collection("papers").add_rows(["a cat"])


def _break_lock(library: Library, url: str | None) -> None:
    _TURNS.clear()  # the other writer is another process's
    if url is None:
        (library.store.locks / "1.lock").unlink()
        return
    engine = sa.create_engine(library.store.database.engine.url)
    here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    holder = f"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND {here}"  # noqa: S608 - no input
    with engine.connect() as connection:
        (process,) = connection.exec_driver_sql(holder).scalars()
        assert connection.exec_driver_sql(f"SELECT pg_terminate_backend({process}, 10000)").scalar_one()
    engine.dispose()


@pytest.mark.parametrize(
    ("number", "reason", "error", "remedy"),
    [
        (28, "No space left on device", DiskFullError, "run the same command again"),
        (30, "Read-only file system", NearsayError, "Check the folder's rights"),
    ],
)
def test_a_lock_that_cannot_be_made_is_told_in_one_sentence(
    pets: Collection,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    reason: str,
    error: type[NearsayError],
    remedy: str,
) -> None:
    monkeypatch.setattr(Path, "mkdir", _refusing(number, reason))
    with pytest.raises(error, match=f"locks .*{reason}.*nothing was changed") as raised:
        pets.remove(["cat"])
    assert str(raised.value).endswith(remedy)


def test_who_starts_shards_excludes_others_who_do_and_no_writer(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = pets.library.store.locks, "pets", 1, pets.library.store.database
    with serving_lock(*given):
        with pytest.raises(BusyError, match="shards of collection 'pets'"), serving_lock(*given):
            pass
        pets.add_rows(["a dog"])
    with serving_lock(*given):
        pass
    monkeypatch.setattr(Path, "mkdir", _refusing(30, "Read-only file system"))
    with serving_lock(*given):  # nothing is written but the lock
        pass
    monkeypatch.setattr(Path, "mkdir", _refusing(28, "No space left on device"))
    with pytest.raises(DiskFullError, match="nothing was changed"), serving_lock(*given):
        pass


def _refusing(number: int, reason: str) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, reason)

    return refuse


def _held(pets: Collection) -> contextlib.AbstractContextManager[Database]:
    store = pets.library.store
    with store.database.reading() as connection:
        row = collections.find(connection, "pets")
    assert row is not None
    return writer_lock(store.locks, "pets", row.id, store.database, "test")
