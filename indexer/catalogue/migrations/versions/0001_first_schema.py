"""The first schema.

Revision: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None

JSON = sa.JSON().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "collections",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("chunking", sa.String(60), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("compactions", sa.BigInteger, nullable=False),
        sa.Column("next_document", sa.BigInteger, nullable=False),
        sa.Column("next_passage", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "encoders",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("dimension", sa.Integer, nullable=False),
        sa.Column("max_tokens", sa.Integer, nullable=False),
        sa.Column("normalised", sa.Boolean, nullable=False),
        sa.Column("lineage", JSON, nullable=False),
        sa.UniqueConstraint("fingerprint"),
    )
    op.create_table(
        "libraries",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("created_at", sa.String(32), nullable=False),
    )
    op.create_table(
        "documents",
        sa.Column("collection_id", sa.Integer, sa.ForeignKey("collections.id"), primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("metadata", JSON, nullable=False),
        sa.Column("content_hash", sa.String(32), nullable=False),
        sa.Column("row_hash", sa.String(32), nullable=False),
        sa.Column("source", sa.Text, nullable=True),
        sa.Column("named_by_content", sa.Boolean, nullable=False),
        sa.Column("added_at", sa.String(32), nullable=False),
        sa.Column("updated_at", sa.String(32), nullable=False),
        sa.UniqueConstraint("collection_id", "id"),
        sa.Index(None, "collection_id", "source"),
    )
    op.create_table(
        "generations",
        sa.Column("collection_id", sa.Integer, sa.ForeignKey("collections.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("encoder_id", sa.Integer, sa.ForeignKey("encoders.id"), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("embedded_through", sa.BigInteger, nullable=False),
        sa.Column("truncated", sa.BigInteger, nullable=False),
        sa.Column("plan", JSON, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("promoted_at", sa.String(32), nullable=True),
        sa.CheckConstraint("state IN ('building', 'ready', 'live', 'retired')", name="state"),
    )
    op.create_index(
        "uq_generations_live",
        "generations",
        ["collection_id"],
        unique=True,
        sqlite_where=sa.text("state = 'live'"),
        postgresql_where=sa.text("state = 'live'"),
    )
    op.create_table(
        "removed_passages",
        sa.Column(
            "sequence",
            sa.BigInteger().with_variant(sa.Integer, "sqlite"),
            primary_key=True,
            autoincrement=True,
        ),
        sa.Column("collection_id", sa.Integer, sa.ForeignKey("collections.id"), nullable=False),
        sa.Column("passage", sa.BigInteger, nullable=False),
        sa.Index(None, "collection_id", "sequence"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "passages",
        sa.Column("collection_id", sa.Integer, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("document", sa.BigInteger, nullable=False),
        sa.Column("ordinal", sa.Integer, nullable=False),
        sa.Column("start", sa.Integer, nullable=False),
        sa.Column("end", sa.Integer, nullable=False),
        sa.Column("text_hash", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "document"], ["documents.collection_id", "documents.number"]
        ),
        sa.Index(None, "collection_id", "document"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "segments",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("collection_id", sa.Integer, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("kind", sa.String(10), nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("first_passage", sa.BigInteger, nullable=False),
        sa.Column("last_passage", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.CheckConstraint("kind IN ('vectors', 'index')", name="kind"),
        sa.CheckConstraint("state IN ('current', 'quarantined')", name="state"),
        sa.ForeignKeyConstraint(
            ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
        ),
        sa.Index(None, "collection_id", "generation"),
        sqlite_autoincrement=True,
    )
