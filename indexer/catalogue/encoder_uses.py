"""Which encoders the catalogue knows, and which generations are embedded by them."""

from dataclasses import dataclass

import sqlalchemy as sa

from nearsay.indexer.catalogue.generations import EncoderRow, GenerationState
from nearsay.indexer.catalogue.tables import collections, encoders, generations

__all__ = ["EncoderUse", "KnownEncoder", "known_encoders"]


@dataclass(frozen=True, slots=True)
class EncoderUse:
    """A generation that an encoder made."""

    collection: str
    generation: int
    state: GenerationState


@dataclass(frozen=True, slots=True)
class KnownEncoder:
    """An encoder with its generations, by collection and number."""

    encoder: EncoderRow
    uses: tuple[EncoderUse, ...]


def known_encoders(connection: sa.Connection) -> list[KnownEncoder]:
    """Every encoder that ever embedded something here, in the order in which they came."""
    rows = connection.execute(sa.select(encoders).order_by(encoders.c.id)).mappings()
    known = [EncoderRow(**(dict(row) | {"lineage": tuple(row["lineage"])})) for row in rows]
    uses: dict[int, list[EncoderUse]] = {}
    found = connection.execute(
        sa.select(generations.c.encoder_id, collections.c.name, generations.c.number, generations.c.state)
        .join(collections, collections.c.id == generations.c.collection_id)
        .order_by(collections.c.name, generations.c.number)
    )
    for encoder, collection, number, state in found:
        uses.setdefault(encoder, []).append(EncoderUse(collection, number, GenerationState(state)))
    return [KnownEncoder(row, tuple(uses.get(row.id, ()))) for row in known]
