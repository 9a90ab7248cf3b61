"""Maps in the catalogue: one a generation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nearsay.indexer.catalogue.tables import maps

__all__ = ["MapRow", "newest", "number_of", "of_generation", "replace"]


@dataclass(frozen=True, slots=True)
class MapRow:
    """A map as the catalogue has it."""

    generation: int
    parameters: Mapping[str, Any]
    points: bytes  # see nearsay.indexer.maps.mapping
    created_at: str


def of_generation(connection: sa.Connection, collection_id: int, generation: int) -> MapRow | None:
    """The map of a generation, if it has one."""
    return _one(connection, collection_id, maps.c.generation == generation)


def number_of(connection: sa.Connection, collection_id: int, generation: int) -> int | None:
    """The number of a generation's map in the catalogue, which no other map ever had; None without one."""
    where = sa.and_(maps.c.collection_id == collection_id, maps.c.generation == generation)
    return connection.execute(sa.select(maps.c.id).where(where)).scalar_one_or_none()


def newest(connection: sa.Connection, collection_id: int) -> MapRow | None:
    """The map that was made last, of whatever generation."""
    return _one(connection, collection_id, sa.true())


def replace(
    connection: sa.Connection,
    collection_id: int,
    row: MapRow,
    *,
    passages: int,
    through: int,
) -> None:
    """Put a map in the place of its generation's; passages: how many it has; through: the last of them."""
    where = sa.and_(maps.c.collection_id == collection_id, maps.c.generation == row.generation)
    connection.execute(maps.delete().where(where))
    values = {name: getattr(row, name) for name in MapRow.__slots__} | {"parameters": dict(row.parameters)}
    values |= {"collection_id": collection_id, "passages": passages, "through": through}
    connection.execute(maps.insert().values(values))


def _one(connection: sa.Connection, collection_id: int, condition: sa.ColumnElement[bool]) -> MapRow | None:
    columns = [maps.c[name] for name in MapRow.__slots__]
    statement = sa.select(*columns).where(maps.c.collection_id == collection_id).where(condition)
    row = connection.execute(statement.order_by(maps.c.id.desc()).limit(1)).one_or_none()
    return None if row is None else MapRow(row[0], row[1], bytes(row[2]), row[3])
