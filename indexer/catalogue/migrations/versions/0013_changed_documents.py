"""Which documents were given other metadata, so that what was read of it is read again for them alone.

Revision: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

BigKey = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the table; what was changed before is in nobody's memory."""
    op.create_table(
        "changed_documents",
        sa.Column("sequence", BigKey, primary_key=True, autoincrement=True),
        sa.Column("collection_id", sa.Integer, sa.ForeignKey("collections.id"), nullable=False),
        sa.Column("document", sa.BigInteger, nullable=False),
        sa.Index(None, "collection_id", "sequence"),
        sqlite_autoincrement=True,
    )
