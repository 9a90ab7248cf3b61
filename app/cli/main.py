"""The command's root: its groups, and how it ends.

Exit status 0: done, no hits included. 1: a known error, one clear line with its remedy, or a pipe that nobody
reads any more. 2: usage. 130: stopped by the user.
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

_CONFIG = "nearsay.config"  # the file that gives options their defaults
_NO_PLACE = {errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP}


class _Root(CommandGroup):
    """Turns what a user can mend into one line and exit status 1."""

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
                    said = f"{error.message} It stands in {visible(ctx.meta[_CONFIG])}: correct it there."
                    raise click.BadParameter(said, error.ctx, error.param, error.param_hint) from error
            raise
        except NearsayError as error:
            whole = f"{error}: {error.command}" if error.command else str(error)
            said = "\n".join(" ".join(line.split()) for line in whole.splitlines())
            if sys.getfilesystemencoding() != "utf-8" and re.search("[\udc80-\udcff]", "".join(sys.argv)):
                said += ". This locale cannot read a letter of the command line: set LC_ALL=C.UTF-8"
            raise click.ClickException(visible(in_the_library(said, ctx))) from error
        except OSError as error:
            from nearsay.data.durable import FULL

            if error.errno in FULL:
                sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - Python flushes it
                said = (
                    f"no room left to write what is printed ({error.strerror}). Free some space, or print it"
                )
                raise click.ClickException(f"{said} to another place") from error
            if error.errno in _NO_PLACE and error.filename is not None:
                said = f"{error.filename} cannot be used ({error.strerror}). Change its permissions, or name"
                said += " another place"
                raise click.ClickException(visible(said)) from error
            raise
        except (KeyboardInterrupt, click.Abort) as stop:
            if isinstance(stop, click.Abort) and not isinstance(stop.__context__, KeyboardInterrupt):
                raise  # a question was answered by no
            click.echo(
                "\nStopped. Whatever was written is kept: the same command does what is missing.", err=True
            )
            sys.exit(130)


def _open_closed_streams() -> None:
    """Let a standard stream that whoever started us has closed be nothing, as /dev/null is.

    Python has None for it, and the next file to be opened would get its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115, PTH123 - it stays open
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _configure(ctx: click.Context, _: click.Parameter, given: Path | None) -> None:
    """Give options their defaults from a file: the one that is given, or the first of the usual ones."""
    # By os.path, which raises nothing where there is no home or no right to look.
    of_user = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    usual = (Path("nearsay.toml"), Path(of_user, "nearsay", "config.toml"))
    file = given or next((place for place in usual if os.path.isfile(place)), None)  # noqa: PTH113
    if file is None:
        return
    import tomllib

    try:
        ctx.default_map = _defaults(ctx.command, tomllib.loads(file.read_text("utf-8-sig")), {}, "nearsay")
    except (OSError, ValueError) as error:  # of TOML and of UTF-8, too
        said = visible(f"{file}: {error}. Correct it, or name another file by --config")
        raise click.ClickException(said) from error
    ctx.meta[_CONFIG] = str(file.absolute())


def _defaults(
    command: click.Command, section: Mapping[str, Any], above: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """What a section says of a command and of all below it, as click's `default_map`.

    above: what the sections around it say, by the long names of options. ValueError for a key that no command
    of the section has, and for a value of another type
    """
    below = command.commands if isinstance(command, click.Group) else {}
    known = {key for key, _ in _options(command)} if section else {}
    for key, value in section.items():
        if key not in known and key not in below:
            from difflib import get_close_matches

            near = get_close_matches(key, [*known, *below], n=1)
            hint = f"did you mean {near[0]}? See" if near else "see"
            raise ValueError(f"{path!r} has no option and no command {key!r}; {hint} docs/commands.md")
        if key in below and not isinstance(value, Mapping):
            raise ValueError(f"{key!r} is a command of {path!r}: write its options below a line in brackets")
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
                raise ValueError(f"{key!r} of {path!r} takes texts and numbers, not {given!r}")
            if any("\0" in str(one) for one in (given if many else [given])):
                raise ValueError(f"{key!r} of {path!r} holds a zero byte, which no option takes")
            # As on the command line: a number that is none of the option's kind is refused, and not rounded.
            found[str(option.name)] = given if option.is_flag else [*map(str, given)] if many else str(given)
    return found


def _options(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """The options of a command and of all below it, by their long names."""
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
