"""A password as it is kept: salted and stretched, so that who reads it cannot use it."""

import base64
import hashlib
import hmac
import secrets

__all__ = ["hashed", "is_right"]

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
