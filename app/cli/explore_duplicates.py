"""`nearsay explore pairs` and `duplicates`: what says nearly the same."""

import textwrap
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nearsay.app.cli.command import GROUP, NamedPath, command, option
from nearsay.app.cli.options import COLLECTION, ROWS, UNIT, WHERE, OnDevice
from nearsay.app.cli.printing import filled, print_json, print_notes, rows_alone
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.document import beginning, visible
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.duplicates.groups import DuplicateGroup, DuplicateGroups
    from nearsay.indexer.duplicates.pairs import Pair, PairedPassage

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
        "Second collection; each pair has one passage of each collection.", "--with", metavar="OTHER"
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
            if rows_alone():
                print_json(_row(pair))
                continue
            if as_json:
                print_json(pair)
                continue
            click.echo(f"{rank:3}. {pair.cosine:.4f}")
            for passage in (pair.first, pair.second):
                click.echo(passage_lines(passage))
    nothing = () if len(found) else (f"no pair: {counted(found.looked_at, 'passage')} looked at",)
    print_notes((*nothing, *found.notes))


def _row(pair: "Pair") -> dict[str, object]:
    """A pair without what is nested."""
    sides = {"first": pair.first, "second": pair.second}
    parts = ("id", "title", "text")
    named = {f"{side}_{part}": getattr(one, part) for side, one in sides.items() for part in parts}
    return {"cosine": pair.cosine, **named}


def passage_lines(passage: "PairedPassage") -> str:
    """Its id and title, and the beginning of its text."""
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
        raise click.UsageError("--out writes whole documents. Leave --unit passages out.")
    if out is not None:
        from nearsay.indexer.query.export import check_lines_name

        check_lines_name(out)  # refused now rather than after the work
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
        print_notes(_said(found, hidden=0 if as_json else max(0, len(found) - _SHOWN)))
        if out is not None:
            report = found.keep_one(out)
            print_notes([f"{out}: {counted(report.kept, 'document')} kept, {report.left_out:,} left out"])


def _print_group(rank: int, group: "DuplicateGroup") -> None:
    click.echo(f"{rank:3}. {group.size:,} that say nearly the same as")
    click.echo(passage_lines(group.representative))
    ids = [visible(other.id) for other in group.others[:_OTHERS_SHOWN]]
    more = len(group.others) - len(ids)
    click.echo(f"     also: {', '.join(ids)}{f' and {more:,} more' if more else ''}")


def _said(found: "DuplicateGroups", *, hidden: int) -> list[str]:
    return [
        *([f"… and {counted(hidden, 'group')} more (--json prints all)"] if hidden else []),
        (
            f"{counted(len(found), 'group')} among {counted(found.looked_at, found.by)} at a cosine of "
            f"{found.threshold:g}; {counted(found.duplicates, found.by)} could go if one of each stays"
        ),
        *found.notes,
    ]
