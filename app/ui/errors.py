"""Errors on the page are shown as one sentence; tracebacks only go to the log."""

import logging
import re
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import streamlit as st

from nearsay.app.ui.controls import capitalised, on_page
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.settings import Settings
from nearsay.data.errors import NearsayError


def is_import_clash(error: BaseException) -> bool:
    """Return whether an import failed only because another thread imports the same package; a retry succeeds.

    When two imports wait for each other (such as of narwhals, which both altair and scikit-learn import),
    Python breaks the deadlock by giving up one of them or returning a partially initialized module. Errors
    caused by such an error count, too.
    """
    at: BaseException | None = error
    while at is not None:
        if _is_clash(at):
            return True
        at = at.__cause__
    return False


def _is_clash(error: BaseException) -> bool:
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        return _is_partial(error) or sys.modules.get(error.obj.__name__) is not error.obj
    if isinstance(error, ImportError):
        left = type(error) is ImportError and error.name is not None and error.name not in sys.modules
        return _is_partial(error) or left
    return type(error).__name__ == "_DeadlockError"  # a private class of importlib


def _is_partial(error: BaseException) -> bool:
    return "partially initialized module" in str(error)


_log = logging.getLogger(__name__)
_CLASHES = "import_clashes"  # session key: number of consecutive reruns after import clashes
_TRIES = 5
_FOLDERS = re.compile(r"(?<![\w/.…])~?/(?:[^\s/'\",;]+/)+")  # the folders of an absolute path
_LOADING = ":material/sync_problem:"
_SECONDS = 0.3  # time for the other import to finish


@contextmanager
def showing_errors(*, again: bool = False) -> Iterator[None]:
    """Show an exception as a sentence with its remedy; also a decorator, which every fragment needs.

    again: rerun the page after an import clash; only for runs without a click, which would be lost

    Streamlit's exceptions that stop or rerun the script pass through.
    """
    try:
        yield
        if again:
            st.session_state.pop(_CLASHES, None)
    except Exception as error:  # noqa: BLE001 - the page shows no tracebacks
        if is_import_clash(error):
            _log.warning("imports clashed: %s", error)
            if again:
                _rerun()
            st.warning("nearsay was still loading. Try again.", icon=_LOADING)
            return
        if isinstance(error, NearsayError):
            show_error(error)
            return
        reference = secrets.token_hex(3)
        _log.exception("unexpected error on the page (reference %s)", reference)
        st.error(
            "An unexpected error occurred. Reload the page; if it happens again, see the reference "
            f"{reference} in the log, which `nearsay ui` writes to its terminal.",
            icon=":material/error:",
        )


def _rerun() -> None:
    """Rerun the page, unless it was rerun so often that there must be another cause."""
    tries = st.session_state.get(_CLASHES, 0)
    if tries < _TRIES:
        st.session_state[_CLASHES] = tries + 1
        time.sleep(_SECONDS)
        st.rerun()


def show_error(error: NearsayError) -> None:
    """Show an error of nearsay as it reads on the command line."""
    message = on_page(" ".join(str(error).split()))
    if Settings.from_environment().read_only:  # visitors need no paths of the server
        message = _FOLDERS.sub("…/", message)
    st.error(as_markdown(capitalised(message)), icon=":material/error:")
