"""`nearsay search` and `nearsay similar`."""

import sys
from typing import Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.printing import print_hits

__all__ = ["search", "similar"]


@click.command()
@click.argument("collection")
@click.argument("query")
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
@library_options
def search(
    collection: str,
    query: str,
    k: int,
    *,
    where: str | None,
    mode: str,
    fusion: str,
    by_document: bool,
    rerank: str | None,
    explain: bool,
    generation: int | None,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Find passages of COLLECTION that answer QUERY, by meaning and by words.

    QUERY - reads standard input: each line is a query, and they are answered one after another.

    A score is the cosine of the two vectors; hybrid adds a third where a passage has all the query's words,
    more where it repeats them, nothing where it has few. Lexical scores are BM25, those of rrf sums of
    reciprocal ranks, those of --rerank the cross-encoder's.

    \b
    Example:
        nearsay search papers "loss functions for sentence pairs" -k 5 --where "year >= 2019"
        cat questions.txt | nearsay search papers - --json
    """
    asked = _from_standard_input() if query == "-" else [query]
    with open_library(place) as library:
        answers = library.collection(collection).search_many(
            asked,
            k,
            where=where,
            mode=mode,
            fusion=fusion,
            by_document=by_document,
            rerank=rerank,
            explain=explain,
            generation=generation,
        )
        named = len(asked) > 1 or (as_json and query == "-")  # JSON has one form, however many lines came
        for each, hits in zip(asked, answers, strict=True):
            print_hits(hits, as_json=as_json, by_ranks=fusion == "rrf", query=each if named else None)


def _from_standard_input() -> list[str]:
    """Its lines, each a query; BadInputError if it has none."""
    from nearsay.data.errors import BadInputError

    given = sys.stdin.buffer.read().decode("utf-8-sig", "replace")
    queries = [line.strip() for line in given.splitlines() if line.strip()]
    if not queries:
        raise BadInputError("standard input holds no query. Write one a line, or give it as an argument")
    return queries


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
