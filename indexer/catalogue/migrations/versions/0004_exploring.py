"""Clusterings, maps, and what the gate for near-duplicates found.

Revision: 0004
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"

Json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Make the tables; nothing was explored yet."""
    op.add_column(
        "collections", sa.Column("next_cluster", sa.Integer(), server_default=sa.text("1"), nullable=False)
    )
    op.create_table(
        "gates",
        sa.Column("collection_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("action", sa.String(length=10), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("checked_through", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("action IN ('report', 'skip', 'link')", name=op.f("ck_gates_action")),
        sa.ForeignKeyConstraint(["collection_id"], ["collections.id"], name=op.f("fk_gates_collection_id")),
        sa.PrimaryKeyConstraint("collection_id", name=op.f("pk_gates")),
    )
    op.create_table(
        "clusterings",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("method", sa.String(length=20), nullable=False),
        sa.Column("parameters", Json, nullable=False),
        sa.Column("report", Json, nullable=False),
        sa.Column("passages", sa.BigInteger(), nullable=False),
        sa.Column("through", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "generation"],
            ["generations.collection_id", "generations.number"],
            name=op.f("fk_clusterings_collection_id_generation"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusterings")),
        sa.UniqueConstraint(
            "collection_id", "generation", name=op.f("uq_clusterings_collection_id_generation")
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "maps",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("parameters", Json, nullable=False),
        sa.Column("points", sa.LargeBinary(), nullable=False),
        sa.Column("passages", sa.BigInteger(), nullable=False),
        sa.Column("through", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "generation"],
            ["generations.collection_id", "generations.number"],
            name=op.f("fk_maps_collection_id_generation"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_maps")),
        sa.UniqueConstraint("collection_id", "generation", name=op.f("uq_maps_collection_id_generation")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "near_duplicates",
        sa.Column("collection_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("original", sa.BigInteger(), nullable=False),
        sa.Column("cosine", sa.Double(), nullable=False),
        sa.Column("created_at", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "document"],
            ["documents.collection_id", "documents.number"],
            name=op.f("fk_near_duplicates_collection_id_document"),
        ),
        sa.ForeignKeyConstraint(
            ["collection_id", "original"],
            ["documents.collection_id", "documents.number"],
            name=op.f("fk_near_duplicates_collection_id_original"),
        ),
        sa.PrimaryKeyConstraint("collection_id", "document", name=op.f("pk_near_duplicates")),
    )
    op.create_index(
        op.f("ix_near_duplicates_collection_id_original"),
        "near_duplicates",
        ["collection_id", "original"],
        unique=False,
    )
    op.create_table(
        "cluster_members",
        sa.Column("clustering", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("passage", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cluster", sa.Integer(), nullable=False),
        sa.Column("cosine", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["clustering"], ["clusterings.id"], name=op.f("fk_cluster_members_clustering")
        ),
        sa.PrimaryKeyConstraint("clustering", "passage", name=op.f("pk_cluster_members")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        op.f("ix_cluster_members_clustering_cluster_passage"),
        "cluster_members",
        ["clustering", "cluster", "passage"],
        unique=False,
    )
    op.create_table(
        "clusters",
        sa.Column("clustering", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("parent", sa.Integer(), nullable=True),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("named_by_user", sa.Boolean(), nullable=False),
        sa.Column("terms", Json, nullable=False),
        sa.Column("central", Json, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("cohesion", sa.Double(), nullable=False),
        sa.Column("silhouette", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["clustering"], ["clusterings.id"], name=op.f("fk_clusters_clustering")),
        sa.PrimaryKeyConstraint("clustering", "number", name=op.f("pk_clusters")),
    )
