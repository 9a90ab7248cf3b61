"""Rows from Parquet files."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from nearsay.data.byte_streams import DamagedStreamError
from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.data.faults import Fault
from nearsay.data.fields import Fields, FieldSurvey
from nearsay.data.row_documents import Row

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ParquetRows"]

_BATCH_ROWS: Final = 512


class ParquetRows:
    """The rows of one Parquet file, a batch in memory at a time: `Row | Fault`; the line is the row's number.

    Columns of bytes and of durations are no metadata; they are named in `left_out`. DamagedStreamError when
    the file cannot be opened, BadInputError for two columns of one name, MissingExtraError without pyarrow.
    """

    def __init__(self, path: Path, name: str) -> None:
        """`name`: the file, for messages."""
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            raise MissingExtraError("Reading Parquet files", "parquet") from None
        self._pa = pa
        self._name = name
        try:
            self._file = pq.ParquetFile(path, pre_buffer=False)  # pre-buffering holds whole row groups
            schema = self._file.schema_arrow
        except (pa.ArrowException, OSError) as error:
            raise DamagedStreamError(f"damaged Parquet file: {_first_line(error)}") from error
        self.rows_total: int = self._file.metadata.num_rows
        self.rows_read = 0
        names = schema.names
        twice = sorted({column for column in names if names.count(column) > 1})
        if twice:
            self._file.close()
            raise BadInputError(f"{name} has two columns {twice[0]!r}; give each column its own name")
        self.left_out = tuple(field.name for field in schema if self._has_no_json(field.type))
        self.survey = self._survey(schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def rows(self, fields: Fields) -> Iterator[Row | Fault]:
        """Read the rows with the columns that these fields need."""
        pa = self._pa
        columns = self._columns(fields)
        try:
            for batch in self._file.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
                yield from self._batch_rows(self._plain(batch))
        except (pa.ArrowException, OSError) as error:
            reason = f"damaged Parquet file: {_first_line(error)}; the rest of the file is not read"
            yield Fault(self._name, self.rows_read + 1, reason)

    def _columns(self, fields: Fields) -> list[str]:
        known = self.survey.names
        if fields.metadata is None:
            return list(known)
        needed = {
            name for name in (fields.text, fields.id, fields.title, *fields.metadata) if name is not None
        }
        needed |= {name.partition(".")[0] for name in needed}
        if any(name not in known for name in fields.metadata):
            needed.add("metadata")
        return [name for name in known if name in needed]

    def _survey(self, schema: "pa.Schema") -> FieldSurvey:
        types = self._pa.types
        names = tuple(field.name for field in schema if field.name not in self.left_out)
        inner = next((field.type for field in schema if field.name == "metadata"), None)
        return FieldSurvey(
            names=names,
            text_names=tuple(field.name for field in schema if self._is_text(field.type)),
            id_names=tuple(
                field.name
                for field in schema
                if self._is_text(field.type) or types.is_integer(field.type) or types.is_floating(field.type)
            ),
            inner_names=tuple(part.name for part in inner)
            if inner is not None and types.is_struct(inner)
            else (),
            has=lambda name: name.partition(".")[0] in names,
        )

    def _batch_rows(self, batch: "pa.RecordBatch") -> Iterator[Row | Fault]:
        try:
            rows: list[Mapping[str, Any]] = batch.to_pylist()
        except (ValueError, OverflowError, self._pa.ArrowException):  # one bad value fails the batch
            yield from self._single_rows(batch)
            return
        for row in rows:
            self.rows_read += 1
            yield self.rows_read, row, False

    def _single_rows(self, batch: "pa.RecordBatch") -> Iterator[Row | Fault]:
        for index in range(batch.num_rows):
            self.rows_read += 1
            try:
                row = {name: batch.column(name)[index].as_py() for name in batch.schema.names}
            except (ValueError, OverflowError, self._pa.ArrowException) as error:
                yield Fault(self._name, self.rows_read, f"a value cannot be read: {_first_line(error)}")
            else:
                yield self.rows_read, row, False

    def _plain(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """Cut nanoseconds to microseconds, which is what Python's dates hold."""
        columns = [self._without_nanoseconds(column) for column in batch.columns]
        return self._pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _without_nanoseconds(self, column: "pa.Array") -> "pa.Array":
        pa, kind = self._pa, column.type
        if pa.types.is_timestamp(kind) and kind.unit == "ns":
            return column.cast(pa.timestamp("us", kind.tz), safe=False)
        if pa.types.is_time64(kind) and kind.unit == "ns":
            return column.cast(pa.time64("us"), safe=False)
        return column

    def _is_text(self, kind: "pa.DataType") -> bool:
        types = self._pa.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))

    def _has_no_json(self, kind: "pa.DataType") -> bool:
        types = self._pa.types
        return bool(
            types.is_binary(kind)
            or types.is_large_binary(kind)
            or types.is_fixed_size_binary(kind)
            or types.is_binary_view(kind)
            or types.is_duration(kind)
            or types.is_interval(kind)
        )


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
