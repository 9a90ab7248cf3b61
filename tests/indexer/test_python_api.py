"""What an application's own code does with a collection."""

import ast
import asyncio
import datetime as dt
import inspect
import json
import pickle
import re
import textwrap
import threading
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest
from naming import Naming
from words_encoder import WordsEncoder

import nearsay.indexer
from nearsay.indexer import (
    AsyncCollection,
    BadFilterError,
    BadInputError,
    BusyError,
    Collection,
    Document,
    EncoderMismatchError,
    Hits,
    Library,
    UnknownDocumentError,
    VectorsOnly,
)
from nearsay.indexer.catalogue.writer_lock import writer_lock
from nearsay.indexer.filters import selection
from nearsay.indexer.query import ranking
from nearsay.indexer.snapshots.segment_writer import SegmentWriter
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.sentence.text_encoder import TextKind

ROWS: list[dict[str, object]] = [
    {"id": "fox", "text": "one fox", "kind": "wild", "legs": 4},
    {"id": "hen", "text": "one hen", "kind": "tame", "legs": 2},
    {"id": "ant", "text": "ant ant aa", "kind": "wild", "legs": 6},
    {"id": "mule", "text": "mmmmmmm nn", "kind": "tame", "legs": 4},
]


@pytest.fixture
def yard(library: Library) -> Collection:
    collection = library.collection("yard")
    collection.add_rows(ROWS)
    return collection


def vector_of(text: str) -> np.ndarray:
    return WordsEncoder().encode([text], kind=TextKind.QUERY)[0]


def test_a_vector_is_searched_like_its_text(yard: Collection) -> None:
    by_text = yard.search("one hen", 3, mode="dense")
    by_vector = yard.search(3 * vector_of("one hen"), 3)
    assert isinstance(by_vector, Hits)
    assert [(hit.id, hit.score) for hit in by_vector] == [(hit.id, hit.score) for hit in by_text]
    for scale in (1e-30, 1e25, 1e300):  # squared beyond what float32 holds
        far = yard.search(vector_of("one hen").astype(np.float64) * scale, 3)
        assert [hit.id for hit in far] == [hit.id for hit in by_text]
        assert [hit.score for hit in far] == pytest.approx([hit.score for hit in by_text], abs=1e-6)
    several = yard.search(np.stack([vector_of("one hen"), vector_of("ant")]), 2)
    assert isinstance(several, list)
    assert [[hit.id for hit in hits] for hits in several] == [
        [hit.id for hit in yard.search(query, 2, mode="dense")] for query in ("one hen", "ant")
    ]


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        (np.ones(3), r"\(1, 3\) of float64.*'yard' .*\b8 dim"),
        (np.zeros(8), "query vector 0 is zero"),
        (np.full(8, np.inf), "query vector 0 is zero, infinite"),
        (np.array([[1.0] * 8, [np.nan] * 8]), "query vector 1 is zero"),
        (np.array([["a"] * 8]), "array"),
    ],
)
def test_a_vector_that_cannot_be_compared_is_refused(yard: Collection, vector: np.ndarray, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        yard.search(vector)


def test_a_vector_has_no_words(yard: Collection) -> None:
    for options in ({"mode": "hybrid"}, {"mode": "lexical"}, {"explain": True}):
        with pytest.raises(BadInputError, match="vector cannot be searched"):
            yard.search(vector_of("hen"), **options)


def test_pages_follow_each_other(yard: Collection) -> None:
    whole = yard.search("one hen", 4)
    pages = [hit for offset in (0, 1, 2, 3) for hit in yard.search("one hen", 1, offset=offset)]
    assert [(hit.rank, hit.id, hit.score) for hit in pages] == [
        (hit.rank, hit.id, hit.score) for hit in whole
    ]
    beyond = yard.search("one hen", 3, offset=3)
    assert [hit.rank for hit in beyond] == [4]
    assert beyond.notes == (Naming("4 of the 6", "only 4"),)


@pytest.mark.parametrize("offset", [-1, 9_998, True, 1.5])
def test_an_offset_that_makes_no_sense_is_refused(yard: Collection, offset: int) -> None:
    with pytest.raises(BadInputError, match=f"^offset is {offset}"):
        yard.search("hen", 3, offset=offset)


def test_hits_below_a_score_are_left_out(yard: Collection) -> None:
    scores = [hit.score for hit in yard.search("one hen", 4, mode="dense")]
    assert [hit.score for hit in yard.search("one hen", 4, mode="dense", min_score=scores[1])] == scores[:2]
    none = yard.search("one hen", 4, mode="dense", min_score=2)
    assert (len(none), none.notes) == (0, (Naming("0 of the 4", f"{scores[0]:.3f}"),))
    assert yard.search("one hen", 4, mode="dense", min_score=-1).notes == ()
    with pytest.raises(BadInputError, match="min_score is nan"):
        yard.search("one hen", min_score=float("nan"))


def test_hits_carry_their_vectors_if_asked(yard: Collection) -> None:
    assert yard.search("hen", 4)[0].vector is None
    assert "vector" not in yard.search("hen", 4)[0].to_json()
    for hit in yard.search("hen", 4, with_vectors=True):
        stored = unit_length(WordsEncoder().encode([hit.text]))[0]
        np.testing.assert_allclose(hit.vector, stored, atol=1e-6)
        assert json.loads(json.dumps(hit.to_json()))["vector"] == pytest.approx(stored.tolist(), abs=1e-6)


def test_hits_carry_the_fields_asked_for(library: Library) -> None:
    papers = library.collection("papers")
    author = {"name": "Ada", "born": {"year": 1815, "month": 12}}
    papers.add_rows(
        [
            Document(
                id="a", title="Engines", text="one hen", metadata={"year": 1843, "author": author, "a.b": 1}
            )
        ]
    )

    def carried(fields: list[str] | None, **options: object) -> tuple[object, ...]:
        (hit,) = papers.search("hen", 1, fields=fields, **options)
        assert (hit.id, hit.rank) == ("a", 1)
        return hit.title, hit.text, hit.metadata

    assert carried(None) == ("Engines", "one hen", {"year": 1843, "author": author, "a.b": 1})
    assert carried([]) == ("", "", {})
    assert carried(["title", "metadata.year", "none", "year.none"]) == ("Engines", "", {"year": 1843})
    assert carried(["author.born.year", "author.name", "`a.b`", "text"]) == (
        "",
        "one hen",
        {"author": {"born": {"year": 1815}, "name": "Ada"}, "a.b": 1},
    )
    (explained,) = papers.search("hen", 1, fields=["year"], explain=True)
    assert (explained.text, explained.metadata) == ("", {"year": 1843})
    assert explained.explanation is not None
    assert explained.explanation == papers.search("hen", 1, explain=True)[0].explanation
    for fields in ("year", [7], ["a..b"]):
        with pytest.raises(BadInputError):
            papers.search("hen", fields=fields)


def test_a_query_may_come_in_whatever_holds_texts_or_numbers(yard: Collection) -> None:
    vector = vector_of("one hen")
    wanted = [hit.id for hit in yard.search(vector, 3)]
    for one in (vector.tolist(), list(vector), tuple(vector.tolist()), vector.astype(np.float64)):
        found = yard.search(one, 3)
        assert isinstance(found, Hits)
        assert [hit.id for hit in found] == wanted
    for several in ([vector.tolist()], [vector, vector], np.stack([vector])):
        found = yard.search(several, 3)
        assert isinstance(found, list)
        assert [hit.id for hit in found[0]] == wanted
    for texts in (["one hen", "ant"], ("one hen", "ant"), np.array(["one hen", "ant"])):
        assert [hits[0].id for hits in yard.search(texts, 1)] == ["hen", "ant"]
    assert yard.search([]) == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (5, "the query is a int"),
        (None, "the query is a NoneType"),
        ({"text": "hen"}, "the query is a dict"),
        (b"hen", "the query is a bytes"),
        (["hen", 7], "query 2 of 2 .*int"),
        ([7, "hen"], "query 1 of 2 .*int"),
        ([[1.0, 2.0], [1.0]], "query 1 of 2 .*list"),
        ([True, False], "query 1 of 2 .*bool"),
        (np.ones((1, 1, 8)), r"array \(1, 1, 8\)"),
        (np.array(1.0), r"array \(1, 1\)"),
    ],
)
def test_what_is_no_query_is_named(yard: Collection, query: object, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        yard.search(query)


def test_many_queries_under_one_filter_list_it_once(
    yard: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "LISTED", 0)
    listed = []
    before = ranking.list_all
    monkeypatch.setattr(ranking, "list_all", lambda *asked: listed.append(asked) or before(*asked))
    where = "legs < 6 and not text contains 'owl'"  # SQL alone tells
    queries = ["hen", "one fox", "ant"] * 8
    together = yard.search(queries, 2, where=where, mode="dense")
    assert len(listed) == 1
    for query, hits in zip(queries, together, strict=True):
        alone = yard.search(query, 2, where=where, mode="dense")
        assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in alone]


def test_documents_are_had_by_id_and_counted(yard: Collection) -> None:
    assert [one.id for one in yard.get(["ant", "fox", "ant"])] == ["ant", "fox"]
    with pytest.raises(UnknownDocumentError, match=r"'cow' \(nor 1 more"):
        yard.get(["fox", "cow", "owl"])
    assert [one.id for one in yard.get(["cow", "fox"], missing="ignore")] == ["fox"]
    with pytest.raises(BadInputError, match="missing is 'skip'"):
        yard.get(["fox"], missing="skip")
    with pytest.raises(BadInputError, match="'fox' is one id"):
        yard.get("fox")
    assert (len(yard), yard.count(), yard.count("legs = 4"), yard.count({"kind": "tame"})) == (4, 4, 2, 2)
    assert [one.id for one in yard] == ["fox", "hen", "ant", "mule"]
    assert ("fox" in yard, "cow" in yard, 4 in yard) == (True, False, False)


def test_a_collection_that_is_not_made_is_empty(library: Library) -> None:
    none = library.collection("none")
    assert (len(none), bool(none), "fox" in none) == (0, True, False)
    assert repr(none).startswith("Collection('none', not made yet, in ")


def test_metadata_is_changed_without_embedding(yard: Collection, words: WordsEncoder) -> None:
    before, encoded = yard.vectors()[1], list(words.encoded)
    assert yard.update(["hen", "ant"], metadata={"legs": 3, "kind": None, "tags": ["x"]}) == 2
    assert yard.get(["hen"])[0].metadata == {"legs": 3, "tags": ["x"]}
    assert words.encoded == encoded
    np.testing.assert_array_equal(yard.vectors()[1], before)
    assert {hit.id for hit in yard.search("hen", 4, where="legs = 3")} == {"hen", "ant"}
    assert yard.update(["hen"], metadata={"legs": 3}) == 0
    assert yard.update(where="legs >= 4", metadata={"many": True}) == 2
    assert yard.update(["fox"], metadata={"only": 1}, replace=True) == 1
    assert yard.get(["fox"])[0].metadata == {"only": 1}
    assert yard.add_rows(ROWS).relabelled == 4
    assert yard.get(["fox"])[0].metadata == {"kind": "wild", "legs": 4}


def test_true_is_not_one_when_metadata_is_changed(yard: Collection) -> None:
    yard.update(["fox"], metadata={"wild": 1, "left": None})
    assert yard.update(["fox"], metadata={"wild": True}) == 1
    assert (yard.count("wild = true"), yard.count("wild = 1")) == (1, 0)


def test_metadata_is_changed_to_what_rows_may_hold_and_nothing_else(yard: Collection) -> None:
    given = {"legs": np.int64(3), "seen": dt.date(2026, 11, 26)}
    assert yard.update(["fox"], metadata=given) == 1
    assert yard.count("legs = 3 and seen = 2026-11-26") == 1
    with pytest.raises(BadInputError, match="NUL"):
        yard.update(["fox"], metadata={"a": "x\0y"})


def test_an_update_of_what_is_not_there_changes_nothing(yard: Collection) -> None:
    with pytest.raises(UnknownDocumentError, match="no document 'cow'"):
        yard.update(["fox", "cow"], metadata={"legs": 0})
    assert yard.count("legs = 0") == 0
    assert yard.update(["fox", "cow"], metadata={"legs": 0}, missing="ignore") == 1
    for metadata in ({"a": float("nan")}, {"a": object()}, {1: "a"}, "a"):
        with pytest.raises(BadInputError, match="metadata"):
            yard.update(["fox"], metadata=metadata)


def test_an_update_reaches_what_was_read_of_a_field(yard: Collection) -> None:
    yard.facets("legs")
    yard.update(["fox"], metadata={"legs": 100})
    assert [hit.id for hit in yard.search("fox", 4, where="legs > 50")] == ["fox"]


def test_a_sample_is_as_large_as_there_is_room_for_and_none_below_nothing(yard: Collection) -> None:
    there = len(yard.vectors()[0])
    assert [len(yard.sample(count, seed=0).texts) for count in (0, 1, 1000)] == [0, 1, there]
    for count, seed in ((-1, 0), (1, -1)):
        with pytest.raises(BadInputError, match="-1"):
            yard.sample(count, seed)


def test_removing_what_is_gone_can_be_no_error(yard: Collection) -> None:
    assert yard.remove(["fox", "cow"], missing="ignore") == 1
    assert yard.remove(["fox"], missing="ignore") == 0
    with pytest.raises(UnknownDocumentError):
        yard.remove(["fox"])


def test_rows_can_bring_their_vectors(library: Library, words: WordsEncoder) -> None:
    rows = [Document(text=f"one {word}", title="a") for word in ("fox", "hen", "ant", "mule")]
    texts = [f"{row.title} {row.text}" for row in rows]
    vectors = unit_length(WordsEncoder().encode(texts)).astype(np.float64)
    given = library.collection("given", encoder=words)
    report = given.add_rows(rows, vectors=vectors)
    assert (report.added, report.embedded) == (4, 4)
    assert len(words.encoded) <= 8
    np.testing.assert_allclose(given.vectors()[1], vectors, atol=1e-6)
    usual = library.collection("usual")
    usual.add_rows(rows)
    assert [hit.text for hit in given.search("one hen", 4)] == [
        hit.text for hit in usual.search("one hen", 4)
    ]


def test_only_some_rows_are_embedded_to_compare(library: Library, words: WordsEncoder) -> None:
    texts = [f"{'a' * (1 + number % 7)} {'b' * (1 + number // 7)}" for number in range(40)]
    vectors = unit_length(WordsEncoder().encode(texts))
    given = library.collection("given", encoder=words)
    before = len(words.encoded)
    given.add_rows([{"id": str(number), "text": text} for number, text in enumerate(texts)], vectors=vectors)
    assert len(words.encoded) - before == 8
    assert len(given) == 40


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda vectors: vectors[:-1], r"\(3, 8\) of float32 .*\b4 rows.*\(4, 8\)"),
        (lambda vectors: vectors[:, :-1], r"array \(4, 7\)"),
        (lambda vectors: vectors.astype(int), "of int64"),
        (lambda vectors: 2 * vectors, "vector 0 has length 2"),
        (lambda vectors: vectors[::-1], "vector 0 .*words"),
    ],
)
def test_vectors_that_are_not_the_encoders_are_refused(yard: Collection, change: object, said: str) -> None:
    vectors = unit_length(WordsEncoder().encode([str(row["text"]) for row in ROWS]))
    rows = [row | {"id": f"new {row['id']}"} for row in ROWS]
    assert callable(change)
    with pytest.raises(BadInputError, match=said):
        yard.add_rows(rows, vectors=change(vectors))
    assert len(yard) == 4


def test_a_row_with_a_vector_is_one_passage(library: Library) -> None:
    cut = library.collection("cut", chunking="sentences")
    text = "Aa bb. Cc dd."
    with pytest.raises(BadInputError, match=r"row 0 .*\b2 passages"):
        cut.add_rows([text], vectors=unit_length(WordsEncoder().encode([text])))
    assert not cut.exists()


ELSEWHERE = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
ELSEWHERE /= np.linalg.norm(ELSEWHERE, axis=1, keepdims=True)


@pytest.mark.long
def test_vectors_may_be_made_elsewhere(open_library: Callable[[], Library]) -> None:
    made = VectorsOnly("text-embedding-9", 5)
    given = open_library().collection("given", encoder=made)
    report = given.add_rows([row | {"title": "A yard"} for row in ROWS], vectors=ELSEWHERE)
    assert (report.added, report.embedded, report.truncated) == (4, 4, 0)
    again = open_library().collection("given")  # which remembers it
    np.testing.assert_allclose(again.vectors()[1], ELSEWHERE, atol=1e-6)
    hits = again.search(7 * ELSEWHERE[2], 2)
    assert isinstance(hits, Hits)
    assert (hits[0].id, hits[0].score) == ("ant", pytest.approx(1.0, abs=1e-6))
    assert hits[0].lineage.encoder == "text-embedding-9"
    assert [hit.id for hit in again.search("fox", mode="lexical")] == ["fox"]
    assert len(again.similar("fox")) == 3
    for mode in ("dense", None):
        with pytest.raises(BadInputError, match="made elsewhere, by text-embedding-9"):
            again.search("fox", mode=mode)
    with pytest.raises(BadInputError, match="Give them with the rows"):
        again.add_rows(["one cow"])
    with pytest.raises(EncoderMismatchError):
        open_library().collection("given", encoder=VectorsOnly("another", 5)).add_rows(
            ROWS, vectors=ELSEWHERE
        )
    with pytest.raises(BadInputError, match=r"\(4, 5\)"):
        again.add_rows(ROWS, vectors=np.ones((4, 6), dtype=np.float32))


def test_a_remedy_for_vectors_made_elsewhere_works_where_it_is_given(library: Library) -> None:
    given = library.collection("given", encoder=VectorsOnly("elsewhere", 5))
    given.add_rows(ROWS, vectors=ELSEWHERE)
    with pytest.raises(BadInputError, match=r"\b5 dimensions.*without --queries"):
        given.tune(queries=["a text"])
    with pytest.raises(BadInputError, match=r"--mode lexical.* without --explain"):
        given.search("fox", mode="lexical", explain=True)
    with pytest.raises(BadInputError, match=r"encoder=VectorsOnly\(MODEL, "):
        library.collection("other").add_rows(
            ROWS, vectors=-unit_length(WordsEncoder().encode([str(row["text"]) for row in ROWS]))
        )


def test_vectors_made_elsewhere_are_no_encoder_to_rebuild_by(library: Library) -> None:
    given = library.collection("given", encoder=VectorsOnly("elsewhere", 5))
    given.add_rows(ROWS, vectors=ELSEWHERE)
    other = library.collection("given", encoder=VectorsOnly("other", 4))
    with pytest.raises(EncoderMismatchError) as refused:
        other.add_rows(ROWS[:1], vectors=np.eye(1, 4))
    halved = library.collection("given", dtype="float16")
    with pytest.raises(BadInputError) as stored:
        halved.add_rows(ROWS, vectors=ELSEWHERE)
    for error in (refused.value, stored.value):
        assert "new collection" in str(error)
        assert "rebuild" not in str(error)
    for collection, source in ((given, VectorsOnly("other", 4)), (halved, "vectors:elsewhere:5")):
        with pytest.raises(BadInputError, match=r"4 passages.*'given'.*new collection"):
            collection.rebuild(source)
    assert [row.number for row in given.generations()] == [1], "none is begun that nobody could finish"


def test_what_was_left_without_its_vector_gets_it_by_the_same_call(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = library.collection("given", encoder=VectorsOnly("elsewhere", 5))
    given.add_rows(ROWS[:1], vectors=ELSEWHERE[:1])
    with monkeypatch.context() as patch:
        patch.setattr(SegmentWriter, "_write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            given.add_rows(ROWS, vectors=ELSEWHERE)
    with pytest.raises(BadInputError, match="none for 'one hen'"):
        given.add_rows(["one cow"], vectors=ELSEWHERE[:1])
    assert given.add_rows(ROWS, vectors=ELSEWHERE).resumed == 3
    assert len(given) == len(given.vectors()[0]) == 4


def test_of_two_rows_with_one_text_the_vectors_have_to_agree(library: Library) -> None:
    given = library.collection("given", encoder=VectorsOnly("elsewhere", 5))
    rows = [{"id": "a", "text": "one fox"}, {"id": "b", "text": "a hen"}, {"id": "c", "text": "one fox"}]
    with pytest.raises(BadInputError, match=r"vector 0 .*later"):
        given.add_rows(rows, vectors=ELSEWHERE[:3])
    assert not given.exists()
    assert given.add_rows(rows, vectors=ELSEWHERE[[0, 1, 0]]).added == 3


@pytest.mark.parametrize(("name", "dimension"), [("", 5), (" ", 5), ("a", 0)])
def test_vectors_of_nothing_are_refused(name: str, dimension: int) -> None:
    with pytest.raises(BadInputError, match="vectors need the name"):
        VectorsOnly(name, dimension)


def test_a_collection_of_vectors_can_be_rebuilt_by_an_encoder(library: Library, words: WordsEncoder) -> None:
    given = library.collection("given", encoder=VectorsOnly("a:b", 5))
    given.add_rows(ROWS, vectors=ELSEWHERE)
    library.collection("given").rebuild(words)
    library.collection("given").promote()
    assert [hit.id for hit in library.collection("given").search("one hen", 1)] == ["hen"]


def test_a_writer_waits_as_long_as_it_was_told(yard: Collection) -> None:
    store, row = yard.library.store, yard.snapshot().collection
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with writer_lock(store.locks, "yard", row.id, store.database, "hold"):
            held.set()
            done.wait(120)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    with pytest.raises(BusyError, match=r"process \d+ \(hold"):
        yard.remove(["fox"], wait=0)
    with pytest.raises(BusyError):
        yard.update(["fox"], metadata={"legs": 1}, wait=0.05)
    threading.Timer(0.2, done.set).start()
    assert yard.remove(["fox"], wait=60) == 1
    holder.join()


def test_threads_that_add_at_once_all_come_to_an_end(library: Library) -> None:
    pets = library.collection("pets")
    pets.add_rows(["a cat"])
    failed: list[BaseException] = []

    def add(thread: int) -> None:
        try:
            for batch in range(5):
                pets.add_rows(
                    [{"id": f"{thread} {batch} {row}", "text": "a dog"} for row in range(3)], wait=100
                )
        except BaseException as error:  # noqa: BLE001 - the test's own thread tells of it
            failed.append(error)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(pets) == 1 + 8 * 5 * 3
    assert len(pets.vectors()[0]) == 1 + 8 * 5 * 3


def test_hits_become_tables(yard: Collection) -> None:
    pytest.importorskip("pandas")
    hits = yard.search("one hen", 3, with_vectors=True)
    table = hits.to_arrow()
    assert table.column("id").to_pylist() == [hit.id for hit in hits]
    assert json.loads(table.column("metadata")[0].as_py()) == hits[0].metadata
    np.testing.assert_array_equal(
        np.array(table.column("vector").to_pylist(), dtype=np.float32)[0], hits[0].vector
    )
    frame = hits.to_pandas()
    assert frame["score"].tolist() == [hit.score for hit in hits]
    assert frame["metadata"][0] == hits[0].metadata
    assert frame["rerank"].dtype == np.float64  # nobody was asked, and frames are put together
    none = yard.search("one hen", 3, where="legs = 99")
    assert (none.to_arrow().num_rows, len(none.to_pandas())) == (0, 0)
    assert none.to_arrow().schema == yard.search("one hen").to_arrow().schema


def test_values_of_rows_may_be_asked_for_as_they_were_given(library: Library) -> None:
    values = (np.int64(3), np.float32(0.5), np.bool_(True), np.str_("x"), Decimal("1.5"), UUID(int=5))
    values = (
        *values,
        dt.datetime(2021, 3, 5, 4, tzinfo=dt.UTC),
        np.datetime64("2021-03-05T05:00:00"),
    )
    collection = library.collection("kinds")
    collection.add_rows([{"text": f"text {i}", "v": value} for i, value in enumerate(values)])
    for i, value in enumerate(values):
        for where in ({"v": value}, {"v": [value]}, {"v": {"=": value}}):
            assert [document.text for document in collection.documents(where)] == [f"text {i}"], where
    for value in (np.float32("nan"), Decimal("nan"), np.array([1]), b"a"):
        with pytest.raises(BadFilterError):
            collection.count({"v": value})


@pytest.mark.parametrize("one", [UUID(int=1), np.int64(7), np.uint8(7)])
def test_an_id_may_be_of_the_kinds_that_databases_and_tables_have(library: Library, one: object) -> None:
    collection = library.collection("ids")
    for text in ("before", "after"):
        collection.add_rows([{"id": one, "text": text}])
    assert [(document.id, document.text) for document in collection] == [(str(one), "after")]


def test_what_is_shown_in_a_console_is_short(yard: Collection, tmp_path: Path) -> None:
    assert repr(yard) == f"Collection('yard', 4 documents, in {str(yard.library.store.folder)!r})"
    assert repr(yard.library) == f"Library({str(yard.library.store.folder)!r})"
    first, *lines = repr(yard.search("one hen", 2)).splitlines()
    assert first == "Hits(2 of 2 asked for)"
    assert [line.split()[0] for line in lines] == ["1", "2"]
    assert lines[0].endswith("hen: one hen")


def test_everything_can_be_awaited(yard: Collection) -> None:
    async def work() -> tuple[Hits, int, int]:
        yards = AsyncCollection(yard)
        assert [one.id async for one in yards.documents("legs = 4")] == ["fox", "mule"]
        assert [one.id async for one in yards.documents()] == [one.id for one in yard]
        hits, count = await asyncio.gather(yards.search("one hen", k=2), yards.count())
        assert isinstance(hits, Hits)
        return hits, count, await yards.remove(["fox"])

    hits, count, removed = asyncio.run(work())
    assert ([hit.id for hit in hits], count, removed) == (["hen", "fox"], 4, 1)


def test_every_public_name_is_there() -> None:
    for name in nearsay.indexer.__all__:
        assert getattr(nearsay.indexer, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = nearsay.indexer.Nothing


def test_every_class_that_public_methods_take_or_return_is_public() -> None:
    known = {*nearsay.indexer.__all__, "Explorable", "Explored"}  # what any collection is, and explores
    for one in (Library, Collection, nearsay.indexer.Explorer, nearsay.indexer.Judgements):
        public = [each for name, each in vars(one).items() if not name.startswith("_")]
        functions = [each.fget if isinstance(each, property) else each for each in public]
        for function in filter(inspect.isfunction, functions):
            module = inspect.getmodule(function)
            places = {
                alias.name: node.module
                for node in ast.walk(ast.parse(inspect.getsource(module)))
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            (method,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
            assert isinstance(method, ast.FunctionDef)
            given = [each.annotation for each in (*method.args.args, *method.args.kwonlyargs)]
            for name in re.findall(
                r"\w+", " ".join(ast.unparse(each) for each in (*given, method.returns) if each)
            ):
                place = places.get(name, module.__name__)
                if place.startswith("nearsay.") and isinstance(vars(import_module(place)).get(name), type):
                    assert name in known, f"{one.__name__}.{method.name}"


def test_every_method_of_a_collection_can_be_awaited() -> None:
    def methods(of: type) -> set[str]:
        return {name for name, value in vars(of).items() if callable(value) and not name.startswith("_")}

    assert methods(AsyncCollection) == methods(Collection)


def test_an_open_library_is_no_message_to_another_process(library: Library, yard: Collection) -> None:
    for opened in (library, yard):
        with pytest.raises(TypeError, match="Open it there"):
            pickle.dumps(opened)
    assert pickle.loads(pickle.dumps(yard.search("one hen"))).hits == yard.search("one hen").hits  # noqa: S301 - ours
