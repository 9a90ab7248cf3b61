"""Who may look: everybody, or who knows the password."""

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass, field

import streamlit as st

from nearsay.app.ui.password import is_right
from nearsay.app.ui.settings import Settings

__all__ = ["Tries", "let_in"]

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


@st.cache_resource(show_spinner=False)
def _tries() -> Tries:
    return Tries()


def let_in(settings: Settings) -> bool:
    """Whether the page may be shown; asks for the password where there is one, once in each session."""
    if settings.password is None or st.session_state.get("let_in") == settings.password:
        return True
    st.title("nearsay")
    with st.form("password", border=False):
        typed = st.text_input("Password", type="password", autocomplete="current-password")
        if not st.form_submit_button("Enter", type="primary"):
            return False
    now = time.monotonic()
    if not _tries().begin(now):
        st.error("Too many wrong passwords were tried. Wait a minute and try again.")
    elif is_right(typed, settings.password):
        _tries().was_right(now)
        st.session_state["let_in"] = settings.password
        st.rerun()
    else:
        st.error("That is not the password. Ask who started this page for it.")
    return False
