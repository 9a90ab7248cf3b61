"""The argument that names a collection, and what the shell completes it with."""

from pathlib import Path

import click

__all__ = ["collection_argument"]


def _names(ctx: click.Context, _: click.Parameter, beginning: str) -> list[str]:
    """The names of the library's collections; none where its catalogue cannot be read."""
    home = Path(ctx.params.get("library") or "library")
    if not (home / "library.json").is_file():
        return []
    import sqlalchemy as sa

    from nearsay.data.errors import NearsayError
    from nearsay.indexer.catalogue import collections
    from nearsay.indexer.catalogue.database import Database

    # `Library.open` would bring an old catalogue up to date, for which nobody who presses a key waits.
    inside = sa.URL.create("sqlite", database=str(home / "catalogue.sqlite"))
    try:
        catalogue = Database(ctx.params.get("database") or inside)
        try:
            with catalogue.reading() as connection:
                return [name for name in collections.names(connection) if name.startswith(beginning)]
        finally:
            catalogue.close()
    except (NearsayError, sa.exc.SQLAlchemyError):
        return []


collection_argument = click.argument("collection", shell_complete=_names)
