"""Which documents were given other metadata, so that what was read of it is read again for them alone.

Revision: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

BigKey = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table; what was changed before is in nobody's memory."""
    op.create_table(
        "changed_documents",
        sa.Column("sequence", BigKey, autoincrement=True, nullable=False),
        sa.Column("collection_id", sa.Integer(), nullable=False),
        sa.Column("document", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id"], ["collections.id"], name=op.f("fk_changed_documents_collection_id")
        ),
        sa.PrimaryKeyConstraint("sequence", name=op.f("pk_changed_documents")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        op.f("ix_changed_documents_collection_id_sequence"),
        "changed_documents",
        ["collection_id", "sequence"],
    )
