"""`nearsay explore`: pairs, duplicates, clusters, maps and samples of a collection."""

import io
import shutil
import socket
import textwrap
import time
from contextlib import redirect_stdout, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Literal

import click

from nearsay.app.cli.command import GROUP, CommandGroup, NamedPath, command, option
from nearsay.app.cli.explore_clusters import clusters, over_time, rename
from nearsay.app.cli.options import (
    COLLECTION,
    DATE_FIELD,
    JSON,
    LIMIT,
    NO_BROWSER,
    PORT,
    REPLACE,
    ROWS,
    SEED,
    UNIT,
    WHERE,
    Encoding,
    OnDevice,
    collection_names,
)
from nearsay.app.cli.printing import (
    filled,
    near_line,
    print_json,
    print_notes,
    print_passages,
    print_reports,
    print_rows,
    rows_alone,
)
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.document import beginning, visible
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.duplicates.groups import DuplicateGroup, DuplicateGroups
    from nearsay.indexer.duplicates.pairs import Pair, PairedPassage
    from nearsay.indexer.exploring.unlike import News
    from nearsay.indexer.maps.drawing import Drawing


_PREVIEW = 300  # characters of a passage shown to a person
_WIDTH = 100


@command()
def pairs(
    collection: str = COLLECTION,
    limit: int | None = option(
        "Maximum number of results to show.",
        "-n",
        "--limit",
        metavar="N",
        shown="100, or all with --threshold",
    ),
    threshold: float | None = option("Minimum cosine similarity of a pair.", metavar="COSINE"),
    other: str | None = option(
        "Second collection; each pair has one passage of each collection.",
        "--with",
        metavar="OTHER",
        shell_complete=collection_names,
    ),
    where: str | None = WHERE,
    other_where: str | None = option(
        "Filter for the documents of the second collection.", "--with-where", metavar="EXPR"
    ),
    same_document: bool = option("Include pairs of passages of the same document."),
    as_json: bool = ROWS,
    place: OnDevice = GROUP,
) -> None:
    """Show the most similar pairs of passages in COLLECTION, or between it and another collection.

    All pairs are compared; beyond a few hundred thousand passages, each passage is compared with likely
    neighbours only, which a note reports. Identical texts are listed first, with a cosine similarity of 1.

    \b
    Example:
        nearsay explore pairs papers -n 20
        nearsay explore pairs papers --threshold 0.9 --with notes --json
    """
    if other_where is not None and other is None:
        raise click.UsageError("--with-where needs --with OTHER: it filters that collection.")
    with place.open() as library:
        with ProgressBar("comparing", unit="pairs") as bar:
            found = library.collection(collection).explore.pairs(
                limit,
                threshold=threshold,
                where=where,
                other=None if other is None else library.collection(other),
                other_where=other_where,
                same_document=same_document,
                progress=bar,
            )
        for rank, pair in enumerate(found, 1):
            if as_json:
                print_json(_row(pair) if rows_alone() else pair)
                continue
            click.echo(f"{rank:3}. {pair.cosine:.4f}")
            for passage in (pair.first, pair.second):
                click.echo(passage_lines(passage))
    nothing = () if len(found) else (f"no pairs among {counted(found.looked_at, 'passage')}",)
    print_notes((*nothing, *found.notes))


def _row(pair: "Pair") -> dict[str, object]:
    sides = {"first": pair.first, "second": pair.second}
    parts = ("id", "title", "text")
    named = {f"{side}_{part}": getattr(one, part) for side, one in sides.items() for part in parts}
    return {"cosine": pair.cosine, **named}


def passage_lines(passage: "PairedPassage") -> str:
    """Return its id and title, and the beginning of its text."""
    head = "  ".join(part for part in (visible(passage.id), visible(passage.title)) if part)
    text = beginning(visible(passage.text), _PREVIEW)
    body = textwrap.indent(filled(text, _WIDTH - 7), " " * 7)
    return f"     {click.style(head, bold=True)}\n{body}"


_SHOWN = 20  # groups shown to a person
_OTHERS_SHOWN = 5  # of a group


@command()
def duplicates(
    collection: str = COLLECTION,
    threshold: float = option("Minimum cosine similarity of a pair.", metavar="COSINE", default=0.95),
    link: Literal["transitive", "complete"] = option(
        "How pairs form groups: transitive joins chains of pairs, complete requires that all members are "
        "similar to each other.",
        default="transitive",
    ),
    unit: Literal["documents", "passages"] = UNIT,
    out: Path | None = option(
        "Write the documents to this file as JSON lines, keeping one of each group.",
        metavar="FILE",
        type=NamedPath(dir_okay=False),
    ),
    where: str | None = WHERE,
    as_json: bool = ROWS,
    place: OnDevice = GROUP,
) -> None:
    """Show groups of near-duplicates in COLLECTION, each with its representative.

    The representative is the most central member of a group; among equally central members, the one that was
    added first. Two documents are near-duplicates if each passage of either has a near-duplicate in the
    other.

    \b
    Example:
        nearsay explore duplicates papers --threshold 0.97
        nearsay explore duplicates papers --link complete --out kept.jsonl
    """
    if out is not None and unit == "passages":
        raise click.UsageError("--out writes whole documents. Omit --unit passages.")
    if out is not None:
        from nearsay.indexer.query.export import check_lines_name

        check_lines_name(out)  # fails before the work, not after it
    with place.open() as library:
        with ProgressBar("comparing", unit="pairs") as bar:
            found = library.collection(collection).explore.duplicates(
                threshold, link=link, by=unit.removesuffix("s"), where=where, progress=bar
            )
        for rank, group in enumerate(found if as_json else islice(found, _SHOWN), 1):
            if as_json:
                print_json(group)
            else:
                _print_group(rank, group)
        for line in _summary(found, hidden=0 if as_json else max(0, len(found) - _SHOWN)):
            click.echo(line, err=True)
        print_notes(found.notes)
        if out is not None:
            report = found.keep_one(out)
            print_notes([f"{out}: {counted(report.kept, 'document')} kept, {report.left_out:,} left out"])


def _print_group(rank: int, group: "DuplicateGroup") -> None:
    click.echo(f"{rank:3}. {group.size:,} near-duplicates; representative:")
    click.echo(passage_lines(group.representative))
    ids = [visible(other.id) for other in group.others[:_OTHERS_SHOWN]]
    more = len(group.others) - len(ids)
    click.echo(f"     also: {', '.join(ids)}{f' and {more:,} more' if more else ''}")


def _summary(found: "DuplicateGroups", *, hidden: int) -> list[str]:
    return [
        *([f"… and {counted(hidden, 'group')} more (--json prints all)"] if hidden else []),
        (
            f"{counted(len(found), 'group')} among {counted(found.looked_at, found.by)} with a cosine of at "
            f"least {found.threshold:g}; {counted(found.duplicates, found.by)} could be removed, keeping one "
            "of each"
        ),
    ]


@command()
def outliers(
    collection: str = COLLECTION,
    limit: int = LIMIT,
    where: str | None = WHERE,
    as_json: bool = ROWS,
    place: OnDevice = GROUP,
) -> None:
    """Show the passages of COLLECTION that are least similar to all others.

    The score of a passage is its mean cosine similarity to the ten nearest passages of other documents; the
    lowest scores are listed first. With --where, only matching documents are compared.

    \b
    Example:
        nearsay explore outliers papers -n 10
    """
    with place.open() as library, ProgressBar("comparing") as bar:
        target = library.collection(collection)
        found = target.explore.outliers(limit, where, progress=bar)
        about = () if found.looked_at else target.browser.filter_notes(where)
    print_passages(
        found,
        lambda each: ("mean cosine to the nearest", near_line(each.nearest, "nearest")),
        as_json=as_json,
    )
    print_notes([*found.notes, *about])


@command()
def diverse(
    collection: str = COLLECTION,
    limit: int = LIMIT,
    query: str | None = option("Topic of the passages.", metavar="TEXT", shown="all topics"),
    balance: float = option(
        "Weight of relevance against diversity: 1 chooses the most relevant passages, 0 those most unlike "
        "each other.",
        default=0.5,
    ),
    where: str | None = WHERE,
    as_json: bool = ROWS,
    place: Encoding = GROUP,
) -> None:
    """Show a diverse sample of passages of COLLECTION for an overview.

    Passages are chosen one by one, each as relevant as possible and as unlike the previous ones as possible.
    Relevance is the similarity to --query or, without one, the number of similar passages. Each result shows
    how many passages it represents.

    \b
    Example:
        nearsay explore diverse papers -n 10
        nearsay explore diverse papers --query "evaluation of translations"
    """
    with place.open() as library, ProgressBar("loading") as bar:
        target = library.collection(collection)
        found = target.explore.diverse(limit, query=query, where=where, balance=balance, progress=bar)
        about = () if found.looked_at else target.browser.filter_notes(where)
    print_passages(found, lambda each: (f"represents {each.stands_for:,}", ""), as_json=as_json)
    print_notes([*found.notes, *about])


@command("new")
def new(
    collection: str = COLLECTION,
    since: str = option(
        "First date that counts as new, as in 2026-11-01, 2026-11 or 2026-11-01T08:00 (UTC).", metavar="DATE"
    ),
    field: str | None = DATE_FIELD,
    limit: int = LIMIT,
    where: str | None = WHERE,
    as_json: bool = ROWS,
    place: OnDevice = GROUP,
) -> None:
    """Show documents of COLLECTION that are new since a date and unlike all earlier ones.

    Each new passage is shown with its cosine similarity to the nearest older one, the least similar first. If
    there are clusters, new passages are counted by cluster.

    \b
    Example:
        nearsay explore new papers --since 2026-11-01
        nearsay explore new papers --since 2019 --field year
    """
    with place.open() as library, ProgressBar("comparing") as bar:
        found = library.collection(collection).explore.new_since(
            since, field, count=limit, where=where, progress=bar
        )
    if rows_alone():
        for each in found.unlike:
            print_json(each)
    elif as_json:
        print_json(found)
    else:
        _print(found)
    print_notes(found.notes)


def _print(found: "News") -> None:
    click.echo(
        f"since {found.since}: {counted(found.documents, 'document')}, {counted(found.passages, 'passage')}; "
        f"before: {counted(found.older_documents, 'document')}, {counted(found.older_passages, 'passage')}"
    )
    if found.clusters:
        click.echo()
        print_rows(
            found.clusters,
            {
                "": "number",
                "cluster": "name",
                "new": "new",
                "before": "before",
                "share of new": lambda each: f"{100 * each.share_of_new:.1f} %",
                "share before": lambda each: f"{100 * each.share_before:.1f} %",
            },
            as_json=False,
        )
    if found.unlike:
        click.echo()
        print_passages(
            found.unlike,
            lambda each: ("cosine with the nearest older one", near_line(each.nearest, "nearest before")),
            as_json=False,
        )


@command("map")
def map_(
    collection: str = COLLECTION,
    out: Path = option(
        "File to write: .html (interactive), .png, .svg, .parquet, .csv or .jsonl.",
        metavar="FILE",
        default="map.html",
    ),
    no_file: bool = option("Create or update the stored map without writing a file."),
    colour_by: str | None = option(
        "Colour points by cluster or by a metadata field.",
        metavar="FIELD",
        shown="cluster, if there are clusters",
    ),
    replace: bool = REPLACE,
    seed: int | None = SEED(metavar="N", shown="that of the stored map, or a fixed one"),
    where: str | None = WHERE,
    as_json: bool = JSON,
    place: OnDevice = GROUP,
) -> None:
    """Draw COLLECTION as a map on which similar passages are close to each other.

    The map is stored: passages that are added later are placed among the others, which keep their positions.
    The map of a new encoder starts from the old one and is aligned to it. --where selects the passages to
    draw.

    \b
    Example:
        nearsay explore map papers --out papers.html
        nearsay explore map papers --out papers.png --colour-by year --where "year >= 2015"
    """
    with place.open() as library, ProgressBar("mapping") as bar:
        explorer = library.collection(collection).explore
        file = None if no_file else out
        report = explorer.draw_map(
            file, where=where, colour_by=colour_by, anew=replace, seed=seed, progress=bar
        )
    print_reports([report], as_json=as_json)


@command()
def atlas(
    collection: str = COLLECTION,
    where: str | None = WHERE,
    port: int | None = PORT,
    no_browser: bool = NO_BROWSER,
    place: OnDevice = GROUP,
) -> None:
    """Open the map of COLLECTION in Embedding Atlas and filter it on linked charts of the metadata.

    The map and its names are those of explore map; Embedding Atlas embeds and projects nothing. It listens on
    this machine only, without a password: until you stop it with Ctrl-C, other users of this machine can read
    the passages.

    \b
    Example:
        nearsay explore atlas papers --where "year >= 2015"
    """
    from nearsay.app.ui.launch import free_port
    from nearsay.data.errors import MissingExtraError
    from nearsay.indexer.maps.draw_map import write_drawing

    try:
        from embedding_atlas.cli import main as embedding_atlas
    except ImportError as error:
        raise MissingExtraError("Embedding Atlas", "atlas") from error
    port = free_port("127.0.0.1", port)
    with TemporaryDirectory(prefix="nearsay-atlas-") as folder:
        with place.open() as library, ProgressBar("mapping") as bar:
            explorer = library.collection(collection).explore
            drawn = explorer.drawing(explorer.map(progress=bar), where=where)
        print_notes(drawn.notes)
        write_drawing(drawn, Path(folder, "map.parquet"))
        arguments = _atlas_arguments(drawn, Path(folder), port)
        click.echo(f"Embedding Atlas is at http://127.0.0.1:{port} (Ctrl-C stops it)")
        Thread(target=_once_served, args=(port, folder, not no_browser), daemon=True).start()
        # Its output is discarded: it prints passages with unescaped control characters.
        with suppress(KeyboardInterrupt), redirect_stdout(io.StringIO()):
            embedding_atlas(arguments, standalone_mode=False)


def _atlas_arguments(drawn: "Drawing", folder: Path, port: int) -> list[str]:
    """Return arguments that show map.parquet with the clusters' names; the query sets the order of charts."""
    from pyarrow import Table
    from pyarrow.parquet import read_schema, write_table

    from nearsay.indexer.maps.draw_map import COLUMNS

    fields = (name for name in read_schema(folder / "map.parquet").names if name not in COLUMNS)
    shown = ("text", *fields, "cluster_name", "title", "id", "cluster", "x", "y")
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in shown)
    arguments = [str(folder / "map.parquet"), *("--x", "x", "--y", "y", "--text", "text")]
    arguments += ["--query", f"SELECT {columns} FROM data", "--disable-projection"]  # noqa: S608 - quoted
    if drawn.labels:
        rows = [{"x": it.x, "y": it.y, "text": it.name, "priority": it.size} for it in drawn.labels]
        write_table(Table.from_pylist(rows), folder / "labels.parquet")
        arguments += ["--labels", str(folder / "labels.parquet")]
    return [*arguments, "--host", "127.0.0.1", "--port", str(port), "--no-auto-port"]


def _once_served(port: int, folder: str, browser: bool) -> None:
    """Delete the files once Embedding Atlas has loaded them, so that a signal leaves none behind."""
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
        time.sleep(0.2)
    shutil.rmtree(folder, ignore_errors=True)
    if browser:
        click.launch(f"http://127.0.0.1:{port}")


@click.group(
    cls=CommandGroup,
    commands=[clusters, rename, outliers, diverse, over_time, new, map_, atlas, pairs, duplicates],
)
def explore() -> None:
    """Explore a collection: pairs, duplicates, clusters, maps and samples.

    \b
    Example:
        nearsay explore pairs papers -n 20
    """
