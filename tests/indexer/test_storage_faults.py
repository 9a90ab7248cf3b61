"""Files that the system refuses just now: an error that says so, and nothing is taken for damaged."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from naming import Naming
from table_collection import LIVING, nearest_by_force
from words_encoder import WordsEncoder

from nearsay.data.errors import StorageError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.generations import SegmentRow, SegmentState
from nearsay.indexer.doctor import examine
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.vectors import segment
from nearsay.indexer.vectors.errors import DamagedSegmentError, UnknownCollectionError
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.writing import ingest

OpenLibrary = Callable[[], Library]
OpenCollection = Callable[[], Collection]
Refuse = Callable[[pytest.MonkeyPatch, BaseException], None]
NUMBERS = [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EIO, errno.ESTALE]

# Searches with ever more descriptors allowed, eight threads at a time; what is raised, by its type.
_LIMITED = """
import collections, concurrent.futures, json, os, resource, sys
sys.path.insert(0, sys.argv[1])
from words_encoder import WordsEncoder
from nearsay.indexer import Library

words = WordsEncoder()
said = collections.Counter()

def search(library):
    try:
        return len(library.collection("papers").search("a", 9))
    except Exception as error:
        return type(error).__name__

with Library.open(sys.argv[2], load_encoder=lambda _: words) as library:
    search(library)  # imports
used = len(os.listdir("/proc/self/fd"))
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
for more in range(3, 21):
    with Library.open(sys.argv[2], load_encoder=lambda _: words) as library:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, hard))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            said.update(pool.map(search, [library] * 8))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
print(json.dumps(said))
"""


@pytest.fixture
def collection(library: Library) -> Collection:
    """Four segments of a passage each."""
    collection = library.collection("papers")
    for number in range(1, 5):
        collection.add_rows([{"id": f"d{number}", "text": "a" * number}])
    return collection


def refuse_to_open(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    opened = Path.open

    def open_it(self: Path, *arguments: Any, **options: Any) -> Any:
        if self.suffix == ".safetensors":
            raise error
        return opened(self, *arguments, **options)

    patch.setattr(Path, "open", open_it)
    patch.setattr(segment, "known_sha256", segment.file_sha256)  # a machine that has not hashed them yet


def refuse_to_map(patch: pytest.MonkeyPatch, error: BaseException) -> None:
    def refused(*_: object, **__: object) -> None:
        raise error

    patch.setattr(segment.np, "memmap", refused)


def states(collection: Collection) -> set[SegmentState]:
    return {row.state for row in collection.overview().segments}


def files(collection: Collection) -> list[Path]:
    return sorted(path for path in collection._store.folder.rglob("*") if path.suffix == ".safetensors")


def answer(collection: Collection) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in collection.search("a bb", 9)]


refusals = pytest.mark.parametrize("refuse", [refuse_to_open, refuse_to_map])


@pytest.mark.long
@refusals
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "work",
    [lambda c: c.search("a"), Collection.compact, Collection.rebuild],
    ids=["search", "compact", "rebuild"],
)
def test_a_file_that_the_system_refuses_is_not_damaged(
    collection: Collection,
    open_library: OpenLibrary,
    refuse: Refuse,
    number: int,
    work: Callable[[Collection], Any],
) -> None:
    before, there = answer(collection), files(collection)
    other = open_library().collection("papers")
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, OSError(number, os.strerror(number)))
        with pytest.raises(StorageError) as raised:
            work(other)
    assert os.strerror(number) in str(raised.value)
    assert any(str(path) in str(raised.value) for path in there)
    assert states(collection) == {SegmentState.CURRENT}
    assert files(collection) == there
    assert answer(other) == answer(open_library().collection("papers")) == before


@refusals
def test_memory_that_is_short_is_not_damage(
    collection: Collection, open_library: OpenLibrary, refuse: Refuse
) -> None:
    before = answer(collection)
    other = open_library().collection("papers")
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, MemoryError())
        with pytest.raises(StorageError, match="Cannot allocate memory"):
            other.search("a")
    assert states(collection) == {SegmentState.CURRENT}
    assert answer(other) == before


@pytest.mark.long
@refusals
def test_the_doctor_names_a_file_that_is_refused_and_leaves_it(
    collection: Collection, open_library: OpenLibrary, refuse: Refuse
) -> None:
    there = files(collection)
    with pytest.MonkeyPatch.context() as patch:
        refuse(patch, OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        findings = examine(open_library(), prove=True)
    details = [finding.detail for finding in findings if not finding.sound]
    assert len(details) == 4
    assert all(os.strerror(errno.EMFILE) in detail for detail in details)
    assert states(collection) == {SegmentState.CURRENT}
    assert files(collection) == there
    assert all(finding.sound for finding in examine(open_library(), prove=True))


def test_segments_that_were_moved_away_and_back_answer_again(
    collection: Collection, open_library: OpenLibrary
) -> None:
    before = answer(collection)
    folder = collection._store.folder / "segments"
    other = open_library().collection("papers")
    folder.rename(folder.with_name("x"))
    for work in (lambda: other.search("a"), other.compact, other.rebuild):
        with pytest.raises(StorageError) as raised:
            work()
        assert str(folder / "1") in str(raised.value)
    folder.with_name("x").rename(folder)
    assert answer(other) == answer(open_library().collection("papers")) == before


def test_a_library_that_is_moved_while_it_is_written_to_stays_whole_and_nothing_is_made_in_its_old_place(
    collection: Collection, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", 8)
    monkeypatch.setattr(ingest, "_WINDOW_ROWS", 8)
    home, before = collection._store.folder, len(collection)
    there = home.with_name("moved")
    rows = [{"id": f"new-{at}", "text": f"{'a' * (at % 9 + 1)} b"} for at in range(600)]

    def moved_among_them() -> Iterator[dict[str, str]]:
        for row in rows:
            if row["id"] == "new-400":
                home.rename(there)
            yield row

    with pytest.raises(StorageError) as raised:
        collection.add_rows(moved_among_them())
    assert str(home) in str(raised.value)
    assert not home.exists()
    with Library.open(there, load_encoder=lambda _: words) as library:
        assert all(finding.sound for finding in examine(library, prove=True))
        moved = library.collection("papers")
        moved.add_rows(rows)
        assert (moved.overview().waiting, len(moved)) == (0, before + 600)
        assert all(finding.sound for finding in examine(library, prove=True))


def test_a_folder_that_is_lost_for_good_is_embedded_again_once_it_was_made_anew(
    collection: Collection, open_library: OpenLibrary, words: WordsEncoder
) -> None:
    before = answer(collection)
    folder = collection._store.segments(1)
    folder.rename(folder.with_name("lost"))
    other = open_library().collection("papers")
    with pytest.raises(StorageError):
        other.rebuild()
    folder.mkdir()
    words.encoded.clear()
    assert other.rebuild().mended == 4
    assert words.encoded == ["a", "aa", "aaa", "aaaa"]
    assert answer(other) == before


@pytest.mark.long
def test_few_descriptors_make_no_search_mark_a_segment(
    collection: Collection, open_library: OpenLibrary
) -> None:
    before = answer(collection)
    done = subprocess.run(
        [sys.executable, "-c", _LIMITED, str(Path(__file__).parents[1]), str(collection._store.folder)],
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(done.stdout)
    assert "StorageError" in said  # the limit was met where segments are opened
    assert set(said) <= {"StorageError", "CatalogueError", "4"}
    assert states(collection) == {SegmentState.CURRENT}
    assert answer(open_library().collection("papers")) == before


# Places that may not be looked at


def refuse_to_look(patch: pytest.MonkeyPatch, refused: Callable[[str], bool], number: int) -> None:
    looked = os.stat

    def look(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if refused(str(path)):
            raise OSError(number, os.strerror(number), str(path))
        return looked(path, *arguments, **options)

    patch.setattr(os, "stat", look)


def test_a_catalogue_that_may_not_even_be_looked_at_is_reported(
    collection: Collection, open_library: OpenLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection._store.folder
    library = open_library()
    library.close()
    collection.library.close()
    (folder / "catalogue.sqlite").rename(folder / "away.sqlite")
    (folder / "catalogue.sqlite").mkdir()  # SQLite cannot open it
    refuse_to_look(monkeypatch, lambda path: path.endswith("-wal"), errno.EACCES)
    with pytest.raises(StorageError) as raised:
        library.collection("papers").search("a")
    assert str(folder / "catalogue.sqlite") in str(raised.value)


def test_a_merged_file_that_is_away_at_once_is_reported_and_the_next_compaction_merges(
    collection: Collection, open_library: OpenLibrary
) -> None:
    before, there = answer(collection), set(map(str, files(collection)))
    with pytest.MonkeyPatch.context() as patch:
        refuse_to_look(patch, lambda path: path.endswith(".safetensors") and path not in there, errno.ESTALE)
        with pytest.raises(StorageError) as raised:
            collection.compact()
    assert os.strerror(errno.ESTALE) in str(raised.value)
    assert answer(collection) == before
    assert collection.compact().segments_after == 1
    assert answer(open_library().collection("papers")) == before


def test_searches_that_cannot_be_removed_keep_the_collection(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection._searcher.log.switch(on=True)
    before, removed = answer(collection), Path.unlink

    def unlink(self: Path, *, missing_ok: bool = False) -> None:
        if self.suffix == ".jsonl":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(self))
        removed(self, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink)
        with pytest.raises(StorageError) as raised:
            collection.delete()
    assert str(collection._store.searches("papers")) in str(raised.value)
    assert answer(collection) == before
    collection.delete()
    assert not collection.exists()


def test_encoders_that_may_not_be_looked_at_are_reported(library: Library) -> None:
    place = library.store.folder / "encoders"
    with pytest.MonkeyPatch.context() as patch:
        refuse_to_look(patch, lambda path: path == str(place), errno.EIO)
        with pytest.raises(StorageError) as raised:
            library.encoder("mine")
    assert str(place) in str(raised.value)


# An index


@refusals
def test_an_index_that_is_refused_is_not_damaged(
    indexed: Collection, open_table: OpenCollection, refuse: Refuse
) -> None:
    reader = open_table()
    live = reader._record.live()
    (row,) = [row for row in reader.overview().segments if row.kind is SegmentKind.INDEX]
    real = segment._map

    def only_the_index(path: Path) -> Any:
        if path.stem == row.sha256:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment, "_map", only_the_index)
        with pytest.raises(StorageError, match=row.sha256):
            reader.search("1", 10)
    assert live.number == row.generation
    assert states(reader) == {SegmentState.CURRENT}
    hits = reader.search("1", 10)
    assert ([hit.id for hit in hits], hits.notes) == (nearest_by_force(1, 10, LIVING), ())
    assert {hit.lineage.plan for hit in hits} == {"ivf"}


# A collection that changed while its files were refused


def test_files_that_a_compaction_replaced_meanwhile_are_looked_for_anew(
    collection: Collection, open_library: OpenLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system says ESTALE of what was removed on another machine."""
    before = answer(collection)
    reader = open_library().collection("papers")
    hashed = segment.known_sha256
    compacted: list[Path] = []

    def stale(path: Path) -> str:
        if not compacted:
            compacted.append(path)
            collection.compact()
        if not path.exists():
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return hashed(path)

    monkeypatch.setattr(segment, "known_sha256", stale)
    assert answer(reader) == before
    assert compacted


def test_a_collection_deleted_while_its_files_are_opened_is_unknown(
    collection: Collection, open_library: OpenLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_library().collection("papers")
    hashed = segment.known_sha256
    deleted: list[Path] = []

    def gone(path: Path) -> str:
        if not deleted:
            deleted.append(path)
            collection.delete()
        return hashed(path)

    monkeypatch.setattr(segment, "known_sha256", gone)
    with pytest.raises(UnknownCollectionError):
        reader.search("a")


# Quarantine that was a mistake


def quarantined(collection: Collection, first_passage: int, *, moved: bool) -> SegmentRow:
    """A segment that is in quarantine though its file is whole, at its place or moved aside."""
    store = collection._store
    (row,) = [row for row in collection.overview().segments if row.first_passage == first_passage]
    with store.database.writing() as connection:
        generations.set_segment_state(connection, row, SegmentState.QUARANTINED)
        collections.changed(connection, 1)
    if moved:
        store.quarantine.mkdir(exist_ok=True)
        path = store.segment(1, row.sha256)
        path.rename(store.quarantine / path.name)
    return row


@pytest.mark.parametrize("moved", [True, False])
def test_a_rebuild_puts_back_what_is_whole_after_all(
    collection: Collection, open_library: OpenLibrary, words: WordsEncoder, moved: bool
) -> None:
    before, there = answer(collection), files(collection)
    quarantined(collection, 2, moved=moved)
    with pytest.raises(DamagedSegmentError):
        open_library().collection("papers").search("a")
    words.encoded.clear()
    report = collection.rebuild()
    assert (report.restored, report.mended, report.embedded, words.encoded) == (1, 0, 0, [])
    (note,) = report.notes
    assert note == Naming("1 segment", "put back")
    assert files(collection) == there
    assert answer(open_library().collection("papers")) == before


def test_a_copy_that_was_damaged_earlier_does_not_hide_the_whole_one(
    collection: Collection, words: WordsEncoder
) -> None:
    before = answer(collection)
    store = collection._store
    row = quarantined(collection, 2, moved=True)
    place = store.quarantine / f"{row.sha256}.safetensors"
    place.rename(place.with_name(f"{row.sha256}-2.safetensors"))
    place.write_bytes(b"damaged")
    words.encoded.clear()
    assert collection.rebuild().restored == 1
    assert (words.encoded, answer(collection)) == ([], before)
    assert place.read_bytes() == b"damaged"


def test_a_rebuild_embeds_nothing_anew_while_a_file_in_quarantine_is_refused(
    collection: Collection, words: WordsEncoder
) -> None:
    quarantined(collection, 2, moved=True)
    words.encoded.clear()
    with pytest.MonkeyPatch.context() as patch:
        refuse_to_open(patch, OSError(errno.EIO, os.strerror(errno.EIO)))
        with pytest.raises(StorageError):
            collection.rebuild()
    assert words.encoded == []
    assert collection.rebuild().restored == 1
