"""How queries are searched for in a generation, learned from judgements.

Revision: 0012
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"

Json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Make the table; nothing was refined so far."""
    op.create_table(
        "refinements",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("collection_id", sa.Integer, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("adapter", sa.LargeBinary, nullable=True),
        sa.Column("word_weight", sa.Double, nullable=True),
        sa.Column("report", Json, nullable=False),
        sa.Column("undone", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
        ),
        sa.Index(None, "collection_id", "generation"),
        sqlite_autoincrement=True,
    )
