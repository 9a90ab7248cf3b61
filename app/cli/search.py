"""`nearsay search` and `nearsay similar`."""

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar, Unpack

import click

from nearsay.app.cli.options import (
    Place,
    Sharded,
    device_option,
    json_option,
    library_options,
    open_library,
    shards_options,
    where_option,
)
from nearsay.app.cli.printing import print_hits, print_json, print_notes

if TYPE_CHECKING:
    from nearsay.indexer import Collection

__all__ = ["search", "similar"]

_Item = TypeVar("_Item")
_TOGETHER: Final = 64  # queries that are encoded and scored at once


class _How(TypedDict):
    """The options of a search, as `Collection.search` names them."""

    where: str | None
    mode: str
    fusion: str
    by_document: bool
    rerank: str | None
    explain: bool
    generation: int | None


@click.command()
@click.argument("collection")
@click.argument("query", required=False)
@click.option(
    "-f",
    "--file",
    "queries",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Ask each line of a text file, or each `query` or text of a .jsonl, instead of QUERY; - is standard "
    "input. Prints one JSON object a query.",
)
@click.option("-k", default=10, show_default=True, help="How many results.")
@where_option
@click.option(
    "--mode",
    type=click.Choice(["dense", "lexical", "hybrid"]),
    default="hybrid",
    show_default=True,
    help="By meaning, by words (no encoder is loaded), or by both.",
)
@click.option(
    "--fusion",
    type=click.Choice(["weighted", "rrf"]),
    default="weighted",
    show_default=True,
    help="How hybrid puts the two rankings together: by scores, or by reciprocal ranks.",
)
@click.option("--by-document", is_flag=True, help="Only the best passage of each document.")
@click.option(
    "--rerank",
    metavar="NAME_OR_FOLDER",
    help="A cross-encoder that reads the first 50 candidates with the query and ranks them anew.",
)
@click.option("--explain", is_flag=True, help="Say of each result which words made it match.")
@click.option(
    "--generation",
    type=int,
    metavar="N",
    help="Search in another generation than the live one, to compare: ready or retired.",
)
@json_option
@shards_options
def search(
    collection: str,
    query: str | None,
    queries: str | None,
    k: int,
    *,
    as_json: bool,
    library: str,
    database: str | None,
    device: str | None,
    precision: str,
    cluster: str | None,
    partial: bool,
    **how: Unpack[_How],
) -> None:
    """Find passages of COLLECTION that answer QUERY, by meaning and by words.

    A score is the cosine of the two vectors; hybrid adds a fifth where a passage has the query's five rarest
    words, more where it has others too or repeats them, nothing where it has few. Lexical scores are BM25,
    those of rrf sums of reciprocal ranks, those of --rerank the cross-encoder's.

    With -f the file's queries are answered in their order while it is read, one JSON object each: query,
    line, hits, notes. A line that cannot be asked is reported by its number, and the exit status is 1 then.

    \b
    Example:
        nearsay search papers "loss functions for sentence pairs" -k 5 --where "year >= 2019"
        nearsay search papers -f questions.txt > answers.jsonl
        cat questions.txt | nearsay search papers -f -
    """
    _check_asked(query, queries)
    place = Sharded(
        library=library,
        database=database,
        device=device,
        precision=precision,
        cluster=cluster,
        partial=partial,
    )
    with open_library(place) as opened:
        target = opened.collection(collection)
        if queries is not None:
            _answer_all(target, queries, k, how)
        else:
            hits = target.search(str(query), k, **how)
            print_hits(hits, as_json=as_json, by_ranks=how["fusion"] == "rrf")


def _check_asked(query: str | None, queries: str | None) -> None:
    """UsageError unless either a query or a file of them is given."""
    if query == "-":
        raise click.UsageError("queries on standard input are read with -f: nearsay search COLLECTION -f -")
    if (query is None) is (queries is None):
        both = "give QUERY or -f FILE, not both" if query is not None else "missing argument 'QUERY'"
        raise click.UsageError(f"{both}. One query is an argument, those of a file are named with -f FILE")


def _answer_all(target: "Collection", source: str, k: int, how: _How) -> None:
    """Print an answer a query as JSON; BadInputError at the end if a line could not be asked."""
    from nearsay.data.errors import BadInputError
    from nearsay.data.faults import Fault
    from nearsay.indexer.query.query_file import iterate_queries

    # Read without the lock of Python's own buffer, at which a reader that still waits would end the process.
    stdin = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer) if source == "-" else None
    answered, faults = 0, 0
    for some in _as_they_come(iterate_queries(source, stdin), _TOGETHER):
        wrong = [item for item in some if isinstance(item, Fault)]
        asked = [item for item in some if not isinstance(item, Fault)]
        print_notes(f"skipped {fault}" for fault in wrong)
        answers = target.search([query.text for query in asked], k, **how)
        for query, hits in zip(asked, answers, strict=True):
            found = [hit.to_json() for hit in hits]
            print_json({"query": query.text, "line": query.line, "hits": found, "notes": hits.notes})
        answered, faults = answered + len(asked), faults + len(wrong)
    name = "standard input" if source == "-" else source
    if faults:
        rest = ", the others were answered" if answered else ""
        raise BadInputError(
            f"{faults:,} of the {answered + faults:,} queries in {name} could not be asked{rest}. "
            "Mend the lines named above, or leave them out"
        )
    if not answered:
        raise BadInputError(f"{name} holds no query. Write one a line, or give it as an argument")


def _as_they_come(items: Iterable[_Item], most: int) -> Iterator[list[_Item]]:
    """Group what is there by now, at most so many: whoever writes one query and waits is answered at once."""
    there: queue.Queue[_Item | _End] = queue.Queue(4 * most)

    def read() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                there.put(item)
        except BaseException as raised:  # noqa: BLE001 - raised where the items are used
            error = raised
        there.put(_End(error))

    threading.Thread(target=read, name="queries", daemon=True).start()
    end: _End | None = None
    while end is None:
        group: list[_Item] = []
        while end is None and len(group) < most and (not group or not there.empty()):
            item = there.get()
            if isinstance(item, _End):
                end = item
            else:
                group.append(item)
        if group:
            yield group
    if end.error is not None:
        raise end.error


class _End:
    """Nothing follows; what ended it, if it was an error."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


@click.command()
@click.argument("collection")
@click.option(
    "--id", "ids", required=True, multiple=True, metavar="ID", help="A document to start from; again."
)
@click.option("--not", "without", multiple=True, metavar="ID", help="A document to keep away from; again.")
@click.option("-k", default=10, show_default=True, help="How many results.")
@click.option(
    "--away", type=float, help="The weight of those of --not against those of --id.  [default: 0.3]"
)
@where_option
@click.option("--by-document", is_flag=True, help="Only the best passage of each document.")
@json_option
@library_options
@device_option
def similar(
    collection: str,
    ids: tuple[str, ...],
    without: tuple[str, ...],
    k: int,
    *,
    away: float | None,
    where: str | None,
    by_document: bool,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Find passages of COLLECTION near to documents of it, and away from others.

    A document is taken as the mean of its passages; several as the mean of them all, less 0.3 times the mean
    of those of --not. None of those named is found itself.

    \b
    Example:
        nearsay similar papers --id P19-1001 -k 5
        nearsay similar papers --id P19-1001 --id D19-1410 --not W18-2605
    """
    weight = {} if away is None else {"away": away}
    with open_library(place) as library:
        papers = library.collection(collection)
        hits = papers.similar(ids, k, without=without, where=where, by_document=by_document, **weight)
        print_hits(hits, as_json=as_json)
