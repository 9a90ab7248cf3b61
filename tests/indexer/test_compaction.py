"""Compaction changes files and no answer."""

import errno
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from table_collection import COUNT, rows
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import collections, database
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.doctor import examine
from nearsay.indexer.snapshots.snapshot import take
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.writing import compaction

_WORDS = ["a", "of", "the", "cats", "birds", "parrot", "whistle", "melodies"]


@pytest.fixture
def pets(library: Library) -> Collection:
    """Twenty documents in five segments."""
    collection = library.collection("pets")
    for begin in range(0, 20, 4):
        collection.add_rows({"id": f"d{n}", "text": _text(n)} for n in range(begin, begin + 4))
    return collection


def test_segments_are_merged_and_the_answer_stays(pets: Collection) -> None:
    before = _answer(pets)
    assert len(pets.overview().segments) == 5
    report = pets.compact()
    assert (report.segments_before, report.segments_after, report.vectors_dropped) == (5, 1, 0)
    assert report.files_removed == 5
    assert report.bytes_freed > 5 * 4 * 8 * 4
    assert _answer(pets) == before
    assert _files(pets) == _segments(pets)
    _assert_sound(pets.library)


def test_the_vectors_of_removed_passages_are_dropped(pets: Collection) -> None:
    pets.remove([f"d{n}" for n in range(0, 20, 3)])
    before = _answer(pets)
    assert (pets.overview().removed, pets.overview().unindexed) == (7, 13)
    assert sum(row.count for row in pets.overview().segments) == 20
    report = pets.compact()
    assert report.vectors_dropped == 7
    assert sum(row.count for row in pets.overview().segments) == 13
    assert pets.overview().removed == 0
    assert _answer(pets) == before
    _assert_sound(pets.library)


def test_a_compaction_again_finds_nothing_to_do(pets: Collection) -> None:
    pets.compact()
    files = _files(pets)
    report = pets.compact()
    assert (report.segments_before, report.segments_after) == (1, 1)
    assert (report.vectors_dropped, report.files_removed, report.bytes_freed) == (0, 0, 0)
    assert _files(pets) == files


def test_a_merged_segment_has_no_more_rows_than_it_may(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "SEGMENT_ROWS", 8)
    before = _answer(pets)
    pets.compact()
    assert [row.count for row in pets.overview().segments] == [8, 8, 4]
    assert [(row.first_passage, row.last_passage) for row in pets.overview().segments] == [
        (1, 8),
        (9, 16),
        (17, 20),
    ]
    assert _answer(pets) == before


def test_a_reader_with_an_old_snapshot_goes_on(pets: Collection) -> None:
    store = pets.library.store
    with store.database.reading() as connection:
        row = collections.find(connection, "pets")
        assert row is not None
        snapshot = take(connection, store, row)
    assert snapshot is not None
    query = snapshot.vectors.rows(snapshot.vectors.positions(snapshot.vectors.ids[:1]))[0]
    before = snapshot.nearest(query, 20)
    pets.remove(["d0", "d5"])
    pets.compact()
    after = snapshot.nearest(query, 20)
    assert after.ids.tolist() == before.ids.tolist()
    assert after.scores.tolist() == before.scores.tolist()
    assert len(after.ids) == 20


def test_another_process_finds_the_same_before_and_after(
    pets: Collection, open_library: Callable[[], Library]
) -> None:
    reader = open_library().collection("pets")
    pets.remove(["d0", "d5"])
    before = _answer(reader)
    pets.compact()
    assert _answer(reader) == before == _answer(pets)
    pets.remove(["d7"])
    assert _answer(reader) == [hit for hit in before if hit[0] != "d7"]
    pets.add_rows([{"id": "d7", "text": _text(7)}])
    assert len(_answer(reader)) == 18


@pytest.mark.long
def test_searches_during_compactions_always_find_everything(
    pets: Collection, open_library: Callable[[], Library]
) -> None:
    reader = open_library().collection("pets")
    done = threading.Event()
    found: list[frozenset[str]] = []
    failed: list[Exception] = []

    def read() -> None:
        while not done.is_set():
            try:
                found.append(frozenset(hit.id for hit in reader.search("a cat", k=100)))
            except Exception as error:  # noqa: BLE001 - shown by the assertion below
                failed.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(10):
        pets.add_rows([{"id": f"d{number}", "text": _text(100 + number)}])
        pets.compact()
    done.set()
    thread.join()
    # Those that were changed since the snapshot that answers are between their old and their new vector: as
    # many as are added while its successor is opened.
    unchanged, every = ({f"d{number}" for number in range(begin, 20)} for begin in (10, 0))
    assert not failed
    assert found
    assert all(unchanged <= ids <= every for ids in found)
    reader.snapshot()  # waits for the last files, which a search may not
    assert {hit.id for hit in reader.search("a cat", k=100)} == every


def test_passage_numbers_are_never_given_twice(pets: Collection) -> None:
    given = set(pets.vectors()[0].tolist())
    for _ in range(3):
        pets.remove(where="id != 'd0'")
        pets.compact()
        pets.add_rows({"id": f"d{n}", "text": _text(n)} for n in range(20))
        new = set(pets.vectors()[0].tolist()) - {1}
        assert len(new) == 19
        assert given.isdisjoint(new)
        given |= new


def test_everything_can_be_removed_compacted_and_added_again(pets: Collection) -> None:
    pets.remove([f"d{n}" for n in range(20)])
    report = pets.compact()
    assert (report.segments_after, report.vectors_dropped) == (0, 20)
    assert _files(pets) == set()
    assert len(pets.search("a cat")) == 0
    _assert_sound(pets.library, proof=False)
    pets.add_rows([{"id": "d0", "text": _text(0)}])
    assert pets.vectors()[0].tolist() == [21]
    assert [hit.id for hit in pets.search("a cat")] == ["d0"]
    _assert_sound(pets.library)


def test_files_that_nothing_points_to_are_removed(pets: Collection) -> None:
    folder = pets.library.store.segments(1)
    pets.compact()
    (folder / ".writing-0123").write_bytes(b"half")
    (folder / f"{'0' * 64}.safetensors").write_bytes(b"an orphan")
    report = pets.compact()
    assert (report.files_removed, report.bytes_freed) == (2, len(b"half") + len(b"an orphan"))
    assert _files(pets) == _segments(pets)


def test_retired_generations_are_kept_unless_dropping_them_is_asked_for(pets: Collection) -> None:
    pets.rebuild(WordsEncoder("letters", dimension=4))
    pets.promote()
    pets.remove(["d0"])
    report = pets.compact()
    assert (report.generations_dropped, report.vectors_dropped) == (0, 2)  # one in each generation
    assert pets.rollback() == 1
    assert len(_answer(pets)) == 19
    pets.rollback()
    report = pets.compact(drop_retired=True)
    assert report.generations_dropped == 1
    assert [(row.number, row.state) for row in pets.generations()] == [(2, GenerationState.LIVE)]
    assert _files(pets) == _segments(pets)
    assert len(_answer(pets)) == 19
    _assert_sound(pets.library)


def test_a_generation_begun_after_a_dropped_one_has_a_number_of_its_own(pets: Collection) -> None:
    pets.rebuild(WordsEncoder("letters", dimension=4))
    pets.promote()
    pets.compact(drop_retired=True)
    assert pets.rebuild(WordsEncoder("third", dimension=5)).generation == 3


def test_generations_that_share_a_file_do_not_lose_it(pets: Collection, words: WordsEncoder) -> None:
    pets.compact()
    pets.rebuild(words)  # the same encoder: the same vectors, so the same content and name
    first, second = pets.overview().segments
    assert first.sha256 == second.sha256
    pets.promote()
    before = _answer(pets)
    assert pets.compact(drop_retired=True).files_removed == 0
    assert _answer(pets) == before
    _assert_sound(pets.library)


@pytest.mark.long
def test_a_damaged_segment_stops_a_compaction_and_is_kept(pets: Collection) -> None:
    damaged = min(pets.library.store.segments(1).iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\xff")
    with pytest.raises(DamagedSegmentError, match="nearsay index rebuild pets"):
        pets.compact()
    assert (pets.library.store.quarantine / damaged.name).exists()
    with pytest.raises(DamagedSegmentError, match="nearsay index rebuild pets"):
        pets.compact()
    assert pets.rebuild().mended == 1
    assert pets.compact().segments_after == 1
    assert len(_answer(pets)) == 20
    assert (pets.library.store.quarantine / damaged.name).exists()


def _text(number: int) -> str:
    """Words of several lengths, other ones for each number below 256."""
    return " ".join(word for bit, word in enumerate(_WORDS) if (number + 1) >> bit & 1)


def _answer(pets: Collection) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in pets.search("the parrot", k=100)]


def _files(pets: Collection) -> set[str]:
    folder: Path = pets.library.store.folder / "segments"
    return {path.stem for path in folder.rglob("*") if path.is_file()}


def _segments(pets: Collection) -> set[str]:
    return {row.sha256 for row in pets.overview().segments}


def _assert_sound(library: Library, *, proof: bool = True) -> None:
    findings = examine(library, prove=proof)
    assert [finding for finding in findings if not finding.sound] == []


@pytest.mark.long
def test_many_little_additions_do_not_leave_many_segments(library: Library) -> None:
    collection = library.collection("notes")
    for number in range(100):
        collection.add_rows([{"id": str(number), "text": "a" * (number % 8 + 1) + f" b {number}"}])
    before = [(hit.id, hit.score) for hit in collection.search("aaa b 7", k=100)]
    shown = collection.overview()
    assert len(shown.segments) <= 33
    assert sum(segment.count for segment in shown.segments) == 100
    folder = library.store.segments(1)
    assert len(list(folder.iterdir())) == len(shown.segments)
    collection.compact()
    assert [(hit.id, hit.score) for hit in collection.search("aaa b 7", k=100)] == before
    assert all(finding.sound for finding in examine(library, prove=True))


# Files that others may have open, and files that the system does not let go


def _age(collection: Collection, seconds: float) -> None:
    """Let what is there have been replaced, or written, so much earlier."""
    for path in collection.library.store.segments(1).iterdir():
        before = path.stat().st_mtime - seconds
        os.utime(path, (before, before))


def test_replaced_files_stay_for_the_grace_period(pets: Collection) -> None:
    _age(pets, 10_000.0)  # written long ago: what counts is when they are replaced
    before, old = _answer(pets), _files(pets)
    report = pets.compact(grace=3600)
    assert (report.segments_after, report.files_removed, report.bytes_freed) == (1, 0, 0)
    assert report.files_waiting == 5
    assert report.bytes_waiting > 5 * 4 * 8 * 4
    assert old < _files(pets)
    (note,) = report.notes
    assert note.endswith("nearsay index compact pets --grace 0")
    assert pets.compact(grace=3600).files_waiting == 5
    _age(pets, 3601.0)
    report = pets.compact(grace=3600)
    assert (report.files_removed, report.files_waiting, report.notes) == (5, 0, ())
    assert _files(pets) == _segments(pets)
    assert _answer(pets) == before


def test_a_grace_of_zero_frees_the_room_at_once(pets: Collection) -> None:
    pets.compact(grace=3600)
    assert pets.compact(grace=0).files_removed == 5
    assert _files(pets) == _segments(pets)


@pytest.mark.parametrize("grace", [-1.0, float("nan"), float("inf")])
def test_a_grace_that_cannot_be_kept_is_refused(pets: Collection, grace: float) -> None:
    with pytest.raises(BadInputError, match=str(grace)):
        pets.compact(grace=grace)


def test_the_grace_period_is_an_hour_where_machines_may_share_the_files(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compaction.GRACE == {"sqlite": 0.0, "postgresql": 3600.0}
    monkeypatch.setitem(compaction.GRACE, "sqlite", 3600.0)
    old = _files(pets)
    assert pets.compact().files_waiting == 5
    assert old < _files(pets)


@pytest.mark.long
@pytest.mark.parametrize("each", [1, 7])
def test_additions_merge_a_little_at_a_time(
    library: Library, monkeypatch: pytest.MonkeyPatch, each: int
) -> None:
    monkeypatch.setattr(compaction, "_MERGED_AT_ONCE", 40)
    monkeypatch.setattr(compaction, "_SMALL", 60)
    rewritten: list[int] = []
    keep = compaction.keep_merged

    def noted(*given: Any) -> None:
        rewritten.append(sum(count for _, count, _ in given[-1].files))
        keep(*given)

    monkeypatch.setattr(compaction, "keep_merged", noted)
    collection, count = library.collection("grown", chunking="none"), 140
    for begin in range(0, count, each):
        collection.add_rows([{"id": str(n), "text": "a" * (n + 1)} for n in range(begin, begin + each)])
    assert max(rewritten) <= max(40, 20 * each)
    assert sum(rewritten) <= 4 * count
    assert len(_segments(collection)) <= 16
    assert len(collection.search("a", count, mode="dense")) == count


def test_additions_merge_nothing_across_the_end_of_an_index(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_TOGETHER", 2)
    half = COUNT // 2
    for begin in (COUNT, COUNT + half):
        indexed.add_rows(rows(begin, begin + half))
    found = [row for row in indexed.overview().segments if row.kind is SegmentKind.VECTORS]
    assert [(row.first_passage, row.last_passage) for row in found] == [(1, COUNT), (COUNT + 1, 2 * COUNT)]


def test_an_addition_that_merges_keeps_the_grace_period(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(compaction.GRACE, "sqlite", 3600.0)
    monkeypatch.setattr(compaction, "_TOGETHER", 5)
    _age(pets, 10_000.0)
    old = _files(pets)
    pets.add_rows([{"id": "new", "text": "a"}])
    assert len(_segments(pets)) == 1
    assert old < _files(pets)


def test_the_files_of_a_dropped_generation_keep_the_grace_period(pets: Collection) -> None:
    pets.compact()
    pets.rebuild(WordsEncoder("letters", dimension=4))
    pets.promote()
    _age(pets, 10_000.0)
    report = pets.compact(drop_retired=True, grace=3600)
    assert (report.generations_dropped, report.files_removed, report.files_waiting) == (1, 0, 1)


def test_the_grace_period_goes_by_the_clock_of_the_file_system(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction.time, "time", lambda: 4e9)  # this machine's clock is decades ahead
    assert pets.compact(grace=3600).files_waiting == 5


def test_files_of_a_deleted_collection_keep_the_grace_period(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = pets.library.collection("other")
    other.add_rows([{"id": "d", "text": "a"}])
    folder = pets.library.store.segments(1)
    monkeypatch.setitem(compaction.GRACE, "sqlite", 3600.0)
    os.utime(folder, (0.0, 0.0))
    pets.delete()
    assert len(list(folder.iterdir())) == 5
    other.compact()
    assert folder.exists()
    other.compact(grace=0)
    assert not folder.exists()


def _refuse(patch: pytest.MonkeyPatch, step: str, number: int) -> None:
    real = getattr(Path, step)

    def refused(self: Path, *arguments: object, **options: object) -> object:
        if self.suffix == ".safetensors" or self.parent.name == "segments":
            raise OSError(number, os.strerror(number), str(self))
        return real(self, *arguments, **options)

    patch.setattr(Path, step, refused)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EBUSY, errno.EROFS, errno.ESTALE])
def test_files_that_cannot_be_removed_do_not_fail_a_compaction(pets: Collection, number: int) -> None:
    before = _answer(pets)
    with pytest.MonkeyPatch.context() as patch:
        _refuse(patch, "unlink", number)
        report = pets.compact()
    assert (report.segments_after, report.files_removed, report.files_refused) == (1, 0, 5)
    (note,) = report.notes
    assert os.strerror(number) in note
    assert note.endswith("nearsay index compact pets")
    assert _answer(pets) == before
    report = pets.compact()
    assert (report.files_removed, report.files_refused, report.notes) == (5, 0, ())
    assert _files(pets) == _segments(pets)


def test_a_folder_that_cannot_be_listed_does_not_fail_a_compaction(pets: Collection) -> None:
    with pytest.MonkeyPatch.context() as patch:
        _refuse(patch, "iterdir", errno.EIO)
        assert pets.compact().files_refused == 1
    assert pets.compact().files_removed == 5


def test_an_addition_that_merges_does_not_fail_for_files_that_stay(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_TOGETHER", 5)
    with pytest.MonkeyPatch.context() as patch:
        _refuse(patch, "unlink", errno.EACCES)
        assert pets.add_rows([{"id": "new", "text": "a"}]).added == 1
    assert len(_answer(pets)) == 21


# The catalogue's own file


@pytest.fixture
def shrunken(pets: Collection, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """A collection of which most rows were removed: half of the catalogue's file is unused."""
    monkeypatch.setattr(database, "_WORTH_A_VACUUM", 1 << 18)
    pets.add_rows({"id": f"n{n}", "text": f"{n} " + "parrot " * 500} for n in range(300))
    pets.remove([f"n{n}" for n in range(300)])
    return pets


def _impatient(connection: sqlite3.Connection, *_: object) -> None:
    connection.execute("PRAGMA busy_timeout = 1")


def _catalogue_bytes(pets: Collection) -> int:
    folder = pets.library.store.folder
    return sum(
        path.stat().st_size for path in folder.glob("catalogue.sqlite*") if path.suffix != ".sqlite-shm"
    )


@pytest.mark.long
def test_room_that_removed_rows_took_in_the_catalogue_is_given_back(shrunken: Collection) -> None:
    answer, before = _answer(shrunken), _catalogue_bytes(shrunken)
    report = shrunken.compact()
    assert report.catalogue_bytes_freed > 1_000_000
    assert _catalogue_bytes(shrunken) < before - 1_000_000
    assert report.notes == ()
    assert _answer(shrunken) == answer
    assert shrunken.compact().catalogue_bytes_freed == 0
    shrunken.add_rows([{"id": "new", "text": "the parrot"}])
    assert len(_answer(shrunken)) == 21
    _assert_sound(shrunken.library)


@pytest.mark.long
def test_a_reader_goes_on_while_the_catalogue_shrinks(
    shrunken: Collection, open_library: Callable[[], Library]
) -> None:
    reader = open_library()
    with reader.store.database.reading() as connection:
        before = connection.exec_driver_sql("SELECT count(*) FROM documents").scalar_one()
        shrunken.compact()
        assert connection.exec_driver_sql("SELECT count(*) FROM documents").scalar_one() == before
    assert _answer(reader.collection("pets")) == _answer(shrunken)


def test_a_catalogue_that_cannot_be_shrunk_fails_no_compaction(
    shrunken: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(shrunken.library.store.folder / "catalogue.sqlite", isolation_level=None)
    monkeypatch.setattr(database, "_VACUUMED_UNASKED", 0)
    report = shrunken.compact()
    assert report.catalogue_bytes_freed == 0
    (note,) = report.notes
    assert note.endswith("catalogue.sqlite VACUUM")
    monkeypatch.undo()
    monkeypatch.setattr(database, "_WORTH_A_VACUUM", 1 << 18)
    sa.event.listen(shrunken.library.store.database.engine, "checkout", _impatient)
    other.execute("BEGIN IMMEDIATE")
    vacuumed = shrunken.library.store.database.vacuum()
    other.execute("ROLLBACK")
    other.close()
    assert vacuumed.bytes_freed == 0
    assert vacuumed.note is not None
    assert "locked" in vacuumed.note
    assert shrunken.compact().catalogue_bytes_freed > 1_000_000
