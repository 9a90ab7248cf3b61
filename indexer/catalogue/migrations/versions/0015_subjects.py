"""What a job is about.

Revision: 0015
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the column; of jobs that were started before, nobody wrote it down."""
    json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
    op.add_column("runs", sa.Column("subject", json, nullable=True))
