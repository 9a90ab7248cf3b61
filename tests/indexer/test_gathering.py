"""Small additions of several threads become one."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest
from words_encoder import WordsEncoder

from nearsay.indexer import AddReport, BusyError, Collection, Library, collection_writing
from nearsay.indexer.catalogue.writer_lock import writer_lock
from nearsay.indexer.collection_writing import Gathering, gathering
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

Row = dict[str, object]


@pytest.fixture
def library(tmp_path: Path, words: WordsEncoder) -> Iterator[Library]:
    """A library whose writers wait for each other."""
    with Library.open(tmp_path / "library", load_encoder=lambda _: words, wait=60.0) as library:
        yield library


@pytest.fixture
def pets(library: Library) -> Collection:
    collection = library.collection("pets")
    collection.add_rows([{"id": "cat", "text": "a cat"}])
    return collection


def queue_of(collection: Collection) -> Gathering:
    return gathering(collection._store.locks.resolve() / f"{collection._record.row().id}.lock")


def until(holds: Callable[[], bool]) -> None:
    """Wait for another thread, for a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.005)


@contextlib.contextmanager
def held(collection: Collection) -> Iterator[None]:
    store, row = collection._store, collection._record.row()
    with writer_lock(store.locks, collection.name, row.id, store.database, "hold"):
        yield


def at_once(
    collection: Collection, every: Sequence[Callable[[], object]], meanwhile: Callable[[], object] = list
) -> list[object]:
    """What each call gives or raises; all wait together for a lock that is held until the last one came."""
    found: list[object] = [None] * len(every)

    def call(place: int) -> None:
        try:
            found[place] = every[place]()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            found[place] = error

    threads = [threading.Thread(target=call, args=[place]) for place in range(len(every))]
    queue = queue_of(collection)
    with held(collection):
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda number=number: queue._led and len(queue._waiting) == number)
        meanwhile()
    for thread in threads:
        thread.join(60)
    return found


def adding(collection: Collection, rows: Sequence[Row], **options: object) -> Callable[[], AddReport]:
    return lambda: collection.add_rows(rows, **options)


def test_what_threads_bring_meanwhile_is_one_segment_and_each_hears_of_its_own(pets: Collection) -> None:
    batches: list[list[Row]] = [
        [{"id": "dog", "text": "the dog"}, {"id": "owl", "text": "an owl"}],
        [{"id": "cat", "text": "a cat"}, {"id": "hen", "text": "one hen"}, {"id": "none", "text": 7}],
        [{"id": "ant", "text": "ant"}],
        [],
    ]
    before = len(pets.overview().segments)
    found = at_once(pets, [adding(pets, rows) for rows in batches])
    reports = [report for report in found if isinstance(report, AddReport)]
    assert len(reports) == 4
    assert [(each.added, each.unchanged, each.embedded, each.fault_count) for each in reports] == [
        (2, 0, 2, 0),
        (1, 1, 1, 1),
        (1, 0, 1, 0),
        (0, 0, 0, 0),
    ]
    assert len(pets.overview().segments) == before + 1
    assert {hit.id for hit in pets.search("one hen", 9)} == {"cat", "dog", "owl", "hen", "ant"}


def test_each_hears_how_many_of_its_own_were_cut(library: Library) -> None:
    collection = library.collection("long", chunking="none")
    collection.add_rows(["a cat"])
    # The encoder takes 16 words.
    long = [{"id": f"long {number}", "text": " ".join(["aa"] * (20 + number))} for number in range(3)]
    batches = [long[:2], [{"id": "short", "text": "aa"}], long[2:]]
    found = at_once(collection, [adding(collection, rows) for rows in batches])
    assert [each.truncated for each in found if isinstance(each, AddReport)] == [2, 0, 1]


class LosesLongWords(WordsEncoder):
    """Words of more than a hundred letters are cut, as BERT's tokenizer makes one unknown token of them."""

    def _window(self, texts: Sequence[str], kind: TextKind) -> EncodedWindow:
        found = super()._window(texts, kind)
        lost = sum(len(max(text.split(), key=len)) > 100 for text in texts)
        return EncodedWindow(found.vectors, found.truncated + lost)


def test_words_that_the_encoder_loses_count_as_cut_for_whoever_brought_them(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library", load_encoder=lambda _: LosesLongWords(), wait=60.0) as library:
        collection = library.collection("long", chunking="none")
        collection.add_rows(["a cat"])
        words = ["a" * 101, "a" * 30, "b" * 300]
        batches = [[{"id": word, "text": f"the word {word}"}] for word in words]
        found = at_once(collection, [adding(collection, rows) for rows in batches])
    assert [each.truncated for each in found if isinstance(each, AddReport)] == [1, 0, 1]


def test_one_id_from_two_threads_is_added_and_then_changed(pets: Collection) -> None:
    found = at_once(pets, [adding(pets, [{"id": "dog", "text": text}]) for text in ("a dog", "two dogs")])
    assert [(each.added, each.updated) for each in found if isinstance(each, AddReport)] == [(1, 0), (0, 1)]
    assert pets.document("dog").text == "two dogs"


def test_what_an_earlier_run_left_waiting_is_counted_once(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(WordsEncoder, "stream", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pets.add_rows([{"id": "fox", "text": "one fox"}])
    found = at_once(pets, [adding(pets, [{"id": id_, "text": id_}]) for id_ in ("dog", "owl")])
    assert [(each.resumed, each.embedded) for each in found if isinstance(each, AddReport)] == [
        (1, 2),
        (0, 1),
    ]


def test_what_is_asked_for_otherwise_is_not_added_together(pets: Collection) -> None:
    pets.add_rows([{"id": "fox", "text": "a fox"}])
    calls = [
        adding(pets, [{"id": "dog", "text": "a dog"}]),
        adding(
            pets, [{"id": "pup", "text": "a pup"}], near_duplicates="report", near_duplicate_threshold=0.9
        ),
        adding(pets, [{"id": "owl", "text": "an owl"}]),
    ]
    dog, pup, owl = at_once(pets, calls)
    assert isinstance(dog, AddReport)
    assert dog.near_duplicates is None
    assert isinstance(pup, AddReport)
    assert pup.near_duplicates is not None
    assert isinstance(owl, AddReport)  # by itself if the gate was there before it, with the first otherwise
    assert (dog.added, pup.added, owl.added, len(pets)) == (1, 1, 1, 5)


def test_what_one_thread_fails_at_is_left_to_those_who_brought_it(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, real = count(), collection_writing.add_few

    def fails_at_first(*arguments: object) -> list[AddReport]:
        if next(calls) == 0:
            raise RuntimeError("the first")
        return real(*arguments)

    monkeypatch.setattr(collection_writing, "add_few", fails_at_first)
    found = at_once(pets, [adding(pets, [{"id": id_, "text": id_}]) for id_ in ("dog", "owl", "hen")])
    assert isinstance(found[0], RuntimeError)
    assert [each.added for each in found if isinstance(each, AddReport)] == [1, 1]
    assert {one.id for one in pets} == {"cat", "owl", "hen"}  # in the order of their threads


@pytest.mark.parametrize("fails", ["merge_small", "embed", "go_through_gate"])
def test_what_was_entered_before_a_thread_failed_is_counted_as_it_was_entered(
    library: Library, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    collection = library.collection("pets", chunking="none")
    collection.add_rows([{"id": "cat", "text": "a cat"}])
    calls, real = count(), getattr(collection_writing, fails)

    def fails_at_first(*arguments: object) -> object:
        if next(calls) == 0:
            raise RuntimeError("the first")
        return real(*arguments)

    monkeypatch.setattr(collection_writing, fails, fails_at_first)
    long = " ".join(["aa"] * 20)  # the encoder takes 16 words
    batches = [
        [{"id": "dog", "text": "a dog"}],
        [{"id": "owl", "text": long}, {"id": "cat", "text": "two cats"}, {"id": "hen", "text": 7}],
        [{"id": "ant", "text": "an ant"}],
    ]
    failed, *found = at_once(collection, [adding(collection, rows) for rows in batches])
    assert isinstance(failed, RuntimeError)
    reports = [each for each in found if isinstance(each, AddReport)]
    assert [(each.added, each.updated, each.unchanged, each.fault_count) for each in reports] == [
        (1, 1, 0, 1),
        (1, 0, 0, 0),
    ]
    assert [(each.embedded - each.resumed, each.truncated) for each in reports] == [(2, 1), (1, 0)]
    # What the thread that failed left counts with the first of those who are next, whichever that is.
    assert sum(each.resumed for each in reports) == int(fails == "embed")
    assert len(collection) == 4
    again = collection.add_rows(batches[1])
    assert (again.added, again.updated, again.unchanged, again.embedded) == (0, 0, 2, 0)


def test_who_is_not_to_wait_is_told_at_once(pets: Collection) -> None:
    refused: list[object] = []

    def impatient() -> None:
        with pytest.raises(BusyError, match="is being written by process") as error:
            pets.add_rows([{"id": "owl", "text": "an owl"}], wait=0)
        refused.append(error)

    found = at_once(pets, [adding(pets, [{"id": "dog", "text": "a dog"}])], impatient)
    assert [each.added for each in found if isinstance(each, AddReport)] == [1]
    assert len(refused) == 1
    assert "owl" not in pets


def test_a_removal_gets_its_turn_among_threads_that_add_without_end(pets: Collection) -> None:
    stop, numbers = threading.Event(), count()
    failed: list[BaseException] = []

    def add() -> None:
        try:
            while not stop.is_set():
                number = next(numbers)
                pets.add_rows([{"id": f"{number}", "text": "a dog"}])
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            failed.append(error)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        until(lambda: len(pets) > 20)
        assert pets.remove(["cat"], wait=60) == 1
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert failed == []


def test_threads_may_begin_a_collection_together(library: Library) -> None:
    barrier, failed = threading.Barrier(6), []

    def add(number: int) -> None:
        barrier.wait()
        try:
            library.collection("new").add_rows([{"id": f"{number}", "text": "a dog"}])
        except Exception as error:  # noqa: BLE001 - the test looks at it
            failed.append(error)

    threads = [threading.Thread(target=add, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (failed, len(library.collection("new"))) == ([], 6)
