"""One catalogue database: its engine, its transactions, its schema.

SQLite runs in write-ahead mode with full synchronisation at commit and takes its write lock when a writing
transaction begins (BEGIN IMMEDIATE), so no transaction fails half-way for a lock. Errors of the database come
out as `NearsayError`s that say what to do.
"""

import contextlib
import json
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, PendingRollbackError

from nearsay.data.errors import BadInputError, DiskFullError, MissingExtraError, NearsayError
from nearsay.indexer.errors import BusyError, CatalogueError
from nearsay.indexer.json_text import json_text

__all__ = ["Database"]

BUSY_SECONDS = 60.0
WRITE_AHEAD_RETRY_SECONDS = 0.01
_WRITING = "nearsay_writing"
_LOOKING_SECONDS = 10.0  # the most that is looked for damage before an error that may be its doing is raised
# What code raises that is given a value which no column holds.
_FROM_WRONG_VALUES = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_REMEDY = (
    "Restore it from a backup, or begin a new library and add the documents again; what is damaged, "
    "nearsay doctor --prove says"
)


class Database:
    """The catalogue behind a URL; safe to use from several threads."""

    def __init__(
        self, at: str | sa.URL | sa.Engine, check: Callable[[sa.Connection], None] | None = None
    ) -> None:
        """`at`: a SQLAlchemy URL of SQLite or PostgreSQL, of which nothing is connected yet; or its engine.

        check: begins each writing transaction, and refuses it by raising
        """
        self.engine = at if isinstance(at, sa.Engine) else _engine(at)
        self._check = check

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that sees one state of the catalogue from beginning to end."""
        with self._translated(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction that commits as a whole when the block ends, and not at all when it raises.

        SQLAlchemy's IntegrityError comes out as it is: the caller knows what was there already. Of a writer
        whose transactions are checked it is CatalogueError: alone, it has nobody to be in conflict with.
        """
        with self._translated(), self.engine.connect() as connection:
            # Writers of one row wait for each other; a writing transaction needs no fixed view.
            level = {"isolation_level": "READ COMMITTED"} if self.dialect == "postgresql" else {}
            writer = connection.execution_options(**{_WRITING: True}, **level)
            with writer.begin():
                if self._check is not None:
                    self._check(writer)
                yield writer

    def migrate(self, *, create: bool) -> None:
        """Bring the schema to this version of nearsay; CatalogueError if the database is of a newer one."""
        from nearsay.indexer.catalogue.migrations import upgrade

        with self._translated():
            upgrade(self.engine, create=create)

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError as error:
            if self._check is None:
                raise
            raise self._damaged(_said(error.orig)) from error
        except DBAPIError as error:
            raise _translate(error, self._shown) from error
        except sqlite3.Error as error:  # of a cursor that was read without SQLAlchemy
            raise _translate(error, self._shown) from error
        except PendingRollbackError as error:  # of tidying up, after what ended the statement before it
            first = _first(error)
            if isinstance(first, DBAPIError):
                raise _translate(first, self._shown) from first
            if isinstance(first, KeyboardInterrupt):
                raise first from None
            raise
        except _FROM_WRONG_VALUES as error:
            fault = self._fault()
            if fault is None:
                raise
            raise self._damaged(fault) from error

    @property
    def _shown(self) -> str:
        return self.engine.url.render_as_string(hide_password=True)

    def _damaged(self, reason: str) -> CatalogueError:
        return CatalogueError(f"the catalogue {_place(self._shown)} is damaged ({reason}). {_REMEDY}")

    def _fault(self) -> str | None:
        """What is wrong with the file, as far as it is found within seconds."""
        from nearsay.indexer.catalogue.integrity import file_fault

        try:
            with self.engine.connect() as connection:
                return file_fault(connection, full=True, seconds=_LOOKING_SECONDS)
        except (DBAPIError, UnicodeDecodeError) as error:  # SQLite names what it cannot read by its bytes
            return _said(error)


def _first(error: BaseException) -> BaseException:
    """What SQLAlchemy or the user broke off with, before others failed for it."""
    before = error.__context__
    while before is not None and not isinstance(error, KeyboardInterrupt | DBAPIError):
        error, before = before, before.__context__
    return error


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
        engine = sa.create_engine(parsed, json_serializer=_json, json_deserializer=_from_json, **options)
    except (ArgumentError, NoSuchModuleError, ValueError):
        shown = re.sub(r":.*@", "://***@", str(url))  # it may hold a password: the cause names it, too
        raise BadInputError(
            f"'{shown}' is not a database URL. Give one such as postgresql://user@host/name"
        ) from None
    except ModuleNotFoundError as error:
        raise MissingExtraError("A PostgreSQL catalogue", "postgres") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _on_sqlite_connect)
        event.listen(engine, "begin", _on_sqlite_begin)
    return engine


def _on_sqlite_connect(connection: Any, _record: Any) -> None:  # noqa: ANN401 - the driver's own type
    connection.isolation_level = None  # transactions begin in _on_sqlite_begin, not inside the driver
    cursor = connection.cursor()
    _begin_write_ahead(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA cache_size = -65536")
    cursor.close()


def _begin_write_ahead(cursor: sqlite3.Cursor) -> None:
    """Put a database into write-ahead mode, or wait for the one that is doing so.

    SQLite refuses this change at once, without its busy timeout, where another connection is about to write:
    two that open a new catalogue together would find it locked.
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
    writing = connection.get_execution_options().get(_WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


def _said(error: BaseException | None) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _translate(error: BaseException, url: str) -> NearsayError:
    error = getattr(error, "orig", None) or error
    reason = _said(error)
    lowered = reason.lower()
    if "disk is full" in lowered or "no space left" in lowered or "disk i/o error" in lowered:
        return DiskFullError(
            f"the catalogue {_place(url)} could not be written ({reason}); the change was not made. "
            "Free some space and run the same command again"
        )
    if "locked" in lowered or "could not serialize" in lowered:
        return BusyError(
            f"the catalogue {_place(url)} is busy with another writer ({reason}). Wait a little and try again"
        )
    if getattr(error, "sqlite_errorname", None) == "SQLITE_CORRUPT_VTAB":
        return CatalogueError(
            f"the words of a collection in {_place(url)} are damaged ({reason}). "
            "See of which, and how to enter them anew: nearsay doctor --prove"
        )
    if any(said in lowered for said in ("malformed", "not a database", "could not decode")):
        return CatalogueError(f"the catalogue {_place(url)} is damaged ({reason}). {_REMEDY}")
    return CatalogueError(
        f"the catalogue {_place(url)} refused: {reason}. Check the address, the rights and the free space"
    )


def _place(url: str) -> str:
    return str(Path(url.removeprefix("sqlite:///"))) if url.startswith("sqlite:///") else url


def _json(value: object) -> str:
    """A function of its own: psycopg caches by a function's code, and warns of closures."""
    return json_text(value)


def _from_json(text: str | bytes) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise CatalogueError(f"the catalogue is damaged (a value is no JSON: {error}). {_REMEDY}") from error
