"""Judgements: a person's word that a passage does or does not answer a query.

Revision: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the table; nothing was judged yet."""
    op.create_table(
        "judgements",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("collection_id", sa.Integer, sa.ForeignKey("collections.id"), nullable=False),
        sa.Column("query", sa.Text, nullable=False),
        sa.Column("query_hash", sa.String(32), nullable=False),
        sa.Column("document_id", sa.Text, nullable=False),
        sa.Column("passage", sa.Integer, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("text_hash", sa.String(32), nullable=False),
        sa.Column("relevant", sa.Boolean, nullable=False),
        sa.Column("rank", sa.Integer, nullable=True),
        sa.Column("score", sa.Double, nullable=True),
        sa.Column("mode", sa.String(10), nullable=True),
        sa.Column("encoder", sa.Text, nullable=True),
        sa.Column("fingerprint", sa.String(64), nullable=True),
        sa.Column("generation", sa.Integer, nullable=True),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.UniqueConstraint("collection_id", "query_hash", "document_id", "passage"),
        sqlite_autoincrement=True,
    )
