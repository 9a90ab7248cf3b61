"""Which texts an encoder learned from, kept beside it, so that nothing of them is taken for a measurement."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nearsay.data.document import JsonValue
from nearsay.data.sentence_examples.normalised_text import normalised_text

__all__ = ["LEARNED_FILE", "MOST", "has_learned", "learned_texts", "told_learned"]

LEARNED_FILE: Final = "learned.json"  # in the folder `run` of an encoder
MOST: Final = 200_000  # texts; of a larger training set nothing is kept
_DIGEST: Final = 8  # bytes


def told_learned(texts: Iterable[str], before: frozenset[str] = frozenset()) -> dict[str, JsonValue] | None:
    """The hashes of the texts, and of what the base learned before; None for more than MOST of them.

    What differs in case, punctuation and spaces alone is one text.
    """
    found = set(before)
    for text in texts:
        found.add(_hash(text))
        if len(found) > MOST:
            return None
    told: list[JsonValue] = [*sorted(found)]
    return {"texts": told}


def learned_texts(encoder: str | Path) -> frozenset[str]:
    """The hashes that an encoder's folder holds; none where it has none, or is not on this machine."""
    try:
        kept = json.loads((Path(encoder) / "run" / LEARNED_FILE).read_text("utf-8"))
        return frozenset(str(one) for one in kept["texts"])
    except (OSError, ValueError, LookupError, TypeError):
        return frozenset()


def has_learned(learned: frozenset[str], text: str) -> bool:
    """Whether the text is among those."""
    return _hash(text) in learned


def _hash(text: str) -> str:
    plain = normalised_text(text).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(plain, digest_size=_DIGEST).hexdigest()
