"""Who judged, with what note, and passages of which nobody can say whether they answer.

Revision: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add the columns; whoever judged so far could say."""
    op.add_column(
        "judgements", sa.Column("unsure", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.add_column("judgements", sa.Column("rater", sa.Text(), nullable=True))
    op.add_column("judgements", sa.Column("note", sa.Text(), nullable=True))
