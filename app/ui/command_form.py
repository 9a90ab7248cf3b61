"""Widgets for a command's options: kinds, choices, defaults and help are those of the command itself."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, Final, cast

import click
import streamlit as st

_COMMAND: Final = "nearsay.app.cli.main:main"  # by name: the page stands below the command line


@dataclass(frozen=True, slots=True)
class Asks:
    """What a form says of an option in other words than the command; everything left out is the command's."""

    label: str = ""  # the option's name if left out
    help: str | None = None
    usual: str | None = None  # what is taken if nothing is chosen, for people
    offered: Mapping[str, str] = field(default_factory=dict)  # choices, and how each is called


def command_options(command: str) -> dict[str, click.Option]:
    """The options of a command, by their long names with _ for -; command: "train sentence"."""
    found: click.Command = resolve_name(_COMMAND)
    context = click.Context(found)
    for name in command.split():
        found = cast("click.Command", cast("click.Group", found).get_command(context, name))
    options = [one for one in found.params if isinstance(one, click.Option)]
    return {max(one.opts, key=len).lstrip("-").replace("-", "_"): one for one in options}


def ask_options(
    command: str, names: Sequence[str], key: str, asks: Mapping[str, Asks] | None = None
) -> dict[str, Any]:
    """A widget for each of these options; what was chosen, None where that is what the command takes anyway.

    key: begins the widgets' keys, which end with the options' names
    """
    known, said = command_options(command), asks or {}
    return {name: ask_for(known[name], name, f"{key}_{name}", said.get(name, Asks())) for name in names}


def ask_for(option: click.Option, name: str, key: str, asks: Asks) -> Any:  # noqa: ANN401 - as the option has it
    """The widget of one option: a list of its choices, a toggle, or a field for a number or a text."""
    default = option.get_default(click.Context(click.Command(None)))
    usual = default if isinstance(default, str | int | float) else None  # else click's own sign for none
    shown = asks.usual or (option.show_default if isinstance(option.show_default, str) else "")
    label = asks.label or name.replace("_", " ").capitalize()
    told: dict[str, Any] = {"key": key, "help": asks.help or option.help}
    kind = option.type
    chosen: Any
    if asks.offered or isinstance(kind, click.Choice):
        names = asks.offered or {str(each): str(each) for each in cast("click.Choice[Any]", kind).choices}
        usual = usual or (shown if shown in names else None)
        index = None if usual is None else list(names).index(str(usual))
        chosen = st.selectbox(
            label,
            list(names),
            index,
            format_func=lambda each: names.get(each, each),
            placeholder=shown,
            **told,
        )
    elif option.is_flag:
        chosen = st.toggle(label, bool(usual), **told)
    elif isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        is_int = isinstance(kind, click.types.IntParamType)
        number = int if is_int else float
        step = _step(usual if usual is not None else shown)
        told |= {"value": None if usual is None else number(usual), "placeholder": shown or None}
        told |= {"step": max(round(step), 1) if is_int else step, "format": "%d" if is_int else "%g"}
        chosen = st.number_input(label, min_value=number(getattr(kind, "min", None) or 0), **told)
    else:
        text = st.text_input(label, str(usual or ""), placeholder=shown or option.metavar, **told)
        chosen = text.strip() or None
    return None if chosen == usual else chosen


def ask_length(
    key: str, units: Mapping[str, str], *, usual: float | None, unit_help: str, help_: str
) -> dict[str, Any]:
    """Ask how long to train; units: how each is called, and its option. Nothing if it is left out."""
    left, right = st.columns(2)
    unit = left.radio("Train for", list(units), key=f"{key}_unit", horizontal=True, help=unit_help)
    amount = right.number_input(
        "How many",
        min_value=0.1,
        value=usual,
        placeholder="by the number of rows",
        step=1.0,
        format="%g",
        key=f"{key}_amount",
        help=help_,
    )
    if amount is None:
        return {}
    option = units[unit]
    return {option: max(round(amount), 1) if option == "steps" else float(amount)}


def _step(usual: object) -> float:
    """A tenth of a number's order of magnitude: 10 for 256, 1e-6 for 2e-5; 0.1 where none is known."""
    try:
        number = abs(float(str(usual)))
    except ValueError:
        return 0.1
    return 10.0 ** (math.floor(math.log10(number)) - 1) if number else 0.1
