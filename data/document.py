"""Documents."""

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"


@dataclass(frozen=True, slots=True)
class Document:
    """A text with its metadata.

    A document without an id gets one from its source and content when it is indexed.
    """

    text: str
    id: str | None = None
    title: str = ""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    source: str | None = (
        None  # absolute path of the file it was read from; None for standard input and Python
    )
    line: int | None = None  # 1-based line, row or page where it starts, for messages


@dataclass(frozen=True, slots=True)
class FileText:
    """The content of an HTML page, a Markdown note, a PDF or a Word document."""

    title: str  # "" if there is none
    text: str  # blocks are separate lines
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    shortened: bool = False  # only the main part of a page was read


def beginning(text: str, characters: int) -> str:
    """The first words of a text in one line, with … if more follows, within a number of characters.

    It ends inside a word if it would otherwise show less than half of that, as in Chinese, which has no
    spaces.
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
    """Remove control characters, so that a document cannot control the terminal."""
    return "".join(c if c.isprintable() or c in _UNSEEN else " " for c in text)
