"""Loading without other libraries' progress bars and log lines on standard error."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from logging import ERROR

from nearsay.data.threads import ThreadLock

_lock = ThreadLock()
_inside = 0  # blocks in this process, in whatever threads
_undo = ExitStack()  # puts the settings back that the first of them found


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Let transformers and the hub log only errors, and restore their settings afterwards.

    The settings are process-wide, and several threads may load encoders: overlapping blocks count as one.
    """
    global _inside  # noqa: PLW0603 - as the settings are
    with _lock:
        if not _inside:
            _undo.enter_context(_quiet())
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _undo.close()


@contextmanager
def _quiet() -> Iterator[None]:
    from huggingface_hub.utils.tqdm import disable_progress_bars
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(ERROR)
    _show_bars(shown=False)
    try:
        with disable_progress_bars():
            yield
    finally:
        logging.set_verbosity(level)
        _show_bars(shown=bars)


def _show_bars(*, shown: bool) -> None:
    from transformers.utils import logging

    switch: Callable[[], None] = logging.enable_progress_bar if shown else logging.disable_progress_bar
    switch()
