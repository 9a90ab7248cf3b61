"""One writer at a time for each collection; the lock goes with its process, however that ends."""

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import sqlalchemy as sa
from filelock import FileLock, Timeout
from sqlalchemy.exc import DBAPIError

from nearsay.data.durable import FULL
from nearsay.data.errors import DiskFullError, NearsayError
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.errors import BusyError

__all__ = ["writer_lock"]


@contextlib.contextmanager
def writer_lock(
    folder: Path, collection: str, collection_id: int, database: Database, what: str
) -> Iterator[None]:
    """Hold the right to write to a collection; BusyError at once, naming the holder, if someone else does.

    A lock file covers the processes of this machine; with PostgreSQL an advisory lock covers every machine.
    `what`: the work, for the message that others get.
    """
    holder = folder / f"{collection_id}.holder"
    with contextlib.ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(folder / f"{collection_id}.lock", timeout=0.0))
            held.enter_context(_advisory_lock(database, folder, collection_id))
        except Timeout:
            raise BusyError(
                f"collection '{collection}' is being written{_describe(holder)}. Wait for it, then try again"
            ) from None
        except OSError as error:
            raise _refusal(folder, error) from error
        held.enter_context(_told(holder, what))
        yield


@contextlib.contextmanager
def _told(holder: Path, what: str) -> Iterator[None]:
    """Tell others who holds the lock, as far as the disk allows."""
    with contextlib.suppress(OSError):
        holder.write_text(json.dumps({"process": os.getpid(), "work": what, "since": time.time()}))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            holder.unlink()


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
def _advisory_lock(database: Database, folder: Path, collection_id: int) -> Iterator[None]:
    if database.dialect != "postgresql":
        yield
        return
    statement = sa.text("SELECT pg_try_advisory_lock(:space, :key)")
    with database.engine.connect() as connection:
        keys = {"space": crc32(b"nearsay") - 2**31, "key": collection_id}
        taken = connection.execute(statement, keys).scalar_one()
        connection.commit()
        if not taken:
            raise Timeout(str(folder))
        try:
            yield
        finally:
            with contextlib.suppress(DBAPIError):  # a connection that broke took its lock along
                connection.execute(sa.text("SELECT pg_advisory_unlock(:space, :key)"), keys)
                connection.commit()


def _describe(holder: Path) -> str:
    try:
        told = json.loads(holder.read_text())
        seconds = max(0, round(time.time() - told["since"]))
        return f" by process {told['process']} ({told['work']}, for {seconds} s)"
    except (OSError, ValueError, KeyError):
        return " by another process"
