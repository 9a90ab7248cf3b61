"""What tells a writer that lost its lock from the one that came after it, and the order of promotions.

Revision: 0007
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"

Json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Add the columns; the promotions so far are numbered by their moments, which is all that is known."""
    op.add_column(
        "collections", sa.Column("fence", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    )
    op.add_column("collections", sa.Column("writer", Json, nullable=True))
    op.add_column("generations", sa.Column("promotion", sa.BigInteger(), nullable=True))
    rows = sa.table(
        "generations",
        sa.column("collection_id", sa.Integer),
        sa.column("number", sa.Integer),
        sa.column("state", sa.String),
        sa.column("promoted_at", sa.String),
        sa.column("promotion", sa.BigInteger),
    )
    connection = op.get_bind()
    # The live generation was promoted last, whatever the clock said.
    order = (rows.c.collection_id, rows.c.state == "live", rows.c.promoted_at, rows.c.number)
    wanted = sa.select(rows.c.collection_id, rows.c.number).where(rows.c.promoted_at.is_not(None))
    numbered: dict[int, int] = {}
    for collection_id, number in connection.execute(wanted.order_by(*order)).all():
        numbered[collection_id] = numbered.get(collection_id, 0) + 1
        where = (rows.c.collection_id == collection_id) & (rows.c.number == number)
        connection.execute(rows.update().where(where).values(promotion=numbered[collection_id]))
