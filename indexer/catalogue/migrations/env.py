"""Alembic's entry point; `nearsay.indexer.catalogue.migrations.upgrade` hands it a connection."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes["tables"],  # names constraints and indexes
    transactional_ddl=False,  # the caller's transaction holds all of it
    render_as_batch=True,  # SQLite changes a table by copying it
)
context.run_migrations()
