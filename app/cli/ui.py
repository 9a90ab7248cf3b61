"""`nearsay ui`: the page in the browser."""

import getpass
import os
import warnings
from pathlib import Path
from typing import Unpack

import click

from nearsay.app.cli.options import Place, encoding_options
from nearsay.data.quantity import counted

__all__ = ["ui"]


@click.command()
@click.option("--address", default="localhost", show_default=True, help="Where the page listens.")
@click.option("--port", type=int, help="Its port.  [default: 8501, or the next that is free]")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name that browsers use for it, a proxy's for instance. Can be repeated.",
)
@click.option("--read-only", is_flag=True, help="Search and explore only: nothing can be changed.")
@click.option(
    "--password", is_flag=True, help="Ask for a password at the page. Typed now. [env: NEARSAY_UI_PASSWORD]"
)
@click.option("--password-file", type=click.Path(path_type=Path), help="The file whose first line it is.")
@click.option(
    "--max-upload",
    default=200,
    show_default=True,
    metavar="MB",
    help="The largest file taken. All uploads together hold at most five times as much memory.",
)
@click.option(
    "--server-files/--no-server-files",
    default=None,
    help="Whether files and folders of this machine may be named on the page, and read.  "
    "[default: only if nobody but this machine reaches it]",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@encoding_options
def ui(
    address: str,
    port: int | None,
    hosts: tuple[str, ...],
    *,
    read_only: bool,
    password: bool,
    password_file: Path | None,
    max_upload: int,
    server_files: bool | None,
    no_browser: bool,
    **place: Unpack[Place],
) -> None:
    """Open the library in the browser: search, explore, collections, training.

    Only this machine can reach the page unless --address or --host says otherwise, which needs --password or
    --read-only. Without a password, the printed address holds a token that lets its browser in, and nobody
    else on this machine. Nothing is fetched from or sent to any other address.

    \b
    Example:
        nearsay ui --library my-library
    """
    from nearsay.app.ui.launch import Launch, launch
    from nearsay.app.ui.settings import Settings

    settings = Settings(
        library=str(Path(place["library"]).absolute()),
        database=place["database"],
        device=place["device"],
        precision=place["precision"],
        read_only=read_only,
        largest_upload=max_upload,
    )
    hashed = _password(asked=password, file=password_file)
    browser = not no_browser
    launch(
        Launch(address, port, hosts, browser, password=hashed, server_files=server_files, settings=settings)
    )


def _password(*, asked: bool, file: Path | None) -> str | None:
    from nearsay.app.ui.password import hashed
    from nearsay.data.errors import BadInputError

    typed = os.environ.get("NEARSAY_UI_PASSWORD")
    if file is not None:
        try:
            typed = file.read_text("utf-8").splitlines()[0]
        except (OSError, UnicodeDecodeError, IndexError) as error:
            raise BadInputError(f"no password can be read from {file}. Put it into its first line") from error
    elif asked and not typed:
        typed = _typed()
    if typed is not None and len(typed) < 8:
        raise BadInputError(
            f"a password of {counted(len(typed), 'character')} is guessed quickly. Take at least 8"
        )
    return None if typed is None else hashed(typed)


def _typed() -> str:
    from nearsay.data.errors import BadInputError

    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
        except getpass.GetPassWarning as error:
            raise BadInputError(
                "there is no terminal to type a password at. Name its file with --password-file, or put it "
                "into NEARSAY_UI_PASSWORD"
            ) from error
