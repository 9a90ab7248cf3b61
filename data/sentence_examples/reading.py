"""Sentence examples from files."""

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path, PurePath
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.fields import MISSING, reach
from nearsay.data.json_values import UnusableRowError, check_string, is_blank, is_nan, text_of
from nearsay.data.mapped import numbered
from nearsay.data.quantity import counted
from nearsay.data.read_options import Format, format_of
from nearsay.data.row_files import SAMPLE_ROWS, file_lines, rows_and_faults
from nearsay.data.sentence_examples.columns import (
    ExampleColumns,
    UnusedColumns,
    are_entailing,
    choose_columns,
    is_usual_name,
    passed_over,
)
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import NLI_LABELS, SentenceExamples
from nearsay.data.sentence_examples.labels import MOST_SCORE, LabelReader, kind_of_labels, written_label
from nearsay.data.sentence_examples.text_rows import TextRows, Texts, TextWriter

_ANCHOR_AND_POSITIVE: Final = 2
_PLACES_AT_ONCE: Final = 65_536  # rows
_LIST_AS_TEXT: Final = re.compile(r"\s*\[(['\"]).*\1\]\s*", re.DOTALL)  # what tables make of Python's lists


def row_texts(
    row: Mapping[str, object], columns: Sequence[str], kind: ExampleKind | None
) -> Iterator[tuple[str, ...]]:
    """Return the texts of a row: one tuple, or one for each of a list of positives.

    In tuples an empty or missing negative is skipped, and a list of negatives counts as so many columns.
    UnusableRowError when a text is empty, missing, no text, or holds NUL or half a surrogate pair.
    """
    if kind is not ExampleKind.TUPLES and kind is not ExampleKind.PAIRS:
        yield tuple(text_of(_value(row, name), name) for name in columns)
        return
    anchor = text_of(_value(row, columns[0]), columns[0])
    positives = _texts(_value(row, columns[1]), columns[1])
    if not positives:
        raise UnusableRowError(f"{columns[1]} is an empty list")
    negatives = [text for name in columns[2:] for text in _present(_value(row, name), name)]
    if kind is ExampleKind.TUPLES and not negatives:
        raise UnusableRowError("there is no negative")
    for positive in positives:
        yield (anchor, positive, *negatives)


def _value(row: Mapping[str, object], name: str) -> object:
    found = reach(row, name)
    return None if found is MISSING else found


def ranked_row(row: Mapping[str, object]) -> Mapping[str, object]:
    """An answered query as a tuple; its `hits` of `text` and `score` are as `nearsay search -f` prints.

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
    """A teacher's scores of a row's passages: a list of numbers, or text with commas or spaces between.

    UnusableRowError when they are not as many as the passages, or one is beyond `MOST_SCORE` or no number.
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
    if not all(abs(score) <= MOST_SCORE for score in scores):
        raise UnusableRowError(f"the scores {value!r} are not all numbers up to {MOST_SCORE:g}")
    return scores


def even_width(counts: NDArray[np.integer[Any]]) -> tuple[int, int, int]:
    """Choose the width of tuples with unequal numbers of negatives: what at least half of the rows have.

    counts: (rows,) texts of each row
    returns: the width, how many rows have fewer texts, and how many have more
    """
    often = np.bincount(counts)
    width = len(often) - 1
    more = int(often[width])
    while 2 * more < len(counts):
        width -= 1
        more += int(often[width])
    return width, int(often[:width].sum()), int(often[width + 1 :].sum())


def even_places(counts: NDArray[np.integer[Any]], width: int) -> Iterator[NDArray[np.int64]]:
    """Say which of the texts that stand one after another make the rows of tuples, some thousands at a time.

    A row with fewer texts repeats its negatives from the first on, so that no row is lost and the others keep
    their negatives; a row with more is cut. counts: (rows,) texts of each row; gives: (rows, width) places.
    """
    begins = 0
    for start in range(0, len(counts), _PLACES_AT_ONCE):
        some = counts[start : start + _PLACES_AT_ONCE].astype(np.int64)
        first = begins + np.cumsum(some) - some
        begins += int(some.sum())
        negatives = (some - _ANCHOR_AND_POSITIVE)[:, None]
        places = np.broadcast_to(np.arange(width), (len(some), width)).copy()
        after = places[:, _ANCHOR_AND_POSITIVE:]
        after -= _ANCHOR_AND_POSITIVE
        after %= negatives
        after += _ANCHOR_AND_POSITIVE
        yield places + first[:, None]


def tuple_columns(columns: Sequence[str], width: int) -> tuple[str, ...]:
    """Name the columns of tuples of `width` texts; lists may have made them more than the file has."""
    if len(columns) >= width:
        return tuple(columns[:width])
    numbered = (f"negative_{number}" for number in range(1, width - _ANCHOR_AND_POSITIVE + 1))
    return (*columns[:_ANCHOR_AND_POSITIVE], *numbered)


def _present(value: object, name: str) -> list[str]:
    if value is None or is_nan(value) or (isinstance(value, str) and not value.strip()):
        return []
    return _texts(value, name)


def refuse_lists(row: Mapping[str, object], columns: Sequence[str]) -> None:
    """Raise UnusableRowError where a table holds a list, whose texts would be taken for one."""
    for name in columns:
        if _LIST_AS_TEXT.fullmatch(str(_value(row, name))):
            raise UnusableRowError(
                f"{name} is a list written as a text; save the rows as JSON lines or Parquet"
            )


def _texts(value: object, name: str) -> list[str]:
    return [passage_text(item, name) for item in (value if isinstance(value, list) else [value])]


def passage_text(value: object, name: str) -> str:
    """A text, or a title and a text as they are encoded when retrieval is measured."""
    if not isinstance(value, Mapping) or "text" not in value:
        return text_of(value, name)
    title = value.get("title")
    text = text_of(value["text"], f"{name}.text")
    return f"{text_of(title, f'{name}.title')} {text}" if isinstance(title, str) and title.strip() else text


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
    folder: Path | None = None,
) -> SentenceExamples:
    """Read a tsv, csv, jsonl (or .gz of these) or parquet file, or a txt file of one text a line.

    kind, columns (of the texts, in their order) and label (of tuples: a teacher's score of each passage):
        None = told from names and values, and said in the notes. A column `translation.de` is the field `de`
        of the mapping `translation`. In a row of tuples, the positive and the negatives may be lists of
        texts; what `nearsay search -f` printed is tuples with scores.
    where: takes only rows whose other fields are exactly these, as written ({"split": "train"}).
    strict: the first row that cannot be used is an error, instead of being left out, counted and named.
    folder: on whose file system the texts are kept; None = the system's folder for temporary files.

    Exact duplicates of a row (texts and label) and pairs whose annotators did not agree ('-', or -1 in NLI)
    are left out and counted. Tuples are brought to one width (`even_width`). BadInputError for a file that
    cannot be read, columns or a kind that cannot be guessed, and a file without one usable row.

    The file is read once, as a stream, and its texts are written to a memory-mapped file without a name: 4
    bytes a text are in memory, some 30 for a moment, and nothing is left on the disk when the examples are
    used no more or the process ends. DiskFullError or NearsayError when the texts cannot be written.
    """
    with TextWriter(folder) as writer:
        reading = _Reading(str(path), strict=strict, writer=writer)
        if format_of(Path(path)) is Format.TXT:
            if kind not in {None, ExampleKind.TEXTS} or columns is not None or label is not None or where:
                raise BadInputError(
                    f"{path} is a txt file: one text a line and no columns; leave kind, columns, label and "
                    "where out, or give a tsv, csv, jsonl or parquet file"
                )
            kind, chosen = ExampleKind.TEXTS, ExampleColumns(("text",), None, False, False)
            reading.take_lines(file_lines(path))
        else:
            rows = _where(reading.good(rows_and_faults(path)), where, str(path))
            sample = list(islice(rows, SAMPLE_ROWS))
            if not sample:
                raise BadInputError(f"{path} holds no rows{reading.why()}; give a file with examples")
            chosen = choose_columns(
                [row for _, row in sample], kind=kind, columns=columns, label=label, path=str(path)
            )
            unused = UnusedColumns([row for _, row in sample], chosen)
            told, kind = kind is None, kind or _kind_without_labels(chosen)
            reading.take_rows(chain(sample, unused.seen(rows)), chosen, kind)
            if told and kind is ExampleKind.PAIRS:
                unused.refuse_labels(str(path))
            reading.notes += unused.notes(str(path))
            if told and kind is ExampleKind.TEXTS:
                reading.notes += passed_over([row for _, row in sample], chosen.texts, str(path))
        return reading.examples(kind, chosen, name or _plain_name(path))


def _kind_without_labels(chosen: ExampleColumns) -> ExampleKind | None:
    if chosen.label is not None and len(chosen.texts) <= _ANCHOR_AND_POSITIVE:
        return ExampleKind.CLASSES if len(chosen.texts) == 1 else None
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
    """What has been taken from one file so far; the texts are in the writer's file."""

    path: str
    strict: bool
    writer: TextWriter
    lines: "array[int]" = field(default_factory=lambda: array("q"))  # of each row that has a label
    widths: "array[int]" = field(default_factory=lambda: array("i"))  # texts of each tuple
    scores: "array[float]" = field(default_factory=lambda: array("d"))  # of each tuple's passages
    classes: tuple[str, ...] = ()  # where the labels are any words
    scored: bool = False
    left_out: int = 0  # rows that cannot be used
    faults: list[str] = field(default_factory=list)  # the first of them
    notes: list[str] = field(default_factory=list)  # for the user, beside those on the columns and the faults

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
            raise BadInputError(f"{fault}. Fix or remove the row, or read without strict to leave it out")
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
        """Take each line as a text; blank ones are skipped."""
        for line, text in lines:
            if is_blank(text):
                continue
            try:
                check_string(text, "the text")
            except UnusableRowError as error:
                self.leave_out(Fault(self.path, line, str(error)))
            else:
                self.writer.add((text,))

    def take_rows(self, rows: Iterator[_Row], chosen: ExampleColumns, kind: ExampleKind | None) -> None:
        """Take texts, and behind those of a row its written label."""
        tuples = kind is ExampleKind.TUPLES
        self.scored = tuples and chosen.label is not None
        labelled = chosen.label is not None and not tuples
        table = format_of(Path(self.path)) in {Format.CSV, Format.TSV}  # whose values are no lists
        listing = chosen.texts[1:] if table and kind in {ExampleKind.TUPLES, ExampleKind.PAIRS} else ()
        add = self.writer.add
        for line, row in rows:
            try:
                refuse_lists(row, listing)
                found = list(row_texts(row, chosen.texts, kind))
                if self.scored:
                    scores = [row_scores(row.get(chosen.label or ""), len(texts) - 1) for texts in found]
                    _require_one_positive(found)
                    self.scores.extend(scores[0])
                elif labelled:
                    label = written_label(row.get(chosen.label or ""))
                    found = [(*texts, label) for texts in found]
                    self.lines.append(line)
            except UnusableRowError as error:
                self.leave_out(Fault(self.path, line, str(error)))
                continue
            for texts in found:
                add(texts)
                if tuples:
                    self.widths.append(len(texts))

    def examples(self, kind: ExampleKind | None, chosen: ExampleColumns, name: str) -> SentenceExamples:
        """Finish: the kind told, labels to numbers, duplicates out, one width, and the notes."""
        texts, written = self.writer.finish()
        labels: NDArray[np.float64] | None = None
        scores: NDArray[np.float64] | None = None
        columns = chosen.texts
        width = len(columns)
        if not len(written):
            raise self._no_row(kind)
        kind = kind or self._told_kind(texts, written[width :: width + 1], chosen)
        notes = [self._columns_note(kind, chosen), *self.notes]
        if kind is ExampleKind.TUPLES:
            rows = written
        elif chosen.label is None:
            rows = written.reshape(-1, width)
        else:
            rows, labels, more = self._labelled(texts, written.reshape(-1, width + 1), kind)
            notes += more
        if self.left_out:
            notes.append(f"{self.path}: rows are left out{self.why()}")
        if not len(rows):
            raise self._no_row(kind)
        if kind is ExampleKind.TUPLES:
            rows, scores, filled, cut = self._tuples(written)
            columns = tuple_columns(columns, rows.shape[1])
            if filled or cut:
                notes.append(
                    f"{self.path}: every row gets {len(columns) - 2} negatives: {filled} rows have fewer and "
                    f"repeat theirs, {cut} have more and lose the last"
                )
        beside = [numbers for numbers in (labels, scores) if numbers is not None]
        kept = numbered(rows, *beside)[0]
        if duplicates := len(rows) - len(kept):
            notes.append(f"{self.path}: {counted(duplicates, 'exact duplicate')} left out")
            rows = rows[kept]
            labels, scores = (None if one is None else one[kept] for one in (labels, scores))
        label_names = NLI_LABELS if kind is ExampleKind.NLI else self.classes
        return SentenceExamples(
            name, kind, columns, TextRows(texts, rows), labels, label_names, tuple(notes), scores=scores
        )

    def _no_row(self, kind: ExampleKind | None) -> BadInputError:
        alone = ", or --kind pairs if there are no negatives" if kind is ExampleKind.TUPLES else ""
        return BadInputError(f"{self.path} holds no usable row{self.why()}; give a file with examples{alone}")

    def _tuples(
        self, written: NDArray[np.integer[Any]]
    ) -> tuple[NDArray[np.integer[Any]], NDArray[np.float64] | None, int, int]:
        """Return the rows in one width, their scores, and how many rows were filled and cut."""
        counts = np.frombuffer(self.widths, np.intc)
        width, filled, cut = even_width(counts)
        given = np.frombuffer(self.scores, np.float64)
        rows = np.empty((len(counts), width), written.dtype)
        scores = np.empty((len(counts), width - 1)) if self.scored else None
        start = 0
        for places in even_places(counts, width):
            end = start + len(places)
            rows[start:end] = written[places]
            if scores is not None:  # which anchors do not have
                scores[start:end] = given[places[:, 1:] - np.arange(start + 1, end + 1)[:, None]]
            start = end
        return rows, scores, filled, cut

    def _told_kind(
        self, texts: Texts, labels: NDArray[np.integer[Any]], chosen: ExampleColumns
    ) -> ExampleKind:
        """Tell the kind of labelled pairs from their labels, (rows,) numbers of texts."""
        words, first, counts = np.unique(labels, return_index=True, return_counts=True)
        lines = (self.lines[row] for row in first)
        return kind_of_labels(
            zip(texts.each(words), counts.tolist(), lines, strict=True),
            column=chosen.label or "",
            entailing=are_entailing(chosen.texts),
            path=self.path,
        )

    def _labelled(
        self, texts: Texts, written: NDArray[np.integer[Any]], kind: ExampleKind
    ) -> tuple[NDArray[np.integer[Any]], NDArray[np.float64], list[str]]:
        """Return the rows with labels that can be used, the labels, and notes.

        written: (rows, texts + 1) numbers of the texts, and of the written label behind them
        """
        words, place = np.unique(written[:, -1], return_inverse=True)
        reader = LabelReader(kind, texts.each(words) if kind is ExampleKind.CLASSES else ())
        self.classes = reader.classes
        numbers = np.full(len(words), np.nan)
        faulty = np.zeros(len(words), np.bool_)
        for number, label in enumerate(texts.each(words)):
            try:
                read = reader.read(label)
            except UnusableRowError:
                faulty[number] = True
            else:
                numbers[number] = np.nan if read is None else read
        self._leave_out_labels(texts, words, place, np.flatnonzero(faulty[place]), reader)
        labels = numbers[place]
        kept = np.isfinite(labels)
        notes = [] if reader.assumption is None else [f"{self.path}: {reader.assumption}"]
        if disagreed := int(len(labels) - kept.sum() - faulty[place].sum()):
            notes.append(f"{self.path}: {counted(disagreed, 'row')} marked '-' (no agreement) left out")
        return written[kept, :-1], labels[kept], notes

    def _leave_out_labels(
        self,
        texts: Texts,
        words: NDArray[np.integer[Any]],
        place: NDArray[np.integer[Any]],
        faulty: NDArray[np.integer[Any]],
        reader: LabelReader,
    ) -> None:
        """Count the rows with labels that cannot be used, and name the first of them."""
        named = faulty[: 1 if self.strict else _SHOWN]
        for row, label in zip(named.tolist(), texts.of(words[place[named]]), strict=True):
            try:
                reader.read(label)
            except UnusableRowError as error:
                self.leave_out(Fault(self.path, self.lines[row], str(error)))
        self.left_out += len(faulty) - len(named)

    def _columns_note(self, kind: ExampleKind, chosen: ExampleColumns) -> str:
        label = {ExampleKind.SCORED: "score", ExampleKind.TUPLES: "scores"}.get(kind, "label")
        note = f"{self.path}: kind = {kind}, {chosen.said(label)}"
        table = format_of(Path(self.path)) in {Format.CSV, Format.TSV}
        if table and chosen.texts_guessed and not any(map(is_usual_name, chosen.texts)):
            note += "; the first line is taken as the header"
        return note


def _require_one_positive(found: Sequence[tuple[str, ...]]) -> None:
    if len(found) != 1:
        raise UnusableRowError(f"there are {len(found)} positives, and scores are for rows with one")
