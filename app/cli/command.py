"""Commands declare each option once, as a parameter of their function.

    @command()
    def outliers(
        collection: str = COLLECTION,  # declared once for all commands
        limit: int = LIMIT(10),  # with another default
        field: str | None = option("Metadata field that holds the date.", metavar="FIELD"),
        place: Place = GROUP,  # a dataclass: a group of options, passed as one object
    ) -> None: ...

The name of a parameter is the option's; `id_` becomes --id. A parameter without a default is an argument. The
rest follows from its type: bool is a flag, tuple[X, ...] can be repeated, Literal or StrEnum is a choice, and
an option that neither allows None nor has a default is required.
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
GROUP: Any = None  # the default of a parameter that is a group; `command` passes the group
_LONGEST = 200  # characters of a first sentence: effectively no limit


@dataclass(frozen=True, eq=False, slots=True)
class _Declared:
    """An option or argument; its name and type come from the parameter."""

    settings: Mapping[str, Any]
    names: tuple[str, ...] = ()
    argument: bool = False
    beside: tuple[click.Parameter, ...] = ()  # listed before it

    def __call__(  # of any type: the default of a parameter
        self,
        default: object = None,
        *,
        shown: str | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """The same with another default, or other settings; shown: text for the default in the help."""
        kept = {**self.settings}
        if default is not None:
            kept.pop("show_default", None)
        changed = _settings(shown=shown, default=default, **settings)
        return replace(self, settings={**kept, **changed})

    def parameters(self, name: str, annotation: Any) -> Iterator[click.Parameter]:  # noqa: ANN401 - any type
        """Yield the click parameters."""
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
    """A path that is not empty, not "-" unless streams are allowed, and not below a file.

    An empty path comes from an unset variable; below a file nothing can be read or written.
    """

    def __init__(self, *, dir_okay: bool = True, allow_dash: bool = False) -> None:
        super().__init__(dir_okay=dir_okay, allow_dash=allow_dash, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as click
        """Check and return the path."""
        if value == "":
            self.fail("it is empty. Enter a path.", param, ctx)
        if value == "-" and not self.allow_dash:
            self.fail("- does not mean a standard stream here. Enter a path.", param, ctx)
        path = cast("Path", super().convert(value, param, ctx))
        isfile = os.path.isfile  # Path.is_file() raises if a folder is not accessible
        if file := next((above for above in path.parents if isfile(above)), None):
            self.fail(f"{file} is a file and cannot contain {path.name}. Enter another path.", param, ctx)
        return path


class OneOf(click.Choice[str]):
    """A choice by its value, or by anything else that the StrEnum accepts; the command gets the member."""

    def __init__(self, choices: type[StrEnum]) -> None:
        super().__init__([each.value for each in choices])
        self._choices = choices

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> StrEnum:  # noqa: ANN401 - as click
        """Return the member."""
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
    """Raise BadParameter for numbers beyond 64 bits and for nan, which would pass every bound."""
    for one in value if isinstance(value, tuple) else [value]:
        if isinstance(one, int | float) and not abs(one) < 2**63:
            raise click.BadParameter(f"{one} is out of range.", context, parameter)
    return value


def option(
    description: str,
    *names: str,
    beside: tuple[click.Parameter, ...] = (),
    **settings: Any,  # noqa: ANN401 - as click takes them
) -> Any:  # noqa: ANN401 - the default of a parameter of any type
    """Declare an option of a command.

    description: its help, a sentence
    names: if they differ from the parameter's: -n, --limit
    beside: options that belong to it, listed before it
    settings: shown: text for the default; least: minimum of an integer; others as for `click.option`
    """
    return _Declared({"help": description, **_settings(**settings)}, names, beside=beside)


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
    """Declare an argument that needs more than a type; settings: as for click."""
    return _Declared({"metavar": metavar, **settings}, argument=True)


def command(
    name: str | None = None,
    **attributes: Any,  # noqa: ANN401 - as click takes them
) -> Callable[[Callable[..., object]], click.Command]:
    """Turn a function into a command; attributes: as for `click.command`."""

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
    """Yield the parameters of a function's parameter, or of a group's field."""
    if is_dataclass(annotation):
        for part in fields(annotation):
            yield from _parameters(part.name, part.type, part.default)
    else:
        yield from (argument() if default is inspect.Parameter.empty else default).parameters(
            name, annotation
        )


def _grouped(kind: Any, values: dict[str, Any]) -> Any:  # noqa: ANN401 - a dataclass of any kind
    """Build the group from its values, which are removed from `values`."""
    return kind(
        **{
            part.name: _grouped(part.type, values) if is_dataclass(part.type) else values.pop(part.name)
            for part in fields(kind)
        }
    )


class CommandGroup(click.Group):
    """A group that wraps long lines of the command table, which click would truncate."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(_LONGEST)) for name in self.list_commands(ctx)]
            )

    def command(  # type: ignore[override]  # of functions whose parameters are declared as here
        self,
        name: str | None = None,
        **attributes: Any,  # noqa: ANN401
    ) -> Callable[[Callable[..., object]], click.Command]:
        """Turn a function into a command of this group."""

        def add(function: Callable[..., object]) -> click.Command:
            made = command(name, **attributes)(function)
            self.add_command(made)
            return made

        return add
