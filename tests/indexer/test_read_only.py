"""Libraries that may only be read: on a read-only file system, without rights, on a full disk."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import NearsayError, StorageError
from nearsay.indexer import Library

# Searches the library in every way, then tries to write; what came of it as JSON.
_READER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from words_encoder import WordsEncoder
from nearsay.data.errors import NearsayError
from nearsay.indexer import Library

words = WordsEncoder()

def tried(work):
    try:
        return work()
    except NearsayError as error:
        return f"{type(error).__name__}: {error}"

def read():
    with Library.open(sys.argv[2], load_encoder=lambda _: words, create=False) as library:
        pets = library.collection("pets")
        searches = [len(pets.search("a bb", 9, mode=mode)) for mode in ("dense", "lexical", "hybrid")]
        return {
            "searches": searches,
            "filtered": len(pets.search("a", 9, where="year > 2")),
            "explained": len(pets.search("a", 9, explain=True)),
            "similar": len(pets.similar("d1", 9)),
            "facets": len(pets.facets("year").values),
            "documents": pets.overview().documents,
            "judged": tried(lambda: pets.judgements.add("a bb", pets.search("a", 1)[0], True)),
            "added": tried(lambda: pets.add_rows([{"id": "new", "text": "a"}]).added),
            "removed": tried(lambda: pets.remove(["d1"])),
            "after": len(pets.search("a", 9)),
        }

print(json.dumps(tried(read)))
"""
_READ = {"searches": [4, 4, 4], "filtered": 2, "explained": 4, "similar": 3, "facets": 4, "documents": 4}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A library that nobody has open, where others may look; pytest's own folders are closed to them."""
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        folder = Path(home) / "library"
        with opened(folder) as library:
            rows = [{"id": f"d{n}", "text": "a bb " * n, "year": n} for n in range(1, 5)]
            library.collection("pets").add_rows(rows)
        yield folder


def opened(folder: Path) -> Library:
    words = WordsEncoder()
    return Library.open(folder, load_encoder=lambda _: words)


def read(folder: Path, *before: str) -> dict[str, object] | str:
    """What a process says that reads the library, begun by another program's arguments."""
    command = [*before, sys.executable, "-c", _READER, str(Path(__file__).parents[1]), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] | str = json.loads(done.stdout)
    return found


def mounted(*lines: str) -> tuple[str, ...]:
    """A shell that mounts what the lines say where nobody else sees it, then runs the rest; or skipped."""
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("only root may mount")
    probe = ("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt")
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounts are not possible here")
    return ("unshare", "-m", "sh", "-ec", " && ".join((*lines, 'exec "$@"')), "sh")


def read_only(folder: Path) -> tuple[str, ...]:
    return mounted(f"mount --bind '{folder}' '{folder}'", f"mount -o remount,ro,bind '{folder}'")


def full(folder: Path) -> tuple[str, ...]:
    copy = f"{folder}-copy"
    return mounted(
        f"cp -r '{folder}' '{copy}'",
        f"mount -t tmpfs -o size=1500k tmpfs '{folder}'",
        f"cp -r '{copy}/.' '{folder}'",
        f"{{ dd if=/dev/zero of='{folder}/fill' bs=4096 2>/dev/null || true; }}",
    )


def as_nobody(folder: Path) -> tuple[str, ...]:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root may become somebody else")
    if not all(place.stat().st_mode & 0o001 for place in folder.parents):
        pytest.skip("the folder for temporary files is closed to others")
    return ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


@pytest.mark.long
@pytest.mark.parametrize("begun", [read_only, as_nobody, full])
def test_what_may_only_be_read_is_searched(folder: Path, begun: Callable[[Path], tuple[str, ...]]) -> None:
    said = read(folder, *begun(folder))
    assert isinstance(said, dict), said
    assert {name: said[name] for name in _READ} == _READ
    kind = "DiskFullError" if begun is full else "NearsayError"
    for work in ("added", "removed"):
        assert str(said[work]).startswith(f"{kind}: "), said[work]
        assert str(folder) in str(said[work])
    kind = "DiskFullError" if begun is full else "CatalogueError"  # and none of a file that cannot be opened
    assert str(said["judged"]) == Naming(kind, str(folder), *(["read-only"] if begun is read_only else []))
    assert said["after"] == 4


@pytest.mark.long
@pytest.mark.parametrize("begun", [read_only, as_nobody])
def test_what_a_writer_at_work_committed_is_seen_where_nothing_may_be_written(
    folder: Path, begun: Callable[[Path], tuple[str, ...]]
) -> None:
    arguments = begun(folder)
    with opened(folder) as library:
        library.collection("pets").add_rows([{"id": "d5", "text": "a bb", "year": 5}])
        assert (folder / "catalogue.sqlite-wal").stat().st_size
        said = read(folder, *arguments)
    assert isinstance(said, dict), said
    assert (said["documents"], said["after"]) == (5, 5)


@pytest.mark.long
def test_changes_that_a_killed_writer_left_in_the_log_are_not_passed_over(folder: Path) -> None:
    with opened(folder) as library:
        library.collection("pets").add_rows([{"id": "d5", "text": "a bb", "year": 5}])
        left = shutil.copytree(folder, folder.with_name("left"))
    (left / "catalogue.sqlite-shm").unlink()
    said = read(left, *read_only(left))
    assert str(said).startswith("StorageError: ")
    assert "catalogue.sqlite-wal" in str(said)


@pytest.mark.long
@pytest.mark.parametrize("hidden", ["library.json", "catalogue.sqlite", "segments", "segments/1", "."])
def test_what_may_not_be_read_is_a_fault_and_names_the_file(folder: Path, hidden: str) -> None:
    arguments = as_nobody(folder)
    (folder / hidden).chmod(0)
    said = str(read(folder, *arguments))
    assert said.startswith("StorageError: "), said
    assert str(folder) in said
    (folder / hidden).chmod(0o755)
    said = read(folder, *arguments)
    assert isinstance(said, dict), said
    assert said["searches"] == [4, 4, 4]


def test_a_reader_that_found_no_writer_sees_what_one_writes_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.access

    def only_readable(path: str | Path, mode: int) -> bool:
        return real(path, mode) and not (mode == os.W_OK and Path(path).is_relative_to(folder))

    monkeypatch.setattr(os, "access", only_readable)
    with monkeypatch.context() as patch:
        refuse_write_ahead(patch)
        reader = opened(folder)
        pets = reader.collection("pets")
        assert len(pets.search("a", 9)) == 4
        with pytest.raises(NearsayError):
            pets.remove(["d1"])
    with opened(folder) as writer:
        writer.collection("pets").add_rows([{"id": "d5", "text": "a bb", "year": 5}])
        assert len(pets.search("a", 9)) == 5
    assert len(pets.search("a", 9)) == 5
    reader.close()


def refuse_write_ahead(patch: pytest.MonkeyPatch) -> None:
    """Have SQLite say what it says where the file that readers share cannot be made."""
    import sqlite3

    from nearsay.indexer.catalogue import database

    def refused(_: sqlite3.Cursor) -> None:
        error = sqlite3.OperationalError("unable to open database file")
        error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
        error.sqlite_errorname = "SQLITE_CANTOPEN"
        raise error

    patch.setattr(database, "_begin_write_ahead", refused)


def test_a_catalogue_that_cannot_be_opened_is_no_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_write_ahead(monkeypatch)  # as with too many open files: the rights to write are there
    with pytest.raises(StorageError) as raised:
        opened(folder)
    assert str(folder / "catalogue.sqlite") in str(raised.value)
    assert "backup" not in str(raised.value)
