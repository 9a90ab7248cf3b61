"""The words of each collection's passages, for lexical search.

Revision: 0002
"""

import sqlalchemy as sa
from alembic import op

from nearsay.indexer.hybrid import lexical_rows

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make and fill a lexical table for every collection there is."""
    connection = op.get_bind()
    lexical_rows.create_configuration(connection)
    for key in connection.execute(sa.text("SELECT id FROM collections ORDER BY id")).scalars().all():
        lexical_rows.create_table(connection, key)
        lexical_rows.fill_table(connection, key)
