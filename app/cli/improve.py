"""`nearsay improve`: from judgements to a better live search."""

from typing import TYPE_CHECKING, Unpack

import click

from nearsay.app.cli.options import Place, json_option, library_options, open_library
from nearsay.app.cli.printing import print_json, print_notes, print_table

if TYPE_CHECKING:
    from nearsay.indexer.improving import Candidate, Improvement

__all__ = ["improve"]


@click.command()
@click.argument("collection")
@click.option("--apply", "apply_", is_flag=True, help="Make what is recommended live, at once.")
@click.option("--undo", is_flag=True, help="Take back what was made live last.")
@json_option
@library_options
def improve(collection: str, *, apply_: bool, undo: bool, as_json: bool, **place: Unpack[Place]) -> None:
    """Learn from the judgements of COLLECTION how its queries are searched for better.

    An adapter of the queries' vectors and a weight of words are fitted to the judgements' training part, and
    measured on its queries held out and on the test part, from which nothing is learned. No passage is
    embedded again, so that what is applied is live within seconds. What gains nothing beyond chance is not
    recommended: to keep what you have is among the candidates.

    \b
    Example:
        nearsay improve notes
        nearsay improve notes --apply
    """
    if apply_ and undo:
        raise click.UsageError("--apply and --undo are opposites. Leave one out.")
    with open_library(place) as library:
        target = library.collection(collection)
        if undo:
            click.echo(f"taken back: {target.undo_improvement()}", err=True)
            return
        found = target.improve(apply=apply_)
    if as_json:
        print_json(found)
    else:
        _print(found, collection)


def _print(found: "Improvement", collection: str) -> None:
    print_table(
        [
            "candidate",
            "words",
            "held out of training",
            "95 %",
            "test part",
            "95 %",
            "recall",
            "ms",
            "verdict",
        ],
        [_row(one) for one in found.candidates],
    )
    live = (
        ""
        if found.live_tested is None
        else f", {found.live_tested:.3f} on {found.test_queries} to measure on"
    )
    print_notes(
        [
            f"as it is: nDCG@10 {found.live:.3f} on {found.training_queries} queries to learn from{live}",
            *found.notes,
        ]
    )
    if found.applied:
        click.echo(f"{found.recommended}: live. Take it back: nearsay improve {collection} --undo")
    elif found.recommended == found.candidates[0].name:
        click.echo(f"recommended: {found.recommended}")
    else:
        click.echo(f"recommended: {found.recommended}. Make it live: nearsay improve {collection} --apply")


def _row(one: "Candidate") -> list[str]:
    return [
        one.name,
        "" if one.word_weight is None else f"{one.word_weight:g}",
        _signed(one.learned),
        _between(one.learned_low, one.learned_high),
        _signed(one.tested),
        _between(one.tested_low, one.tested_high),
        "" if one.recall is None else f"{one.recall:.3f}",
        f"{one.milliseconds:.2f}" if one.milliseconds else "",
        one.verdict,
    ]


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
