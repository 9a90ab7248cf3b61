"""One writer at a time for each collection; the lock goes with its process, however that ends.

A lock can be lost while its holder is at work: a server or a pooler drops the connection that holds it, a
lock file is removed. So whoever takes the lock also takes a number from the catalogue, higher than any
before it, and each of its writing transactions first makes sure that it is still the highest (a fencing
token, https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html): of two writers who both
believe that they hold the lock, the newer one writes.
"""

import contextlib
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
from nearsay.data.errors import DiskFullError, NearsayError, first_line
from nearsay.indexer.catalogue import collections
from nearsay.indexer.catalogue.collections import WriterRow
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.vectors.errors import BusyError, LostLockError

__all__ = ["writer_lock"]

logger = logging.getLogger("nearsay")

_POLL = 0.02  # seconds between two tries
_TURNS: dict[str, "_Turns"] = {}  # by lock file, of the threads of this process


@contextlib.contextmanager
def writer_lock(
    folder: Path, collection: str, collection_id: int, database: Database, what: str, wait: float = 0.0
) -> Iterator[Database]:
    """Hold the right to write to a collection; the database as its holder may write it.

    A lock file covers the processes of this machine; with PostgreSQL an advisory lock covers every machine.
    `what`: the work, for the message that others get; `wait`: seconds. BusyError, naming the holder, if
    someone else holds the lock for longer; each writing transaction of the database that comes out raises
    LostLockError, and changes nothing, once another writer took it.
    """
    file, until = folder / f"{collection_id}.lock", time.monotonic() + wait
    with contextlib.ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(_TURNS.setdefault(str(file.resolve()), _Turns()).turn(wait))
            held.enter_context(
                FileLock(file, timeout=max(0.0, until - time.monotonic()), poll_interval=_POLL)
            )
            held.enter_context(_advisory_lock(database, folder, collection, collection_id, until))
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
            newest = collections.fence(connection, collection_id)
            if newest != token:
                raise _lost(connection, collection, collection_id, what)

        yield Database(database.engine, check)


class _Turns:
    """Whose turn it is among this process's threads: in the order in which they came.

    The lock file would be asked for again and again, and who asks at the right moment would have it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[object] = []  # the first has its turn

    @contextlib.contextmanager
    def turn(self, wait: float) -> Iterator[None]:
        """The thread's turn; Timeout if it does not come within so many seconds."""
        mine = object()
        with self._changed:
            self._queue.append(mine)
            came = False
            try:
                came = self._changed.wait_for(lambda: self._queue[0] is mine, max(0.0, wait))
                if not came:
                    raise Timeout("another thread's turn")
            finally:
                if not came:
                    self._queue.remove(mine)
        try:
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
    database: Database, folder: Path, collection: str, collection_id: int, until: float
) -> Iterator[None]:
    if database.dialect != "postgresql":
        yield
        return
    keys = {"space": crc32(b"nearsay") - 2**31, "key": collection_id}
    with database.engine.connect() as connection:
        take = sa.text("SELECT pg_try_advisory_lock(:space, :key)")
        while not connection.execute(take, keys).scalar_one():
            connection.commit()
            if time.monotonic() >= until:
                raise Timeout(str(folder))
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
