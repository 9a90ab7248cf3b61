"""The options that say what a search has to promise."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["contract_options", "dtype_option"]

Command = TypeVar("Command", bound=Callable[..., Any])

dtype_option = click.option(
    "--dtype",
    type=click.Choice(["float32", "float16", "int8"]),
    help="How vectors are stored: float16 takes half the room of float32, int8 a quarter and loses more; "
    "float32 at first.",
)


def contract_options(command: Command) -> Command:
    """`--recall` and `--memory`, given to the command as texts."""
    command = click.option(
        "--memory",
        metavar="SIZE",
        help="The most memory an index may hold, as 2GB or 512MB; none, as at first, is no limit.",
    )(command)
    return click.option(
        "--recall",
        metavar="SHARE@K",
        help="How many of the K nearest an index has to find; 0.95@10 at first.",
    )(command)
