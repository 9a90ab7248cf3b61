"""`nearsay explore duplicates`: what could go without a loss."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.explore_pairs import passage_lines
from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.printing import print_json, print_notes, visible
from nearsay.app.cli.progress_bar import ProgressBar
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.duplicates.groups import DuplicateGroup, DuplicateGroups

__all__ = ["duplicates"]

_SHOWN = 20  # groups shown to a person
_OTHERS_SHOWN = 5  # of a group


@click.command()
@click.argument("collection")
@click.option(
    "--threshold", default=0.95, show_default=True, metavar="COSINE", help="How similar near-duplicates are."
)
@click.option(
    "--link",
    type=click.Choice(["transitive", "complete"]),
    default="transitive",
    show_default=True,
    help="A chain of near-duplicates leads from each to each, or every two are near-duplicates.",
)
@click.option(
    "--by",
    type=click.Choice(["document", "passage"]),
    default="document",
    show_default=True,
    help="Whole documents (each passage of either has a near-duplicate in the other), or single passages.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the documents with one of each group kept, as JSON lines for `nearsay documents add`.",
)
@where_option
@json_option
@library_options
def duplicates(
    collection: str,
    *,
    threshold: float,
    link: str,
    by: str,
    out: Path | None,
    where: str | None,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Show groups of near-duplicates of COLLECTION, each with the one that stands for it.

    The representative is the most central of its group; of those as central, the one added first.

    \b
    Example:
        nearsay explore duplicates papers --threshold 0.97
        nearsay explore duplicates papers --link complete --out kept.jsonl
    """
    if out is not None and by == "passage":
        raise click.UsageError("--out writes whole documents. Leave --by passage out.")
    with open_library(place) as library:
        with ProgressBar("comparing", unit="pairs") as bar:
            found = library.collection(collection).explore.duplicates(
                threshold, link=link, by=by, where=where, progress=bar
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
