"""`nearsay judgements list`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library
from nearsay.app.cli.printing import print_json, print_notes, print_table, terminal_width, visible
from nearsay.data.document import beginning
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.catalogue.judgement import Judgement, JudgementCounts

__all__ = ["list_"]

_COLUMNS = ("relevant", "query", "id", "passage", "rank", "", "title or text")
_QUERY = 32  # characters
_LEAST_TEXT = 20


@click.command("list")
@click.argument("collection")
@click.option("--query", metavar="TEXT", help="Only those of this query.")
@click.option("--id", "id_", metavar="ID", help="Only those of this document.")
@click.option("--relevant/--not-relevant", default=None, help="Only those that say so.")
@click.option("--queries", is_flag=True, help="A line for each query: how often it was judged.")
@json_option
@library_options
def list_(
    collection: str,
    *,
    query: str | None,
    id_: str | None,
    relevant: bool | None,
    queries: bool,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """List the judgements of COLLECTION.

    One whose document was removed or changed since says so: an encoder can still learn from it, and nothing
    is measured on it.

    \b
    Example:
        nearsay judgements list notes --query "when is the office closed"
        nearsay judgements list notes --queries
    """
    if queries and (query, id_, relevant) != (None, None, None):
        raise click.UsageError("--queries lists all of them. Leave --query, --id and --relevant out.")
    with open_library(place) as library:
        judged = library.collection(collection).judgements
        asked = judged.queries() if queries else ()
        rows = () if queries else judged.list(query, id_, relevant=relevant)
        counts = judged.counts()
    if as_json:
        for row in (*asked, *rows):
            print_json(row)
        return
    if queries:
        of_each = [[each.query, each.relevant, each.not_relevant, each.judged_at] for each in asked]
        print_table(["query", "relevant", "not relevant", "last judged"], of_each)
    else:
        _print(rows)
    print_notes([_said(counts)])


def _print(rows: Sequence["Judgement"]) -> None:
    table = [
        [
            "yes" if each.relevant else "no",
            _short(each.query, _QUERY),
            each.document,
            str(each.passage),
            "" if each.rank is None else str(each.rank),
            "" if each.state == "current" else str(each.state),
            visible(each.title or each.text),
        ]
        for each in rows
    ]
    widths = [max(len(row[i]) for row in [_COLUMNS, *table]) + 2 for i in range(len(_COLUMNS) - 1)]
    room = max(_LEAST_TEXT, terminal_width() - sum(widths))
    print_table(_COLUMNS, [[*row[:-1], _short(row[-1], room)] for row in table])


def _short(text: str, width: int) -> str:
    return beginning(visible(text), width)


def _said(counts: "JudgementCounts") -> str:
    judged = f"{counted(counts.judgements, 'judgement')} of {counted(counts.queries, 'query', 'queries')}"
    said = f"{judged}: {counts.relevant:,} relevant, {counts.not_relevant:,} not"
    gone = [f"{counts.changed:,} of passages changed since"] if counts.changed else []
    gone += [f"{counts.removed:,} of documents removed since"] if counts.removed else []
    return "; ".join([said, *gone])
