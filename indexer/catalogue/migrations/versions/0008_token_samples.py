"""Samples of tokens, as a layer of an encoder has them.

Revision: 0008
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"

Json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Make the table; no encoder was looked into yet."""
    op.create_table(
        "token_samples",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("layer", sa.Integer(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("parameters", Json, nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_token_samples_collection_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_token_samples")),
        sa.UniqueConstraint(
            "collection_id",
            "fingerprint",
            "layer",
            name=op.f("uq_token_samples_collection_id_fingerprint_layer"),
        ),
        sqlite_autoincrement=True,
    )
