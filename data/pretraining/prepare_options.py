"""How text is prepared for pretraining: the choices a caller has."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from nearsay.data.chunking import Chunking
from nearsay.data.errors import BadInputError
from nearsay.data.read_options import ReadOptions, Split

_MOST_SHARD_TOKENS: Final = 2**31 - 1


class Breaks(StrEnum):
    """Where a document ends in plain text; a file's end always is one."""

    BLANK_LINES = "blank-lines"  # BERT's format: at blank lines; each line is a sentence or a paragraph
    FILES = "files"  # at a file's end only; blank lines end paragraphs, and lines may be wrapped anywhere
    HEADINGS = "headings"  # WikiText: before a line ` = Title = `; title and section lines are left out


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """How sources become documents, sentences and shards; BadInputError for a value that cannot be."""

    breaks: Breaks = Breaks.BLANK_LINES  # of plain text; a row, or a Markdown, HTML or PDF file is a document
    one_sentence_a_line: bool = False  # lines are not cut into sentences
    language: str = "en"  # ISO 639 code, for finding sentence ends
    shard_tokens: int = 16 * 2**20  # a shard ends before the sentence that would take it past this
    strict: bool = False  # stop at the first row or line that cannot be used
    # which field of a row is the text, the format, the encoding, the longest line or row
    reading: ReadOptions = field(
        default_factory=lambda: ReadOptions(metadata=(), split=Split.LINES, max_text_bytes=64 * 2**20)
    )

    def __post_init__(self) -> None:
        if self.breaks not in list(Breaks):
            raise BadInputError(f"breaks is {self.breaks!r}; take one of {', '.join(Breaks)}")
        object.__setattr__(self, "breaks", Breaks(self.breaks))
        Chunking(language=self.language)  # refuses what is no language code
        if not 1 <= self.shard_tokens <= _MOST_SHARD_TOKENS:
            raise BadInputError(
                f"shard_tokens is {self.shard_tokens:,}; give 1 to {_MOST_SHARD_TOKENS:,} (16777216 is usual)"
            )
