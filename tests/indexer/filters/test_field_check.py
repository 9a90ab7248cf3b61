"""Damage to the values of declared fields is found and named."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.tables import field_values
from nearsay.indexer.filters.fields import check_fields


@pytest.fixture
def papers(catalogue_url: str, tmp_path: Path, words: WordsEncoder) -> Iterator[Collection]:
    """Values of every kind, the catalogue of each kind in turn."""
    database = None if catalogue_url.startswith("sqlite") else catalogue_url
    with Library.open(tmp_path / "library", database=database, load_encoder=lambda _: words) as library:
        collection = library.collection("papers")
        collection.add_rows(
            [
                {"id": "1", "text": "a cat sat", "year": 2019, "tags": ["a", "ä", 1.5, None], "open": True},
                {"id": "2", "text": "the dog dug", "year": "2020", "tags": [], "open": False},
                {"id": "3", "text": "parrots", "year": 2**60 + 1, "tags": "x" * 600},
            ]
        )
        collection.declare_fields(["year", "tags", "open"])
        yield collection


def check(collection: Collection, *damage: sa.Executable) -> str | None:
    with collection.library.store.database.writing() as connection:
        for statement in damage:
            assert connection.execute(statement).rowcount
        return check_fields(connection, collection.snapshot().collection.id)


@pytest.mark.long
def test_values_that_follow_the_documents_are_sound(papers: Collection) -> None:
    assert check(papers) is None
    papers.add_rows([{"id": "1", "text": "a cat sat", "year": 0.1, "tags": ["b"]}])
    papers.remove(["2"])
    assert check(papers) is None


@pytest.mark.long
def test_a_changed_a_lost_and_a_stray_value_are_found(papers: Collection) -> None:
    of_first = field_values.c.document == 1
    lost = field_values.delete().where(of_first, field_values.c.text == "ä")
    found = check(papers, lost)
    assert found is not None
    assert found == Naming("'tags'", "1 lacking", 0)
    assert found.endswith("nearsay documents fields papers --forget 'tags' --declare 'tags'")
    changed = field_values.update().where(of_first, field_values.c.number == 2019).values(number=2018)
    assert str(check(papers, changed)) == Naming("'year'", "1 lacking", "1 that")
    moved = field_values.update().where(field_values.c.document == 2).values(document=99)
    assert str(check(papers, moved)) == Naming("'open'", "1 lacking", "1 that")
    papers.forget_fields(["year", "tags", "open"])
    papers.declare_fields(["year", "tags", "open"])
    assert check(papers) is None
