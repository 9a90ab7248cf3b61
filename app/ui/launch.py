"""Start Streamlit over a library, so that nothing leaves the machine and nobody else gets in unasked."""

import errno
import hashlib
import ipaddress
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from nearsay.app import life_lock
from nearsay.app.ui.settings import Settings
from nearsay.app.ui.theme import THEME
from nearsay.data.errors import BadInputError, MissingExtraError, NearsayError

__all__ = ["Launch", "free_port", "launch"]

_FIRST_PORT, _TRIED = 8501, 100
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True)
class Launch:
    """How the page is served."""

    address: str = "localhost"  # where it listens
    port: int | None = None  # None: 8501, or the next that is free
    hosts: tuple[str, ...] = ()  # names that browsers may use for it, beyond the address itself
    browser: bool = True  # open one
    settings: Settings = field(default_factory=Settings)

    def __post_init__(self) -> None:
        """BadInputError for a port that is none, and for a page that everybody could write to."""
        if self.port is not None and not 0 < self.port < 65_536:
            raise BadInputError(f"{self.port} is no port. Take one from 1024 to 65535")
        if not self.is_local and not self.settings.read_only and self.settings.password is None:
            raise BadInputError(
                f"at {self.address} everybody who reaches this machine could change the library. "
                "Ask for a password (--password), or let them only read (--read-only)"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.address == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.address).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """Where somebody at this machine finds it; a port has to be chosen."""
        if self.address in _EVERYWHERE:
            name = self.hosts[0] if self.hosts else "localhost"
        else:
            name = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{name}:{self.port}"

    def command(self) -> list[str]:
        """The command line of Streamlit; no secret stands in it."""
        options: dict[str, object] = {
            "server.address": self.address,
            "server.headless": not self.browser,
            "server.showEmailPrompt": False,
            "server.fileWatcherType": "none",
            "server.runOnSave": False,
            "server.maxUploadSize": self.settings.largest_upload,
            # Another site's script must not reach the page under a name of its own (DNS rebinding).
            "server.allowedHosts": self._names(),
            "browser.gatherUsageStats": False,
            "client.toolbarMode": "viewer",
            "client.showErrorDetails": "none",
            "client.showErrorLinks": False,
            # Else it offers, here and in the page, to install instructions for coding agents.
            "logger.hideWelcomeMessage": True,
            "logger.level": "warning",
            "runner.magicEnabled": False,
        }
        if self.port is not None:
            options["server.port"] = self.port
        if not self.is_local:  # else Streamlit asks a site outside for this machine's address to print it
            options["browser.serverAddress"] = self.hosts[0] if self.hosts else "localhost"
        script = files("nearsay.app.ui.entry").joinpath("streamlit_script.py")
        given = [
            f"--{name}={_written(one)}"
            for name, value in (options | THEME).items()
            for one in (value if isinstance(value, list) else [value])
        ]
        # -P: a click.py in the folder where somebody stands must not be taken for the package.
        return [sys.executable, "-P", "-m", "streamlit", "run", str(script), *given]

    def environment(self, before: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The environment of the page's process; the user's own settings of Streamlit do not reach in."""
        kept = {name: value for name, value in before.items() if not name.startswith("STREAMLIT_")}
        settings = replace(self.settings, server_files=self.settings.server_files and self.is_local)
        return kept | settings.to_environment()

    def _names(self) -> list[str]:
        if self.address in _EVERYWHERE and not self.hosts:
            return ["*"]
        local = ["localhost", "127.0.0.1", "[::1]"]
        return list(dict.fromkeys([*local, self.address, *self.hosts]))


def launch(launch: Launch) -> None:
    """Say where the page is and become its server: this process is replaced by it, and Ctrl-C ends it.

    MissingExtraError where Streamlit is not installed, BadInputError where nothing can listen there, and for
    a library or a device with which no page could do anything.
    """
    if find_spec("streamlit") is None:
        raise MissingExtraError("The page", "ui")
    _check(launch.settings)
    keep = partial(_reserve, launch.address)
    launch = replace(launch, port=free_port(launch.address, launch.port, reserve=keep))
    sys.stdout.write(f"nearsay is at {launch.url} (Ctrl-C ends it)\n")
    sys.stdout.flush()
    command = launch.command()
    os.execve(command[0], command, launch.environment())  # noqa: S606 - no shell, and our own command


def free_port(
    address: str, wanted: int | None = None, *, reserve: Callable[[int], bool] = lambda _: True
) -> int:
    """A port of an address at which nobody listens: the wanted one, or the first from 8501 on.

    reserve: whether a free one can be had; one that it refuses is passed over as taken

    BadInputError if there is none, or the address is not one of this machine.
    """
    for port in [wanted] if wanted is not None else range(_FIRST_PORT, _FIRST_PORT + _TRIED):
        try:
            _try_to_listen(address, port)
        except (OSError, UnicodeError) as error:  # UnicodeError: a name with an empty part, or a long one
            number = getattr(error, "errno", None)
            unknown = isinstance(error, socket.gaierror | UnicodeError)
            if unknown or number in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL):
                raise BadInputError(
                    f"'{address}' is no address of this machine. "
                    "Take one of its own, or 0.0.0.0 for all of them, and name it with --host"
                ) from error
            if number in (errno.EACCES, errno.EPERM):
                raise BadInputError(f"you may not listen at port {port}. Take one from 1024 on") from error
            if number != errno.EADDRINUSE:
                raise BadInputError(
                    f"the page cannot listen at port {port} of {address} ({error}). "
                    "Take another --address or --port"
                ) from error
            continue
        if reserve(port):
            return port
    if wanted is not None:
        raise BadInputError(
            f"port {wanted} is taken: something listens there already, another nearsay ui perhaps. "
            "Leave --port out for the next that is free"
        )
    raise BadInputError(
        f"the ports from {_FIRST_PORT} to {_FIRST_PORT + _TRIED - 1} are all taken. Name one with --port"
    )


def _check(settings: Settings) -> None:
    """Nobody should find out in the browser what can be known here."""
    home = Path(settings.library)
    try:
        is_other, has_library = home.exists() and not home.is_dir(), (home / "library.json").exists()
    except OSError as error:  # no rights, or a name that is too long
        raise BadInputError(
            f"{home} cannot be looked into ({error.strerror}). Name another with --library"
        ) from error
    if is_other:
        raise BadInputError(f"{home} is no folder, and a library is one. Name another with --library")
    if settings.read_only and not has_library:
        raise BadInputError(
            f"there is no library in {home}, and a page that only reads cannot make one. "
            "Name the folder of one with --library, or leave --read-only out"
        )
    if settings.device not in (None, "auto", "cpu"):
        from nearsay.training.sentence.device import choose_device

        choose_device(settings.device)


def _reserve(address: str, port: int) -> bool:
    """Keep an address's port for the server that this process becomes, which listens only seconds later.

    Another start of the same person passes it over until then; another's is refused by the system.
    """
    user = os.getuid() if hasattr(os, "getuid") else "me"
    place = hashlib.sha256(address.encode()).hexdigest()[:8]
    try:
        descriptor = life_lock.take(Path(tempfile.gettempdir()) / f"nearsay-{user}-{place}-{port}.lock")
    except (OSError, NearsayError):  # no place for a file, or no such locks here: as without
        return True
    if descriptor is None:
        return False
    os.set_inheritable(descriptor, True)
    return True


def _try_to_listen(address: str, port: int) -> None:
    """OSError if it is taken at any address of that name, or if there is none; IPv6 may be switched off."""
    refused: list[OSError] = []
    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, place in found:
        try:
            with socket.socket(family, kind, protocol) as tried:
                if os.name == "posix":  # a server that just ended keeps nobody out
                    tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(place)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
            refused.append(error)
    if len(refused) == len(found):
        raise refused[0]


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
