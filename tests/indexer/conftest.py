"""A PostgreSQL server, and a collection with an index, for the tests that ask for one."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.plans import tuning
from nearsay.indexer.plans.engines import ENGINES
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.snapshots import snapshot
from nearsay.indexer.writing import index_upkeep

for _NAME in (
    "filter_expressions",
    "collection_model",
    "grouped_collection",
    "postgresql_server",
    "ray_processes",
    "table_collection",
):
    _SPEC = importlib.util.spec_from_file_location(_NAME, Path(__file__).parent / f"{_NAME}.py")
    assert _SPEC is not None
    assert _SPEC.loader is not None
    sys.modules[_NAME] = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(sys.modules[_NAME])

import postgresql_server  # noqa: E402 - importable only after the lines above
import table_collection  # noqa: E402


@pytest.fixture(scope="session")
def postgresql_server_url(request: pytest.FixtureRequest) -> str:
    """A PostgreSQL server: NEARSAY_TEST_POSTGRESQL's, or one of our own.

    Without either the test is skipped, or fails where NEARSAY_REQUIRE_POSTGRESQL=1.
    """
    given = os.environ.get("NEARSAY_TEST_POSTGRESQL")
    if given:
        return given
    server: postgresql_server.Server = request.getfixturevalue("own_postgresql_server")
    return server.url


@pytest.fixture(scope="session")
def own_postgresql_server() -> Iterator["postgresql_server.Server"]:
    """A PostgreSQL server of our own, which a test may start again."""
    programs = postgresql_server.binaries()
    if programs is None:
        reason = "no PostgreSQL server: apt-get install postgresql, or set NEARSAY_TEST_POSTGRESQL to a URL"
        if os.environ.get("NEARSAY_REQUIRE_POSTGRESQL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with postgresql_server.running(programs) as server:
        yield server


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


@pytest.fixture(scope="session")
def table_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of `table_collection.COUNT` documents of which each tenth was removed, without an index."""
    folder = tmp_path_factory.mktemp("template") / "library"
    with Library.open(folder) as library:
        collection = library.collection("table", encoder=table_collection.TableEncoder())
        collection.add_rows(table_collection.rows(0, table_collection.COUNT))
        collection.remove(f"d{i}" for i in range(0, table_collection.COUNT, 10))
    return folder


@pytest.fixture(scope="session")
def indexed_template(table_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same library with its index."""
    folder: Path = tmp_path_factory.mktemp("indexed") / "library"
    shutil.copytree(table_template, folder)
    with pytest.MonkeyPatch.context() as patch:
        _choose_lists(patch)
        with Library.open(folder, load_encoder=table_collection.any_encoder) as library:
            table_collection.refresh(library.collection("table"))
    return folder


def _choose_lists(patch: pytest.MonkeyPatch) -> None:
    """Collections of over a thousand get an index, inverted lists of half-precision vectors.

    For the stopwatch says that exact search is slow.
    """
    patch.setattr(tuning, "ENGINES", {PlanKind.IVF: ENGINES[PlanKind.IVF]})
    for measuring in (tuning.tune, tuning.tune_again):
        timed = table_collection.by_kind({PlanKind.IVF: 1.0})
        patch.setitem(measuring.__kwdefaults__, "timed", timed)
    patch.setattr(index_upkeep, "EXACT_UP_TO", 1000)
    patch.setattr(snapshot, "_SCANNED", 0)
    patch.setattr(snapshot, "_SCAN_SHARE", 0.0)


@pytest.fixture
def open_table(
    table_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Collection]]:
    """Opens a copy of the template, as often as wanted; its index is as `_choose_lists` has it."""
    _choose_lists(monkeypatch)
    shutil.copytree(table_template, tmp_path / "library")
    opened: list[Library] = []

    def open_it() -> Collection:
        opened.append(Library.open(tmp_path / "library", load_encoder=table_collection.any_encoder))
        return opened[-1].collection("table")

    yield open_it
    for library in opened:
        library.close()


@pytest.fixture
def indexed(open_table: Callable[[], Collection], indexed_template: Path, tmp_path: Path) -> Collection:
    """The collection with its index."""
    shutil.rmtree(tmp_path / "library")
    shutil.copytree(indexed_template, tmp_path / "library")
    return open_table()
