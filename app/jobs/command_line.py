"""The command of a job: checking whether it can run in the background, and the options added to it."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import click
from click.core import ParameterSource

from nearsay.app import ONLY_CHECKED
from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError

_NOT_JOBS = {"jobs", "ui"}  # these cannot be jobs
_COMMAND: Final = "nearsay.app.cli.main:main"  # by name: the command line imports this module
_PLACE: Final = ("library", "database")
_HOW: Final = {"library", "database", "device", "precision", "as_json"}  # not part of a job's subject
_HELP = {"-h", "--help", "--version"}


@dataclass(frozen=True, slots=True)
class CheckedCommand:
    """A command that can be a job."""

    arguments: tuple[str, ...]  # of `nearsay`
    collection: str | None  # its argument COLLECTION
    product: str | None  # the path in --out; None with --no-file
    # The command and its options, without library and device: equal subjects have equal results.
    subject: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class _Named:
    """The command that the arguments name."""

    path: tuple[str, ...]  # such as documents, add
    rest: tuple[str, ...]  # the arguments after it
    command: click.Command
    context: click.Context  # of its group

    @property
    def options(self) -> set[str]:
        """Its options: --json, --library."""
        return {name for one in self.command.params if isinstance(one, click.Option) for name in one.opts}


def checked(
    arguments: Sequence[str], *, device: str | None = None, precision: str = "auto"
) -> CheckedCommand:
    """Check a job's command; add --device and --precision if they are given here but not in the arguments.

    Arguments are parsed as by the command. Raises BadInputError with the command's message if they are wrong,
    and if they name a library or need a terminal.
    """
    storable(*arguments)
    if _HELP & set(arguments):
        raise BadInputError("help is shown in a terminal, not by a job. Omit --help and --version")
    try:
        named = _named(arguments)
        context = named.command.make_context(named.path[-1], list(named.rest), parent=named.context)
    except click.UsageError as error:
        path = "nearsay" if error.ctx is None else error.ctx.command_path
        raise BadInputError(f"{path}: {error.format_message()}") from error
    shown = " ".join(["nearsay", *named.path])  # no options: one may contain a password
    if "-" in named.rest:
        raise BadInputError(f"{shown}: a job has no standard input. Write it to a file and use that")
    for option in _PLACE:
        if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
            raise BadInputError(f"{shown}: a job uses the library in which it is started. Omit --{option}")
    added = _of_file(context)
    for option, value in (("device", device), ("precision", None if precision == "auto" else precision)):
        given = context.get_parameter_source(option) is ParameterSource.COMMANDLINE
        if value is not None and f"--{option}" in named.options and not given:
            added += [f"--{option}", value]
    collection = context.params.get("collection")
    out = None if context.params.get("no_file") else context.params.get("out")
    about = {name: value for name, value in context.params.items() if name not in _HOW}
    subject = json.loads(json.dumps({"command": " ".join(named.path), **about}, default=str))
    return CheckedCommand(
        arguments=(*named.path, *added, *named.rest),
        collection=collection if isinstance(collection, str) else None,
        product=None if out is None else str(Path(out).absolute()),
        subject=subject,
    )


def _of_file(context: click.Context) -> list[str]:
    """Return the options set by the configuration file: a job keeps them if the file changes."""
    arguments: list[str] = []
    for one in context.command.params:
        given = context.get_parameter_source(str(one.name)) is ParameterSource.DEFAULT_MAP
        if not given or not isinstance(one, click.Option) or one.name in _PLACE or one.hidden:
            continue
        option = max(one.opts, key=len)
        value: Any = context.lookup_default(str(one.name))
        if one.is_flag:
            arguments += [option] if value else one.secondary_opts[:1]
            continue
        for each in value if one.multiple else [value]:
            arguments += [option, *map(str, each if one.nargs != 1 else [each])]
    return arguments


def background_arguments(arguments: Sequence[str], library: Path) -> list[str]:
    """Return the arguments for a library, with --json if the command has it."""
    named = _named(arguments)
    added = ["--library", str(library)] if "--library" in named.options else []
    if "--json" in named.options and "--json" not in named.rest:
        added.append("--json")
    return [*named.path, *added, *named.rest]


def shell_line(arguments: Sequence[str], library: Path) -> str:
    """Return the command line as a user would type it."""
    try:
        named = _named(arguments)
    except click.UsageError:  # from another version of nearsay
        return shlex.join(["nearsay", *arguments])
    added = ["--library", str(library)] if "--library" in named.options else []
    return shlex.join(["nearsay", *named.path, *added, *named.rest])


def storable(*texts: str | None) -> None:
    """Raise BadInputError for a text that the catalogue cannot store."""
    for text in texts:
        try:
            bad = text is not None and b"\0" in text.encode()
        except UnicodeEncodeError as error:
            raise BadInputError(f"{text!r} is not valid Unicode. Rename the file") from error
        if bad:
            raise BadInputError(f"{text!r} contains a NUL character. Remove it")


def _named(arguments: Sequence[str]) -> _Named:
    command: click.Command = resolve_name(_COMMAND)
    running = click.get_current_context(silent=True)
    defaults = None if running is None else running.find_root().default_map
    context = click.Context(command, info_name="nearsay", default_map=defaults)
    context.meta[ONLY_CHECKED] = True  # encoder names are resolved later, in the job's library
    path: list[str] = []
    rest = list(arguments)
    while isinstance(command, click.Group):
        if not rest or rest[0].startswith("-"):
            raise click.UsageError(
                f"choose a command: {', '.join(command.list_commands(context))}", ctx=context
            )
        name, found, rest = command.resolve_command(context, rest)
        if name is None or found is None or (not path and name in _NOT_JOBS):
            raise click.UsageError(f"'{' '.join([*path, name or ''])}' cannot run as a job", ctx=context)
        path.append(name)
        if isinstance(found, click.Group):
            context = click.Context(found, info_name=name, parent=context)
        command = found
    return _Named(tuple(path), tuple(rest), command, context)


def options_of(chosen: Mapping[str, Any]) -> list[str]:
    """Return options as arguments, by long name with _ instead of -.

    None, False (an absent flag) and empty lists are omitted; several values repeat the option.
    """
    arguments: list[str] = []
    for name, value in chosen.items():
        if value is None or value is False:
            continue
        option = f"--{name.replace('_', '-')}"
        for one in value if isinstance(value, list | tuple) else [value]:
            text = f"{one:.12g}" if isinstance(one, float) else str(one)
            arguments += [option] if one is True else [option, text]
    return arguments
