"""Maps in the catalogue."""

import sqlalchemy as sa

from nearsay.indexer.catalogue import collections, explored
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.explored import MapRow
from nearsay.indexer.catalogue.tables import encoders, generations
from nearsay.indexer.catalogue.tables import maps as table

FIRST = MapRow(1, {"seed": 3}, b"one", "2026-01-01")


def begun(database: Database) -> int:
    """A collection with two generations; its number."""
    with database.writing() as connection:
        row = collections.create(connection, "papers", "none", "2026-01-01")
        encoder = {"name": "e", "source": "e", "fingerprint": "f", "dimension": 2, "max_tokens": 9}
        connection.execute(encoders.insert().values(encoder | {"normalised": True, "lineage": []}))
        for number, state in ((1, "retired"), (2, "live")):
            values = {"collection_id": row.id, "number": number, "encoder_id": 1, "state": state}
            values |= {"embedded_through": 0, "truncated": 0, "plan": {}, "created_at": "2026-01-01"}
            connection.execute(generations.insert().values(values))
    return row.id


def test_a_generation_has_one_map_the_newest(catalogue: Database) -> None:
    collection = begun(catalogue)
    with catalogue.writing() as connection:
        explored.keep_map(connection, collection, FIRST, passages=2, through=7)
    with catalogue.reading() as connection:
        assert explored.map_of(connection, collection, 1) == FIRST
        assert explored.map_of(connection, collection, 2) is None
        assert explored.newest_map(connection, collection) == FIRST
        assert explored.newest_map(connection, collection + 1) is None
    second, again = MapRow(2, {}, b"\x00\xff", "2026-01-02"), MapRow(2, {"a": None}, b"", "2026-01-03")
    with catalogue.writing() as connection:
        for row in (second, again):
            explored.keep_map(connection, collection, row, passages=3, through=9)
    with catalogue.reading() as connection:
        assert explored.map_of(connection, collection, 2) == again
        assert explored.newest_map(connection, collection) == again
        assert explored.map_of(connection, collection, 1) == FIRST
        rows = connection.execute(sa.select(table.c.passages, table.c.through).order_by(table.c.generation))
        assert [tuple(row) for row in rows] == [(2, 7), (3, 9)]
