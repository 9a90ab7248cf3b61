"""Rows from JSON lines."""

import json
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn

from nearsay.data.faults import Fault
from nearsay.data.row_documents import Row

__all__ = ["json_rows"]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def json_rows(lines: Iterable[tuple[int, str] | Fault], name: str) -> Iterator[Row | Fault]:
    """Parse one object a line. Blank lines are passed over; what is no object is a fault of file `name`."""
    decode = _DECODER.raw_decode
    for item in lines:
        if isinstance(item, Fault):
            yield item
            continue
        number, line = item
        line = line.strip()
        if not line:
            continue
        try:
            value, end = decode(line)
        except json.JSONDecodeError as error:
            yield Fault(name, number, f"not JSON: {error.msg} at column {error.colno}")
            continue
        except RecursionError:
            yield Fault(name, number, "not JSON that can be read: nested too deeply")
            continue
        except ValueError as error:  # NaN, Infinity, or a number of more digits than Python converts
            yield Fault(name, number, f"not JSON: {error}")
            continue
        if end != len(line):
            yield Fault(name, number, f"not JSON: more after the value, at column {end + 1}")
        elif type(value) is not dict:
            yield Fault(name, number, f"not a JSON object: it starts with {line[:20]!r}")
        else:
            # a line holds no raw NUL inside a string and no raw surrogate: both come only from \u escapes
            yield number, value, "\\u" not in line
