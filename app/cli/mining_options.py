"""Options that say which texts are taken as negatives."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

if TYPE_CHECKING:
    from nearsay.training.sentence.negatives.mining_config import MiningConfig

__all__ = ["MiningChoices", "mining_config", "mining_options"]

Command = TypeVar("Command", bound=Callable[..., Any])

_RANKS = re.compile(r"(\d{1,9})-(\d{1,9})")


class MiningChoices(TypedDict):
    """What `mining_options` gives to a command."""

    per_anchor: int
    ranks: tuple[int, int]
    relative_margin: float
    no_relative_margin: bool
    absolute_margin: float | None
    min_score: float | None
    max_score: float | None
    judge_margin: float
    sampling: str
    incomplete: str
    triplets: bool
    seed: int


def mining_options(command: Command) -> Command:
    """The ranks, margins and score bounds of a negative, how many, and how they are drawn."""
    for option in (
        click.option("--seed", default=0, show_default=True, help="Of random sampling."),
        click.option(
            "--triplets", is_flag=True, help="Write a row for each negative, instead of one with all of them."
        ),
        click.option(
            "--incomplete",
            type=click.Choice(["drop", "keep"]),
            default="drop",
            show_default=True,
            help="Anchors with fewer negatives: left out, or kept with theirs repeated to fill the row.",
        ),
        click.option(
            "--sampling",
            type=click.Choice(["top", "random"]),
            default="top",
            show_default=True,
            help="Take the hardest that pass, or draw among all that do.",
        ),
        click.option(
            "--judge-margin",
            default=0.0,
            show_default=True,
            help="A judge drops what it scores above the positive's score less this, in its own scores.",
        ),
        click.option("--max-score", type=float, help="A negative's highest score (cosine similarity)."),
        click.option("--min-score", type=float, help="A negative's lowest score."),
        click.option(
            "--absolute-margin", type=float, help="A negative scores at least this below the positive."
        ),
        click.option("--no-relative-margin", is_flag=True, help="Set no relative margin."),
        click.option(
            "--relative-margin",
            default=0.05,
            show_default=True,
            help="A negative scores at least this share of the positive's score below it.",
        ),
        click.option(
            "--ranks",
            default="1-100",
            show_default=True,
            metavar="FIRST-LAST",
            callback=_ranks,
            help="Which of an anchor's neighbours are looked at; known positives are not counted.",
        ),
        click.option("--per-anchor", default=3, show_default=True, help="Negatives for each anchor."),
    ):
        command = option(command)
    return command


def mining_config(choices: MiningChoices) -> "MiningConfig":
    """The configuration that the options say."""
    from nearsay.training.sentence.negatives.mining_config import Incomplete, MiningConfig, NegativeSampling

    first, last = choices["ranks"]
    return MiningConfig(
        per_anchor=choices["per_anchor"],
        first_rank=first,
        last_rank=last,
        relative_margin=None if choices["no_relative_margin"] else choices["relative_margin"],
        absolute_margin=choices["absolute_margin"],
        min_score=choices["min_score"],
        max_score=choices["max_score"],
        judge_margin=choices["judge_margin"],
        sampling=NegativeSampling(choices["sampling"]),
        incomplete=Incomplete(choices["incomplete"]),
        triplets=choices["triplets"],
        seed=choices["seed"],
    )


def _ranks(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, int]:
    found = _RANKS.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is no range of ranks; give two numbers, as in 10-100")
    return int(found[1]), int(found[2])
