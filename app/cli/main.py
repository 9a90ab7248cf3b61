"""The root command: its groups, its configuration file, and its exit status.

Exit status 0: success, also without hits. 1: a known error, reported in one line with its remedy, or a closed
pipe. 2: wrong usage. 130: stopped by the user.
"""

import errno
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from nearsay.app.cli.bert import bert
from nearsay.app.cli.cluster import cluster
from nearsay.app.cli.collections import collections
from nearsay.app.cli.command import CommandGroup
from nearsay.app.cli.demo import demo
from nearsay.app.cli.doctor import doctor
from nearsay.app.cli.documents import documents
from nearsay.app.cli.encoders import encoders
from nearsay.app.cli.evaluate import evaluate
from nearsay.app.cli.explore import explore
from nearsay.app.cli.index import index
from nearsay.app.cli.jobs import jobs
from nearsay.app.cli.judgements import judgements
from nearsay.app.cli.printing import in_the_library, takes_colour
from nearsay.app.cli.search import search, similar
from nearsay.app.cli.train import train
from nearsay.app.cli.ui import ui
from nearsay.data.document import visible
from nearsay.data.errors import NearsayError

_CONFIG = "nearsay.config"  # path of the configuration file
_NO_PLACE = {errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP}


class _Root(CommandGroup):
    """Reports errors that the user can fix in one line, with exit status 1."""

    def main(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - click's own
        """Run the command, with all three standard streams."""
        _open_closed_streams()
        return super().main(*given, **named)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - click's own signature
        if not takes_colour():
            ctx.color = False
        try:
            return super().invoke(ctx)
        except click.BadParameter as error:
            if error.ctx and error.param and error.param.name:
                source = error.ctx.get_parameter_source(error.param.name)
                if source is ParameterSource.DEFAULT_MAP:
                    message = f"{error.message} It is set in {visible(ctx.meta[_CONFIG])}: correct it there."
                    raise click.BadParameter(message, error.ctx, error.param, error.param_hint) from error
            raise
        except NearsayError as error:
            whole = f"{error}: {error.command}" if error.command else str(error)
            message = "\n".join(" ".join(line.split()) for line in whole.splitlines())
            if sys.getfilesystemencoding() != "utf-8" and re.search("[\udc80-\udcff]", "".join(sys.argv)):
                message += ". This locale cannot decode the command line: set LC_ALL=C.UTF-8"
            raise click.ClickException(visible(in_the_library(message, ctx))) from error
        except OSError as error:
            from nearsay.data.durable import FULL

            if error.errno in FULL:
                sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - Python flushes it
                message = f"no space left for the output ({error.strerror}). Free some space, or redirect it"
                raise click.ClickException(f"{message} elsewhere") from error
            if error.errno in _NO_PLACE and error.filename is not None:
                message = (
                    f"{error.filename} cannot be used ({error.strerror}). Change its permissions, or use"
                )
                message += " another path"
                raise click.ClickException(visible(message)) from error
            raise
        except (KeyboardInterrupt, click.Abort) as stop:
            if isinstance(stop, click.Abort) and not isinstance(stop.__context__, KeyboardInterrupt):
                raise  # the user declined a confirmation
            click.echo("\nStopped. What was written is kept; run the same command again to finish.", err=True)
            sys.exit(130)


def _open_closed_streams() -> None:
    """Open /dev/null for standard streams that the parent has closed.

    Python sets those to None, and the next opened file would get their descriptor.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - it stays open
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _configure(ctx: click.Context, _: click.Parameter, given: Path | None) -> None:
    """Set the defaults of options from a file: the given one, or the first that exists of the usual ones."""
    # os.path does not raise without a home or permissions.
    of_user = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    usual = (Path("nearsay.toml"), Path(of_user, "nearsay", "config.toml"))
    file = given or next((place for place in usual if os.path.isfile(place)), None)  # noqa: PTH113
    if file is None:
        return
    import tomllib

    try:
        ctx.default_map = _defaults(ctx.command, tomllib.loads(file.read_text("utf-8-sig")), {}, "nearsay")
    except (OSError, ValueError) as error:  # including errors of TOML and UTF-8
        message = visible(f"{file}: {error}. Correct it, or choose another file with --config")
        raise click.ClickException(message) from error
    ctx.meta[_CONFIG] = str(file.absolute())


def _defaults(
    command: click.Command, section: Mapping[str, Any], above: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """Return what a section sets for a command and its subcommands, as click's `default_map`.

    above: values of enclosing sections, by option name

    Raises ValueError for a key that no command of the section has, and for a value of the wrong type.
    """
    below = command.commands if isinstance(command, click.Group) else {}
    known = {key for key, _ in _options(command)} if section else {}
    for key, value in section.items():
        if key not in known and key not in below:
            from difflib import get_close_matches

            near = get_close_matches(key, [*known, *below], n=1)
            hint = f"did you mean {near[0]}? See" if near else "see"
            raise ValueError(f"{path!r} has no option or command {key!r}; {hint} docs/commands.md")
        if key in below and not isinstance(value, Mapping):
            raise ValueError(f"{key!r} is a command of {path!r}: put its options into a table of that name")
    values = {**above, **{key: value for key, value in section.items() if key not in below}}
    if isinstance(command, click.Group):
        return {
            name: _defaults(each, section.get(name, {}), values, f"{path} {name}")
            for name, each in below.items()
        }
    found: dict[str, Any] = {}
    for key, option in _options(command):
        if key in values:
            given, many = values[key], option.multiple or option.nargs != 1
            if (isinstance(given, bool), isinstance(given, list)) != (option.is_flag, many):
                wanted = "true or false" if option.is_flag else "a list" if many else "a single value"
                raise ValueError(f"{key!r} of {path!r} takes {wanted}, not {given!r}")
            if any(isinstance(one, list | dict) for one in (given if many else [given])):
                raise ValueError(f"{key!r} of {path!r} takes strings and numbers, not {given!r}")
            if any("\0" in str(one) for one in (given if many else [given])):
                raise ValueError(f"{key!r} of {path!r} contains a NUL character, which is not allowed")
            # As strings, as on the command line: a number of the wrong type is refused, not rounded.
            found[str(option.name)] = given if option.is_flag else [*map(str, given)] if many else str(given)
    return found


def _options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """Yield the options of a command and of all its subcommands, by long name."""
    for one in command.params:
        if isinstance(one, click.Option) and not one.hidden and not isinstance(command, click.Group):
            yield max(one.opts, key=len).removeprefix("--"), one
    if isinstance(command, click.Group):
        for each in command.commands.values():
            yield from _options(each)


@click.group(
    cls=_Root,
    commands=[
        demo,
        collections,
        documents,
        index,
        search,
        similar,
        explore,
        judgements,
        train,
        evaluate,
        encoders,
        bert,
        jobs,
        cluster,
        ui,
        doctor,
    ],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="NEARSAY_CONFIG",
    show_envvar=True,
    is_eager=True,
    expose_value=False,
    callback=_configure,
    help="TOML file with defaults for the options of all commands.",
    show_default="nearsay.toml, or ~/.config/nearsay/config.toml",
)
@click.version_option(package_name="nearsay", prog_name="nearsay")
def main() -> None:
    """Find the sentences that say nearly the same.

    \b
    Begin:
        nearsay demo
        nearsay documents add notes my-notes/
        nearsay search notes "what did we decide about holidays"

    \b
    Complete commands and names with the Tab key (Zsh: zsh_source, Fish: fish_source):
        eval "$(_NEARSAY_COMPLETE=bash_source nearsay)"
    """
