"""A collection of each kind of catalogue, to judge in."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library

ROWS = [
    {"id": "cat", "title": "Cat", "text": "a cat sat"},
    {"id": "dog", "text": "the dog dug"},
    {"id": "owl", "text": "owls see at night"},
    {"id": "long", "text": " ".join(f"word{number} sleeps." for number in range(12))},  # two passages
]


@pytest.fixture(params=["sqlite", "postgresql"])
def either_library(request: pytest.FixtureRequest, tmp_path: Path, words: WordsEncoder) -> Iterator[Library]:
    """A library of the words encoder, of each kind of catalogue in turn."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    with Library.open(tmp_path / "library", database=url, load_encoder=lambda _: words) as library:
        yield library


@pytest.fixture
def pets(either_library: Library) -> Collection:
    """Four documents, of which the last has two passages."""
    collection = either_library.collection("pets")
    collection.add_rows(ROWS)
    return collection


@pytest.fixture
def zoo(library: Library) -> Collection:
    """The same on SQLite alone."""
    collection = library.collection("zoo")
    collection.add_rows(ROWS)
    return collection
