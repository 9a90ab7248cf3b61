"""A disk without room: one clear sentence, nothing half-written, and the next run goes on."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data import durable
from nearsay.data.durable import TEMPORARY_PREFIX, replacing
from nearsay.data.errors import DiskFullError, StorageError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import database
from nearsay.indexer.doctor import examine
from nearsay.indexer.vectors.errors import BusyError, CatalogueError

_ROWS = [{"id": f"d{number}", "text": f"{'a ' * (number % 7)}cat {'b' * number}"} for number in range(40)]

# No file may grow beyond the limit: what a full disk or a quota does, without needing one.
_LIMITED = """
import json, resource, sys
sys.path.insert(0, sys.argv[1])
from words_encoder import WordsEncoder
from nearsay.indexer import Library
from nearsay.data.errors import DiskFullError, StorageError

words = WordsEncoder(dimension=int(sys.argv[3]))
with Library.open(sys.argv[2], load_encoder=lambda _: words) as library:
    pets = library.collection("pets")
    pets.search("a cat")
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), resource.RLIM_INFINITY))
    try:
        pets.add_rows(json.loads(sys.stdin.read()))
    except (DiskFullError, StorageError) as error:
        print(error)
    print(sorted(hit.id for hit in pets.search("a cat", k=3)))
"""

Fail = Callable[[pytest.MonkeyPatch, OSError], None]


@pytest.fixture
def pets(library: Library) -> Collection:
    """Three documents."""
    collection = library.collection("pets")
    collection.add_rows(_ROWS[:3])
    return collection


def _fail_to_open(patch: pytest.MonkeyPatch, error: OSError) -> None:
    _patch_open(patch, lambda *_: _raise(error))


def _fail_to_write(patch: pytest.MonkeyPatch, error: OSError) -> None:
    def half(stream: Any, part: Any) -> None:
        stream.write(bytes(part)[: len(part) // 2])
        stream.flush()
        raise error

    _patch_open(patch, lambda stream: _Writing(stream, half))


def _fail_to_flush(patch: pytest.MonkeyPatch, error: OSError) -> None:
    _patch_open(patch, lambda stream: _Writing(stream, lambda stream, part: stream.write(part), error))


def _fail_to_synchronise(patch: pytest.MonkeyPatch, error: OSError) -> None:
    patch.setattr(durable.os, "fsync", lambda _: _raise(error))


def _fail_to_rename(patch: pytest.MonkeyPatch, error: OSError) -> None:
    patch.setattr(Path, "replace", lambda *_: _raise(error))


steps = pytest.mark.parametrize(
    "fail", [_fail_to_open, _fail_to_write, _fail_to_flush, _fail_to_synchronise, _fail_to_rename]
)


@pytest.mark.long
@steps
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_told_in_one_sentence_and_the_next_run_finishes(
    pets: Collection, words: WordsEncoder, fail: Fail, number: int
) -> None:
    before = _files(pets)
    answer = _answer(pets)
    with pytest.MonkeyPatch.context() as patch:
        fail(patch, OSError(number, os.strerror(number)))
        with pytest.raises(DiskFullError) as raised:
            pets.add_rows(_ROWS)
    message = str(raised.value)
    assert message.startswith(f"no room left to write {pets.library.store.segments(1)}")
    assert os.strerror(number) in message
    assert message.endswith("run the same command again")
    assert "\n" not in message
    assert _files(pets) == before
    assert _answer(pets) == answer
    assert pets.overview().waiting == 37

    words.encoded.clear()
    report = pets.add_rows(_ROWS)
    assert (report.unchanged, report.resumed, report.embedded) == (40, 37, 37)
    assert len(pets.search("a cat", k=100)) == 40
    assert [finding for finding in examine(pets.library, prove=True) if not finding.sound] == []


@steps
def test_a_full_disk_does_not_hurt_a_compaction(pets: Collection, fail: Fail) -> None:
    pets.add_rows(_ROWS)
    pets.remove(["d1"])
    before, files = _answer(pets), _files(pets)
    with pytest.MonkeyPatch.context() as patch:
        fail(patch, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(DiskFullError):
            pets.compact()
    assert _files(pets) == files
    assert _answer(pets) == before
    assert pets.compact().vectors_dropped == 1
    assert _answer(pets) == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("place", [(Path, "mkdir"), (durable, "synchronise"), (np, "memmap")])
def test_an_index_that_finds_no_room_leaves_the_collection_as_it_was(
    indexed: Collection, place: tuple[Any, str], number: int
) -> None:
    before = [hit.id for hit in indexed.search("1", 10)]
    real = getattr(*place)

    def fails(*arguments: Any, **options: Any) -> Any:
        if any("building" in str(argument) for argument in (*arguments, *options.values())):
            raise OSError(number, os.strerror(number))
        return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*place, fails)
        with pytest.raises(DiskFullError if number == errno.ENOSPC else StorageError):
            indexed.tune()
    assert [hit.id for hit in indexed.search("1", 10)] == before
    indexed.tune()
    assert [hit.id for hit in indexed.search("1", 10)] == before


@steps
def test_a_full_disk_leaves_the_file_that_was_there(tmp_path: Path, fail: Fail) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.MonkeyPatch.context() as patch:
        fail(patch, OSError(errno.ENOSPC, "No space left on device"))
        with pytest.raises(DiskFullError), replacing(path) as stream:
            stream.write(b"afterwards")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_inside_the_block_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with pytest.raises(ZeroDivisionError), replacing(path) as stream:
        stream.writelines(_broken_lines())
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_complete_and_synchronised_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    seen: list[tuple[bytes, bool]] = []

    def fsync(descriptor: int) -> None:
        written = [part.read_bytes() for part in tmp_path.glob(f"{TEMPORARY_PREFIX}*")]
        seen.append((b"".join(written), path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    with replacing(path) as stream:
        stream.write(b"afterwards")
    assert seen == [(b"afterwards", False), (b"", True)]  # the file, then the folder


@pytest.mark.long
def test_a_real_limit_on_segment_files_is_survived(tmp_path: Path) -> None:
    wide = 65_536  # a vector of 256 kB: the segment of 40 is larger than the limit, the catalogue is not
    said = _add_limited(tmp_path, wide, limit=4_000_000)
    assert said[0].startswith("no room left to write ")
    assert "File too large" in said[0]
    assert said[1:] == ["['d0', 'd1', 'd2']"]
    _assert_next_run_finishes(tmp_path, wide)


@pytest.mark.long
def test_a_real_limit_on_the_catalogue_is_survived(tmp_path: Path) -> None:
    said = _add_limited(tmp_path, 8, limit=10_000)
    assert said[0] == Naming("catalogue.sqlite", "disk I/O error")  # all that SQLite says
    assert "limit on" in said[0]
    assert said[1:] == ["['d0', 'd1', 'd2']"]
    _assert_next_run_finishes(tmp_path, 8)


def test_a_catalogue_that_may_not_grow_is_a_full_disk(pets: Collection) -> None:
    store = pets.library.store
    answer = _answer(pets)
    with store.database.engine.connect() as connection:
        pages = connection.execute(sa.text("PRAGMA page_count")).scalar_one()

    @sa.event.listens_for(store.database.engine, "begin")
    def limit(connection: sa.Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 1}")

    with pytest.raises(DiskFullError, match=r"catalogue\.sqlite .*\(database or disk is full\).*TMPDIR"):
        pets.add_rows({"id": f"n{number}", "text": "a long cat " * 500} for number in range(100))
    assert _answer(pets) == answer


@pytest.mark.parametrize(
    ("reason", "error", "says"),
    [
        ("database or disk is full", DiskFullError, "run the same command again"),
        ("disk I/O error", StorageError, "Check the disk"),
        ('could not read blocks 0..1 in file "base/1": Input/output error', StorageError, "Check the disk"),
        ("unable to open database file", StorageError, "try again"),
        ("attempt to write a readonly database", CatalogueError, "may only be read"),
        ("could not extend file: No space left on device\nHINT: Check", DiskFullError, "Free some space"),
        ("database is locked", BusyError, "Wait a little and try again"),
        ("database disk image is malformed", CatalogueError, "Restore it from a backup"),
        ("file is not a database", CatalogueError, "Restore it from a backup"),
        ("something else", CatalogueError, "the rights and the free space"),
    ],
)
def test_errors_of_the_database_come_out_as_ours(reason: str, error: type[Exception], says: str) -> None:
    raised = sa.exc.OperationalError("INSERT", {}, Exception(reason))
    translated = database._translate(raised, "sqlite:////home/me/catalogue.sqlite")
    assert type(translated) is error
    assert (error is DiskFullError) == ("Free some space" in str(translated))
    assert ("malformed" in reason or "not a database" in reason) == ("backup" in str(translated))
    assert "/home/me/catalogue.sqlite" in str(translated)
    assert reason.splitlines()[0] in str(translated)
    assert says in str(translated)
    assert "\n" not in str(translated)


def _add_limited(folder: Path, dimension: int, limit: int) -> list[str]:
    with Library.open(
        folder / "library", load_encoder=lambda _: WordsEncoder(dimension=dimension)
    ) as library:
        library.collection("pets").add_rows(_ROWS[:3])
    done = subprocess.run(
        [
            *(sys.executable, "-c", _LIMITED, str(Path(__file__).parents[1])),
            *(str(folder / "library"), str(dimension), str(limit)),
        ],
        input=json.dumps(_ROWS),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def _assert_next_run_finishes(folder: Path, dimension: int) -> None:
    words = WordsEncoder(dimension=dimension)
    with Library.open(folder / "library", load_encoder=lambda _: words) as library:
        pets = library.collection("pets")
        assert _files(pets) == {row.sha256 for row in pets.overview().segments}
        pets.add_rows(_ROWS)
        assert len(words.encoded) == 37
        assert len(pets.search("a cat", k=100)) == 40
        assert [finding for finding in examine(library, prove=True) if not finding.sound] == []


class _Writing:
    """A stream that writes by a function of ours, and may fail to flush."""

    def __init__(
        self, stream: Any, write: Callable[[Any, Any], Any], at_flush: OSError | None = None
    ) -> None:
        self._stream = stream
        self._write = write
        self._at_flush = at_flush

    def __enter__(self) -> "_Writing":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def write(self, part: Any) -> None:
        self._write(self._stream, part)

    def flush(self) -> None:
        if self._at_flush is not None:
            raise self._at_flush
        self._stream.flush()

    def fileno(self) -> int:
        return int(self._stream.fileno())


def _patch_open(patch: pytest.MonkeyPatch, wrapped: Callable[[Any], Any]) -> None:
    """Have temporary files, and no others, opened as `wrapped` makes of them."""
    opened = Path.open

    def open_it(self: Path, *arguments: Any, **options: Any) -> Any:
        stream = opened(self, *arguments, **options)
        if not self.name.startswith(TEMPORARY_PREFIX):
            return stream
        try:
            return wrapped(stream)
        except OSError:
            stream.close()
            raise

    patch.setattr(Path, "open", open_it)


def _broken_lines() -> Iterator[bytes]:
    yield b"afterwards"
    raise ZeroDivisionError


def _raise(error: OSError) -> None:
    raise error


def _files(pets: Collection) -> set[str]:
    return {path.stem for path in (pets.library.store.folder / "segments").rglob("*") if path.is_file()}


def _answer(pets: Collection) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in pets.search("the cat", k=100)]
