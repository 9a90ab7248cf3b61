"""Chunking: splitting texts into passages with one vector each."""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError

Span: TypeAlias = tuple[int, int]  # start and end in characters

# Per text an int array (tokens, 2) of character spans, ascending, no special tokens, nothing cut off.
TokenOffsets: TypeAlias = Callable[[Sequence[str]], Sequence[NDArray[np.integer]]]

_NOTATION: Final = re.compile(
    r"(?P<method>[a-z]+)(:(?P<tokens>\d{1,6})(:(?P<overlap>\d{1,6}))?)?(@(?P<language>[A-Za-z-]+))?", re.ASCII
)
_BLOCK: Final = 8192  # characters that sentences are looked for in at once
_LANGUAGE: Final = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z]+)*", re.ASCII)
# As RFC 5646, section 4.4.1, has it; with the longest numbers it fits the catalogue's column.
LONGEST_LANGUAGE: Final = 35
_MOST: Final = 999_999  # tokens that the notation can say


class ChunkingMethod(StrEnum):
    """Where a text may be split."""

    NONE = "none"  # nowhere: a document is a passage
    SENTENCES = "sentences"  # after each sentence
    TOKENS = "tokens"  # after as many whole sentences as fit a window of tokens


@dataclass(frozen=True, slots=True)
class Chunking:
    """How documents are split into passages.

    Written `none`, `sentences`, `tokens`, `tokens:200`, `tokens:200:40`, followed by `@de` for a language
    other than English.
    """

    method: ChunkingMethod = ChunkingMethod.TOKENS
    tokens: int = 0  # window in tokens, without special ones; 0 = the encoder's maximum
    overlap: int = 32  # tokens repeated from the previous window, in whole sentences; at most half a window
    language: str = "en"  # ISO 639 code, for sentence splitting

    def __post_init__(self) -> None:
        if self.method not in list(ChunkingMethod):
            raise BadInputError(f"chunking is {self.method!r}; take one of {', '.join(ChunkingMethod)}")
        object.__setattr__(self, "method", ChunkingMethod(self.method))
        if not (0 <= self.tokens <= _MOST and 0 <= self.overlap <= _MOST):
            raise BadInputError(
                f"chunking has a window of {self.tokens} and an overlap of {self.overlap} tokens; give 0 to "
                f"{_MOST:,}"
            )
        if not _LANGUAGE.fullmatch(self.language):
            raise BadInputError(f"the language {self.language!r} is no code; give one such as en, de or zh")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the notation, such as `tokens:200:40`. Raises BadInputError for anything else."""
        found = _NOTATION.fullmatch(text.strip())
        usual = cls()
        if found is None or found["method"] not in list(ChunkingMethod):
            raise BadInputError(
                f"{text!r} is no chunking; write none, sentences, tokens, tokens:200 (window) "
                "or tokens:200:40 (window and overlap)"
            )
        method = ChunkingMethod(found["method"])
        if method is not ChunkingMethod.TOKENS and found["tokens"]:
            raise BadInputError(
                f"{text!r}: {method} takes no numbers; write {method}, or {ChunkingMethod.TOKENS}:200"
            )
        return cls(
            method,
            int(found["tokens"] or usual.tokens),
            int(found["overlap"] or usual.overlap),
            found["language"] or usual.language,
        )

    def __str__(self) -> str:
        usual = Chunking()
        text = str(self.method)
        if self.method is ChunkingMethod.TOKENS and (self.tokens, self.overlap) != (
            usual.tokens,
            usual.overlap,
        ):
            text += f":{self.tokens}" + (f":{self.overlap}" if self.overlap != usual.overlap else "")
        return text if self.language == usual.language else f"{text}@{self.language}"


def chunk(
    texts: Sequence[str], chunking: Chunking, token_offsets: TokenOffsets, *, rooms: Sequence[int]
) -> list[list[Span]]:
    """Split each text into character spans, in order, that cover everything but white space.

    texts: any number of texts; blank ones have no spans
    rooms: (texts,) maximum tokens of a window of each text, without title and special tokens; less than 1
           counts as 1
    returns: (texts,) lists of spans, stripped of white space

    NONE gives one span per text and SENTENCES one per sentence, whatever their length; the encoder counts
    what it truncates. TOKENS packs whole sentences into windows of `chunking.tokens` (or the room, if that is
    smaller or no window is given), repeats whole sentences of up to `overlap` tokens, and splits a sentence
    longer than a window between words, into pieces of about equal length. A single word longer than a window
    is split between tokens; tokenized alone, its pieces may have a few more tokens.
    """
    if len(rooms) != len(texts):
        raise ValueError(f"{len(texts)} texts, but {len(rooms)} rooms")
    if chunking.method is ChunkingMethod.NONE:
        return [[span] if (span := _stripped(text, 0, len(text))) else [] for text in texts]
    if chunking.method is ChunkingMethod.SENTENCES:
        return [sentence_spans(text, chunking.language) for text in texts]
    spans: list[list[Span]] = []
    for text, offsets, room in zip(texts, token_offsets(texts), rooms, strict=True):
        window = max(1, min(room, chunking.tokens or room))
        if len(offsets) <= window:
            whole = _stripped(text, 0, len(text))
            spans.append([whole] if whole else [])
        else:
            starts = np.asarray(offsets)[:, 0].tolist()
            overlap = min(chunking.overlap, window // 2)
            spans.append(list(_windows(text, starts, chunking.language, window, overlap)))
    return spans


def _stripped(text: str, start: int, end: int) -> Span | None:
    """Strip white space from a span; None if nothing is left."""
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    right = len(piece.rstrip())
    return (start + left, start + right) if left < right else None


def sentence_spans(text: str, language: str) -> list[Span]:
    """Split a text into sentences, stripped of white space; language: an ISO 639 code."""
    cuts = [*_sentence_starts(text, language), len(text)]
    pieces = (_stripped(text, start, end) for start, end in pairwise(cuts))
    return [piece for piece in pieces if piece is not None]


def _sentence_starts(text: str, language: str) -> Iterator[int]:
    """The starts of sentences, ascending. Found in blocks: quotes make sentencex take quadratic time.

    A block ends with a paragraph, which sentences never cross; in a longer paragraph with its last complete
    sentence, which is then found again; in a longer sentence anywhere, which is not a start then.
    """
    begin, within = 0, False  # the block's first character, and whether a sentence goes on there
    while begin < len(text):
        end = min(begin + _BLOCK, len(text))
        paragraph = text.rfind("\n\n", begin, end) if end < len(text) else -1
        if paragraph > begin:
            end = paragraph + 2
        found = [
            begin + start for start in _starts_in_block(text[begin:end], language) if start or not within
        ]
        is_whole = end == len(text) or paragraph > begin
        within = not is_whole and not any(start > begin for start in found)
        yield from found
        begin = end if is_whole or within else found[-1]


def _starts_in_block(block: str, language: str) -> list[int]:
    from sentencex import segment

    try:
        pieces = segment(language, block)  # which make the block again, put together
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # Rust's, which is no Exception and not to be imported
            raise
        return [0]  # sentencex 1.0 cuts some characters in two, as of "(\nB\t\x85.😀ß": one sentence then
    return [0, *accumulate(map(len, pieces[:-1]))]


def _windows(text: str, starts: list[int], language: str, window: int, overlap: int) -> Iterator[Span]:
    """Pack sentences into windows. starts: the first character of each token, ascending."""
    sentences = sentence_spans(text, language)
    # the first token of each sentence; one that starts in the space before it, as some do, is its own
    firsts = [0, *(bisect_left(starts, end) for _, end in sentences[:-1]), len(starts)]
    lengths = [after - first for first, after in pairwise(firsts)]
    begin = held = 0  # the window's first sentence, and its tokens
    for index, (start, end) in enumerate(sentences):
        length = lengths[index]
        if held + length <= window:
            held += length
            continue
        if begin < index:
            yield sentences[begin][0], sentences[index - 1][1]
        if length > window:
            yield from _pieces(text, starts[firsts[index] : firsts[index + 1]], (start, end), window, overlap)
            begin, held = index + 1, 0
            continue
        begin, held = _with_overlap(lengths, begin, index, window, overlap)
    if begin < len(sentences):
        yield sentences[begin][0], sentences[-1][1]


def _with_overlap(lengths: list[int], begin: int, index: int, window: int, overlap: int) -> tuple[int, int]:
    """Start a window at sentence `index`, with preceding sentences as overlap and room allow."""
    held = lengths[index]
    repeated = 0
    first = index
    while (
        first - 1 > begin and repeated + lengths[first - 1] <= overlap and held + lengths[first - 1] <= window
    ):
        first -= 1
        repeated += lengths[first]
        held += lengths[first]
    return first, held


def _pieces(text: str, starts: list[int], sentence: Span, window: int, overlap: int) -> Iterator[Span]:
    """Split one long sentence between words. starts: the first character of each of its tokens."""
    count = len(starts)
    step = window - overlap
    pieces = max(2, -(-(count - overlap) // step))
    size = -(-(count + (pieces - 1) * overlap) // pieces)  # even pieces rather than a short last one
    first = held = 0  # the piece's first token; the first one that no piece holds yet
    while True:
        after = min(first + size, count)
        if count - first <= window:
            after = count
        if after < count:
            back = range(after, max(first, held), -1)  # each piece goes further than the one before
            after = next((token for token in back if _begins_word(text, starts[token])), after)
        start = sentence[0] if first == 0 else starts[first]
        span = _stripped(text, start, sentence[1] if after == count else starts[after])
        if span is not None:
            yield span
        if after == count:
            return
        held = after
        again = range(max(after - overlap, first + 1), after + 1)  # rather less overlap than half a word
        first = next((token for token in again if _begins_word(text, starts[token])), again.start)


def _begins_word(text: str, start: int) -> bool:
    return start == 0 or _parts_words(text[start - 1]) or _parts_words(text[start])


def _parts_words(character: str) -> bool:
    """Whether tokenizers end a word here: at white space and punctuation, including ASCII symbols."""
    return character.isspace() or character in "$+<=>^`|~" or unicodedata.category(character).startswith("P")
