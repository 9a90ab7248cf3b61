"""What a training can begin with: encoders and BERTs that are bundled, made here, or used by collections."""

from pathlib import Path

import sqlalchemy as sa

from nearsay.app.ui.training.shelf import Shelf, made
from nearsay.indexer import Library
from nearsay.indexer.catalogue.tables import encoders
from nearsay.training.sentence.bundled import BUNDLED_NAME

__all__ = ["bases", "encoder_sources"]


def bases(library: Library) -> dict[str, str]:
    """Encoders, then BERTs: what a command takes, and what people call it."""
    return encoder_sources(library) | {
        str(bert.folder): f"{bert.name}, a BERT made here ({bert.told})"
        for bert in made(library.store.folder, Shelf.BERTS)
    }


def encoder_sources(library: Library, *, folders: bool = True) -> dict[str, str]:
    """The bundled encoder, those made here, and those of collections whose folders are still there.

    folders: whether the places of those of collections are told
    """
    found = {BUNDLED_NAME: f"{BUNDLED_NAME}, bundled"}
    for encoder in made(library.store.folder, Shelf.ENCODERS):
        found[str(encoder.folder)] = f"{encoder.name}, made here"
    with library.store.database.reading() as connection:
        rows = connection.execute(sa.select(encoders.c.name, encoders.c.source).order_by(encoders.c.id))
        for name, source in rows:
            if source not in found and Path(source).is_dir():
                found[source] = f"{name}, in {source}" if folders else name
    return found
