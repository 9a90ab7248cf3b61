"""Start Streamlit over a library, so that nothing leaves the machine and nobody else gets in unasked."""

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

    address: str = "localhost"  # where it listens
    port: int | None = None  # None: 8501, or the next that is free
    hosts: tuple[str, ...] = ()  # names that browsers may use for it, beyond the address itself
    browser: bool = True  # open one
    password: str | None = None  # its scrypt hash, see `nearsay.app.ui.settings`; None: none is asked
    server_files: bool | None = (
        None  # may files of this machine be named; None: if only this machine reaches it
    )
    settings: Settings = field(default_factory=Settings)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    ticket: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def __post_init__(self) -> None:
        """BadInputError for a port or a name that is none, and for a page that everybody could write to."""
        if self.port is not None and not 0 < self.port < 65_536:
            raise BadInputError(f"{self.port} is no port. Take one from 1024 to 65535")
        for host in self.hosts:
            if _bare(host) is None:
                raise BadInputError(
                    f"'{host}' is no name of a host. Give it as browsers show it, without http:// and what "
                    "follows the name: --host search.example.org"
                )
        if not self.is_local and not self.settings.read_only and self.password is None:
            raise BadInputError(
                f"at {', '.join([self.address, *self.hosts])} everybody who reaches this machine could "
                "change the library. Ask for a password (--password), or let them only read (--read-only)"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it; any other name is a proxy's, which passes others on."""
        return all(_is_loopback(name) for name in (self.address, *self.hosts))

    @property
    def needs_token(self) -> bool:
        """Whether the printed address lets in: other users of this machine and other sites stay out."""
        return self.is_local and self.password is None

    @property
    def url(self) -> str:
        """Where somebody at this machine finds it; a port has to be chosen."""
        if self.address in _EVERYWHERE:
            name = self.hosts[0] if self.hosts else "localhost"
        else:
            name = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{name}:{self.port}"

    def access(self) -> Access:
        """What the door asks of whom."""
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
        """The options of Streamlit, by their names."""
        return THEME | {
            "server.address": self.address,
            "server.port": self.port,
            "server.headless": True,  # the browser is opened by who knows the token
            "server.fileWatcherType": "none",
            "server.runOnSave": False,
            "server.maxUploadSize": self.settings.largest_upload,
            "browser.gatherUsageStats": False,
            "client.toolbarMode": "viewer",
            "client.showErrorDetails": "none",
            "client.showErrorLinks": False,
            # Else it offers, here and in the page, to install instructions for coding agents; and it asks a
            # site outside for this machine's address, to print it.
            "logger.hideWelcomeMessage": True,
            "logger.level": "warning",
            "runner.magicEnabled": False,
        }

    def handed_over(self) -> dict[str, object]:
        """What the page's process has to know, secrets among it: for a pipe, which nobody else can read."""
        opened = self.url + (f"/?token={self.ticket}" if self.needs_token else "")
        return {
            "access": asdict(self.access()),
            "options": self.options(),
            "open": opened if self.browser else None,
        }

    def environment(self, before: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The environment of the page's process; the user's own settings of Streamlit do not reach in."""
        kept = {
            name: value
            for name, value in before.items()
            if not name.startswith("STREAMLIT_") and name not in PRIVATE_VARIABLES
        }
        if not self.hosts:  # with no proxy before it, anybody could write another's address into a header
            kept["FORWARDED_ALLOW_IPS"] = ""
        may_name = self.is_local if self.server_files is None else self.server_files
        settings = replace(self.settings, server_files=may_name, with_password=self.password is not None)
        # What a form leaves out is the command's own default, not that of a configuration file.
        return kept | {"NEARSAY_CONFIG": os.devnull} | settings.to_environment()


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
    shown = f"{launch.url}/?token={launch.token}" if launch.needs_token else launch.url
    sys.stdout.write(f"nearsay is at {shown} (Ctrl-C ends it)\n")
    sys.stdout.flush()
    reader, writer = os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as pipe:  # far less than a pipe holds
        json.dump(launch.handed_over(), pipe)
    os.set_inheritable(reader, True)
    # -P: a click.py in the folder where somebody stands must not be taken for the package.
    command = [sys.executable, "-P", "-m", "nearsay.app.ui.entry.page_server", str(reader)]
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
        from nearsay.training.encoder.hardware import choose_device

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


def _is_loopback(name: str) -> bool:
    name = _bare(name) or name
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _bare(host: str) -> str | None:
    """The name of a host without a port, in small letters; None for what is no name."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(host))
    found = _HOST.fullmatch(host.lower().rstrip("."))
    return (found["ip"] or found["name"]) if found else None
