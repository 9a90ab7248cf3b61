"""Loading without other libraries' progress bars and log lines on standard error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging import ERROR

__all__ = ["quiet_libraries"]


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Let transformers and the hub report errors alone, and put their settings back afterwards."""
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
