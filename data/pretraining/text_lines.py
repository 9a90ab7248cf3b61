"""Lines of plain text as blocks that are cut into sentences together."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from nearsay.data.pretraining.prepare_options import Breaks, PrepareOptions

__all__ = ["Block", "blocks"]

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
