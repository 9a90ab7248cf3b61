"""Declared fields and their values, for filters and facets over large collections.

Revision: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables; no collection has declared a field yet."""
    op.create_table(
        "declared_fields",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("collection_id", sa.Integer, sa.ForeignKey("collections.id"), nullable=False),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("declared_at", sa.String(32), nullable=False),
        sa.UniqueConstraint("collection_id", "path"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "field_values",
        sa.Column(
            "field", sa.Integer, sa.ForeignKey("declared_fields.id"), primary_key=True, autoincrement=False
        ),
        sa.Column("document", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("element", sa.Boolean, nullable=False),
        sa.Column("kind", sa.String(6), nullable=False),
        sa.Column("text", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=True),
        sa.Column("number", sa.Numeric(asdecimal=False), nullable=True),
        sqlite_with_rowid=False,
    )
    for name, columns, where in (
        ("text", ["text"], "text IS NOT NULL"),
        ("number", ["number", "kind"], "number IS NOT NULL"),
        ("kind", ["kind"], "kind IN ('true', 'false', 'other')"),
    ):
        op.create_index(
            f"ix_field_values_{name}",
            "field_values",
            ["field", "element", *columns, "document"],
            unique=False,
            sqlite_where=sa.text(where),
            postgresql_where=sa.text(where),
        )
