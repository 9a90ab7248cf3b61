"""What every test may use."""

import atexit
import contextlib
import copy
import functools
import gc
import importlib.util
import itertools
import os
import signal
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import sqlalchemy as sa
from hypothesis import settings

from nearsay.indexer import Library
from nearsay.indexer import library as library_module
from nearsay.indexer.catalogue import migrations
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.tables import SCHEMA
from nearsay.indexer.library import EncoderLoader
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.text_encoder import TextEncoder

settings.register_profile("nearsay", deadline=None)  # how long an example takes decides nothing
settings.load_profile("nearsay")

_OF_USER = tempfile.TemporaryDirectory(prefix="nearsay-tests-")  # whose own configuration decides no test
atexit.register(_OF_USER.cleanup)
os.environ["XDG_CONFIG_HOME"] = _OF_USER.name

signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background job is started deaf to it

Library.open.__func__.__kwdefaults__["wait"] = 0.0  # who finds a collection busy is told at once

for _name in ("free_port", "naming", "words_encoder"):  # what tests import by its name alone
    _SPEC = importlib.util.spec_from_file_location(_name, Path(__file__).parent / f"{_name}.py")
    assert _SPEC is not None
    assert _SPEC.loader is not None
    sys.modules[_name] = importlib.util.module_from_spec(_SPEC)
    _SPEC.loader.exec_module(sys.modules[_name])

from words_encoder import WordsEncoder  # noqa: E402 - importable only after the lines above


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """A process more than there are cores: many tests wait for a browser, a cluster or a child's start."""
    return 1 + len(
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the long tests ten minutes each, where they do not say otherwise.

    Where processes share the files, those with most long tests come first: no process ends with one alone.
    """
    long = [item for item in items if item.get_closest_marker("long")]
    for item in long:
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))
    if "PYTEST_XDIST_WORKER" in os.environ:
        of_file = Counter(item.path for item in long)
        items.sort(key=lambda item: -of_file[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Spare Python's collector, between modules, all that is there to stay.

    What was imported and collected is millions of objects, and each full collection looked at all of them: a
    sixth of the time of all tests.
    """
    yield
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that are not there yet: thousands of tests that write nothing need none made."""
    folder = tmp_path_factory.mktemp("caches")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def cache_file(caches: Iterator[Path]) -> Iterator[Path]:
    """Where hashes of files are remembered, apart from the user's."""
    file = next(caches) / "hashes.sqlite"
    with pytest.MonkeyPatch.context() as patch:  # of its own: a test may undo the changes of its fixture
        patch.setattr("nearsay.data.known_hashes._cache_file", lambda: file)
        yield file


@pytest.fixture(autouse=True, scope="session")
def schema_of_one_migration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each new SQLite catalogue gets the schema that the migrations made for a first one.

    Thousands of tests begin with one, and the migrations take a twentieth of a second. Those that are about
    them take `migrations.upgrade.__wrapped__`.
    """
    file = tmp_path_factory.mktemp("schema") / "catalogue.sqlite"
    first = Database(f"sqlite:///{file}")
    first.migrate(create=True)
    first.close()
    with contextlib.closing(sqlite3.connect(file)) as connection:
        made = "SELECT sql FROM sqlite_master WHERE sql NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        statements = [row[0] for row in connection.execute(made)] + ["ANALYZE sqlite_master"]
        figures = connection.execute("SELECT * FROM sqlite_stat1").fetchall()
    migrated = migrations.upgrade

    @functools.wraps(migrated)
    def copied(database: Database, tables: sa.MetaData, *, create: bool) -> None:
        new = create and database.dialect == "sqlite"
        if new:
            with database.reading() as connection:
                new = sa.inspect(connection).get_table_names() == []
        if not new:
            migrated(database, tables, create=create)
            return
        with database.writing() as writer:
            if sa.inspect(writer).get_table_names() == []:  # another thread may have been first
                for statement in statements:
                    writer.exec_driver_sql(statement)
                writer.exec_driver_sql("INSERT INTO sqlite_stat1 VALUES (?, ?, ?)", figures)
                writer.exec_driver_sql("ANALYZE sqlite_master")
                writer.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (SCHEMA,))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrations, "upgrade", copied)
        yield


class _SharingLoader:
    """Loads the bundled encoder once a process; to another process, such as a worker, goes what loads it."""

    opened: ClassVar[dict[tuple[object, ...], TextEncoder]] = {}

    def __init__(self, load: EncoderLoader, device: str | None, precision: str) -> None:
        self._load, self._key = load, (device, str(precision))

    def __call__(self, source: str) -> TextEncoder:
        if source != BUNDLED_NAME:
            return self._load(source)
        if self._key not in self.opened:
            self.opened[self._key] = self._load(source)
        return self.opened[self._key]

    def __reduce__(self) -> tuple[Any, ...]:
        return copy.copy, (self._load,)  # of a function this is the function


@pytest.fixture(autouse=True, scope="session")
def one_bundled_encoder() -> Iterator[None]:
    """Libraries of one process share the bundled encoder: it takes a quarter of a second to open.

    They do not change it, and a library's collections share it, too.
    """
    loader = library_module._loader
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library_module, "_loader", lambda *how: _SharingLoader(loader(*how), *how))
        yield


@pytest.fixture(scope="session")
def save_bert() -> Callable[..., Path]:
    """Saves a random BERT of these words, special tokens among them: `save_bert(folder, words, **config)`.

    `kind=` is a model's class of transformers, `seed=` that of its weights.
    """

    def save(
        folder: str | Path, words: Sequence[str], *, kind: Any = None, seed: int = 0, **settings: Any
    ) -> Path:
        import torch
        from transformers import BertConfig, BertModel, BertTokenizer

        shape = {
            "vocab_size": len(words),
            "hidden_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 16,
            "max_position_embeddings": 16,
            "initializer_range": 0.5,  # so few dimensions need a wide spread to tell texts apart
        }
        torch.manual_seed(seed)
        (kind or BertModel)(BertConfig(**(shape | settings))).save_pretrained(folder)
        BertTokenizer(vocab={word: number for number, word in enumerate(words)}).save_pretrained(folder)
        return Path(folder)

    return save


_PLOTTING = "nearsay.training.sentence.finished_run.plot_run"


@pytest.fixture(scope="module")
def short_runs() -> Iterator[None]:
    """Beside training, runs do what takes no time: a plot is an empty file, the peak is timed at one product.

    Else a small run would take four times as long. `drawn_runs` has the plots drawn all the same.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearsay.training.run.loop._SECONDS", 0.0)
        patch.setattr(_PLOTTING, lambda _lines, file, **_: file.touch())
        yield


@pytest.fixture
def drawn_runs(short_runs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from nearsay.training.run.run_plot import plot_run

    monkeypatch.setattr(_PLOTTING, plot_run)


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
