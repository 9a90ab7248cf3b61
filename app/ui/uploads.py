"""Uploaded files: where they are stored, and for how long."""

import contextlib
import hashlib
import re
import secrets
import shutil
import time
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from nearsay.app.jobs import Job, JobState
from nearsay.data.durable import TEMPORARY_PREFIX, replacing
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.read_options import readable_suffixes

_UNUSED_SECONDS: Final = 24 * 3600  # files that were not indexed are deleted after this time
_FAILED_SECONDS: Final = 14 * 24 * 3600  # the same for files of a failed or stopped job, which can be resumed
_TOKEN: Final = re.compile(r"[0-9a-f]{16}")
_LONGEST: Final = 120  # characters of a name
_BLOCK: Final = 2**20


class Uploads:
    """`LIBRARY/uploads`, with a folder for each upload."""

    def __init__(self, library: Path) -> None:
        """Creates nothing yet."""
        self.folder = library / "uploads"

    def keep(self, files: Sequence[tuple[str, BinaryIO]]) -> Path:
        """Write the files atomically to a new folder and return it.

        files: name and content of each; the name comes from the visitor's machine and is not trusted

        Raises DiskFullError or NearsayError if they cannot be written; then none is kept.
        """
        place = self.folder / secrets.token_hex(8)
        try:
            taken: set[str] = set()
            for given, content in files:
                name = _free(safe_name(given), taken)
                taken.add(name.casefold())
                content.seek(0)
                with replacing(place / name) as stream:
                    shutil.copyfileobj(content, stream, _BLOCK)
        except NearsayError:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return place

    def remove(self, place: Path) -> None:
        """Delete one of the folders; any other path is ignored."""
        if place.parent == self.folder and _TOKEN.fullmatch(place.name):
            shutil.rmtree(place, ignore_errors=True)

    def clear(self, jobs: Iterable[Job], now: float | None = None) -> int:
        """Delete files that were indexed or abandoned. Returns the number of folders.

        jobs: all jobs of the library. Files of failed or stopped ones are kept for two weeks, so that they
              can be resumed; files without a job for a day
        """
        if not self.folder.is_dir():
            return 0
        moment = time.time() if now is None else now
        using: dict[str, list[JobState]] = {}
        for job in jobs:
            for argument in job.arguments:
                path = Path(argument)
                if path.parent == self.folder:
                    using.setdefault(path.name, []).append(job.state)
        removed = 0
        for place in self.folder.iterdir():
            if _TOKEN.fullmatch(place.name) and _is_over(place, using.get(place.name, []), moment):
                self.remove(place)
                removed += 1
        return removed


def safe_name(name: str) -> str:
    """Return a file's name without folders and characters that are special in paths; its suffix is kept.

    Deterministic, because documents without an id are identified by their file's name.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    kept = "".join(each if each.isprintable() and each not in '<>:"|?*' else "_" for each in last)
    kept = kept.strip().lstrip(".-").strip()  # hidden files are skipped, and '-' begins an option
    suffixes = "".join(Path(kept).suffixes[-2:]) if kept.lower().endswith(".gz") else Path(kept).suffix
    stem = kept[: len(kept) - len(suffixes)] if suffixes else kept
    while len(stem) > 1 and len((stem + suffixes).encode()) > _LONGEST:
        stem = stem[:-1]
    return (stem or "file") + suffixes


def _free(name: str, taken: set[str]) -> str:
    stem, dot, suffix = name.partition(".")
    count, found = 2, name
    while found.casefold() in taken:
        found = f"{stem}-{count}{dot}{suffix}"
        count += 1
    return found


def _is_over(place: Path, states: Sequence[JobState], now: float) -> bool:
    if any(not state.ended for state in states):
        return False
    if JobState.DONE in states:
        return True
    try:
        age = now - place.stat().st_mtime
    except FileNotFoundError:  # another visit cleared it
        return False
    return age > (_FAILED_SECONDS if states else _UNUSED_SECONDS)


# For the browser's file dialog; the server checks by content.
UPLOAD_TYPES: Final = (*readable_suffixes().replace(".", "").split(", "), "gz")


class TrainingFiles:
    """`LIBRARY/uploads/training`, with a folder for each distinct content, kept until removed.

    A training that is resumed, or repeated with other settings, needs its files.
    """

    def __init__(self, library: Path) -> None:
        """Creates nothing yet."""
        self.folder = library / "uploads" / "training"

    def keep(self, name: str, content: BinaryIO) -> Path:
        """Write a file, unless it exists already, and return its path.

        name: from the visitor's machine, not trusted

        Raises DiskFullError or NearsayError if it cannot be written; then nothing is kept.
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
        """Store a file or folder that `write` creates; returns its path, the same for the same content."""
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

    def list(self) -> list[Path]:
        """Return the files, newest first."""
        files = (
            file
            for place in (self.folder.iterdir() if self.folder.is_dir() else ())
            if place.is_dir() and not place.name.startswith(TEMPORARY_PREFIX)
            for file in place.iterdir()
            if file.is_file() and not file.name.startswith(TEMPORARY_PREFIX)
        )
        return sorted(files, key=lambda file: (file.stat().st_mtime, file.name), reverse=True)

    def remove(self, path: Path) -> None:
        """Delete a file. Raises BadInputError if it is none of these. Copies under other names are kept."""
        if path.parent.parent != self.folder:
            raise BadInputError(f"{path} was not uploaded here. Remove it where it is")
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            path.parent.rmdir()  # fails if it holds another file


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(folder).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
