"""SQLite is told that a document has few passages.

To remove a document it looks for passages that still name it. Without figures of its own, SQLite from 3.46
on looks for them among all passages of the collection, instead of by the index over documents.

Revision: 0018
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Give the one index the figures that ANALYZE would, except that a collection is taken to be small.

    That is what SQLite takes for granted; a true figure would change the plans of other statements.
    """
    if op.get_bind().dialect.name != "sqlite":
        return
    op.execute("ANALYZE sqlite_master")  # makes the table, where it is not there yet, and reads no other
    figures = sa.table("sqlite_stat1", sa.column("tbl"), sa.column("idx"), sa.column("stat"))
    few = {"tbl": "passages", "idx": "ix_passages_collection_id_document", "stat": "1000000 10 2"}
    op.execute(figures.delete().where(figures.c.tbl == "passages"))
    op.execute(figures.insert().values(few))
    op.execute("ANALYZE sqlite_master")  # reads them, for this connection; others read them when they open
