"""The migrations make the tables, once, whoever else is making them."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from nearsay.indexer.catalogue import tables
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.errors import CatalogueError


def test_the_migrations_make_exactly_the_tables(catalogue: Database) -> None:
    with catalogue.reading() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, tables.metadata) == []
        made = set(sa.inspect(connection).get_table_names())
    assert made == {*tables.metadata.tables, "alembic_version"}


def test_a_table_that_was_changed_by_hand_would_be_noticed(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE collections ADD COLUMN stray TEXT")
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, tables.metadata) != []


def test_sqlite_has_the_same_constraints_and_indexes_as_the_tables_say(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def shape(database: Database) -> dict[str, list[object]]:
        with database.reading() as connection:
            inspector = sa.inspect(connection)
            return {
                name: [
                    sorted(column["name"] for column in inspector.get_columns(name)),
                    inspector.get_pk_constraint(name),
                    sorted(map(str, inspector.get_foreign_keys(name))),
                    sorted(map(str, inspector.get_check_constraints(name))),
                    sorted(map(str, inspector.get_unique_constraints(name))),
                    sorted(
                        (str(index["name"]), index["column_names"], bool(index["unique"]))
                        for index in inspector.get_indexes(name)
                    ),
                ]
                for name in tables.metadata.tables
            }

    folder = tmp_path_factory.mktemp("shapes")
    migrated, direct = (Database(f"sqlite:///{folder / name}") for name in ("migrated", "direct"))
    migrated.migrate(create=True)
    with direct.writing() as connection:
        tables.metadata.create_all(connection)
    assert shape(migrated) == shape(direct)
    migrated.close()
    direct.close()


def test_migrating_again_changes_nothing(catalogue: Database, open_database: Callable[[], Database]) -> None:
    with catalogue.writing() as connection:
        connection.execute(tables.libraries.insert().values(id="kept", created_at=""))
    catalogue.migrate(create=True)
    again = open_database()
    again.migrate(create=False)
    with again.reading() as connection:
        assert connection.execute(sa.select(tables.libraries.c.id)).scalars().all() == ["kept"]


def test_a_database_without_a_catalogue_is_not_made_one_unasked(
    open_database: Callable[[], Database],
) -> None:
    database = open_database()
    with pytest.raises(CatalogueError, match="holds no nearsay catalogue"):
        database.migrate(create=False)
    with database.reading() as connection:
        assert sa.inspect(connection).get_table_names() == []


def test_a_catalogue_of_a_newer_nearsay_is_left_alone(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(
        CatalogueError, match=r"newer nearsay \(schema 9999\). Upgrade: pip install -U nearsay"
    ):
        catalogue.migrate(create=True)


def test_threads_that_make_a_catalogue_at_once_make_one(open_database: Callable[[], Database]) -> None:
    several = [open_database() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(database.migrate, create=True) for database in several]:
            done.result()
    with several[0].reading() as connection:
        versions = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
    assert len(versions) == 1


_MAKE = """
import sys
from nearsay.indexer.catalogue import migrations
from nearsay.indexer.catalogue.database import Database
sys.stdin.readline()
Database(sys.argv[1]).migrate(create=True)
"""


def test_processes_that_make_a_catalogue_at_once_make_one(
    catalogue_url: str, open_database: Callable[[], Database]
) -> None:
    command = [sys.executable, "-c", _MAKE, catalogue_url]
    several = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for process in several:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in several:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    open_database().migrate(create=False)
