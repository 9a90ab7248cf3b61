"""From encoded windows to segments: what is written when, and what is entered in the catalogue."""

import itertools
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from words_encoder import WordsEncoder

from nearsay.data.document import Document
from nearsay.data.errors import NearsayError
from nearsay.indexer import Library
from nearsay.indexer.catalogue import collections, documents, generations, ranges
from nearsay.indexer.catalogue.documents import NewDocuments
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.passages import PassageWindow, prepare
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.plans.plan import Plan
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.snapshots.segment_writer import SegmentWriter, embed
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.segment import (
    SegmentHeader,
    SegmentKind,
    open_vectors,
    write_index,
    write_vectors,
)
from nearsay.indexer.writing.ingest import live_or_begin
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

_TEXTS = [f"{'a ' * number}cat" for number in range(10)]


@pytest.fixture
def store(library: Library) -> Store:
    """The library's store."""
    return library.store


@pytest.fixture
def generation(store: Store, words: WordsEncoder) -> GenerationRow:
    """A live generation of a collection with ten passages, none of them embedded."""
    with store.database.writing() as connection:
        row = collections.create(connection, "cats", "tokens", "2026-01-01")
        begun = live_or_begin(connection, row, words, Plan().to_json())
        prepared = [prepare(Document(text), str(number)) for number, text in enumerate(_TEXTS)]
        spans = [[(0, len(text))] for text in _TEXTS]
        window = documents.insert(connection, row.id, NewDocuments.of(prepared, spans), "2026-01-01")
    assert window == PassageWindow(list(range(1, 11)), _TEXTS)
    return begun


@pytest.mark.parametrize(("rows", "counts"), [(4, [4, 4, 2]), (3, [4, 4, 2]), (5, [6, 4]), (100, [10])])
def test_a_segment_is_written_whenever_enough_vectors_are_there(
    store: Store,
    generation: GenerationRow,
    words: WordsEncoder,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    counts: list[int],
) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", rows)
    with SegmentWriter(store, generation) as writer:
        assert embed(_windows(2), words, writer) == (10, 0)
    with store.database.reading() as connection:
        entered = generations.segments_of(connection, generation.collection_id)
        (now,) = generations.all_of(connection, generation.collection_id)
    assert [row.count for row in entered] == counts
    firsts = [1, *(1 + total for total in itertools.accumulate(counts))]
    assert [row.first_passage for row in entered] == firsts[:-1]
    assert [row.last_passage for row in entered] == [first - 1 for first in firsts[1:]]
    assert now.embedded_through == 10
    opened = [
        open_vectors(store.segment(1, row.sha256), row.sha256, row.header(now.encoder)) for row in entered
    ]
    assert np.concatenate([segment.ids for segment in opened]).tolist() == list(range(1, 11))
    vectors = np.concatenate([segment.vectors for segment in opened])
    assert vectors.tolist() == WordsEncoder().encode(_TEXTS).tolist()


def test_a_segment_is_written_when_the_encoding_took_long(
    store: Store, generation: GenerationRow, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "SECONDS", -1.0)
    with SegmentWriter(store, generation) as writer:
        embed(_windows(2), words, writer)
    with store.database.reading() as connection:
        assert [row.count for row in generations.segments_of(connection, 1)] == [2] * 5


def test_the_mark_says_how_far_the_generation_is_embedded(
    store: Store, generation: GenerationRow, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", 4)

    def stops() -> Iterator[PassageWindow]:
        yield from itertools.islice(_windows(2), 3)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), SegmentWriter(store, generation) as writer:
        embed(stops(), words, writer)
    with store.database.reading() as connection:
        (now,) = generations.all_of(connection, 1)
        assert [row.count for row in generations.segments_of(connection, 1)] == [4]
        assert now.embedded_through == 4
        assert ranges.unembedded(connection, now) == 6


def test_readers_are_told_of_every_segment(
    store: Store, generation: GenerationRow, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", 2)
    before = _version(store)
    with SegmentWriter(store, generation) as writer:
        embed(_windows(2), words, writer)
    assert _version(store) == before + 5


def test_progress_is_told_after_every_window(
    store: Store, generation: GenerationRow, words: WordsEncoder
) -> None:
    told: list[Progress] = []
    with SegmentWriter(store, generation) as writer:
        embed(_windows(4), words, writer, told.append, total=lambda: 10)
    assert [(progress.done, progress.total) for progress in told] == [(4, 10), (8, 10), (10, 10)]


def test_passages_that_are_cut_are_counted_in_the_generation(store: Store, generation: GenerationRow) -> None:
    short = WordsEncoder(max_tokens=8)  # of the ten texts, those of 9 and 10 words are longer
    with SegmentWriter(store, generation) as writer:
        assert embed(_windows(3), short, writer) == (10, 2)
    with store.database.reading() as connection:
        assert generations.all_of(connection, 1)[0].truncated == 2


def test_an_error_of_the_writing_thread_is_raised(
    store: Store, generation: GenerationRow, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", 2)

    def fail(*_: object) -> Path:
        raise ZeroDivisionError

    monkeypatch.setattr(segment_writer, "write_vectors", fail)
    with pytest.raises(ZeroDivisionError), SegmentWriter(store, generation) as writer:
        embed(_windows(2), words, writer)
    with store.database.reading() as connection:
        assert generations.segments_of(connection, 1) == []
        assert generations.all_of(connection, 1)[0].embedded_through == 0


def test_nothing_to_embed_writes_nothing(
    store: Store, generation: GenerationRow, words: WordsEncoder
) -> None:
    with SegmentWriter(store, generation) as writer:
        assert embed(iter([PassageWindow([], [])]), words, writer) == (0, 0)
        writer.add([], np.zeros((0, 8), dtype=np.float32), 0)
    assert not store.segments(1).exists()


def test_vectors_are_stored_at_unit_length(store: Store, generation: GenerationRow) -> None:
    with SegmentWriter(store, generation) as writer:
        writer.add([1, 2], np.array([[3, 4, 0, 0, 0, 0, 0, 0], [0, 0, 2, 0, 0, 0, 0, 0]], np.float32), 0)
    with store.database.reading() as connection:
        (row,) = generations.segments_of(connection, 1)
    vectors = open_vectors(store.segment(1, row.sha256), row.sha256, row.header(generation.encoder)).vectors
    assert vectors[:, :3].tolist() == pytest.approx(np.array([[0.6, 0.8, 0], [0, 0, 1]]))


@given(
    ids=st.sets(st.integers(1, 2**62), min_size=1, max_size=20),
    dimension=st.integers(1, 20),
    seed=st.integers(0, 99),
)
def test_what_is_written_is_read_back_and_safetensors_agrees(
    tmp_path_factory: pytest.TempPathFactory, ids: set[int], dimension: int, seed: int
) -> None:
    folder = tmp_path_factory.getbasetemp() / "segments"
    numbers = np.array(sorted(ids), dtype=np.int64)
    vectors = np.random.default_rng(seed).standard_normal((numbers.size, dimension), dtype=np.float32)
    path = write_vectors(folder, numbers, vectors, "f" * 64)
    header = SegmentHeader(SegmentKind.VECTORS, "f" * 64, dimension, numbers.size)
    segment = open_vectors(path, path.stem, header)
    assert segment.ids.tolist() == numbers.tolist()
    assert segment.vectors.tolist() == vectors.tolist()
    assert segment.ids.flags.aligned
    assert segment.vectors.flags.aligned
    theirs = safetensors.numpy.load_file(path)
    assert theirs["ids"].tolist() == numbers.tolist()
    assert theirs["vectors"].tolist() == vectors.tolist()


def test_an_index_segment_is_a_safetensors_file(tmp_path: Path) -> None:
    path = write_index(tmp_path, np.arange(100, dtype=np.uint8), 5, 8, "f")
    assert safetensors.numpy.load_file(path)["index"].tolist() == list(range(100))
    with safetensors.safe_open(path, "numpy") as file:
        assert file.metadata() == {
            "kind": "index",
            "fingerprint": "f",
            "dimension": "8",
            "count": "5",
            "metric": "cosine",
            "format": "nearsay-segment-1",
        }


def test_the_same_content_has_one_name_and_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, vectors = np.arange(1, 4), np.eye(3, dtype=np.float32)
    path = write_vectors(tmp_path, numbers, vectors, "f")
    inode = path.stat().st_ino
    synchronised = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synchronised.append(descriptor), fsync(descriptor)))
    assert [write_vectors(tmp_path, numbers, vectors, "f") for _ in range(3)] == [path] * 3
    assert path.stat().st_ino == inode
    assert len(synchronised) == 3  # the folder: whoever wrote the file may have been killed before that
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_file_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    numbers, vectors = np.arange(1, 4), np.eye(3, dtype=np.float32)
    path = write_vectors(tmp_path, numbers, vectors, "f")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert write_vectors(tmp_path, numbers, vectors, "f") == path
    assert path.read_bytes() == whole


def _windows(size: int) -> Iterator[PassageWindow]:
    for begin in range(0, 10, size):
        numbers = list(range(begin + 1, min(begin + size, 10) + 1))
        yield PassageWindow(numbers, _TEXTS[begin : begin + size])


def _version(store: Store) -> int:
    with store.database.reading() as connection:
        row = collections.find(connection, "cats")
    assert row is not None
    return row.version


class Choosy(WordsEncoder):
    """Fails on one word, or on all."""

    broken = False

    def _window(self, texts: Sequence[str], kind: TextKind) -> EncodedWindow:
        if self.broken or any("boom" in text for text in texts):
            raise ValueError("no such word")
        return super()._window(texts, kind)


def test_a_document_that_the_encoder_fails_on_is_named_and_can_be_removed(library: Library) -> None:
    cats = library.collection("choosy", encoder=Choosy())
    texts = ["a boom" if number == 7 else f"a cat {number}" for number in range(20)]
    rows = [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]
    for _ in range(2):
        with pytest.raises(NearsayError, match=r"'d7'.*no such word.*documents remove choosy --id d7"):
            cats.add_rows(rows)
        rows = [{"id": "later", "text": "a dog"}]
    cats.remove(["d7"])
    assert cats.add_rows(rows).added == 1
    assert (cats.overview().waiting, cats.search("a dog", 1)[0].id) == (0, "later")


def test_an_encoder_that_fails_on_every_text_says_so_itself(library: Library) -> None:
    encoder = Choosy()
    cats = library.collection("choosy", encoder=encoder)
    cats.add_rows(["a cat"])
    encoder.broken = True
    with pytest.raises(ValueError, match="no such word"):
        cats.add_rows(["a dog"])
