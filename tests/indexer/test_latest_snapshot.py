"""Readers that share a collection, while its files are being opened."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from words_encoder import WordsEncoder

from nearsay.data import known_hashes
from nearsay.data.errors import StorageError
from nearsay.indexer import Collection, Library, collection_writing
from nearsay.indexer.catalogue import collections, generations, refinements
from nearsay.indexer.catalogue.generations import SegmentState
from nearsay.indexer.catalogue.refinements import Refinement
from nearsay.indexer.query import search as query_search
from nearsay.indexer.snapshots import latest_snapshot, snapshot
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError
from nearsay.indexer.vectors import segment
from nearsay.indexer.vectors.segment import SegmentKind

_LONG = 60.0  # seconds after which a test says that nobody came


@pytest.fixture
def open_it(tmp_path: Path, words: WordsEncoder) -> Iterator[Callable[[], Collection]]:
    """Opens three documents as another process would; generation 2 is ready."""
    encoders = {"all-MiniLM-L6-v2": words, "words": words, "letters": WordsEncoder("letters", dimension=4)}
    opened = [Library.open(tmp_path / "library", load_encoder=encoders.__getitem__)]
    opened[0].collection("pets").add_rows(["a cat sat", "the dog ran far", "parrots whistle melodies"])
    opened[0].collection("pets").rebuild("letters")

    def open_one() -> Collection:
        opened.append(Library.open(tmp_path / "library", load_encoder=encoders.__getitem__))
        return opened[-1].collection("pets")

    yield open_one
    for library in opened:
        library.close()


class _Held:
    """Opening a segment file waits until it is let go; says which were opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.let_go = threading.Event(), threading.Event()
        self.opened: list[str] = []
        open_vectors = snapshot.open_vectors

        def opening(path: Path, sha256: str, *rest: Any, **named: Any) -> object:
            self.opened.append(sha256)
            self.begun.set()
            assert self.let_go.wait(_LONG)
            return open_vectors(path, sha256, *rest, **named)

        monkeypatch.setattr(snapshot, "open_vectors", opening)


def test_nobody_waits_for_the_files_of_another_generation(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets = open_it()
    live = pets.snapshot()
    held = _Held(monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        comparing = pool.submit(pets._snapshot.take, 2)
        assert held.begun.wait(_LONG)
        try:
            assert pool.submit(pets.snapshot).result(_LONG) is live
        finally:
            held.let_go.set()
        assert comparing.result(_LONG).generation.number == 2
    assert len(held.opened) == 1


def test_an_addition_is_seen_while_another_generation_is_opened(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets = open_it()
    pets.snapshot()
    open_it().add_rows(["a fish swam"])
    held = _Held(monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        comparing = pool.submit(pets._snapshot.take, 2)
        assert held.begun.wait(_LONG)
        monkeypatch.undo()  # only the first is held up
        try:
            seen = pool.submit(pets.snapshot).result(_LONG).searchable
        finally:
            held.let_go.set()
        comparing.result(_LONG)
    assert seen == 4


def test_two_who_need_the_same_files_open_them_once_and_both_see_what_was_added(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets = open_it()
    pets.snapshot()
    open_it().add_rows(["a fish swam"])
    held = _Held(monkeypatch)
    row, asked = pets._record.row, threading.Event()

    def asking() -> object:
        if held.begun.is_set():
            asked.set()
        return row()

    monkeypatch.setattr(pets._record, "row", asking)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(pets.snapshot)
        assert held.begun.wait(_LONG)
        second = pool.submit(pets._snapshot.take, 1)  # the live one by its number
        assert asked.wait(_LONG)
        held.let_go.set()
        assert (first.result(_LONG).searchable, second.result(_LONG).searchable) == (4, 4)
    assert len(held.opened) == 1


def test_searches_go_on_while_the_files_of_others_are_hashed(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets, other = open_it(), open_it()
    assert len(pets.search("a cat", 9)) == 3
    other.add_rows(["a fish swam"])
    other.compact()
    monkeypatch.setattr(latest_snapshot, "_written", {})  # as if another process had
    hashing, let_go = threading.Event(), threading.Event()
    known_sha256 = segment.known_sha256

    def slow(path: Path) -> str:
        hashing.set()
        assert let_go.wait(_LONG)
        return known_sha256(path)

    monkeypatch.setattr(segment, "known_sha256", slow)
    for _ in range(3):
        assert len(pets.search("a cat", 9)) == 3  # the former snapshot serves
    assert hashing.wait(_LONG)
    let_go.set()
    assert pets.snapshot().searchable == 4
    assert len(pets.search("a cat", 9)) == 4


def test_searches_go_on_while_a_writer_of_this_process_opens_what_it_made(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets = open_it()
    pets.search("a cat")
    held = _Held(monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(pets.add_rows, ["a fish swam"])
        assert held.begun.wait(_LONG)
        try:
            assert len(pets.search("a cat", 9)) == 3
        finally:
            held.let_go.set()
        adding.result(_LONG)
    assert len(pets.search("a cat", 9)) == 4
    assert len(held.opened) == 1  # by the writer


def test_what_this_process_wrote_is_seen_however_long_it_takes_to_open(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_snapshot, "_PATIENCE", 0.0)
    pets = open_it()
    same = pets.library.collection("pets")
    assert len(pets.search("a cat", 9)) == len(same.search("a cat", 9)) == 3
    pets.add_rows(["a fish swam"])
    assert len(same.search("a cat", 9)) == len(pets.search("a cat", 9)) == 4
    same.promote(2)
    assert pets.search("a cat")[0].lineage.generation == same.search("a cat")[0].lineage.generation == 2


def test_a_search_whose_former_snapshot_is_stale_waits_for_the_newest(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets, other = open_it(), open_it()
    pets.search("a cat")
    other.add_rows(["a fish swam"])
    monkeypatch.setattr(latest_snapshot, "_written", {})  # as if another process had
    monkeypatch.setattr(latest_snapshot, "_PATIENCE", 0.0)
    held, take, search = _Held(monkeypatch), pets._snapshot.take, query_search.search

    def taking(generation: int | None = None) -> snapshot.Snapshot:
        if threading.current_thread() is threading.main_thread():
            held.let_go.set()
        return take(generation)

    def searching(store: Any, taken: snapshot.Snapshot, *rest: Any) -> Any:
        if taken.collection.version < pets._record.row().version:  # as shards that hold a later commit
            raise StaleSnapshotError
        return search(store, taken, *rest)

    monkeypatch.setattr(pets._snapshot, "take", taking)
    monkeypatch.setattr(query_search, "search", searching)
    try:
        assert len(pets.search("a cat", 9)) == 4
    finally:
        held.let_go.set()


def test_what_was_committed_before_an_error_is_seen_by_the_next_search(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_snapshot, "_PATIENCE", 0.0)
    pets = open_it()
    pets.search("a cat")

    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(collection_writing, "merge_small", stopped)
    held = _Held(monkeypatch)
    held.let_go.set()
    with pytest.raises(KeyboardInterrupt):
        pets.add_rows(["a fish swam"])
    assert len(held.opened) == 1  # by the writer
    assert len(pets.search("a cat", 9)) == 4


def test_a_writer_that_settles_late_takes_nothing_back(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets = open_it()
    before = pets._record.row()
    pets.add_rows(["a fish swam"])
    written = dict(latest_snapshot._written)
    monkeypatch.setattr(pets._record, "row", lambda: before)  # read before another thread wrote
    pets._snapshot.settle()
    assert latest_snapshot._written == written


def test_a_file_that_cannot_be_opened_is_said_by_the_search(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets = open_it()
    pets.search("a cat")
    open_it().add_rows(["a fish swam"])

    def refused(_: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(segment, "known_sha256", refused)
    with pytest.raises(StorageError, match="Permission denied"):
        pets.search("a cat")
    monkeypatch.undo()
    assert len(pets.search("a cat", 9)) == 4


def test_an_opening_that_timed_out_is_none_that_still_goes_on(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets = open_it()
    pets.search("a cat")
    open_it().add_rows(["a fish swam"])
    monkeypatch.setattr(latest_snapshot, "_written", {})  # as if another process had
    monkeypatch.setattr(latest_snapshot, "_PATIENCE", _LONG)

    def late(*_: Any, **__: Any) -> None:
        raise TimeoutError(110, "Connection timed out")

    with monkeypatch.context() as patch:
        patch.setattr(snapshot, "open_vectors", late)
        with pytest.raises(TimeoutError, match="timed out"):
            pets.search("a cat")
    assert len(pets.search("a cat", 9)) == 4


def test_a_thread_that_could_not_be_started_leaves_no_search_behind_the_newest(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets, other = open_it(), open_it()
    pets.snapshot()
    other.add_rows(["a fish swam"])
    monkeypatch.setattr(latest_snapshot, "_written", {})  # as if another process had
    monkeypatch.setattr(latest_snapshot, "_PATIENCE", _LONG)

    def refuses(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuses)
        with pytest.raises(RuntimeError, match="new thread"):
            pets.search("a cat", 9)
    assert len(pets.search("a cat", 9)) == 4


def test_what_was_just_written_is_not_read_through_to_be_opened(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_it().add_rows(["a fish swam"])

    def hashed(path: Path) -> str:
        raise AssertionError(f"{path} was hashed")

    monkeypatch.setattr(known_hashes, "file_sha256", hashed)
    assert len(open_it().search("a cat", 9)) == 4


class _Clock:
    """Stands in for `time` while nothing is opened; says how long each search was ready to wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pets: Collection) -> None:
        self.now, self.waits, self.let_go = 0.0, list[float](), threading.Event()
        monkeypatch.setattr(latest_snapshot, "_written", {})  # as if another process had
        monkeypatch.setattr(latest_snapshot, "_PATIENCE", 8.0)
        monkeypatch.setattr(latest_snapshot, "time", self)
        monkeypatch.setattr(latest_snapshot, "wait", self._wait)
        monkeypatch.setattr(pets._snapshot, "take", lambda _: self.let_go.wait(_LONG))

    def monotonic(self) -> float:
        return self.now

    def _wait(self, _: object, timeout: float) -> tuple[set[object], set[object]]:
        self.waits.append(timeout)
        self.now += timeout
        return set(), set()


@pytest.fixture
def nothing_opens(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Collection], _Clock]]:
    """From now on nothing is opened for that collection until the test ends."""
    clocks = list[_Clock]()

    def stop(pets: Collection) -> _Clock:
        clocks.append(_Clock(monkeypatch, pets))
        return clocks[-1]

    yield stop
    for clock in clocks:
        clock.let_go.set()


def test_searches_wait_together_and_not_each_for_what_takes_long_to_open(
    open_it: Callable[[], Collection], nothing_opens: Callable[[Collection], _Clock]
) -> None:
    pets, other = open_it(), open_it()
    pets.search("a cat")
    other.add_rows(["a fish swam"])
    clock = nothing_opens(pets)
    for _ in range(3):
        assert len(pets.search("a cat", 9)) == 3  # the former snapshot serves
    assert clock.waits == [8.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("also", "waits"),
    [
        ("nothing", [0.0]),
        ("a removal", [8.0]),
        ("an addition", [8.0]),
        ("a refinement", [8.0]),
        ("a quarantine", [8.0]),
    ],
)
def test_nobody_waits_where_only_an_index_is_new(
    open_it: Callable[[], Collection],
    nothing_opens: Callable[[Collection], _Clock],
    also: str,
    waits: list[float],
) -> None:
    pets, other = open_it(), open_it()
    pets.search("a cat")
    live, store = other._record.live(), other._store
    with store.database.writing() as connection:
        path = store.segments(live.collection_id) / "index"
        path.write_bytes(b"an index")
        generations.add_segment(connection, live, SegmentKind.INDEX, path, 3, (1, 3))
        if also == "a refinement":
            refinements.add(connection, live.collection_id, live.number, Refinement(0, None, 0.4, {}, ""))
        if also == "a quarantine":
            vectors, *_ = generations.segments_of(connection, live.collection_id, live.number)
            generations.set_segment_state(connection, vectors, SegmentState.QUARANTINED)
        collections.changed(connection, live.collection_id)
    if also == "a removal":
        other.remove([other.search("a cat")[0].id])
    if also == "an addition":
        other.add_rows(["a fish swam"])
    clock = nothing_opens(pets)
    assert len(pets.search("a", 9, mode="dense")) == 3 - (also == "a removal")
    assert clock.waits == waits


def test_what_fails_after_the_former_snapshot_served_is_said_once_by_the_next_search(
    open_it: Callable[[], Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    pets, other = open_it(), open_it()
    pets.search("a cat")
    other.add_rows(["a fish swam"])
    other.compact()
    monkeypatch.setattr(latest_snapshot, "_written", {})  # as if another process had
    monkeypatch.setattr(latest_snapshot, "_PATIENCE", 0.0)
    let_go = threading.Event()

    def refused(_: Path) -> str:
        assert let_go.wait(_LONG)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(segment, "known_sha256", refused)
    assert len(pets.search("a cat", 9)) == 3  # the former snapshot serves
    (opening,) = pets._snapshot._begun.values()
    let_go.set()
    assert isinstance(opening.snapshot.exception(_LONG), StorageError)
    with pytest.raises(StorageError, match="Permission denied"):
        pets.search("a cat", 9)
    monkeypatch.undo()
    assert pets.snapshot().searchable == 4
