"""`nearsay bert`: what a BERT has learned of words and sentences."""

from functools import partial

import click

from nearsay.app.cli.options import (
    ENCODER,
    Command,
    CommandGroup,
    device_option,
    json_option,
    library_at_hand,
    limit_option,
)
from nearsay.app.cli.printing import print_json, print_table

__all__ = ["bert"]


def _bert_option(command: Command) -> Command:
    """`--bert`, and the library that knows its name."""
    said = "Name or folder of the BERT."
    return click.option("--bert", required=True, type=ENCODER, metavar="BERT", help=said)(
        library_at_hand(command)
    )


@click.group(cls=CommandGroup)
def bert() -> None:
    """Query a pretrained BERT: masked words and next sentences.

    \b
    Example:
        nearsay bert fill "She closed the [MASK] behind her." --bert my-bert
    """


@bert.command()
@click.argument("text")
@_bert_option
@partial(limit_option, default=5)
@json_option
@device_option
def fill(text: str, bert: str, limit: int, as_json: bool, device: str | None) -> None:
    """Predict the most likely words for every [MASK] in TEXT.

    \b
    Example:
        nearsay bert fill "She closed the [MASK] behind her." --bert my-bert
    """
    from nearsay.training.bert.fill import Filler

    candidates = Filler.load(bert, device=device).fill(text, limit)
    if as_json:
        for candidate in candidates:
            print_json(candidate)
    else:
        rows = [[c.place, c.rank, c.token, f"{c.probability:.4f}"] for c in candidates]
        print_table(["mask", "rank", "word", "probability"], rows)


@bert.command("next")
@click.argument("first")
@click.argument("second")
@_bert_option
@json_option
@device_option
def next_(first: str, second: str, bert: str, as_json: bool, device: str | None) -> None:
    """Predict how likely sentence SECOND follows sentence FIRST.

    \b
    Example:
        nearsay bert next "It had rained all night." "The road was deep in mud." --bert my-bert
    """
    from nearsay.training.bert.fill import NextSentence

    probability = NextSentence.load(bert, device=device).probability(first, second)
    if as_json:
        print_json({"first": first, "second": second, "probability": probability})
    else:
        verdict = "follows" if probability >= 0.5 else "does not follow"
        click.echo(f"{verdict} (probability of following {probability:.4f})")
