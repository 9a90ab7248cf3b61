"""Two ways of searching are compared by what is judged next, and judgements come from files."""

import csv
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import collections, judgements, refinements
from nearsay.indexer.catalogue.refinements import Refinement
from nearsay.indexer.judgements import judging
from nearsay.indexer.judgements.judging import SearchWay, Verdict
from nearsay.indexer.query.ranking import weight_of_words

MANY = "1" * 5_000  # digits: Python makes no number of them
QUERIES = ["a cat sat", "the dog dug", "owls at night"]
LONG = " ".join(f"word{number} sleeps." for number in range(12))  # two passages


class _StoppedError(Exception):
    pass


def _stop(*_: object, **__: object) -> None:
    raise _StoppedError


def test_a_way_of_searching_is_read_as_it_is_written() -> None:
    for text in ("hybrid", "dense", "lexical", "hybrid,rrf", "dense,generation=2"):
        assert str(SearchWay.parse(text)) == text
    assert SearchWay.parse("live") == SearchWay()
    assert SearchWay.parse("rrf, generation=3").generation == 3
    with pytest.raises(BadInputError, match="'sparse'"):
        SearchWay.parse("dense,sparse")
    with pytest.raises(BadInputError, match="'generation=111"):
        SearchWay.parse(f"generation={MANY}")


def test_judging_what_comes_next_decides_between_two_modes(zoo: Collection) -> None:
    compared = zoo.judgements.compare("lexical", "dense", QUERIES)
    total = compared.difference().unjudged
    assert total == len(compared.test.pairs) > 3
    judged = 0
    while (following := compared.next()) is not None:
        own = {"a cat sat": "cat", "the dog dug": "dog", "owls at night": "owl"}[following.query]
        said = compared.judge(following, following.hit.id == own, rater="ada")
        assert (said.rater, said.query, said.document) == ("ada", following.query, following.hit.id)
        judged += 1
        assert compared.difference().judged == judged
    found = compared.difference()
    assert (judged, found.unjudged) == (total, 0)
    assert found.interval.low == found.interval.high == found.difference
    assert zoo.judgements.counts().judgements == total


def test_of_many_queries_some_are_compared_by_and_the_note_says_how_many(
    zoo: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = zoo.judgements.compare("lexical", "dense", QUERIES)
    assert (every.queries, every.notes) == (tuple(QUERIES), ())
    monkeypatch.setattr(judging, "MOST_QUERIES", 2)
    some = zoo.judgements.compare("lexical", "dense", [*QUERIES, QUERIES[0]])
    assert some.notes == (Naming("2 of 3 queries"),)
    assert len(some.queries) == 2
    assert {query for query, _ in some.test.pairs} == set(some.queries)
    again = zoo.judgements.compare("lexical", "hybrid", QUERIES[::-1])
    assert set(again.queries) == set(some.queries)


def test_refined_queries_are_compared_in_an_order_of_their_own(zoo: Collection) -> None:
    before = zoo.judgements.compare("lexical", "dense", QUERIES)
    assert zoo.judgements.compare("lexical", "dense", QUERIES).test.pairs == before.test.pairs
    collection, same = zoo.snapshot().collection, Refinement(0, None, weight_of_words(zoo.snapshot()), {}, "")
    with zoo.library.store.database.writing() as connection:
        refinements.add(connection, collection.id, 1, same)
        collections.changed(connection, collection.id)
    after = zoo.judgements.compare("lexical", "dense", QUERIES)
    assert sorted(map(repr, after.test.pairs)) == sorted(map(repr, before.test.pairs))
    assert after.test.pairs != before.test.pairs


def test_what_was_judged_before_is_not_asked_again_unless_its_text_changed(zoo: Collection) -> None:
    compared = zoo.judgements.compare("lexical", "dense", QUERIES)
    asked = compared.next()
    assert asked is not None
    compared.judge(asked, True)
    again = zoo.judgements.compare("lexical", "dense", QUERIES)
    assert again.next() != asked
    zoo.add_rows([{"id": asked.hit.id, "text": "something else that has three words"}])
    stale = [one for one in zoo.judgements.list() if one.state == "changed"]
    assert [one.document for one in stale] == [asked.hit.id]
    assert zoo.judgements.compare("lexical", "dense", QUERIES).difference().judged == 0


def test_a_passage_that_was_changed_or_removed_while_it_is_judged_is_not_asked_again(zoo: Collection) -> None:
    compared = zoo.judgements.compare("lexical", "dense", QUERIES)
    asked = compared.next()
    assert asked is not None
    zoo.add_rows([{"id": asked.hit.id, "text": "something else that has three words"}])
    compared.judge(asked, True)
    following = compared.next()
    assert following is not None
    assert (following.query, following.hit.id) != (asked.query, asked.hit.id)
    assert compared.difference().judged == 1
    zoo.remove([asked.hit.id])
    assert compared.difference().judged == 1


def test_what_nobody_can_say_is_not_asked_again_and_nothing_learns_from_it(zoo: Collection) -> None:
    compared = zoo.judgements.compare("lexical", "dense", QUERIES)
    asked = compared.next()
    assert asked is not None
    compared.judge(asked, None, note="two readings")
    (unsure,) = zoo.judgements.unsure()
    assert (unsure.document, unsure.unsure, unsure.note) == (asked.hit.id, True, "two readings")
    assert zoo.judgements.list() == ()
    assert zoo.judgements.counts().judgements == 0
    assert zoo.judgements.of(asked.query) == {}
    assert (compared.next() == asked, compared.difference().judged) == (False, 1)
    zoo.judgements.add(asked.query, asked.hit, True)
    assert (len(zoo.judgements.list()), zoo.judgements.unsure()) == (1, ())


def test_two_generations_are_compared_by_the_queries_that_were_judged(zoo: Collection) -> None:
    zoo.judgements.add("a cat", "cat", True)
    zoo.rebuild(WordsEncoder(name="wide", dimension=12))
    compared = zoo.judgements.compare("dense", "dense,generation=2")
    assert compared.queries == ("a cat",)
    assert compared.difference().verdict in list(Verdict)


def test_what_cannot_be_compared_is_refused(zoo: Collection) -> None:
    with pytest.raises(BadInputError, match="compared with itself"):
        zoo.judgements.compare("dense", "dense", QUERIES)
    with pytest.raises(BadInputError, match="no queries to compare by"):
        zoo.judgements.compare("lexical", "dense")


def test_judgements_are_taken_over_from_a_table_and_written_back_as_they_were(
    pets: Collection, tmp_path: Path
) -> None:
    rows = [
        ["query", "document", "passage", "relevant", "rater", "note"],
        ["=sleep", "long", "1", "1", "ada", "-"],
        ["=sleep", "cat", "", "0", "", ""],
        ["birds", "owl", "", "yes", "", ""],
        ["birds", "dog", "", "", "bo", "who knows"],
        ["birds", "cow", "", "1", "", ""],
        ["birds", "long", "", "1", "", ""],
    ]
    with (tmp_path / "in.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)
    taken = pets.judgements.load(tmp_path / "in.csv")
    assert (taken.judgements, taken.queries) == (5, 2)
    assert len(taken.notes) == 2
    assert sum(document == "long" for document, _ in pets.judgements.of("birds")) == 1
    assert pets.judgements.of("=sleep") == {("long", 1): True, ("cat", 0): False}
    assert [(one.document, one.rater, one.note) for one in pets.judgements.unsure()] == [
        ("dog", "bo", "who knows")
    ]
    pets.judgements.export(tmp_path / "out.csv", "csv")
    text = (tmp_path / "out.csv").read_text("utf-8")
    assert "\n'=sleep," in text  # no spreadsheet computes it
    before = pets.judgements.list()
    for one in before:
        pets.judgements.remove(one.query, one.document)
    pets.judgements.load(tmp_path / "out.csv")
    after = pets.judgements.list()
    assert {(one.query, one.document, one.passage, one.relevant, one.rater, one.note) for one in after} == {
        (one.query, one.document, one.passage, one.relevant, one.rater, one.note) for one in before
    }


@pytest.mark.parametrize("form", ["csv", "lines"])
def test_what_was_said_of_a_passage_is_not_taken_over_for_another_text(
    zoo: Collection, tmp_path: Path, form: str
) -> None:
    zoo.judgements.add("a cat", "cat", True)
    zoo.judgements.add("a cat", "dog", False)
    out = tmp_path / ("out.csv" if form == "csv" else "out.jsonl")
    zoo.judgements.export(out, form)
    zoo.add_rows([{"id": "cat", "text": "another animal"}])
    taken = zoo.judgements.load(out)
    assert (taken.judgements, taken.notes) == (1, (Naming("left out", "1 judgement"),))
    assert zoo.judgements.of("a cat") == {("dog", 0): False}


def test_of_two_rows_on_one_passage_the_last_one_stays(pets: Collection, tmp_path: Path) -> None:
    rows = "query,document,relevant\nbirds,cat,1\nbirds,owl,0\nbirds,owl,1\nbirds,cat,0\n"
    (tmp_path / "in.csv").write_text(rows)
    pets.judgements.load(tmp_path / "in.csv")
    assert pets.judgements.of("birds") == {("cat", 0): False, ("owl", 0): True}


def test_files_of_the_same_judgements_are_taken_over_at_once(
    postgresql_url: str, tmp_path: Path, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ["birds,owl,1\n", "birds,cat,0\n"]
    for name, some in (("one.csv", rows), ("other.csv", rows[::-1])):
        (tmp_path / name).write_text("query,document,relevant\n" + "".join(some))
    put, entered = judgements.put, set()

    def put_and_let_the_other_begin(connection: sa.Connection, *what: Any) -> None:
        put(connection, *what)
        entered.add(threading.get_ident())
        waits = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        while len(entered) < 2 and not connection.execute(waits).scalar_one():
            pass

    monkeypatch.setattr(judgements, "put", put_and_let_the_other_begin)
    monkeypatch.setattr("nearsay.indexer.judgements.judgements._TOGETHER", 1)
    with (
        Library.open(tmp_path / "library", database=postgresql_url, load_encoder=lambda _: words) as library,
        ThreadPoolExecutor(2) as pool,
    ):
        collection = library.collection("pets")
        collection.add_rows([{"id": "owl", "text": "owls see"}, {"id": "cat", "text": "a cat sat"}])
        loads = [
            pool.submit(collection.judgements.load, tmp_path / name) for name in ("one.csv", "other.csv")
        ]
        assert [one.result(60).judgements for one in loads] == [2, 2]
        assert collection.judgements.of("birds") == {("owl", 0): True, ("cat", 0): False}


def test_trec_qrels_are_taken_over_with_their_queries(zoo: Collection, tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("301 0 cat 2\n301 0 dog 0\n\n302 0 long#1 1\n")
    (tmp_path / "queries.jsonl").write_text(
        '{"_id": "301", "text": "a cat"}\n{"_id": "302", "text": "sleep"}\n'
    )
    assert zoo.judgements.load(tmp_path / "qrels", tmp_path / "queries.jsonl").judgements == 3
    assert zoo.judgements.of("a cat") == {("cat", 0): True, ("dog", 0): False}
    assert zoo.judgements.of("sleep") == {("long", 1): True}
    with pytest.raises(BadInputError, match=r"'301'.*\(queries\)"):
        zoo.judgements.load(tmp_path / "qrels")


def test_a_table_of_beirs_qrels_is_taken_over_with_its_queries(zoo: Collection, tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("query-id\tcorpus-id\tscore\n301\tcat\t2\n301\tdog\t0\n")
    (tmp_path / "queries.jsonl").write_text('{"_id": 301, "text": "a cat"}\n')
    assert zoo.judgements.load(tmp_path / "test.tsv", tmp_path / "queries.jsonl").judgements == 2
    assert zoo.judgements.of("a cat") == {("cat", 0): True, ("dog", 0): False}
    with pytest.raises(BadInputError, match=r"line 2: '301'.*\(queries\)"):
        zoo.judgements.load(tmp_path / "test.tsv")


def test_a_judgement_of_a_whole_document_is_of_its_best_passage_or_of_each(
    zoo: Collection, tmp_path: Path
) -> None:
    lines = "301 0 cat 1", "301 0 long 1", "302 0 long 0", "302 0 gone 1"
    (tmp_path / "qrels").write_text("\n".join(lines))
    (tmp_path / "queries.csv").write_text("_id,text\n301,what word11 does\n302,what dogs do\n")
    taken = zoo.judgements.load(tmp_path / "qrels", tmp_path / "queries.csv")
    assert zoo.judgements.of("what word11 does") == {("cat", 0): True, ("long", 1): True}
    assert zoo.judgements.of("what dogs do") == {("long", 0): False, ("long", 1): False}
    assert (taken.judgements, taken.queries) == (4, 2)
    assert taken.notes == (
        Naming("2 judgements", "several passages"),
        Naming("left out", "1 judgement", "missing"),
    )


@pytest.mark.parametrize("score", [0.83, 1, 0])
def test_without_a_verdict_nobody_could_say_whatever_the_score_of_the_hit(
    zoo: Collection, tmp_path: Path, score: float
) -> None:
    row = {"query": "birds", "document": "owl", "relevant": None, "score": score}
    (tmp_path / "in.jsonl").write_text(json.dumps(row))
    assert zoo.judgements.load(tmp_path / "in.jsonl").judgements == 1
    assert [one.document for one in zoo.judgements.unsure()] == ["owl"]


def test_a_whole_document_that_is_not_embedded_yet_is_left_out(
    zoo: Collection, tmp_path: Path, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(words, "stream", _stop)
        with pytest.raises(_StoppedError):
            zoo.add_rows([{"id": "new", "text": LONG}])
    assert zoo.overview().waiting == 2
    (tmp_path / "in.csv").write_text("query,document,relevant\nword11,new,1\nword11,long,1\n")
    taken = zoo.judgements.load(tmp_path / "in.csv")
    assert zoo.judgements.of("word11") == {("long", 1): True}
    assert (taken.judgements, taken.notes[1:]) == (
        1,
        (Naming("left out", "1 judgement", "finds no passage"),),
    )


def test_an_id_that_ends_with_more_digits_than_a_number_has_is_an_id(zoo: Collection, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"query,document,relevant\nbirds,owl#{MANY},1\nbirds,owl#0,1\n")
    taken = zoo.judgements.load(tmp_path / "in.csv")
    assert (taken.judgements, taken.notes) == (1, (Naming("left out", "1 judgement", "missing"),))


def test_what_a_folder_has_that_cannot_be_used_is_said(zoo: Collection, tmp_path: Path) -> None:
    zoo.judgements.add("a cat", "cat", True)
    zoo.judgements.export(tmp_path / "judged", "evaluation")
    with (tmp_path / "judged" / "qrels" / "test.tsv").open("a") as stream:
        stream.write("nobody\tcat#0\t1\n")
    assert zoo.judgements.load(tmp_path / "judged").notes == (Naming("1 judgements", "query", "not in"),)


def test_an_exported_evaluation_is_taken_over_again(zoo: Collection, tmp_path: Path) -> None:
    zoo.judgements.add("a cat", "cat", True)
    zoo.judgements.add("a cat", "long", False, passage=1)
    zoo.judgements.export(tmp_path / "judged", "evaluation")
    before = zoo.judgements.of("a cat")
    zoo.judgements.remove("a cat", "cat")
    zoo.judgements.remove("a cat", "long")
    assert zoo.judgements.load(tmp_path / "judged").notes == ()
    assert zoo.judgements.of("a cat") == before


@pytest.mark.parametrize(("file", "form"), [("kept.csv", "csv"), ("kept.jsonl", "lines")])
def test_a_word_that_nobody_could_say_is_written_and_read_back(
    pets: Collection, tmp_path: Path, file: str, form: str
) -> None:
    pets.judgements.add("birds", "owl", True)
    pets.judgements.add("birds", "dog", None, rater="bo", note="who knows")
    assert pets.judgements.export(tmp_path / file, form).rows == 2
    pets.judgements.clear()
    pets.judgements.load(tmp_path / file)
    assert pets.judgements.of("birds") == {("owl", 0): True}
    assert [(one.document, one.rater, one.note) for one in pets.judgements.unsure()] == [
        ("dog", "bo", "who knows")
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "query,document,relevant\nbirds,owl,perhaps\n", "line 2: relevant is 'perhaps'"),
        ("a.csv", "query,document,relevant,passage\nbirds,owl,1,first\n", "line 2: 'first' is not a passage"),
        ("a.csv", "query,relevant\nbirds,1\n", "line 2: .*query .*document"),
        (
            "a.csv",
            "query,document,grade\nbirds,owl,1\n",
            "column 'relevant' is missing.* 'document', 'grade'",
        ),
        ("a.jsonl", '{"query": "birds", "document": "owl", "label": 1}\n', "line 1: the column"),
        ("a.csv", "query,document,unsure\nbirds,owl,false\n", "line 2: the column"),
        ("a.csv", "query,document,relevant,passage\nbirds,owl,1,-1\n", "line 2: '-1' is not a passage"),
        (
            "a.csv",
            f"query,document,relevant,passage\nbirds,owl,1,{MANY}\n",
            "line 2: '111.* is not a passage",
        ),
        ("a.csv", f"query,document,relevant\nbirds,owl,{MANY}\n", "line 2: relevant is '111"),
        ("qrels", f"301 0 owl {MANY}\n", "line 1: '301 0 owl 111"),
        ("qrels", "301 0 owl\n", "line 1: '301 0 owl'"),
        ("qrels", "302 0 owl 1\n", "line 1: queries.csv .*'302'"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_by_line_and_nothing_is_taken(
    zoo: Collection, tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "queries.csv").write_text("_id,text\n301,birds\n")
    with pytest.raises(BadInputError, match=said):
        zoo.judgements.load(tmp_path / name, tmp_path / "queries.csv")
    assert zoo.judgements.list() == ()
