"""The queries that a plan was measured with.

Revision: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Make the table; of earlier plans the queries are not there any more."""
    op.create_table(
        "plan_queries",
        sa.Column("collection_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("generation", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("vectors", sa.LargeBinary, nullable=False),
        sa.ForeignKeyConstraint(
            ["collection_id", "generation"], ["generations.collection_id", "generations.number"]
        ),
    )
