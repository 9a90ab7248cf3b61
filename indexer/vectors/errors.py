"""The indexer's own errors; the root is `nearsay.data.errors.NearsayError`."""

from enum import StrEnum
from typing import TypeVar

from nearsay.data.errors import BadInputError, NearsayError


class BadFilterError(BadInputError):
    """A filter expression or mapping cannot be understood."""


class BusyError(NearsayError):
    """Another process is writing."""


class CatalogueError(NearsayError):
    """The catalogue database cannot be opened or used."""


class ClusterError(NearsayError):
    """A Ray cluster cannot be joined, or lost part of its work."""


class DamagedSegmentError(NearsayError):
    """A segment file does not match the catalogue. It was quarantined and is not searched."""


class EncoderMismatchError(NearsayError):
    """The encoder is not the one that computed the stored vectors."""


class GateError(NearsayError):
    """A generation was not promoted, because the judgements do not show that it is at least as good."""


class LostLockError(BusyError):
    """This writer lost its lock to another writer; nothing more was written."""


class StrictError(BadInputError):
    """`strict` was set and the input has faulty rows; nothing was written."""


class UnknownCollectionError(BadInputError):
    """The collection does not exist."""


class UnknownDocumentError(BadInputError):
    """The document does not exist."""

    @classmethod
    def of(cls, collection: str, first: str, *others: str) -> "UnknownDocumentError":
        """The error of ids that a collection does not have."""
        more = f" (nor {len(others)} more of those named)" if others else ""
        return cls(
            f"collection '{collection}' has no document '{first}'{more}. "
            f"See which there are: nearsay documents list {collection}"
        )


class UnknownGenerationError(BadInputError):
    """There is no generation with that number or in the required state."""


class UnreadableWordsError(NearsayError):
    """A collection's lexical table is missing or damaged."""


_Choice = TypeVar("_Choice", bound=StrEnum)


def chosen(kind: type[_Choice], given: str, what: str, *others: str) -> _Choice:
    """The choice of a name; BadInputError, which says what it is and lists all, for another."""
    try:
        return kind(given)
    except ValueError:
        raise BadInputError(f"{what} is '{given}'. Take one of: {', '.join([*kind, *others])}") from None
