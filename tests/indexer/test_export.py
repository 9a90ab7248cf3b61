"""A collection written out and read back."""

import errno
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from words_encoder import WordsEncoder

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.indexer import Collection, Library
from nearsay.indexer.query import export
from nearsay.indexer.query.export import write_csv
from nearsay.indexer.vectors.errors import BadFilterError, UnknownCollectionError

ROWS: list[dict[str, Any]] = [
    {"id": "d1", "title": "The title", "text": "a bb", "year": 2019, "tags": ["x", "y"]},
    {"id": "d2", "text": "Ünï “çødé” \u2028 line\nbreak\ttab", "nested": {"a": {"b": 1.5}}, "ok": True},
    {"id": "d3", "text": "ccc dddd.", "year": 2021},
]


@pytest.fixture
def collection(library: Library) -> Collection:
    """Three documents of all kinds of values."""
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    return collection


def exported(collection: Collection, **options: Any) -> list[dict[str, Any]]:
    out = io.BytesIO()
    count = collection.export(out, **options)
    rows = [json.loads(line) for line in out.getvalue().split(b"\n")[:-1]]
    assert count == len(rows)
    return rows


def contents(collection: Collection) -> list[tuple[str, str, str, object]]:
    return [(found.id, found.title, found.text, dict(found.metadata)) for found in collection.documents()]


def test_each_document_is_a_line_of_json(collection: Collection) -> None:
    assert exported(collection) == [
        {
            "id": "d1",
            "title": "The title",
            "text": "a bb",
            "metadata": {"year": 2019, "tags": ["x", "y"]},
        },
        {
            "id": "d2",
            "title": "",
            "text": "Ünï “çødé” \u2028 line\nbreak\ttab",
            "metadata": {"nested": {"a": {"b": 1.5}}, "ok": True},
        },
        {"id": "d3", "title": "", "text": "ccc dddd.", "metadata": {"year": 2021}},
    ]


def test_what_was_exported_is_the_same_when_it_is_added_to_another_collection(
    collection: Collection, library: Library, tmp_path: Path
) -> None:
    assert collection.export(tmp_path / "out.jsonl") == 3
    copy = library.collection("copy")
    report = copy.add(tmp_path / "out.jsonl")
    assert (report.added, report.fault_count) == (3, 0)
    assert contents(copy) == contents(collection)
    assert [hit.score for hit in copy.search("a bb")] == [hit.score for hit in collection.search("a bb")]
    assert copy.export(tmp_path / "again.jsonl") == 3
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()


def test_adding_an_export_to_its_own_collection_embeds_nothing(
    collection: Collection, words: WordsEncoder, tmp_path: Path
) -> None:
    collection.export(tmp_path / "out.jsonl")
    words.encoded.clear()
    report = collection.add(tmp_path / "out.jsonl")
    assert (report.added, report.updated, report.embedded, words.encoded) == (0, 0, 0, [])


PLAIN = st.characters(codec="utf-8", exclude_characters="\0")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(PLAIN),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(PLAIN, min_size=1), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.text(PLAIN, min_size=1, max_size=8).filter(
    lambda name: name not in ("id", "title", "text", "metadata")
)


@pytest.mark.long
@settings(deadline=None, max_examples=15)
@given(
    st.lists(
        st.builds(
            Document,
            text=st.text(PLAIN, min_size=1).map(lambda text: f"a {text}"),
            title=st.text(PLAIN).map(str.strip),
            metadata=st.dictionaries(FIELDS, VALUES, max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_document_is_the_same_after_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Document]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    named = [
        Document(document.text, f"d{i}", document.title, document.metadata)
        for i, document in enumerate(documents)
    ]
    encoder = WordsEncoder()
    with Library.open(folder / "library", load_encoder=lambda _: encoder) as library:
        first, second = library.collection("first"), library.collection("second")
        assert first.add_rows(named).fault_count == 0
        first.export(folder / "out.jsonl")
        assert second.add(folder / "out.jsonl").fault_count == 0
        assert contents(second) == contents(first)


def test_a_filter_chooses_what_is_exported(collection: Collection) -> None:
    assert [row["id"] for row in exported(collection, where="year >= 2019")] == ["d1", "d3"]
    assert [row["id"] for row in exported(collection, where={"ok": True})] == ["d2"]
    assert exported(collection, where="year = 1") == []
    assert [row["id"] for row in exported(collection, where="year > 2019", vectors=True)] == ["d3"]


@pytest.mark.parametrize("page", [1, 2, 3, 4])
def test_pages_leave_nothing_out_and_repeat_nothing(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(export, "_PAGE", page)
    assert [row["id"] for row in exported(collection)] == ["d1", "d2", "d3"]
    assert [row["id"] for row in exported(collection, vectors=True)] == ["d1", "d2", "d3"]
    assert [row["id"] for row in exported(collection, where="year > 0")] == ["d1", "d3"]


@pytest.mark.parametrize("vectors", [False, True])
def test_a_collection_that_is_deleted_while_it_is_read_does_not_end_as_if_it_were_whole(
    collection: Collection, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vectors: bool
) -> None:
    monkeypatch.setattr(export, "_PAGE", 1)
    wait, out = list(collection.documents()), tmp_path / "texts.jsonl"

    def deleted_on_the_way(row: Any, **options: Any) -> str:
        if collection.exists():
            collection.delete()
        return dumped(row, **options)

    dumped = json.dumps
    documents = collection.documents()
    assert next(documents) == wait[0]
    monkeypatch.setattr(json, "dumps", deleted_on_the_way)
    with pytest.raises(UnknownCollectionError):
        collection.export(out, vectors=vectors)
    assert not out.exists()
    with pytest.raises(UnknownCollectionError):
        next(documents)


def test_with_vectors_each_passage_is_a_line(library: Library, words: WordsEncoder) -> None:
    collection = library.collection("sentences", chunking="sentences")
    collection.add_rows(
        [{"id": "d1", "title": "Ti", "text": "Aa. Bbb.", "year": 1}, {"id": "d2", "text": "c dd eee"}]
    )
    rows = exported(collection, vectors=True)
    vectors = [row.pop("vector") for row in rows]
    about = {"title": "Ti", "metadata": {"year": 1}, "encoder": "words"}
    assert rows == [
        {"id": "d1", "passage": 0, "text": "Aa."} | about,
        {"id": "d1", "passage": 1, "text": "Bbb."} | about,
        {"id": "d2", "passage": 0, "text": "c dd eee", "title": "", "metadata": {}, "encoder": "words"},
    ]
    ones = np.array(
        [[1, 2, 0], [1, 1, 1], [1, 1, 1]]
    )  # the title's two letters are encoded with each passage
    expected = np.zeros((3, 8))
    expected[:, :3] = ones / np.linalg.norm(ones, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-7)
    np.testing.assert_array_equal(np.array(vectors, dtype=np.float32), collection.vectors()[1])


def test_removed_documents_are_not_exported(collection: Collection) -> None:
    collection.remove(["d2"])
    assert [row["id"] for row in exported(collection)] == ["d1", "d3"]
    assert [row["id"] for row in exported(collection, vectors=True)] == ["d1", "d3"]


def test_a_file_is_exported_whole_or_not_at_all(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out" / "texts.jsonl"
    collection.export(str(out))
    before = out.read_bytes()
    collection.remove(["d1"])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match=r"texts\.jsonl"):
        collection.export(out)
    assert out.read_bytes() == before
    assert [path.name for path in out.parent.iterdir()] == ["texts.jsonl"]


def test_a_filter_that_cannot_be_read_leaves_the_old_file(collection: Collection, tmp_path: Path) -> None:
    out = tmp_path / "texts.jsonl"
    out.write_bytes(b"old")
    with pytest.raises(BadFilterError, match="the filter cannot be read"):
        collection.export(out, where="year >>> 2")
    assert out.read_bytes() == b"old"


def test_an_unknown_collection_exports_nothing(library: Library, tmp_path: Path) -> None:
    with pytest.raises(UnknownCollectionError):
        library.collection("nothing").export(tmp_path / "out.jsonl")
    assert not (tmp_path / "out.jsonl").exists()


def test_a_stream_stays_open_when_the_rows_of_a_table_end_in_an_error() -> None:
    def rows() -> Iterator[dict[str, str]]:
        yield {"a": "=1"}
        raise BadInputError("no more")

    out = io.BytesIO()
    with pytest.raises(BadInputError):
        write_csv(rows(), ["a"], out)
    assert out.getvalue() == b"a\r\n'=1\r\n"
