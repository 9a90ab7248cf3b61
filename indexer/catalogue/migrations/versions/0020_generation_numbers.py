"""Generations are numbered from a counter, so that the number of a dropped one is not given again.

Revision: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

collections = sa.table("collections", sa.column("id", sa.Integer), sa.column("next_generation", sa.Integer))
generations = sa.table("generations", sa.column("collection_id", sa.Integer), sa.column("number", sa.Integer))


def upgrade() -> None:
    """The next number is one above the highest that is there: of dropped ones nothing is known."""
    op.add_column(
        "collections", sa.Column("next_generation", sa.Integer, server_default=sa.text("1"), nullable=False)
    )
    last = sa.select(sa.func.max(generations.c.number)).where(generations.c.collection_id == collections.c.id)
    following = sa.func.coalesce(last.scalar_subquery(), 0) + 1
    op.get_bind().execute(collections.update().values(next_generation=following))
