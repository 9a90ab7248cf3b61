"""What a document is called, and whether one run meets the same name twice."""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b

from nearsay.data.document import Document
from nearsay.data.faults import Fault
from nearsay.data.python_rows import ROWS_NAME
from nearsay.data.reading import Reading
from nearsay.indexer.passage import content_hash

__all__ = ["Names", "with_ids"]


class Names:
    """The ids met in one run, eight bytes of hash each: about 60 MB for a million."""

    def __init__(self) -> None:
        self._met: set[int] = set()
        self._copies: Counter[str] = Counter()

    def __contains__(self, id_: str) -> bool:
        return _digest(id_) in self._met

    def meet(self, id_: str) -> bool:
        """Remember an id; whether it is new."""
        before = len(self._met)
        self._met.add(_digest(id_))
        return len(self._met) > before

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


def _digest(id_: str) -> int:
    return int.from_bytes(blake2b(id_.encode(), digest_size=8).digest(), "little")
