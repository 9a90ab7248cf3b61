"""Jobs: long work in processes of its own, in the table `runs`.

Revision: 0006
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"

Json = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    """Make the table; nothing was run yet."""
    op.create_table(
        "runs",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("arguments", Json, nullable=False),
        sa.Column("working_folder", sa.Text, nullable=False),
        sa.Column("collection", sa.String(200), nullable=True),
        sa.Column("product", sa.Text, nullable=True),
        sa.Column("resumes", sa.BigInteger, nullable=True),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("pid", sa.Integer, nullable=True),
        sa.Column("host", sa.Text, nullable=True),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("started_at", sa.String(32), nullable=True),
        sa.Column("ended_at", sa.String(32), nullable=True),
        sa.Column("exit_code", sa.Integer, nullable=True),
        sa.Column("message", sa.Text, nullable=True),
        sa.CheckConstraint(
            "state IN ('waiting', 'running', 'done', 'failed', 'cancelled', 'interrupted')", name="state"
        ),
        sqlite_autoincrement=True,
    )
