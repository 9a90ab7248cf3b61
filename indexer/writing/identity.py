"""Document ids, and detection of ids that occur twice in one run."""

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Self

from nearsay.data.document import Document
from nearsay.data.errors import DiskFullError
from nearsay.data.faults import Fault
from nearsay.data.python_rows import ROWS_NAME
from nearsay.data.reading import Reading
from nearsay.indexer.catalogue.passages import PreparedDocument, prepare

_BLOCK = 1000  # documents whose ids are looked up together
_FIRST = 160_000  # ids that are kept in memory: a set takes a tenth of the database's time, but more room
_FIRST_CHARACTERS = 8_000_000  # and characters of them, whichever is first


class Names:
    """The ids seen in one run: the first ones in a set, further ones in a database that uses the disk."""

    def __init__(self) -> None:
        self._first: set[str] = set()
        self._room = _FIRST_CHARACTERS  # characters that the first may still have
        # An empty name is a private file that SQLite makes when it must and removes on closing.
        self._more = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for setting in ("cache_size = -49152", "journal_mode = OFF", "synchronous = OFF"):
            self._more.execute(f"PRAGMA {setting}")
        self._more.execute("CREATE TABLE met (id TEXT PRIMARY KEY, block INTEGER NOT NULL) WITHOUT ROWID")
        self._more.execute("BEGIN")  # never committed: that would walk through every page in memory
        self._copies: Counter[str] = Counter()
        self._blocks = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._more.close()

    def __contains__(self, id_: str) -> bool:
        if id_ in self._first:
            return True
        return self._more.execute("SELECT 1 FROM met WHERE id = ?", (id_,)).fetchone() is not None

    def meet(self, id_: str) -> bool:
        """Add an id. Returns whether it is new."""
        return bool(self.meet_all([id_]))

    def meet_all(self, ids: Collection[str]) -> set[str]:
        """Add several ids. Returns the new ones. DiskFullError if there is no room for them."""
        given = set(ids) - self._first
        if self._room > 0 and len(self._first) < _FIRST:
            self._first |= given
            self._room -= sum(map(len, given))
            return given
        self._blocks += 1
        block = self._blocks
        statement = f"INSERT OR IGNORE INTO met VALUES (?, {block})"  # noqa: S608 - a number of our own
        try:
            entered = self._more.executemany(statement, zip(given, strict=True)).rowcount
        except sqlite3.OperationalError as error:
            raise DiskFullError(
                f"the ids of so large an input need room in SQLite's temporary folder ({error}). Free some "
                "space, or name another folder by SQLITE_TMPDIR, and run the same command again"
            ) from error
        if entered == len(given):
            return given
        own = "SELECT 1 FROM met WHERE id = ? AND block = ?"
        return {id_ for id_ in given if self._more.execute(own, (id_, block)).fetchone() is not None}

    def copy_of(self, name: str) -> str:
        """A name for a further copy of `name`: `name-2`, then `name-3`, and so on."""
        self._copies[name] += 1
        return f"{name}-{self._copies[name] + 1}"


def with_ids(reading: Reading, names: Names) -> Iterator[PreparedDocument | Fault]:
    """Give each document an id. A second document with the same id is a fault; the first is kept.

    A document without an id is named by its source and a hash of its content, so that a line keeps its id
    when other lines are added or removed. Copies of one line are numbered: `faq.txt#9f86d081884c7d65`,
    `faq.txt#9f86d081884c7d65-2`.
    """
    files = {source.document_source: source.name for source in reading.sources}  # as the user gave them
    for block in _blocks(reading):
        yield from _settled(block, names, files)


def _blocks(reading: Reading) -> Iterator[list[PreparedDocument | Fault]]:
    """Yield prepared documents in lists, and those before an error before the error is raised."""
    block: list[PreparedDocument | Fault] = []
    try:
        for item in reading:
            block.append(item if isinstance(item, Fault) else prepare(item))
            if len(block) == _BLOCK:
                yield block
                block = []
    except Exception:
        yield block
        raise
    yield block


def _settled(
    block: list[PreparedDocument | Fault], names: Names, files: Mapping[str | None, str]
) -> Iterator[PreparedDocument | Fault]:
    ids = [item.id for item in block if not isinstance(item, Fault)]
    new = names.meet_all(ids)
    if len(new) == len(ids):
        yield from block
        return
    for item in block:
        if isinstance(item, Fault):
            yield item
        elif item.id in new:
            new.remove(item.id)
            yield item
        elif not item.named_by_content:
            yield _repeated(item.document, item.id, files)
        else:
            copy = names.copy_of(item.id)
            if names.meet(copy) or copy in new:
                new.discard(copy)
                yield replace(item, id=copy)
            else:
                yield _repeated(item.document, copy, files)


def _repeated(document: Document, id_: str, files: Mapping[str | None, str]) -> Fault:
    file = files.get(document.source, document.source or ROWS_NAME)
    return Fault(file, document.line, f"id '{id_}' was used before in this input; the first is kept")
