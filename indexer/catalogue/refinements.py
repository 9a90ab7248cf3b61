"""Refinements in the catalogue: learned changes to how a generation's queries are searched."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nearsay.indexer.catalogue.store import now
from nearsay.indexer.catalogue.tables import refinements
from nearsay.training.sentence.query_adapter import QueryAdapter


@dataclass(frozen=True, slots=True, eq=False)
class Refinement:
    """A change to a generation's queries. The newest one that was not undone is live."""

    number: int  # never used for another
    adapter: QueryAdapter | None  # None: query vectors are unchanged
    word_weight: float | None  # in the fusion; None: the default
    report: dict[str, Any]  # what it was learned from and what was measured
    created_at: str

    @property
    def said(self) -> str:
        """A description for the lineage of hits."""
        return str(self.report.get("said", "queries refined"))


def add(connection: sa.Connection, collection_id: int, generation: int, new: Refinement) -> int:
    """Make a refinement live. Returns its number. The caller notifies the readers."""
    values = {
        "collection_id": collection_id,
        "generation": generation,
        "adapter": None if new.adapter is None else new.adapter.to_bytes(),
        "word_weight": new.word_weight,
        "report": new.report,
        "undone": False,
        "created_at": now(),
    }
    statement = refinements.insert().values(values).returning(refinements.c.id)
    return int(connection.execute(statement).scalar_one())


def live_of(
    connection: sa.Connection, collection_id: int, generation: int, known: Refinement | None = None
) -> Refinement | None:
    """A generation's live refinement; `known`: one that was read before and need not be read again."""
    newest = connection.execute(
        sa.select(refinements.c.id)
        .where(
            refinements.c.collection_id == collection_id,
            refinements.c.generation == generation,
            refinements.c.undone.is_(False),
        )
        .order_by(refinements.c.id.desc())
        .limit(1)
    ).scalar_one_or_none()
    if newest is None or (known is not None and known.number == newest):
        return None if newest is None else known
    row = connection.execute(sa.select(refinements).where(refinements.c.id == newest)).one()
    adapter = None if row.adapter is None else QueryAdapter.from_bytes(row.adapter)
    return Refinement(row.id, adapter, row.word_weight, dict(row.report), row.created_at)


def undo(connection: sa.Connection, number: int) -> None:
    """Undo a refinement; the one before it, if any, is live again."""
    connection.execute(refinements.update().where(refinements.c.id == number).values(undone=True))
