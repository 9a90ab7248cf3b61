"""Ranges of passages that have a vector, above the watermark.

Revision: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the table; everything that is embedded lies below a watermark."""
    op.create_table(
        "embedded_ranges",
        sa.Column("collection_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("generation", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("first_passage", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("last_passage", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
        ),
        sqlite_with_rowid=False,
    )
