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
    """A Ray cluster cannot be joined, or lost what it was to do."""


class DamagedSegmentError(NearsayError):
    """A segment file is not what the catalogue says it is; it was quarantined and is not answered from."""


class EncoderMismatchError(NearsayError):
    """The encoder at hand is not the one that made the stored vectors."""


class GateError(NearsayError):
    """A generation was not promoted, since the judgements do not show that it answers as well."""


class LostLockError(BusyError):
    """This writer's lock was lost and another writer came in; nothing more was written."""


class StrictError(BadInputError):
    """`strict` was asked for and the input has faults; nothing was written."""


class UnknownCollectionError(BadInputError):
    """There is no collection of that name."""


class UnknownDocumentError(BadInputError):
    """There is no document of that id."""

    @classmethod
    def of(cls, collection: str, first: str, *others: str) -> "UnknownDocumentError":
        """The error of ids that a collection does not have."""
        more = f" (nor {len(others)} more of those named)" if others else ""
        return cls(
            f"collection '{collection}' has no document '{first}'{more}. "
            f"See which there are: nearsay documents list {collection}"
        )


class UnknownGenerationError(BadInputError):
    """There is no generation of that number or in that state."""


class UnreadableWordsError(NearsayError):
    """A collection's lexical table is missing or damaged."""


_Choice = TypeVar("_Choice", bound=StrEnum)


def chosen(kind: type[_Choice], given: str, what: str, *others: str) -> _Choice:
    """The choice of a name; BadInputError, which says what it is and lists all, for another."""
    try:
        return kind(given)
    except ValueError:
        raise BadInputError(f"{what} is '{given}'. Take one of: {', '.join([*kind, *others])}") from None
