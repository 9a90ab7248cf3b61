"""Sentence examples from files."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Final, TypeVar

from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.json_values import UnusableRowError, check_string, is_nan
from nearsay.data.read_options import Format, format_of
from nearsay.data.row_files import file_lines, rows_and_faults
from nearsay.data.sentence_examples.columns import ExampleColumns, choose_columns
from nearsay.data.sentence_examples.examples import NLI_LABELS, ExampleKind, SentenceExamples
from nearsay.data.sentence_examples.labels import LabelReader, kind_of_labels, written_label

__all__ = [
    "read_sentence_examples",
]


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


_SAMPLE_ROWS: Final = 200  # what the columns are told from
_SHOWN: Final = 5  # rows or values named in a message

_Row = tuple[int, Mapping[str, object]]


def read_sentence_examples(
    path: str | Path,
    *,
    kind: ExampleKind | None = None,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    name: str | None = None,
    strict: bool = False,
    where: Mapping[str, str] | None = None,
) -> SentenceExamples:
    """Read a tsv, csv, jsonl (or .gz of these) or parquet file, or a txt file of one text a line.

    kind, columns (of the texts, in their order) and label (of tuples: a teacher's score of each passage):
        None = told from names and values, and said in the notes. In a row of tuples, the positive and the
        negatives may be lists of texts; what `nearsay search -f` printed is tuples with scores.
    where: takes only rows whose other fields are exactly these, as written ({"split": "train"}).
    strict: the first row that cannot be used is an error, instead of being left out, counted and named.

    Exact duplicates of a row (texts and label) and pairs whose annotators did not agree ('-', or -1 in NLI)
    are left out and counted. Tuples are brought to one width (`even_widths`). BadInputError for a file that
    cannot be read, columns or a kind that cannot be told, and a file without one usable row.
    """
    reading = _Reading(str(path), strict=strict)
    if format_of(Path(path)) is Format.TXT:
        if kind not in {None, ExampleKind.TEXTS} or columns is not None or label is not None or where:
            raise BadInputError(
                f"{path} is a txt file: one text a line and no columns; leave kind, columns, label and where "
                "out, or give a tsv, csv, jsonl or parquet file"
            )
        kind, chosen = ExampleKind.TEXTS, ExampleColumns(("text",), None, False, False)
        reading.take_lines(file_lines(path))
    else:
        rows = reading.good(rows_and_faults(path))
        sample = list(islice(rows, _SAMPLE_ROWS))
        if not sample:
            raise BadInputError(f"{path} holds no rows{reading.why()}; give a file with examples")
        chosen = choose_columns(
            [row for _, row in sample], kind=kind, columns=columns, label=label, path=str(path)
        )
        settled = kind or _kind_without_labels(chosen)
        reading.take_rows(_where(chain(sample, rows), where, str(path)), chosen, settled)
        kind = settled or reading.told_kind(chosen)
    return reading.examples(kind, chosen, name or _plain_name(path))


def _kind_without_labels(chosen: ExampleColumns) -> ExampleKind | None:
    if chosen.label is not None and len(chosen.texts) == 2:
        return None
    return {1: ExampleKind.TEXTS, 2: ExampleKind.PAIRS}.get(len(chosen.texts), ExampleKind.TUPLES)


def _where(rows: Iterator[_Row], where: Mapping[str, str] | None, path: str) -> Iterator[_Row]:
    if not where:
        yield from rows
        return
    seen: dict[str, Counter[str]] = {name: Counter() for name in where}
    fits = False
    for line, row in rows:
        wrong = False
        for name, wanted in where.items():
            value = row.get(name)
            written = str(value).lower() if isinstance(value, bool) else str(value)
            if value is None or written != wanted:
                wrong = True
                if value is not None and (len(seen[name]) < _SHOWN or written in seen[name]):
                    seen[name][written] += 1
        if not wrong:
            fits = True
            yield line, row
    if not fits:
        wanted = " and ".join(f"{name} = {value}" for name, value in where.items())
        others = "; ".join(f"{name} is {', '.join(values) or 'never there'}" for name, values in seen.items())
        raise BadInputError(f"{path} has no row with {wanted} ({others}); ask for what there is")


def _plain_name(path: str | Path) -> str:
    file = PurePath(path)
    return PurePath(file.stem).stem if file.suffix.lower() == ".gz" else file.stem


@dataclass(slots=True)
class _Reading:
    """What has been taken from one file so far."""

    path: str
    strict: bool
    lines: list[int] = field(default_factory=list)
    texts: list[tuple[str, ...]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)  # as written; none when there is no label column
    scores: list[tuple[float, ...]] = field(default_factory=list)  # of tuples, by a teacher
    left_out: int = 0  # rows that cannot be used
    faults: list[str] = field(default_factory=list)  # the first of them

    def good(self, items: Iterator[_Row | Fault]) -> Iterator[_Row]:
        """Pass rows on and count faults."""
        for item in items:
            if isinstance(item, Fault):
                self.leave_out(item)
            else:
                yield item[0], ranked_row(item[1])

    def leave_out(self, fault: Fault) -> None:
        """Count a row that cannot be used; BadInputError under strict."""
        if self.strict:
            raise BadInputError(f"{fault}. Mend or remove the row, or read without strict to leave it out")
        self.left_out += 1
        if len(self.faults) < _SHOWN:
            self.faults.append(str(fault))

    def why(self) -> str:
        """Say which rows were left out, to go into a message."""
        if not self.left_out:
            return ""
        more = f" and {self.left_out - len(self.faults)} more" if self.left_out > len(self.faults) else ""
        return f" ({self.left_out} cannot be used: {'; '.join(self.faults)}{more})"

    def take_lines(self, lines: Iterator[tuple[int, str]]) -> None:
        """Take each line as a text; blank ones are passed over."""
        for line, text in lines:
            if not text.strip():
                continue
            try:
                check_string(text, "the text")
            except UnusableRowError as error:
                self.leave_out(Fault(self.path, line, str(error)))
            else:
                self.lines.append(line)
                self.texts.append((text,))

    def take_rows(self, rows: Iterator[_Row], chosen: ExampleColumns, kind: ExampleKind | None) -> None:
        """Take texts and written labels."""
        for line, row in rows:
            label: str | None = None
            scores: list[tuple[float, ...]] = []
            try:
                found = list(row_texts(row, chosen.texts, kind))
                if chosen.label is not None and kind is ExampleKind.TUPLES:
                    scores = [row_scores(row.get(chosen.label), len(texts) - 1) for texts in found]
                    _require_one_positive(found)
                elif chosen.label is not None:
                    label = written_label(row.get(chosen.label))
            except UnusableRowError as error:
                self.leave_out(Fault(self.path, line, str(error)))
                continue
            self.texts += found
            self.lines += [line] * len(found)
            self.scores += scores
            if label is not None:
                self.labels += [label] * len(found)

    def told_kind(self, chosen: ExampleColumns) -> ExampleKind:
        """Tell the kind of labelled pairs from their labels."""
        counts = Counter(self.labels)
        counts.pop("", None)
        return kind_of_labels(
            counts,
            column=chosen.label or "",
            entailing=[name.lower() for name in chosen.texts] == ["premise", "hypothesis"],
            path=self.path,
        )

    def examples(self, kind: ExampleKind, chosen: ExampleColumns, name: str) -> SentenceExamples:
        """Finish: labels to numbers, duplicates out, one width, and the notes."""
        notes = [self._columns_note(kind, chosen)]
        rows, labels = self.texts, None
        scores: Sequence[tuple[float, ...]] | None = self.scores or None
        if chosen.label is not None and kind.is_labelled:
            rows, labels, more = self._labelled(kind)
            notes += more
        if self.left_out:
            notes.append(f"{self.path}: rows are left out{self.why()}")
        if not rows:
            raise BadInputError(f"{self.path} holds no usable row{self.why()}; give a file with examples")
        columns = chosen.texts
        if kind is ExampleKind.TUPLES:
            rows, filled, cut = even_widths(rows)
            columns = tuple_columns(columns, len(rows[0]))
            if scores is not None:  # beside a zero for the anchor, they are filled and cut as the texts are
                scores = [row[1:] for row in even_widths([(0.0, *row) for row in scores])[0]]
            if filled or cut:
                notes.append(
                    f"{self.path}: every row gets {len(columns) - 2} negatives: {filled} rows have fewer and "
                    f"repeat theirs, {cut} have more and lose the last"
                )
        texts, numbers = _distinct(rows, labels)
        if scores is not None:
            texts, scores = _distinct(rows, scores)
        if duplicates := len(rows) - len(texts):
            notes.append(f"{self.path}: {duplicates} rows were there before exactly and are left out")
        label_names = NLI_LABELS if kind is ExampleKind.NLI else ()
        return SentenceExamples(
            name,
            kind,
            columns,
            texts,
            numbers,
            label_names,
            tuple(notes),
            scores=None if scores is None else tuple(scores),
        )

    def _labelled(self, kind: ExampleKind) -> tuple[list[tuple[str, ...]], list[float], list[str]]:
        reader = LabelReader(kind)
        rows: list[tuple[str, ...]] = []
        numbers: list[float] = []
        disagreed = 0
        for line, texts, label in zip(self.lines, self.texts, self.labels, strict=True):
            try:
                number = reader.read(label)
            except UnusableRowError as error:
                self.leave_out(Fault(self.path, line, str(error)))
                continue
            if number is None:
                disagreed += 1
                continue
            rows.append(texts)
            numbers.append(number)
        notes = [] if reader.assumption is None else [f"{self.path}: {reader.assumption}"]
        if disagreed:
            notes.append(f"{self.path}: {disagreed} rows are marked '-' (no agreement) and are left out")
        return rows, numbers, notes

    def _columns_note(self, kind: ExampleKind, chosen: ExampleColumns) -> str:
        told = " (guessed)"
        texts = " + ".join(map(repr, chosen.texts)) + (told if chosen.texts_guessed else "")
        label = ""
        if chosen.label is not None:
            what = {ExampleKind.SCORED: "score", ExampleKind.TUPLES: "scores"}.get(kind, "label")
            label = f", {what} = {chosen.label!r}" + (told if chosen.label_guessed else "")
        return f"{self.path}: kind = {kind}, texts = {texts}{label}"


def _distinct(
    rows: Sequence[tuple[str, ...]], beside: Sequence[T] | None
) -> tuple[tuple[tuple[str, ...], ...], tuple[T, ...] | None]:
    """Each row once with what stands beside it: its label, or its passages' scores."""
    if beside is None:
        return tuple(dict.fromkeys(rows)), None
    pairs = dict.fromkeys(zip(rows, beside, strict=True))
    return tuple(row for row, _ in pairs), tuple(value for _, value in pairs)


def _require_one_positive(found: Sequence[tuple[str, ...]]) -> None:
    if len(found) != 1:
        raise UnusableRowError(f"there are {len(found)} positives, and scores are for rows with one")
