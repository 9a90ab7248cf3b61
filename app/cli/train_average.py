"""`nearsay train average`: one encoder of several trainings."""

from pathlib import Path

import click

from nearsay.app.cli.options import json_option
from nearsay.app.cli.printing import print_json

__all__ = ["average"]


@click.command()
@click.argument("encoders", nargs=-1, required=True, metavar="ENCODER…")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="The folder that becomes the encoder."
)
@json_option
def average(encoders: tuple[str, ...], out: Path, as_json: bool) -> None:
    """Average the weights of several trainings of one base.

    ENCODER: folders that were trained from the same base, as by train sentence --seeds 3. The average is as
    quick as each of them and often better than all.

    \b
    Example:
        nearsay train average my-encoders/seed-0 my-encoders/seed-1 --out my-average
    """
    from nearsay.training.sentence.compression.averaging import average_encoders

    folder = average_encoders(encoders, out)
    if as_json:
        print_json({"folder": str(folder), "averaged": list(encoders)})
    else:
        click.echo(f"the average of {len(encoders)} encoders is in {folder}")
