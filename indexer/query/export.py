"""Export of a collection as JSON lines: documents, which `add` can read back, or passages with vectors."""

import contextlib
import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.data.formulas import defused
from nearsay.data.read_options import Format, format_of
from nearsay.indexer.catalogue import collections, documents, passages
from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.filters.expression import Expression
from nearsay.indexer.filters.parse import Where, expression_of
from nearsay.indexer.filters.selection import passing, passing_documents, select
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import BusyError, UnknownCollectionError
from nearsay.training.sentence.text_encoder import TextEncoder


@dataclass(frozen=True, slots=True)
class Sample:
    """Passages of a collection with their stored vectors."""

    numbers: list[int]
    texts: list[str]  # as encoded
    untitled: list[str]  # without the titles
    vectors: NDArray[np.float32]  # (n, d), as stored
    encoder: TextEncoder
    snapshot: Snapshot


def drawn_sample(store: Store, snapshot: Snapshot, encoder: TextEncoder, count: int, seed: int) -> Sample:
    """Draw passages at random; `encoder` is the one of the snapshot's vectors.

    Raises BadInputError for a negative count or seed.
    """
    for what, given in (("a sample", count), ("the seed of a sample", seed)):
        if given < 0:
            raise BadInputError(f"{what} cannot be {given}. Give 0 or more")
    living = snapshot.living()
    generator = np.random.default_rng(seed)
    drawn = np.sort(generator.choice(living, size=min(count, living.size), replace=False))
    with store.database.reading() as connection:
        found = passages.titles_and_texts(connection, snapshot.collection.id, drawn.tolist())
    numbers = [number for number in drawn.tolist() if number in found]
    texts = [passages.encoded_text(*found[number]) for number in numbers]
    untitled = [found[number][1] for number in numbers]
    vectors = snapshot.vectors.rows(snapshot.vectors.positions(np.array(numbers, dtype=np.int64)))
    return Sample(numbers, texts, untitled, vectors, encoder, snapshot)


_PAGE = 1000


def _same_clusters(before: Expression | None, now: Expression | None) -> Expression | None:
    """The filter for this page; BusyError if clusters in it have changed since the last one."""
    if before not in (None, now):
        raise BusyError(
            "the collection was clustered again while its documents were read, so some are missing. Try again"
        )
    return now


@contextlib.contextmanager
def _page(store: Store, collection_id: int) -> Iterator[sa.Connection]:
    """Open a transaction for one page; UnknownCollectionError once the collection is deleted."""
    with store.database.reading() as connection:
        if collection_id not in collections.ids(connection):
            raise UnknownCollectionError(
                "the collection was deleted while its documents were read, so some are missing. "
                "See which there are: nearsay collections list"
            )
        yield connection


def stored_documents(store: Store, collection_id: int, where: Where | None) -> Iterator[StoredDocument]:
    """Iterate over the documents that match a filter, in order of addition, reading a page at a time.

    Others may write meanwhile: each page shows the state when it is read.
    """
    after, meant = 0, None
    while True:
        with _page(store, collection_id) as connection:
            meant = _same_clusters(meant, expression_of(connection, collection_id, where))
            chosen = passing_documents(connection, collection_id, meant)
            page = list(documents.matching(connection, collection_id, chosen, after, _PAGE))
        yield from (document for _, document in page)
        if len(page) < _PAGE:
            return
        after = page[-1][0]


def export_documents(store: Store, collection_id: int, where: Where | None) -> Iterator[dict[str, Any]]:
    """Yield a JSON object per document: id, title, text, metadata."""
    for document in stored_documents(store, collection_id, where):
        yield {
            "id": document.id,
            "title": document.title,
            "text": document.text,
            "metadata": dict(document.metadata),
        }


def export_passages(store: Store, snapshot: Snapshot, where: Where | None) -> Iterator[dict[str, Any]]:
    """Yield a JSON object per passage: id, passage, title, text, metadata, encoder, vector."""
    ids, meant = snapshot.living(), None
    for begin in range(0, ids.size, _PAGE):
        some = ids[begin : begin + _PAGE]
        with _page(store, snapshot.collection.id) as connection:
            selection = select(connection, snapshot, where, frozenset())
            meant = _same_clusters(meant, selection.expression)
            some = some[passing(connection, snapshot, some, selection)]
            rows = passages.read_passages(connection, snapshot.collection.id, some.tolist())
        vectors = snapshot.vectors.rows(snapshot.vectors.positions(some))
        for number, vector in zip(some.tolist(), vectors, strict=True):
            if number in rows:
                row = rows[number]
                yield {
                    "id": row.document_id,
                    "passage": row.ordinal,
                    "title": row.title,
                    "text": row.text,
                    "metadata": dict(row.metadata),
                    "encoder": snapshot.generation.encoder.name,
                    "vector": [float(value) for value in vector],
                }


def write_lines(rows: Iterable[Mapping[str, Any]], out: Path | BinaryIO) -> int:
    """Write JSON lines to a stream, or to a file, atomically. Returns how many.

    Raises BadInputError for a file name of another format, because it would be read as that.
    """
    if isinstance(out, Path):
        check_lines_name(out)
        with replacing(out) as stream:
            return write_lines(rows, stream)
    count = 0
    for row in rows:
        out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        count += 1
    return count


def check_lines_name(out: Path) -> None:
    """Raise BadInputError for a file name of another format than JSON lines."""
    if out.suffix.lower() == ".gz" or format_of(out) not in (None, Format.JSONL):
        name = out.with_suffix(".jsonl")
        raise BadInputError(f"'{out.name}' is no name of JSON lines, which are written. Name it {name.name}")


def write_csv(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[str], out: Path | BinaryIO, *, defuse: bool = True
) -> int:
    """Write a header and a line per row (RFC 4180, None as an empty cell), atomically. Returns how many rows.

    defuse: put an apostrophe before texts that a spreadsheet would evaluate
    """
    if isinstance(out, Path):
        with replacing(out) as stream:
            return write_csv(rows, columns, stream, defuse=defuse)
    text = io.TextIOWrapper(out, "utf-8", "surrogatepass", newline="", write_through=True)
    writer, count = csv.writer(text), 0
    try:
        writer.writerow([defused(name) if defuse else name for name in columns])
        for row in rows:
            writer.writerow([defused(row[name]) if defuse else row[name] for name in columns])
            count += 1
    finally:
        text.detach()  # which would close the caller's stream otherwise
    return count
