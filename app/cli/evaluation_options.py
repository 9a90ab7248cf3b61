"""Options that the commands of `nearsay evaluate` share."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import click

from nearsay.app.cli.options import device_options, json_option

if TYPE_CHECKING:
    from nearsay.training.sentence.encoder import Encoder

__all__ = ["Judging", "drawing_options", "encoder_option", "judging_options", "load_encoder"]

Command = TypeVar("Command", bound=Callable[..., Any])


class Judging(TypedDict):
    """What `judging_options` gives to a command."""

    encoder: str
    limit: int | None
    seed: int
    draws: int
    as_json: bool
    device: str | None
    precision: str


def encoder_option(command: Command) -> Command:
    """`--encoder`: which one is measured."""
    return click.option(
        "--encoder", default="all-MiniLM-L6-v2", show_default=True, help="Name or folder of the encoder."
    )(command)


def drawing_options(command: Command) -> Command:
    """`--limit`, `--seed` and `--draws`: what is drawn by chance."""
    for option in (
        click.option(
            "--draws",
            default=1000,
            show_default=True,
            type=click.IntRange(1),
            help="How often items are drawn for an interval.",
        ),
        click.option("--seed", default=0, show_default=True, help="Of what is drawn by chance."),
        click.option(
            "--limit",
            type=click.IntRange(2),
            metavar="N",
            help="At most N items, drawn by chance, for a quick look.",
        ),
    ):
        command = option(command)
    return command


def judging_options(command: Command) -> Command:
    """What every command that measures one encoder on judged sets takes."""
    return encoder_option(drawing_options(json_option(device_options(command))))


def load_encoder(name: str, device: str | None, precision: str) -> "Encoder":
    """Load an encoder as the options say."""
    from nearsay.training.encoder.precision import Precision
    from nearsay.training.sentence.encoder import Encoder

    return Encoder.load(name, device=device, precision=Precision(precision))
