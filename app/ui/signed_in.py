"""The browsers that typed the password before, so that a reload or a link does not ask for it again."""

import hashlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import streamlit as st

from nearsay.data.errors import BadInputError

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

__all__ = [
    "KEEPING",
    "SignedIn",
    "is_signed_in",
    "offer_to_sign_out",
    "sign_in",
    "talk_to_browser",
    "was_signed_in",
    "while_signed_in",
]

_Made = TypeVar("_Made")

KEEPING = "ns_keeping"  # names the part of the page that talks to the browser; nothing is seen of it
_SECONDS = 7 * 86_400  # for which a browser is remembered
_MOST = 10_000  # of them; of more the oldest is asked again
_LOOKED_FOR = 60  # seconds in which the field for the password may come, to be typed into at once
# Where a session keeps its token, one that is no good, and that its reader wanted to be forgotten.
_TOKEN, _UNKNOWN, _LEAVING = "signed_in", "signed_in_unknown", "signed_in_leaving"
# The browser's storage and no cookie: it belongs to this host and port alone, and is sent to nobody unasked.
_SCRIPT = """
export default function ({ data, setStateValue }) {
  let storage = null
  try { storage = window.localStorage } catch { /* this browser keeps nothing: it is asked each time */ }
  const kept = storage?.getItem(data.name)
  if (data.token) storage?.setItem(data.name, data.token)
  else if (data.leaving || (kept && kept === data.unknown)) storage?.removeItem(data.name)
  else if (kept) setStateValue("kept", kept)
  if (data.token) return
  const until = Date.now() + 1000 * data.seconds
  const look = () => {  // the field may come later than this, and is hidden at first
    if (document.activeElement !== document.body || Date.now() > until) clearInterval(looking)
    else document.querySelector("input[type=password]")?.focus()
  }
  const looking = setInterval(look, 100)
  return () => clearInterval(looking)
}
"""


@dataclass
class SignedIn:
    """What was given to browsers that knew the password; it lives as long as the page's process."""

    until: dict[str, float] = field(default_factory=dict)  # by a token's SHA-256, the earliest first
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, now: float) -> str:
        """A token for another browser; now: seconds since the epoch."""
        token = secrets.token_urlsafe(32)
        with self.lock:
            kept = [(known, until) for known, until in self.until.items() if until > now]
            self.until = dict(kept[-(_MOST - 1) :])
            self.until[_digest(token)] = now + _SECONDS
        return token

    def knows(self, token: str, now: float) -> bool:
        """Whether it was given, and neither taken back nor too long ago."""
        with self.lock:
            return self.until.get(_digest(token), now) > now

    def forget(self, token: str) -> None:
        """Take it back."""
        with self.lock:
            self.until.pop(_digest(token), None)


def is_signed_in() -> bool:
    """Whether who looks has typed the password here, or in this browser before."""
    token = st.session_state.get(_TOKEN)
    return token is not None and _signed_in().knows(token, time.time())


def was_signed_in() -> bool:
    """Whether this browser keeps a token that is not known, or no more, though nobody signed out here."""
    return _UNKNOWN in st.session_state and _LEAVING not in st.session_state


def sign_in() -> None:
    """Remember who typed the password."""
    st.session_state[_TOKEN] = _signed_in().add(time.time())
    st.session_state.pop(_LEAVING, None)


def talk_to_browser() -> None:
    """Have the browser keep what it was given, or ask it for what it keeps; at every run of the page."""
    if not is_signed_in() and _TOKEN in st.session_state:  # it was forgotten in another tab, or is too old
        st.session_state[_UNKNOWN] = st.session_state.pop(_TOKEN)
    token, unknown = st.session_state.get(_TOKEN), st.session_state.get(_UNKNOWN)
    left = _LEAVING in st.session_state
    data = {
        "name": f"nearsay {st.get_option('server.baseUrlPath')}".strip(),
        "token": token,
        "unknown": unknown,
        "leaving": st.session_state.get(_LEAVING, False),
        "seconds": _LOOKED_FOR,
    }
    if left:
        st.session_state[_LEAVING] = False  # said once: what another tab keeps later stays
    with st.container(key=KEEPING):
        answer = _component()(data=data, key="browser_keeps", on_kept_change=_nothing)
    kept = answer.get("kept")
    if token is None and not left and isinstance(kept, str) and kept != unknown:
        st.session_state[_TOKEN] = kept  # if it is no good, that is found at the next run
        st.rerun()


def while_signed_in(make: Callable[[], _Made]) -> Callable[[], _Made]:
    """The same, but BadInputError once who looks now has signed out.

    For what Streamlit calls without running the page, whose session it does not know then.
    """
    token = st.session_state.get(_TOKEN)

    def made() -> _Made:
        if token is not None and not _signed_in().knows(token, time.time()):
            raise BadInputError("you are signed out. Load the page again")
        return make()

    return made


def offer_to_sign_out() -> None:
    """The way to be forgotten: this tab, and those that share its token; not one that was given its own."""
    token = st.session_state.get(_TOKEN)
    if token is not None and st.button("Sign out", icon=":material/logout:", type="tertiary"):
        _signed_in().forget(token)
        st.session_state[_LEAVING] = True
        st.rerun()


def _nothing() -> None:
    """What Streamlit wants for each part of an answer."""


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


@cache  # not Streamlit's, which every visitor can have emptied
def _signed_in() -> SignedIn:
    return SignedIn()


@cache
def _component() -> "ComponentRenderer":
    return st.components.v2.component("nearsay_signed_in", js=_SCRIPT)
