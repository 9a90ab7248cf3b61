"""Samples of tokens in the catalogue: one an encoder and layer."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from nearsay.indexer.catalogue.tables import token_samples

__all__ = ["TokenSampleRow", "all_of", "files_of", "replace"]


@dataclass(frozen=True, slots=True)
class TokenSampleRow:
    """A sample as the catalogue has it."""

    collection_id: int
    source: str  # what loads the encoder
    fingerprint: str  # of the encoder
    layer: int  # from 1
    tokens: int
    parameters: Mapping[str, Any]
    sha256: str  # of the segment
    created_at: str


def all_of(
    connection: sa.Connection, collection_id: int, fingerprint: str | None = None
) -> list[TokenSampleRow]:
    """The samples of a collection, the newest first; fingerprint: only that encoder's."""
    columns = [token_samples.c[name] for name in TokenSampleRow.__slots__]
    statement = sa.select(*columns).where(token_samples.c.collection_id == collection_id)
    if fingerprint is not None:
        statement = statement.where(token_samples.c.fingerprint == fingerprint)
    rows = connection.execute(statement.order_by(token_samples.c.id.desc()))
    return [TokenSampleRow(*row) for row in rows]


def files_of(connection: sa.Connection, collection_id: int) -> set[str]:
    """The hashes of the segments that hold a collection's samples."""
    statement = sa.select(token_samples.c.sha256).where(token_samples.c.collection_id == collection_id)
    return set(connection.execute(statement).scalars())


def replace(connection: sa.Connection, row: TokenSampleRow) -> None:
    """Put a sample in the place of its encoder's and layer's."""
    same = sa.and_(
        token_samples.c.collection_id == row.collection_id,
        token_samples.c.fingerprint == row.fingerprint,
        token_samples.c.layer == row.layer,
    )
    connection.execute(token_samples.delete().where(same))
    connection.execute(token_samples.insert().values(asdict(row)))
