"""Brings a catalogue's schema to this version of nearsay, with Alembic."""

import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol
from zlib import crc32

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from nearsay.indexer.vectors.errors import CatalogueError

__all__ = ["upgrade"]

_ONE_AT_A_TIME = threading.Lock()  # Alembic keeps what it works on in its module


class Transactions(Protocol):
    """What `Database` has: this package lies below it."""

    engine: sa.Engine

    @property
    def dialect(self) -> str: ...
    @property
    def shown(self) -> str: ...
    def reading(self) -> AbstractContextManager[sa.Connection]: ...
    def writing(self) -> AbstractContextManager[sa.Connection]: ...


def upgrade(database: Transactions, tables: sa.MetaData, *, create: bool) -> None:
    """Run the missing migrations in one transaction, after another process that does.

    A database without a catalogue gets one if `create` is true. CatalogueError: there is none and it may not
    be created, or the catalogue was made by a newer nearsay.
    """
    scripts = Config()
    scripts.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    directory = ScriptDirectory.from_config(scripts)
    with database.reading() as connection:
        present = MigrationContext.configure(connection).get_current_revision()
    place = database.shown
    if present is None and not create:
        raise CatalogueError(
            f"{place} holds no nearsay catalogue, though the library was made with one. "
            "Restore it from a backup, or name another folder for a new library"
        )
    if present is not None and present not in {script.revision for script in directory.walk_revisions()}:
        raise CatalogueError(
            f"{place} was written by a newer nearsay (schema {present}). Upgrade: pip install -U nearsay"
        )
    with _ONE_AT_A_TIME, database.writing() as writer:
        if database.dialect == "postgresql":
            writer.execute(sa.select(sa.func.pg_advisory_xact_lock(crc32(b"nearsay schema"))))
        scripts.attributes.update(connection=writer, tables=tables)
        command.upgrade(scripts, "head")
