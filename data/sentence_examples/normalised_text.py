"""One spelling for texts that differ in letter case, punctuation and spaces alone."""

import unicodedata
from typing import Final


class _Spaces(dict[int, int | str]):
    """Maps a character to a space if it is punctuation, else to itself; fills itself as it is asked."""

    def __missing__(self, code: int) -> int | str:
        self[code] = " " if unicodedata.category(chr(code)).startswith("P") else code
        return self[code]


_SPACES: Final = _Spaces()


def normalised_text(text: str) -> str:
    """Convert a text to the form in which leaks and accidental duplicates are compared.

    Compatibility forms are made one (NFKC), letter case is folded, and each run of punctuation (Unicode's
    categories P) and white space becomes one space; none is left at the ends. Symbols stay: C++ is not C. A
    text of punctuation alone keeps it, so that "?" and "!" stay two texts.
    """
    if text.isascii():
        folded = text.lower()
    else:
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.translate(_SPACES).split()) or " ".join(folded.split())
