"""`nearsay search` and `nearsay similar`."""

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import click

from nearsay.app.cli.command import GROUP, argument, command, option
from nearsay.app.cli.options import COLLECTION, LIMIT, MODE, ROWS, WHERE, OnDevice, Sharded
from nearsay.app.cli.printing import print_hits, print_json, print_notes, rows_alone

if TYPE_CHECKING:
    from nearsay.indexer import Collection

_Item = TypeVar("_Item")
_BY_DOCUMENT = option("Only return the best passage of each document.")
_TOGETHER: Final = 64  # queries encoded and scored together


@dataclass(frozen=True)
class _How:
    """The options of a search, named as in `Collection.search`."""

    where: str | None = WHERE
    mode: Literal["dense", "lexical", "hybrid"] = MODE
    fusion: Literal["weighted", "rrf"] = option(
        "How hybrid combines the two rankings: by weighted scores, or by reciprocal rank fusion.",
        default="weighted",
    )
    by_document: bool = _BY_DOCUMENT
    rerank: str | None = option(
        "Name or folder of a cross-encoder that reranks the first 50 candidates.", metavar="NAME_OR_FOLDER"
    )
    explain: bool = option("Show which words made each result match.")
    generation: int | None = option("Number of the generation to use.", metavar="N", shown="the live one")


@command()
def search(
    collection: str = COLLECTION,
    query: str | None = argument(required=False),
    queries: str | None = option(
        "File of queries to use instead of QUERY: a text file with one per line, a .jsonl, or - for "
        "standard input. Prints one JSON object per query, or rows with --format.",
        "-f",
        "--file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    ),
    limit: int = LIMIT(10),
    how: _How = GROUP,
    as_json: bool = ROWS,
    place: Sharded = GROUP,
) -> None:
    """Search COLLECTION for passages that answer QUERY, by meaning and by words.

    The score is the cosine similarity of query and passage. Hybrid search adds a fifth for a passage that
    contains the five rarest words of the query, more for further or repeated words, and nothing for few.
    Scores of --mode lexical are BM25, those of --fusion rrf are sums of reciprocal ranks, and those of
    --rerank come from the cross-encoder.

    With -f the queries of a file are answered in order while the file is read, each as one JSON object with
    query, line, hits and notes. A line that is not a query is reported by its number, and the exit status is
    1.

    \b
    Example:
        nearsay search papers "loss functions for sentence pairs" -n 5 --where "year >= 2019"
        nearsay search papers -f questions.txt > answers.jsonl
        cat questions.txt | nearsay search papers -f -
    """
    _check_asked(query, queries)
    with place.open() as opened:
        target = opened.collection(collection)
        if queries is not None:
            _answer_all(target, queries, limit, asdict(how))
        else:
            hits = target.search(str(query), limit, **asdict(how))
            print_hits(hits, as_json=as_json, by_ranks=how.fusion == "rrf")


def _check_asked(query: str | None, queries: str | None) -> None:
    """Raise UsageError unless either a query or a file of queries is given."""
    if query == "-":
        raise click.UsageError("queries on standard input are read with -f: nearsay search COLLECTION -f -")
    if (query is None) is (queries is None):
        both = "give QUERY or -f FILE, not both" if query is not None else "missing argument 'QUERY'"
        raise click.UsageError(f"{both}. Give one query as an argument, or a file of queries with -f FILE")


def _answer_all(target: "Collection", source: str, limit: int, how: dict[str, Any]) -> None:
    """Print the results of each query as JSON; raises BadInputError at the end if a line is not a query."""
    from nearsay.data.errors import BadInputError
    from nearsay.data.faults import Fault
    from nearsay.data.query_file import iterate_queries

    # Unbuffered: Python aborts at exit if a thread still waits in the buffer's lock.
    stdin = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer) if source == "-" else None
    answered, faults = 0, 0
    for some in _as_they_come(iterate_queries(source, stdin), _TOGETHER):
        wrong = [item for item in some if isinstance(item, Fault)]
        asked = [item for item in some if not isinstance(item, Fault)]
        print_notes(f"skipped {fault}" for fault in wrong)
        answers = target.search([query.text for query in asked], limit, **how)
        for query, hits in zip(asked, answers, strict=True):
            found = [hit.to_json() for hit in hits]
            if rows_alone():
                for row in found:
                    print_json({"query": query.text, "line": query.line, **row})
                print_notes(f"line {query.line}: {note}" for note in hits.notes)
                continue
            print_json({"query": query.text, "line": query.line, "hits": found, "notes": hits.notes})
        answered, faults = answered + len(asked), faults + len(wrong)
    name = "standard input" if source == "-" else source
    if faults:
        rest = ", the others were answered" if answered else ""
        raise BadInputError(
            f"{faults:,} of the {answered + faults:,} queries in {name} are invalid{rest}. "
            "Correct or remove the lines listed above"
        )
    if not answered:
        raise BadInputError(f"{name} contains no query. Write one per line, or give it as an argument")


def _as_they_come(items: Iterable[_Item], most: int) -> Iterator[list[_Item]]:
    """Group the items that are available, at most `most`, so that a client that waits is answered at once."""
    # The last item is an error, or None at the end.
    there: queue.Queue[_Item | BaseException | None] = queue.Queue(4 * most)

    def read() -> None:
        try:
            for item in items:
                there.put(item)
            there.put(None)
        except BaseException as raised:  # noqa: BLE001 - raised where the items are used
            there.put(raised)

    threading.Thread(target=read, name="queries", daemon=True).start()
    group: list[_Item] = []
    over = False
    while not over:
        item = there.get()
        if item is None or isinstance(item, BaseException):
            over = True
        else:
            group.append(item)
        if group and (over or len(group) == most or there.empty()):
            yield group
            group = []
    if isinstance(item, BaseException):
        raise item


@command()
def similar(
    collection: str = COLLECTION,
    ids: tuple[str, ...] = option(
        "Id of a document to start from. Can be repeated.", "--id", metavar="ID", required=True
    ),
    without: tuple[str, ...] = option(
        "Id of a document to move away from. Can be repeated.", "--not", metavar="ID"
    ),
    limit: int = LIMIT(10),
    away: float | None = option("Weight of the documents of --not relative to those of --id.", shown="0.3"),
    where: str | None = WHERE,
    by_document: bool = _BY_DOCUMENT,
    as_json: bool = ROWS,
    place: OnDevice = GROUP,
) -> None:
    """Find passages of COLLECTION that are similar to given documents.

    A document is represented by the mean of its passages, several documents by their mean, minus 0.3 times
    the mean of the documents of --not. The given documents themselves are not returned.

    \b
    Example:
        nearsay similar papers --id P19-1001 -n 5
        nearsay similar papers --id P19-1001 --id D19-1410 --not W18-2605
    """
    weight = {} if away is None else {"away": away}
    with place.open() as library:
        papers = library.collection(collection)
        hits = papers.similar(ids, limit, without=without, where=where, by_document=by_document, **weight)
        print_hits(hits, as_json=as_json)
