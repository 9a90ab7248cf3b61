"""Widgets for the options of a command; type, choices, defaults and help are the command's."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, Final, cast

import click
import streamlit as st

_COMMAND: Final = "nearsay.app.cli.main:main"  # by name: the page may not import the command line


@dataclass(frozen=True, slots=True)
class Asks:
    """How a form describes an option where it differs from the command line."""

    label: str = ""  # the option's name if left out
    help: str | None = None
    usual: str | None = None  # how the default is shown
    offered: Mapping[str, str] = field(default_factory=dict)  # choices and their labels


def command_options(command: str) -> dict[str, click.Option]:
    """Return the options of a command, such as "train sentence", by long name with _ instead of -."""
    found: click.Command = resolve_name(_COMMAND)
    context = click.Context(found)
    for name in command.split():
        found = cast("click.Command", cast("click.Group", found).get_command(context, name))
    options = [one for one in found.params if isinstance(one, click.Option)]
    return {max(one.opts, key=len).lstrip("-").replace("-", "_"): one for one in options}


def ask_options(
    command: str, names: Sequence[str], key: str, asks: Mapping[str, Asks] | None = None
) -> dict[str, Any]:
    """Draw a widget for each option and return the values; None for one that is the command's default.

    key: prefix of the widgets' keys; the option's name follows
    """
    known, texts = command_options(command), asks or {}
    return {name: ask_for(known[name], name, f"{key}_{name}", texts.get(name, Asks())) for name in names}


def ask_for(option: click.Option, name: str, key: str, asks: Asks) -> Any:  # noqa: ANN401 - as the option has it
    """Draw the widget of one option: a list of its choices, a toggle, or a field for a number or text."""
    default = option.get_default(click.Context(click.Command(None)))
    usual = default if isinstance(default, str | int | float) else None  # not click's marker for none
    shown = asks.usual or (option.show_default if isinstance(option.show_default, str) else "")
    label = asks.label or name.replace("_", " ").capitalize()
    common: dict[str, Any] = {"key": key, "help": asks.help or option.help}
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
            **common,
        )
    elif option.is_flag:
        chosen = st.toggle(label, bool(usual), **common)
    elif isinstance(kind, click.types.IntParamType | click.types.FloatParamType):
        is_int = isinstance(kind, click.types.IntParamType)
        number = int if is_int else float
        step = _step(usual if usual is not None else shown)
        common |= {"value": None if usual is None else number(usual), "placeholder": shown or None}
        common |= {"step": max(round(step), 1) if is_int else step, "format": "%d" if is_int else "%g"}
        chosen = st.number_input(label, min_value=number(getattr(kind, "min", None) or 0), **common)
    else:
        text = st.text_input(label, str(usual or ""), placeholder=shown or option.metavar, **common)
        chosen = text.strip() or None
    return None if chosen == usual else chosen


def ask_length(
    key: str, units: Mapping[str, str], *, usual: float | None, unit_help: str, help_: str
) -> dict[str, Any]:
    """Ask how long to train. Returns {} if it is left out.

    units: label of each unit, and its option
    """
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
    """Return a tenth of a number's order of magnitude: 10 for 256, 1e-6 for 2e-5; 0.1 if it is no number."""
    try:
        number = abs(float(str(usual)))
    except ValueError:
        return 0.1
    return 10.0 ** (math.floor(math.log10(number)) - 1) if number else 0.1
