"""Files to learn from that were uploaded, or written out of judgements: they stay until they are removed.

A training that is resumed, or made again with other settings, needs them still.
"""

import hashlib
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from nearsay.app.ui.collections.uploads import safe_name
from nearsay.data.durable import TEMPORARY_PREFIX, replacing
from nearsay.data.errors import BadInputError

__all__ = ["TrainingFile", "TrainingFiles"]

_BLOCK: Final = 2**20


@dataclass(frozen=True, slots=True)
class TrainingFile:
    """One of them."""

    name: str
    path: Path
    size: int  # bytes


class TrainingFiles:
    """`LIBRARY/uploads/training`, a folder for each different content."""

    def __init__(self, library: Path) -> None:
        """Nothing is made yet."""
        self.folder = library / "uploads" / "training"

    def keep(self, name: str, content: BinaryIO) -> Path:
        """Write a file, unless the same is there already; its place.

        name: as the visitor's machine calls it, not to be trusted. DiskFullError, NearsayError if it cannot
        be written: then nothing is.
        """
        content.seek(0)
        digest = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
        path = self.folder / digest[:16] / safe_name(name)
        if not path.is_file():
            content.seek(0)
            with replacing(path) as stream:
                shutil.copyfileobj(content, stream, _BLOCK)
        return path

    def written(self, name: str, write: Callable[[Path], object]) -> Path:
        """Let `write` make a file or folder of its own; its place, the same for the same content."""
        begun = self.folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(4)}"
        begun.mkdir(parents=True)
        try:
            write(begun / name)
            place = self.folder / _digest(begun)
            if not place.exists():
                begun.rename(place)
        finally:
            shutil.rmtree(begun, ignore_errors=True)
        return place / name

    def list(self) -> list[TrainingFile]:
        """The files, the newest first."""
        files = (
            file
            for place in (self.folder.iterdir() if self.folder.is_dir() else ())
            if place.is_dir() and not place.name.startswith(TEMPORARY_PREFIX)
            for file in place.iterdir()
            if file.is_file() and not file.name.startswith(TEMPORARY_PREFIX)
        )
        newest = sorted(files, key=lambda file: (file.stat().st_mtime, file.name), reverse=True)
        return [TrainingFile(file.name, file, file.stat().st_size) for file in newest]

    def remove(self, path: Path) -> None:
        """Remove one; BadInputError for what is none of them."""
        if path.parent.parent != self.folder:
            raise BadInputError(f"{path} was not uploaded here. Remove it where it is")
        shutil.rmtree(path.parent, ignore_errors=True)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(folder).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
