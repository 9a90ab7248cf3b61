"""A PostgreSQL server for the tests that ask for one."""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nearsay.indexer.catalogue.database import Database

_SPEC = importlib.util.spec_from_file_location(
    "postgresql_server", Path(__file__).parent / "postgresql_server.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
sys.modules["postgresql_server"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["postgresql_server"])

import postgresql_server  # noqa: E402 - importable only after the lines above


@pytest.fixture(scope="session")
def postgresql_server_url() -> Iterator[str]:
    """A PostgreSQL server: NEARSAY_TEST_POSTGRESQL's, or one of our own.

    Without either the test is skipped, or fails where NEARSAY_REQUIRE_POSTGRESQL=1.
    """
    given = os.environ.get("NEARSAY_TEST_POSTGRESQL")
    if given:
        yield given
        return
    programs = postgresql_server.binaries()
    if programs is None:
        reason = (
            "no PostgreSQL server: apt-get install postgresql-15, or set NEARSAY_TEST_POSTGRESQL to a URL"
        )
        if os.environ.get("NEARSAY_REQUIRE_POSTGRESQL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with postgresql_server.running(programs) as url:
        yield url


@pytest.fixture
def postgresql_url(postgresql_server_url: str) -> Iterator[str]:
    """An empty PostgreSQL database, of this test alone."""
    with postgresql_server.new_database(postgresql_server_url) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def catalogue_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'catalogue.sqlite'}"
    url: str = request.getfixturevalue("postgresql_url")
    return url


@pytest.fixture
def open_database(catalogue_url: str) -> Iterator[Callable[[], Database]]:
    """Opens the test's database, as often as wanted."""
    opened: list[Database] = []

    def open_it() -> Database:
        opened.append(Database(catalogue_url))
        return opened[-1]

    yield open_it
    for database in opened:
        database.close()


@pytest.fixture
def catalogue(open_database: Callable[[], Database]) -> Database:
    """A new catalogue, of each kind in turn."""
    database = open_database()
    database.migrate(create=True)
    return database
