"""Who is signed in, and how often an address may try to."""

import hashlib
import ipaddress
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field

__all__ = ["KEPT_SECONDS", "SignedIn", "Tries"]

KEPT_SECONDS = 7 * 86_400  # for which a browser is remembered
_MOST = 10_000  # browsers, or addresses, that are remembered; of more the oldest is forgotten
_FREE = 5  # wrong passwords of an address before it has to wait
_LONGEST_WAIT = 60.0  # seconds
_FORGOTTEN = 900.0  # seconds after its last try in which an address is known


@dataclass
class SignedIn:
    """What was given to browsers that were let in; it lives as long as the page's process."""

    until: dict[str, float] = field(default_factory=dict)  # by a token's SHA-256, the earliest first
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, now: float) -> str:
        """A token for another browser; now: seconds since the epoch."""
        token = secrets.token_urlsafe(32)
        with self.lock:
            kept = [(known, until) for known, until in self.until.items() if until > now]
            self.until = dict(kept[-(_MOST - 1) :])
            self.until[_digest(token)] = now + KEPT_SECONDS
        return token

    def knows(self, token: str, now: float) -> bool:
        """Whether it was given, and neither taken back nor too long ago."""
        with self.lock:
            return self.until.get(_digest(token), now) > now

    def forget(self, token: str) -> None:
        """Take it back."""
        with self.lock:
            self.until.pop(_digest(token), None)


@dataclass
class Tries:
    """The passwords that each address tried: after five wrong ones every other doubles its wait, to a minute.

    Addresses are told apart, so that nobody's tries keep anybody else out. Of IPv6 the first 64 bits count:
    the rest is each machine's to choose.
    """

    made: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)  # how many, and the last
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, address: str, now: float) -> float:
        """Seconds that the address has to wait; 0: it may try, which counts as wrong from now on.

        So that many tries at once are no way round. now: seconds of any clock that only goes forward
        """
        network = _network(address)
        with self.lock:
            count, last = self.made.get(network, (0, now))
            if now - last > _FORGOTTEN:
                count = 0
            wait = min(_LONGEST_WAIT, 2.0 ** (count - _FREE)) - (now - last) if count >= _FREE else 0.0
            if wait > 0:
                return wait
            self.made[network] = (count + 1, now)
            self.made.move_to_end(network)
            while len(self.made) > _MOST:
                self.made.popitem(last=False)
            return 0.0

    def was_right(self, address: str) -> None:
        """Forget what the address tried."""
        with self.lock:
            self.made.pop(_network(address), None)


def _network(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((found.packed[:8] + bytes(8), 64)))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
