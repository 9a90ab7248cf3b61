"""Merging near-duplicates: compare two texts word by word, and combine the metadata of documents."""

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
    """A field whose values differ between the kept document and those to be removed."""

    field: str
    kept: JsonValue  # the value that is kept
    others: tuple[JsonValue, ...]  # the distinct other values, in the order of the documents


@dataclass(frozen=True, slots=True)
class Merged:
    """The metadata of the kept document."""

    metadata: dict[str, JsonValue]
    filled: tuple[str, ...]  # fields that were missing and are taken from the others
    conflicts: tuple[Conflict, ...]  # in the order of the fields


def merged_metadata(kept: Mapping[str, JsonValue], others: Sequence[Mapping[str, JsonValue]]) -> Merged:
    """Combine metadata: missing fields of the kept document are filled in, existing values stay.

    others: of the documents to be removed, in order of precedence. A field is missing if it is absent, null,
            or an empty text, list or object; 0 and false are values.

    A missing field takes the first value among the others; different later values are conflicts, too.
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
    found: list[JsonValue] = []
    for other in others:
        known = any(_same(other, one) for one in (value, *found))
        if not _lacking(other) and not known:
            found.append(other)
    return tuple(found)


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Equality as in JSON, where true is not 1."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _lacking(value: JsonValue) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)


def merged_document(documents: Documents, stays: str, gone: Sequence[str]) -> Merged:
    """The metadata of the remaining document after a merge; see `merged_metadata`."""
    return merged_metadata(
        documents.document(stays).metadata, [documents.document(id_).metadata for id_ in gone]
    )


def merge(documents: Documents, stays: str, gone: Sequence[str]) -> int:
    """Fill in a document's missing metadata from others, then remove those; returns the number removed.

    If it is interrupted between the two steps, the metadata is filled in and the others still exist.
    """
    merged = merged_document(documents, stays, gone)
    if merged.filled:
        documents.update([stays], metadata={name: merged.metadata[name] for name in merged.filled})
    return documents.remove(gone)


_LONGEST = 6_000  # characters of a text that are compared and shown
_WORDS = re.compile(r"\w+\s*|[^\w\s]\s*|\s+")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a text."""

    text: str
    alone: bool  # the other text lacks it here


@dataclass(frozen=True, slots=True)
class Difference:
    """Both texts as sequences of parts."""

    first: tuple[Part, ...]
    second: tuple[Part, ...]
    cut: bool  # a text was too long to be compared completely

    @property
    def same(self) -> bool:
        """Whether the compared parts are equal."""
        return not any(part.alone for part in (*self.first, *self.second))


def difference(first: str, second: str) -> Difference:
    """Compare two texts word by word, by their longest common sequences (Python's difflib).

    Only the first 6,000 characters are compared; whitespace is ignored.
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
