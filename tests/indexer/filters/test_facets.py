"""Counts by value."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.vectors.errors import BadFilterError

ROWS: list[dict[str, object]] = [
    {"id": "1", "text": "a cat sat", "venue": "acl", "year": 2019, "tags": ["a", "b", "a"], "open": True},
    {"id": "2", "text": "the dog dug", "venue": "acl", "year": "2019", "tags": "a", "open": True},
    {"id": "3", "text": "considerably", "venue": "emnlp", "year": 2019.0, "tags": []},
    {"id": "4", "text": "parrots", "venue": None, "year": 2020.5, "tags": ["a", 7], "open": False},
    {"id": "5", "text": "lengthier", "year": -3, "tags": {"deep": 1}, "source": "x"},
]


@pytest.fixture
def papers(catalogue_url: str, tmp_path: Path, words: WordsEncoder) -> Iterator[Collection]:
    """Five documents, the catalogue of each kind in turn."""
    database = None if catalogue_url.startswith("sqlite") else catalogue_url
    with Library.open(tmp_path / "library", database=database, load_encoder=lambda _: words) as library:
        collection = library.collection("papers")
        collection.add_rows(ROWS)
        library.collection("others").add_rows([{"text": "elsewhere", "venue": "acl"}])
        yield collection


def counts(collection: Collection, field: str, **how: object) -> list[tuple[object, int]]:
    found = collection.facets(field, **how)  # type: ignore[arg-type]
    return [(each.value, each.documents) for each in found.values]


def test_values_are_counted_the_commonest_first(papers: Collection) -> None:
    found = papers.facets("venue")
    assert [(each.value, each.documents) for each in found.values] == [("acl", 2), ("emnlp", 1)]
    assert (found.different, found.other, found.missing, found.documents) == (2, 0, 2, 5)
    assert counts(papers, "open") == [(True, 2), (False, 1)]


def test_a_number_counts_once_however_it_is_written_and_text_apart(papers: Collection) -> None:
    assert counts(papers, "year") == [(2019, 2), (-3, 1), (2020.5, 1), ("2019", 1)]
    assert [type(value) for value, _ in counts(papers, "year")] == [int, int, float, str]


def test_a_list_counts_for_each_different_element_and_is_not_missing(papers: Collection) -> None:
    found = papers.facets("tags")
    assert [(each.value, each.documents) for each in found.values] == [("a", 3), (7, 1), ("b", 1)]
    assert (found.missing, found.documents) == (0, 5)


def test_a_number_beyond_all_floats_is_counted(papers: Collection) -> None:
    papers.add_rows([{"id": "6", "text": "far", "year": 10**400}])
    for where in (None, "id != 'x'"):
        values = [value for value, _ in counts(papers, "year", where=where)]
        assert any(isinstance(value, int | float) and value > 1e308 for value in values)


def test_what_is_beyond_the_limit_is_added_up(papers: Collection) -> None:
    found = papers.facets("tags", limit=1)
    assert counts(papers, "tags", limit=1) == [("a", 3)]
    assert (found.different, found.other) == (3, 2)
    with pytest.raises(BadInputError, match="limit is 0"):
        papers.facets("tags", limit=0)


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "expected", "missing"),
    [
        ("open = true", {"acl": 2}, 0),
        ("year >= 2020", {}, 1),
        ("not open = true", {"emnlp": 1}, 2),
        ("tags contains 'a' and year < 2020", {"acl": 2}, 0),
        ("id in ('1', '3', 'no')", {"acl": 1, "emnlp": 1}, 0),
        ("text contains 'no such piece'", {}, 0),
    ],
)
def test_only_documents_that_pass_the_filter_are_counted(
    papers: Collection, where: str, expected: dict[str, int], missing: int
) -> None:
    found = papers.facets("venue", where=where)
    assert Counter({each.value: each.documents for each in found.values}) == Counter(expected)
    assert found.missing == missing
    assert found.documents == sum(expected.values()) + missing


def test_a_documents_own_columns_can_be_counted_too(papers: Collection) -> None:
    assert counts(papers, "id", limit=2) == [("1", 1), ("2", 1)]
    found = papers.facets("title")
    assert (found.values, found.missing) == ((), 5)


def test_a_field_that_no_document_has_is_missing_everywhere(papers: Collection) -> None:
    found = papers.facets("no.such")
    assert (found.values, found.different, found.missing) == ((), 0, 5)
    with pytest.raises(BadFilterError, match="is not a valid field name"):
        papers.facets('a"b')


TEXTS = ("", "a", "A", "é", "x" * 499 + "a", "x" * 500 + "a", "x" * 500 + "b")
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2),
    st.sampled_from([0.5, 2.0, 2**53 + 1, 1e300]),
    st.sampled_from(TEXTS),
)
LISTED = PLAIN | st.lists(PLAIN, max_size=2) | st.fixed_dictionaries({"deep": PLAIN})
VALUES = st.one_of(
    PLAIN,
    st.sampled_from(["7", "007"]),
    st.lists(LISTED, max_size=4),
    st.fixed_dictionaries({"deep": st.lists(PLAIN, max_size=4)}),
)


@pytest.mark.long
@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=14),
    removed=st.sets(st.integers(0, 13)),
    where=st.sampled_from(
        [None, "b = 7", "not b = 'a'", "b contains 'a' or a = true", "not id in ('0', '2')"]
    ),
    limit=st.integers(1, 4),
)
def test_columns_count_what_is_counted_one_by_one(
    rows: list[tuple[object, object]], removed: set[int], where: str | None, limit: int
) -> None:
    encoder = WordsEncoder()
    with TemporaryDirectory() as folder, Library.open(folder, load_encoder=lambda _: encoder) as library:
        collection = library.collection("papers")
        collection.add_rows(
            [{"id": f"{n}", "text": f"word {n}", "a": one, "b": other} for n, (one, other) in enumerate(rows)]
        )
        collection.facets("b")  # the column is there when documents go
        collection.remove([f"{n}" for n in removed if n < len(rows)])
        passing = list(collection.documents(where))
        for name in ("a", "a.deep"):
            counted: Counter[tuple[str, object]] = Counter()
            missing = 0
            for document in passing:
                value = document.metadata.get("a")
                if name == "a.deep":
                    value = value.get("deep") if isinstance(value, dict) else None
                missing += value is None
                counted.update(
                    {_told(each) for each in (value if isinstance(value, list) else [value])} - {None}
                )
            found = collection.facets(name, where=where, limit=limit)
            assert (found.missing, found.documents, found.different) == (missing, len(passing), len(counted))
            assert [each.documents for each in found.values] == sorted(counted.values(), reverse=True)[:limit]
            assert all(counted[_told(each.value)] == each.documents for each in found.values)
            assert found.other == counted.total() - sum(each.documents for each in found.values)


def _told(value: object) -> tuple[str, object] | None:
    """A value as counts tell it apart: True is 1 for Python."""
    if value is None or isinstance(value, list | dict):
        return None
    return type(value).__name__.replace("float", "int"), value[:500] if isinstance(value, str) else value


def test_numbers_and_their_texts_in_lists_are_told_apart(papers: Collection) -> None:
    papers.add_rows([{"id": "6", "text": "seven", "tags": ["7", 7, "7"]}])
    assert counts(papers, "tags") == [("a", 3), (7, 2), ("7", 1), ("b", 1)]
