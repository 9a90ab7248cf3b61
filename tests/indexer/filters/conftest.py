"""Both databases."""

from collections.abc import Iterator

import postgresql_server
import pytest

from nearsay.indexer.catalogue.database import Database


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
