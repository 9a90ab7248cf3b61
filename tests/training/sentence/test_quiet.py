"""What other libraries say while an encoder is loaded."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from huggingface_hub.utils import are_progress_bars_disabled
from transformers.utils import logging

from nearsay.training.sentence.quiet import quiet_libraries


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    level = logging.get_verbosity()
    logging.set_verbosity(logging.INFO)
    yield
    logging.set_verbosity(level)


def settings() -> tuple[int, bool, bool]:
    return logging.get_verbosity(), logging.is_progress_bar_enabled(), are_progress_bars_disabled()


def test_two_loads_at_once_are_quiet_to_the_end_of_the_second_and_change_nothing_for_later() -> None:
    before = settings()
    first, second = ExitStack(), ExitStack()
    first.enter_context(quiet_libraries())
    second.enter_context(quiet_libraries())
    quiet = settings()
    first.close()
    assert settings() == quiet == (logging.ERROR, False, True)
    second.close()
    assert settings() == before


def test_a_load_that_fails_puts_the_settings_back() -> None:
    before = settings()
    with pytest.raises(ValueError, match="broken"), quiet_libraries():
        raise ValueError("broken")
    assert settings() == before
