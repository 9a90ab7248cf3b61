"""What every test may use."""

import atexit
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from nearsay.indexer import Library

settings.register_profile("nearsay", deadline=None)  # how long an example takes decides nothing
settings.load_profile("nearsay")

_OF_USER = tempfile.TemporaryDirectory(prefix="nearsay-tests-")  # whose own configuration decides no test
atexit.register(_OF_USER.cleanup)
os.environ["XDG_CONFIG_HOME"] = _OF_USER.name

Library.open.__func__.__kwdefaults__["wait"] = 0.0  # who finds a collection busy is told at once

_PATH = Path(__file__).parent / "words_encoder.py"
_SPEC = importlib.util.spec_from_file_location("words_encoder", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
sys.modules["words_encoder"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["words_encoder"])

from words_encoder import WordsEncoder  # noqa: E402 - importable only after the lines above


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the long tests ten minutes each, where they do not say otherwise."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(autouse=True)
def cache_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where hashes of files are remembered, apart from the user's."""
    file = tmp_path_factory.mktemp("cache") / "nearsay" / "hashes.sqlite"
    with pytest.MonkeyPatch.context() as patch:  # of its own: a test may undo the changes of its fixture
        patch.setattr("nearsay.data.known_hashes._cache_file", lambda: file)
        yield file


@pytest.fixture
def words() -> WordsEncoder:
    """An encoder whose vectors can be worked out by hand."""
    return WordsEncoder()


@pytest.fixture
def open_library(tmp_path: Path, words: WordsEncoder) -> Iterator[Callable[[], Library]]:
    """Opens the test's library, as often as wanted; each one opened is a process's view of its own."""
    opened: list[Library] = []
    encoders = {"all-MiniLM-L6-v2": words, words.name: words}

    def open_it() -> Library:
        opened.append(Library.open(tmp_path / "library", load_encoder=lambda source: encoders[source]))
        return opened[-1]

    yield open_it
    for library in opened:
        library.close()


@pytest.fixture
def library(open_library: Callable[[], Library]) -> Library:
    """A library of the words encoder."""
    return open_library()
