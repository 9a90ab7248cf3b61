"""Damaged files: refused, kept, mended."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Collection, Library, VectorsOnly
from nearsay.indexer.catalogue.generations import SegmentRow, SegmentState
from nearsay.indexer.doctor import examine
from nearsay.indexer.snapshots import latest_snapshot
from nearsay.indexer.vectors.errors import CatalogueError, DamagedSegmentError

OpenLibrary = Callable[[], Library]
QUERIES = ("a", "bb", "a ccc", "dddd eeeee")


@pytest.fixture
def collection(library: Library) -> Collection:
    """Three segments of two, three and one passages."""
    collection = library.collection("papers")
    collection.add_rows([{"id": "d1", "text": "a"}, {"id": "d2", "text": "a bb"}])
    collection.add_rows([{"id": f"e{i}", "title": "ccc", "text": "bb" + " a" * i} for i in range(3)])
    collection.add_rows([{"id": "f", "text": "dddd eeeee"}])
    return collection


def segment_of(collection: Collection, first_passage: int) -> SegmentRow:
    return next(row for row in collection.overview().segments if row.first_passage == first_passage)


def path_of(collection: Collection, row: SegmentRow) -> Path:
    return collection._store.segment(collection._record.row().id, row.sha256)


def answers(collection: Collection) -> list[list[tuple[str, float, str]]]:
    return [[(hit.id, hit.score, hit.text) for hit in collection.search(query, 9)] for query in QUERIES]


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 0x10  # in the last vector
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def test_vectors_that_are_made_elsewhere_are_mended_by_rows_that_bring_them_again(
    open_library: OpenLibrary,
) -> None:
    rows = [{"id": f"d{at}", "text": f"row {at}"} for at in range(6)]
    vectors = np.eye(6, dtype=np.float32)
    made = open_library().collection("made", encoder=VectorsOnly("elsewhere", 6))
    for begin in (0, 2, 4):
        made.add_rows(rows[begin : begin + 2], vectors=vectors[begin : begin + 2])
    for first in (1, 3):
        flip_a_byte(path_of(made, segment_of(made, first)))
    damaged = open_library().collection("made")
    with pytest.raises(BadInputError) as refused:
        damaged.rebuild()
    assert str(refused.value) == Naming(2, "made", "elsewhere", "d0", "d1", "vectors=")
    assert damaged.add_rows(rows[1:4], vectors=vectors[1:4]).notes == (Naming(2, "passages", "again"),)
    with pytest.raises(DamagedSegmentError):
        damaged.search(vectors[0])
    assert damaged.add_rows(rows[:1], vectors=vectors[:1]).notes == ()
    assert damaged.add_rows(rows[:2], vectors=vectors[:2]).notes == (Naming(2, "passages", "again"),)
    numbers, stored = damaged.vectors()
    np.testing.assert_array_equal(numbers, np.arange(1, 7))
    np.testing.assert_array_equal(stored, vectors)
    assert [str(one) for one in examine(damaged.library) if not one.sound] == []


@pytest.mark.long
@pytest.mark.parametrize("damage", [flip_a_byte, truncate, empty])
def test_a_damaged_segment_is_refused_set_aside_and_mended(
    collection: Collection,
    open_library: OpenLibrary,
    words: WordsEncoder,
    damage: Callable[[Path], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(latest_snapshot, "_PATIENCE", 60.0)  # seconds until the former one serves
    before = answers(collection)
    row = segment_of(collection, 3)
    path = path_of(collection, row)
    damage(path)
    damaged = path.read_bytes()

    with pytest.raises(DamagedSegmentError) as raised:
        open_library().collection("papers").search("a")
    said = str(raised.value)
    assert said == Naming(
        "'papers'", f"segment {path.name} is damaged", "hashes to", "3 passages", "nothing is answered"
    )
    assert said.endswith(": nearsay index rebuild papers")
    assert "\n" not in said
    assert not path.exists()
    assert (collection._store.quarantine / path.name).read_bytes() == damaged
    assert segment_of(collection, 3).state is SegmentState.QUARANTINED

    for reader in (collection, open_library().collection("papers")):
        for ask in (lambda c: c.search("a"), lambda c: c.similar("d1"), lambda c: c.vectors()):
            with pytest.raises(DamagedSegmentError) as raised:
                ask(reader)
            assert str(raised.value) == Naming(
                "'papers'", "quarantine", "3 passages", "nothing is answered", "nearsay index rebuild papers"
            )

    words.encoded.clear()
    report = collection.rebuild()
    assert (report.mended, report.embedded) == (1, 3)
    assert words.encoded == ["ccc bb", "ccc bb a", "ccc bb a a"]
    for reader in (collection, open_library().collection("papers")):
        assert answers(reader) == before
    assert (collection._store.quarantine / path.name).read_bytes() == damaged
    assert all(finding.sound for finding in examine(collection.library, prove=True))


def test_a_missing_segment_is_refused_and_mended(collection: Collection, open_library: OpenLibrary) -> None:
    before = answers(collection)
    path = path_of(collection, segment_of(collection, 1))
    path.unlink()
    with pytest.raises(DamagedSegmentError, match=f"segment {path.name} is missing.*2 passages"):
        open_library().collection("papers").search("a")
    assert collection.rebuild().mended == 1
    assert answers(open_library().collection("papers")) == before


def test_a_segment_that_was_missing_for_a_moment_answers_as_soon_as_it_is_back(
    collection: Collection, open_library: OpenLibrary, words: WordsEncoder
) -> None:
    before = answers(collection)
    place = path_of(collection, segment_of(collection, 3))
    away = place.rename(place.with_name("away"))
    other = open_library().collection("papers")
    for _ in range(2):
        with pytest.raises(DamagedSegmentError, match=f"segment {place.name} is missing.*3 passages"):
            other.search("a")
    with pytest.raises(DamagedSegmentError, match="missing"):
        collection.compact()
    away.rename(place)
    words.encoded.clear()
    assert answers(other) == before
    assert all(finding.sound for finding in examine(collection.library))
    assert collection.rebuild().mended == 0


@pytest.mark.parametrize("damage", [Path.unlink, flip_a_byte])
def test_additions_are_reported_though_a_segment_that_they_would_be_merged_with_is_damaged(
    library: Library, open_library: OpenLibrary, damage: Callable[[Path], None]
) -> None:
    collection = library.collection("many")
    collection.add_rows(["a"])
    damage(path_of(collection, segment_of(collection, 1)))
    added = [open_library().collection("many").add_rows(["b" * (2 + i)]).added for i in range(12)]
    assert added == [1] * 12
    with pytest.raises(DamagedSegmentError):
        open_library().collection("many").search("a")
    assert collection.rebuild().mended == 1
    assert len(collection.search("a", 20)) == 13


def test_one_rebuild_mends_every_damaged_segment(collection: Collection, open_library: OpenLibrary) -> None:
    before = answers(collection)
    for first_passage in (1, 3):
        flip_a_byte(path_of(collection, segment_of(collection, first_passage)))
    with pytest.raises(DamagedSegmentError, match=r"\b2 passages"):
        open_library().collection("papers").search("a")
    assert collection.rebuild().mended == 2
    assert answers(open_library().collection("papers")) == before


def test_damage_that_only_the_doctor_saw_is_mended_by_its_remedy(collection: Collection) -> None:
    before = answers(collection)
    flip_a_byte(path_of(collection, segment_of(collection, 3)))
    (finding,) = [finding for finding in examine(collection.library) if not finding.sound]
    assert finding.detail.endswith(": nearsay index rebuild papers")
    assert collection.rebuild().mended == 1
    assert all(finding.sound for finding in examine(collection.library))
    assert answers(collection) == before


def test_removed_documents_stay_removed_when_their_segment_is_mended(
    collection: Collection, open_library: OpenLibrary, words: WordsEncoder
) -> None:
    collection.remove(["e1"])
    flip_a_byte(path_of(collection, segment_of(collection, 3)))
    other = open_library().collection("papers")
    with pytest.raises(DamagedSegmentError):
        other.search("a")
    words.encoded.clear()
    other.rebuild()
    assert words.encoded == ["ccc bb", "ccc bb a a"]
    assert sorted(hit.id for hit in other.search("a", 9)) == ["d1", "d2", "e0", "e2", "f"]


def test_a_segment_of_which_every_document_is_gone_is_mended_by_forgetting_it(
    collection: Collection, open_library: OpenLibrary
) -> None:
    collection.remove(["d1", "d2"])
    path_of(collection, segment_of(collection, 1)).unlink()
    other = open_library().collection("papers")
    with pytest.raises(DamagedSegmentError):
        other.search("a")
    assert other.rebuild().mended == 1
    assert sorted(hit.id for hit in other.search("a", 9)) == ["e0", "e1", "e2", "f"]
    assert all(finding.sound for finding in examine(other.library, prove=True))


def test_a_file_damaged_twice_is_kept_twice(collection: Collection, open_library: OpenLibrary) -> None:
    kept: list[bytes] = []
    for damage in (truncate, flip_a_byte):
        path = path_of(collection, segment_of(collection, 6))
        damage(path)
        kept.append(path.read_bytes())
        with pytest.raises(DamagedSegmentError):
            open_library().collection("papers").search("a")
        collection.rebuild()
    found = sorted(collection._store.quarantine.iterdir())
    assert sorted(path.read_bytes() for path in found) == sorted(kept)


def test_a_compaction_refuses_damage_and_sets_it_aside(collection: Collection) -> None:
    collection.remove(["d1"])
    path = path_of(collection, segment_of(collection, 3))
    flip_a_byte(path)
    with pytest.raises(DamagedSegmentError, match=r"generation 1: segment .* damaged.*: .* rebuild papers$"):
        collection.compact()
    assert (collection._store.quarantine / path.name).exists()
    with pytest.raises(DamagedSegmentError, match=r"in quarantine.*: nearsay index rebuild papers$"):
        collection.compact()
    collection.rebuild()
    collection.compact()
    assert len(collection.search("a", 9)) == 5


def test_a_damaged_retired_generation_can_be_dropped(
    collection: Collection, open_library: OpenLibrary
) -> None:
    path = path_of(collection, segment_of(collection, 1))
    wider = WordsEncoder(name="wider", dimension=12)
    collection.rebuild(wider)
    collection.promote()
    before = answers(collection)
    flip_a_byte(path)
    (finding,) = [finding for finding in examine(collection.library) if not finding.sound]
    assert finding.subject == "papers, generation 1 (retired)"
    with pytest.raises(DamagedSegmentError, match=r": nearsay index compact papers --drop-retired$"):
        collection.compact()
    collection.compact(drop_retired=True)
    assert all(finding.sound for finding in examine(collection.library))
    assert answers(collection) == before


def test_going_back_to_a_damaged_generation_mends_it(collection: Collection, words: WordsEncoder) -> None:
    before = answers(collection)
    path = path_of(collection, segment_of(collection, 3))
    collection.rebuild(WordsEncoder(name="wider", dimension=12))
    collection.promote()
    flip_a_byte(path)
    words.encoded.clear()
    assert collection.rollback() == 1
    assert words.encoded == ["ccc bb", "ccc bb a", "ccc bb a a"]
    assert answers(collection) == before


def test_where_nothing_may_be_written_damage_is_still_refused(
    collection: Collection, open_library: OpenLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = path_of(collection, segment_of(collection, 3))
    flip_a_byte(path)
    reader = open_library()

    def refused() -> None:
        raise NearsayError("attempt to write a readonly database")

    monkeypatch.setattr(type(reader.store.database), "writing", lambda _: refused())
    with pytest.raises(DamagedSegmentError, match=r"\b3 passages"):
        reader.collection("papers").search("a")
    assert path.exists()


# The catalogue and the identity of a library


@pytest.fixture
def closed(collection: Collection) -> Path:
    """The folder of the library, after it was closed."""
    collection.library.close()
    return collection._store.folder


def catalogue_of(folder: Path) -> Path:
    return folder / "catalogue.sqlite"


@pytest.mark.parametrize("content", [b"this is no database, whatever its name says" * 100, None])
def test_a_damaged_catalogue_is_named_with_the_remedy(
    closed: Path, open_library: OpenLibrary, content: bytes | None
) -> None:
    if content is None:  # the schema's page torn
        whole = bytearray(catalogue_of(closed).read_bytes())
        whole[100:3000] = b"\xff" * 2900
        content = bytes(whole)
    catalogue_of(closed).write_bytes(content)
    with pytest.raises(CatalogueError) as raised:
        open_library()
    said = str(raised.value)
    assert str(catalogue_of(closed)) in said
    assert "is damaged" in said
    assert "Restore it from a backup" in said
    assert "\n" not in said


def test_a_catalogue_of_a_newer_nearsay_asks_for_an_upgrade(closed: Path, open_library: OpenLibrary) -> None:
    engine = sa.create_engine(sa.URL.create("sqlite", database=str(catalogue_of(closed))))
    with engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(CatalogueError, match=r"newer nearsay \(schema 9999\).*pip install -U nearsay"):
        open_library()


def test_a_lost_catalogue_is_not_replaced_by_an_empty_one(closed: Path, open_library: OpenLibrary) -> None:
    kept = catalogue_of(closed).with_name("backup")
    catalogue_of(closed).rename(kept)
    for _ in range(2):
        with pytest.raises(CatalogueError, match=r"no nearsay catalogue.*backup"):
            open_library()
    for path in closed.glob("catalogue.sqlite*"):
        path.unlink()
    kept.rename(catalogue_of(closed))
    assert len(open_library().collection("papers").search("a")) == 6


def test_a_lost_identity_is_made_anew_from_the_catalogue(closed: Path, open_library: OpenLibrary) -> None:
    identity = closed / "library.json"
    before = identity.read_text()
    identity.unlink()
    assert len(open_library().collection("papers").search("a")) == 6
    assert json.loads(identity.read_text()) == json.loads(before)


def test_a_lost_identity_is_no_library_to_a_reader_that_may_not_make_one(closed: Path) -> None:
    (closed / "library.json").unlink()
    with pytest.raises(BadInputError, match="there is no library in"):
        Library.open(closed, create=False)
    assert not (closed / "library.json").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"3", b"null", b'{"id": "x"}', b"\xff\xfe"])
def test_a_garbled_identity_is_named_with_the_remedy(
    closed: Path, open_library: OpenLibrary, content: bytes
) -> None:
    (closed / "library.json").write_bytes(content)
    with pytest.raises(CatalogueError, match=r"library\.json cannot be read .*backup"):
        open_library()


def test_the_folder_of_one_library_with_the_catalogue_of_another_is_refused(
    closed: Path, open_library: OpenLibrary, tmp_path: Path
) -> None:
    Library.open(tmp_path / "other").close()
    shutil.copy(tmp_path / "other" / "catalogue.sqlite", catalogue_of(closed))
    with pytest.raises(CatalogueError, match="different libraries"):
        open_library()
    shutil.copy(tmp_path / "other" / "library.json", closed / "library.json")
    assert open_library().names() == []


def test_a_library_of_a_postgresql_catalogue_asks_for_its_address(
    closed: Path, open_library: OpenLibrary
) -> None:
    identity = closed / "library.json"
    identity.write_text(json.dumps(json.loads(identity.read_text()) | {"database": "given"}))
    with pytest.raises(BadInputError, match=r"PostgreSQL.*--database URL"):
        open_library()


def test_a_library_of_an_sqlite_catalogue_takes_no_other(closed: Path) -> None:
    with pytest.raises(BadInputError, match=r"SQLite.*Omit --database"):
        Library.open(closed, database="postgresql://nobody@localhost/nothing")
