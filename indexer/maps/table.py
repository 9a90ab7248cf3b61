"""A map as a table: a row a passage, as Parquet, CSV or JSON lines."""

import csv
import io
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

from nearsay.data.errors import MissingExtraError
from nearsay.indexer.maps.drawing import Drawing

__all__ = ["COLUMNS", "parquet_module", "write_csv", "write_json_lines", "write_parquet"]

COLUMNS = ("passage", "id", "title", "text", "x", "y", "cluster", "cluster_name", "metadata")
_ROW_GROUP = 50_000


def write_parquet(drawn: Drawing, stream: BinaryIO) -> None:
    """`metadata` is a JSON text; no cluster: null. MissingExtraError without pyarrow."""
    arrow = parquet_module()
    from pyarrow.parquet import ParquetWriter

    types = {"passage": arrow.int64(), "x": arrow.float32(), "y": arrow.float32(), "cluster": arrow.int32()}
    schema = arrow.schema([(name, types.get(name, arrow.string())) for name in COLUMNS])
    with ParquetWriter(stream, schema) as writer:
        for rows in _groups(_rows(drawn)):
            columns = {name: [row[name] for row in rows] for name in COLUMNS}
            columns["metadata"] = [_json(each) for each in columns["metadata"]]
            writer.write_table(arrow.table(columns, schema=schema))


def write_csv(drawn: Drawing, stream: BinaryIO) -> None:
    """A header and a line a passage, RFC 4180; `metadata` is a JSON text; no cluster: empty."""
    text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for row in _rows(drawn):
        writer.writerow([_json(row[name]) if name == "metadata" else row[name] for name in COLUMNS])
    text.detach()


def write_json_lines(drawn: Drawing, stream: BinaryIO) -> None:
    """A JSON object a passage."""
    stream.writelines(_json(row).encode() + b"\n" for row in _rows(drawn))


def parquet_module() -> Any:  # noqa: ANN401 - pyarrow has no types
    """pyarrow; MissingExtraError says how to install it."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtraError("Writing Parquet files", "parquet") from error
    return pa


def _rows(drawn: Drawing) -> Iterator[dict[str, Any]]:
    names = {label.number: label.name for label in drawn.labels}
    clusters = [-1] * len(drawn) if drawn.clusters is None else drawn.clusters.tolist()
    for number, (x, y), row, cluster in zip(
        drawn.ids.tolist(), drawn.places.tolist(), drawn.rows, clusters, strict=True
    ):
        yield {
            "passage": number,
            "id": row.document_id,
            "title": row.title,
            "text": row.text,
            "x": x,
            "y": y,
            "cluster": None if cluster < 0 else cluster,
            "cluster_name": names.get(cluster),
            "metadata": dict(row.metadata),
        }


def _groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while group := list(islice(rows, _ROW_GROUP)):
        yield group


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
