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
        "collections", sa.Column("next_cluster", sa.Integer, server_default=sa.text("1"), nullable=False)
    )
    op.create_table(
        "gates",
        sa.Column(
            "collection_id",
            sa.Integer,
            sa.ForeignKey("collections.id"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("action", sa.String(10), nullable=False),
        sa.Column("threshold", sa.Double, nullable=False),
        sa.Column("checked_through", sa.BigInteger, nullable=False),
        sa.CheckConstraint("action IN ('report', 'skip', 'link')", name="action"),
    )
    op.create_table(
        "clusterings",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("collection_id", sa.Integer, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("method", sa.String(20), nullable=False),
        sa.Column("parameters", Json, nullable=False),
        sa.Column("report", Json, nullable=False),
        sa.Column("passages", sa.BigInteger, nullable=False),
        sa.Column("through", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
        ),
        sa.UniqueConstraint("collection_id", "generation"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "maps",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("collection_id", sa.Integer, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("parameters", Json, nullable=False),
        sa.Column("points", sa.LargeBinary, nullable=False),
        sa.Column("passages", sa.BigInteger, nullable=False),
        sa.Column("through", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
        ),
        sa.UniqueConstraint("collection_id", "generation"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "near_duplicates",
        sa.Column("collection_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("document", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("original", sa.BigInteger, nullable=False),
        sa.Column("cosine", sa.Double, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "document"], ["documents.collection_id", "documents.number"]
        ),
        sa.ForeignKeyConstraint(
            ["collection_id", "original"], ["documents.collection_id", "documents.number"]
        ),
        sa.Index(None, "collection_id", "original"),
    )
    op.create_table(
        "cluster_members",
        sa.Column(
            "clustering", sa.Integer, sa.ForeignKey("clusterings.id"), primary_key=True, autoincrement=False
        ),
        sa.Column("passage", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("cluster", sa.Integer, nullable=False),
        sa.Column("cosine", sa.Double, nullable=False),
        sa.Index(None, "clustering", "cluster", "passage"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "clusters",
        sa.Column(
            "clustering", sa.Integer, sa.ForeignKey("clusterings.id"), primary_key=True, autoincrement=False
        ),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("parent", sa.Integer, nullable=True),
        sa.Column("level", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("named_by_user", sa.Boolean, nullable=False),
        sa.Column("terms", Json, nullable=False),
        sa.Column("central", Json, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("cohesion", sa.Double, nullable=False),
        sa.Column("silhouette", sa.Double, nullable=True),
    )
