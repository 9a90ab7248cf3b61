"""`nearsay documents`: the documents of a collection."""

import contextlib
import itertools
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import click

from nearsay.app.cli.command import GROUP, CommandGroup, NamedPath, argument, option
from nearsay.app.cli.options import (
    COLLECTION,
    DTYPE,
    INPUT_FORMAT,
    JSON,
    LIMIT,
    MAX_TEXT_BYTES,
    MEMORY,
    NAMED_ENCODER,
    RECALL,
    ROWS,
    STRICT,
    TEXT,
    TEXT_ENCODING,
    TITLE,
    WHERE,
    OnCluster,
    Place,
    Removal,
)
from nearsay.app.cli.printing import (
    print_done,
    print_json,
    print_notes,
    print_reports,
    print_rows,
    print_table,
)
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.document import beginning, visible
from nearsay.data.quantity import counted
from nearsay.data.read_options import Format, Split
from nearsay.data.report import Done

if TYPE_CHECKING:
    from nearsay.indexer import Collection
    from nearsay.indexer.catalogue.documents import StoredDocument
    from nearsay.indexer.filters.fields import FieldLook

_NAMED = 5  # ids listed when asking for confirmation
_SEEN = 6  # values of a field shown in the table


@click.group(cls=CommandGroup)
def documents() -> None:
    """Add, list, show, remove and export documents; list fields and count their values.

    \b
    Example:
        nearsay documents add notes my-notes/
    """


@documents.command()
def add(
    collection: str = COLLECTION,
    sources: tuple[str, ...] = argument("FILE…", required=True),
    text: str | None = TEXT,
    id_: str | None = option("Field that holds the id of a document.", metavar="FIELD"),
    title: str | None = TITLE,
    metadata: str | None = option(
        "Fields to store as metadata, separated by commas.", metavar="FIELD,…", shown="all other fields"
    ),
    format_: Format | None = INPUT_FORMAT,
    split: Split = option(
        "Unit of a txt file that becomes a document; auto means paragraphs if lines are hard-wrapped, "
        "otherwise lines.",
        default="auto",
    ),
    whole_page: bool = option("Index the whole HTML page, including menus and banners around its main part."),
    encoding: str | None = TEXT_ENCODING,
    delimiter: str | None = option("Delimiter of csv files.", metavar="CHAR", shown="detected in the header"),
    relative_to: str | None = option(
        "Identify files by their path relative to this folder, so that the folder can be moved.",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
    ),
    max_text_bytes: int = MAX_TEXT_BYTES(4 * 2**20),
    chunking: str | None = option(
        "How texts are split into passages: none, sentences, tokens or tokens:LENGTH:OVERLAP.",
        metavar="HOW",
        shown="the collection's, or tokens",
    ),
    encoder: str | None = NAMED_ENCODER(shown="the collection's, or all-MiniLM-L6-v2"),
    dtype: str | None = DTYPE,
    recall: str | None = RECALL,
    memory: str | None = MEMORY,
    strict: bool = STRICT,
    near_duplicates: Literal["report", "skip", "link", "off"] | None = option(
        "What to do with documents that nearly repeat an earlier one. The choice is stored for later "
        "additions."
    ),
    near_duplicate_threshold: float | None = option(
        "Cosine similarity from which two documents count as near-duplicates.", metavar="COSINE", shown="0.95"
    ),
    index_: Literal["now", "later"] = option(
        "When to index many new passages: within this addition, or later by `nearsay index optimize`.",
        default="later",
    ),
    as_json: bool = JSON,
    place: OnCluster = GROUP,
) -> None:
    """Add files to COLLECTION, or update the documents that changed.

    FILE is a file, folder, quoted glob, or - for standard input. Formats: txt, csv, tsv, jsonl, json (each
    also .gz), parquet, markdown, html, pdf, docx; .log is read as txt with one passage per line.

    A row replaces the document with the same id. Rows without an id belong to their file: rows that the file
    no longer contains are removed, also when the file is now split in another way. If the command is
    interrupted, running it again resumes it.

    \b
    Example:
        nearsay documents add papers papers.jsonl --text abstract
        cat tickets.txt | nearsay documents add tickets -
        nearsay documents add news today.jsonl --near-duplicates skip
    """
    from nearsay.app.bulk_work import bulk_work
    from nearsay.data.read_options import ReadOptions, field_names
    from nearsay.indexer.writing.ingest import checked_files

    options = ReadOptions(
        text=text,
        id=id_,
        title=title,
        metadata=None if metadata is None else field_names(metadata),
        format=format_,
        split=split,
        whole_page=whole_page,
        encoding=encoding,
        delimiter=delimiter,
        max_text_bytes=max_text_bytes,
        relative_to=relative_to,
    )
    with contextlib.ExitStack() as stack:
        stdin = stack.enter_context(checked_files(sources, options)) if strict else None
        library = stack.enter_context(place.open(create=True))
        bar = stack.enter_context(ProgressBar("embedding"))
        target = library.collection(
            collection, encoder=encoder, chunking=chunking, recall=recall, memory=memory, dtype=dtype
        )
        stack.enter_context(bulk_work())
        report = target.add(
            *sources,
            options=options,
            near_duplicates=near_duplicates,
            near_duplicate_threshold=near_duplicate_threshold,
            progress=bar,
            stdin=stdin,
            index=index_,
        )
    print_reports([report], as_json=as_json)


@documents.command("list")
def list_(
    collection: str = COLLECTION,
    where: str | None = WHERE,
    limit: int = LIMIT(50),
    near_duplicates: bool = option("List only documents that are linked to an earlier near-duplicate."),
    as_json: bool = ROWS,
    place: Place = GROUP,
) -> None:
    """List the documents of COLLECTION.

    \b
    Example:
        nearsay documents list papers --where "year = 2019"
    """
    if near_duplicates and where is not None:
        raise click.UsageError("--near-duplicates and --where cannot be combined")
    with place.open() as library:
        target = library.collection(collection)
        if near_duplicates:
            print_rows(
                target.near_duplicates()[:limit],
                {
                    "document": "id",
                    "near-duplicate of": "original",
                    "cosine": lambda link: f"{link.cosine:.3f}",
                },
                as_json=as_json,
            )
            return
        document = None
        for document in itertools.islice(target.documents(where), limit):
            if as_json:
                print_json(document)
            else:
                head = beginning(visible(document.title or document.text), 80)
                id_ = visible(document.id).replace("\n", " ")
                click.echo(f"{id_}\t{head}")
        if document is None:
            print_notes(target.browser.filter_notes(where))


@documents.command()
def show(
    collection: str = COLLECTION,
    ids: tuple[str, ...] = argument("ID…", required=True),
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Show documents of COLLECTION with their text and metadata.

    \b
    Example:
        nearsay documents show papers P19-1001
    """
    with place.open() as library:
        target = library.collection(collection)
        found = [target.document(id_) for id_ in ids]
    for document in found:
        if as_json:
            print_json(document)
        else:
            _print_document(document)


def _print_document(document: "StoredDocument") -> None:
    facts = [  # pairs, since metadata may have a field of the same name
        ("id", document.id),
        ("title", document.title),
        *document.metadata.items(),
        ("source", document.source),
        ("added", document.added_at),
        ("updated", document.updated_at),
        ("passages", document.passages),
    ]
    print_table(["field", "value"], [[visible(str(name)), visible(str(value))] for name, value in facts])
    click.echo(f"\n{visible(document.text)}")


def _refused(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> None:
    if not names:
        return
    of_file = "source contains '{}'".format(names[0].replace("'", "''"))
    where = shlex.quote(of_file) if set(of_file) & set('"$`\\!') else f'"{of_file}"'
    raise click.UsageError(
        f"specify what {names[0]!r} is: --id {shlex.quote(names[0])} removes the document with this id, "
        f"--where {where} the documents of a file"
    )


@documents.command()
def remove(
    collection: str = COLLECTION,
    _names: tuple[str, ...] = argument("", callback=_refused),
    ids: tuple[str, ...] = option("Id of a document to remove. Can be repeated.", "--id", metavar="ID"),
    where: str | None = WHERE,
    removal: Removal = GROUP,
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Remove documents of COLLECTION by id or by a filter.

    Removed documents disappear from searches at once; `nearsay index compact` frees their space. A removal by
    --where shows what would be removed and asks for confirmation. To remove a whole collection, use `nearsay
    collections remove`.

    \b
    Example:
        nearsay documents remove papers --where "year < 1990" --dry-run
        nearsay documents remove papers --where "year < 1990" --yes
    """
    if not (ids or where):
        raise click.UsageError("specify what to remove: with --id, --where or both")
    with place.open() as library:
        target = library.collection(collection)
        count, passing, what = _chosen(target, ids, where)
        nothing = () if passing else target.browser.filter_notes(where)
        if removal.may(what, harmless=not passing):
            count = target.remove(ids, where=where)
        removal.print_done("documents", count, f"removed {counted(count, 'document')}", as_json=as_json)
        print_notes([*nothing, *(() if removal.dry_run else target.warnings())])


def _chosen(target: "Collection", ids: tuple[str, ...], where: str | None) -> tuple[int, int, str]:
    """Return how many documents the ids and the filter select, how many match the filter, and all in words.

    Raises UnknownDocumentError for an id that does not exist.
    """
    parts = []
    if named := [target.document(id_).id for id_ in dict.fromkeys(ids)]:
        parts.append(_listed(len(named), named))
    count = both = 0
    if where is not None:
        count = target.browser.count(where)
        first = [row.id for row in target.browser.page(where, limit=_NAMED).rows]
        quoted = [id_.replace("'", "''") for id_ in named]
        both = sum(target.browser.count(f"({where}) and id = '{id_}'") for id_ in quoted)
        parts.append(f"{_listed(count, first)} that {'matches' if count == 1 else 'match'} {where!r}")
    return len(named) + count - both, count, f"{' and '.join(parts)} from '{target.name}'"


def _listed(count: int, ids: list[str]) -> str:
    shown = ", ".join(visible(id_) for id_ in ids[:_NAMED]) + (", …" if count > _NAMED else "")
    return f"{counted(count, 'document')}{f' ({shown})' if shown else ''}"


@documents.command()
def export(
    collection: str = COLLECTION,
    out: Path | None = option(
        "File to write, or - for standard output.",
        shown="standard output",
        type=NamedPath(allow_dash=True),
    ),
    where: str | None = WHERE,
    vectors: bool = option("Write one line per passage with its vector instead of one line per document."),
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Export COLLECTION as JSON lines that `documents add` can read.

    \b
    Example:
        nearsay documents export papers --out papers.jsonl
    """
    out = None if out == Path("-") else out
    stream: Path | BinaryIO = sys.stdout.buffer if out is None else out
    with place.open() as library:
        target = library.collection(collection)
        count = target.export(stream, where=where, vectors=vectors)
        sys.stdout.flush()  # before reporting that it is written
        nothing = () if count else target.browser.filter_notes(where)
    what = "passage" if vectors else "document"
    message = f"{counted(count, what)} written" + (f" to {out}" if out else "")
    # Without a file, standard output already has the documents' JSON lines and must have no others.
    print_done(Done("written", f"{what}s", count, str(out)), message, as_json=as_json and out is not None)
    print_notes(nothing)


@documents.command()
def facets(
    collection: str = COLLECTION,
    field: str = argument(),
    where: str | None = WHERE,
    limit: int = LIMIT,
    as_json: bool = ROWS,
    place: Place = GROUP,
) -> None:
    """Count the documents of COLLECTION by the values of FIELD.

    Each element of a list is counted.

    \b
    Example:
        nearsay documents facets papers venue --where "year >= 2019"
    """
    with place.open() as library:
        target = library.collection(collection)
        found = target.facets(field, where=where, limit=limit)
        if found.documents and found.missing == found.documents:
            _require(target, field)
    if as_json:
        print_rows(found.values, {}, as_json=as_json, whole=found.to_json())
        return
    print_table([field, "documents"], [[each.value, each.documents] for each in found.values])
    more = found.different - len(found.values)
    rest = [f"{counted(more, 'more value')}: {found.other:,}"] if more else []
    print_notes([*rest, f"without {field}: {found.missing:,} of {counted(found.documents, 'document')}"])


def _require(target: "Collection", field: str) -> None:
    """Raise BadInputError if no document of the collection has the field, whatever the filter."""
    from nearsay.data.errors import BadInputError
    from nearsay.indexer.filters.parse import in_backquotes
    from nearsay.indexer.filters.sql import metadata_path

    if metadata_path((field,)) is None:  # not a metadata field: any document may have it
        return
    of_all = target.facets(field, limit=1)
    if of_all.missing == of_all.documents:
        if field == "cluster":
            raise BadInputError(
                f"collection '{target.name}' has no clusters. "
                f"Find them: nearsay explore clusters {target.name}"
            )
        seen = target.overview().fields
        if field in seen:  # its name has a dot, which means a nested field
            raise BadInputError(f"no document has the nested field '{field}'. {in_backquotes(field)}")
        if not seen:
            raise BadInputError(
                f"the documents of '{target.name}' have no metadata, so none has a field '{field}'"
            )
        raise BadInputError(f"no document has a field '{field}'. Use one of: {', '.join(seen)}")


@documents.command()
def fields(
    collection: str = COLLECTION,
    as_json: bool = ROWS,
    place: Place = GROUP,
) -> None:
    """List the metadata fields of COLLECTION that filters can use.

    Shows what kind of values the first thousand documents have: categories, numbers, dates or text. Once a
    filter has used a field of a large collection, its bounds are those of all documents.

    \b
    Example:
        nearsay documents fields papers
    """
    with place.open() as library:
        looks = library.collection(collection).fields()
    print_rows(
        looks,
        {"field": "name", "kind": "kind", "values": _seen, "documents": "documents"},
        as_json=as_json,
        to_json=lambda look: look.to_json(),
        whole={"collection": collection, "fields": [look.to_json() for look in looks]},
    )


def _seen(look: "FieldLook") -> str:
    if look.low is not None:
        return f"{look.low} to {look.high}"
    seen = look.values[:_SEEN]
    values = ", ".join(value if isinstance(value, str) else json.dumps(value) for value in seen)
    more = f" and {len(look.values) - _SEEN:,} more" if len(look.values) > _SEEN else ""
    return f"{values}{more}"
