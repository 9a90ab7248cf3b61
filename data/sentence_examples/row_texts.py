"""The texts of one row of a file: cells, or lists of positives and negatives."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from nearsay.data.json_values import UnusableRowError, check_string, is_nan
from nearsay.data.sentence_examples.kind import ExampleKind

__all__ = ["even_widths", "ranked_row", "row_scores", "row_texts", "tuple_columns"]

_ANCHOR_AND_POSITIVE = 2
T = TypeVar("T")


def row_texts(
    row: Mapping[str, object], columns: Sequence[str], kind: ExampleKind | None
) -> Iterator[tuple[str, ...]]:
    """Give the texts of a row: one tuple, or one for each of a list of positives.

    In tuples an empty or missing negative is passed over, and a list of negatives counts as so many columns.
    UnusableRowError when a text is empty, missing, no text, or holds NUL or half a surrogate pair.
    """
    if kind is not ExampleKind.TUPLES and kind is not ExampleKind.PAIRS:
        yield tuple(_text(row.get(name), name) for name in columns)
        return
    anchor = _text(row.get(columns[0]), columns[0])
    positives = _texts(row.get(columns[1]), columns[1])
    if not positives:
        raise UnusableRowError(f"{columns[1]} is an empty list")
    negatives = [text for name in columns[2:] for text in _present(row.get(name), name)]
    if kind is ExampleKind.TUPLES and not negatives:
        raise UnusableRowError("there is no negative")
    for positive in positives:
        yield (anchor, positive, *negatives)


def ranked_row(row: Mapping[str, object]) -> Mapping[str, object]:
    """Give an answered query as a tuple; its `hits` of `text` and `score` are as `nearsay search -f` prints.

    The best hit is its positive, the others are its negatives, and the ranking's scores stand beside them. A
    row of another kind stays as it is.
    """
    hits = row.get("hits")
    if not isinstance(hits, list) or not all(isinstance(hit, dict) for hit in hits) or "query" not in row:
        return row
    texts = [hit.get("text") for hit in hits]
    scores = [hit.get("score") for hit in hits]
    return {"query": row["query"], "positive": texts[:1], "negatives": texts[1:], "scores": scores}


def row_scores(value: object, passages: int) -> tuple[float, ...]:
    """Give a teacher's scores of a row's passages: a list of numbers, or text with commas or spaces between.

    UnusableRowError when they are not as many as the passages, or one is no finite number.
    """
    written = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(written, list):
        raise UnusableRowError(f"the scores are {value!r}, and each of {passages} passages needs one")
    try:
        scores = tuple(float(score) for score in written)
    except (TypeError, ValueError):
        raise UnusableRowError(f"the scores {value!r} are not all numbers") from None
    if len(scores) != passages:
        raise UnusableRowError(f"there are {len(scores)} scores for {passages} passages")
    if not all(map(math.isfinite, scores)):
        raise UnusableRowError(f"the scores {value!r} are not all finite")
    return scores


def even_widths(rows: Sequence[tuple[T, ...]]) -> tuple[list[tuple[T, ...]], int, int]:
    """Bring tuples of unequal numbers of negatives to one width: as many as at least half of the rows have.

    A row with fewer repeats its own from the first on, so that no row is lost and the others keep their
    negatives; a row with more is cut. returns: the rows, how many were filled, how many were cut.
    """
    counts = Counter(map(len, rows))
    width, more = max(counts), 0
    while 2 * (more := more + counts[width]) < len(rows):
        width -= 1
    filled = sum(count for length, count in counts.items() if length < width)
    cut = sum(count for length, count in counts.items() if length > width)
    if not filled and not cut:
        return list(rows), 0, 0
    return [_of_width(row, width) for row in rows], filled, cut


def tuple_columns(columns: Sequence[str], width: int) -> tuple[str, ...]:
    """Name the columns of tuples of `width` texts; lists may have made them more than the file has."""
    if len(columns) >= width:
        return tuple(columns[:width])
    numbered = (f"negative_{number}" for number in range(1, width - _ANCHOR_AND_POSITIVE + 1))
    return (*columns[:_ANCHOR_AND_POSITIVE], *numbered)


def _of_width(row: tuple[T, ...], width: int) -> tuple[T, ...]:
    negatives = row[_ANCHOR_AND_POSITIVE:]
    wanted = width - _ANCHOR_AND_POSITIVE
    repeated = negatives * -(-wanted // len(negatives))
    return row[:_ANCHOR_AND_POSITIVE] + repeated[:wanted]


def _present(value: object, name: str) -> list[str]:
    if value is None or is_nan(value) or (isinstance(value, str) and not value.strip()):
        return []
    return _texts(value, name)


def _texts(value: object, name: str) -> list[str]:
    if isinstance(value, list):
        return [_text(item, name) for item in value]
    return [_text(value, name)]


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        if value is None or is_nan(value):
            raise UnusableRowError(f"{name} is missing")
        raise UnusableRowError(f"{name} is no text but of type {type(value).__name__}")
    if not value or value.isspace():
        raise UnusableRowError(f"{name} is empty")
    check_string(value, name)
    return value
