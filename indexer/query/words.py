"""From an encoder's tokens to the words that a person reads."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from nearsay.data.chunking import Span

__all__ = ["TokenWord", "token_words"]

# Scripts that put no space between words: there each token of the encoder's stands alone.
_UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x2E80, 0xA4CF),  # Chinese characters, kana, bopomofo, Yi
    (0xF900, 0xFAFF),  # compatibility forms of Chinese characters
    (0xFF66, 0xFF9D),  # narrow katakana
    (0x1B000, 0x1B16F),  # further kana
    (0x20000, 0x3FFFF),  # rare Chinese characters
)
_INSIDE_WORD = "'’"  # between letters: don't
_INSIDE_NUMBER = ".,:"  # between digits: 3.5
_JOINERS = "\u200c\u200d"  # zero-width: what they stand between is one sign


@dataclass(frozen=True, slots=True)
class TokenWord:
    """Neighbouring tokens that make one word."""

    start: int  # characters of the text
    end: int
    tokens: tuple[int, ...]  # places among the text's tokens


def token_words(text: str, spans: Sequence[Span]) -> list[TokenWord]:
    """Put word pieces together again.

    spans:   of each token in characters of the text, in the text's order; one that covers nothing but white
             space, or nothing at all, belongs to no word
    returns: the words in order: runs of letters and digits (with an apostrophe inside a word, a point inside
             a number), every other sign alone; where a script has no spaces, each token alone; tokens that
             cover a character together (the bytes of an emoji, the parts of a Hangul syllable) are one word
    """
    words: list[TokenWord] = []
    for token, (start, end) in enumerate(spans):
        piece = text[start:end]
        bare = piece.strip()
        if not bare:
            continue
        first = start + len(piece) - len(piece.lstrip())
        last = first + len(bare)
        before = words[-1] if words else None
        if before is not None and (first < before.end or (first == before.end and _joined(text, first))):
            words[-1] = TokenWord(min(before.start, first), max(before.end, last), (*before.tokens, token))
        else:
            words.append(TokenWord(first, last, (token,)))
    return words


def _joined(text: str, at: int) -> bool:
    """Whether the characters before and after a place are of one word; both are there."""
    left, right = text[at - 1], text[at]
    if _extends(right) or left in _JOINERS or (_is_flag_half(left) and _is_flag_half(right)):
        return True
    if _in_word(left) and _in_word(right):
        return not (_is_unspaced(left) or _is_unspaced(right))
    around = text[at - 2 : at - 1] + right, left + text[at + 1 : at + 2]
    return _holds(left, around[0]) or _holds(right, around[1])


def _holds(sign: str, around: str) -> bool:
    """Whether a sign between two characters holds them together."""
    if len(around) != 2:
        return False
    return (sign in _INSIDE_WORD and around.isalpha()) or (sign in _INSIDE_NUMBER and around.isdigit())


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_" or _extends(character)


def _extends(character: str) -> bool:
    """Whether it stands on the character before it: an accent, a vowel sign, a skin tone, a joiner."""
    return (
        character in _JOINERS
        or "\U0001f3fb" <= character <= "\U0001f3ff"
        or unicodedata.category(character).startswith("M")
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_unspaced(character: str) -> bool:
    code = ord(character)
    return code >= _UNSPACED[0][0] and any(first <= code <= last for first, last in _UNSPACED)
