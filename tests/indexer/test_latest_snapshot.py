"""Readers that share a collection, while its files are being opened."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library
from nearsay.indexer.snapshots import snapshot

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
