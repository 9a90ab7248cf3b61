"""Reading Python values, and the options of all reading."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from naming import Naming

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.read_options import Format, ReadOptions
from nearsay.data.reading import rows


def test_python_values_are_read_like_rows() -> None:
    given = Document("kept", id="d", metadata={"x": (1, 2)}, line=None)
    reading = rows(
        ["one", given, {"body": "two", "id": 2, "title": None, "year": float("nan"), "n": 1}], ReadOptions()
    )
    assert list(reading) == [
        Document("one", line=1),
        Document("kept", id="d", metadata={"x": [1, 2]}),
        Document("two", "2", "", {"n": 1}, line=3),
    ]
    assert reading.notes == [
        Naming("<rows>", "text = 'body' (guessed)", "id = 'id'", "title = none", "metadata = title, year, n")
    ]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (7, "of type int"),
        (b"x", "of type bytes"),
        (" ", "the text field 'text' is empty"),
        ("a\0", "the text holds a NUL character"),
        ("\ud800", "text holds a lone surrogate"),
        ("x" * 101, "100 bytes; raise --max-text-bytes"),
        ({"text": float("nan")}, "'text' is null"),
        ({}, "'text' is missing"),
        ({1: "x"}, "key of the mapping"),
        ({"text": "a", "s": {1}}, "'s' is of type set"),
        ({"text": "a", "s": b"x"}, "'s' is of type bytes"),
        (Document(""), "the text field 'text' is empty"),
        (Document("a", id="\0"), "the id holds a NUL character"),
        (Document("a", id="x" * 513), "id is longer than 512"),
        (Document("a", title="\ud800"), "title holds a lone surrogate"),
        (Document("a", metadata={"k": "\0"}), "the metadata holds a NUL character"),
        (Document("a", metadata=["k"]), "the metadata is of type list"),
    ],
)
def test_python_values_that_cannot_be_used_are_faults_with_their_number(item: object, reason: str) -> None:
    items = list(rows([{"text": "good"}, item, "last"], ReadOptions(max_text_bytes=100)))
    assert items[1] == Fault("<rows>", 2, Naming(reason))
    assert [items[0].text, items[2].text] == ["good", "last"]


@pytest.mark.parametrize("value", [np.int64(2020), np.bool_(True), Decimal(2)])
def test_what_equals_a_value_of_json_becomes_one(value: object) -> None:
    (found,) = rows([Document("a", metadata={"k": value})])  # type: ignore[dict-item]
    assert isinstance(found, Document)
    assert type(found.metadata["k"]) in (int, bool, float)


def test_ids_and_titles_of_documents_and_of_numpy_become_texts() -> None:
    named = {"text": np.str_("a"), "id": np.str_("n"), "title": np.str_(" t ")}
    given = [
        Document("a", id=7, title=None),
        Document("b", title=2.5),
        named,
        {"text": "c", "title": 10**5000},
    ]  # type: ignore[arg-type]
    *documents, fault = rows(given)
    assert documents == [Document("a", "7"), Document("b", title="2.5"), Document("a", "n", "t", line=3)]
    assert all(type(found) is str for found in (documents[2].text, documents[2].id, documents[2].title))
    assert isinstance(fault, Fault)


@pytest.mark.parametrize("id_", ["", "  ", float("nan")])
def test_a_document_with_an_empty_id_has_none(id_: Any) -> None:
    assert list(rows([Document("a", id=id_), {"text": "b", "id": id_}])) == [
        Document("a"),
        Document("b", line=2),
    ]


def test_fields_that_are_named_are_found_after_the_first_hundred_values_and_none_of_these_is_lost() -> None:
    given = [*["text"] * 5, *[{"body": "b"}] * 120, {"body": "b", "late": "x"}, Document("kept"), 7]
    found = list(rows(given, ReadOptions(text="body", metadata=("late",))))
    assert [item.line for item in found[:126]] == list(range(1, 127))
    assert found[125].metadata == {"late": "x"}
    assert found[126] == Document("kept")
    assert isinstance(found[127], Fault)


def test_python_rows_are_streamed() -> None:
    def endless() -> Iterator[dict[str, object]]:
        number = 0
        while True:
            number += 1
            yield {"text": str(number)}

    found = iter(rows(endless()))
    assert [next(found).text for _ in range(300)][-1] == "300"


# Options


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"text": ""}, "a field name is empty"),
        ({"metadata": ("a", " ")}, "a field name is empty"),
        ({"metadata": "year"}, "give a tuple"),
        ({"format": "doc"}, "take one of txt, csv"),
        ({"split": "words"}, "take one of auto, lines"),
        ({"encoding": "nope"}, "no text encoding"),
        ({"encoding": "base64"}, "no text encoding"),
        ({"encoding": "unicode_escape"}, "no text encoding"),
        ({"encoding": "idna"}, "no text encoding"),
        ({"encoding": "a\0b"}, "no text encoding"),
        ({"delimiter": ";;"}, "give one character"),
        ({"delimiter": '"'}, "give one character"),
        ({"max_text_bytes": 0}, "give 1 or more"),
    ],
)
def test_options_that_cannot_be_are_refused_with_the_remedy(options: dict[str, object], match: str) -> None:
    with pytest.raises(BadInputError, match=match):
        ReadOptions(**options)


def test_options_take_plain_strings_and_lists() -> None:
    options = ReadOptions(format="csv", metadata=["a"])
    assert options.format is Format.CSV
    assert options.metadata == ("a",)


@pytest.mark.parametrize("name", ["vector", "Embedding", "embeddings"])
def test_vectors_are_refused_rather_than_kept_as_metadata(name: str) -> None:
    long: list[object] = [0.5] * 384
    given = [{"text": "a", name: long}, {"text": "b", name: [long]}, Document("c", metadata={name: long})]
    found = list(rows(given, ReadOptions()))
    assert [isinstance(each, Fault) and "384 numbers" in each.reason for each in found] == [True] * 3
    kept = [{"text": "a", name: [1, 2, 3]}, {"text": "b", name: "a long text"}, {"text": "c", "other": long}]
    assert not any(isinstance(each, Fault) for each in rows(kept, ReadOptions()))
    (asked,) = rows([{"text": "a", name: long}], ReadOptions(text="text", metadata=(name,)))
    assert isinstance(asked, Document)
    assert asked.metadata == {name: long}


def test_a_text_that_is_not_found_is_named_as_python_names_it() -> None:
    with pytest.raises(BadInputError, match=r"options=ReadOptions\(text='FIELD'\)$"):
        list(rows([{"a": 1, "b": 2}], ReadOptions()))
    reading = rows([{"text": "one"}], ReadOptions())
    assert [each.text for each in reading if isinstance(each, Document)] == ["one"]
    assert reading.notes == [Naming("name one: options=ReadOptions(id='FIELD')")]
