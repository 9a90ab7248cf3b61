"""Start Streamlit over a library, so that nothing leaves the machine and nobody else gets in unasked."""

import ipaddress
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from importlib.util import find_spec

from nearsay.app.ui.settings import Settings
from nearsay.app.ui.theme import THEME
from nearsay.data.errors import BadInputError, MissingExtraError

__all__ = ["Launch", "launch"]


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
        if self.address in ("0.0.0.0", "::") and not self.hosts:  # noqa: S104 - compared, not bound
            return ["*"]
        local = ["localhost", "127.0.0.1", "[::1]"]
        return list(dict.fromkeys([*local, self.address, *self.hosts]))


def launch(launch: Launch) -> None:
    """Become the page's server: this process is replaced by it, and Ctrl-C ends it.

    MissingExtraError where Streamlit is not installed.
    """
    if find_spec("streamlit") is None:
        raise MissingExtraError("The page", "ui")
    command = launch.command()
    os.execve(command[0], command, launch.environment())  # noqa: S606 - no shell, and our own command


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
