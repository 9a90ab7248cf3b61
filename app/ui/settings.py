"""Settings of the person who starts the page, for all its visitors, and password hashing."""

import base64
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from nearsay.data.errors import BadInputError

VARIABLE = "NEARSAY_UI"  # passes the settings to the server process; other users cannot read it
PRIVATE_VARIABLES = (VARIABLE, "NEARSAY_UI_PASSWORD")  # not inherited by processes that the page starts

UPLOADS_HELD = 5  # memory for all uploads, in multiples of the largest file


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the library is and what visitors may do; contains no secrets."""

    library: str = "library"  # its folder
    database: str | None = None  # URL of a PostgreSQL catalogue; None: SQLite inside the folder
    device: str | None = None  # cpu, cuda, cuda:1, mps; None: the best available
    precision: str = "auto"  # of the encoders
    read_only: bool = False  # nothing can be added, changed, removed, trained or judged
    with_password: bool = False  # visitors sign in, and can sign out
    largest_upload: int = 200  # megabytes a file
    server_files: bool = True  # paths of the server may be entered

    def __post_init__(self) -> None:
        """Raises BadInputError for an invalid upload limit."""
        if self.largest_upload < 1:
            raise BadInputError(f"an upload limit of {self.largest_upload} MB is too small. Allow at least 1")

    def to_environment(self) -> dict[str, str]:
        """Return the environment variables of the server process."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Settings":
        """Return the settings that `nearsay ui` passed on; the defaults if it did not start the process."""
        kept = json.loads(environment.get(VARIABLE, "{}"))
        return cls(**{each.name: kept[each.name] for each in fields(cls) if each.name in kept})


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of access; contains secrets, so it is never put into an environment.

    With neither password nor token everybody is admitted, which is for read-only pages.
    """

    names: tuple[str, ...]  # allowed host names in lower case, besides the address that was reached
    origins: tuple[str, ...] = ()  # names, possibly with a port, that a proxy gives as the host
    password: str | None = None  # its scrypt hash, from `hashed`
    token: str | None = None  # in the printed address
    ticket: str | None = None  # a one-time token for the browser that is opened
    read_only: bool = False
    largest_upload: int = 200  # megabytes a file


# Interactive logins, https://datatracker.ietf.org/doc/html/rfc7914#section-2: 16 MB and some 50 ms a try.
_COST, _BLOCK, _LANES = 2**14, 8, 1
_SALT = 16  # bytes


def hashed(password: str) -> str:
    """Return the password's scrypt hash with a new salt, as one line."""
    salt = secrets.token_bytes(_SALT)
    return base64.b64encode(salt + _stretched(password, salt)).decode("ascii")


def is_right(password: str, kept: str) -> bool:
    """Return whether a password matches a hash, in constant time."""
    known = base64.b64decode(kept)
    return hmac.compare_digest(_stretched(password, known[:_SALT]), known[_SALT:])


def _stretched(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode("utf-8"), salt=salt, n=_COST, r=_BLOCK, p=_LANES)
