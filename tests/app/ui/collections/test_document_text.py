"""A document as a person edits it."""

import pytest

from nearsay.app.ui.asked import example_filter
from nearsay.app.ui.collections.documents_part import edited_document, metadata_text
from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.indexer.filters.parse import parse


def test_metadata_is_shown_as_it_is_read_back() -> None:
    metadata = {"year": 2019, "who": ["Jürgen"], "inner": {"a": None}}
    document = edited_document(id_="d1", title=" A ", text="hello", metadata=metadata_text(metadata))
    assert document == Document("hello", "d1", "A", metadata)


def test_a_document_without_an_id_is_named_by_what_it_says() -> None:
    assert edited_document(id_="  ", title="", text="hello", metadata="").id is None


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ("{", "not valid JSON"),
        ("[1, 2]", "not an object"),
        ('"text"', "not an object"),
        ('{"a": NaN}', "NaN"),
        ('{"a": 1, "a": 2}', "twice"),
    ],
)
def test_metadata_that_cannot_be_kept_is_refused(metadata: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        edited_document(id_="d1", title="", text="hello", metadata=metadata)


def test_a_text_that_is_too_long_for_a_page_is_refused() -> None:
    assert edited_document(id_="d1", title="", text="a" * 200_000, metadata="").text
    with pytest.raises(BadInputError, match=r"200,001 characters.*200,000"):
        edited_document(id_="d1", title="", text="a" * 200_001, metadata="")


def test_an_empty_text_is_refused() -> None:
    with pytest.raises(BadInputError, match="text is empty"):
        edited_document(id_="d1", title="a", text=" \n", metadata="")


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        ({"year": 2019}, "year >= 2019"),
        ({"kind": "story", "year": 2019}, "kind = 'story'"),
        ({"kind": "it's", "year": 2019}, "year >= 2019"),
        ({"Nr.": 7}, "`Nr.` >= 7"),
        ({"a.b": "x"}, "`a.b` = 'x'"),
        ({"odd name": 1, "flag": True}, "`odd name` >= 1"),
        ({"id": 3}, "metadata.id >= 3"),
        ({"`": 1, "flag": True}, "id = 'the id of a document'"),
    ],
)
def test_a_filter_is_shown_that_holds_for_something(metadata: dict[str, object], shown: str) -> None:
    assert example_filter(metadata) == shown
    assert parse(shown)
