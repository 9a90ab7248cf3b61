"""`nearsay judgements add` and `nearsay judgements remove`."""

from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library, where_option
from nearsay.app.cli.printing import print_json, visible
from nearsay.data.document import beginning

if TYPE_CHECKING:
    from nearsay.indexer import Collection, Hit
    from nearsay.indexer.catalogue.judgement import Judgement

__all__ = ["add", "remove"]

_TEXT = 80  # characters of a passage shown


@click.command()
@click.argument("collection")
@click.argument("query")
@click.option(
    "--hit", "hits", type=click.IntRange(1), multiple=True, metavar="RANK", help="The hit of that rank."
)
@click.option("--id", "ids", multiple=True, metavar="ID", help="This document, whether it is found or not.")
@click.option(
    "--passage",
    type=click.IntRange(0),
    metavar="N",
    help="Which passage of the document, from 0; needed where it has several.",
)
@click.option("--relevant/--not-relevant", default=None, help="It answers the query, or it does not.")
@click.option("--rater", metavar="NAME", help="Who says so.")
@click.option("--note", metavar="TEXT", help="What else there is to say.")
@click.option(
    "--mode",
    type=click.Choice(["dense", "lexical", "hybrid"]),
    default="hybrid",
    show_default=True,
    help="How --hit is looked for, as in `nearsay search`.",
)
@where_option
@json_option
@library_options
def add(
    collection: str,
    query: str,
    *,
    hits: tuple[int, ...],
    ids: tuple[str, ...],
    passage: int | None,
    relevant: bool | None,
    rater: str | None,
    note: str | None,
    mode: str,
    where: str | None,
    as_json: bool,
    **place: Unpack[Place],
) -> None:
    """Judge passages of COLLECTION: whether they answer QUERY.

    With --hit RANK, which may be repeated, the search is done once more and its hits are judged, with ranks
    and scores; with --id a document that no search need have found. It takes the place of what was said
    before of the same query and passage.

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
    with open_library(place) as library:
        target = library.collection(collection)
        for hit in _hits(target, query, hits, mode, where):
            said = target.judgements.add(query, hit, relevant, rater=rater, note=note)
            _print(said, as_json=as_json)
        for id_ in ids:
            said = target.judgements.add(query, id_, relevant, passage=passage, rater=rater, note=note)
            _print(said, as_json=as_json)


@click.command()
@click.argument("collection")
@click.argument("query")
@click.option("--id", "id_", required=True, metavar="ID", help="The document that was judged.")
@click.option(
    "--passage",
    type=click.IntRange(0),
    metavar="N",
    help="Its passage, from 0; all that were judged if left out.",
)
@library_options
def remove(collection: str, query: str, id_: str, passage: int | None, **place: Unpack[Place]) -> None:
    """Take back what was said of QUERY and a document of COLLECTION.

    \b
    Example:
        nearsay judgements remove notes "when is the office closed" --id note-17
    """
    from nearsay.data.errors import BadInputError

    with open_library(place) as library:
        count = library.collection(collection).judgements.remove(query, id_, passage)
    if not count:
        raise BadInputError(
            f"'{id_}' was not judged for that query. See what was: nearsay judgements list {collection}"
        )
    click.echo(f"taken back: {count:,}", err=True)


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
