"""Rows from Parquet files."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from nearsay.data.byte_streams import DamagedStreamError
from nearsay.data.delimited import check_width
from nearsay.data.errors import BadInputError, MissingExtraError, first_line
from nearsay.data.faults import Fault
from nearsay.data.fields import Fields, FieldSurvey
from nearsay.data.reading_process import ReadingStoppedError, read_apart, seconds_for, stream_apart
from nearsay.data.row_documents import Row

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_BATCH_ROWS: Final = 512
_BATCH_BYTES: Final = (
    32 * 2**20
)  # of the rows that are decoded together, where the file says how long they are
_ROW_BYTES: Final = 64 * 2**20  # a longer row is a fault: what comes out of the process is held in memory
_VALUE_BYTES: Final = 64  # that a value in a list takes in Python, however small it is
_BUFFER_BYTES: Final = 2**20  # of a column that are read at once; else it is as many as a row group has

_Batch: TypeAlias = Sequence[Mapping[str, Any] | str]


class ParquetRows:
    """The rows of one Parquet file, a batch in memory at a time: `Row | Fault`; the line is the row's number.

    The file is decoded in a separate process, because eleven kilobytes can contain a value of two gigabytes,
    which the file does not show before it is decoded.

    Columns that are or contain bytes or durations are not metadata; they are listed in `left_out`. Other
    fields within them can be selected by name: `image.path`. Raises DamagedStreamError if the file cannot be
    opened, BadInputError for duplicate or too many columns, MissingExtraError without pyarrow.
    """

    def __init__(self, path: Path, name: str, *, max_row_bytes: int = _ROW_BYTES) -> None:
        """`name`: the file, for messages; `max_row_bytes`: in memory, of all its fields."""
        self._max_row_bytes = max(max_row_bytes, _ROW_BYTES)
        self._path = path.absolute()  # the reading process may have begun in another folder
        self._name = name
        self._seconds = seconds_for(path.stat().st_size if path.exists() else 0)
        try:
            seen = read_apart(_look, self._seconds, self._path)
        except ReadingStoppedError as error:
            raise DamagedStreamError(f"{error}, as no usual Parquet file does; write it again") from None
        check_width(len(seen.columns), name)
        twice = sorted(column for column, count in Counter(seen.columns).items() if count > 1)
        if twice:
            raise BadInputError(f"{name} has two columns {twice[0]!r}; give each column its own name")
        self.rows_total = seen.rows
        self.rows_read = 0
        self.left_out = seen.left_out
        names = tuple(column for column in seen.columns if column not in set(seen.left_out))
        self._readable = tuple(column for column in seen.columns if column in {*names, *seen.structs})
        self.survey = FieldSurvey(
            names=names,
            text_names=seen.text_names,
            id_names=seen.id_names,
            inner_names=seen.inner_names,
            has=lambda name: name in seen.nested,
            left_out=seen.left_out,
        )

    def rows(self, fields: Fields) -> Iterator[Row | Fault]:
        """Read the rows with the columns of these fields."""
        try:
            columns, limit = self._columns(fields), self._max_row_bytes
            for batch in stream_apart(_batches, self._seconds, self._path, columns, limit):
                for row in batch:
                    self.rows_read += 1
                    if isinstance(row, str):
                        yield Fault(self._name, self.rows_read, row)
                    else:
                        yield self.rows_read, row
        except DamagedStreamError as error:
            yield Fault(self._name, self.rows_read + 1, f"{error}; the rest of the file is not read")
        except ReadingStoppedError as error:
            reason = (
                f"the rows from here on were not read: {error}. Write the file with smaller values, or "
                "without the columns that are not needed; the rest of the file is not read"
            )
            yield Fault(self._name, self.rows_read + 1, reason)
        else:
            if self.rows_read < self.rows_total:  # it was written again meanwhile
                reason = f"no more of the {self.rows_total:,} rows come; the rest of the file is not read"
                yield Fault(self._name, self.rows_read + 1, reason)

    def _columns(self, fields: Fields) -> list[str]:
        known = self.survey.names
        metadata = known if fields.metadata is None else fields.metadata
        needed = {name for name in (fields.text, fields.id, fields.title, *metadata) if name is not None}
        needed |= {name.partition(".")[0] for name in needed}
        if any(name not in known for name in metadata):
            needed.add("metadata")
        return [name for name in self._readable if name in needed]


# In the reading process.


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file's schema."""

    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    structs: tuple[str, ...]  # whose fields can be asked for by name
    nested: frozenset[str]  # these names: struct.field
    text_names: tuple[str, ...]
    id_names: tuple[str, ...]
    inner_names: tuple[str, ...]
    rows: int


def _look(path: Path) -> _Seen:
    with _opened(path) as file:
        import pyarrow as pa

        schema, types = file.schema_arrow, pa.types
        inner = next((field.type for field in schema if field.name == "metadata"), None)
        is_struct = inner is not None and types.is_struct(inner)
        return _Seen(
            columns=tuple(schema.names),
            left_out=tuple(field.name for field in schema if _holds_no_json(field.type)),
            structs=tuple(field.name for field in schema if types.is_struct(field.type)),
            nested=frozenset(name for field in schema for name in _nested(field)),
            text_names=tuple(field.name for field in schema if _is_text(field.type)),
            id_names=tuple(
                field.name
                for field in schema
                if _is_text(field.type)
                or getattr(field.type, "extension_name", "") == "arrow.uuid"
                or types.is_integer(field.type)
                or types.is_floating(field.type)
                or (types.is_decimal(field.type) and field.type.scale == 0)
            ),
            inner_names=tuple(part.name for part in inner) if inner is not None and is_struct else (),
            rows=file.metadata.num_rows,
        )


def _nested(field: "pa.Field") -> Iterator[str]:
    """The names of the fields within a field, as they can be selected."""
    from pyarrow import types

    for part in field.type if types.is_struct(field.type) else ():
        yield f"{field.name}.{part.name}"
        yield from (f"{field.name}.{name}" for name in _nested(part))


def _opened(path: Path) -> "pq.ParquetFile":
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("Reading Parquet files", "parquet") from None
    try:
        # pre-buffering holds whole row groups
        file = pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES)
        _ = file.schema_arrow
    except MemoryError:  # also an ArrowException
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # a name that is not UTF-8 among them
        raise DamagedStreamError(f"damaged Parquet file: {first_line(error)}") from error
    return file


def _batches(path: Path, columns: list[str], limit: int) -> Iterator[_Batch]:
    """Read batches of rows; an unreadable one is replaced by the reason."""
    with _opened(path) as file:
        import pyarrow as pa

        try:
            for batch in file.iter_batches(_usual_rows(file), columns=columns, use_threads=False):
                yield from _rows(_plain(batch), limit)
        except MemoryError:
            raise
        except (pa.ArrowException, OSError, ValueError) as error:  # a name that is not UTF-8 among them
            raise DamagedStreamError(f"damaged Parquet file: {first_line(error)}") from error


def _usual_rows(file: "pq.ParquetFile") -> int:
    """Number of rows to decode together: fewer if the file says that they are long."""
    groups = [file.metadata.row_group(at) for at in range(min(file.metadata.num_row_groups, 8))]
    length = max((group.total_byte_size // max(group.num_rows, 1) for group in groups), default=0)
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES // max(length, 1)))


def _rows(batch: "pa.RecordBatch", limit: int) -> Iterator[_Batch]:
    """Convert a batch to Python values, in pieces that are sent one by one."""
    import pyarrow as pa

    size = batch.nbytes + _VALUE_BYTES * sum(_values(column) for column in batch.columns)
    if size > limit and batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from _rows(batch.slice(0, half), limit)
        yield from _rows(batch.slice(half), limit)
    elif size > limit:
        yield [
            f"the row takes {size:,} bytes of memory, at most {limit:,} are allowed; omit the longest field"
        ]
    else:
        try:
            yield batch.to_pylist()
        except MemoryError:
            raise
        except (ValueError, OverflowError, pa.ArrowException):  # one bad value fails the batch
            yield list(_single_rows(batch))


def _values(column: "pa.Array") -> int:
    """Number of values of an array, including those inside lists."""
    from pyarrow import types

    kind = column.type
    if types.is_struct(kind):
        return sum(_values(field) for field in column.flatten())
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return len(column) + _values(column.flatten())
    if types.is_map(kind):
        return len(column) + 2 * len(column.items)
    if types.is_dictionary(kind):  # in Python each row has the whole value
        each = column.dictionary.nbytes // max(len(column.dictionary), 1)
        return len(column) * int(1 + each // _VALUE_BYTES)
    return len(column)


def _single_rows(batch: "pa.RecordBatch") -> Iterator[Mapping[str, Any] | str]:
    import pyarrow as pa

    for index in range(batch.num_rows):
        row: dict[str, Any] = {}
        try:
            for name in batch.schema.names:
                row[name] = batch.column(name)[index].as_py()
            yield row
        except MemoryError:
            raise
        except (ValueError, OverflowError, pa.ArrowException) as error:
            yield f"the field {name!r} cannot be read: {first_line(error)}; fix it, or leave the column out"


def _plain(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Truncate nanoseconds to microseconds, the resolution of Python's dates."""
    import pyarrow as pa

    columns = [_without_nanoseconds(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _without_nanoseconds(column: "pa.Array") -> "pa.Array":
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return column.cast(pa.timestamp("us", kind.tz), safe=False)
    if pa.types.is_time64(kind) and kind.unit == "ns":
        return column.cast(pa.time64("us"), safe=False)
    return column


def _is_text(kind: "pa.DataType") -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _holds_no_json(kind: "pa.DataType") -> bool:
    """Whether values of the type, or within them, cannot be JSON: one would make its whole row unusable."""
    from pyarrow import types

    if types.is_struct(kind):
        return any(_holds_no_json(part.type) for part in kind)
    if types.is_map(kind):
        return _holds_no_json(kind.key_type) or _holds_no_json(kind.item_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _holds_no_json(kind.value_type)
    return _has_no_json(kind.value_type if types.is_dictionary(kind) else kind)


def _has_no_json(kind: "pa.DataType") -> bool:
    from pyarrow import types

    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
        or types.is_duration(kind)
        or types.is_interval(kind)
    )
