"""What goes wrong is said in a sentence; a traceback goes to the log alone."""

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
    """Whether an import failed only because another thread imports the same package; the next try succeeds.

    Of two imports that wait for each other (the package narwhals, which both altair and scikit-learn import,
    is such a case) Python gives up one, or hands out a module that is not whole yet; the other import then
    meets what is left of the first. What was raised from such an error counts too.
    """
    at: BaseException | None = error
    while at is not None:
        if _is_one(at):
            return True
        at = at.__cause__
    return False


def _is_one(error: BaseException) -> bool:
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        return _is_begun(error) or sys.modules.get(error.obj.__name__) is not error.obj
    if isinstance(error, ImportError):
        left = type(error) is ImportError and error.name is not None and error.name not in sys.modules
        return _is_begun(error) or left
    return type(error).__name__ == "_DeadlockError"  # importlib's own, which is not to be had by name


def _is_begun(error: BaseException) -> bool:
    return "partially initialized module" in str(error)


_log = logging.getLogger(__name__)
_CLASHES = "import_clashes"  # in the session: how often a look was begun anew, one after the other
_TRIES = 5
_FOLDERS = re.compile(r"(?<![\w/.…])~?/(?:[^\s/'\",;]+/)+")  # of a whole path
_LOADING = ":material/sync_problem:"
_SECONDS = 0.3  # until the other thread is likely to be done


@contextmanager
def telling_errors(*, again: bool = False) -> Iterator[None]:
    """Show what is raised inside as a sentence with its remedy; also a decorator, needed on every fragment.

    again: where two imports clashed the look is begun anew: for looks without a press, which would be lost

    Streamlit's own ways to stop and to run again are let through.
    """
    try:
        yield
        if again:
            st.session_state.pop(_CLASHES, None)
    except Exception as error:  # noqa: BLE001 - the last place before the reader, who must not meet a traceback
        if is_import_clash(error):
            _log.warning("imports clashed: %s", error)
            if again:
                _look_anew()
            st.warning("nearsay was still loading what this needs. Do it again.", icon=_LOADING)
            return
        if isinstance(error, NearsayError):
            say_error(error)
            return
        reference = secrets.token_hex(3)
        _log.exception("the page met what it did not foresee (reference %s)", reference)
        st.error(
            f"Something went wrong that nearsay did not foresee. Load the page again; if it stays, the "
            f"terminal in which `nearsay ui` runs says more under the reference {reference}.",
            icon=":material/error:",
        )


def _look_anew() -> None:
    """Begin the look again, unless it was begun again so often that there must be another cause."""
    tries = st.session_state.get(_CLASHES, 0)
    if tries < _TRIES:
        st.session_state[_CLASHES] = tries + 1
        time.sleep(_SECONDS)
        st.rerun()


def say_error(error: NearsayError) -> None:
    """One error of nearsay's own, as it reads on the command line."""
    said = on_page(" ".join(str(error).split()))
    if Settings.from_environment().read_only:  # whoever reads need not know where things lie on the server
        said = _FOLDERS.sub("…/", said)
    st.error(as_markdown(capitalised(said)), icon=":material/error:")
