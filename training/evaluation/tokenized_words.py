"""What a tokenizer makes of the words of texts."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

__all__ = ["TokenizedWords", "batches", "tokenized_words"]

_TEXTS_AT_ONCE: Final = 512
_CHARACTERS_AT_ONCE: Final = 1_000_000


class _Kinds(dict[int, str]):
    """For each character its kind: a letter or digit, a mark that goes on a word, a Chinese one, another."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        category = unicodedata.category(character)
        if unicodedata.name(character, "").startswith(("CJK UNIFIED", "CJK COMPATIBILITY IDEOGRAPH")):
            kind = "c"
        elif category[0] in "LN":
            kind = "a"
        else:
            kind = "m" if category[0] == "M" or category == "Cf" else " "
        self[code] = kind
        return kind


_KINDS: Final = _Kinds()
_WORD: Final = re.compile("c|a[am]*")


@dataclass(frozen=True, slots=True)
class TokenizedWords:
    """One text's words, and the tokens that each became.

    A word is a run of letters and digits, with the accents and invisible characters inside it; a Chinese
    character is one by itself; blanks, punctuation marks and symbols are none ("don't" is two words, as for
    BERT). This is the same for every tokenizer, so their figures can be compared. A word's tokens are those
    whose characters overlap with its own.
    """

    text: str
    token_ids: NDArray[np.int64]  # (tokens,): special ones left out, not cut
    spans: NDArray[np.int64]  # (words, 2): the characters of each word
    first: NDArray[np.int64]  # (words,): its first token
    pieces: NDArray[np.int64]  # (words,): its tokens; 0 for a word that the tokenizer leaves out
    unknown: NDArray[np.bool_]  # (words,): whether one of them is the unknown one
    unknown_texts: list[str]  # what stands behind each unknown token of the text

    @property
    def tokens(self) -> int:
        """Tokens of the text, special ones not counted."""
        return len(self.token_ids)

    def word(self, index: int) -> str:
        """The word as it is written."""
        start, end = self.spans[index]
        return self.text[start:end]

    def pieces_of(self, index: int) -> tuple[int, ...]:
        """The numbers of a word's tokens."""
        start = self.first[index]
        return tuple(self.token_ids[start : start + self.pieces[index]].tolist())


def tokenized_words(
    tokenizer: Tokenizer, texts: Iterable[str], *, unknown_id: int | None
) -> Iterator[TokenizedWords]:
    """Tokenize texts and find each word's tokens by the characters that they stand for.

    tokenizer: of any kind; it must neither cut nor pad
    unknown_id: the token that stands for what the vocabulary cannot spell; None when there is none
    """
    for batch in batches(texts):
        encodings = tokenizer.encode_batch(batch, add_special_tokens=False)
        for text, encoding in zip(batch, encodings, strict=True):
            yield _aligned(text, encoding, unknown_id)


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """As many texts as are well tokenized at once."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        batch.append(text)
        characters += len(text)
        if len(batch) == _TEXTS_AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def _aligned(text: str, encoding: Encoding, unknown_id: int | None) -> TokenizedWords:
    found = [match.span() for match in _WORD.finditer(text.translate(_KINDS))]
    spans = np.array(found, dtype=np.int64).reshape(-1, 2)
    # Bytes of one character share its place: starts and ends never fall, but may stand still.
    places = np.maximum.accumulate(np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2))
    first = np.searchsorted(places[:, 1], spans[:, 0], side="right")
    behind = np.maximum(np.searchsorted(places[:, 0], spans[:, 1], side="left"), first)
    token_ids = np.array(encoding.ids, dtype=np.int64)
    is_unknown = token_ids == (-1 if unknown_id is None else unknown_id)
    unknown_before = np.concatenate([[0], np.cumsum(is_unknown)])
    return TokenizedWords(
        text=text,
        token_ids=token_ids,
        spans=spans,
        first=first,
        pieces=behind - first,
        unknown=unknown_before[behind] > unknown_before[first],
        unknown_texts=[text[start:end] for start, end in places[is_unknown].tolist()],
    )
