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
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("chunking", sa.String(length=60), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("compactions", sa.BigInteger(), nullable=False),
        sa.Column("next_document", sa.BigInteger(), nullable=False),
        sa.Column("next_passage", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_collections")),
        sa.UniqueConstraint("name", name=op.f("uq_collections_name")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "encoders",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("dimension", sa.Integer(), nullable=False),
        sa.Column("max_tokens", sa.Integer(), nullable=False),
        sa.Column("normalised", sa.Boolean(), nullable=False),
        sa.Column("lineage", JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_encoders")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_encoders_fingerprint")),
    )
    op.create_table(
        "libraries",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_libraries")),
    )
    op.create_table(
        "documents",
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("metadata", JSON, nullable=False),
        sa.Column("content_hash", sa.String(length=32), nullable=False),
        sa.Column("row_hash", sa.String(length=32), nullable=False),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("named_by_content", sa.Boolean(), nullable=False),
        sa.Column("added_at", sa.String(length=32), nullable=False),
        sa.Column("updated_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_documents_collection_id")
        ),
        sa.PrimaryKeyConstraint("collection_id", "number", name=op.f("pk_documents")),
        sa.UniqueConstraint("collection_id", "id", name=op.f("uq_documents_collection_id_id")),
    )
    op.create_index(
        op.f("ix_documents_collection_id_source"), "documents", ["collection_id", "source"], unique=False
    )
    op.create_table(
        "generations",
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("encoder_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("embedded_through", sa.BigInteger(), nullable=False),
        sa.Column("truncated", sa.BigInteger(), nullable=False),
        sa.Column("plan", JSON, nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.Column("promoted_at", sa.String(length=32), nullable=True),
        sa.CheckConstraint(
            "state IN ('building', 'ready', 'live', 'retired')", name=op.f("ck_generations_state")
        ),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_generations_collection_id")
        ),
        sa.ForeignKeyConstraint(["encoder_id"], ["encoders.id"], name=op.f("fk_generations_encoder_id")),
        sa.PrimaryKeyConstraint("collection_id", "number", name=op.f("pk_generations")),
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
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("passage", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_removed_passages_collection_id")
        ),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_removed_passages")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_removed_passages_collection_id_sequence"),
        "removed_passages",
        ["collection_id", "sequence"],
        unique=False,
    )
    op.create_table(
        "passages",
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("document", sa.BigInteger(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("start", sa.Integer(), nullable=False),
        sa.Column("end", sa.Integer(), nullable=False),
        sa.Column("text_hash", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "document"],
            ["documents.collection_id", "documents.number"],
            name=op.f("fk_passages_collection_id_document"),
        ),
        sa.PrimaryKeyConstraint("collection_id", "number", name=op.f("pk_passages")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_passages_collection_id_document"), "passages", ["collection_id", "document"], unique=False
    )
    op.create_table(
        "segments",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("first_passage", sa.BigInteger(), nullable=False),
        sa.Column("last_passage", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.CheckConstraint("kind IN ('vectors', 'index')", name=op.f("ck_segments_kind")),
        sa.CheckConstraint("state IN ('current', 'quarantined')", name=op.f("ck_segments_state")),
        sa.ForeignKeyConstraint(
            ["collection_id", "generation"],
            ["generations.collection_id", "generations.number"],
            name=op.f("fk_segments_collection_id_generation"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_segments")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_segments_collection_id_generation"),
        "segments",
        ["collection_id", "generation"],
        unique=False,
    )
