"""Sources as documents of sentences, streamed."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from nearsay.data.chunking import sentence_spans
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.lines import without_options
from nearsay.data.pretraining.prepare_options import Breaks, PrepareOptions
from nearsay.data.read_options import Format
from nearsay.data.source_documents import SourceDocuments
from nearsay.data.sources import Source, find_sources

_HEADING: Final = re.compile(r"(=(?: =)*) [^=\s](?:.*[^=\s])? \1")  # WikiText: `= = Section = =`
_BLOCK_CHARACTERS: Final = 2**20  # a paragraph longer than this is taken in pieces, at a line's end


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, or a sentence, of a document."""

    text: str
    begins: bool = False  # a document begins here
    is_sentence: bool = False  # not to be cut


def blocks(lines: Iterable[str], options: PrepareOptions) -> Iterator[Block]:
    """Join the lines of one file into blocks, and say where documents begin.

    With BLANK_LINES and HEADINGS, and with one sentence a line, each line is a block; with FILES the lines
    between blank ones are.
    """
    if options.breaks is Breaks.FILES and not options.one_sentence_a_line:
        yield from _paragraphs(lines)
        return
    begins = True
    for line in lines:
        text = line.strip()
        if options.breaks is Breaks.HEADINGS and (level := _heading_level(text)):
            begins = begins or level == 1
        elif text:
            yield Block(text, begins=begins, is_sentence=options.one_sentence_a_line)
            begins = False
        elif options.breaks is Breaks.BLANK_LINES:
            begins = True


def _heading_level(text: str) -> int:
    """Say how deep a WikiText heading is, 1 for a title; 0 for a line that is none."""
    found = _HEADING.fullmatch(text)
    return 0 if found is None else found[1].count("=")


def _paragraphs(lines: Iterable[str]) -> Iterator[Block]:
    begins = True
    held: list[str] = []
    size = 0
    for line in lines:
        text = line.strip()
        if text:
            held.append(text)
            size += len(text)
        if held and (not text or size > _BLOCK_CHARACTERS):
            yield Block("\n".join(held), begins=begins)
            begins, held, size = False, [], 0
    if held:
        yield Block("\n".join(held), begins=begins)


_SENTENCE_CHARACTERS: Final = 2**16  # a longer one, which is none, is cut


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """Sentences that follow each other in one document."""

    begins: bool  # a document begins here; otherwise it goes on from the part before
    sentences: list[str]  # without white space at their ends, none empty


class TextSources:
    """Files, folders, patterns and standard input as a stream of parts of documents, in constant memory."""

    def __init__(
        self,
        given: Sequence[str | Path],
        options: PrepareOptions,
        *,
        stdin: BinaryIO | None = None,
        note: Callable[[str], None],
        fault: Callable[[Fault], None],
    ) -> None:
        """`note` is told what was guessed or skipped, `fault` each row or line that cannot be used.

        BadInputError at once when a source does not exist or cannot be read, or a pipe's format is not said.
        """
        given = [given] if isinstance(given, str | Path) else list(given)
        self.sources, notes = find_sources(given, options.reading.format)
        for one in notes:
            note(one)
        for source in self.sources:
            if source.format is None:
                raise BadInputError(
                    f"what does {source.name} hold? Save it in a file whose name says so by its end, such as "
                    'text.txt or rows.jsonl, and name that; in Python, ReadOptions(format="txt") says it too'
                )
        self.bytes_read = 0  # compressed bytes of a .gz
        self._options = options
        self._stdin = stdin
        self._note = note
        self._tell = fault

    @property
    def bytes_total(self) -> int | None:
        """The size of all sources; None if a pipe or standard input is among them."""
        sizes = [source.size for source in self.sources]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    def __iter__(self) -> Iterator[DocumentPart]:
        """Read from the beginning. BadInputError: the fields of a named file do not fit the options."""
        reader = SourceDocuments(self._options.reading, self._stdin, count=self._count, note=self._note)
        for source in self.sources:
            try:
                if source.format is Format.TXT:
                    yield from self._parts(blocks(self._lines(reader, source), self._options))
                else:
                    yield from self._parts(self._documents(reader, source))
            except BadInputError as error:
                if source.named or self._options.strict:
                    raise
                self._fault(Fault(source.name, None, str(error).removeprefix(f"{source.name}: ")))
            except OSError as error:
                self._fault(Fault(source.name, None, f"it cannot be read: {error.strerror or error}"))

    def _count(self, size: int) -> None:
        self.bytes_read += size

    def _fault(self, fault: Fault) -> None:
        self._tell(without_options(fault))

    def _documents(self, reader: SourceDocuments, source: Source) -> Iterator[Block]:
        for item in reader.documents(source):
            if isinstance(item, Fault):
                self._fault(item)
            else:
                # A file's text is without its title, where that was its first line.
                titled = item.title and source.format is not None and not source.format.is_table
                text = f"{item.title}\n\n{item.text}" if titled else item.text
                yield from _text_blocks(text, lines=self._options.one_sentence_a_line)

    def _lines(self, reader: SourceDocuments, source: Source) -> Iterator[str]:
        for item in reader.lines(source):
            if isinstance(item, Fault):
                self._fault(item)
            elif "\0" in item[1]:
                self._fault(Fault(source.name, item[0], "the line holds a NUL character"))
            else:
                yield item[1]

    def _parts(self, found: Iterator[Block]) -> Iterator[DocumentPart]:
        begins = False  # of a document whose sentences are still to come
        for block in found:
            begins = begins or block.begins
            whole = [(0, len(block.text))]
            spans = whole if block.is_sentence else sentence_spans(block.text, self._options.language)
            sentences = [part for start, end in spans for part in _cut(block.text[start:end])]
            if sentences:
                yield DocumentPart(begins, sentences)
                begins = False


def _text_blocks(text: str, *, lines: bool) -> Iterator[Block]:
    """Cut a long text between paragraphs, so that no more of it is held as sentences at a time."""
    if lines:
        for number, line in enumerate(text.splitlines()):
            yield Block(line.strip(), begins=number == 0, is_sentence=True)
        return
    start = 0
    while start < len(text):
        end = text.find("\n\n", start + _BLOCK_CHARACTERS)
        end = len(text) if end < 0 else end
        yield Block(text[start:end], begins=start == 0)
        start = end


def _cut(sentence: str) -> Iterator[str]:
    """Cut what is too long for a sentence, at a space if it has any: a bound on what is tokenized at once."""
    while len(sentence) > _SENTENCE_CHARACTERS:
        space = sentence.rfind(" ", 1, _SENTENCE_CHARACTERS)
        end = _SENTENCE_CHARACTERS if space < 0 else space
        yield sentence[:end].rstrip()
        sentence = sentence[end:].lstrip()
    if sentence:
        yield sentence
