"""Start Streamlit for a library, without sending anything out and with access control."""

import contextlib
import errno
import hashlib
import ipaddress
import json
import os
import re
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from nearsay.app import life_lock
from nearsay.app.ui.settings import PRIVATE_VARIABLES, Access, Settings
from nearsay.data.errors import BadInputError, MissingExtraError, NearsayError

THEME: dict[str, object] = {
    "theme.baseRadius": "0.5rem",
    "theme.light.primaryColor": "#1F5FAF",
    "theme.light.backgroundColor": "#FFFFFF",
    "theme.light.secondaryBackgroundColor": "#F2F4F7",
    "theme.light.textColor": "#1B2430",
    "theme.light.linkColor": "#1F5FAF",
    "theme.dark.primaryColor": "#3372CE",
    "theme.dark.backgroundColor": "#11161D",
    "theme.dark.secondaryBackgroundColor": "#1B222C",
    "theme.dark.textColor": "#E6EAF0",
    "theme.dark.linkColor": "#8FBCF5",
}


_FIRST_PORT, _TRIED = 8501, 100
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
_HOST = re.compile(r"(?:(?P<name>[a-z0-9_](?:[\w.-]*[a-z0-9_])?)|\[(?P<ip>[0-9a-f:.]+)\])(?::\d{1,5})?")


@dataclass(frozen=True, slots=True)
class Launch:
    """How the page is served, and to whom."""

    address: str = "localhost"  # to listen on
    port: int | None = None  # None: 8501, or the next free one
    hosts: tuple[str, ...] = ()  # further names that browsers may use
    browser: bool = True  # open a browser
    password: str | None = None  # its scrypt hash; None: no password
    server_files: bool | None = None  # whether paths of this machine may be entered; None: if `is_local`
    settings: Settings = field(default_factory=Settings)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    ticket: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def __post_init__(self) -> None:
        """Raises BadInputError for an invalid port or host name, or if everybody could change the library."""
        if self.port is not None and not 0 < self.port < 65_536:
            raise BadInputError(f"{self.port} is not a valid port. Choose one from 1024 to 65535")
        for host in self.hosts:
            if _bare(host) is None:
                raise BadInputError(
                    f"'{host}' is not a host name. Write it as browsers show it, without http:// and without "
                    "a path: --host search.example.org"
                )
        if not self.is_local and not self.settings.read_only and self.password is None:
            raise BadInputError(
                f"at {', '.join([self.address, *self.hosts])} everybody who can reach this machine could "
                "change the library. Require a password (--password), or allow only reading (--read-only)"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it; any other name is a proxy's, which forwards others."""
        return all(_is_loopback(name) for name in (self.address, *self.hosts))

    @property
    def needs_token(self) -> bool:
        """Whether the printed address has a token, which keeps out other users and other sites."""
        return self.is_local and self.password is None

    @property
    def url(self) -> str:
        """Its address on this machine; the port must be set."""
        if self.address in _EVERYWHERE:
            name = self.hosts[0] if self.hosts else "localhost"
        else:
            name = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{name}:{self.port}"

    def access(self) -> Access:
        """Return the rules of access."""
        names = ["localhost", "127.0.0.1", "::1", self.address, *(_bare(host) or host for host in self.hosts)]
        if not _is_loopback(self.address):
            machine = socket.gethostname().partition(".")[0]
            names += [socket.gethostname(), machine, f"{machine}.local"]
        return Access(
            names=tuple(dict.fromkeys(name.lower() for name in names if name not in _EVERYWHERE)),
            origins=tuple(host.lower() for host in self.hosts),
            password=self.password,
            token=self.token if self.needs_token else None,
            ticket=self.ticket if self.needs_token and self.browser else None,
            read_only=self.settings.read_only,
            largest_upload=self.settings.largest_upload,
        )

    def options(self) -> dict[str, object]:
        """Return the options of Streamlit by name."""
        return THEME | {
            "server.address": self.address,
            "server.port": self.port,
            "server.headless": True,  # the server opens the browser itself, with the token
            "server.fileWatcherType": "none",
            "server.runOnSave": False,
            "server.maxUploadSize": self.settings.largest_upload,
            "browser.gatherUsageStats": False,
            "client.toolbarMode": "viewer",
            "client.showErrorDetails": "none",
            "client.showErrorLinks": False,
            # Otherwise it advertises instructions for coding agents, and asks an external site for this
            # machine's address to print it.
            "logger.hideWelcomeMessage": True,
            "logger.level": "warning",
            "runner.magicEnabled": False,
        }

    def handed_over(self) -> dict[str, object]:
        """Return the settings of the server process with secrets: for a pipe, which nobody else can read."""
        opened = self.url + (f"/?token={self.ticket}" if self.needs_token else "")
        return {
            "access": asdict(self.access()),
            "options": self.options(),
            "open": opened if self.browser else None,
        }

    def environment(self, before: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the environment of the server process, without the user's Streamlit settings."""
        kept = {
            name: value
            for name, value in before.items()
            if not name.startswith("STREAMLIT_") and name not in PRIVATE_VARIABLES
        }
        if not self.hosts:  # without a proxy, clients could forge their address in a header
            kept["FORWARDED_ALLOW_IPS"] = ""
        may_name = self.is_local if self.server_files is None else self.server_files
        settings = replace(self.settings, server_files=may_name, with_password=self.password is not None)
        # Options that a form leaves out get the command's default, not a configuration file's.
        return kept | {"NEARSAY_CONFIG": os.devnull} | settings.to_environment()


def launch(launch: Launch) -> None:
    """Print the address of the page and replace this process by its server, until Ctrl-C.

    Raises MissingExtraError if Streamlit is not installed, and BadInputError if the address or port cannot be
    used or the library or device is invalid.
    """
    if find_spec("streamlit") is None:
        raise MissingExtraError("The page", "ui")
    _check(launch.settings)
    keep = partial(_reserve, launch.address)
    launch = replace(launch, port=free_port(launch.address, launch.port, reserve=keep))
    shown = f"{launch.url}/?token={launch.token}" if launch.needs_token else launch.url
    sys.stdout.write(f"nearsay is at {shown} (Ctrl-C ends it)\n")
    sys.stdout.flush()
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:  # fits into the pipe's buffer
        json.dump(launch.handed_over(), pipe)
    os.set_inheritable(reader, True)
    # -P: a click.py in the working directory must not shadow the package.
    command = [sys.executable, "-P", "-m", "nearsay.app.ui.entry.page_server", str(reader)]
    os.execve(command[0], command, launch.environment())  # noqa: S606 - no shell, and our own command


def free_port(
    address: str, wanted: int | None = None, *, reserve: Callable[[int], bool] = lambda _: True
) -> int:
    """Return a free port of an address: the wanted one, or the first from 8501.

    reserve: returns whether a free port can be reserved; others are skipped

    Raises BadInputError if there is none, or the address is not one of this machine.
    """
    for port in [wanted] if wanted is not None else range(_FIRST_PORT, _FIRST_PORT + _TRIED):
        try:
            _try_to_listen(address, port)
        except (OSError, UnicodeError) as error:  # UnicodeError: a name with an empty part, or a long one
            number = getattr(error, "errno", None)
            unknown = isinstance(error, socket.gaierror | UnicodeError)
            if unknown or number in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL):
                raise BadInputError(
                    f"'{address}' is not an address of this machine. "
                    "Use one of its own, or 0.0.0.0 for all of them and add the name with --host"
                ) from error
            if number in (errno.EACCES, errno.EPERM):
                raise BadInputError(f"port {port} needs privileges. Choose one from 1024") from error
            if number != errno.EADDRINUSE:
                raise BadInputError(
                    f"cannot listen on port {port} of {address} ({error}). Choose another --address or --port"
                ) from error
            continue
        if reserve(port):
            return port
    if wanted is not None:
        raise BadInputError(
            f"port {wanted} is in use, perhaps by another nearsay ui. Omit --port to use the next free one"
        )
    raise BadInputError(
        f"the ports from {_FIRST_PORT} to {_FIRST_PORT + _TRIED - 1} are all in use. Choose one with --port"
    )


def _check(settings: Settings) -> None:
    """Check the settings before the start, so that errors appear in the terminal and not in the browser."""
    home = Path(settings.library)
    try:
        is_other, has_library = home.exists() and not home.is_dir(), (home / "library.json").exists()
    except OSError as error:  # no permission, or the name is too long
        raise BadInputError(
            f"{home} cannot be read ({error.strerror}). Choose another folder with --library"
        ) from error
    if is_other:
        raise BadInputError(f"{home} is not a folder. Choose a library's folder with --library")
    if settings.read_only and not has_library:
        raise BadInputError(
            f"there is no library in {home}, and a read-only page cannot create one. "
            "Choose the folder of one with --library, or omit --read-only"
        )
    if settings.device not in (None, "auto", "cpu"):
        from nearsay.training.encoder.hardware import choose_device

        choose_device(settings.device)


def _reserve(address: str, port: int) -> bool:
    """Lock a port for the server that this process becomes, which only listens seconds later.

    Another start by the same user skips it; for other users the system refuses it later.
    """
    user = os.getuid() if hasattr(os, "getuid") else "me"
    place = hashlib.sha256(address.encode()).hexdigest()[:8]
    try:
        descriptor = life_lock.take(Path(tempfile.gettempdir()) / f"nearsay-{user}-{place}-{port}.lock")
    except (OSError, NearsayError):  # no place for a file, or no file locks: go on without
        return True
    if descriptor is None:
        return False
    os.set_inheritable(descriptor, True)
    return True


def _try_to_listen(address: str, port: int) -> None:
    """Raise OSError if the port is taken at any address of the name, or all fail; IPv6 may be disabled."""
    refused: list[OSError] = []
    found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
    for family, kind, protocol, _, place in found:
        try:
            with socket.socket(family, kind, protocol) as tried:
                if os.name == "posix":  # allows a port whose server just ended
                    tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                tried.bind(place)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
            refused.append(error)
    if len(refused) == len(found):
        raise refused[0]


def _is_loopback(name: str) -> bool:
    name = _bare(name) or name
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _bare(host: str) -> str | None:
    """Return a host name without its port, in lower case; None if it is invalid."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    found = _HOST.fullmatch(host.lower().rstrip("."))
    return (found["ip"] or found["name"]) if found else None
