"""What a document that is kept takes over from its near-duplicates before they are removed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearsay.data.document import JsonValue

__all__ = ["Conflict", "Merged", "merged_metadata"]


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

    @property
    def changes(self) -> bool:
        """Whether the document becomes another."""
        return bool(self.filled)


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
