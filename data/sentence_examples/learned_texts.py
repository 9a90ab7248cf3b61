"""Which texts an encoder learned from, kept beside it, so that nothing of them is taken for a measurement."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from nearsay.data.document import JsonValue
from nearsay.data.sentence_examples.normalised_text import normalised_text

__all__ = ["LEARNED_FILE", "MOST", "LearnedTexts"]

LEARNED_FILE: Final = "learned.json"  # in the folder `run` of an encoder
MOST: Final = 200_000  # texts that a record holds; of a training on more none are kept
_DIGEST: Final = 8  # bytes


@dataclass(frozen=True, slots=True)
class LearnedTexts:
    """What is recorded of the texts that trained an encoder, and of which trainings nothing is."""

    hashes: frozenset[str] = frozenset()
    unrecorded: tuple[str, ...] = ()  # encoders and data whose texts are not among the hashes

    @classmethod
    def of(cls, folder: str | Path, name: str | None = None) -> Self:
        """The record in an encoder's folder; where there is none, as of one from a hub, all is unrecorded.

        folder: one that may not be on this machine; name: the encoder's, None = the folder's
        """
        try:
            kept = json.loads((Path(folder) / "run" / LEARNED_FILE).read_text("utf-8"))
            return cls(frozenset(map(str, kept["texts"])), tuple(map(str, kept.get("unrecorded", ()))))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return cls(unrecorded=(name or Path(folder).name,))

    def __or__(self, other: Self) -> Self:
        """What is recorded of either of two encoders."""
        unrecorded = tuple(dict.fromkeys([*self.unrecorded, *other.unrecorded]))
        return type(self)(self.hashes | other.hashes, unrecorded)

    def with_encoder(self, folder: str | Path, name: str) -> Self:
        """What is recorded of another encoder, too; of more than MOST texts in all its are unrecorded."""
        both = self | type(self).of(folder, name)
        if len(both.hashes) <= MOST:
            return both
        return type(self)(self.hashes, tuple(dict.fromkeys([*both.unrecorded, name])))

    def with_texts(self, texts: Iterable[str], name: str) -> Self:
        """The same after a training on the texts; of more than MOST in all `name` is unrecorded.

        What differs in case, punctuation and spaces alone is one text.
        """
        found = set(self.hashes)
        for text in texts:
            found.add(_hash(text))
            if len(found) > MOST:
                return type(self)(self.hashes, tuple(dict.fromkeys([*self.unrecorded, name])))
        return type(self)(frozenset(found), self.unrecorded)

    def has(self, text: str) -> bool:
        """Whether the text is recorded as one that the encoder learned from."""
        return _hash(text) in self.hashes

    def to_json(self) -> dict[str, JsonValue]:
        """As `of` reads it."""
        return {"texts": [*sorted(self.hashes)], "unrecorded": [*self.unrecorded]}


def _hash(text: str) -> str:
    plain = normalised_text(text).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(plain, digest_size=_DIGEST).hexdigest()
