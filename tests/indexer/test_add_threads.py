"""Rows are read, cut, written and encoded in threads of their own: what is told, and what an error leaves."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import documents
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.writing import ingest


@pytest.fixture
def pets(library: Library) -> Collection:
    """An empty collection."""
    return library.collection("pets")


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions of 5, 10, then 20 rows, and windows of at most 20 passages."""
    for name, size in {"_FIRST_ROWS": 5, "_ROWS": 20, "_WINDOW": 20}.items():
        monkeypatch.setattr(ingest, name, size)


def _threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("nearsay-")]


def _rows(count: int) -> list[dict[str, object]]:
    return [{"id": number, "text": f"row {number}"} for number in range(count)]


def _breaking(real: Callable[..., object], at: int) -> Callable[..., object]:
    """The function, which raises after its work the `at`-th time that it is called."""
    left = iter(range(1, at))

    def broken(*args: object) -> object:
        found = real(*args)
        if next(left, None) is None:
            raise ZeroDivisionError
        return found

    return broken


def _noting(real: Callable[..., object], counts: list[int]) -> Callable[..., object]:
    """The function, which notes how many rows it is given."""

    def noted(connection: object, collection: int, rows: list[object], moment: str) -> object:
        counts.append(len(rows))
        return real(connection, collection, rows, moment)

    return noted


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize(
    ("owner", "name"), [(ingest, "cut"), (documents, "insert"), (WordsEncoder, "_window"), (None, "")]
)
def test_an_error_in_any_thread_comes_out_and_ends_them_all(
    pets: Collection, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    def rows() -> Iterator[dict[str, object]]:
        yield from _rows(120)  # the first hundred are taken ahead
        if owner is None:
            raise ZeroDivisionError

    with monkeypatch.context() as patch:
        if owner is not None:
            patch.setattr(owner, name, _breaking(getattr(owner, name), 4))
        with pytest.raises(ZeroDivisionError):
            pets.add_rows(rows())
    assert _threads() == []
    entered = pets.overview().documents
    assert entered in {5, 15, 35, 55, 75, 95, 115, 120}  # whole batches
    assert entered == 35 or name not in ("cut", "insert")
    report = pets.add_rows(_rows(120))
    assert (report.added, report.unchanged) == (120 - entered, entered)
    assert pets.overview().waiting == 0
    assert len(pets.vectors()[0]) == 120


@pytest.mark.usefixtures("small_batches")
def test_a_listener_that_raises_ends_all_threads(pets: Collection) -> None:
    def stop(_progress: Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pets.add_rows(_rows(200), progress=stop)
    assert _threads() == []
    assert pets.add_rows(_rows(200)).read == 200
    assert pets.overview().waiting == 0


@pytest.mark.usefixtures("small_batches")
def test_copies_are_told_apart_though_the_batch_before_is_not_yet_written(pets: Collection) -> None:
    pets.add_rows(["a row that was there"])  # so that each batch is looked up
    copies = [f"row {number % 7}" for number in range(100)]
    assert pets.add_rows(copies).added == 100
    again = pets.add_rows(copies)
    assert (again.added, again.updated, again.unchanged, again.embedded) == (0, 0, 100, 0)
    assert pets.add_rows(_rows(50) * 2).fault_count == 50


@pytest.mark.usefixtures("small_batches")
def test_a_transaction_holds_no_more_changed_rows_than_others_can_wait_for(
    pets: Collection, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pets.add_rows(_rows(40))
    words.encoded.clear()
    monkeypatch.setattr(ingest, "CHANGES", 3)
    written: list[int] = []
    for name in ("replace_text", "relabel"):
        monkeypatch.setattr(documents, name, _noting(getattr(documents, name), written))
    even, odd = {"year": 1}, {"text": "a new text"}
    rows = [row | (odd if place % 2 else even) for place, row in enumerate(_rows(45))]
    report = pets.add_rows(iter(rows))  # a list of so few is added at once
    assert (report.added, report.updated, report.relabelled, report.unchanged) == (5, 20, 20, 0)
    assert max(written) == 3
    assert sorted(words.encoded) == ["a new text"] * 22 + ["row 40", "row 42", "row 44"]
    assert pets.add_rows(rows).unchanged == 45
    assert {document.id: document.text for document in pets.documents()} == {
        str(row["id"]): row["text"] for row in rows
    }


def test_short_rows_are_given_out_in_windows_and_the_total_is_told_from_what_is_entered(
    pets: Collection, tmp_path: Path
) -> None:
    path = tmp_path / "pets.jsonl"
    rows = ({"id": f"{number:06}", "text": f"row {number:06}", "note": "-" * 400} for number in range(12_000))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told: list[Progress] = []
    pets.add(path, progress=told.append)
    done = [progress.done for progress in told]
    assert max(later - earlier for earlier, later in zip([0, *done], done, strict=False)) <= 4096
    assert [progress.total for progress in told] == [pytest.approx(12_000, rel=0.1)] * len(told)
    assert (told[-1].done, told[-1].total) == (12_000, 12_000)
