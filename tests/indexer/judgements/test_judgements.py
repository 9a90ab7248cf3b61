"""What people say of search results is kept, by whomever and whatever becomes of the documents."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import collections, judgements
from nearsay.indexer.catalogue.judgements import JudgedQuery, JudgementCounts, JudgementState, SearchMode
from nearsay.indexer.catalogue.tables import judgements as table
from nearsay.indexer.catalogue.writer_lock import writer_lock
from nearsay.indexer.vectors.errors import BusyError, UnknownCollectionError, UnknownDocumentError


def test_a_judged_hit_is_kept_with_all_that_it_says_of_itself(zoo: Collection) -> None:
    hit = zoo.search("a cat", k=3)[1]
    judged = zoo.judgements.add("a cat", hit, True)
    (kept,) = zoo.judgements.list()
    assert kept == judged
    assert (kept.query, kept.document, kept.passage, kept.relevant) == ("a cat", hit.id, hit.passage, True)
    assert (kept.title, kept.text, kept.rank, kept.score) == (hit.title, hit.text, 2, hit.score)
    lineage = hit.lineage
    assert (kept.encoder, kept.fingerprint, kept.generation) == ("words", lineage.fingerprint, 1)
    assert (kept.mode, kept.state) == (SearchMode.HYBRID, JudgementState.CURRENT)
    assert kept.created_at.endswith("+00:00")


@pytest.mark.parametrize("mode", list(SearchMode))
def test_a_hit_knows_how_it_was_looked_for(zoo: Collection, mode: SearchMode) -> None:
    hit = zoo.search("a cat sat", mode=mode)[0]
    assert zoo.judgements.add("a cat sat", hit, True).mode is mode


def test_a_similar_document_was_found_by_meaning(zoo: Collection) -> None:
    assert zoo.judgements.add("like the cat", zoo.similar("cat")[0], False).mode is SearchMode.DENSE


def test_a_document_that_no_search_found_is_judged_with_its_text_and_the_live_encoder(
    pets: Collection, either_library: Library
) -> None:
    judged = pets.judgements.add("night birds", "owl", True)
    assert (judged.passage, judged.title, judged.text) == (0, "", "owls see at night")
    assert (judged.rank, judged.score, judged.mode) == (None, None, None)
    assert (judged.encoder, judged.generation) == ("words", 1)
    other = WordsEncoder(name="wide", dimension=12)
    pets.rebuild(other)
    pets.promote()
    judged = pets.judgements.add("night birds", "cat", False, rank=7, score=0.25, mode="dense")
    assert (judged.encoder, judged.fingerprint, judged.generation) == ("wide", other.fingerprint, 2)
    assert (judged.title, judged.rank, judged.score, judged.mode) == ("Cat", 7, 0.25, SearchMode.DENSE)
    assert pets.judgements.list() == (pets.judgements.list("night birds")[0], judged)


def test_judging_again_takes_the_place_of_what_was_said(pets: Collection) -> None:
    pets.judgements.add("sleep", "cat", True, rank=3)
    pets.judgements.add("sleep", "dog", False)
    pets.judgements.add(" sleep\n", "cat", False)
    first, second = pets.judgements.list()
    assert (first.document, first.relevant, first.rank) == ("cat", False, None)
    assert second.document == "dog"
    assert pets.judgements.counts() == JudgementCounts(1, 0, 2, 0, 0)


def test_passages_of_one_document_are_judged_one_by_one(zoo: Collection) -> None:
    with pytest.raises(BadInputError, match=r"'long' .*\b2 passages"):
        zoo.judgements.add("sleep", "long", True)
    first = zoo.judgements.add("sleep", "long", True, passage=0)
    second = zoo.judgements.add("sleep", "long", False, passage=1)
    assert first.text.startswith("word0 sleeps.")
    assert second.text.endswith("word11 sleeps.")
    assert zoo.judgements.of("sleep") == {("long", 0): True, ("long", 1): False}
    assert zoo.judgements.remove("sleep", "long", 0) == 1
    assert zoo.judgements.of("sleep") == {("long", 1): False}
    zoo.judgements.add("sleep", "long", True, passage=0)
    assert zoo.judgements.remove("sleep", "long") == 2
    assert zoo.judgements.list() == ()


def test_what_was_taken_back_is_gone_and_nothing_else(zoo: Collection) -> None:
    hit = zoo.search("a cat", k=1)[0]
    zoo.judgements.add("a cat", hit, True)
    zoo.judgements.add("a dog", hit, False)
    assert zoo.judgements.remove("a cat ", hit) == 1
    assert zoo.judgements.remove("a cat", hit) == 0
    assert zoo.judgements.remove("a cat", "never there", 4) == 0
    assert [one.query for one in zoo.judgements.list()] == ["a dog"]


def test_lists_are_of_a_query_a_document_or_a_verdict_in_the_order_of_judging(pets: Collection) -> None:
    for query, document, relevant in [("b", "dog", True), ("a", "owl", False), ("b", "cat", False)]:
        pets.judgements.add(query, document, relevant)
    pets.judgements.add("b", "dog", True)  # said again: stays first

    def found(*of: str | None, relevant: bool | None = None) -> list[tuple[str, str]]:
        return [(one.query, one.document) for one in pets.judgements.list(*of, relevant=relevant)]

    assert found() == [("b", "dog"), ("a", "owl"), ("b", "cat")]
    assert found("b") == [("b", "dog"), ("b", "cat")]
    assert found(None, "owl") == [("a", "owl")]
    assert found("a", "dog") == []
    assert found(relevant=False) == [("a", "owl"), ("b", "cat")]
    last = [max(one.created_at for one in pets.judgements.list(query)) for query in ("b", "a")]
    assert pets.judgements.queries() == [JudgedQuery("b", 1, 1, last[0]), JudgedQuery("a", 0, 1, last[1])]


def test_a_document_that_is_not_there_cannot_be_judged(pets: Collection) -> None:
    with pytest.raises(UnknownDocumentError, match="'pets' has no document 'cow'"):
        pets.judgements.add("milk", "cow", True)
    hit = pets.search("a cat", k=1)[0]
    pets.remove([hit.id])
    with pytest.raises(UnknownDocumentError, match=f"no document '{hit.id}'"):
        pets.judgements.add("a cat", hit, True)
    assert pets.judgements.counts() == JudgementCounts(0, 0, 0, 0, 0)


def test_a_judgement_stays_when_its_document_goes_and_says_so(pets: Collection) -> None:
    pets.judgements.add("sleep", "cat", True)
    pets.judgements.add("sleep", "dog", False)
    pets.remove(["cat"])
    gone, there = pets.judgements.list()
    assert (gone.state, gone.title, gone.text) == (JudgementState.REMOVED, "Cat", "a cat sat")
    assert there.state is JudgementState.CURRENT
    assert pets.judgements.of("sleep") == {("dog", 0): False}
    assert pets.judgements.counts() == JudgementCounts(1, 1, 1, 0, 1)
    pets.compact()
    pets.add_rows([{"id": "cat", "title": "Cat", "text": "a cat sat"}])
    assert pets.judgements.of("sleep") == {("cat", 0): True, ("dog", 0): False}


@pytest.mark.parametrize(
    "changed", [{"title": "Cat", "text": "a cat ran"}, {"title": "Kitten", "text": "a cat sat"}]
)
def test_a_judgement_of_a_passage_that_was_changed_says_so(zoo: Collection, changed: dict[str, str]) -> None:
    zoo.judgements.add("sleep", "cat", True)
    zoo.add_rows([{"id": "cat", **changed}])
    (one,) = zoo.judgements.list()
    assert (one.state, one.title, one.text) == (JudgementState.CHANGED, "Cat", "a cat sat")
    assert zoo.judgements.of("sleep") == {}
    assert zoo.judgements.counts() == JudgementCounts(1, 1, 0, 1, 0)
    zoo.judgements.add("sleep", "cat", False)
    assert zoo.judgements.of("sleep") == {("cat", 0): False}


def test_a_passage_that_its_document_lost_counts_as_changed(zoo: Collection) -> None:
    zoo.judgements.add("sleep", "long", True, passage=1)
    zoo.add_rows([{"id": "long", "text": "short now"}])
    assert [one.state for one in zoo.judgements.list()] == [JudgementState.CHANGED]
    with pytest.raises(BadInputError, match="'long' has no passage 1"):
        zoo.judgements.add("sleep", "long", True, passage=1)


def test_metadata_that_changes_leaves_a_judgement_current(zoo: Collection) -> None:
    zoo.judgements.add("dig", "dog", True)
    zoo.add_rows([{"id": "dog", "text": "the dog dug", "year": 2020}])
    assert zoo.judgements.of("dig") == {("dog", 0): True}


@pytest.mark.parametrize("fields", [["title"], ["text"], [], ["year"]])
def test_a_hit_that_carries_some_fields_alone_is_judged_as_it_stands(
    zoo: Collection, fields: list[str]
) -> None:
    hit = next(hit for hit in zoo.search("a cat", fields=fields) if hit.id == "cat")
    judged = zoo.judgements.add("a cat", hit, True)
    assert (judged.title, judged.text, judged.rank) == ("Cat", "a cat sat", hit.rank)
    assert zoo.judgements.of("a cat") == {("cat", 0): True}


def test_a_hit_that_carries_some_fields_alone_is_no_other_text_that_stands_there_now(zoo: Collection) -> None:
    hit = next(hit for hit in zoo.search("a cat", fields=["text"]) if hit.id == "cat")
    zoo.add_rows([{"id": "cat", "title": "Cat", "text": "something else"}])
    assert zoo.judgements.add("a cat", hit, True).text == "a cat sat"
    assert zoo.judgements.list()[0].state is JudgementState.CHANGED


def test_a_hit_is_judged_as_it_was_shown_even_if_it_was_changed_since(zoo: Collection) -> None:
    hit = next(hit for hit in zoo.search("a cat") if hit.id == "cat")
    zoo.add_rows([{"id": "cat", "text": "something else"}])
    judged = zoo.judgements.add("a cat", hit, True)
    assert judged.text == "a cat sat"
    assert zoo.judgements.list()[0].state is JudgementState.CHANGED


@pytest.mark.long
def test_deleting_a_collection_deletes_its_judgements_and_no_others(
    pets: Collection, either_library: Library
) -> None:
    other = either_library.collection("other")
    other.add_rows(["a bird"])
    document = next(iter(other.documents())).id
    other.judgements.add("birds", document, True)
    pets.judgements.add("sleep", "cat", True)
    pets.delete()
    with pytest.raises(UnknownCollectionError):
        pets.judgements.list()
    assert len(other.judgements.list()) == 1
    pets.add_rows([{"id": "cat", "title": "Cat", "text": "a cat sat"}])
    assert pets.judgements.list() == ()
    with either_library.store.database.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() == 1


def test_a_judgement_that_meets_a_deletion_is_refused_and_nothing_of_it_stays(
    pets: Collection, either_library: Library
) -> None:
    row = pets.snapshot().collection
    database = either_library.store.database
    with ThreadPoolExecutor(1) as pool:
        with database.writing() as connection:
            collections.delete(connection, row.id)
            late = pool.submit(pets.judgements.add, "sleep", "cat", True)
        with pytest.raises((UnknownCollectionError, UnknownDocumentError, BusyError)):
            late.result(timeout=60)
    with database.reading() as connection:
        assert connection.execute(sa.select(table.c.id)).all() == []


def test_a_deletion_that_meets_a_judgement_takes_it_along(pets: Collection, either_library: Library) -> None:
    row = pets.snapshot().collection
    judged = pets.judgements.add("sleep", "cat", True)
    database = either_library.store.database
    with ThreadPoolExecutor(1) as pool:
        with database.writing() as connection:
            judgements.put(connection, row.id, judged)
            gone = pool.submit(pets.delete)
        gone.result(timeout=60)
    with database.reading() as connection:
        assert connection.execute(sa.select(table.c.id)).all() == []


def test_people_judge_at_once_and_the_last_word_stays(pets: Collection) -> None:
    people, rounds = 4, 6
    begin = threading.Barrier(people)

    def judge(person: int) -> None:
        begin.wait()
        for turn in range(rounds):
            pets.judgements.add("everyone's", "cat", bool((person + turn) % 2))
            pets.judgements.add(f"own {person} {turn}", "dog", True)

    with ThreadPoolExecutor(people) as pool:
        for done in [pool.submit(judge, person) for person in range(people)]:
            done.result(timeout=60)
    assert pets.judgements.counts().queries == 1 + people * rounds
    assert len(pets.judgements.list("everyone's")) == 1
    pets.judgements.add("everyone's", "cat", True)
    assert pets.judgements.of("everyone's") == {("cat", 0): True}


def test_judging_waits_for_no_writer_of_the_collection(pets: Collection, either_library: Library) -> None:
    store = either_library.store
    row = pets.snapshot().collection
    with writer_lock(store.locks, pets.name, row.id, store.database, "rebuild"):
        pets.judgements.add("sleep", "cat", True)
        assert pets.judgements.of("sleep") == {("cat", 0): True}
        assert pets.judgements.remove("sleep", "cat") == 1


def test_judging_leaves_what_readers_know_of_the_collection_alone(zoo: Collection) -> None:
    before = zoo.snapshot()
    zoo.judgements.add("sleep", "cat", True)
    assert zoo.snapshot() is before


def test_no_question_reads_every_passage_of_the_collection(zoo: Collection, library: Library) -> None:
    asked: list[tuple[str, Any]] = []
    engine = library.store.database.engine

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT") and "passages" in statement:
            asked.append((statement, parameters))

    sa.event.listen(engine, "before_cursor_execute", note)
    zoo.judgements.add("sleep", "cat", True)
    zoo.judgements.list("sleep")
    zoo.judgements.counts()
    sa.event.remove(engine, "before_cursor_execute", note)
    with engine.connect() as connection:
        for statement, parameters in asked:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            steps = [str(row[3]) for row in plan]
            whole = [step for step in steps if "SCAN" in step or "(collection_id=?)" in step]
            assert [
                step for step in whole if not re.match("(SEARCH judgements|SCAN anon|SCAN json_each)", step)
            ] == []
    assert len(asked) == 4  # the document's passages, their text, the list, the counts


def test_texts_come_back_as_they_were(pets: Collection) -> None:
    text = "tab\there\nline\r\nnext\u2028\x85 “quoted” \\ 'x' %s {b} ß 🦉"
    pets.add_rows([{"id": "odd\tid\n%", "title": "T\tt", "text": text}])
    query = "why\t“so”\nodd? 🦉"
    pets.judgements.add(query, "odd\tid\n%", True)
    (one,) = pets.judgements.list(query)
    assert (one.query, one.document, one.title, one.text) == (query, "odd\tid\n%", "T\tt", text)


def test_a_query_may_be_longer_than_an_index_takes(pets: Collection) -> None:
    query = " ".join(f"{number:x}" for number in range(20_000))
    pets.judgements.add(query, "cat", True)
    pets.judgements.add(query, "cat", False)
    assert pets.judgements.of(query) == {("cat", 0): False}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (" \n", "the query is empty"),
        ("a\0b", "the query holds a NUL character"),
        ("a\ud800", "the query holds a lone surrogate"),
    ],
)
def test_what_cannot_be_a_query_is_refused(zoo: Collection, query: str, message: str) -> None:
    for ask in (zoo.judgements.list, zoo.judgements.of, lambda q: zoo.judgements.add(q, "cat", True)):
        with pytest.raises(BadInputError, match=message):
            ask(query)
    assert zoo.judgements.list() == ()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"passage": -1}, "the passage is -1"),
        ({"passage": 2**40}, "the passage is 1099511627776"),
        ({"passage": 1}, "'cat' has no passage 1. Its 1 "),
        ({"rank": 0}, "the rank is 0"),
        ({"score": float("nan")}, "the score is nan"),
        ({"mode": "guess"}, "mode is 'guess'"),
        ({"rater": "a\0b"}, "the rater holds a NUL"),
        ({"note": "a\ud800"}, "the note holds a lone surrogate"),
    ],
)
def test_what_cannot_be_judged_is_refused(zoo: Collection, said: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        zoo.judgements.add("a", "cat", True, **said)
    assert zoo.judgements.list() == ()


def test_a_hit_is_the_passage_that_it_is(zoo: Collection) -> None:
    hit = next(hit for hit in zoo.search("a cat sat") if hit.id == "cat")
    with pytest.raises(BadInputError, match="passage 0 of 'cat', not 1"):
        zoo.judgements.add("a", hit, True, passage=1)
    with pytest.raises(BadInputError, match=r"id .*NUL"):
        zoo.judgements.add("a", "cat\0", True)


def test_a_collection_that_is_not_there_has_no_judgements(library: Library) -> None:
    with pytest.raises(UnknownCollectionError, match="there is no collection 'nothing'"):
        library.collection("nothing").judgements.add("a", "b", True)
