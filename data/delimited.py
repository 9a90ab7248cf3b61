"""Rows from CSV and TSV files."""

import csv
import math
import re
from collections import Counter, deque
from collections.abc import Iterator
from typing import Final, TypeAlias

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.json_values import MAX_FIELDS
from nearsay.data.lines import RAISE_LIMIT, too_long
from nearsay.data.quantity import counted

_DELIMITERS: Final = ",;\t|"
_NAMES_SHOWN: Final = 12
_HINT: Final = re.compile(r"sep=(.)", re.IGNORECASE)  # a first line that tells Excel the delimiter
# An opened quote is looked for a limit's length ahead, and the lines are read again when it is not closed.
# In a file of nothing but such lines that takes the square of its length.
_READ_AGAIN: Final = 64 * 2**20  # characters in a file
_GIVEN_UP: Final = (
    "a quote is opened and not closed, as on too many lines before it: is it a CSV file? "
    "Fix the quotes, or name its format; the rest of the file is not read"
)
_NOT_FINITE: Final = frozenset({"nan", "inf", "+inf", "-inf", "infinity", "-infinity"})
_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")  # 18 digits: what 64 bits surely hold
_DECIMAL: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})\.[0-9]{1,30}([eE][+-]?[0-9]{1,4})?")

_Line: TypeAlias = tuple[int, str] | Fault


def cell_value(cell: str) -> JsonValue:
    """Parse a cell of metadata: numbers, true and false, "" and NaN as None, else the string.

    Numbers with leading zeros or more than 18 digits (telephone numbers, codes) stay strings.
    """
    if not cell or cell.isspace():
        return None
    if cell[0] in "-0123456789":
        if _WHOLE.fullmatch(cell):
            return int(cell)
        if _DECIMAL.fullmatch(cell):
            number = float(cell)
            return number if math.isfinite(number) else cell
    if len(cell) <= 9:
        lower = cell.lower()
        if lower in {"true", "false"}:
            return lower == "true"
        if lower in _NOT_FINITE:
            return None
    return cell


def check_width(fields: int, what: str) -> None:
    """Raise BadInputError for more fields than allowed; `what`: the start of the sentence."""
    if fields > MAX_FIELDS:
        raise BadInputError(
            f"{what} names {fields:,} fields, and at most {MAX_FIELDS:,} are allowed. "
            "Leave out the columns that are not needed; for lines of text, give a .txt file"
        )


class DelimitedRows:
    """The rows of a file with a header line: `(line, cells by name) | Fault`.

    Raises BadInputError for a header that is missing, unreadable, or has a field twice. Blank lines are
    skipped. An unterminated quote costs only the row's first line: the following lines are read again, and
    those directly after it that are not valid rows are counted in its fault.
    """

    def __init__(
        self, lines: Iterator[_Line], *, name: str, quoted: bool, delimiter: str | None, max_row_bytes: int
    ) -> None:
        """`quoted`: CSV; False: TSV, where quotes are ordinary characters.

        delimiter: None = the most frequent of comma, semicolon, tab and bar in the header line
        """
        self._lines = lines
        self._name = name
        self._again: deque[_Line] = deque()  # lines read ahead, to be read again
        self._read_again = 0  # characters of them so far
        self._unclosed: Fault | None = None  # the last fault of a quote
        self._limit = max_row_bytes
        self._quoted = quoted
        self.line_quoted: int | None = None
        """Of TSV, the first line with a cell in quotes whose own are doubled: somebody wrote it as CSV."""
        self.delimiter = delimiter or "\t"
        if quoted:
            # The module's limit of 131,072 characters a field is the process's; it is only ever raised.
            csv.field_size_limit(max(csv.field_size_limit(), max_row_bytes + 1))
            seen = self._seen_delimiter()
            self.delimiter = delimiter or seen
        self.header = self._header()
        """The fields' names; one without a name is ""."""

    def __iter__(self) -> Iterator[tuple[int, dict[str, str]] | Fault]:
        width = len(self.header)
        unclosed: Fault | None = None  # waits until it is known how many lines it spoils
        after = 0
        for row in self._rows():
            unlike = not isinstance(row, Fault) and len(row[1]) != width
            if unclosed is not None:
                if unlike:
                    after += 1
                    continue
                yield _with_lines_after(unclosed, after)
                unclosed, after = None, 0
            if isinstance(row, Fault):
                if row is self._unclosed:
                    unclosed = row
                else:
                    yield row
            elif unlike:
                yield Fault(
                    self._name, row[0], f"{counted(len(row[1]), 'field')}, and the header has {width}"
                )
            else:
                yield row[0], dict(zip(self.header, row[1], strict=True))
        if unclosed is not None:
            yield _with_lines_after(unclosed, after)

    def _header(self) -> tuple[str, ...]:
        first = next(self._rows(), None)
        if first is None:
            raise BadInputError(f"{self._name} is empty; give a file with a header line")
        if isinstance(first, Fault):
            if first.line is None:  # nothing of it can be read
                raise BadInputError(f"{first}. Check the file")
            raise BadInputError(
                f"{first} (its header line). Fix that line; for lines of text, give a .txt file"
            )
        names = tuple(name.strip() for name in first[1])
        check_width(len(names), f"{self._name}:{first[0]}: the header")
        twice = sorted(name for name, count in Counter(names).items() if name and count > 1)
        if twice:
            named = ", ".join(map(repr, twice[:_NAMES_SHOWN]))
            raise BadInputError(
                f"{self._name}:{first[0]}: the header names {named} more than once; "
                "give each column its own name"
            )
        return names

    def _seen_delimiter(self) -> str:
        line = ""
        while not line.strip():
            item = next(self._lines, None)
            if item is None:
                break
            self._again.append(item)
            line = "" if isinstance(item, Fault) else item[1]
            if isinstance(item, Fault):
                break
            if hint := _HINT.fullmatch(line.strip(" ")):
                self._again.pop()
                return hint[1]
        outside_quotes = "".join(line.split('"')[::2])
        return max(_DELIMITERS, key=outside_quotes.count)  # the first of equals

    def _rows(self) -> Iterator[tuple[int, list[str]] | Fault]:
        delimiter, quoted = self.delimiter, self._quoted
        while (item := self._next_line()) is not None:
            if isinstance(item, Fault):
                yield item
                continue
            number, line = item
            if quoted and '"' in line:
                row = self._quoted_row(number, line)
                if isinstance(row, Fault):
                    yield row
                    continue
            elif not line.strip(" "):  # a line of tabs is a row of empty cells
                continue
            else:
                row = (number, line.split(delimiter))
                if not quoted and self.line_quoted is None and '""' in line and any(map(_is_quoted, row[1])):
                    self.line_quoted = number
            if "\0" in line or (quoted and any("\0" in cell for cell in row[1])):
                yield Fault(self._name, number, "the row holds a NUL character")
            else:
                yield row

    def _next_line(self) -> _Line | None:
        return self._again.popleft() if self._again else next(self._lines, None)

    def _quoted_row(self, number: int, line: str) -> tuple[int, list[str]] | Fault:
        taken: list[_Line] = []
        size = 0

        def lines() -> Iterator[str]:
            nonlocal size
            yield line + "\n"
            size = len(line)
            while size <= self._limit and (item := self._next_line()) is not None:
                taken.append(item)
                if isinstance(item, Fault):
                    return
                size += len(item[1])
                yield item[1] + "\n"

        try:
            cells = next(csv.reader(lines(), delimiter=self.delimiter, strict=True))
        except csv.Error as error:
            self._again.extendleft(reversed(taken))
            self._read_again += size
            if self._read_again > _READ_AGAIN:
                self._again.clear()
                self._lines = iter(())
                return Fault(self._name, number, _GIVEN_UP)
            self._unclosed = Fault(self._name, number, self._quote_fault(error, size))
            return self._unclosed
        if size > self._limit:
            return Fault(self._name, number, too_long("the row", self._limit))
        return number, cells

    def _quote_fault(self, error: csv.Error, size: int) -> str:
        if size > self._limit:
            return f"a quote is opened and not closed within {self._limit:,} bytes{RAISE_LIMIT}"
        if "unexpected end" in str(error):
            return "a quote is opened and not closed"
        return f"the quotes of the row do not match: {error}"


def _is_quoted(cell: str) -> bool:
    inside = cell[1:-1]
    return cell[:1] == cell[-1:] == '"' and '""' in inside and '"' not in inside.replace('""', "")


def _with_lines_after(unclosed: Fault, after: int) -> Fault:
    if not after:
        return unclosed
    lines = counted(after, "line")
    reason = f"{unclosed.reason}, followed by {lines} with another number of fields than the header"
    return Fault(unclosed.source, unclosed.line, reason)
