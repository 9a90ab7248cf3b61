"""Who may look: everybody, or who knows the password."""

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from functools import cache

import streamlit as st

from nearsay.app.ui.password import is_right
from nearsay.app.ui.settings import Settings
from nearsay.app.ui.signed_in import is_signed_in, sign_in, was_signed_in

__all__ = ["Tries", "ask", "is_let_in"]

_TRIES, _SECONDS = 10, 60.0  # wrong passwords in so many seconds, by everybody together


@dataclass
class Tries:
    """The wrong tries of the last minute, so that a password cannot be guessed by trying many."""

    times: deque[float] = field(default_factory=deque)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, now: float) -> bool:
        """Whether another may be made; it counts as wrong from now on, so that many at once are no way round.

        now: seconds of any clock that only goes forward
        """
        with self.lock:
            while self.times and now - self.times[0] > _SECONDS:
                self.times.popleft()
            if len(self.times) >= _TRIES:
                return False
            self.times.append(now)
            return True

    def was_right(self, now: float) -> None:
        """Count the try that began at that time no longer."""
        with self.lock, contextlib.suppress(ValueError):
            self.times.remove(now)


@cache  # not Streamlit's, which every visitor can have emptied
def _tries() -> Tries:
    return Tries()


def is_let_in(settings: Settings) -> bool:
    """Whether the pages may be shown: there is no password, or who looks has typed it."""
    return settings.password is None or is_signed_in()


def ask(settings: Settings) -> None:
    """Ask for the password; who knows it is let in from the next run on."""
    with st.container(key="ns_ask"):  # seen a moment later, when a browser that keeps a token has answered
        st.title("nearsay")
        if was_signed_in():
            st.info("This browser is no longer signed in. What was pressed after that changed nothing.")
        with st.form("password", border=False):
            typed = st.text_input("Password", type="password", autocomplete="current-password")
            if not st.form_submit_button("Sign in", type="primary"):
                return
    now = time.monotonic()
    if not _tries().begin(now):
        st.error("Too many wrong passwords were tried. Wait a minute and try again.")
    elif is_right(typed, settings.password or ""):
        _tries().was_right(now)
        sign_in()
        st.rerun()
    else:
        st.error("That is not the password. Ask whoever started this server for it.")
