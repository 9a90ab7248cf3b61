"""The migrations make the tables, once, whoever else is making them."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from words_encoder import WordsEncoder

from nearsay.data.document import Document
from nearsay.indexer import Library
from nearsay.indexer.catalogue import lexical_rows, migrations, tables
from nearsay.indexer.catalogue.database import Database, is_writing
from nearsay.indexer.catalogue.passages import prepare, text_hash
from nearsay.indexer.doctor import examine
from nearsay.indexer.vectors.errors import CatalogueError
from nearsay.indexer.vectors.segment import write_vectors


@pytest.fixture(autouse=True)
def by_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each catalogue is made by running them all."""
    monkeypatch.setattr(migrations, "upgrade", migrations.upgrade.__wrapped__)


def test_the_migrations_make_exactly_the_tables(catalogue: Database) -> None:
    with catalogue.reading() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, tables.metadata) == []
        made = set(sa.inspect(connection).get_table_names())
    assert made == {*tables.metadata.tables, "alembic_version"}


def test_the_schema_that_a_catalogue_is_opened_with_is_the_last_migration(catalogue: Database) -> None:
    scripts = Config()
    scripts.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    assert ScriptDirectory.from_config(scripts).get_heads() == [tables.SCHEMA]
    with catalogue.reading() as connection:
        assert MigrationContext.configure(connection).get_current_heads() == (tables.SCHEMA,)


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
    with pytest.raises(CatalogueError, match=r"newer nearsay \(schema 9999\).*pip install -U nearsay"):
        catalogue.migrate(create=True)


def test_threads_that_make_a_catalogue_at_once_make_one(open_database: Callable[[], Database]) -> None:
    several = [open_database() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(database.migrate, create=True) for database in several]:
            done.result()
    with several[0].reading() as connection:
        versions = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
    assert len(versions) == 1


def test_a_migration_waits_for_another_as_long_as_any_writer(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}")
    began: list[float] = []

    @sa.event.listens_for(database.engine, "begin")
    def _(connection: sa.Connection) -> None:
        if is_writing(connection):
            began.append(connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one())

    waited: list[str] = []

    @sa.event.listens_for(database.engine, "before_cursor_execute")
    def _(_connection: sa.Connection, _cursor: object, statement: str, *_: object) -> None:
        if "busy_timeout =" in statement:
            waited.append(statement)

    database.migrate(create=True)
    assert (began, waited) == ([60_000], [])  # milliseconds, which nothing shortened on the way
    database.close()


_MAKE = """
import sys
from nearsay.indexer.catalogue import migrations
from nearsay.indexer.catalogue.database import Database
sys.stdin.readline()
Database(sys.argv[1]).migrate(create=True)
"""


@pytest.mark.long
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


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_library_of_schema_0006_opens_with_all_that_it_held(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, words: WordsEncoder
) -> None:
    url: str | None = request.getfixturevalue("postgresql_url") if kind == "postgresql" else None
    home = tmp_path / "library"
    home.mkdir()
    _write_0006(
        home, Database(url or f"sqlite:///{home / 'catalogue.sqlite'}"), words, "given" if url else kind
    )
    with Library.open(home, database=url, load_encoder=lambda _: words) as library:
        pets = library.collection("pets")
        assert [finding.detail for finding in examine(library) if not finding.sound] == []
        assert [hit.id for hit in pets.search("a cat sat", mode="dense")] == ["cat", "dog"]
        assert pets.search("dog", mode="lexical")[0].metadata == {"year": 2020}
        # Promotions were known by the clock alone: 3 was live before 1 went live, and 2 before that.
        assert [(row.number, row.promotion) for row in pets.generations()] == [
            (1, 3),
            (2, 1),
            (3, 2),
            (4, None),
        ]
        assert pets.rollback() == 3
        assert pets.rollback() == 1
        assert pets.add_rows(["a bird"]).added == 1
        assert len(pets.search("a cat sat", mode="dense")) == 3


def _write_0006(home: Path, database: Database, words: WordsEncoder, kind: str) -> None:
    """A library as the version of schema 0006 left it: two documents, four generations."""
    scripts = Config()
    scripts.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    texts = ["a cat sat", "the dog dug"]
    fingerprint, moment = words.fingerprint, "2026-01-01T00:00:00+00:00"
    path = write_vectors(home / "segments" / "1", np.array([1, 2]), words.encode(texts), fingerprint)
    rows = [
        ("libraries", {"id": "a-library", "created_at": moment}),
        (
            "collections",
            {"id": 1, "name": "pets", "chunking": "none", "version": 9, "compactions": 0, "next_document": 3}
            | {"next_passage": 3, "created_at": moment, "next_cluster": 1},
        ),
        (
            "encoders",
            {"id": 1, "name": "words", "source": "words", "fingerprint": fingerprint, "dimension": 8}
            | {"max_tokens": 16, "normalised": True, "lineage": "[]"},
        ),
    ]
    for number, text in enumerate(texts, 1):
        document = {"collection_id": 1, "number": number, "id": text.split()[1], "title": "", "text": text}
        prepared = prepare(Document(text, id=text.split()[1], metadata={"year": 2020}))
        hashes = {"content_hash": prepared.content_hash, "row_hash": prepared.row_hash}
        document |= hashes | {"metadata": '{"year": 2020}', "source": None, "named_by_content": False}
        rows.append(("documents", document | {"added_at": moment, "updated_at": moment}))
        place = {"ordinal": 0, "start": 0, "end": len(text), "text_hash": text_hash(text)}
        rows.append(("passages", {"collection_id": 1, "number": number, "document": number} | place))
    states = [(1, "live", 0), (2, "retired", 3), (3, "retired", 5), (4, "ready", None)]
    for number, state, hour in states:
        promoted = None if hour is None else f"2026-01-02T0{hour}:00:00.000123+00:00"
        rows.append(
            (
                "generations",
                {"collection_id": 1, "number": number, "encoder_id": 1, "state": state, "truncated": 0}
                | {"embedded_through": 2, "plan": "{}", "created_at": moment, "promoted_at": promoted},
            )
        )
        held = {"sha256": path.stem, "bytes": path.stat().st_size, "count": 2, "first_passage": 1}
        held |= {"collection_id": 1, "generation": number, "kind": "vectors", "state": "current"}
        rows.append(("segments", held | {"last_passage": 2, "created_at": moment}))
    with database.writing() as connection:
        scripts.attributes.update(connection=connection, tables=tables.metadata)
        command.upgrade(scripts, "0006")
        for table, row in rows:
            names = ", ".join(f'"{name}"' for name in row)
            values = ", ".join(
                f"CAST(:{name} AS JSONB)"
                if kind == "given" and name in ("metadata", "lineage", "plan")
                else f":{name}"
                for name in row
            )
            connection.execute(sa.text(f'INSERT INTO "{table}" ({names}) VALUES ({values})'), row)  # noqa: S608
        lexical_rows.create_table(connection, 1)
        lexical_rows.insert_rows(connection, 1, [1, 2], texts)
    database.close()
    (home / "library.json").write_text(json.dumps({"format": 1, "id": "a-library", "database": kind}))
