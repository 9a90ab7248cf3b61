"""`nearsay judgements next` and `nearsay judgements import`."""

from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack

import click
from click.core import ParameterSource

from nearsay.app.cli.completion import collection_argument
from nearsay.app.cli.options import (
    Place,
    encoding_options,
    json_option,
    library_options,
    limit_option,
    may_remove,
    open_library,
    removal_options,
    rows_option,
)
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.data.document import visible
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.indexer.judgements.judging import JudgedComparison, ToJudge

__all__ = ["import_", "log", "next_"]

_KEYS: Final = {"y": True, "n": False, "s": None}
_ASKED: Final = "answers? [y]es [n]o cannot [s]ay, [m] note, [q]uit: "
_QUERIES: Final = 100  # of those asked, made from documents


@click.command("next")
@collection_argument
@click.option(
    "--between",
    nargs=2,
    default=("hybrid", "dense"),
    show_default=True,
    metavar="WAY WAY",
    help=(
        "The two search configurations to compare: dense, lexical, hybrid, rrf, live, "
        "generation=2, or several joined by commas."
    ),
)
@click.option(
    "--queries",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the queries to compare on: .txt with one per line, or .jsonl.",
    show_default="queries judged so far",
)
@click.option(
    "--from-documents",
    type=click.IntRange(1),
    metavar="N",
    help="Add this many queries, made from titles and sentences of the documents.",
)
@click.option(
    "--from-log",
    type=click.IntRange(1),
    metavar="N",
    help=(
        "Add this many of the queries that people searched for most, as `nearsay judgements log` shows them."
    ),
)
@click.option("--rater", metavar="NAME", help="Name of the person who judges.")
@click.option(
    "--margin",
    type=click.FloatRange(min=0),
    default=0.01,
    show_default=True,
    help="Difference of DCG@10 that is regarded as irrelevant.",
)
@click.option("--stop-after", type=click.IntRange(1), metavar="N", help="Stop after this many judgements.")
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
    stop_after: int | None,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Judge the passages of COLLECTION that best decide which of two search configurations is better.

    Shows one query and one passage at a time, which you judge with a key, until the comparison is decided.
    Which configuration found a passage is hidden. The 95 % confidence interval of the difference is valid at
    any time, so you can stop whenever you like. With --json nothing is asked: the next passage and the
    current state are printed.

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
            from nearsay.indexer.encoder_candidate import queries_of_documents

            asked = [*(asked or []), *queries_of_documents(target, from_documents)]
        if from_log is not None:
            asked = [*(asked or []), *(query for query, _ in target.judgements.searches.queries(from_log))]
        compared = target.judgements.compare(*between, asked, margin=margin)
        if as_json:
            print_json(_as_json(compared))
        else:
            _judge(compared, rater, stop_after)


@click.command()
@collection_argument
@click.option("--on/--off", default=None, help="Keep searches from now on, or delete them and keep none.")
@limit_option
@removal_options
@rows_option
@library_options
def log(
    collection: str,
    *,
    on: bool | None,
    limit: int,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Show the most frequent searches of COLLECTION, and switch the search log on or off.

    The log is off until you switch it on. It stores the query and the time of searches by the command line,
    the page and Python in the folder `searches` of the library. Switching it off deletes it,
    after asking for confirmation.

    \b
    Example:
        nearsay judgements log notes --on
        nearsay judgements next notes --from-log 50
    """
    source = click.get_current_context().get_parameter_source
    for option in ("dry_run", "yes"):  # which a configuration file may have for all commands
        if on is not False and source(option) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--{option.replace('_', '-')} is for --off, which alone deletes: add --off"
            )
    with open_library(place) as library:
        target = library.collection(collection)
        searches = target.judgements.searches
        if on is not None:
            target.generations()  # tells of a collection that is not there
            kept_now = 0 if on or not searches.on else sum(times for _, times in searches.queries())
            what = f"{counted(kept_now, 'search', 'searches')} of '{collection}'"
            if not may_remove(what, dry_run=dry_run, yes=yes or not kept_now):
                return
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
@collection_argument
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "--queries",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the texts of the queries for TREC qrels: a table with the columns _id and text.",
)
@json_option
@library_options
def import_(
    collection: str, source: Path, queries: Path | None, *, as_json: bool, **place: Unpack[Place]
) -> None:
    """Import judgements of COLLECTION that were made elsewhere, all or none.

    SOURCE is a table (.csv, .tsv, .jsonl, .parquet) with the columns query, document and relevant, and
    optionally passage, rater and note, as `nearsay judgements export --as csv` writes it; a folder with the
    BEIR layout; or a file of TREC qrels with --queries. A later judgement replaces an earlier one of the same
    query and passage.

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
