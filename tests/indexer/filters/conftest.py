"""Both databases, and `filter_expressions` to import."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import postgresql_server
import pytest

from nearsay.indexer.catalogue.database import Database

_SPEC = importlib.util.spec_from_file_location(
    "filter_expressions", Path(__file__).parent / "filter_expressions.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
sys.modules["filter_expressions"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["filter_expressions"])


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('filters') / 'catalogue.sqlite'}")
    database.migrate(create=True)
    yield database
    database.close()


@pytest.fixture(scope="module")
def postgresql(postgresql_server_url: str) -> Iterator[Database]:
    with postgresql_server.new_database(postgresql_server_url) as url:
        database = Database(url)
        database.migrate(create=True)
        yield database
        database.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Database:
    chosen: Database = request.getfixturevalue(request.param)
    return chosen
