"""From a query to hits."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library, Lineage
from nearsay.indexer.catalogue import documents, passages
from nearsay.indexer.catalogue.tables import collections as collection_table
from nearsay.indexer.catalogue.tables import passages as passage_table
from nearsay.indexer.filters import parse as parsing
from nearsay.indexer.filters.expression import Expression
from nearsay.indexer.filters.parse import parse
from nearsay.indexer.filters.sql import condition
from nearsay.indexer.query import search as search_module
from nearsay.indexer.query.search import SearchRequest, search
from nearsay.indexer.vectors.errors import BadFilterError, UnknownCollectionError
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.sentence.text_encoder import TextKind

OpenLibrary = Callable[[], Library]

ROWS: list[dict[str, object]] = [
    {"id": "north", "text": "bb", "year": 2018, "venue": "acl"},
    {"id": "east", "text": "a", "title": "", "year": 2019, "venue": "emnlp"},
    {"id": "north-east", "text": "a bb", "year": 2020, "venue": "acl", "tags": ["x"]},
    {"id": "east-north-east", "text": "a a bb", "year": 2021, "venue": "naacl"},
]
TOWARDS_A = ["east", "east-north-east", "north-east", "north"]  # 1, 2/√5, 1/√2, 0


@pytest.fixture
def compass(library: Library) -> Collection:
    """Four documents of a passage each, around the query "a"."""
    collection = library.collection("compass")
    collection.add_rows(ROWS)
    return collection


@pytest.fixture
def chapters(library: Library) -> Collection:
    """Two documents of three sentences each, every sentence a passage, and one of a single sentence."""
    collection = library.collection("chapters", chunking="sentences")
    collection.add_rows(
        [
            {"id": "near", "text": "Cc cc cc. Cc cc cc. Cc cc ddd."},
            {"id": "middle", "text": "Cc ddd. Ccc ddd. Cccc dddd."},
            {"id": "far", "text": "Eeee ffff gggg."},
        ]
    )
    return collection


def unlocked_search(collection: Collection, query: str, **request: object) -> list[str]:
    """The ids that a search finds with a snapshot taken now, after what `behind` did."""
    snapshot = collection.snapshot()
    behind = request.pop("behind")
    assert callable(behind)
    behind()
    vector = WordsEncoder().encode([query], kind=TextKind.QUERY)
    (found,) = search(collection._store, snapshot, unit_length(vector), SearchRequest(**request))
    return [hit.id for hit in found]


def test_passages_come_by_falling_cosine(compass: Collection) -> None:
    hits = compass.search("a", mode="dense")
    assert [hit.id for hit in hits] == TOWARDS_A
    assert [hit.rank for hit in hits] == [1, 2, 3, 4]
    assert [hit.score for hit in hits] == pytest.approx([1, 2 / 5**0.5, 0.5**0.5, 0], abs=1e-6)
    assert hits.qualifying == 4


@pytest.mark.long
def test_the_query_is_encoded_as_a_query(compass: Collection, words: WordsEncoder) -> None:
    before = list(words.encoded)
    compass.search("a zz")
    assert words.encoded == before


def test_equal_scores_come_in_the_order_of_their_adding(library: Library) -> None:
    collection = library.collection("copies")
    collection.add_rows([{"id": f"d{i}", "text": "a bb ccc"} for i in (3, 1, 2, 0)])
    assert [hit.id for hit in collection.search("a", 3)] == ["d3", "d1", "d2"]
    assert [hit.id for hit in collection.search("a", 2, where="id != 'd3'")] == ["d1", "d2"]


def test_a_hit_says_everything_of_its_passage_and_where_it_comes_from(
    chapters: Collection, words: WordsEncoder
) -> None:
    hit = chapters.search("ddd", 1)[0]
    assert (hit.id, hit.passage, hit.text, hit.start, hit.end) == ("middle", 1, "Ccc ddd.", 8, 16)
    assert chapters.document("middle").text[hit.start : hit.end] == hit.text
    assert hit.lineage == Lineage("words", words.fingerprint, 1, "exact", ("made for tests",))
    assert hit.to_json()["lineage"] == {
        "encoder": "words",
        "fingerprint": words.fingerprint,
        "generation": 1,
        "plan": "exact",
        "made_by": ("made for tests",),
        "device": "cpu",
    }


def test_hits_carry_the_metadata_of_their_document(compass: Collection) -> None:
    hit = compass.search("a bb", 1)[0]
    assert hit.metadata == {"year": 2020, "venue": "acl", "tags": ["x"]}
    assert (hit.title, hit.source) == ("", None)


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("year >= 2020", ["east-north-east", "north-east"]),
        ({"year": {">=": 2020}}, ["east-north-east", "north-east"]),
        ("venue in ('acl', 'emnlp') and year < 2020", ["east", "north"]),
        ({"venue": ["acl", "emnlp"], "year": {"<": 2020}}, ["east", "north"]),
        ("not venue = 'acl'", ["east", "east-north-east"]),
        ({"not": {"venue": "acl"}}, ["east", "east-north-east"]),
        ("tags contains 'x'", ["north-east"]),
        ("tags is missing", ["east", "east-north-east", "north"]),
        ("text contains 'bb'", ["east-north-east", "north-east", "north"]),
        ({}, TOWARDS_A),
    ],
)
def test_only_what_a_filter_lets_through_is_found(
    compass: Collection, where: str | dict[str, object], ids: list[str]
) -> None:
    hits = compass.search("a", 4, where=where)
    assert [hit.id for hit in hits] == ids
    assert hits.qualifying == len(ids)


def test_a_filter_is_read_once_in_a_search(compass: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []

    def noted(filter_: parsing.Where) -> Expression:
        read.append(filter_)
        return parse(filter_)

    for name, module in list(sys.modules.items()):
        if name.startswith("nearsay.") and getattr(module, "parse", None) is parse:
            monkeypatch.setattr(module, "parse", noted)
    where = {"year": {">=": 2030}, "yeer": 1}  # nothing passes, so that the notes speak of its fields
    (first, second) = compass.search(["a", "bb"], where=where)
    assert read == [where]
    assert not first
    assert any("yeer" in note for note in (*first.notes, *second.notes))


def test_a_filter_that_cannot_be_read_is_refused(compass: Collection) -> None:
    with pytest.raises(BadFilterError, match="cannot be read at column"):
        compass.search("a", where="year >>> 3")


@pytest.mark.parametrize(
    ("where", "k", "note"),
    [
        (None, 4, None),
        (None, 3, None),
        (None, 9, Naming("4 of the 9", "only 4 passages")),
        ("year >= 2020", 2, None),
        ("year >= 2020", 3, Naming("2 of the 3", "only 2 passages", "filter")),
        ("year = 2020", 3, Naming("1 of the 3", "only 1 passage", "filter")),
        ("year = 1", 3, Naming("nothing found", "no passage", "filter")),
    ],
)
def test_fewer_than_asked_for_is_said(
    compass: Collection, where: str | None, k: int, note: Naming | None
) -> None:
    assert compass.search("a", k, where=where).notes == (() if note is None else (note,))


def test_one_and_none_are_said_too(compass: Collection) -> None:
    compass.remove(["north", "east", "north-east"])
    assert compass.search("a", 2).notes == (Naming("1 of the 2", "only 1 passage"),)
    compass.remove(["east-north-east"])
    hits = compass.search("a", 2)
    assert (len(hits), hits.qualifying) == (0, 0)
    assert hits.notes == (Naming("nothing found", "no passage"),)


@pytest.mark.parametrize(
    ("where", "k", "note"),
    [
        (None, 3, None),
        (None, 4, Naming("3 of the 4", "only 3 documents")),
        ("id in ('near', 'far')", 3, Naming("2 of the 3", "only 2 documents", "filter")),
        ("id = 'near'", 2, Naming("1 of the 2", "only 1 document", "filter")),
        ("id = 'nowhere'", 2, Naming("nothing found", "no document", "filter")),
    ],
)
def test_fewer_documents_than_asked_for_is_said(
    chapters: Collection, where: str | None, k: int, note: Naming | None
) -> None:
    assert chapters.search("cc", k, where=where, by_document=True).notes == (() if note is None else (note,))


def test_one_document_and_none_are_said_too(chapters: Collection) -> None:
    chapters.remove(["near", "far"])
    notes = chapters.search("cc", 2, by_document=True).notes
    assert notes == (Naming("1 of the 2", "only 1 document"),)
    chapters.remove(["middle"])
    notes = chapters.search("cc", 2, by_document=True).notes
    assert notes == (Naming("nothing found", "no document"),)


def test_by_document_each_document_comes_once_by_its_best_passage(chapters: Collection) -> None:
    assert [hit.id for hit in chapters.search("cc", 3)] == ["near", "near", "near"]
    hits = chapters.search("cc", 3, by_document=True)
    assert [(hit.id, hit.passage) for hit in hits] == [("near", 0), ("middle", 0), ("far", 0)]
    assert [hit.rank for hit in hits] == [1, 2, 3]
    assert hits.qualifying == 7


def test_by_document_there_are_k_of_them_however_many_passages_one_has(library: Library) -> None:
    collection = library.collection("books", chunking="sentences")
    collection.add_rows([{"id": f"d{i}", "text": "Cc cc. " * 20 + "Ddd."} for i in range(4)])
    collection.add_rows([{"id": "last", "text": "Eeeeeee."}])
    for k in range(1, 6):
        hits = collection.search("cc", k, by_document=True)
        assert [hit.id for hit in hits] == ["d0", "d1", "d2", "d3", "last"][:k]
        assert hits.notes == ()


@pytest.mark.parametrize(("mode", "first"), [("dense", 3), ("hybrid", 100)])
def test_where_the_passages_of_few_documents_fill_the_list_more_are_found_as_surely(
    library: Library, monkeypatch: pytest.MonkeyPatch, mode: str, first: int
) -> None:
    collection = library.collection("books", chunking="sentences")
    long = 40 if mode == "dense" else 300
    collection.add_rows(
        [{"id": "long", "text": "Cc cc. " * long}, *({"id": f"d{i}", "text": "Dddd."} for i in range(9))]
    )
    asked, candidates = list[tuple[int, int]](), search_module.dense_candidates

    def noted(connection: Any, snapshot: Any, queries: Any, count: int, selection: Any, sure_of: int) -> Any:
        asked.append((count, sure_of))
        return candidates(connection, snapshot, queries, count, selection, sure_of)

    monkeypatch.setattr(search_module, "dense_candidates", noted)
    assert len(collection.search("cc", 3, by_document=True, mode=mode)) == 3
    assert asked[0] == (first, 3)
    assert len(asked) > 1
    assert all(count == sure_of for count, sure_of in asked[1:])


@pytest.mark.long
@settings(deadline=None, max_examples=15)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    k=st.integers(1, 15),
    seed=st.integers(0, 999),
    parity=st.sampled_from([None, 0, 1]),
)
def test_k_come_back_whenever_k_qualify(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], k: int, seed: int, parity: int | None
) -> None:
    generator = np.random.default_rng(seed)
    rows = [
        {
            "id": f"d{i}",
            "parity": i % 2,
            "text": " ".join("X" + "x" * generator.integers(2, 8) + "." for _ in range(n)),
        }
        for i, n in enumerate(sizes)
    ]
    where = None if parity is None else f"parity = {parity}"
    with Library.open(
        tmp_path_factory.mktemp("any") / "library", load_encoder=lambda _: WordsEncoder()
    ) as library:
        collection = library.collection("any", chunking="sentences")
        collection.add_rows(rows)
        passing = [n for i, n in enumerate(sizes) if parity in (None, i % 2)]
        hits = collection.search("aaa", k, where=where)
        assert len(hits) == min(k, sum(passing))
        assert hits.qualifying == sum(passing)
        by_document = collection.search("aaa", k, where=where, by_document=True)
        assert len(by_document) == min(k, len(passing))
        assert len({hit.id for hit in by_document}) == len(by_document)
        assert bool(hits.notes) == (len(hits) < k)


def test_removed_documents_are_hidden_at_once(compass: Collection) -> None:
    assert compass.search("a", 1)[0].id == "east"
    compass.remove(["east"])
    assert [hit.id for hit in compass.search("a", 9)] == TOWARDS_A[1:]


def test_what_another_process_removed_is_hidden_at_once(
    compass: Collection, open_library: OpenLibrary
) -> None:
    compass.search("a")
    open_library().collection("compass").remove(where="venue = 'acl'")
    assert [hit.id for hit in compass.search("a", 9)] == ["east", "east-north-east"]


@pytest.mark.parametrize("where", [None, "year > 0"])
def test_what_is_removed_after_the_snapshot_is_not_fetched_and_the_next_best_come(
    compass: Collection, open_library: OpenLibrary, where: str | None
) -> None:
    def remove() -> None:
        open_library().collection("compass").remove(["east", "east-north-east"])

    assert unlocked_search(compass, "a", k=2, where=where, behind=remove) == ["north-east", "north"]


def test_a_document_that_stops_passing_the_filter_after_the_snapshot_does_not_come(
    compass: Collection, open_library: OpenLibrary
) -> None:
    def change() -> None:
        open_library().collection("compass").add_rows([ROWS[1] | {"year": 1999}])

    assert unlocked_search(compass, "a", k=1, where="year >= 2019", behind=change) == ["east-north-east"]


def test_a_document_that_begins_to_pass_the_filter_after_the_snapshot_comes(
    compass: Collection, open_library: OpenLibrary
) -> None:
    def change() -> None:
        open_library().collection("compass").add_rows([ROWS[0] | {"year": 2030}])

    assert unlocked_search(compass, "a", k=5, where="year >= 2030", behind=change) == ["north"]


def test_the_filter_is_checked_again_where_the_rows_are_fetched(
    compass: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the catalogue had changed between the choice of passages and the fetching of rows."""
    with compass._store.database.reading() as connection:
        everything = passages.passage_numbers(connection, compass._record.row().id)
    monkeypatch.setattr(passages, "passage_numbers", lambda *_: everything)
    assert [hit.id for hit in compass.search("a", 4, where="venue = 'acl'")] == ["north-east", "north"]


def test_texts_changed_after_the_snapshot_are_not_answered_with_old_vectors(
    compass: Collection, open_library: OpenLibrary
) -> None:
    def change() -> None:
        open_library().collection("compass").add_rows([ROWS[1] | {"text": "bb bb"}])

    assert unlocked_search(compass, "a", k=4, behind=change) == TOWARDS_A[1:]


def test_a_filter_that_names_no_known_field_is_told_which_there_are(compass: Collection) -> None:
    hits = compass.search("a", 2, where="yeer > 2000 and id != 'x'")
    assert hits.notes == (
        Naming("nothing found", "filter"),
        Naming("'yeer'", "tags, venue, year"),
    )


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("author.nmae = 'Ann'", ("'author.nmae'", "author.born, author.name")),
        ("metadata.author.nmae = 'Ann'", ("'author.nmae'", "author.born, author.name")),
        ("author.born.yaer = 1", ("'author.born.yaer'", "author.born.year")),
        ("metadata.yeer = 1", ("'yeer'", "author, year")),
        ("year.month = 1", ("'year.month'", "author, year")),  # which has no field within
        ("author.name = 'Bob'", None),
        ("author.born.year = 1", None),
    ],
)
def test_a_filter_that_names_no_known_field_within_another_is_told_too(
    library: Library, where: str, named: tuple[str, ...] | None
) -> None:
    people = library.collection("people")
    ann = {"name": "Ann", "born": {"year": 1975}}
    people.add_rows([{"text": "a", "year": 2019, "author": ann}, {"text": "bb", "author": None}])
    notes = people.search("a", 1, where=where).notes
    assert [note for note in notes if "no checked document has" in note] == (
        [] if named is None else [Naming(*named)]
    )


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("year > 'abc'", ("'year'", "numbers", "'abc'")),
        ("metadata.year = '2019' and not venue = 'acl'", ("'metadata.year'", "numbers", "'2019'")),
        ("venue >= 2019", ("'venue'", "text", "2019")),
        ("year > 2019-01-01", ("'year'", "numbers", "2019-01-01")),
        ("year > 9000", None),
        ("venue = 'none'", None),
    ],
)
def test_a_comparison_with_another_kind_of_value_is_told_where_nothing_is_found(
    compass: Collection, where: str, named: tuple[str, ...] | None
) -> None:
    hits = compass.search("a", 2, where=where)
    assert not hits
    assert [note for note in hits.notes if "comparison" in note] == (
        [] if named is None else [Naming(*named)]
    )


@pytest.mark.parametrize("where", ["code = '2019'", "code = 2019", "code > '2018'"])
def test_digits_in_text_are_found_as_a_number_and_as_text(library: Library, where: str) -> None:
    collection = library.collection("codes")
    collection.add_rows([{"id": "one", "text": "a", "code": "2019"}])
    assert [hit.id for hit in collection.search("a", 1, where=where)] == ["one"]
    notes = collection.search("a", 1, where=f"{where} and id = 'two'").notes
    assert notes == (Naming("nothing found", "filter"),)


def test_a_known_field_that_nothing_passes_needs_no_such_note(compass: Collection) -> None:
    hits = compass.search("a", 2, where={"metadata.year": 1, "title": "x", "source": "y"})
    assert hits.notes == (Naming("nothing found", "filter"),)


def test_passages_that_wait_for_their_vectors_are_told(compass: Collection) -> None:
    with compass._store.database.writing() as connection:
        connection.execute(passage_table.update().where(passage_table.c.number == 4).values(number=50))
        connection.execute(collection_table.update().values(version=collection_table.c.version + 1))
    hits = compass.search("a", 3)
    assert [hit.id for hit in hits] == ["east", "north-east", "north"]
    assert hits.notes == (Naming("1 passage", "no vector", "not searched", "nearsay index rebuild compass"),)
    assert compass.rebuild().embedded == 1
    hits = compass.search("a", 4, mode="dense")
    assert ([hit.id for hit in hits], hits.notes) == (TOWARDS_A, ())


@pytest.mark.parametrize("k", [0, -1, 10_001])
def test_a_k_that_makes_no_sense_is_refused(compass: Collection, k: int) -> None:
    with pytest.raises(BadInputError, match=f"^k is {k}\\..* 1 to 10000 "):
        compass.search("a", k)


def test_the_largest_k_is_served(compass: Collection) -> None:
    assert len(compass.search("a", 10_000)) == 4


@pytest.mark.parametrize("query", ["", " ", "\n\t"])
def test_an_empty_query_is_refused(compass: Collection, query: str) -> None:
    with pytest.raises(BadInputError, match="query is empty"):
        compass.search(query)
    with pytest.raises(BadInputError, match="query 2 of 3 "):
        compass.search(["north", query, "south"])


def test_an_unknown_collection_names_those_there_are(compass: Collection, library: Library) -> None:
    library.collection("books").add_rows(["a"])
    with pytest.raises(UnknownCollectionError) as raised:
        library.collection("papers").search("a")
    assert str(raised.value) == Naming("'papers'", "in library", "books, compass", "Add documents")


def test_an_unknown_collection_of_an_empty_library_says_that_there_is_none(library: Library) -> None:
    with pytest.raises(UnknownCollectionError, match="none yet"):
        library.collection("papers").search("a")


def test_a_collection_in_which_nothing_was_embedded_yet_says_how_to_fill_it(library: Library) -> None:
    library.collection("papers")._record.made()
    with pytest.raises(BadInputError) as raised:
        library.collection("papers").search("a")
    assert str(raised.value) == Naming("'papers'", "empty", "nearsay documents add papers FILE")


def test_hits_are_a_sequence(compass: Collection) -> None:
    hits = compass.search("a")
    assert [hit.id for hit in hits[1:3]] == TOWARDS_A[1:3]
    assert hits[-1].id == "north"
    assert [hit.id for hit in reversed(hits)] == TOWARDS_A[::-1]


def test_the_filter_of_a_search_is_the_filter_of_the_documents(compass: Collection) -> None:
    where = "year >= 2019 and not venue = 'naacl'"
    chosen = condition(parse(where), compass._store.database.dialect)
    with compass._store.database.reading() as connection:
        ids = {found.id for _, found in documents.matching(connection, compass._record.row().id, chosen)}
    assert {hit.id for hit in compass.search("a", where=where)} == ids == {"east", "north-east"}


def test_a_metadata_field_named_as_a_documents_own_is_reached_and_never_missed_in_silence(
    library: Library,
) -> None:
    wiki = library.collection("wiki")
    wiki.add_rows([{"id": "1", "text": "a", "source": "wiki", "a.b": 1}, {"id": "2", "text": "aa"}])
    assert [hit.id for hit in wiki.search("a", where="metadata.source = 'wiki'")] == ["1"]
    for where in ("source = 'wiki'", "source = 'wiki' or id = '2'"):  # with and without a hit
        assert any("metadata.source" in note for note in wiki.search("a", where=where).notes)
    assert not any("metadata." in note for note in wiki.search("a", where="metadata.source = 'x'").notes)
    for where in ({"`a.b`": 1}, "`a.b` = 1"):
        assert [hit.id for hit in wiki.search("a", where=where)] == ["1"]
    assert any("`a.b`" in note for note in wiki.search("a", where={"a.b": 1}).notes)


def test_numbers_of_numpy_are_pythons_from_the_start() -> None:
    """FAISS takes no others."""
    request = SearchRequest(k=np.int64(3), offset=np.int32(2))  # type: ignore[arg-type]
    assert (type(request.k), type(request.offset), request.last) == (int, int, 5)


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "5", None])
def test_a_number_of_results_that_is_none_is_refused(compass: Collection, k: object) -> None:
    with pytest.raises(BadInputError):
        compass.search("a", k)
    with pytest.raises(BadInputError):
        compass.similar(["north"], k)
