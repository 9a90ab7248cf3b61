"""`nearsay ui`: the web page."""

import getpass
import os
import warnings
from pathlib import Path

import click

from nearsay.app.cli.command import GROUP, command, option
from nearsay.app.cli.options import NO_BROWSER, PORT, Encoding
from nearsay.data.quantity import counted


@command()
def ui(
    address: str = option("Address that the page listens on.", default="localhost"),
    port: int | None = PORT,
    hosts: tuple[str, ...] = option(
        "Host name that browsers use for the page, such as that of a proxy. Can be repeated.",
        "--host",
        metavar="NAME",
    ),
    read_only: bool = option("Only allow searching and exploring."),
    password: bool = option(
        "Protect the page with a password, which is asked for now unless the environment variable "
        "NEARSAY_UI_PASSWORD holds it."
    ),
    password_file: Path | None = option("File whose first line is the password."),
    max_upload: int = option(
        "Maximum size of an uploaded file in MB. All uploads together take at most five times as much "
        "memory.",
        metavar="MB",
        default=200,
    ),
    server_files: bool | None = option(
        "Allow the page to read files and folders of this machine.",
        "--server-files/--no-server-files",
        shown="only if no other machine can reach the page",
    ),
    no_browser: bool = NO_BROWSER,
    place: Encoding = GROUP,
) -> None:
    """Open the library in the browser to search, explore, manage collections and train.

    Only this machine can reach the page unless you set --address or --host, which require --password or
    --read-only. Without a password, the printed address contains a token, which keeps other users of this
    machine out. The page neither loads from nor sends to any other address.

    \b
    Example:
        nearsay ui --library my-library
    """
    from nearsay.app.ui.launch import Launch, launch
    from nearsay.app.ui.settings import Settings

    settings = Settings(
        library=str(Path(place.library).absolute()),
        database=place.database,
        device=place.device,
        precision=place.precision,
        read_only=read_only,
        largest_upload=max_upload,
    )
    hashed = _password(asked=password, file=password_file)
    browser = not no_browser
    launch(
        Launch(address, port, hosts, browser, password=hashed, server_files=server_files, settings=settings)
    )


def _password(*, asked: bool, file: Path | None) -> str | None:
    from nearsay.app.ui.settings import hashed
    from nearsay.data.errors import BadInputError

    typed = os.environ.get("NEARSAY_UI_PASSWORD")
    if file is not None:
        try:
            typed = file.read_text("utf-8-sig").splitlines()[0]
        except (OSError, UnicodeDecodeError, IndexError) as error:
            raise BadInputError(f"no password can be read from {file}. Put it on the first line") from error
    elif asked and not typed:
        typed = _typed()
    if typed is not None and len(typed) < 8:
        raise BadInputError(f"a password of {counted(len(typed), 'character')} is too short. Use at least 8")
    return None if typed is None else hashed(typed)


def _typed() -> str:
    from nearsay.data.errors import BadInputError

    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
        except getpass.GetPassWarning as error:
            raise BadInputError(
                "there is no terminal to enter a password at. Use --password-file, or set the environment "
                "variable NEARSAY_UI_PASSWORD"
            ) from error
