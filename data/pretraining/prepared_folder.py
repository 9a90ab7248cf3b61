"""The folder that a text is prepared into: claimed, cleared, and left empty when the preparation fails."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from nearsay.data.durable import TEMPORARY_PREFIX
from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.prepared_text import MANIFEST_NAME, TOKENIZER_NAME

__all__ = ["check_folder", "claimed", "cleared"]

_LOCK_NAME: Final = ".preparing.lock"


def check_folder(folder: Path) -> None:
    """Raise BadInputError if it is no folder, or holds what no preparation wrote."""
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"{folder} is a file; name a folder for the prepared text")
    strangers = (
        sorted(path.name for path in folder.iterdir() if not _is_ours(path.name)) if folder.exists() else []
    )
    if strangers:
        raise BadInputError(
            f"{folder} holds {strangers[0]}, which belongs to no prepared text; name an empty or a new folder"
        )


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make the folder if need be and keep other preparations waiting; BadInputError if it cannot be used."""
    from filelock import FileLock

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{folder} cannot be made ({error.strerror}). Name another folder") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInputError(f"{folder} may not be written by this user. Name another folder")
    with FileLock(folder / _LOCK_NAME):
        yield


@contextmanager
def cleared(folder: Path) -> Iterator[None]:
    """Begin without what an older preparation left, and leave nothing if the block fails."""
    _clear(folder)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # what failed is said; the next preparation clears the rest
            _clear(folder)
        raise


def _clear(folder: Path) -> None:
    """Take all files of a preparation away, the manifest first, so that the rest never opens."""
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.name != _LOCK_NAME and _is_ours(path.name):
            with suppress(FileNotFoundError):
                path.unlink()


def _is_ours(name: str) -> bool:
    return (
        name in {MANIFEST_NAME, TOKENIZER_NAME, _LOCK_NAME}
        or name.startswith(TEMPORARY_PREFIX)
        or (name.startswith("shard-") and name.endswith(".npy"))
    )
