"""What a user adds: a document."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"


@dataclass(frozen=True, slots=True)
class Document:
    """One text with what is known about it.

    A document without an id belongs to its source: the indexer names it by its content there.
    """

    text: str
    id: str | None = None
    title: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    source: str | None = (
        None  # absolute path of the file it was read from; None for standard input and Python
    )
    line: int | None = None  # 1-based line, row or page it starts at, for messages


@dataclass(frozen=True, slots=True)
class FileText:
    """What a reader of a page, a note, a PDF or a Word document has of it."""

    title: str  # "" where the file names none
    text: str  # blocks on lines of their own
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    shortened: bool = False  # it is the main part of a page, and more stands around it


def beginning(text: str, characters: int) -> str:
    """Give the text's first words in one line, with … where more follows, at most so many characters long.

    Where that would show less than half of them, as of Chinese, which has no spaces, it ends inside a word.
    """
    line = " ".join(text.split())
    words = textwrap.shorten(line, characters, placeholder=" …")
    if len(line) <= characters or 2 * len(words) >= characters:
        return words
    return line[: characters - 2].rstrip() + " …"


# Line ends; what joins letters, or keeps them apart, inside words of Persian or Hindi and in emoji (U+200C,
# U+200D); and where a word may be hyphenated (U+00AD): a space there would cut the word in two.
_UNSEEN = frozenset("\n\u200c\u200d\u00ad")


def visible(text: str) -> str:
    """The text without control characters: a document must not steer the terminal."""
    return "".join(c if c.isprintable() or c in _UNSEEN else " " for c in text)
