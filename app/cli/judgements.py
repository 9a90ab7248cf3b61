"""`nearsay judgements`: what people say of search results."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nearsay.app.cli.command import GROUP, CommandGroup, argument, command, option
from nearsay.app.cli.judgements_next import import_, log, next_
from nearsay.app.cli.options import COLLECTION, JSON, MODE, RATER, ROWS, WHERE, Encoding, Place
from nearsay.app.cli.printing import print_done, print_json, print_notes, print_table
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.document import beginning, visible
from nearsay.data.quantity import counted
from nearsay.data.report import Done

if TYPE_CHECKING:
    from nearsay.indexer import Collection, Hit
    from nearsay.indexer.catalogue.judgements import Judgement, JudgementCounts
    from nearsay.indexer.judgements.export import JudgementExport

_TEXT = 80  # characters of a passage shown


@command()
def add(
    collection: str = COLLECTION,
    query: str = argument(),
    hits: tuple[int, ...] = option(
        "Rank of a search result to judge. Can be repeated.", "--hit", metavar="RANK", least=1
    ),
    ids: tuple[str, ...] = option(
        "Id of a document to judge, whether or not it is found. Can be repeated.", "--id", metavar="ID"
    ),
    passage: int | None = option(
        "Number of the passage in the document, from 0.",
        metavar="N",
        least=0,
        shown="the only passage of the document",
    ),
    relevant: bool | None = option("Whether the passage answers the query.", "--relevant/--not-relevant"),
    rater: str | None = RATER,
    note: str | None = option("Note to store with the judgement.", metavar="TEXT"),
    mode: Literal["dense", "lexical", "hybrid"] = MODE,
    where: str | None = WHERE,
    as_json: bool = JSON,
    place: Encoding = GROUP,
) -> None:
    """Store whether passages of COLLECTION answer QUERY.

    With --hit RANK the search runs again and its results of these ranks are judged, with ranks and scores;
    with --id any document can be judged. A new judgement replaces an earlier one of the same query and
    passage.

    \b
    Example:
        nearsay judgements add notes "when is the office closed" --hit 1 --hit 3 --relevant
        nearsay judgements add notes "when is the office closed" --id note-17 --not-relevant
    """
    if relevant is None:
        raise click.UsageError("Say --relevant or --not-relevant.")
    if not hits and not ids:
        raise click.UsageError("Say what is judged: --hit RANK or --id ID.")
    if passage is not None and len(ids) != 1:
        raise click.UsageError("--passage is of the one document that --id names.")
    with place.open() as library:
        target = library.collection(collection)
        for hit in _hits(target, query, hits, mode, where):
            said = target.judgements.add(query, hit, relevant, rater=rater, note=note)
            _print(said, as_json=as_json)
        for id_ in ids:
            said = target.judgements.add(query, id_, relevant, passage=passage, rater=rater, note=note)
            _print(said, as_json=as_json)


@command()
def remove(
    collection: str = COLLECTION,
    query: str = argument(),
    id_: str = option("Id of the document that was judged.", metavar="ID"),
    passage: int | None = option(
        "Number of the passage in the document, from 0.", metavar="N", least=0, shown="all judged passages"
    ),
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Remove the judgements of QUERY and a document of COLLECTION.

    \b
    Example:
        nearsay judgements remove notes "when is the office closed" --id note-17
    """
    from nearsay.data.errors import BadInputError

    with place.open() as library:
        count = library.collection(collection).judgements.remove(query, id_, passage)
    if not count:
        raise BadInputError(
            f"'{id_}' was not judged for that query. See what was: nearsay judgements list {collection}"
        )
    print_done(Done("removed", "judgements", count), f"taken back: {count:,}", as_json=as_json)


def _hits(
    target: "Collection", query: str, ranks: tuple[int, ...], mode: str, where: str | None
) -> list["Hit"]:
    from nearsay.data.errors import BadInputError

    if not ranks:
        return []
    found = target.search(query, max(ranks), mode=mode, where=where)
    if len(found) < max(ranks):
        raise BadInputError(f"there is no hit {max(ranks)}: the search gives {len(found)}. Name one of those")
    return [found[rank - 1] for rank in ranks]


def _print(one: "Judgement", *, as_json: bool) -> None:
    if as_json:
        print_json(one)
        return
    word = "relevant" if one.relevant else "not relevant"
    text = beginning(visible(one.title or one.text), _TEXT)
    click.echo(f"{word}: {visible(one.document)}, passage {one.passage}: {text}")


_COLUMNS = ("relevant", "query", "id", "passage", "rank", "", "title or text")
_QUERY = 32  # characters


@command("list")
def list_(
    collection: str = COLLECTION,
    query: str | None = option("Only list judgements of this query.", metavar="TEXT"),
    id_: str | None = option("Only list judgements of this document.", metavar="ID"),
    relevant: bool | None = option("Only list judgements with this answer.", "--relevant/--not-relevant"),
    queries: bool = option("List the judged queries with their counts instead of single judgements."),
    limit: int | None = option(
        "Maximum number of results to show.", "-n", "--limit", metavar="N", least=1, shown="all"
    ),
    as_json: bool = ROWS,
    place: Place = GROUP,
) -> None:
    """List the judgements of COLLECTION.

    Judgements whose document was removed or changed since are marked: they are still used for training, but
    not for evaluation.

    \b
    Example:
        nearsay judgements list notes --query "when is the office closed"
        nearsay judgements list notes --queries -n 10
    """
    if queries and (query, id_, relevant) != (None, None, None):
        raise click.UsageError("--queries lists all of them. Leave --query, --id and --relevant out.")
    with place.open() as library:
        judged = library.collection(collection).judgements
        asked = judged.queries()[:limit] if queries else ()
        rows = () if queries else judged.list(query, id_, relevant=relevant)[:limit]
        counts = judged.counts()
    if as_json:
        for row in (*asked, *rows):
            print_json(row)
        return
    if queries:
        of_each = [[each.query, each.relevant, each.not_relevant, each.judged_at] for each in asked]
        print_table(["query", "relevant", "not relevant", "last judged"], of_each)
    else:
        _list_print(rows)
    print_notes([_said(counts)])


def _list_print(rows: Sequence["Judgement"]) -> None:
    table = [
        [
            "yes" if each.relevant else "no",
            _short(each.query, _QUERY),
            each.document,
            str(each.passage),
            "" if each.rank is None else str(each.rank),
            "" if each.state == "current" else str(each.state),
            _short(each.title or each.text, _TEXT),
        ]
        for each in rows
    ]
    print_table(_COLUMNS, table)


def _short(text: str, width: int) -> str:
    return beginning(visible(text), width)


def _said(counts: "JudgementCounts") -> str:
    judged = f"{counted(counts.judgements, 'judgement')} of {counted(counts.queries, 'query', 'queries')}"
    said = f"{judged}: {counts.relevant:,} relevant, {counts.not_relevant:,} not"
    gone = [f"{counts.changed:,} of passages changed since"] if counts.changed else []
    gone += [f"{counts.removed:,} of documents removed since"] if counts.removed else []
    return "; ".join([said, *gone])


@command()
def export(
    collection: str = COLLECTION,
    form: Literal["evaluation", "training", "triplets", "labelled", "pairs", "csv", "lines"] = option(
        "Format of the export.", "--as", default="lines"
    ),
    out: Path = option(
        "File to write, .jsonl or .csv; for the form evaluation a new folder.", metavar="PATH"
    ),
    part: Literal["train", "test", "all"] | None = option(
        "Which queries to export: those to train on, the fifth to test on, or all.",
        shown="train for what is trained on, otherwise all",
    ),
    judged_only: bool = option(
        "Only include judged passages in an evaluation set. This is faster, and scores come out higher."
    ),
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Export judgements for evaluation, for training, or as they are.

    evaluation is a folder for `nearsay evaluate retrieval` with every passage of the collection, the queries
    and the judgements; passages without a judgement count as not relevant. training is a file for `nearsay
    train sentence`: triplets (query, relevant passage, irrelevant passage) if a query has both; else labelled
    pairs (query, passage, 1 or 0); else pairs (query, relevant passage). Each of these forms can also be
    requested by its name. csv is a table that `nearsay judgements import` reads; lines contains everything
    that is stored about each judgement.

    \b
    Example:
        nearsay judgements export notes --as training --out judged.jsonl
        nearsay train sentence judged.jsonl --out my-encoder
        nearsay judgements export notes --as evaluation --part test --out judged
        nearsay evaluate retrieval judged --encoder my-encoder
    """
    with place.open() as library, ProgressBar("writing") as bar:
        judged = library.collection(collection).judgements
        written = judged.export(out, form, part=part, judged_only=judged_only, progress=bar)
    if as_json:
        print_json(written)
    else:
        click.echo(_export_said(written))
        print_notes(written.notes)


def _export_said(written: "JudgementExport") -> str:
    among = "" if written.passages is None else f" among {counted(written.passages, 'passage')}"
    kinds = {"evaluation": "judgement", "lines": "judgement", "csv": "judgement", "labelled": "labelled pair"}
    rows = counted(written.rows, kinds.get(written.form, written.form.removesuffix("s")))
    queries = counted(written.queries, "query", "queries")
    return f"{rows} of {queries}{among} written to {written.out}"


@click.group(cls=CommandGroup, commands=[list_, add, remove, next_, log, import_, export])
def judgements() -> None:
    """Judge which passages answer a query, and turn judgements into evaluation and training data.

    \b
    Example:
        nearsay judgements add notes "when is the office closed" --hit 1 --relevant
        nearsay judgements next notes --between hybrid dense
        nearsay judgements export notes --as evaluation --out judged
        nearsay evaluate retrieval judged
    """
