"""Which metadata fields hold dates."""

from collections.abc import Iterable, Mapping

from nearsay.data.document import JsonValue
from nearsay.indexer.exploring.dates import read_date

__all__ = ["date_fields"]

_SHARE = 0.9  # of a field's values have to be dates
_SPAN = range(1500, 2200)  # years; a number outside is more likely a count than a year


def date_fields(rows: Iterable[Mapping[str, JsonValue]]) -> list[str]:
    """The fields of which nine in ten values are dates of the years 1500 to 2199, the fullest first.

    rows: the metadata of documents. Fields within objects are named as a filter names them: author.born.
    """
    values: dict[str, int] = {}
    dated: dict[str, int] = {}
    for row in rows:
        for name, value in _flat(row):
            if value is None or value == "" or isinstance(value, list):
                continue
            values[name] = values.get(name, 0) + 1
            found = None if isinstance(value, bool) else read_date(value)
            if found is not None and found.first.year in _SPAN:
                dated[name] = dated.get(name, 0) + 1
    sure = [name for name, count in dated.items() if count >= _SHARE * values[name]]
    return sorted(sure, key=lambda name: (-dated[name], name))


def _flat(row: Mapping[str, JsonValue], before: str = "") -> Iterable[tuple[str, JsonValue]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
