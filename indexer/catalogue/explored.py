"""Maps and samples of tokens in the catalogue, and deletion of exploration results."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import sqlalchemy as sa

from nearsay.indexer.catalogue.bulk import one_of
from nearsay.indexer.catalogue.tables import (
    cluster_members,
    clusterings,
    clusters,
    gates,
    generations,
    maps,
    near_duplicates,
    token_samples,
)

# In the report of a clustering, and the parameters of a map, of a generation that was dropped: its number.
HANDED_OVER = "handed over by"


@dataclass(frozen=True, slots=True)
class MapRow:
    """A map in the catalogue."""

    generation: int
    parameters: Mapping[str, Any]
    points: bytes  # see nearsay.indexer.maps.mapping
    created_at: str


def map_of(connection: sa.Connection, collection_id: int, generation: int) -> MapRow | None:
    """A generation's map, if it has one of its own."""
    row = _map(connection, _of_generation(maps, collection_id, generation))
    return None if row is None or HANDED_OVER in row.parameters else row


def newest_map(connection: sa.Connection, collection_id: int) -> MapRow | None:
    """The most recent map of any generation, which may have been dropped since."""
    row = _map(connection, maps.c.collection_id == collection_id)
    return None if row is None else replace(row, generation=row.parameters.get(HANDED_OVER, row.generation))


def map_number(connection: sa.Connection, collection_id: int, generation: int) -> int | None:
    """The catalogue number of a generation's map, never used for another; None without a map."""
    where = _of_generation(maps, collection_id, generation)
    row = connection.execute(sa.select(maps.c.id, maps.c.parameters).where(where)).one_or_none()
    return None if row is None or HANDED_OVER in row.parameters else row.id


def keep_map(
    connection: sa.Connection, collection_id: int, row: MapRow, *, passages: int, through: int
) -> None:
    """Replace a generation's map; passages: how many it contains; through: the last of them."""
    _leave(connection, maps, _of_generation(maps, collection_id, row.generation))
    values = asdict(row) | {"collection_id": collection_id, "passages": passages, "through": through}
    connection.execute(maps.insert().values(values))


def _map(connection: sa.Connection, where: sa.ColumnElement[bool]) -> MapRow | None:
    statement = sa.select(*(maps.c[name] for name in MapRow.__slots__)).where(where)
    row = connection.execute(statement.order_by(maps.c.id.desc()).limit(1)).one_or_none()
    return None if row is None else MapRow(row[0], row[1], bytes(row[2]), row[3])


@dataclass(frozen=True, slots=True)
class TokenSampleRow:
    """A sample of tokens in the catalogue."""

    collection_id: int
    source: str  # from which the encoder can be loaded
    fingerprint: str  # of the encoder
    layer: int  # from 1
    tokens: int
    parameters: Mapping[str, Any]
    sha256: str  # of the segment
    created_at: str


def samples_of(
    connection: sa.Connection, collection_id: int, fingerprint: str | None = None
) -> list[TokenSampleRow]:
    """The samples of a collection, newest first; fingerprint: only those of this encoder."""
    columns = [token_samples.c[name] for name in TokenSampleRow.__slots__]
    statement = sa.select(*columns).where(token_samples.c.collection_id == collection_id)
    if fingerprint is not None:
        statement = statement.where(token_samples.c.fingerprint == fingerprint)
    return [TokenSampleRow(*row) for row in connection.execute(statement.order_by(token_samples.c.id.desc()))]


def sample_files(connection: sa.Connection, collection_id: int) -> set[str]:
    """The hashes of the segments that contain a collection's samples."""
    return {row.sha256 for row in samples_of(connection, collection_id)}


def keep_sample(connection: sa.Connection, row: TokenSampleRow) -> None:
    """Replace the sample of an encoder's layer."""
    key = ("collection_id", "fingerprint", "layer")
    _leave(connection, token_samples, sa.and_(*(token_samples.c[name] == getattr(row, name) for name in key)))
    connection.execute(token_samples.insert().values(asdict(row)))


def hand_over(connection: sa.Connection, collection_id: int, generation: int) -> None:
    """Before a generation is dropped, save what the next clustering and the next map start from.

    These are the most recent clustering and map, if the live generation has none of its own. The live
    generation then stores them without showing them.
    """
    where = (generations.c.collection_id == collection_id) & (generations.c.state == "live")
    live = connection.execute(sa.select(generations.c.number).where(where)).scalar_one_or_none()
    if live is None:
        return
    for table, said in ((clusterings, clusterings.c.report), (maps, maps.c.parameters)):
        statement = sa.select(table.c.id, table.c.generation, said).order_by(table.c.id.desc())
        rows = connection.execute(statement.where(table.c.collection_id == collection_id)).all()
        own = any(of == live and HANDED_OVER not in kept for _, of, kept in rows)
        if not rows or rows[0].generation != generation or own:
            continue
        id_, _, kept = rows[0]
        _leave(connection, table, _of_generation(table, collection_id, live))  # handed over earlier
        values = {"generation": live, said.name: {**kept, HANDED_OVER: kept.get(HANDED_OVER, generation)}}
        connection.execute(table.update().where(table.c.id == id_).values(values))


def leave_clustering(connection: sa.Connection, collection_id: int, generation: int) -> None:
    """Delete a generation's clustering."""
    _leave(connection, clusterings, _of_generation(clusterings, collection_id, generation))


def leave_generation(connection: sa.Connection, collection_id: int, generation: int) -> None:
    """Delete a generation's clustering and map."""
    for table in (clusterings, maps):
        _leave(connection, table, _of_generation(table, collection_id, generation))


def leave_collection(connection: sa.Connection, collection_id: int) -> None:
    """Delete a collection's clusterings, maps, gate, near-duplicates and samples of tokens."""
    for table in (clusterings, maps, gates, near_duplicates, token_samples):
        _leave(connection, table, table.c.collection_id == collection_id)


def leave_documents(connection: sa.Connection, collection_id: int, numbers: list[int]) -> None:
    """Delete the near-duplicate links from and to documents, before they are removed."""
    for column in (near_duplicates.c.document, near_duplicates.c.original):
        # One at a time: SQLite would read all links of the collection for "either".
        of_them = (near_duplicates.c.collection_id == collection_id) & one_of(column, numbers)
        _leave(connection, near_duplicates, of_them)


def _of_generation(table: sa.Table, collection_id: int, generation: int) -> sa.ColumnElement[bool]:
    return sa.and_(table.c.collection_id == collection_id, table.c.generation == generation)


def _leave(connection: sa.Connection, table: sa.Table, where: sa.ColumnElement[bool]) -> None:
    if table is clusterings:
        gone = sa.select(clusterings.c.id).where(where)
        for part in (cluster_members, clusters):
            connection.execute(part.delete().where(part.c.clustering.in_(gone)))
    connection.execute(table.delete().where(where))
