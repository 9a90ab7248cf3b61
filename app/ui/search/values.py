"""A field's values with their counts, and how they are written on the page."""

import datetime as dt

from nearsay.app.ui.search.choices import Value
from nearsay.app.ui.visit import Visit
from nearsay.indexer.filters.field_kinds import FieldLook

__all__ = ["COUNTED", "bounds_of", "counted_values", "day_of", "is_counted", "label_of"]

COUNTED = 50_000  # documents: in more, only declared fields are counted, which takes no time
_OPTIONS = 200  # of a field
_LONGEST = 60  # characters of a value


def is_counted(visit: Visit, name: str, documents: int) -> bool:
    """Whether counting a field's values is quick."""
    return documents <= COUNTED or name in visit.collection.declared_fields()


def counted_values(visit: Visit, name: str, where: str) -> dict[Value, int]:
    """The commonest values of a field, each with its documents under a filter; where: "" for none."""
    found = visit.collection.facets(name, where=where or None, limit=_OPTIONS)
    return {each.value: each.documents for each in found.values}


def bounds_of(
    visit: Visit, look: FieldLook, documents: int
) -> tuple[str | int | float | None, str | int | float | None]:
    """The least and the greatest value of a field: of all documents where that is quick, else as was seen."""
    if look.values and is_counted(visit, look.name, documents):
        found = visit.collection.facets(look.name, limit=_OPTIONS)
        numbers = [each.value for each in found.values if isinstance(each.value, int | float)]
        if numbers and found.different <= _OPTIONS:
            return min(numbers), max(numbers)
    return look.low, look.high


def label_of(value: Value, count: int | None = None) -> str:
    """A value, with how often there is one: ACL (1,203)."""
    text = str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return text if count is None else f"{text} ({count:,})"


def day_of(text: object) -> dt.date | None:
    """The day that a text begins with; None for anything else."""
    try:
        return dt.date.fromisoformat(str(text)[:10])
    except ValueError:
        return None
