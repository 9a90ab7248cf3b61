"""How a generation's vectors are stored.

Revision: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add the column; what is there was stored as float32."""
    op.add_column(
        "generations",
        sa.Column("dtype", sa.String(length=8), server_default=sa.text("'float32'"), nullable=False),
    )
