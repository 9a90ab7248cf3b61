"""`nearsay judgements next` and `nearsay judgements import`."""

from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click

from nearsay.app.cli.options import Place, encoding_options, json_option, library_options, open_library
from nearsay.app.cli.printing import print_json, print_notes, print_table, visible
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.judgements.judging import JudgedComparison, ToJudge

__all__ = ["import_", "log", "next_"]

_KEYS: Final = {"y": True, "n": False, "s": None}
_ASKED: Final = "answers? [y]es [n]o cannot [s]ay, [m] note, [q]uit: "
_QUERIES: Final = 100  # of those asked, made from documents


@click.command("next")
@click.argument("collection")
@click.option(
    "--between",
    nargs=2,
    default=("hybrid", "dense"),
    show_default=True,
    metavar="WAY WAY",
    help="What is compared: dense, lexical, hybrid, rrf, live, generation=2, or several with commas.",
)
@click.option(
    "--queries",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Queries to compare by: .txt, one a line, or .jsonl. Those that were judged so far if left out.",
)
@click.option(
    "--from-documents",
    type=click.IntRange(1),
    metavar="N",
    help="So many queries made from titles and sentences of the documents instead.",
)
@click.option(
    "--from-log",
    type=click.IntRange(1),
    metavar="N",
    help="So many of the queries that people searched for most; see `nearsay judgements log`.",
)
@click.option("--rater", metavar="NAME", help="Who judges; kept with each judgement.")
@click.option(
    "--margin",
    type=click.FloatRange(min=0),
    default=0.01,
    show_default=True,
    help="A difference of DCG@10 that does not matter.",
)
@click.option("--limit", type=click.IntRange(1), help="Stop after so many judgements.")
@json_option
@encoding_options
def next_(
    collection: str,
    *,
    between: tuple[str, str],
    queries: Path | None,
    from_documents: int | None,
    from_log: int | None,
    rater: str | None,
    margin: float,
    limit: int | None,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Judge the passages of COLLECTION that decide soonest which of two ways of searching is better.

    One query and one passage at a time, answered with a key, until it is decided. Which way found it is not
    said. The interval of the difference is right with a chance of 95 % however often one looks and whenever
    one stops. With --json nothing is asked: the next passage is printed, and what is known.

    \b
    Example:
        nearsay judgements next notes --between hybrid dense --queries asked.txt
        nearsay judgements next notes --between live generation=2 --json
    """
    from nearsay.indexer.query.query_file import read_queries

    with open_library(place) as library:
        target = library.collection(collection)
        asked = None if queries is None else read_queries(queries)
        if from_documents is not None:
            from nearsay.indexer.adaptation import queries_of_documents

            asked = [*(asked or []), *queries_of_documents(target, from_documents)]
        if from_log is not None:
            asked = [*(asked or []), *(query for query, _ in target.judgements.searches.queries(from_log))]
        compared = target.judgements.compare(*between, asked, margin=margin)
        if as_json:
            print_json(_as_json(compared))
        else:
            _judge(compared, rater, limit)


@click.command()
@click.argument("collection")
@click.option("--on/--off", default=None, help="Keep searches from now on; or forget them and keep none.")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="Queries shown.")
@json_option
@library_options
def log(collection: str, *, on: bool | None, limit: int, as_json: bool, **place: Unpack[Place]) -> None:
    """Show what people searched COLLECTION for most, to judge by; nothing is kept unless it is switched on.

    Kept are the words and the time, of searches by the command line, the page and Python, in the library's
    folder `searches`. To switch it off removes them.

    \b
    Example:
        nearsay judgements log notes --on
        nearsay judgements next notes --from-log 50
    """
    with open_library(place) as library:
        target = library.collection(collection)
        searches = target.judgements.searches
        if on is not None:
            target.generations()  # tells of a collection that is not there
            forgotten = searches.switch(on=on)
            forgot = f", and {counted(forgotten, 'search', 'searches')} forgotten" if forgotten else ""
            kept = "kept" if on else "not kept"
            click.echo(f"searches of {collection} are {kept} from now on{forgot}", err=True)
            return
        found = searches.queries(limit)
    if as_json:
        for query, times in found:
            print_json({"query": query, "times": times})
    else:
        print_table(["times", "query"], [[str(times), visible(query)] for query, times in found])


@click.command("import")
@click.argument("collection")
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "--queries",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The queries' texts, for TREC's qrels: a table with the columns _id and text.",
)
@json_option
@library_options
def import_(
    collection: str, source: Path, queries: Path | None, *, as_json: bool, **place: Unpack[Place]
) -> None:
    """Take over judgements of COLLECTION that were made elsewhere, all or none.

    SOURCE is a table (.csv, .tsv, .jsonl, .parquet) with the columns query, document and relevant, and
    perhaps passage, rater and note, as `nearsay judgements export --as csv` writes it; a folder in BEIR's
    layout; or a file of TREC's qrels with --queries. A later word on a query and a passage replaces what was
    said.

    \b
    Example:
        nearsay judgements import notes judged.csv
        nearsay judgements import notes qrels.txt --queries queries.jsonl
    """
    with open_library(place) as library:
        taken = library.collection(collection).judgements.load(source, queries)
    if as_json:
        print_json(taken)
        return
    of = counted(taken.queries, "query", "queries")
    click.echo(f"{counted(taken.judgements, 'judgement')} of {of} taken over", err=True)
    print_notes(taken.notes)


def _as_json(compared: "JudgedComparison") -> dict[str, object]:
    following, found = compared.next(), compared.difference()
    return {
        "between": [str(compared.first), str(compared.second)],
        "next": None if following is None else following.to_json(),
        "difference": found.difference,
        "interval": [found.interval.low, found.interval.high],
        "verdict": str(found.verdict),
        "judged": found.judged,
        "unjudged": found.unjudged,
        "needed": found.needed,
    }


def _judge(compared: "JudgedComparison", rater: str | None, limit: int | None) -> None:
    """Ask until it is decided, nothing is left, or the person stops."""
    done = 0
    while limit is None or done < limit:
        following, found = compared.next(), compared.difference()
        if following is None or found.verdict != "open":
            break
        if done % 5 == 0:
            click.echo(found.said(compared.first, compared.second), err=True)
        click.echo(_shown(following))
        note = None
        while (key := _key()) == "m":
            note = click.prompt("note", err=True)
        if key == "q":
            break
        compared.judge(following, _KEYS[key], rater=rater, note=note)
        done += 1
    click.echo(compared.difference().said(compared.first, compared.second))


def _key() -> str:
    while True:
        click.echo(_ASKED, nl=False, err=True)
        key = click.getchar().lower()
        click.echo(key if key.isprintable() else "", err=True)
        if key in {*_KEYS, "m", "q"}:
            return key
        if key in {"", "\x03", "\x04"}:
            return "q"


def _shown(one: "ToJudge") -> str:
    title = f"{visible(one.hit.title)}\n" if one.hit.title else ""
    return f"\n{click.style(visible(one.query), bold=True)}\n{title}{visible(one.hit.text)}"
