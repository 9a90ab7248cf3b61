"""Transactions wait, see one state, and fail in one sentence that says what to do."""

import contextlib
import gc
import re
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError, OperationalError

from nearsay.data.errors import BadInputError, DiskFullError, MissingExtraError, NearsayError, StorageError
from nearsay.indexer.catalogue import collections, database, jobs
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.tables import libraries
from nearsay.indexer.vectors.errors import BusyError, CatalogueError


def kept(connection: sa.Connection) -> set[str]:
    return set(connection.execute(sa.select(libraries.c.id)).scalars())


def keep(connection: sa.Connection, id_: str) -> None:
    connection.execute(libraries.insert().values(id=id_, created_at="2026-01-01"))


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    made = Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}")
    made.migrate(create=True)
    return made


def test_an_error_names_the_file_as_it_is_called(tmp_path: Path) -> None:
    file = tmp_path / "Büro 50% & mehr?" / "catalogue.sqlite"
    file.parent.mkdir()
    at = sa.URL.create("sqlite", database=str(file))
    with pytest.raises(CatalogueError, match=re.escape(f"{file} holds no nearsay catalogue")):
        Database(at).migrate(create=False)
    file.write_bytes(b"no database at all, but long enough to be looked at as one" * 50)
    with pytest.raises(CatalogueError, match=re.escape(f"the catalogue {file} is damaged")):
        Database(at).migrate(create=False)


def test_what_is_written_is_there_as_a_whole_or_not_at_all(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        keep(connection, "a")

    def fail_half_way() -> None:
        with catalogue.writing() as connection:
            keep(connection, "b")
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    with catalogue.reading() as connection:
        assert kept(connection) == {"a"}


def test_a_reader_sees_one_state_while_a_writer_commits(
    catalogue: Database, open_database: Callable[[], Database]
) -> None:
    with catalogue.reading() as reader:
        assert kept(reader) == set()
        with open_database().writing() as writer:
            keep(writer, "new")
        assert kept(reader) == set()
    with catalogue.reading() as reader:
        assert kept(reader) == {"new"}


def test_a_writer_on_sqlite_waits_for_another(sqlite: Database) -> None:
    order: list[str] = []
    begun = threading.Event()

    def second() -> None:
        begun.set()
        with sqlite.writing() as connection:
            order.append("second")
            assert kept(connection) == {"first"}  # it began after the first had committed
            keep(connection, "second")

    with sqlite.writing() as connection:
        waiting = threading.Thread(target=second)
        waiting.start()
        assert begun.wait(60)
        keep(connection, "first")
        waiting.join(0.1)
        assert waiting.is_alive()
        order.append("first")
    waiting.join(60)
    assert order == ["first", "second"]
    with sqlite.reading() as connection:
        assert kept(connection) == {"first", "second"}
    sqlite.close()


def test_sqlite_is_durable_and_takes_its_write_lock_at_the_beginning(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite.reading() as connection:
        settings = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        ]
    assert settings == ["wal", 2, 1, 60_000]
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.0)
    impatient = Database(str(sqlite.engine.url))
    with (
        sqlite.writing(),
        pytest.raises(BusyError, match=r"busy with another writer .* try again"),
        impatient.writing(),
    ):
        pass
    impatient.close()
    sqlite.close()


@pytest.fixture
def about_to_write(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another's connection to `catalogue.sqlite`, not yet in write-ahead mode, that has begun to write."""
    path = tmp_path / "catalogue.sqlite"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE another (id INTEGER)")
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def test_opening_waits_for_one_who_writes_before_write_ahead_mode(
    tmp_path: Path, about_to_write: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        about_to_write.execute("COMMIT")

    monkeypatch.setattr(database.time, "sleep", wait)
    opened = Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}")
    with contextlib.closing(opened), opened.reading() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    assert waits == [database.WRITE_AHEAD_RETRY_SECONDS]


def test_many_transactions_are_open_at_once(catalogue: Database) -> None:
    with contextlib.ExitStack() as several:
        for _ in range(20):
            assert kept(several.enter_context(catalogue.reading())) == set()


def test_opening_does_not_wait_for_ever(
    tmp_path: Path, about_to_write: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", -1.0)
    opened = Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}")
    with pytest.raises(BusyError, match="is busy with another writer"), opened.reading():
        pass
    about_to_write.execute("ROLLBACK")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**40])
def test_a_number_that_no_column_holds_is_told(sqlite: Database, number: int) -> None:
    with pytest.raises(BadInputError, match="number"), sqlite.reading() as connection:
        jobs.find(connection, number)


def test_what_is_there_twice_is_told_to_the_caller(catalogue: Database) -> None:
    def twice() -> None:
        with catalogue.writing() as connection:
            collections.create(connection, "papers", "none", "")
            collections.create(connection, "papers", "none", "")

    with pytest.raises(IntegrityError):
        twice()


@pytest.mark.long
@pytest.mark.parametrize(
    ("said", "kind", "remedy"),
    [
        ("database or disk is full", DiskFullError, "Free some space"),
        ("could not extend file: No space left on device\nHINT: …", DiskFullError, "Free some space"),
        ("disk I/O error", StorageError, "Check the disk"),
        ("database is locked", BusyError, "try again"),
        ("could not serialize access due to concurrent update", BusyError, "try again"),
        ("deadlock detected", BusyError, "try again"),
        ("canceling statement due to lock timeout", BusyError, "try again"),
        ("canceling statement due to statement timeout", StorageError, "higher statement_timeout"),
        ("connection failed: … failed: Connection refused", CatalogueError, "that the server runs"),
        ("FATAL: sorry, too many clients already", BusyError, "try again"),
        ('FATAL: too many connections for role "app"', BusyError, "try again"),
        ("FATAL: remaining connection slots are reserved for roles with …", BusyError, "try again"),
        ("FATAL: the database system is starting up", StorageError, "Try again"),
        ("terminating connection due to administrator command", StorageError, "Try again"),
        ("consuming input failed: server closed the connection unexpectedly", StorageError, "Try again"),
        ("database disk image is malformed", CatalogueError, "Restore it from a backup"),
        ("file is not a database", CatalogueError, "Restore it from a backup"),
        ("permission denied for table documents", CatalogueError, "Check the address, the rights"),
        ("", CatalogueError, "Check the address"),
    ],
)
def test_each_failure_of_the_database_says_what_to_do(
    sqlite: Database, said: str, kind: type[NearsayError], remedy: str
) -> None:
    def fail() -> None:
        with sqlite.reading():
            raise OperationalError("SELECT 1", {}, Exception(said))

    with pytest.raises(kind) as caught:
        fail()
    assert type(caught.value) is kind
    message = str(caught.value)
    assert remedy in message
    assert said.split("\n", maxsplit=1)[0] in message
    assert "catalogue.sqlite" in message
    assert "\n" not in message
    assert "SELECT" not in message
    sqlite.close()


@pytest.mark.parametrize(
    ("met", "told"),
    [
        (KeyboardInterrupt(), KeyboardInterrupt),
        (sqlite3.OperationalError("disk I/O error"), StorageError),
    ],
)
def test_what_ended_a_statement_is_told_though_tidying_up_failed_after_it(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch, met: BaseException, told: type[BaseException]
) -> None:
    execute = sqlite.engine.dialect.do_execute

    def refuse(cursor: Any, statement: str, *more: Any) -> None:
        if statement == "SELECT 1":
            raise met
        execute(cursor, statement, *more)

    monkeypatch.setattr(sqlite.engine.dialect, "do_execute", refuse)
    monkeypatch.setattr(sqlite.engine.dialect, "is_disconnect", lambda *_: True)

    def work_and_tidy_up() -> None:
        with sqlite.writing() as connection:
            try:
                connection.exec_driver_sql("SELECT 1")
            finally:
                connection.exec_driver_sql("DROP TABLE IF EXISTS temp.tidy")

    with pytest.raises(told):
        work_and_tidy_up()
    with sqlite.reading() as connection:
        assert connection.exec_driver_sql("SELECT 2").scalar_one() == 2


def test_postgresql_says_what_failed_first_though_tidying_up_failed_after_it(postgresql_url: str) -> None:
    catalogue = Database(postgresql_url)

    def work_and_tidy_up() -> None:
        with catalogue.writing() as connection:
            try:
                connection.exec_driver_sql("SELECT 1 / 0")
            finally:
                connection.exec_driver_sql("SELECT 1")

    with pytest.raises(CatalogueError, match="division by zero"):
        work_and_tidy_up()
    catalogue.close()


def test_a_server_that_is_only_read_from_is_not_said_to_be_a_file(postgresql_url: str) -> None:
    catalogue = Database(postgresql_url)
    with catalogue.engine.connect() as connection:
        connection.exec_driver_sql("SET default_transaction_read_only = on")
        connection.commit()
    with pytest.raises(CatalogueError, match=r"only be read.*default_transaction_read_only") as caught:
        catalogue.migrate(create=True)
    assert "file" not in str(caught.value).replace(postgresql_url, "")
    catalogue.close()


def test_a_disk_that_has_room_for_half_a_page_of_postgresqls_is_full(sqlite: Database) -> None:
    errors = pytest.importorskip("psycopg.errors")
    said = 'could not extend file "base/1/2": wrote only 4096 of 8192 bytes at block 0'

    def fail() -> None:
        with sqlite.reading():
            raise OperationalError("INSERT", {}, errors.DiskFull(said))

    with pytest.raises(DiskFullError, match="wrote only 4096"):
        fail()


def test_a_full_disk_undoes_the_change(sqlite: Database) -> None:
    def fill() -> None:
        with sqlite.writing() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
            for i in range(10_000):
                keep(connection, f"{i:036}")

    with pytest.raises(DiskFullError, match="the change was not made"):
        fill()
    with sqlite.reading() as connection:
        assert kept(connection) == set()
    sqlite.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.sqlite"
    path.write_bytes(b"this is no database at all" * 100)
    with pytest.raises(CatalogueError, match=r"is damaged .*backup") as caught:
        Database(f"sqlite:///{path}").migrate(create=True)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"this is no database at all" * 100


def test_a_damaged_database_is_named(sqlite: Database, tmp_path: Path) -> None:
    with sqlite.writing() as connection:
        for i in range(1000):
            keep(connection, f"{i:036}")
    with sqlite.reading() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    sqlite.close()
    path = tmp_path / "catalogue.sqlite"
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))

    def read() -> None:
        with sqlite.reading() as connection:
            kept(connection)

    with pytest.raises(CatalogueError, match="Restore it from a backup"):
        read()
    sqlite.close()


def test_a_catalogue_in_a_folder_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"unable to open database file\).*folder"):
        Database(f"sqlite:///{tmp_path / 'no' / 'catalogue.sqlite'}").migrate(create=True)


def test_a_server_that_does_not_answer_is_named_without_the_password() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(CatalogueError, match="Check the address") as caught:
        Database("postgresql://someone:secret@127.0.0.1:1/papers").migrate(create=True)
    assert "127.0.0.1:1/papers" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://someone:secret@host/papers",
        "oracle://someone:secret@host/papers",
        "postgresql+nosuch://someone:secret@host/papers",
        "postgresql://someone:secret@host:port/papers",
        "postgresql:/someone:secret@host",
        "someone:sec@ret@host",
        "papers",
        "",
    ],
)
def test_a_url_of_no_use_is_refused_without_the_password(url: str) -> None:
    with pytest.raises(BadInputError, match="postgresql://user@host/name") as caught:
        Database(url)
    assert "sec" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert "ret" not in str(caught.value)


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nearsay\[postgres\]'"):
        Database("postgresql://someone@host/papers")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_usual_way_to_write_postgresql_means_the_same_driver(scheme: str) -> None:
    pytest.importorskip("psycopg")
    assert Database(f"{scheme}://someone@host/papers").dialect == "postgresql"


def test_what_nobody_closes_gives_its_connections_back(tmp_path: Path) -> None:
    there = Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}")
    with there.reading():
        pass
    engine = there.engine
    assert engine.pool.checkedin() == 1  # type: ignore[attr-defined]
    del there
    gc.collect()
    assert engine.pool.checkedin() == 0  # type: ignore[attr-defined]


def test_a_connection_that_was_opened_for_reading_alone_refuses_one_write_and_no_later_one(
    sqlite: Database,
) -> None:
    """As SQLite opens a file that it cannot open for writing just then, with too many files open."""
    with sqlite.reading() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")
    with pytest.raises(CatalogueError), sqlite.writing() as connection:
        keep(connection, "a")
    with sqlite.writing() as connection:
        keep(connection, "b")
    with sqlite.reading() as connection:
        assert kept(connection) == {"b"}
