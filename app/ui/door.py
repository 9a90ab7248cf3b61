"""Who may look: everybody, or who knows the password."""

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

    def allowed(self, now: float) -> bool:
        """Whether another may be made; `now` in seconds of any clock that only goes forward."""
        with self.lock:
            while self.times and now - self.times[0] > _SECONDS:
                self.times.popleft()
            return len(self.times) < _TRIES

    def failed(self, now: float) -> None:
        """Count a wrong one."""
        with self.lock:
            self.times.append(now)


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
    if not _tries().allowed(time.monotonic()):
        st.error("Too many wrong passwords were tried. Wait a minute and try again.")
    elif is_right(typed, settings.password):
        st.session_state["let_in"] = settings.password
        st.rerun()
    else:
        _tries().failed(time.monotonic())
        st.error("That is not the password. Ask who started this page for it.")
    return False
