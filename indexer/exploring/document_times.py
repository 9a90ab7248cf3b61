"""When the documents of a collection are from, by a field of theirs."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue.document_dates import added_moments, document_values
from nearsay.indexer.exploring.dates import Dated, read_date
from nearsay.indexer.filters.declared import metadata_path
from nearsay.indexer.filters.parse import parse_field

__all__ = ["MISSING", "UNREADABLE", "DocumentTimes", "document_times"]

MISSING = -1
UNREADABLE = -2
_EXAMPLES = 3
_LONGEST_EXAMPLE = 40  # characters


@dataclass(frozen=True, slots=True)
class DocumentTimes:
    """The dates of some documents."""

    field: str  # "added" where they go by when they were added
    documents: NDArray[np.int64]  # (n,) rising numbers
    codes: NDArray[np.int32]  # (n,) places in `dates`, MISSING or UNREADABLE
    dates: tuple[Dated, ...]  # each different one once
    examples: tuple[str, ...]  # of values that cannot be read, in order

    @property
    def missing(self) -> int:
        """Documents without the field, or with nothing in it."""
        return int(np.count_nonzero(self.codes == MISSING))

    @property
    def unreadable(self) -> int:
        """Documents in which the field holds no date."""
        return int(np.count_nonzero(self.codes == UNREADABLE))

    def notes(self) -> tuple[str, ...]:
        """What has to be said of documents that have no date."""
        said = []
        if self.missing:
            said.append(f"without {self.field}, and not counted: {counted(self.missing, 'document')}")
        if self.unreadable:
            shown = ", ".join(f"'{example}'" for example in self.examples)
            said.append(
                f"no date in {self.field}, and not counted: {counted(self.unreadable, 'document')}, "
                f"as {shown}. Dates are written as 2019, 2019-03 or 2019-03-08"
            )
        return tuple(said)

    def require_some(self) -> None:
        """BadInputError if none of the documents has a date."""
        if not self.dates:
            reason = "; ".join(self.notes()) or "there are no documents"
            raise BadInputError(f"no document has a date: {reason}. Name another field, or another filter")


def document_times(
    connection: sa.Connection,
    collection_id: int,
    field: str | None,
    documents: NDArray[np.int64],
) -> DocumentTimes:
    """The dates of these documents.

    field:     of the metadata, as a filter writes it; None = when they were added
    documents: (n,) rising numbers

    BadFilterError for a name that cannot be one, BadInputError for the text itself.
    """
    values: Iterable[tuple[int, object]]
    if field is None:
        values = added_moments(connection, collection_id)
    else:
        path = metadata_path(parse_field(field))
        if path is None:
            raise BadInputError(f"'{field}' is no field of the metadata. Name the one that holds the dates")
        values = document_values(connection, collection_id, path)
    codes = np.full(documents.size, MISSING, dtype=np.int32)
    place = dict(zip(documents.tolist(), range(documents.size), strict=True))
    known: dict[object, int] = {}
    dates: dict[Dated, int] = {}
    unreadable: set[str] = set()
    for number, value in values:
        at = place.get(number)
        if at is None or value == "":
            continue
        key = (type(value), value)
        if key not in known:
            date = read_date(value)
            known[key] = UNREADABLE if date is None else dates.setdefault(date, len(dates))
            if date is None:
                unreadable.add("a list or an object" if value is None else str(value)[:_LONGEST_EXAMPLE])
        codes[at] = known[key]
    examples = tuple(sorted(unreadable)[:_EXAMPLES])
    return DocumentTimes(field or "added", documents, codes, tuple(dates), examples)
