"""What a document is called, and whether one run meets the same name twice."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import Self

from nearsay.data.document import Document
from nearsay.data.faults import Fault
from nearsay.data.python_rows import ROWS_NAME
from nearsay.data.reading import Reading
from nearsay.indexer.passage import content_hash

__all__ = ["Names", "with_ids"]


class Names:
    """The ids met in one run, in a temporary database that goes to disk when it outgrows 64 MB."""

    def __init__(self) -> None:
        # An empty name is a private file that SQLite makes when it must and removes on closing.
        self._met = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for setting in ("cache_size = -65536", "journal_mode = OFF", "synchronous = OFF"):
            self._met.execute(f"PRAGMA {setting}")
        self._met.execute("CREATE TABLE met (id TEXT PRIMARY KEY) WITHOUT ROWID")
        self._copies: Counter[str] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._met.close()

    def __contains__(self, id_: str) -> bool:
        return self._met.execute("SELECT 1 FROM met WHERE id = ?", (id_,)).fetchone() is not None

    def meet(self, id_: str) -> bool:
        """Remember an id; whether it is new."""
        return self._met.execute("INSERT OR IGNORE INTO met VALUES (?)", (id_,)).rowcount == 1

    def by_content(self, document: Document) -> str:
        """A name for a document whose source gave it none.

        The source with a hash of the content, so that a line keeps its name when other lines come or go;
        copies of one line are counted: `faq.txt#9f86d081884c7d65`, `faq.txt#9f86d081884c7d65-2`.
        """
        name = f"{document.source or ''}#{content_hash(document)[:16]}"
        if name not in self:
            return name
        self._copies[name] += 1
        return f"{name}-{self._copies[name] + 1}"


def with_ids(reading: Reading, names: Names) -> Iterator[tuple[str, Document] | Fault]:
    """Each document with its id; one whose id came before in this run is a fault, the first is kept."""
    files = {source.document_source: source.name for source in reading.sources}  # as the user gave them
    for item in reading:
        if isinstance(item, Fault):
            yield item
            continue
        id_ = item.id if item.id is not None else names.by_content(item)
        if names.meet(id_):
            yield id_, item
        else:
            file = files.get(item.source, item.source or ROWS_NAME)
            yield Fault(file, item.line, f"id '{id_}' was used before in this input; the first is kept")
