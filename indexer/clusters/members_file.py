"""Every passage with its cluster, as a file."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.data.formulas import defused
from nearsay.indexer.catalogue import passages
from nearsay.indexer.clusters.clustering import Clustering
from nearsay.indexer.neighbours.explored import Explored

__all__ = ["members_format", "write_members"]

_PAGE = 1_000
_COLUMNS = ("cluster", "name", "id", "passage", "title", "text")


def members_format(out: Path) -> str:
    """`jsonl` or `csv`, by the file's name; BadInputError for another."""
    kind = out.suffix.lower().removeprefix(".")
    if kind not in ("jsonl", "csv"):
        raise BadInputError(f"'{out.name}' is neither .jsonl nor .csv. Give the file one of those endings")
    return kind


def write_members(explored: Explored, clustering: Clustering, out: Path) -> int:
    """Write the passages in clusters by cluster, the largest first, in the order they were added; how many.

    JSON lines or CSV, by the file's name; whole or not at all. In CSV a text that a spreadsheet would compute
    gets an apostrophe before it. Outliers are not in it.
    """
    kind = members_format(out)
    count = 0
    with replacing(out) as stream:
        if kind == "csv":
            stream.write(_csv(_COLUMNS))
        for row in _rows(explored, clustering):
            if kind == "csv":
                stream.write(_csv([defused(row[name]) for name in _COLUMNS]))
            else:
                stream.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            count += 1
    return count


def _rows(explored: Explored, clustering: Clustering) -> Iterator[dict[str, Any]]:
    snapshot = explored.snapshot()
    for cluster in clustering.clusters:
        ids = clustering.members.ids[clustering.members.numbers == cluster.number]
        for some in np.split(ids, range(_PAGE, ids.size, _PAGE)):
            with explored.store.database.reading() as connection:
                rows = passages.read_passages(connection, snapshot.collection.id, some.tolist())
            for number in some.tolist():
                if number in rows:
                    row = rows[number]
                    yield {
                        "cluster": cluster.number,
                        "name": cluster.name,
                        "id": row.document_id,
                        "passage": row.ordinal,
                        "title": row.title,
                        "text": row.text,
                        "metadata": dict(row.metadata),
                    }


def _csv(cells: tuple[str, ...] | list[object]) -> bytes:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().encode()
