"""`nearsay index`: what goes into a library, and what becomes of it."""

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, Unpack

import click

from nearsay.app.cli.command_group import CommandGroup
from nearsay.app.cli.contract_options import contract_options, dtype_option
from nearsay.app.cli.index_fields import fields
from nearsay.app.cli.index_show import list_, show
from nearsay.app.cli.index_tune import optimize, tune
from nearsay.app.cli.options import (
    OnCluster,
    Place,
    cluster_options,
    json_option,
    library_options,
    open_library,
    where_option,
)
from nearsay.app.cli.printing import print_json, print_notes, visible
from nearsay.app.cli.progress_bar import ProgressBar
from nearsay.data.quantity import counted, size_words

if TYPE_CHECKING:
    from nearsay.indexer import Collection

__all__ = ["index"]

_NAMED = 5  # documents that are removed, in a question
_FORMATS = ["txt", "csv", "tsv", "jsonl", "parquet", "markdown", "html", "pdf", "docx"]


@click.group(cls=CommandGroup)
def index() -> None:
    """Add, remove, rebuild and look after collections.

    \b
    Example:
        nearsay index add notes my-notes/
    """


@index.command()
@click.argument("collection")
@click.argument("sources", nargs=-1, required=True, metavar="FILE…")
@click.option("--text", metavar="FIELD", help="The field with the text; guessed and reported if left out.")
@click.option("--id", "id_", metavar="FIELD", help="The field with the id.")
@click.option("--title", metavar="FIELD", help="The field with the title; it is embedded with the text.")
@click.option("--metadata", metavar="FIELD,…", help="The fields to keep beside; all others if left out.")
@click.option("--format", "format_", type=click.Choice(_FORMATS), help="By the file's name if left out.")
@click.option(
    "--split",
    type=click.Choice(["auto", "lines", "paragraphs", "file"]),
    default="auto",
    show_default=True,
    help="What of a txt file is one document; auto: paragraphs if lines are hard-wrapped, else lines.",
)
@click.option("--whole-file", "split", flag_value="file", hidden=True, help="The same as --split file.")
@click.option(
    "--whole-page", is_flag=True, help="Read the menus and banners around an HTML page's main part, too."
)
@click.option(
    "--encoding", metavar="NAME", help="Of files whose bytes do not speak for another; UTF-8 if left out."
)
@click.option("--delimiter", metavar="CHAR", help="Of csv; seen in the header if left out.")
@click.option(
    "--relative-to",
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Call files by their place in this folder, not by their whole path: they may move with it.",
)
@click.option(
    "--max-text-bytes", type=int, default=4 * 2**20, show_default=True, help="Longer rows are skipped."
)
@click.option(
    "--chunking", metavar="HOW", help="none, sentences, tokens or tokens:LENGTH:OVERLAP; tokens at first."
)
@click.option("--encoder", metavar="NAME", help="Name or folder of the encoder; all-MiniLM-L6-v2 at first.")
@dtype_option
@contract_options
@click.option("--strict", is_flag=True, help="Write nothing if a row cannot be used.")
@click.option(
    "--near-duplicates",
    type=click.Choice(["report", "skip", "link", "off"]),
    help="What becomes of documents that say nearly the same as an earlier one; kept for later additions.",
)
@click.option(
    "--near-duplicate-threshold", type=float, metavar="COSINE", help="From where they do; 0.95 at first."
)
@click.option(
    "--index",
    "index_",
    type=click.Choice(["now", "later"]),
    default="now",
    show_default=True,
    help="When many new passages get an index: with this addition, or by `nearsay index optimize`.",
)
@json_option
@cluster_options
def add(
    *,
    collection: str,
    sources: tuple[str, ...],
    text: str | None,
    id_: str | None,
    title: str | None,
    metadata: str | None,
    format_: str | None,
    split: str,
    whole_page: bool,
    encoding: str | None,
    delimiter: str | None,
    relative_to: str | None,
    max_text_bytes: int,
    chunking: str | None,
    encoder: str | None,
    dtype: str | None,
    recall: str | None,
    memory: str | None,
    strict: bool,
    near_duplicates: str | None,
    near_duplicate_threshold: float | None,
    index_: Literal["now", "later"],
    as_json: bool,
    **place: Unpack[OnCluster],
) -> None:
    """Add files to COLLECTION, or update what changed in them.

    FILE: files, folders, globs in quotes, or - for standard input. Formats: txt, csv, tsv, jsonl (each also
    .gz), parquet, markdown, html, pdf, docx; .log is read as txt, a passage a line.

    A row whose id is there already replaces it. Rows without an id belong to their file: those that it no
    longer holds are removed, and so are its lines when it is read as paragraphs from now on. Stopped at any
    moment, the same command goes on where it was.

    \b
    Example:
        nearsay index add papers papers.jsonl --text abstract
        cat tickets.txt | nearsay index add tickets -
        nearsay index add news today.jsonl --near-duplicates skip
    """
    from nearsay.app.bulk_work import bulk_work
    from nearsay.app.cli.add_report import print_report
    from nearsay.data.formats import Format
    from nearsay.data.read_options import ReadOptions, Split
    from nearsay.indexer.writing.strict import checked_files

    options = ReadOptions(
        text=text,
        id=id_,
        title=title,
        metadata=None if metadata is None else tuple(name for name in metadata.split(",") if name),
        format=None if format_ is None else Format(format_),
        split=Split(split),
        whole_page=whole_page,
        encoding=encoding,
        delimiter=delimiter,
        max_text_bytes=max_text_bytes,
        relative_to=relative_to,
    )
    with contextlib.ExitStack() as stack:
        stdin = stack.enter_context(checked_files(sources, options)) if strict else None
        library = stack.enter_context(open_library(place, create=True))
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
    print_report(collection, report, as_json=as_json)


@index.command()
@click.argument("collection")
@click.option("--id", "ids", multiple=True, metavar="ID", help="A document to remove; may be given again.")
@where_option
@click.option("--all", "everything", is_flag=True, help="Remove the collection itself.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal to answer at.")
@library_options
def remove(
    collection: str,
    ids: tuple[str, ...],
    where: str | None,
    everything: bool,
    dry_run: bool,
    yes: bool,
    **place: Unpack[Place],
) -> None:
    """Remove documents of COLLECTION by id or filter.

    Searches miss them at once; `compact` frees their room. What --where and --all would remove is said first,
    and asked for, unless it is nothing.

    \b
    Example:
        nearsay index remove papers --where "year < 1990" --dry-run
        nearsay index remove papers --where "year < 1990" --yes
    """
    if everything == bool(ids or where):
        raise click.UsageError("name what to remove: by --id, --where or both; or all of it by --all")
    with open_library(place) as library:
        target = library.collection(collection)
        if everything:
            count = target.overview().documents
            judged = target.judgements.counts().judgements
            also = f" and {counted(judged, 'judgement')}" if judged else ""
            what = f"'{collection}' with its {counted(count, 'document')}{also}"
        else:
            count, what = _chosen(target, ids, where)
        if dry_run:
            click.echo(f"would remove {what}", err=True)
            return
        if (everything or (where is not None and count)) and not yes:
            _ask(what)
        if everything:
            target.delete()
            click.echo(f"removed the collection '{collection}' with {counted(count, 'document')}", err=True)
            return
        click.echo(f"removed {counted(target.remove(ids, where=where), 'document')}", err=True)
        print_notes(target.warnings())


def _chosen(target: "Collection", ids: tuple[str, ...], where: str | None) -> tuple[int, str]:
    """How many documents the filter lets through, and in words what it and the ids name.

    UnknownDocumentError for an id that is not there.
    """
    parts = []
    if named := [target.document(id_).id for id_ in dict.fromkeys(ids)]:
        parts.append(_listed(len(named), named))
    count = 0
    if where is not None:
        count = target.browser.count(where)
        first = [row.id for row in target.browser.page(where, limit=_NAMED).rows]
        parts.append(f"{_listed(count, first)} that pass {where!r}")
    return count, f"{' and '.join(parts)} from '{target.name}'"


def _listed(count: int, ids: list[str]) -> str:
    shown = ", ".join(visible(id_) for id_ in ids[:_NAMED]) + (", …" if count > _NAMED else "")
    return f"{counted(count, 'document')}{f' ({shown})' if shown else ''}"


def _ask(what: str) -> None:
    """Come back if the answer is yes; exit status 1 for no, and where nobody can answer."""
    from nearsay.data.errors import BadInputError

    if not _at_a_terminal():
        raise BadInputError(
            f"this would remove {what}; nothing was done, since there is no terminal to ask at. Add --yes"
        )
    click.confirm(visible(f"Remove {what}?"), abort=True, err=True)


def _at_a_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


@index.command()
@click.argument("collection")
@click.option("--encoder", metavar="NAME", help="Embed by this encoder beside the live generation.")
@click.option("--promote", "promote_", is_flag=True, help="Make the new generation live at once.")
@dtype_option
@contract_options
@json_option
@cluster_options
def rebuild(
    collection: str,
    encoder: str | None,
    promote_: bool,
    dtype: str | None,
    recall: str | None,
    memory: str | None,
    as_json: bool,
    **place: Unpack[OnCluster],
) -> None:
    """Embed COLLECTION by another encoder, or mend it.

    With --encoder a new generation is made beside the live one, which goes on answering until `promote`.
    Without, what is damaged or missing in the live one is made anew from the stored text.

    \b
    Example:
        nearsay index rebuild papers --encoder ./my-encoder
        nearsay index rebuild papers --encoder ./my-encoder --cluster auto --workers 8
    """
    with open_library(place) as library, ProgressBar("embedding") as bar:
        target = library.collection(collection, recall=recall, memory=memory, dtype=dtype)
        report = target.rebuild(encoder, progress=bar)
        if promote_ and report.state == "ready":
            target.promote(report.generation)
    if as_json:
        print_json(report)
        return
    state = "live" if promote_ else str(report.state)
    click.echo(
        f"generation {report.generation} is {state}: {counted(report.embedded, 'passage')} embedded, "
        f"{report.truncated:,} cut, {counted(report.mended, 'damaged segment')} mended",
        err=True,
    )
    print_notes(report.notes)
    if state == "ready":
        click.echo(f"Make it live: nearsay index promote {collection}", err=True)


@index.command()
@click.argument("collection")
@click.option("--generation", type=int, metavar="N", help="The newest that is ready if left out.")
@click.option(
    "--gate/--no-gate",
    default=None,
    help="Measure it on the judgements' test part first; done unasked where ten queries of it or more have a "
    "relevant passage.",
)
@click.option(
    "--margin",
    type=click.FloatRange(min=0),
    default=0.05,
    show_default=True,
    help="Of nDCG@10 that the interval of the difference may reach below 0.",
)
@click.option("--force", is_flag=True, help="Promote it though it does not pass; its hits say so.")
@library_options
def promote(
    collection: str,
    generation: int | None,
    *,
    gate: bool | None,
    margin: float,
    force: bool,
    **place: Unpack[Place],
) -> None:
    """Make a generation that is ready answer for COLLECTION.

    Where there are judgements it has to pass the gate: the interval of its difference to the live one, on the
    judged queries that nothing learns from, must not reach further below 0 than --margin, and its index must
    keep the recall contract. The interval is right however often one looks and however many one tries.

    \b
    Example:
        nearsay index promote papers
        nearsay index promote papers --gate --margin 0.02
    """
    with open_library(place) as library, ProgressBar("embedding") as bar:
        target = library.collection(collection)
        number = target.promote(generation, gate=gate, margin=margin, force=force, progress=bar)
        measured = next(row.gate for row in target.generations() if row.number == number)
        warnings = target.warnings()
    if measured:
        print_notes([measured["figures"]])
    click.echo(
        f"generation {number} of '{collection}' is live. Back: nearsay index rollback {collection}", err=True
    )
    print_notes(warnings)


@index.command()
@click.argument("collection")
@library_options
def rollback(collection: str, **place: Unpack[Place]) -> None:
    """Go back to the generation that was live before.

    \b
    Example:
        nearsay index rollback papers
    """
    with open_library(place) as library, ProgressBar("embedding") as bar:
        target = library.collection(collection)
        number, warnings = target.rollback(progress=bar), target.warnings()
    click.echo(f"generation {number} of '{collection}' is live again", err=True)
    print_notes(warnings)


@index.command()
@click.argument("collection")
@click.option("--drop-retired", is_flag=True, help="Also forget retired generations: no way back to them.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long a replaced file stays for other machines that may have it open. If left out: 3600 with "
    "--database, where several machines may share a library, otherwise 0.",
)
@json_option
@library_options
def compact(
    collection: str, drop_retired: bool, grace: float | None, as_json: bool, **place: Unpack[Place]
) -> None:
    """Merge segments and free the room of what was removed.

    \b
    Example:
        nearsay index compact papers
    """
    with open_library(place) as library:
        report = library.collection(collection).compact(drop_retired=drop_retired, grace=grace)
    if as_json:
        print_json(report)
        return
    dropped = (
        f"{counted(report.vectors_dropped, 'removed vector')} and {counted(report.files_removed, 'file')}"
    )
    click.echo(
        f"{counted(report.segments_before, 'segment')} became {report.segments_after}; {dropped} dropped, "
        f"{size_words(report.bytes_freed + report.catalogue_bytes_freed)} freed",
        err=True,
    )
    print_notes(report.notes)


@index.command()
@click.argument("collection")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The file to write; standard output if left out."
)
@where_option
@click.option(
    "--vectors", is_flag=True, help="A line a passage with its vector, instead of a line a document."
)
@library_options
def export(
    collection: str, out: Path | None, where: str | None, vectors: bool, **place: Unpack[Place]
) -> None:
    """Write COLLECTION as JSON lines, for `index add` to read.

    \b
    Example:
        nearsay index export papers --out papers.jsonl
    """
    stream: Path | BinaryIO = sys.stdout.buffer if out is None else out
    with open_library(place) as library:
        count = library.collection(collection).export(stream, where=where, vectors=vectors)
    print_notes(
        [f"{counted(count, 'passage' if vectors else 'document')} written" + (f" to {out}" if out else "")]
    )


index.add_command(fields)
index.add_command(list_)
index.add_command(optimize)
index.add_command(show)
index.add_command(tune)
