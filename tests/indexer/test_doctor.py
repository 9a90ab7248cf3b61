"""Whether rows, vectors and indexes say the same."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
from naming import Naming
from numpy.typing import NDArray
from words_encoder import WordsEncoder

from nearsay.data.errors import NearsayError
from nearsay.data.report import Finding
from nearsay.indexer import Collection, Library, collection_writing, doctor
from nearsay.indexer.catalogue import collections, generations, ranges
from nearsay.indexer.catalogue.generations import SegmentState
from nearsay.indexer.catalogue.lexical_rows import delete_rows, drop_table, insert_rows
from nearsay.indexer.catalogue.tables import passages
from nearsay.indexer.catalogue.tables import segments as segment_table
from nearsay.indexer.doctor import examine
from nearsay.indexer.snapshots import latest_snapshot
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import CatalogueError, DamagedSegmentError, UnreadableWordsError
from nearsay.indexer.vectors.segment import SegmentKind, write_vectors
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore
from nearsay.training.sentence.bundled import bundled_folder

OpenLibrary = Callable[[], Library]
ANEW = "Embed it again: nearsay index rebuild texts --encoder words, then nearsay index promote texts"
MEND = "Repair it: nearsay index rebuild texts"
SUBJECT = "texts, generation 1 (live)"


@pytest.fixture
def collection(library: Library) -> Collection:
    """Passages 1 to 4 in a segment."""
    collection = library.collection("texts")
    collection.add_rows([{"id": f"d{i}", "text": "a " * i + "bb"} for i in range(4)])
    return collection


def replace_vectors(collection: Collection, ids: list[int], vectors: NDArray[np.float32]) -> None:
    """Exchange the collection's segment for one that is sound in itself, catalogue and all."""
    store, live = collection._store, collection._record.live()
    path = write_vectors(
        store.segments(live.collection_id), np.array(ids, dtype=np.int64), vectors, live.encoder.fingerprint
    )
    with store.database.writing() as connection:
        for row in collection.overview().segments:
            generations.remove_segment(connection, row)
        generations.add_segment(connection, live, SegmentKind.VECTORS, path, len(ids), (min(ids), max(ids)))
        collections.changed(connection, live.collection_id)


def unsound(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.subject, finding.detail) for finding in findings if not finding.sound]


def counts(passages: int, vectors: int, wait: int = 0, lack: int = 0, of_none: int = 0) -> str:
    return (
        f"{passages} passages in SQL, {vectors} vectors in 1 segment, hashes agree; "
        f"{wait} wait, {lack} lack a vector, {of_none} vectors of no passage"
    )


def test_a_good_library_is_sound_throughout(collection: Collection) -> None:
    assert examine(collection.library) == [
        Finding("catalogue", "the database's file is whole", sound=True),
        Finding(SUBJECT, counts(4, 4), sound=True),
        Finding("texts, words", "those of 4 passages are there", sound=True),
        Finding("texts", "0 files that nothing points to", sound=True),
    ]


def test_a_good_library_proves_itself(collection: Collection, words: WordsEncoder) -> None:
    words.encoded.clear()
    findings = examine(collection.library, prove=True)
    assert findings[0].detail == Naming("file is whole", "compared")
    assert findings[2:4] == [
        Finding(
            "texts, words", "those of 4 passages are there, each word compared with the text", sound=True
        ),
        Finding("texts, texts", "4 documents, each compared with its hashes", sound=True),
    ]
    assert findings[5:] == [
        Finding(
            "texts, proof", "4 passages encoded again: cosine to what is stored at least 1.00000", sound=True
        ),
        Finding("texts, proof", "4 of 4 found themselves first", sound=True),
    ]
    assert words.encoded == ["bb", "a bb", "a a bb", "a a a bb"]


def test_nothing_is_encoded_unless_a_proof_is_asked_for(collection: Collection, words: WordsEncoder) -> None:
    words.encoded.clear()
    examine(collection.library)
    assert words.encoded == []


def test_a_proof_takes_a_sample_of_a_large_collection(collection: Collection, words: WordsEncoder) -> None:
    collection.add_rows(
        [{"id": f"e{i}", "text": f"{'a ' * (i % 9)}{'b' * (i % 7 + 1)} ccc"} for i in range(200)]
    )
    words.encoded.clear()
    findings = examine(collection.library, prove=True)
    assert findings[-1].detail == Naming("50 of 50")
    assert len(words.encoded) == 50


@pytest.mark.parametrize(("lost", "sound"), [(1, True), (5, True), (6, False), (50, False)])
def test_an_index_may_miss_as_many_as_its_contract_lets_it(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch, lost: int, sound: bool
) -> None:
    nearest, asked = Snapshot.nearest, list[int]()

    def missing(snapshot: Snapshot, query: NDArray[np.float32], *rest: Any) -> Candidates:
        found = nearest(snapshot, query, *rest)
        asked.append(0)
        return Candidates(found.ids[1:], found.scores[1:]) if len(asked) <= lost else found

    monkeypatch.setattr(Snapshot, "nearest", missing)
    finding = examine(indexed.library, prove=True)[-1]
    assert finding.sound == sound
    said = f"{50 - lost} of 50 found themselves first through the index, whose contract is recall 0.95@10"
    assert finding.detail == said + (
        "" if sound else ". Choose and build the index again: nearsay index tune table"
    )


def test_vectors_that_are_no_passages_own_are_found_beside_an_index(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def another(_: VectorStore, *__: Any) -> Candidates:
        return Candidates(np.array([1]), np.array([1.0], dtype=np.float32))

    monkeypatch.setattr(Snapshot, "nearest", another)
    monkeypatch.setattr(VectorStore, "nearest", another)
    ((_, detail),) = unsound(examine(indexed.library, prove=True))
    assert detail.endswith("nearsay index promote table")


@pytest.mark.long
def test_an_empty_library_is_sound(library: Library) -> None:
    (finding,) = examine(library, prove=True)
    assert finding.subject == "catalogue"
    assert finding.sound


def test_a_collection_that_holds_nothing_yet_is_empty_and_sound(library: Library) -> None:
    library.collection("texts")._record.made()
    assert examine(library, prove=True)[1:] == [Finding("texts", "empty", sound=True)]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_collection_of_which_everything_was_removed_is_sound(
    collection: Collection, compacted: bool
) -> None:
    collection.remove(document.id for document in collection)
    if compacted:
        collection.compact()
    findings = examine(collection.library, prove=True)
    assert unsound(findings) == []
    assert findings[-1] == Finding("texts, proof", "no passages to prove it with", sound=True)


def test_many_copies_of_one_text_prove_themselves(collection: Collection) -> None:
    collection.add_rows([{"id": f"copy{i}", "text": "dddd"} for i in range(40)])
    findings = examine(collection.library, prove=True)
    assert unsound(findings) == []
    assert findings[-1].detail == Naming("44 of 44")


def test_removed_passages_that_are_still_in_a_segment_are_counted_with_what_frees_them(
    collection: Collection,
) -> None:
    collection.remove(["d1"])
    detail = f"{counts(3, 4)}, 1 of removed passages (nearsay index compact texts)"
    assert examine(collection.library, prove=True)[1] == Finding(SUBJECT, detail, sound=True)
    collection.compact()
    assert "removed" not in examine(collection.library)[1].detail


def test_a_passage_without_a_vector_is_found(collection: Collection) -> None:
    replace_vectors(collection, [1, 2, 4], collection.snapshot().vectors.segments[0].vectors[[0, 1, 3]])
    assert unsound(examine(collection.library)) == [(SUBJECT, f"{counts(4, 3, lack=1)}. {MEND}")]


def test_a_vector_of_no_passage_is_found(collection: Collection) -> None:
    vectors = collection.snapshot().vectors.segments[0].vectors
    replace_vectors(collection, [1, 2, 3, 4, 5], vectors[[0, 1, 2, 3, 3]])
    assert unsound(examine(collection.library)) == [(SUBJECT, f"{counts(4, 5, of_none=1)}. {MEND}")]


@pytest.mark.long
def test_what_lacks_a_vector_is_sound_after_its_remedy(collection: Collection) -> None:
    replace_vectors(collection, [1, 2, 4], collection.snapshot().vectors.segments[0].vectors[[0, 1, 3]])
    assert collection.rebuild().embedded == 1
    assert unsound(examine(collection.library, prove=True)) == []
    assert [hit.id for hit in collection.search("bb", 4)] == ["d0", "d1", "d2", "d3"]


def test_numbers_that_do_not_rise_are_found(collection: Collection) -> None:
    replace_vectors(collection, [1, 3, 2, 4], collection.snapshot().vectors.segments[0].vectors[:])
    assert unsound(examine(collection.library)) == [(SUBJECT, f"{counts(4, 4)}. {MEND}")]


def write_twice(collection: Collection) -> NDArray[np.float32]:
    """What two writers at once once left: passages 3 and 4 in two segments, the mark behind the last."""
    vectors = np.array(collection.snapshot().vectors.segments[0].vectors)
    replace_vectors(collection, [1, 2, 3, 4], vectors)
    store, live = collection._store, collection._record.live()
    folder = store.segments(live.collection_id)
    path = write_vectors(folder, np.array([3, 4]), vectors[2:], live.encoder.fingerprint)
    with store.database.writing() as connection:
        generations.add_segment(connection, live, SegmentKind.VECTORS, path, 2, (3, 4))
        ranges.fill(connection, live, 2)
        collections.changed(connection, live.collection_id)
    return vectors


@pytest.mark.long
def test_vectors_that_two_writers_left_are_named_never_searched_and_mended(
    collection: Collection, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_snapshot, "_PATIENCE", 60.0)  # seconds until the former one serves
    wanted = {hit.id: hit.score for hit in collection.search("a bb", 9, mode="dense")}
    write_twice(collection)
    detail = counts(4, 6, wait=2).replace("1 segment", "2 segments")
    said = f"{detail}, 2 vectors twice, 2 have a vector though they wait. {MEND}"
    assert unsound(examine(collection.library)) == [(SUBJECT, said)]
    for work in (lambda: collection.search("a bb"), collection.compact):
        with pytest.raises(DamagedSegmentError, match=r"overlap.*: nearsay index rebuild texts$"):
            work()
    words.encoded.clear()
    report = collection.rebuild()
    assert (report.mended, report.embedded, words.encoded) == (2, 0, [])
    assert unsound(examine(collection.library, prove=True)) == []
    assert {hit.id: hit.score for hit in collection.search("a bb", 9, mode="dense")} == pytest.approx(wanted)
    collection.add_rows(["a cow"])
    assert words.encoded[-1] == "a cow"
    assert unsound(examine(collection.library, prove=True)) == []


def test_of_two_vectors_that_differ_neither_is_kept(collection: Collection, words: WordsEncoder) -> None:
    vectors = np.array(collection.snapshot().vectors.segments[0].vectors)
    replace_vectors(collection, [1, 2, 3, 3, 4], vectors[[0, 1, 2, 0, 3]])
    words.encoded.clear()
    assert collection.rebuild().embedded == 1
    assert words.encoded == ["a a bb"]
    assert unsound(examine(collection.library, prove=True)) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("ids", "rows"),
    [
        ([1, 3, 2, 4], [0, 2, 1, 3]),  # out of order
        ([1, 2, 3, 4, 5], [0, 1, 2, 3, 3]),  # one of no passage
        ([3], [2]),  # most are lacking
    ],
)
def test_a_rebuild_gives_every_passage_one_vector(
    collection: Collection, ids: list[int], rows: list[int]
) -> None:
    replace_vectors(collection, ids, np.array(collection.snapshot().vectors.segments[0].vectors)[rows])
    assert len(unsound(examine(collection.library))) == 1
    collection.rebuild()
    assert unsound(examine(collection.library, prove=True)) == []


def test_vectors_that_are_not_of_unit_length_are_made_anew(
    collection: Collection, words: WordsEncoder
) -> None:
    vectors = np.array(collection.snapshot().vectors.segments[0].vectors)
    vectors[2] *= 0.5
    replace_vectors(collection, [1, 2, 3, 4], vectors)
    words.encoded.clear()
    collection.rebuild()
    assert words.encoded == ["a a bb"]
    assert unsound(examine(collection.library, prove=True)) == []


@pytest.mark.parametrize("factor", [0.5, np.nan, np.inf])
def test_vectors_that_are_not_of_unit_length_are_found(collection: Collection, factor: float) -> None:
    vectors = collection.snapshot().vectors.segments[0].vectors.copy()
    vectors[2, 0] *= factor
    replace_vectors(collection, [1, 2, 3, 4], vectors)
    assert unsound(examine(collection.library)) == [(SUBJECT, Naming("not of unit length", MEND))]


def test_passages_that_wait_are_counted_and_sound(collection: Collection) -> None:
    with collection._store.database.writing() as connection:
        connection.execute(passages.update().where(passages.c.number == 4).values(number=50))
    findings = examine(collection.library)
    # The old number of the passage that waits is a vector of no passage: nobody removed it.
    assert findings[1].detail.startswith(counts(4, 4, wait=1, of_none=1))
    replace_vectors(collection, [1, 2, 3], collection.snapshot().vectors.segments[0].vectors[:3])
    assert examine(collection.library)[1] == Finding(SUBJECT, counts(4, 3, wait=1), sound=True)


def test_a_damaged_segment_is_found_and_left_where_it_is(collection: Collection) -> None:
    (row,) = collection.overview().segments
    path = collection._store.segment(1, row.sha256)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    for _ in range(2):
        ((subject, detail),) = unsound(examine(collection.library, prove=True))
        assert subject == SUBJECT
        assert detail == Naming(f"segment {path.name} is damaged", "hashes to", "nearsay index rebuild texts")
        assert path.exists()
    assert collection.overview().segments[0].state is SegmentState.CURRENT


def test_a_missing_segment_is_found(collection: Collection) -> None:
    (row,) = collection.overview().segments
    path = collection._store.segment(1, row.sha256)
    path.unlink()
    said = f"segment {path.name} is missing from {path.parent}. Repair it: nearsay index rebuild texts"
    assert unsound(examine(collection.library, prove=True)) == [(SUBJECT, said)]


def test_a_segment_in_quarantine_is_found(collection: Collection) -> None:
    (row,) = collection.overview().segments
    with collection._store.database.writing() as connection:
        generations.set_segment_state(connection, row, SegmentState.QUARANTINED)
    said = f"segment {row.sha256}.safetensors is in quarantine. Repair it: nearsay index rebuild texts"
    assert unsound(examine(collection.library)) == [(SUBJECT, said)]


def test_a_catalogue_that_counts_otherwise_than_its_segment_is_found(collection: Collection) -> None:
    with collection._store.database.writing() as connection:
        connection.execute(segment_table.update().values(count=5))
    ((_, detail),) = unsound(examine(collection.library))
    assert detail == Naming("count is 4, not 5", "Repair it")


def test_files_that_nothing_points_to_are_counted_and_sound(collection: Collection) -> None:
    folder = collection._store.segments(1)
    (folder / "left.safetensors").write_bytes(b"x" * 150_000)
    (folder / ".writing-1").write_bytes(b"x" * 50_000)
    findings = examine(collection.library)
    assert findings[3] == Finding(
        "texts", "2 files that nothing points to (0.2 MB; nearsay index compact texts)", sound=True
    )
    collection.compact()
    assert examine(collection.library)[3].detail == Naming("0 files")


def test_what_deleted_collections_and_earlier_versions_left_is_counted_and_gone_after_the_next_compaction(
    collection: Collection,
) -> None:
    library = collection.library
    for left in ("segments/77", "reports/1"):
        (library.store.folder / left).mkdir(parents=True)
    *_, said = examine(library)
    assert said.sound
    assert said.detail == Naming("2 folders", "(reports, segments/77)", "nearsay index compact")
    collection.compact()
    assert len(examine(library)) == 4


def test_every_generation_is_examined(collection: Collection) -> None:
    collection.rebuild(WordsEncoder(name="wider", dimension=12))
    subjects = [finding.subject for finding in examine(collection.library, prove=True)]
    assert subjects == [
        "catalogue",
        "texts, generation 1 (live)",
        "texts, generation 2 (ready)",
        "texts, words",
        "texts, texts",
        "texts",
        "texts, proof",
        "texts, proof",
    ]


def test_damage_in_one_collection_does_not_keep_another_from_its_proof(
    collection: Collection, library: Library
) -> None:
    library.collection("zebra").add_rows(["a", "bb"])
    (row,) = collection.overview().segments
    collection._store.segment(1, row.sha256).unlink()
    findings = examine(library, prove=True)
    assert [subject for subject, _ in unsound(findings)] == [SUBJECT]
    assert [finding.subject for finding in findings if finding.subject.endswith("proof")] == [
        "zebra, proof"
    ] * 2


def test_vectors_that_were_exchanged_consistently_are_caught_by_the_proof(collection: Collection) -> None:
    vectors = collection.snapshot().vectors.segments[0].vectors
    replace_vectors(collection, [1, 2, 3, 4], vectors[::-1])
    assert unsound(examine(collection.library)) == []
    ((subject, detail),) = unsound(examine(collection.library, prove=True))
    # The farthest exchange is (0, 1) for "a a a bb", which is (3, 1)/√10: a cosine of 1/√10.
    assert subject == "texts, proof"
    assert detail == Naming("4 passages", "0.31623", ANEW)


def test_an_encoder_that_has_changed_is_told_by_the_proof(
    collection: Collection, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WordsEncoder, "fingerprint", property(lambda _: "0" * 64))
    ((subject, detail),) = unsound(examine(library, prove=True))
    assert subject == "texts, proof"
    assert "'words' has changed" in detail


@pytest.fixture
def either(catalogue_url: str, tmp_path: Path, words: WordsEncoder) -> Iterator[Collection]:
    """Passages 1 to 3 in a library of either kind of database."""
    url = catalogue_url if catalogue_url.startswith("postgresql") else None
    with Library.open(tmp_path / "either", database=url, load_encoder=lambda _: words) as library:
        collection = library.collection("texts", encoder=words)
        collection.add_rows([{"id": f"d{i}", "text": "a " * i + "bb"} for i in range(3)])
        yield collection


ENTER = "Recreate them: nearsay index rebuild texts"


def test_words_that_are_missing_are_found_and_entered_anew(either: Collection) -> None:
    with either.library.store.database.writing() as connection:
        delete_rows(connection, 1, passages.c.number == 3)
    said = f"1 passage without words, 0 rows of words without a passage, 0 wrong. {ENTER}"
    assert unsound(examine(either.library)) == [("texts, words", said)]
    assert [hit.id for hit in either.search("a", mode="lexical")] == ["d1"]
    either.rebuild()
    assert unsound(examine(either.library, prove=True)) == []
    assert [hit.id for hit in either.search("a", mode="lexical")] == ["d2", "d1"]


@pytest.mark.long
def test_words_of_no_passage_are_found_and_gone_after_a_rebuild(either: Collection) -> None:
    with either.library.store.database.writing() as connection:
        insert_rows(connection, 1, [99], ["stray"])
    said = f"0 passages without words, 1 row of words without a passage, 0 wrong. {ENTER}"
    assert unsound(examine(either.library)) == [("texts, words", said)]
    either.rebuild()
    assert unsound(examine(either.library)) == []


def test_words_that_are_not_the_texts_are_told_by_the_proof_alone(either: Collection) -> None:
    with either.library.store.database.writing() as connection:
        delete_rows(connection, 1, passages.c.number == 2)
        insert_rows(connection, 1, [2], ["snow"])
    assert unsound(examine(either.library)) == []
    ((subject, detail),) = unsound(examine(either.library, prove=True))
    assert subject == "texts, words"
    assert detail == Naming("0 passages without words", "0 rows", "without a passage")
    assert detail.endswith(f" wrong. {ENTER}")
    either.rebuild()
    assert unsound(examine(either.library, prove=True)) == []


def test_a_table_of_words_that_is_gone_is_found_and_made_anew(either: Collection) -> None:
    with either.library.store.database.writing() as connection:
        drop_table(connection, 1)
    ((subject, detail),) = unsound(examine(either.library, prove=True))
    assert (subject, detail.split(",")[0]) == ("texts, words", "3 passages without words")
    either.rebuild()
    assert unsound(examine(either.library, prove=True)) == []


def test_a_proof_of_the_words_keeps_no_writer_waiting(either: Collection) -> None:
    with either.library.store.database.writing():
        assert unsound(examine(either.library, prove=True)) == []


def test_sound_words_are_not_entered_anew_by_a_rebuild(
    either: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    refilled: list[int] = []
    monkeypatch.setattr(collection_writing, "refill", lambda _, key: refilled.append(key))
    either.rebuild()
    assert refilled == []
    with either.library.store.database.writing() as connection:
        delete_rows(connection, 1, passages.c.number == 3)
    either.rebuild()
    assert refilled == [1]


def damage_words(collection: Collection) -> None:
    """Lose what FTS5 keeps of the words; the rest of the catalogue stays as it is."""
    with collection.library.store.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM lexical_1_data WHERE id > 10")


def test_a_damaged_table_of_words_is_not_a_damaged_catalogue(collection: Collection) -> None:
    damage_words(collection)
    said = "the table of the words is damaged. Recreate them: nearsay index rebuild texts"
    assert unsound(examine(collection.library, prove=True)) == [("texts, words", said)]
    with pytest.raises(UnreadableWordsError, match=r"missing or damaged.* nearsay index rebuild texts"):
        collection.search("a", mode="lexical")
    database = collection.library.store.database
    with (
        pytest.raises(CatalogueError, match=r"words .*nearsay doctor --prove"),
        database.reading() as connection,
    ):
        connection.exec_driver_sql("SELECT rowid FROM lexical_1 WHERE lexical_1 MATCH 'a'").all()
    collection.rebuild()
    assert unsound(examine(collection.library, prove=True)) == []
    assert len(collection.search("a", 3, mode="lexical")) == 3


@pytest.mark.long
def test_an_encoder_that_is_gone_or_changed_is_found_and_hides_no_other(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(bundled_folder(), mine)
    (mine / "sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": false}')
    with Library.open(tmp_path / "library") as library:
        library.collection("theirs").add_rows(["an oak"])
        library.collection("notes", encoder=str(mine)).add_rows(["an oak"])
        assert [finding.sound for finding in examine(library)[-2:]] == [True, True]
        weights = mine / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:3000])
        ((subject, detail),) = unsound(examine(library))
        assert subject == f"encoder {mine}"
        assert "nearsay index rebuild notes" in detail
        (mine / "config.json").write_text("")
        assert [subject for subject, _ in unsound(examine(library))] == [f"encoder {mine}"]
        shutil.rmtree(mine)
        ((subject, detail),) = unsound(examine(library))
        assert subject == f"encoder {mine}"
        assert "'notes'" in detail
        assert "encoder all-MiniLM-L6-v2" in [finding.subject for finding in examine(library)]


def test_the_runtime_of_each_encoder_is_said(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library") as library:
        library.collection("texts").add_rows([{"id": "a", "text": "an oak"}])
        light, torch = examine(library)[-1], examine(library, precision="bfloat16")[-1]
    assert (light.subject, light.sound) == ("encoder all-MiniLM-L6-v2", True)
    assert "light runtime" in light.detail
    assert "the precision bfloat16" in torch.detail


def test_a_bundled_encoder_that_is_gone_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_name: str, **_how: object) -> None:
        raise NearsayError("install it again")

    with Library.open(tmp_path / "library") as library:
        library.collection("texts").add_rows([{"id": "a", "text": "an oak"}])
        monkeypatch.setattr(doctor, "find_encoder", gone)
        found = examine(library)[-1]
    assert (found.subject, found.sound) == ("encoder all-MiniLM-L6-v2", False)


def test_the_runtime_of_an_encoder_of_the_hub_is_said_if_it_was_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetched(_name: str, **_how: object) -> str:
        if not kept.is_dir():
            raise FileNotFoundError("it was never fetched")
        return str(kept)

    kept = tmp_path / "fetched"
    shutil.copytree(bundled_folder(), kept)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    with Library.open(tmp_path / "library") as library:
        library.collection("texts", encoder="me/tiny").add_rows([{"id": "a", "text": "an oak"}])
        found = examine(library)[-1]
        assert (found.subject, found.sound) == ("encoder me/tiny", True)
        assert "light runtime" in found.detail
        shutil.rmtree(kept)
        assert not any(finding.subject == "encoder me/tiny" for finding in examine(library))
