"""What was measured when a generation was promoted.

Revision: 0011
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column; nothing was measured so far."""
    json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    op.add_column("generations", sa.Column("gate", json, nullable=True))
