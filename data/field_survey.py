"""What a file's first rows say about its fields."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nearsay.data.faults import Fault
from nearsay.data.fields import MISSING, FieldSurvey, reach
from nearsay.data.row_documents import Row

__all__ = ["SURVEYED_ROWS", "first_rows", "survey_header", "survey_rows"]

SURVEYED_ROWS: Final = 100
_SURVEYED_CHARACTERS: Final = 8 * 2**20  # fewer rows when they are long: they are held in memory


def first_rows(rows: Iterator[Row | Fault]) -> list[Row | Fault]:
    """Take the rows that the fields are guessed from: 100 good ones, or those in 8 million characters."""
    taken: list[Row | Fault] = []
    good = size = 0
    for row in rows:
        taken.append(row)
        if isinstance(row, Fault):
            size += len(row.reason)
        else:
            good += 1
            size += sum(len(value) for value in row[1].values() if isinstance(value, str))
        if good >= SURVEYED_ROWS or size >= _SURVEYED_CHARACTERS:
            break
    return taken


def survey_rows(rows: Sequence[Mapping[str, object]]) -> FieldSurvey:
    """See which fields rows of objects have, and what they hold."""
    names: dict[str, None] = {}
    inner: dict[str, None] = {}
    texts: set[str] = set()
    ids: set[str] = set()
    for row in rows:
        for name, value in row.items():
            names[name] = None
            if isinstance(value, str):
                texts.add(name)
                ids.add(name)
            elif isinstance(value, int) and not isinstance(value, bool):
                ids.add(name)
            elif isinstance(value, Mapping) and name == "metadata":
                inner.update((str(key), None) for key in value)
    return FieldSurvey(
        names=tuple(names),
        text_names=tuple(name for name in names if name in texts),
        id_names=tuple(name for name in names if name in ids),
        inner_names=tuple(inner),
        has=lambda name: any(reach(row, name) is not MISSING for row in rows),
    )


def survey_header(names: Sequence[str], rows: Sequence[Mapping[str, object]]) -> FieldSurvey:
    """See which fields a header names, and which of them holds the longest texts in the first rows."""
    known = tuple(name for name in names if name)
    lengths = {name: sum(len(str(row.get(name, ""))) for row in rows) for name in known}
    longest = max(known, key=lambda name: lengths[name], default=None)
    return FieldSurvey(names=known, text_names=known, id_names=known, longest=longest)
