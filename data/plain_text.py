"""Plain text: a passage a line, or the paragraphs of text whose lines are hard-wrapped."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby, pairwise
from typing import Final, TypeAlias

from nearsay.data.faults import Fault
from nearsay.data.lines import too_long

__all__ = ["is_hard_wrapped", "paragraphs", "take_sample"]

NumberedLine: TypeAlias = "tuple[int, str] | Fault"

_SAMPLE_LINES: Final = 400
_SAMPLE_CHARACTERS: Final = 200_000
# Lines are cut by editors and mail programs at 60 to 100 columns; a longer line is a paragraph by itself.
_WIDEST: Final = 130
_NARROWEST: Final = 30
_LEAST_PAIRS: Final = 3  # of lines that follow each other within a block: of fewer nothing can be told
# How many of them were ended because the next word did not fit, and how many go on in lower case. A program
# fills nearly every line, and German nouns begin many; people who wrap by hand leave a third of them short.
_FULL_AND_LOWER: Final = ((0.8, 0.25), (0.5, 0.6))
_MID_SENTENCE: Final = 0.5  # of them do not end a sentence
_ENDS: Final = frozenset(".!?:;…。！？")
_CLOSING: Final = "\"'”’»)]*_"


def take_sample(lines: Iterator[NumberedLine]) -> list[NumberedLine]:
    """Take the lines from which the kind of text is told."""
    taken: list[NumberedLine] = []
    characters = 0
    for item in lines:
        taken.append(item)
        characters += 0 if isinstance(item, Fault) else len(item[1])
        if len(taken) == _SAMPLE_LINES or characters >= _SAMPLE_CHARACTERS:
            break
    return taken


def is_hard_wrapped(sample: Iterable[NumberedLine]) -> bool:
    """Say whether lines are ends of a margin, not of what is said.

    They are when blank lines separate blocks in which most lines were ended only because the next
    word would have passed the margin (the width that nine in ten stay within), many in mid-sentence. Lines
    that stand alone (a sentence, a title, a record each) end anywhere, and records have no blank lines.
    """
    lines = [item[1].strip() for item in sample if not isinstance(item, Fault)]
    blocks = [list(block) for filled, block in groupby(lines, bool) if filled]
    pairs = [pair for block in blocks for pair in pairwise(block)]
    if len(blocks) < 2 or len(pairs) < _LEAST_PAIRS:
        return False
    widths = sorted(len(line) for line, _ in pairs)
    margin = widths[min(len(widths) - 1, len(widths) * 9 // 10)]
    if not _NARROWEST <= margin <= _WIDEST:
        return False
    full = sum(len(line) + 1 + len(after.split(maxsplit=1)[0]) > margin for line, after in pairs)
    in_sentence = sum(not _ends_sentence(line) for line, _ in pairs)
    cased = [after[0] for _, after in pairs if after[0].lower() != after[0].upper()]
    lower = sum(letter.islower() for letter in cased)
    is_filled = any(
        full >= filled * len(pairs) and lower >= lower_case * len(cased)
        for filled, lower_case in _FULL_AND_LOWER
    )
    return is_filled and in_sentence >= _MID_SENTENCE * len(pairs)


def _ends_sentence(line: str) -> bool:
    return line.rstrip(_CLOSING)[-1:] in _ENDS


def paragraphs(lines: Iterable[NumberedLine], name: str, limit: int) -> Iterator[NumberedLine]:
    """Join the lines between blank ones; a paragraph has the number of its first line.

    limit: bytes of a paragraph; a longer one is a fault of the file `name`, like an unreadable line, which
        ends the paragraph before it.
    """
    held: list[str] = []
    first = size = 0
    for item in chain(lines, [(0, "")]):
        line = "" if isinstance(item, Fault) else item[1].strip()
        if line:
            number = 0 if isinstance(item, Fault) else item[0]
            first = first if held or size else number
            size += len(line.encode("utf-8", "surrogatepass")) + 1
            if size <= limit + 1:
                held.append(line)
            else:
                held.clear()  # skipped to its end, never held
            continue
        if size > limit + 1:
            yield Fault(name, first, too_long("the paragraph", limit))
        elif held:
            yield first, _joined(held)
        held, size = [], 0
        if isinstance(item, Fault):
            yield item


def _joined(lines: list[str]) -> str:
    parts = [lines[0]]
    for before, after in pairwise(lines):
        hyphenated = before.endswith("-") and not before.endswith("--") and before[-2:-1].isalpha()
        parts.append(after if hyphenated and after[0].isalpha() else f" {after}")
    return "".join(parts)
