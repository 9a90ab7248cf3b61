"""`nearsay judgements next` and `nearsay judgements import`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from nearsay.app.cli.command import GROUP, NamedPath, argument, command, option
from nearsay.app.cli.options import (
    COLLECTION,
    JSON,
    LIMIT,
    RATER,
    ROWS,
    Encoding,
    Place,
    Removal,
    refuse_given,
)
from nearsay.app.cli.printing import print_done, print_json, print_notes, print_table
from nearsay.data.document import visible
from nearsay.data.quantity import counted
from nearsay.data.report import Done

if TYPE_CHECKING:
    from nearsay.indexer.judgements.judging import JudgedComparison, ToJudge

_KEYS: Final = {"y": True, "n": False, "s": None}
_ASKED: Final = "answers? [y]es [n]o cannot [s]ay, [m] note, [q]uit: "


@command("next")
def next_(
    collection: str = COLLECTION,
    between: tuple[str, str] = option(
        "The two search configurations to compare: dense, lexical, hybrid, rrf, live, generation=2, or "
        "several joined by commas.",
        metavar="WAY WAY",
        default=("hybrid", "dense"),
        nargs=2,
        type=str,
    ),
    queries: Path | None = option(
        "File with the queries to compare on: .txt with one per line, or .jsonl.",
        metavar="FILE",
        type=NamedPath(allow_dash=True),
        shown="queries judged so far",
    ),
    from_documents: int | None = option(
        "Add this many queries, made from titles and sentences of the documents.", metavar="N", least=1
    ),
    from_log: int | None = option(
        "Add this many of the queries that people searched for most, as `nearsay judgements log` shows them.",
        metavar="N",
        least=1,
    ),
    rater: str | None = RATER,
    margin: float = option(
        "Difference of DCG@10 that is regarded as irrelevant.", default=0.01, type=click.FloatRange(min=0)
    ),
    stop_after: int | None = option("Stop after this many judgements.", metavar="N", least=1),
    as_json: bool = JSON,
    place: Encoding = GROUP,
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
    from nearsay.data.query_file import read_queries

    with place.open() as library:
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


@command()
def log(
    collection: str = COLLECTION,
    on: bool | None = option("Keep searches from now on, or delete them and keep none.", "--on/--off"),
    limit: int = LIMIT,
    removal: Removal = GROUP,
    as_json: bool = ROWS,
    place: Place = GROUP,
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
    if on is not False:
        refuse_given("is for --off, which alone deletes: add --off", "dry_run", "yes")
    with place.open() as library:
        target = library.collection(collection)
        searches = target.judgements.searches
        if on is not None:
            target.generations()  # tells of a collection that is not there
            kept_now = 0 if on or not searches.on else sum(times for _, times in searches.queries())
            what = f"{counted(kept_now, 'search', 'searches')} of '{collection}'"
            may = removal.may(what, harmless=not kept_now)
            forgotten = searches.switch(on=on) if may else kept_now
            forgot = f", and {counted(forgotten, 'search', 'searches')} forgotten" if forgotten else ""
            said = f"searches of {collection} are {'kept' if on else 'not kept'} from now on{forgot}"
            if on:
                print_done(Done("switched on", "search logs", 1), said, as_json=as_json)
            else:
                removal.print_done("searches", forgotten, said, as_json=as_json)
            return
        found = searches.queries(limit)
    if as_json:
        for query, times in found:
            print_json({"query": query, "times": times})
    else:
        print_table(["times", "query"], [[str(times), visible(query)] for query, times in found])


@command("import")
def import_(
    collection: str = COLLECTION,
    source: Path = argument(),
    queries: Path | None = option(
        "File with the texts of the queries for qrels: a table with the columns _id and text.",
        metavar="FILE",
    ),
    as_json: bool = JSON,
    place: Place = GROUP,
) -> None:
    """Import judgements of COLLECTION that were made elsewhere, all or none.

    SOURCE is a table (.csv, .tsv, .jsonl, .parquet) with the columns query, document and relevant, and
    optionally passage, text, rater and note, as `nearsay judgements export --as csv` writes it; a folder with
    the BEIR layout; or a file of TREC's or BEIR's qrels with --queries. A later judgement replaces an earlier
    one of the same query and passage. Judgements of passages that say something else than text now are left
    out. A judgement of a whole document of several passages is taken for the passage that a search for the
    query ranks first among them, if the document answers, and for each of them, if it does not.

    \b
    Example:
        nearsay judgements import notes judged.csv
        nearsay judgements import notes qrels.txt --queries queries.jsonl
    """
    with place.open() as library:
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
        "drawn": found.drawn,
        "unjudged": found.unjudged,
        "needed": found.needed,
    }


def _judge(compared: "JudgedComparison", rater: str | None, limit: int | None) -> None:
    """Ask until it is decided, nothing is left, or the person stops."""
    from nearsay.indexer.vectors.errors import UnknownDocumentError

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
        try:
            compared.judge(following, _KEYS[key], rater=rater, note=note)
        except UnknownDocumentError:  # it was removed while the person read
            print_notes([f"document '{following.hit.id}' was removed meanwhile, and is passed over"])
            continue
        done += 1
    click.echo(compared.difference().said(compared.first, compared.second))


def _key() -> str:
    while True:
        click.echo(_ASKED, nl=False, err=True)
        # Where standard input is no terminal click asks /dev/tty, which cron and docker do not have.
        key = click.getchar().lower() if sys.stdin.isatty() else _piped()
        click.echo(key if key.isprintable() else "", err=True)
        if key in {*_KEYS, "m", "q"}:
            return key
        if key in {"", "\x03", "\x04"}:
            return "q"


def _piped() -> str:
    """The next key on standard input, passing over white space; "" at its end."""
    while key := sys.stdin.read(1):
        if not key.isspace():
            return key.lower()
    return ""


def _shown(one: "ToJudge") -> str:
    title = f"{visible(one.hit.title)}\n" if one.hit.title else ""
    return f"\n{click.style(visible(one.query), bold=True)}\n{title}{visible(one.hit.text)}"
