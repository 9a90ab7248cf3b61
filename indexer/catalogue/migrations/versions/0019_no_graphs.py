"""Graphs are no kind of index any more: lists are built in a tenth of their time.

Revision: 0019
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0019"
down_revision = "0018"

_GRAPHS = {"hnsw", "hnsw-sq8"}
_SEARCHED = {"kind": "exact", "shape": {}, "parameters": {}, "measured_at": 0, "queries": "", "check": None}

generations = sa.table(
    "generations",
    sa.column("collection_id", sa.Integer),
    sa.column("number", sa.Integer),
    sa.column("plan", sa.JSON().with_variant(JSONB(), "postgresql")),
)
segments = sa.table(
    "segments",
    sa.column("collection_id", sa.Integer),
    sa.column("generation", sa.Integer),
    sa.column("kind", sa.String),
)


def upgrade() -> None:
    """What a graph answered is searched exactly until it is indexed again; the graphs leave all reports.

    The file of a graph is an orphan, as after a crash: `nearsay index compact` removes it.
    """
    connection = op.get_bind()
    for collection, number, plan in connection.execute(sa.select(generations)).all():
        report = [row for row in plan.get("report", ()) if row.get("kind") not in _GRAPHS]
        kept = {**plan, "report": report}
        if plan.get("kind") in _GRAPHS:
            kept |= _SEARCHED | {"report": [], "note": ""}
            of_it = (segments.c.collection_id == collection) & (segments.c.generation == number)
            connection.execute(segments.delete().where(of_it, segments.c.kind == "index"))
        if kept != plan:
            of_it = (generations.c.collection_id == collection) & (generations.c.number == number)
            connection.execute(generations.update().where(of_it).values(plan=kept))
