"""Columns that were read are kept, in the place of declared fields and their values.

Revision: 0017
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Make the table; filters over fields that were declared work on."""
    op.drop_table("field_values")
    op.drop_table("declared_fields")
    op.create_table(
        "columns",
        sa.Column(
            "collection_id",
            sa.Integer,
            sa.ForeignKey("collections.id"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("compactions", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
