"""The writer lock of a collection, and the lock for starting shards; both end with their process.

A lock can be lost while its holder is working: a server or a pooler drops the connection, or a lock file is
deleted. So whoever takes the lock also gets a fencing token, a number higher than any before, and each of its
writing transactions first checks that it is still the highest
(https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html): of two writers that believe they
hold the lock, only the newer one can write.
"""

import contextlib
import errno
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import sqlalchemy as sa
from filelock import FileLock, Timeout
from sqlalchemy.exc import DBAPIError

from nearsay.data.durable import FULL
from nearsay.data.errors import DiskFullError, NearsayError, StorageError, first_line
from nearsay.indexer.catalogue import collections
from nearsay.indexer.catalogue.collections import WriterRow
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.vectors.errors import BusyError, LostLockError

logger = logging.getLogger("nearsay")

_POLL = 0.02  # seconds between two tries
_READING = (errno.EROFS, errno.EACCES, errno.EPERM)  # what the system says to who may only read
_TURNS: dict[tuple[int, str], "_Turns"] = {}  # of the threads of a process, by its id and the lock file


@contextlib.contextmanager
def writer_lock(
    folder: Path, collection: str, collection_id: int, database: Database, what: str, wait: float = 0.0
) -> Iterator[Database]:
    """Hold a collection's writer lock. Yields the database to write with.

    A lock file covers the processes of this machine; with PostgreSQL, an advisory lock covers all machines.
    `what`: the work, for messages to others; `wait`: seconds before BusyError, which names the holder.
    Writing transactions of the returned database change nothing and raise LostLockError once another writer
    has taken the lock, or StorageError once the library has been moved.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(
                _alone(folder / f"{collection_id}.lock", "nearsay", collection, collection_id, database, wait)
            )
        except Timeout:
            with database.reading() as connection:
                holder = _described(collections.last_writer(connection, collection_id))
            raise BusyError(
                f"collection '{collection}' is being written by {holder}. Wait for it, then try again"
            ) from None
        except OSError as error:
            raise _refusal(folder, error) from error
        me = WriterRow(socket.gethostname(), os.getpid(), what, time.time())
        with database.writing() as connection:
            token = collections.take_fence(connection, collection_id, me)
        if token is None:
            raise BusyError(
                f"collection '{collection}' was removed by another process. Run the command again"
            )

        def check(connection: sa.Connection) -> None:
            require_there(folder.parent)
            newest = collections.fence(connection, collection_id)
            if newest != token:
                raise _lost(connection, collection, collection_id, what)

        yield Database(database.engine, check)


def require_there(library: Path) -> None:
    """Raise StorageError if a library was moved from its folder, or its disk was unmounted.

    Whatever is written to the old path from then on would not be where the catalogue says.
    """
    try:
        (library / "library.json").stat()
    except OSError as error:
        raise StorageError(
            f"the library in {library} cannot be reached any more ({error.strerror}), so no more is written. "
            "If it was moved, do the same again where it is now: what was written before is kept"
        ) from error


@contextlib.contextmanager
def serving_lock(
    folder: Path, collection: str, collection_id: int, database: Database, wait: float = 0.0
) -> Iterator[None]:
    """Hold the lock for starting and stopping a collection's shards; others may write meanwhile.

    `wait`: seconds before BusyError. Without write access to the folder, shards are started without the lock.
    """
    file = folder / f"{collection_id}-shards.lock"
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(_alone(file, "nearsay shards", collection, collection_id, database, wait))
        except Timeout:
            raise BusyError(
                f"another process starts or ends the shards of collection '{collection}'. Wait for it, then "
                "try again"
            ) from None
        except OSError as error:
            if error.errno not in _READING:
                raise _refusal(folder, error) from error
        yield


@contextlib.contextmanager
def _alone(
    file: Path, space: str, collection: str, collection_id: int, database: Database, wait: float
) -> Iterator[None]:
    """Hold a lock file, and its counterpart in PostgreSQL; Timeout or OSError if it cannot be taken."""
    until = time.monotonic() + wait
    file.parent.mkdir(parents=True, exist_ok=True)
    with (
        _TURNS.setdefault((os.getpid(), str(file.resolve())), _Turns()).turn(wait),
        FileLock(file, timeout=max(0.0, until - time.monotonic()), poll_interval=_POLL),
        _advisory_lock(
            database, file, collection, {"space": crc32(space.encode()) - 2**31, "key": collection_id}, until
        ),
    ):
        yield


class _Turns:
    """First-come, first-served order of this process's threads.

    With the lock file alone, whoever polls at the right moment would get it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[object] = []  # the first has its turn

    @contextlib.contextmanager
    def turn(self, wait: float) -> Iterator[None]:
        """Hold the thread's turn; Timeout if it does not come within this many seconds."""
        mine = object()
        self._queue.append(mine)
        try:
            with self._changed:
                if not self._changed.wait_for(lambda: self._queue[0] is mine, max(0.0, wait)):
                    raise Timeout("another thread's turn")
            yield
        finally:
            with self._changed:
                self._queue.remove(mine)
                self._changed.notify_all()


def _lost(connection: sa.Connection, collection: str, collection_id: int, what: str) -> LostLockError:
    newer = collections.last_writer(connection, collection_id)
    by = "another process, which removed it" if newer is None else _described(newer)
    return LostLockError(
        f"the lock of collection '{collection}' was lost during '{what}' and taken by {by}: nothing "
        "was written after that. Run the same command again"
    )


def _refusal(folder: Path, error: OSError) -> NearsayError:
    if error.errno in FULL:
        return DiskFullError(
            f"no room left to lock a collection in {folder} ({error.strerror}); nothing was changed. "
            "Free some space and run the same command again"
        )
    return NearsayError(
        f"{folder} may not be written ({error.strerror}), so nothing was changed. Check the folder's rights"
    )


@contextlib.contextmanager
def _advisory_lock(
    database: Database, file: Path, collection: str, keys: dict[str, int], until: float
) -> Iterator[None]:
    if database.dialect != "postgresql":
        yield
        return
    with contextlib.ExitStack() as held:
        with database.translated():
            connection = held.enter_context(database.engine.connect())
            take = sa.text("SELECT pg_try_advisory_lock(:space, :key)")
            while not connection.execute(take, keys).scalar_one():
                connection.commit()
                if time.monotonic() >= until:
                    raise Timeout(str(file))
                time.sleep(_POLL)
            connection.commit()
        try:
            yield
        finally:
            reason = "its session no longer had it"
            try:
                release = sa.text("SELECT pg_advisory_unlock(:space, :key)")
                kept = connection.execute(release, keys).scalar_one()
                connection.commit()
            except DBAPIError as error:  # the connection broke, and took its lock along
                kept, reason = False, first_line(error.orig or error)
            if not kept:
                logger.warning(
                    "the lock of collection '%s' in PostgreSQL was lost on the way (%s). What was written is "
                    "sound; but connect to the server itself, or through a pooler that keeps sessions",
                    collection,
                    reason,
                )


def _described(writer: WriterRow | None) -> str:
    if writer is None:
        return "another process"
    seconds = max(0, round(time.time() - writer.since))
    host = "" if writer.host == socket.gethostname() else f" on {writer.host}"
    return f"process {writer.process}{host} ({writer.work}, for {seconds} s)"
