"""The catalogue database: engine, transactions, schema.

SQLite runs in write-ahead mode with full synchronisation at commit, and takes its write lock when a writing
transaction begins (BEGIN IMMEDIATE), so that no transaction fails half-way because of a lock. Database errors
become `NearsayError`s with a remedy.

Even a reader of such a database writes a file, the shared memory (-shm). If that cannot be created (a
read-only file system, no write permission, a full disk), the database is opened as `immutable=1`, provided
that no writer left anything in the write-ahead log. https://www.sqlite.org/wal.html#read_only_databases
"""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    NoSuchModuleError,
    PendingRollbackError,
)
from sqlalchemy.pool import ConnectionPoolEntry

from nearsay.data.errors import BadInputError, DiskFullError, MissingExtraError, NearsayError, StorageError
from nearsay.data.quantity import size_words
from nearsay.indexer.catalogue.json_values import json_text
from nearsay.indexer.catalogue.tables import SCHEMA, metadata
from nearsay.indexer.vectors.errors import BusyError, CatalogueError

BUSY_SECONDS = 60.0
WRITE_AHEAD_RETRY_SECONDS = 0.01
_WRITING = "nearsay_writing"  # seconds that another writer is waited for
_LOOKING_SECONDS = 10.0  # the most that is looked for damage before an error that may be its doing is raised
# What code raises that is given a value which no column holds.
_FROM_WRONG_VALUES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_TOO_LARGE = "too large to convert to SQLite INTEGER"  # of a number of 2^63 or more
_REMEDY = (
    "Restore it from a backup, or begin a new library and add the documents again; what is damaged, "
    "nearsay doctor --prove says"
)
_CHECK = "Check the address, the rights and the free space"
_UNCHANGING = "nearsay_unchanging"  # a file read as such: its path, its identity, and why
_NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)  # for what readers share
_WORTH_A_VACUUM = 16 << 20  # bytes
_VACUUMED_UNASKED = 1 << 30  # bytes; 43 MB a second on a busy machine, and writers wait BUSY_SECONDS
_LOCKED = ("locked", "could not serialize", "deadlock", "lock timeout")
_CROWDED = ("too many clients", "too many connections", "connection slots")  # as PostgreSQL says it
_AWAY = ("database system is", "terminating connection", "server closed", "connection is lost")
_ABORTED, _FULL = "25P02", "53100"  # PostgreSQL's codes: what failed before ended the transaction; no room
_LITTLE = 1 << 20  # bytes: with less the disk is full


_ENGINES: "weakref.WeakSet[sa.Engine]" = weakref.WeakSet()
_OF_THE_PARENT: list[sa.Pool] = []  # of a process that was forked: never closed, which the parent would feel


def _connect_anew() -> None:
    """Reconnect in a forked process: two processes on one connection get each other's answers."""
    for engine in _ENGINES:
        _OF_THE_PARENT.append(engine.pool)
        engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_connect_anew)


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The result of reclaiming the space of deleted rows."""

    bytes_freed: int
    note: str | None = None  # why it could not be reclaimed


class Database:
    """The catalogue database. Thread-safe."""

    def __init__(
        self, at: str | sa.URL | sa.Engine, check: Callable[[sa.Connection], None] | None = None
    ) -> None:
        """`at`: a SQLAlchemy URL of SQLite or PostgreSQL, not connected yet, or its engine.

        check: called at the beginning of each writing transaction; refuses it by raising
        """
        self.engine = at if isinstance(at, sa.Engine) else _engine(at)
        self._check = check
        if self.engine is not at:  # what nobody closes is closed when nobody has it any longer
            weakref.finalize(self, self.engine.dispose).atexit = False
            _ENGINES.add(self.engine)

    def __reduce__(self) -> NoReturn:
        """Raise TypeError with a clear message, if somebody pickles an object that contains a library."""
        raise TypeError(
            "an open library or collection cannot be sent to another process. "
            "Open it there: Library.open(folder)"
        )

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the catalogue throughout."""
        with self.translated(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def writing(self, patience: float | None = None) -> Iterator[sa.Connection]:
        """A transaction that commits when the block ends and rolls back if it raises.

        patience: seconds to wait for another writer of an SQLite database before BusyError; None = the usual
                  time

        SQLAlchemy's IntegrityError is passed on, because the caller knows what existed before; for a writer
        whose transactions are checked it becomes CatalogueError, since nobody else can conflict with it.
        """
        with self.translated(), self.engine.connect() as connection:
            # Writers of one row wait for each other; a writing transaction needs no fixed view.
            seconds = BUSY_SECONDS if patience is None else patience
            level = {"isolation_level": "READ COMMITTED"} if self.dialect == "postgresql" else {}
            writer = connection.execution_options(**{_WRITING: seconds}, **level)
            with writer.begin():
                if self._check is not None:
                    self._check(writer)
                yield writer

    def migrate(self, *, create: bool) -> None:
        """Migrate the schema to this version; CatalogueError if the database is from a newer one."""
        with self.reading() as connection:
            if sa.inspect(connection).has_table("alembic_version"):
                present = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
                if present.scalars().all() == [SCHEMA]:
                    return
        # Alembic takes a tenth of a second to import: only where there is something to migrate.
        from nearsay.indexer.catalogue.migrations import upgrade

        upgrade(self, metadata, create=create)

    def vacuum(self) -> Vacuumed:
        """Shrink an SQLite file if deleted rows take a quarter of it or more.

        Readers continue. Writers wait while the remaining data is written twice, so a file with more than 1
        GB of it is only vacuumed on request. It needs as much free space. A failure is not an error; the file
        is unchanged.
        """
        if self.dialect != "sqlite":
            return Vacuumed(0)
        path = Path(str(self.engine.url.database))
        with self.translated(), contextlib.closing(self.engine.raw_connection()) as connection:
            cursor = connection.cursor()

            def pragma(name: str) -> int:
                return int(cursor.execute(f"PRAGMA {name}").fetchone()[0])

            page, pages, free = pragma("page_size"), pragma("page_count"), pragma("freelist_count")
            if free * page < _WORTH_A_VACUUM or 4 * free < pages:
                return Vacuumed(0)
            unused = f"{size_words(free * page)} of {path} are unused"
            by_hand = f"Give them back when nobody writes: sqlite3 {path} VACUUM"
            if (pages - free) * page > _VACUUMED_UNASKED:
                return Vacuumed(0, f"{unused}. {by_hand}")
            before = _size(path)
            try:
                cursor.execute("VACUUM")
            except sqlite3.Error as error:
                return Vacuumed(0, f"{unused}, and stay so for now ({error}). {by_hand}")
            with contextlib.suppress(sqlite3.Error):  # a reader may be at work: a later one does it
                cursor.execute("PRAGMA busy_timeout = 1000")
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
            return Vacuumed(max(before - _size(path), 0))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextlib.contextmanager
    def translated(self) -> Iterator[None]:
        """Turn database errors within the block into nearsay's, with a remedy."""
        try:
            yield
        except IntegrityError as error:
            if self._check is None:
                raise
            raise self._damaged(_said(error.orig)) from error
        except UnicodeEncodeError as error:
            around = error.object[max(error.start - 40, 0) : error.end + 40]
            raise BadInputError(
                f"{around!a} holds half a surrogate pair, which is no character. Remove it"
            ) from error
        except sqlite3.Error as error:  # of a cursor that was read without SQLAlchemy
            raise _translate(error, self.shown) from error
        except (DBAPIError, PendingRollbackError) as error:
            first = _first(error)
            if isinstance(first, DBAPIError):
                raise _translate(first, self.shown) from first
            if isinstance(first, KeyboardInterrupt):
                raise first from None
            raise
        except _FROM_WRONG_VALUES as error:
            if _TOO_LARGE in str(error):
                raise BadInputError("a number is out of range. Give one from -2^63 to 2^63 - 1") from error
            fault = self._fault()
            if fault is None:
                raise
            raise self._damaged(fault) from error

    @property
    def shown(self) -> str:
        """The URL without its password; a file name in it is not quoted, unlike in SQLAlchemy 2.1."""
        url = self.engine.url
        if self.dialect == "sqlite" and not url.query:
            return f"sqlite:///{url.database or ''}"
        return url.render_as_string(hide_password=True)

    def _damaged(self, reason: str) -> CatalogueError:
        return CatalogueError(f"the catalogue {_place(self.shown)} is damaged ({reason}). {_REMEDY}")

    def _fault(self) -> str | None:
        """What is wrong with the file, if it can be found within seconds."""
        from nearsay.indexer.catalogue.integrity import file_fault

        try:
            with self.engine.connect() as connection:
                return file_fault(connection, full=True, seconds=_LOOKING_SECONDS)
        except (DBAPIError, UnicodeDecodeError) as error:  # SQLite names what it cannot read by its bytes
            return _said(error)


def is_writing(connection: sa.Connection) -> bool:
    """Whether the transaction may write."""
    return _WRITING in connection.get_execution_options()


def _size(path: Path) -> int:
    """The size of an SQLite file and its write-ahead log in bytes."""
    found = 0
    for part in (path, path.with_name(f"{path.name}-wal")):
        with contextlib.suppress(OSError):
            found += part.stat().st_size
    return found


def _first(error: BaseException) -> BaseException:
    """The error of SQLAlchemy or the user's that caused the others, for example while cleaning up."""
    before = error.__context__
    while before is not None and not isinstance(error, KeyboardInterrupt):
        if isinstance(error, DBAPIError) and _sqlstate(error.orig) != _ABORTED:
            break
        error, before = before, before.__context__
    return error


def _sqlstate(error: BaseException | None) -> str:
    """PostgreSQL's error code. https://www.postgresql.org/docs/current/errcodes-appendix.html"""
    return getattr(error, "sqlstate", None) or ""


def _engine(url: str | sa.URL) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise BadInputError(
                f"the catalogue can be SQLite or PostgreSQL, not '{parsed.get_backend_name()}'. "
                "Give a URL such as postgresql://user@host/name, or none for SQLite"
            )
        options: dict[str, Any] = {"connect_args": {"timeout": BUSY_SECONDS}}
        if parsed.get_backend_name() == "postgresql":
            # A transaction sees one state from beginning to end, as in SQLite.
            options = {"pool_pre_ping": True, "isolation_level": "REPEATABLE READ"}
        # A thread may wait for a lock, or for a second connection, with one in its hands: with a limit, some
        # fifteen of them would stop all others.
        options |= {"poolclass": sa.QueuePool, "max_overflow": -1}
        engine = sa.create_engine(parsed, json_serializer=_json, json_deserializer=_from_json, **options)
    except (ArgumentError, NoSuchModuleError, ValueError):
        shown = re.sub(r":.*@", "://***@", str(url))  # it may hold a password: the cause names it, too
        raise BadInputError(
            f"'{shown}' is not a database URL. Give one such as postgresql://user@host/name"
        ) from None
    except ModuleNotFoundError as error:
        raise MissingExtraError("A PostgreSQL catalogue", "postgres") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "do_connect", _connect_sqlite)
        event.listen(engine, "connect", _on_sqlite_connect)
        event.listen(engine, "checkout", _on_sqlite_checkout)
        event.listen(engine, "checkin", _on_sqlite_checkin)
        event.listen(engine, "begin", _on_sqlite_begin)
        event.listen(engine, "handle_error", _on_sqlite_error)
    return engine


def _connect_sqlite(
    dialect: sa.Dialect,
    record: ConnectionPoolEntry,
    arguments: list[Any],
    options: dict[str, Any],
) -> Any:  # noqa: ANN401 - the driver's own type
    """Connect to the file, or read it as immutable if nothing can be written beside it."""
    connection: Any = dialect.connect(*arguments, **options)
    try:
        connection.isolation_level = None  # transactions begin in _on_sqlite_begin, not inside the driver
        _begin_write_ahead(connection.cursor())
    except sqlite3.OperationalError as error:
        connection.close()
        path = Path(arguments[0])
        if not _is_only_readable(path, error) or not _nothing_logged(path):
            raise
        still: Any = dialect.connect(f"{path.absolute().as_uri()}?immutable=1", **{**options, "uri": True})
        record.info[_UNCHANGING] = path, _identity(path), error
        return still
    except BaseException:
        connection.close()
        raise
    return connection


def _is_only_readable(path: Path, error: sqlite3.OperationalError) -> bool:
    if not path.is_file() or not os.access(path, os.R_OK):
        return False
    return error.sqlite_errorcode in _NO_ROOM or not _may_be_written(path)


def _may_be_written(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _nothing_logged(path: Path) -> bool:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size == 0
    except FileNotFoundError:
        return True


def _identity(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _on_sqlite_connect(connection: Any, _record: Any) -> None:  # noqa: ANN401 - the driver's own type
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA cache_size = -65536")
    cursor.close()


def _on_sqlite_checkout(_connection: Any, record: Any, _proxy: Any) -> None:  # noqa: ANN401
    """Reconnect if a file that was opened as immutable has changed, or may be writable by now."""
    if _UNCHANGING in record.info:
        path, identity, error = record.info[_UNCHANGING]
        if error.sqlite_errorcode in _NO_ROOM:  # new for this transaction
            return
        try:
            unchanged = _nothing_logged(path) and _identity(path) == identity and not _may_be_written(path)
        except OSError:
            unchanged = False
        if not unchanged:
            raise DisconnectionError(f"{path} was changed")


def _on_sqlite_checkin(_connection: Any, record: ConnectionPoolEntry) -> None:  # noqa: ANN401
    """Check the free space again at the next transaction."""
    if _UNCHANGING in record.info and record.info[_UNCHANGING][2].sqlite_errorcode in _NO_ROOM:
        record.invalidate()


def _on_sqlite_error(context: ExceptionContext) -> None:
    """Reconnect after a refused write, because the file may be writable by now.

    SQLite opens read-only what it cannot open for writing at that moment, for example with too many open
    files, and the connection would refuse all later writes, too.
    """
    code: int = getattr(context.original_exception, "sqlite_errorcode", 0)
    if code & 0xFF == sqlite3.SQLITE_READONLY:
        context.is_disconnect = True


def _begin_write_ahead(cursor: sqlite3.Cursor) -> None:
    """Put a database into write-ahead mode, or wait for another process that is doing so.

    SQLite refuses this at once, without its busy timeout, if another connection is about to write: two
    processes that create a catalogue together would find it locked.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(WRITE_AHEAD_RETRY_SECONDS)
        else:
            return


def _on_sqlite_begin(connection: sa.Connection) -> None:
    patience = connection.get_execution_options().get(_WRITING)
    if patience is None:
        connection.exec_driver_sql("BEGIN")
        return
    if _UNCHANGING in connection.info:
        cause: sqlite3.OperationalError = connection.info[_UNCHANGING][2]
        raise DBAPIError.instance("BEGIN IMMEDIATE", None, cause, sqlite3.Error, dialect=connection.dialect)
    if patience == BUSY_SECONDS:  # what the connection has
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        return
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {patience * 1000:.0f}")
    try:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")


def _said(error: BaseException | None) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _translate(error: BaseException, url: str) -> NearsayError:
    error = getattr(error, "orig", None) or error
    reason = _said(error)
    lowered = reason.lower()
    name = str(getattr(error, "sqlite_errorname", ""))
    full = "disk is full" in lowered or "no space left" in lowered or _sqlstate(error) == _FULL
    if full or _lacks_room(name, url):
        also = ", also for temporary files (TMPDIR)," if name else ""
        return DiskFullError(
            f"the catalogue {_place(url)} could not be written ({reason}); the change was not made. "
            f"Free some space{also} and run the same command again"
        )
    if "disk i/o error" in lowered or "input/output error" in lowered:
        more = f", {name}" if name else ""
        return StorageError(
            f"the catalogue {_place(url)} could not be read or written ({reason}{more}); no change was made. "
            "Check the disk, and any limit on how large files may grow, then run the same command again"
        )
    path = Path(_place(url))
    closed = name == "SQLITE_CANTOPEN" and os.access(path, os.R_OK) and not _may_be_written(path)
    if (closed and _nothing_logged(path)) or "readonly" in lowered or "read-only" in lowered:
        check = (
            "Check the rights of the file and its folder, and whether the file system is mounted read-only"
        )
        if not url.startswith("sqlite"):
            check = "Name the server that is written to, if this is a copy; see default_transaction_read_only"
        return CatalogueError(
            f"the catalogue {_place(url)} may only be read ({reason}); the change was not made. {check}"
        )
    if "unable to open" in lowered:
        return StorageError(f"the catalogue {_place(url)} cannot be opened ({reason}). {_opening(url)}")
    if any(said in lowered for said in _LOCKED + _CROWDED):
        whom = "other connections" if any(said in lowered for said in _CROWDED) else "another writer"
        said = f"the catalogue {_place(url)} is busy with {whom} ({reason})"
        return BusyError(f"{said}. Wait a little and try again")
    ended = "canceling statement" in lowered
    if ended or any(said in lowered for said in _AWAY):
        what = "broke a statement off" if ended else "stopped or is starting"
        how = ", with a higher statement_timeout if that ended it" if ended else " in a moment"
        return StorageError(
            f"the server of the catalogue {_place(url)} {what} ({reason}); what was not "
            f"committed was not done. Try again{how}"
        )
    if name == "SQLITE_CORRUPT_VTAB":
        said = f"the words of a collection in {_place(url)} are damaged ({reason}). Find out which, and how "
        return CatalogueError(f"{said}to recreate them: nearsay doctor --prove")
    damaged = any(said in lowered for said in ("malformed", "not a database", "could not decode"))
    said = f"is damaged ({reason}). {_REMEDY}" if damaged else f"refused: {reason}. {_CHECK}"
    if "connection failed" in lowered:
        said = f"cannot be reached: {reason}. Check the address, the user, and that the server runs"
    return CatalogueError(f"the catalogue {_place(url)} {said}")


def _lacks_room(name: str, url: str) -> bool:
    """Whether the shared-memory file of readers could not be created for lack of space."""
    if name != "SQLITE_IOERR_SHMSIZE":
        return False
    try:
        return shutil.disk_usage(Path(_place(url)).parent).free < _LITTLE
    except OSError:
        return False


def _opening(url: str) -> str:
    """The remedy for a file that SQLite cannot open; it does not say why."""
    path = Path(_place(url))
    logged = path.with_name(f"{path.name}-wal")
    if os.access(logged, os.F_OK) and not os.access(path.parent, os.W_OK):
        return (
            f"Changes wait in {logged.name} that cannot be entered where nothing may be written: open the "
            "library once where it may be, or copy it there"
        )
    return (
        "Check that its folder exists, the permissions of both, and the number of open files (ulimit -n), "
        "then try again"
    )


def _place(url: str) -> str:
    return str(Path(url.removeprefix("sqlite:///"))) if url.startswith("sqlite:///") else url


def _json(value: object) -> str:
    """A separate function, because psycopg caches by a function's code and warns about closures."""
    return json_text(value)


def _from_json(text: str | bytes) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CatalogueError(f"the catalogue is damaged (a value is no JSON: {error}). {_REMEDY}") from error
