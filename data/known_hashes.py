"""A cache of file hashes, so that a large file is hashed once per machine."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from nearsay.data.durable import file_sha256

_SETTLED = 2.0  # seconds after which a file that is written again has another time of change for sure
_KEPT = 200_000  # files
_TABLE = (
    "CREATE TABLE IF NOT EXISTS files (path TEXT PRIMARY KEY, identity TEXT NOT NULL, sha256 TEXT NOT NULL)"
)


def known_sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal, cached; OSError if it cannot be read.

    A file is hashed once per machine, and again after it changed: hashes are saved in the user's cache folder
    ($XDG_CACHE_HOME/nearsay, ~/.cache/nearsay) with the file's device, inode, size and times. If the cache
    cannot be written, only time is lost.
    """
    name, state = str(path.resolve()), path.stat()
    identity = _identity(state)
    with contextlib.suppress(OSError, sqlite3.Error), _memory() as memory:
        row = memory.execute("SELECT identity, sha256 FROM files WHERE path = ?", (name,)).fetchone()
        if row is not None and row[0] == identity:
            return str(row[1])
    digest = file_sha256(path)
    if time.time() - max(state.st_mtime, state.st_ctime) > _SETTLED:
        _remember(name, identity, digest)
    return digest


def remember_sha256(path: Path, sha256: str) -> None:
    """Cache the hash of an immutable file that was just written and read back."""
    with contextlib.suppress(OSError):
        _remember(str(path.resolve()), _identity(path.stat()), sha256)


def _identity(state: os.stat_result) -> str:
    return f"{state.st_dev} {state.st_ino} {state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}"


def _remember(name: str, identity: str, sha256: str) -> None:
    with contextlib.suppress(OSError, sqlite3.Error), _memory() as memory:
        memory.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (name, identity, sha256))
        memory.execute("DELETE FROM files WHERE rowid <= (SELECT max(rowid) FROM files) - ?", (_KEPT,))


def _cache_file() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nearsay" / "hashes.sqlite"


@contextlib.contextmanager
def _memory() -> Iterator[sqlite3.Connection]:
    """The table of hashes in a transaction; a damaged one is created again."""
    file = _cache_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(file, timeout=1.0)
    try:
        with connection:
            connection.execute("PRAGMA synchronous = OFF")  # what a power cut takes is hashed again
            connection.execute(_TABLE)
            yield connection
    except sqlite3.DatabaseError as error:
        if not isinstance(error, sqlite3.OperationalError):
            connection.close()
            file.unlink(missing_ok=True)
        raise
    finally:
        connection.close()
