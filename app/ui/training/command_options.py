"""The options of a command, for a form: what is usual, and the arguments that a choice comes to."""

from collections.abc import Mapping
from typing import Any

import click

__all__ = ["arguments_of", "choices_of", "usual"]


def usual(command: click.Command, name: str) -> Any:  # noqa: ANN401 - whatever the option takes
    """What the command takes if nothing is said; None where it decides by itself."""
    default = _option(command, name).get_default(click.Context(command))
    # click has a sign of its own for "none given", in some versions
    return default if isinstance(default, str | int | float | tuple) else None


def choices_of(command: click.Command, name: str) -> list[str]:
    """What may be chosen."""
    kind = _option(command, name).type
    if not isinstance(kind, click.Choice):
        raise TypeError(f"--{name} of {command.name} is no choice")
    return [str(choice) for choice in kind.choices]


def arguments_of(command: click.Command, values: Mapping[str, Any]) -> list[str]:
    """The options, by the names of the command's parameters, as arguments; what is usual is left away.

    A value of None, or an empty list, was not chosen. Several values repeat the option.
    """
    arguments: list[str] = []
    for name, value in values.items():
        option = _option(command, name)
        if value is None or value == usual(command, name) or value in ((), []):
            continue
        if option.is_flag:
            arguments.append(option.opts[0] if value else (option.secondary_opts or option.opts)[0])
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            arguments += [option.opts[0], _written(one)]
    return arguments


def _written(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _option(command: click.Command, name: str) -> click.Option:
    for option in command.params:
        if isinstance(option, click.Option) and option.name == name:
            return option
    raise KeyError(f"{command.name} has no option {name}")
