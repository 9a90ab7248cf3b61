"""Halves of surrogate pairs, which Python's strings can hold and no store takes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library

HALF = "\ud800"


@pytest.fixture
def collection(library: Library) -> Collection:
    """One document."""
    collection = library.collection("texts")
    collection.add_rows([{"id": "a", "text": "a bb", "year": 1}])
    return collection


@pytest.mark.long
@pytest.mark.parametrize(
    "row",
    [
        {"id": HALF, "text": "a"},
        {"id": "b", "text": HALF},
        {"id": "b", "text": "a", "title": HALF},
        {"id": "b", "text": "a", "year": HALF},
        {"id": "b", "text": "a", HALF: 1},
        {"id": "b", "text": "a", "list": [{"x": HALF}]},
        HALF,
        Document("a", "b", source=HALF),
        Document("a", None, source=f"{HALF}.txt", line=1),
    ],
)
def test_a_row_with_half_a_character_is_named_and_the_rest_goes_on(
    collection: Collection, row: object
) -> None:
    report = collection.add_rows([row, {"id": "sound", "text": "ccc"}])  # type: ignore[list-item]
    assert (report.added, report.fault_count) == (1, 1)
    (fault,) = report.faults
    assert (fault.source, fault.line) == ("<rows>", 1)
    assert "surrogate" in fault.reason


def test_a_line_of_json_with_half_a_character_is_named(collection: Collection, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "\\ud800", "text": "a"}\n{"id": "sound", "text": "ccc"}\n')
    report = collection.add(path)
    assert report.added == 1
    assert [(fault.source, fault.line) for fault in report.faults] == [(str(path), 1)]


@pytest.mark.parametrize(
    "work",
    [
        lambda c: c.remove([HALF]),
        lambda c: c.document(HALF),
        lambda c: c.search(f"a {HALF}"),
        lambda c: c.search(["a", HALF], mode="dense"),
        lambda c: c.search(HALF, mode="lexical"),
        lambda c: c.similar(HALF),
        lambda c: c.similar("a", without=HALF),
        lambda c: c.search("a", where={"year": HALF}),
        lambda c: c.search("a", where=f"id = '{HALF}'"),
        lambda c: c.facets(HALF),
        lambda c: c.browser.by_id([HALF]),
        lambda c: c.browser.ids_containing(HALF),
        lambda c: c.browser.passages(HALF),
        lambda c: c.judgements.add("a", HALF, relevant=True),
        lambda c: c.judgements.list(document=HALF),
        lambda c: Library.open(c.library.store.folder / HALF),
    ],
)
def test_half_a_character_in_a_question_is_bad_input(
    collection: Collection, work: Callable[[Collection], object]
) -> None:
    with pytest.raises(BadInputError):
        work(collection)
