"""Whether an encoder knows the language of a text, told by its vocabulary."""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from nearsay.data.function_words import LANGUAGES, Language

if TYPE_CHECKING:
    from nearsay.training.sentence.tokens import TokenPiece

UNNAMED = "a language without a name"  # one of several that share the words seen

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_UNKNOWN = ("[UNK]", "<unk>")
_LOST = 0.2  # of the letters stand in tokens that mean "unknown": more than a rare sign here and there
_SPELT = 1.25  # letters a token: below, words of an alphabet are spelt out, and mean nothing to the encoder
_SPELT_SIGNS = 0.7  # the same of Chinese and Japanese, of which a sign is a word
_SIGNS = ("CJK", "HIRAGANA", "KATAKANA")
# Frequent Chinese and Japanese characters: a vocabulary made from either language has nearly all of one line.
# The bundled encoder's lacks about half of the first and a third of the second, yet none of some questions.
_FREQUENT_SIGNS = (
    "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事",
    "日本語のこれはそれがどこでいつ何を誰に私たちあなた人時年月会議行来見食飲話聞読書学生先気持今明昨後前",
)
_SCRIPTS = {"CJK": "Chinese characters", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean"}
_OWN = 0.6  # of a language's function words are tokens of their own where the vocabulary was made from it
_BROKEN = 3.3  # letters a token: above, one function word is no sign of a language ("die casting")
_SLOPPY = frozenset(("im", "id"))  # English only where an apostrophe is left out
_BY_NAME = {language.name: language for language in LANGUAGES}


@runtime_checkable
class _Cuts(Protocol):
    """What cuts a text into tokens: an `Encoder`."""

    def pieces(self, text: str) -> "Sequence[TokenPiece]":
        """All of the text's tokens."""
        ...


_KNOWN: "WeakKeyDictionary[_Cuts, dict[str, bool]]" = WeakKeyDictionary()  # by encoder and language or script


def unknown_language(text: str, encoder: object) -> str | None:
    """The language or script of a text if the encoder hardly knows it; None if it does, or in doubt.

    encoder: an `Encoder`; None is returned for one that does not expose its tokens

    A script is unknown if the vocabulary has no characters of it, or only single letters; Chinese and
    Japanese also if it lacks a fifth of the frequent characters of either. Seven languages of Latin script
    are recognised by their function words: 85 % of those of the encoder's own language are tokens of the
    bundled vocabulary, of the others at most 41 %. Other languages of Latin script, and short texts without a
    function word, are in doubt. None of 12,542 questions of six English sets is taken for another language.
    """
    if not isinstance(encoder, _Cuts):
        return None
    letters = [sign for sign in text if sign.isalpha()]
    scripts = Counter(unicodedata.name(sign, "LATIN").split()[0] for sign in letters)
    if not scripts:
        return None
    script, count = scripts.most_common(1)[0]
    if script == "LATIN" or 2 * count < len(letters):
        return _unknown_latin(text, encoder)
    tokens, lost = _tokens(encoder, text)
    spelt = _SPELT_SIGNS if script in _SIGNS else _SPELT
    broken = lost >= _LOST * len(letters) or len(letters) <= spelt * tokens
    if broken or (script in _SIGNS and not _knows_signs(encoder)):
        return _SCRIPTS.get(script, f"{script.capitalize()} script")
    return None


def _unknown_latin(text: str, encoder: _Cuts) -> str | None:
    words = _WORD.findall(text.casefold())
    distinct = {word for word in words if len(word) > 1}
    counts = {language.name: len(distinct & language.all) for language in LANGUAGES}
    counts["English"] -= len(distinct & _SLOPPY)
    most = max(counts.values())
    best = [language for language in LANGUAGES if counts[language.name] == most]
    if not most or len(words) < 3 or any(_knows(encoder, language) for language in best):
        return None
    others = max((count for name, count in counts.items() if _knows(encoder, _BY_NAME[name])), default=0)
    pieces = sum(not piece.special for piece in encoder.pieces(text))
    if most < others + 2 and sum(map(len, words)) >= _BROKEN * pieces:
        return None
    return best[0].name if len(best) == 1 else UNNAMED


def _tokens(encoder: _Cuts, text: str) -> tuple[int, int]:
    """The number of the text's tokens, and of its characters in tokens that mean "unknown"."""
    pieces = [piece for piece in encoder.pieces(text) if not piece.special]
    return len(pieces), sum(piece.end - piece.start for piece in pieces if piece.text in _UNKNOWN)


def _knows_signs(encoder: _Cuts) -> bool:
    """Whether the vocabulary has the frequent characters of Chinese or of Japanese."""
    known = _KNOWN.setdefault(encoder, {})
    if "CJK" not in known:
        known["CJK"] = any(_tokens(encoder, signs)[1] < _LOST * len(signs) for signs in _FREQUENT_SIGNS)
    return known["CJK"]


def _knows(encoder: _Cuts, language: Language) -> bool:
    """Whether the language's function words are tokens of their own."""
    known = _KNOWN.setdefault(encoder, {})
    if language.name not in known:
        words = sorted(word for word in language.all if len(word) > 1)
        own = sum(sum(not piece.special for piece in encoder.pieces(word)) == 1 for word in words)
        known[language.name] = own >= _OWN * len(words)
    return known[language.name]
