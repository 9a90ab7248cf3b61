"""What becomes of near-duplicates: two texts compared word by word, several documents made one."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Protocol

from nearsay.data.document import JsonValue
from nearsay.indexer.catalogue.documents import StoredDocument


class Documents(Protocol):
    """A collection."""

    def document(self, id_: str, /) -> StoredDocument:
        """See `Collection`."""

    def update(self, ids: Sequence[str], /, *, metadata: Mapping[str, JsonValue]) -> int:
        """See `Collection`."""

    def remove(self, ids: Sequence[str], /) -> int:
        """See `Collection`."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field in which a document that goes says another thing than the one that is kept."""

    field: str
    kept: JsonValue  # what stays
    others: tuple[JsonValue, ...]  # what goes, each different value once, in the order of the documents


@dataclass(frozen=True, slots=True)
class Merged:
    """The metadata of the document that is kept."""

    metadata: dict[str, JsonValue]
    filled: tuple[str, ...]  # fields that were missing and come from the others
    conflicts: tuple[Conflict, ...]  # by the order of the fields


def merged_metadata(kept: Mapping[str, JsonValue], others: Sequence[Mapping[str, JsonValue]]) -> Merged:
    """The union of metadata: what the kept document lacks is filled in, what it says is never overwritten.

    others: of the documents that go, in the order in which they are asked. A field is lacking that is not
            there, null, or an empty text, list or object; 0 and false are values.

    Where several others have a value for a lacking field the first one's is taken, and a different one of the
    rest is a conflict, too.
    """
    metadata = {name: value for name, value in kept.items() if not _lacking(value)}
    filled = []
    for other in others:
        for name, value in other.items():
            if name not in metadata and not _lacking(value):
                metadata[name] = value
                filled.append(name)
    conflicts = tuple(
        Conflict(name, value, unlike)
        for name, value in metadata.items()
        if (unlike := _unlike(value, [other.get(name) for other in others]))
    )
    empty = {name: value for name, value in kept.items() if name not in metadata}
    return Merged(empty | metadata, tuple(filled), conflicts)


def _unlike(value: JsonValue, others: Sequence[JsonValue]) -> tuple[JsonValue, ...]:
    """The values among the others that are another, each once."""
    found: list[JsonValue] = []
    for other in others:
        known = any(_same(other, one) for one in (value, *found))
        if not _lacking(other) and not known:
            found.append(other)
    return tuple(found)


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Python takes true for 1; JSON does not."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _lacking(value: JsonValue) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def merged_document(documents: Documents, stays: str, gone: Sequence[str]) -> Merged:
    """The metadata of the document that stays when others are merged into it; see `merged_metadata`."""
    return merged_metadata(
        documents.document(stays).metadata, [documents.document(id_).metadata for id_ in gone]
    )


def merge(documents: Documents, stays: str, gone: Sequence[str]) -> int:
    """Give a document the metadata that it lacks and others have, then remove those; how many.

    Stopped between the two, the document has what it took over and the others are still there.
    """
    merged = merged_document(documents, stays, gone)
    if merged.filled:
        documents.update([stays], metadata={name: merged.metadata[name] for name in merged.filled})
    return documents.remove(gone)


_LONGEST = 6_000  # characters of a text that are compared: the rest is not shown
_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a text."""

    text: str
    alone: bool  # the other text does not say it here


@dataclass(frozen=True, slots=True)
class Difference:
    """Both texts as pieces that follow each other."""

    first: tuple[Part, ...]
    second: tuple[Part, ...]
    cut: bool  # one of them was too long to be compared as a whole

    @property
    def same(self) -> bool:
        """Whether nothing differs in what was compared."""
        return not any(part.alone for part in (*self.first, *self.second))


def difference(first: str, second: str) -> Difference:
    """Compare two texts word by word, by the longest pieces that they share (Python's difflib).

    Of longer texts the first 6,000 characters are compared; how words are spaced does not matter.
    """
    cut = max(len(first), len(second)) > _LONGEST
    left, right = _WORDS.findall(first[:_LONGEST]), _WORDS.findall(second[:_LONGEST])
    sides: tuple[list[Part], list[Part]] = ([], [])
    words, others = ([word.strip() for word in side] for side in (left, right))
    matcher = SequenceMatcher(None, words, others, autojunk=False)
    for kind, begin, end, other_begin, other_end in matcher.get_opcodes():
        alone = kind != "equal"
        for side, some in ((sides[0], left[begin:end]), (sides[1], right[other_begin:other_end])):
            if some:
                side.append(Part("".join(some), alone))
    return Difference(tuple(sides[0]), tuple(sides[1]), cut)
