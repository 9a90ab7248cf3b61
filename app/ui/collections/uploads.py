"""Uploaded files in the library's own folder, from the upload until they are indexed."""

import re
import secrets
import shutil
import time
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from nearsay.app.runs import Run, RunState
from nearsay.data.durable import replacing
from nearsay.data.errors import NearsayError

__all__ = ["Upload", "Uploads", "safe_name"]

_UNUSED_SECONDS: Final = 24 * 3600  # after which files that nobody indexed are removed
_FAILED_SECONDS: Final = 14 * 24 * 3600  # those of a run that failed or was stopped: it can be resumed
_TOKEN: Final = re.compile(r"[0-9a-f]{16}")
_LONGEST: Final = 120  # characters of a name
_BLOCK: Final = 2**20


@dataclass(frozen=True, slots=True)
class Upload:
    """One file as the browser sent it."""

    name: str  # as the visitor's machine calls it: not to be trusted
    content: BinaryIO


class Uploads:
    """`LIBRARY/uploads`, with a folder for each time that somebody uploaded."""

    def __init__(self, library: Path) -> None:
        """Nothing is made yet."""
        self.folder = library / "uploads"

    def keep(self, files: Sequence[Upload]) -> Path:
        """Write the files to a folder of their own, each whole or not at all; the folder.

        DiskFullError, NearsayError if they cannot be written: then none is kept.
        """
        place = self.folder / secrets.token_hex(8)
        try:
            taken: set[str] = set()
            for file in files:
                name = _free(safe_name(file.name), taken)
                taken.add(name.casefold())
                file.content.seek(0)
                with replacing(place / name) as stream:
                    shutil.copyfileobj(file.content, stream, _BLOCK)
        except NearsayError:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return place

    def remove(self, place: Path) -> None:
        """Remove one of the folders; anything else is left alone."""
        if place.parent == self.folder and _TOKEN.fullmatch(place.name):
            shutil.rmtree(place, ignore_errors=True)

    def clear(self, runs: Iterable[Run], now: float | None = None) -> int:
        """Remove what was indexed, and what was forgotten; how many folders.

        runs: every run of the library. Those that failed or were stopped keep their files for two weeks, so
              that they can be resumed; files that no run was started for stay a day.
        """
        if not self.folder.is_dir():
            return 0
        moment = time.time() if now is None else now
        using: dict[str, list[RunState]] = {}
        for run in runs:
            for argument in run.arguments:
                path = Path(argument)
                if path.parent == self.folder:
                    using.setdefault(path.name, []).append(run.state)
        removed = 0
        for place in self.folder.iterdir():
            if _TOKEN.fullmatch(place.name) and _is_over(place, using.get(place.name, []), moment):
                self.remove(place)
                removed += 1
        return removed


def safe_name(name: str) -> str:
    """A file's name without its folders and without anything that a path could be made of; its suffix stays.

    Files without an id of their own are known by it, so the same name always gives the same.
    """
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    kept = "".join(each if each.isprintable() and each not in '<>:"|?*' else "_" for each in last)
    kept = kept.strip().lstrip(".-").strip()  # hidden files are passed over, and '-' begins an option
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


def _is_over(place: Path, states: Sequence[RunState], now: float) -> bool:
    if any(not state.ended for state in states):
        return False
    if RunState.DONE in states:
        return True
    try:
        age = now - place.stat().st_mtime
    except FileNotFoundError:  # another visit cleared it
        return False
    return age > (_FAILED_SECONDS if states else _UNUSED_SECONDS)
