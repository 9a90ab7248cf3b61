"""`nearsay judgements`: relevance judgements of search results."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click

from nearsay.app.cli.command import GROUP, CommandGroup, NamedPath, argument, command, option
from nearsay.app.cli.options import (
    COLLECTION,
    JSON,
    LIMIT,
    MODE,
    ROWS,
    WHERE,
    Encoding,
    Place,
    Removal,
    refuse_given,
)
from nearsay.app.cli.printing import print_done, print_json, print_notes, print_rows
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.document import beginning, visible
from nearsay.data.quantity import counted
from nearsay.data.report import Done

if TYPE_CHECKING:
    from nearsay.indexer import Collection, Hit
    from nearsay.indexer.catalogue.judgements import Judgement, JudgementCounts
    from nearsay.indexer.judgements.export import JudgementExport
    from nearsay.indexer.judgements.judging import JudgedComparison, ToJudge


_RATER = option("Name of the person who judges.", metavar="NAME")
_KEYS: Final = {"y": True, "n": False, "s": None}
_ASKED: Final = "relevant? [y]es [n]o not [s]ure, [m] note, [q]uit: "


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
        "Add this many queries, generated from titles and sentences of the documents.", metavar="N", least=1
    ),
    from_log: int | None = option(
        "Add this many of the queries that people searched for most, as `nearsay judgements log` shows them.",
        metavar="N",
        least=1,
    ),
    rater: str | None = _RATER,
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
        print_notes(compared.notes)
        if as_json:
            print_json(_as_json(compared))
        else:
            _judge(compared, rater, stop_after)


@command()
def log(
    collection: str = COLLECTION,
    on: bool | None = option("Log searches from now on, or delete the log and stop logging.", "--on/--off"),
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
        refuse_given("is for --off, the only one that deletes: add --off", "dry_run", "yes")
    with place.open() as library:
        target = library.collection(collection)
        searches = target.judgements.searches
        if on is not None:
            target.generations()  # fails if the collection does not exist
            kept_now = 0 if on or not searches.on else sum(times for _, times in searches.queries())
            what = f"{counted(kept_now, 'search', 'searches')} of '{collection}'"
            may = removal.may(what, harmless=not kept_now)
            forgotten = searches.switch(on=on) if may else kept_now
            forgot = f", and {counted(forgotten, 'search', 'searches')} deleted" if forgotten else ""
            message = f"searches of {collection} are {'logged' if on else 'not logged'} from now on{forgot}"
            if on:
                print_done(Done("switched on", "search logs", 1), message, as_json=as_json)
            else:
                removal.print_done("searches", forgotten, message, as_json=as_json)
            return
        found = searches.queries(limit)
    print_rows(
        found,
        {"times": lambda row: str(row[1]), "query": lambda row: row[0]},
        as_json=as_json,
        to_json=lambda row: {"query": row[0], "times": row[1]},
    )


@command("import")
def import_(
    collection: str = COLLECTION,
    source: Path = argument(),
    queries: Path | None = option(
        "File with the texts of the queries for qrels: a table with the columns _id and text.",
        metavar="FILE",
    ),
    as_json: bool = JSON,
    place: Encoding = GROUP,
) -> None:
    """Import judgements of COLLECTION that were made elsewhere, all or none.

    SOURCE is a table (.csv, .tsv, .jsonl, .parquet) with the columns query, document and relevant, and
    optionally passage, text, rater and note, as `nearsay judgements export --as csv` writes it; a folder with
    the BEIR layout; or a file of TREC or BEIR qrels with --queries. A later judgement replaces an earlier one
    of the same query and passage. Judgements whose text differs from the passage are left out. A judgement of
    a whole document with several passages applies to the passage that a search for the query ranks first
    among them if the document is relevant, and to all of them if it is not.

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
    click.echo(f"{counted(taken.judgements, 'judgement')} of {of} imported", err=True)
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
    """Ask for judgements until the comparison is decided, nothing is left, or the user quits."""
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
        except UnknownDocumentError:  # removed while the user was reading
            print_notes([f"document '{following.hit.id}' was removed meanwhile and is skipped"])
            continue
        done += 1
    click.echo(compared.difference().said(compared.first, compared.second))


def _key() -> str:
    while True:
        click.echo(_ASKED, nl=False, err=True)
        # Without a terminal on standard input, click reads /dev/tty, which cron and docker do not have.
        key = click.getchar().lower() if sys.stdin.isatty() else _piped()
        click.echo(key if key.isprintable() else "", err=True)
        if key in {*_KEYS, "m", "q"}:
            return key
        if key in {"", "\x03", "\x04"}:
            return "q"


def _piped() -> str:
    """Return the next key on standard input, skipping white space; "" at its end."""
    while key := sys.stdin.read(1):
        if not key.isspace():
            return key.lower()
    return ""


def _shown(one: "ToJudge") -> str:
    title = f"{visible(one.hit.title)}\n" if one.hit.title else ""
    return f"\n{click.style(visible(one.query), bold=True)}\n{title}{visible(one.hit.text)}"


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
    rater: str | None = _RATER,
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
        raise click.UsageError("Give --relevant or --not-relevant.")
    if not hits and not ids:
        raise click.UsageError("Specify what is judged: --hit RANK or --id ID.")
    if passage is not None and len(ids) != 1:
        raise click.UsageError("--passage needs exactly one --id.")
    with place.open() as library:
        target = library.collection(collection)
        for hit in _hits(target, query, hits, mode, where):
            judgement = target.judgements.add(query, hit, relevant, rater=rater, note=note)
            _print(judgement, as_json=as_json)
        for id_ in ids:
            judgement = target.judgements.add(query, id_, relevant, passage=passage, rater=rater, note=note)
            _print(judgement, as_json=as_json)


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
            f"'{id_}' was not judged for that query. List the judgements: nearsay judgements list "
            f"{collection}"
        )
    message = f"{counted(count, 'judgement')} removed"
    print_done(Done("removed", "judgements", count), message, as_json=as_json)


def _hits(
    target: "Collection", query: str, ranks: tuple[int, ...], mode: str, where: str | None
) -> list["Hit"]:
    from nearsay.data.errors import BadInputError

    if not ranks:
        return []
    found = target.search(query, max(ranks), mode=mode, where=where)
    if len(found) < max(ranks):
        raise BadInputError(f"there is no hit {max(ranks)}: the search has {len(found)}. Choose one of those")
    return [found[rank - 1] for rank in ranks]


def _print(one: "Judgement", *, as_json: bool) -> None:
    if as_json:
        print_json(one)
        return
    word = "relevant" if one.relevant else "not relevant"
    text = beginning(visible(one.title or one.text), _TEXT)
    click.echo(f"{word}: {visible(one.document)}, passage {one.passage}: {text}")


_QUERY = 32  # characters
_COLUMNS: "Final[Mapping[str, str | Callable[[Judgement], str | None]]]" = {
    "relevant": lambda each: "yes" if each.relevant else "no",
    "query": lambda each: beginning(visible(each.query), _QUERY),
    "id": "document",
    "passage": lambda each: str(each.passage),
    "rank": lambda each: None if each.rank is None else str(each.rank),
    "": lambda each: None if each.state == "current" else str(each.state),
    "title or text": lambda each: beginning(visible(each.title or each.text), _TEXT),
}


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
        raise click.UsageError("--queries lists all of them. Omit --query, --id and --relevant.")
    with place.open() as library:
        judged = library.collection(collection).judgements
        asked = judged.queries()[:limit] if queries else ()
        rows = () if queries else judged.list(query, id_, relevant=relevant)[:limit]
        counts = judged.counts()
    if queries:
        columns = ("query", "relevant", "not relevant", "last judged")
        fields = ("query", "relevant", "not_relevant", "judged_at")
        print_rows(asked, dict(zip(columns, fields, strict=True)), as_json=as_json)
    else:
        print_rows(rows, _COLUMNS, as_json=as_json)
    if not as_json:
        print_notes([_counts_text(counts)])


def _counts_text(counts: "JudgementCounts") -> str:
    judged = f"{counted(counts.judgements, 'judgement')} of {counted(counts.queries, 'query', 'queries')}"
    text = f"{judged}: {counts.relevant:,} relevant, {counts.not_relevant:,} not"
    gone = [f"{counts.changed:,} of passages that changed since"] if counts.changed else []
    gone += [f"{counts.removed:,} of documents that were removed since"] if counts.removed else []
    return "; ".join([text, *gone])


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
        click.echo(_export_text(written))
        print_notes(written.notes)


def _export_text(written: "JudgementExport") -> str:
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
