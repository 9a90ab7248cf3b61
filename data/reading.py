"""Documents from files, standard input and Python values."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault, KeptFaults, of_whole_file, spread
from nearsay.data.fields import FieldSurvey
from nearsay.data.python_rows import python_documents
from nearsay.data.read_options import ReadOptions
from nearsay.data.source_documents import SourceDocuments
from nearsay.data.sources import Source, find_sources

_USUAL: Final = ReadOptions()
_FAULTS_NAMED: Final = 10
_BETWEEN_LOOKS: Final = 256  # documents


class Reading:
    """Documents and faults, read one by one in constant memory; iterate it once.

    During the iteration, `bytes_read` grows (compressed bytes of a .gz) and `notes` reports what was guessed,
    once per kind of file. The iteration raises BadInputError if a file's fields do not match the options: at
    once for a file that the user named; a file found in a folder or by a pattern is a fault, and the error is
    raised at the end if no file had a document.
    """

    def __init__(
        self,
        start: Callable[["Reading"], Iterator[Document | Fault]],
        *,
        sources: list[Source],
        notes: list[str],
        bytes_total: int | None,
    ) -> None:
        """`start` begins the reading; it gets this object, to count bytes and add notes."""
        self.sources = sources
        self.notes = notes
        self.bytes_total = bytes_total  # None: standard input or a pipe is among the sources
        self.bytes_read = 0
        self.encodings: Mapping[str, str] = {}  # of files, by name, that are not in the one expected
        self.surveys: Mapping[str, FieldSurvey] = {}  # of files with named fields, by name
        self._start: Callable[[Reading], Iterator[Document | Fault]] | None = start

    def __iter__(self) -> Iterator[Document | Fault]:
        if self._start is None:
            raise RuntimeError("this reading has been iterated already; call read() again")
        start, self._start = self._start, None
        return start(self)

    def count(self, size: int) -> None:
        """Add to the number of bytes read."""
        self.bytes_read += size

    def documents(self, listener: Callable[[int, int | None], None] | None = None) -> Iterator[Document]:
        """Iterate over the documents only; at the end, `notes` lists up to ten unusable rows.

        listener: called with the number of documents so far, and the total estimated from the bytes

        Raises BadInputError at the end if there are rows and none of them is usable.
        """
        faults, made = KeptFaults(), 0
        for item in self:
            if isinstance(item, Fault):
                faults.take(item)
                continue
            made += 1
            if listener is not None and made % _BETWEEN_LOOKS == 0:
                total = self.bytes_total if self.bytes_read else None
                listener(made, made * total // self.bytes_read if total else None)
            yield item
        count, named = faults.counts.total(), spread(faults.kept, _FAULTS_NAMED)
        if count and not made:
            raise BadInputError(f"none of the {count:,} rows can be used; the first: {named[0]}")
        self.notes += [f"skipped {fault}" for fault in named]
        if count > len(named):
            self.notes.append(f"… {count:,} rows skipped in all")

    def texts(self, listener: Callable[[int, int | None], None] | None = None) -> Iterator[str]:
        """Iterate over the documents' texts, like `documents`; ids and titles are not included."""
        return (document.text for document in self.documents(listener))


def read(
    sources: Sequence[str | Path], options: ReadOptions = _USUAL, *, stdin: BinaryIO | None = None
) -> Reading:
    """Read documents from files, folders (walked, sorted), patterns (`notes/**/*.md`) and `-`.

    stdin: what `-` reads; None = the process's. Its format is that of the options, else JSON lines if its
           first non-blank line starts with `{`, or a JSON list of objects, `[{`, else a passage per line

    Raises BadInputError at once if a source does not exist, matches nothing or has an unknown suffix.
    """
    if isinstance(sources, str | Path):
        sources = [sources]
    found, notes = find_sources(sources, options.format)
    if options.relative_to is not None:
        folder = Path(options.relative_to)
        found = [source.relative_to(folder) for source in found]
    sizes = [source.size for source in found]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    return Reading(
        lambda reading: _documents(found, options, stdin, reading),
        sources=found,
        notes=notes,
        bytes_total=total,
    )


def rows(items: Iterable[str | Document | Mapping[str, object]], options: ReadOptions = _USUAL) -> Reading:
    """Read documents from Python values: texts, documents, and mappings with given or guessed fields.

    Unusable values are faults of `<rows>` with their 1-based number. NaN and None (as in pandas) are missing
    values. Up to 100 values are read ahead to guess the fields, up to 10,000 if a named field is missing in
    the first hundred.
    """
    return Reading(
        lambda reading: python_documents(items, options, reading.notes.append),
        sources=[],
        notes=[],
        bytes_total=None,
    )


def _documents(
    sources: Sequence[Source], options: ReadOptions, stdin: BinaryIO | None, reading: Reading
) -> Iterator[Document | Fault]:
    reader = SourceDocuments(options, stdin, count=reading.count, note=reading.notes.append)
    reading.encodings, reading.surveys = reader.encodings, reader.surveys
    refused: BadInputError | None = None
    made_any = False
    for source in sources:
        try:
            for item in reader.documents(source):
                made_any = made_any or isinstance(item, Document)
                yield item
        except BadInputError as error:
            if source.named:
                raise
            refused = refused or error
            yield of_whole_file(str(error), source.name)
        except OSError as error:
            yield Fault(source.name, None, f"it cannot be read: {error.strerror or error}")
    if refused is not None and not made_any:
        raise refused
