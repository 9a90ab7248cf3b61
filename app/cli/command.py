"""A command declares each option once: as a parameter of its function.

@command()
def outliers(
    collection: str = COLLECTION,  # declared once for all commands
    limit: int = LIMIT(10),  # with another default
    field: str | None = option("Metadata field that holds the date.", metavar="FIELD"),
    place: Place = GROUP,  # a dataclass: a group of options, given as one object
) -> None: ...

A parameter's name is the option's, `id_` that of --id; one without a default is an argument. Its type says
the rest: bool is a flag, tuple[X, ...] can be repeated, Literal or StrEnum is a choice, and what is neither
None nor has a default is required.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin

import click

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
EXISTING = click.Path(exists=True, path_type=Path)
GROUP: Any = None  # the default of a parameter that is a group: whoever calls the function gives one
_LONGEST = 200  # characters of a first sentence: no limit that one reaches


@dataclass(frozen=True, eq=False, slots=True)
class _Declared:
    """An option or an argument whose name and type its parameter says."""

    settings: Mapping[str, Any]
    names: tuple[str, ...] = ()
    argument: bool = False
    beside: tuple[click.Parameter, ...] = ()  # that show above it

    def __call__(  # of any type: the default of a parameter
        self,
        default: object = None,
        *,
        shown: str | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """The same with another default, shown in the words of `shown` if given, or with other settings."""
        kept = {**self.settings}
        if default is not None:
            kept.pop("show_default", None)
        changed = _settings(shown=shown, default=default, **settings)
        return replace(self, settings={**kept, **changed})

    def parameters(self, name: str, annotation: Any) -> Iterator[click.Parameter]:  # noqa: ANN401 - any type
        """What click knows of it."""
        yield from self.beside
        many = get_origin(annotation) is tuple and get_args(annotation)[1:] == (Ellipsis,)
        of = get_args(annotation)[0] if many else annotation
        optional = get_origin(of) in (Union, UnionType) and NoneType in get_args(of)
        if optional:
            of = next(part for part in get_args(of) if part is not NoneType)
        settings = {"type": _click_type(of), "callback": _in_range, **self.settings}
        if self.argument:
            yield click.Argument([name], nargs=-1 if many else 1, **settings)
            return
        names = self.names or (f"--{name.strip('_').replace('_', '-')}",)
        if of is bool:
            settings.pop("type")
            settings["is_flag"] = True
            if optional:
                settings.setdefault("default", None)
        elif not many and not optional and "default" not in settings:
            settings["required"] = True
        settings.setdefault("show_default", True)
        yield click.Option([name, *names], multiple=many, **settings)


class NamedPath(click.Path):
    """A path; neither an empty one, as of a variable that is not set, nor - where that is no stream.

    Nor one below a file, where nothing can be read or written.
    """

    def __init__(self, *, dir_okay: bool = True, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=dir_okay, allow_dash=allow_dash, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as click
        """The path."""
        if value == "":
            self.fail("it is empty. Name a place.", param, ctx)
        if value == "-" and not self.allow_dash:
            self.fail("- is no standard stream here. Name a place.", param, ctx)
        path = cast("Path", super().convert(value, param, ctx))
        isfile = os.path.isfile  # Path.is_file() raises where a folder may not be looked into
        if file := next((above for above in path.parents if isfile(above)), None):
            self.fail(f"{file} is a file, in which there is no {path.name}. Name another place.", param, ctx)
        return path


class OneOf(click.Choice[str]):
    """A choice by its value, or by what else the choices are made of; the command gets the choice."""

    def __init__(self, choices: type[StrEnum]) -> None:
        super().__init__([each.value for each in choices])
        self._choices = choices

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> StrEnum:  # noqa: ANN401 - as click
        """The choice."""
        try:
            return self._choices(value)
        except ValueError:
            return self._choices(super().convert(value, param, ctx))


def _click_type(of: Any) -> Any:  # noqa: ANN401 - any type
    if of is Path:
        return NamedPath()
    if isinstance(of, type) and issubclass(of, StrEnum):
        return OneOf(of)
    return click.Choice(list(get_args(of))) if get_origin(of) is Literal else of


def _in_range(context: click.Context, parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - any type
    """The value; BadParameter for what no 64 bits hold, and for nan, which would pass every bound."""
    for one in value if isinstance(value, tuple) else [value]:
        if isinstance(one, int | float) and not abs(one) < 2**63:
            raise click.BadParameter(f"{one} is out of range.", context, parameter)
    return value


def option(
    said: str,
    *names: str,
    beside: tuple[click.Parameter, ...] = (),
    **settings: Any,  # noqa: ANN401 - as click takes them
) -> Any:  # noqa: ANN401 - the default of a parameter of any type
    """An option of a command.

    said:     its help, a sentence
    names:    where they are not the parameter's: -n, --limit
    beside:   options that belong to it, shown above it
    settings: shown, the default in words; least, of a whole number; the rest as `click.option` takes them
    """
    return _Declared({"help": said, **_settings(**settings)}, names, beside=beside)


def _settings(
    *,
    shown: str | None = None,
    least: int | None = None,
    default: object = None,
    **settings: Any,  # noqa: ANN401
) -> dict[str, Any]:
    if shown is not None:
        settings["show_default"] = shown
    if least is not None:
        settings["type"] = click.IntRange(least)
    if default is not None:
        settings["default"] = default
    return settings


def argument(metavar: str | None = None, **settings: Any) -> Any:  # noqa: ANN401 - as `option`
    """An argument of a command of which there is more to say than its type; settings: as click takes them."""
    return _Declared({"metavar": metavar, **settings}, argument=True)


def command(
    name: str | None = None,
    **attributes: Any,  # noqa: ANN401 - as click takes them
) -> Callable[[Callable[..., object]], click.Command]:
    """Make a command of a function; attributes: as `click.command` takes them."""

    def make(function: Callable[..., object]) -> click.Command:
        declared = inspect.signature(function).parameters.values()
        parameters = [part for one in declared for part in _parameters(one.name, one.annotation, one.default)]
        groups = {one.name: one.annotation for one in declared if is_dataclass(one.annotation)}

        @wraps(function)
        def run(**values: Any) -> object:  # noqa: ANN401 - what click read
            grouped = {name: _grouped(kind, values) for name, kind in groups.items()}
            return function(**values, **grouped)

        return click.command(name, click.Command, params=parameters, **attributes)(run)

    return make


def _parameters(name: str, annotation: Any, default: Any) -> Iterator[click.Parameter]:  # noqa: ANN401 - any type
    """Of a parameter of a function, or of a field of a group."""
    if is_dataclass(annotation):
        for part in fields(annotation):
            yield from _parameters(part.name, part.type, part.default)
    else:
        yield from (argument() if default is inspect.Parameter.empty else default).parameters(
            name, annotation
        )


def _grouped(kind: Any, values: dict[str, Any]) -> Any:  # noqa: ANN401 - a dataclass of any kind
    """The group, from the values that are its own, which are taken out."""
    return kind(
        **{
            part.name: _grouped(part.type, values) if is_dataclass(part.type) else values.pop(part.name)
            for part in fields(kind)
        }
    )


class CommandGroup(click.Group):
    """What is too long for a line is broken into several, where click would cut it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of the commands, by name."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(_LONGEST)) for name in self.list_commands(ctx)]
            )

    def command(  # type: ignore[override]  # of functions whose parameters are declared as here
        self,
        name: str | None = None,
        **attributes: Any,  # noqa: ANN401
    ) -> Callable[[Callable[..., object]], click.Command]:
        """Make a command of a function, and add it."""

        def add(function: Callable[..., object]) -> click.Command:
            made = command(name, **attributes)(function)
            self.add_command(made)
            return made

        return add
