"""A collection of three plain groups, in a library on either database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library

# Words of one length have one vector: pets of 3 letters, plants of 5, beasts of 8.
PETS = ("cat dog pig", "dog cat hen", "cat cow dog", "hen dog cat", "dog dog cat")
PLANTS = ("grass apple", "apple roses", "roses grass apple", "wheat apple")
BEASTS = ("elephant antelope", "antelope elephant kangaroo", "elephant elephant")


@pytest.fixture
def zoo(request: pytest.FixtureRequest, tmp_path: Path, words: WordsEncoder) -> Iterator[Collection]:
    """Twelve documents: five pets (pet0 …), four plants, three beasts.

    On SQLite, unless a test's indirect parameter says "postgresql".
    """
    sqlite = getattr(request, "param", "sqlite") == "sqlite"
    url = None if sqlite else str(request.getfixturevalue("postgresql_url"))
    encoders = {"all-MiniLM-L6-v2": words, "words": words, "wide": WordsEncoder(name="wide", dimension=12)}
    with Library.open(
        tmp_path / "library", database=url, load_encoder=lambda source: encoders[source]
    ) as library:
        collection = library.collection("zoo")
        groups = {"pet": PETS, "plant": PLANTS, "beast": BEASTS}
        collection.add_rows(
            {"id": f"{kind}{i}", "text": text, "kind": kind}
            for kind, texts in groups.items()
            for i, text in enumerate(texts)
        )
        yield collection
