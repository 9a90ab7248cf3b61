"""`nearsay bert`: predictions of a BERT about words and sentences."""

import click

from nearsay.app.cli.command import GROUP, CommandGroup
from nearsay.app.cli.options import BERT, JSON, LIMIT, Computing
from nearsay.app.cli.printing import print_json, print_rows


@click.group(cls=CommandGroup)
def bert() -> None:
    """Query a pretrained BERT: masked words and next sentences.

    \b
    Example:
        nearsay bert fill "She closed the [MASK] behind her." --bert my-bert
    """


@bert.command()
def fill(
    text: str, bert: str = BERT, limit: int = LIMIT(5), as_json: bool = JSON, run: Computing = GROUP
) -> None:
    """Predict the most likely words for every [MASK] in TEXT.

    \b
    Example:
        nearsay bert fill "She closed the [MASK] behind her." --bert my-bert
    """
    from nearsay.training.bert.fill import Filler

    print_rows(
        Filler.load(bert, device=run.device).fill(text, limit),
        {"mask": "place", "rank": "rank", "word": "token", "probability": lambda c: f"{c.probability:.4f}"},
        as_json=as_json,
    )


@bert.command("next")
def next_(first: str, second: str, bert: str = BERT, as_json: bool = JSON, run: Computing = GROUP) -> None:
    """Predict how likely sentence SECOND follows sentence FIRST.

    \b
    Example:
        nearsay bert next "It had rained all night." "The road was deep in mud." --bert my-bert
    """
    from nearsay.training.bert.fill import NextSentence

    probability = NextSentence.load(bert, device=run.device).probability(first, second)
    if as_json:
        print_json({"first": first, "second": second, "probability": probability})
    else:
        verdict = "follows" if probability >= 0.5 else "does not follow"
        click.echo(f"{verdict} (probability of following {probability:.4f})")
