"""What the person who starts the page decides for everybody who looks at it, and how a password is kept."""

import base64
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from nearsay.data.errors import BadInputError

VARIABLE = "NEARSAY_UI"  # how the settings reach the process that serves the page: other users cannot read it
PRIVATE_VARIABLES = (VARIABLE, "NEARSAY_UI_PASSWORD")  # which no process that the page starts inherits

UPLOADS_HELD = 5  # times the largest file: what all uploads together may take of the memory


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the library is and what may be done to it; no secret of the door is among them."""

    library: str = "library"  # its folder
    database: str | None = None  # URL of a PostgreSQL catalogue; None: SQLite inside the folder
    device: str | None = None  # cpu, cuda, cuda:1, mps; None: the best there is
    precision: str = "auto"  # of the encoders
    read_only: bool = False  # nothing can be added, changed, removed or trained; judging neither
    with_password: bool = False  # visitors signed in with one, and can sign out
    largest_upload: int = 200  # megabytes a file
    server_files: bool = True  # files and folders of the serving machine may be named

    def __post_init__(self) -> None:
        """BadInputError for an upload limit that is none."""
        if self.largest_upload < 1:
            raise BadInputError(f"uploads of at most {self.largest_upload} MB cannot be. Allow at least 1")

    def to_environment(self) -> dict[str, str]:
        """What the environment of the page's process has to hold."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """The settings that `nearsay ui` passed on; the usual ones where it did not start the process."""
        kept = json.loads(environment.get(VARIABLE, "{}"))
        return cls(**{each.name: kept[each.name] for each in fields(cls) if each.name in kept})


@dataclass(frozen=True, slots=True)
class Access:
    """Who may reach the page, as its door asks it; holds secrets, and never stands in an environment.

    With neither a password nor a token everybody may, which is for pages that only read.
    """

    names: tuple[
        str, ...
    ]  # that browsers may use for the page, beside the address that they reached; lower case
    origins: tuple[str, ...] = ()  # the names, some with a port, of proxies that name themselves as the host
    password: str | None = None  # its scrypt hash, as `hashed` gives it
    token: str | None = None  # in the address that is printed
    ticket: str | None = None  # as the token, but for the browser that is opened, and good once
    read_only: bool = False
    largest_upload: int = 200  # megabytes a file


# Interactive logins, https://datatracker.ietf.org/doc/html/rfc7914#section-2: 16 MB and some 50 ms a try.
_COST, _BLOCK, _LANES = 2**14, 8, 1
_SALT = 16  # bytes


def hashed(password: str) -> str:
    """The password's scrypt hash with a salt of its own, as one line."""
    salt = secrets.token_bytes(_SALT)
    return base64.b64encode(salt + _stretched(password, salt)).decode("ascii")


def is_right(password: str, kept: str) -> bool:
    """Whether a password is the one whose hash was kept; takes as long for any."""
    known = base64.b64decode(kept)
    return hmac.compare_digest(_stretched(password, known[:_SALT]), known[_SALT:])


def _stretched(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode("utf-8"), salt=salt, n=_COST, r=_BLOCK, p=_LANES)
