"""One writer at a time, any number of readers, and no lock that outlives its holder."""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from words_encoder import WordsEncoder

from nearsay.data.errors import DiskFullError, NearsayError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import collections
from nearsay.indexer.errors import BusyError
from nearsay.indexer.writer_lock import writer_lock

_HOLDER = """
import pathlib, sys
from nearsay.indexer import Library
from nearsay.indexer.writer_lock import writer_lock

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
        match=rf"'pets' is being written by process {holder.pid} \(rebuild, for \d+ s\)\. Wait for it",
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
    assert (pets.library.store.locks / "1.holder").exists()  # what it left says nothing about who holds it
    assert pets.add_rows(["a dog"]).added == 1
    assert not (pets.library.store.locks / "1.holder").exists()


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
    monkeypatch.setattr("nearsay.indexer.ingest._ROWS", 1)
    monkeypatch.setattr("nearsay.indexer.ingest._WINDOW", 1)
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
                all_tried.wait(30)
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


def test_a_note_of_the_holder_that_cannot_be_read_is_no_trouble(pets: Collection) -> None:
    with _held(pets):
        (pets.library.store.locks / "1.holder").write_text("{")
        with pytest.raises(BusyError, match="is being written by another process"):
            pets.add_rows(["a dog"])


def test_a_disk_without_room_for_the_note_of_the_holder_locks_all_the_same(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "write_text", _refusing(28, "No space left on device"))
    with _held(pets), pytest.raises(BusyError, match="is being written by another process"), _held(pets):
        pass


@pytest.mark.parametrize(
    ("number", "reason", "error", "remedy"),
    [
        (28, "No space left on device", DiskFullError, "Free some space and run the same command again"),
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


def _refusing(number: int, reason: str) -> Callable[..., None]:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, reason)

    return refuse


def _held(pets: Collection) -> contextlib.AbstractContextManager[None]:
    store = pets.library.store
    with store.database.reading() as connection:
        row = collections.find(connection, "pets")
    assert row is not None
    return writer_lock(store.locks, "pets", row.id, store.database, "test")
