"""Filters mean the same in every command, whether columns were read, kept by another process, or neither."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library

ROWS: list[dict[str, object]] = [
    {"id": "1", "text": "a cat sat", "year": 2019, "tags": ["a", "b", "a", 1, 1.0, None], "open": True},
    {"id": "2", "text": "the dog dug", "year": "2020", "tags": [], "author": {"name": "Ä"}},
    {"id": "3", "text": "considerably lengthier", "year": None, "tags": "a and b", "open": False},
    {"id": "4", "text": "parrots whistle", "day": "2021-03-05T10:30:00Z", "author": {"name": "x" * 600}},
]
NAMES = ("year", "tags", "open", "author.name", "day", "author")


@pytest.fixture
def papers(catalogue_url: str, tmp_path: Path, words: WordsEncoder) -> Iterator[Collection]:
    """A collection with four documents, its catalogue of each kind in turn."""
    database = None if catalogue_url.startswith("sqlite") else catalogue_url
    with Library.open(tmp_path / "library", database=database, load_encoder=lambda _: words) as library:
        collection = library.collection("papers")
        collection.add_rows(ROWS)
        yield collection


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("tags contains 'a'", "13"),
        ("tags contains 'nd'", "3"),
        ("tags = 'a'", "1"),
        ("day = 2021-03-05", "4"),
        ("year >= 2019 and year < 2020", "1"),
        ({"author.name": "x" * 600}, "4"),
        ({"author.name": "x" * 500}, ""),
        ({"author.name": {"contains": "x" * 501}}, "4"),
        ({"author.name": {">": "x" * 499}}, "24"),  # Ä comes after x
        ("tags is missing", "4"),
        ("author is not missing and not open = true", "24"),
    ],
    ids=str,
)
def test_a_filter_means_the_same_whether_its_fields_were_read_or_not(
    papers: Collection, where: str, ids: str
) -> None:
    for read in ((), NAMES):
        for name in read:
            papers.facets(name)
        assert sorted(hit.id for hit in papers.search("words", where=where)) == list(ids)
        assert [document.id for document in papers.documents(where)] == list(ids)
    assert papers.update(where=where, metadata={"seen": True}) == len(ids)
    assert papers.count("seen = true") == len(ids)
    assert papers.remove(where=where) == len(ids)
    assert papers.count() == len(ROWS) - len(ids)
