"""Passages by the words that they share with a query, in both kinds of catalogue."""

import gc
import unicodedata
from collections.abc import Callable, Iterator
from math import log

import bm25s
import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearsay.indexer.catalogue import lexical_rows
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.query import lexical
from nearsay.indexer.query.lexical import LexicalCandidates, lexical_candidates
from nearsay.indexer.vectors.errors import UnreadableWordsError

TEXTS = [
    "a brown dog sleeps by the door",
    "the cat and the dog share one bowl of milk and the cat wins",
    "milk is delivered before sunrise",
    "the Café opens at nine",
    "running shoes for runners who run",
    "nothing of note happened on the pier, and nothing followed",
    "rain fell on the pier all night",
]

Search = Callable[..., LexicalCandidates]


@pytest.fixture
def connection(catalogue: Database) -> Iterator[sa.Connection]:
    """A collection's lexical table with the texts, numbered from 1."""
    with catalogue.writing() as open_connection:
        lexical_rows.create_table(open_connection, 7)
        lexical_rows.insert_rows(open_connection, 7, range(1, len(TEXTS) + 1), TEXTS)
        yield open_connection


def found(connection: sa.Connection, query: str, count: int | None = None, **rest: object) -> list[int]:
    return lexical_candidates(connection, 7, query, **rest).ids.tolist()[:count]


@pytest.mark.long
def test_passages_with_the_words_are_found_best_first(connection: sa.Connection) -> None:
    assert found(connection, "dog") == [1, 2]  # the shorter passage first
    assert found(connection, "milk dog cat")[0] == 2
    assert found(connection, "sunrise milk") == [3, 2]
    assert found(connection, "sunrise milk", 1) == [3]
    assert found(connection, "zebra") == []


def test_endings_capitals_and_accents_make_no_difference(connection: sa.Connection) -> None:
    assert found(connection, "RUNNER'S shoe")[0] == 5
    assert found(connection, "cafe") == found(connection, "CAFÉ") == found(connection, "cafe\u0301s") == [4]


def test_the_score_is_bm25(connection: sa.Connection) -> None:
    lengths = [len(text.replace(",", "").split()) for text in TEXTS]
    result = lexical_candidates(connection, 7, "dog pier")
    rarity = log((7 - 2 + 0.5) / (2 + 0.5))
    for number, score in zip(result.ids.tolist(), result.scores.tolist(), strict=True):
        norm = 1.2 * (0.25 + 0.75 * lengths[number - 1] / (sum(lengths) / 7))
        assert score == pytest.approx(rarity * 2.2 / (1 + norm), rel=1e-4)
    assert sorted(result.ids.tolist()) == [1, 2, 6, 7]
    assert result.full_score == pytest.approx(2 * rarity)


def test_a_word_that_stands_twice_counts_more(connection: sa.Connection) -> None:
    lengths = [len(text.replace(",", "").split()) for text in TEXTS]
    result = lexical_candidates(connection, 7, "nothing")
    norm = 1.2 * (0.25 + 0.75 * lengths[5] / (sum(lengths) / 7))
    assert result.scores[0] == pytest.approx(log(6.5 / 1.5) * 2 * 2.2 / (2 + norm), rel=1e-4)


def test_the_order_is_that_of_another_bm25(connection: sa.Connection) -> None:
    index = bm25s.BM25(method="robertson", k1=1.2, b=0.75)
    index.index([text.lower().replace(",", "").split() for text in TEXTS], show_progress=False)
    for query in ("sunrise milk", "cat milk", "rain night nothing"):
        theirs, _ = index.retrieve([query.split()], k=2, show_progress=False)
        assert found(connection, query, 2) == (theirs[0] + 1).tolist()


def test_passages_with_the_commoner_words_alone_may_be_left_out(
    connection: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = "sunrise dog the milk"  # in 1, 2, 5 and 2 passages
    every = lexical_candidates(connection, 7, query)
    assert (set(every.ids.tolist()), every.narrowed) == ({1, 2, 3, 4, 6, 7}, False)
    score = dict(zip(every.ids.tolist(), every.scores.tolist(), strict=True))
    for enough, besides, left in (
        (1, [], {3}),
        (1, [4, 5], {3, 4}),
        (2, [], {1, 2, 3}),
        (5, [7], {1, 2, 3, 7}),
    ):
        monkeypatch.setattr(lexical, "_ENOUGH", enough)
        some = lexical_candidates(connection, 7, query, besides=np.array(besides, dtype=np.int64))
        assert (set(some.ids.tolist()), some.narrowed) == (left, True)
        assert some.used == every.used
        assert some.full_score == every.full_score
        for number, found_score in zip(some.ids.tolist(), some.scores.tolist(), strict=True):
            assert found_score == pytest.approx(score[number], rel=1e-6)
        assert some.ids.tolist() == [number for number in every.ids.tolist() if number in left]
    nothing = np.zeros(0, dtype=np.int64)
    monkeypatch.setattr(lexical, "_ENOUGH", 1)
    for either in ("dog milk the", "milk dog the"):  # what ties is taken, whichever comes first
        some = lexical_candidates(connection, 7, either, besides=nothing)
        assert (set(some.ids.tolist()), some.narrowed) == ({1, 2, 3}, True)
    named = lexical_candidates(connection, 7, query, allowed=np.array([4, 7]), besides=nothing)
    assert (set(named.ids.tolist()), named.narrowed) == ({4, 7}, False)
    monkeypatch.setattr(lexical, "_ENOUGH", 6)
    whole = lexical_candidates(connection, 7, query, besides=nothing)
    assert (whole.ids.tolist(), whole.narrowed) == (every.ids.tolist(), False)


def test_only_what_is_allowed_is_found(connection: sa.Connection) -> None:
    assert found(connection, "dog milk", allowed=np.array([1, 3])) == [3, 1]
    assert found(connection, "dog", allowed=np.array([], dtype=np.int64)) == []


def test_what_is_allowed_is_found_though_older_passages_would_spend_the_budget(
    connection: sa.Connection,
) -> None:
    everywhere = lexical_candidates(connection, 7, "the", budget=2)
    assert (sorted(everywhere.ids.tolist()), everywhere.complete) == ([1, 2], False)
    result = lexical_candidates(connection, 7, "the", allowed=np.array([6, 7]), budget=2)
    assert (sorted(result.ids.tolist()), result.complete) == ([6, 7], True)


def test_many_that_are_allowed_are_found_too(
    connection: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "_LISTED", 1)
    few = lexical_candidates(connection, 7, "the", allowed=np.array([3, 6, 7]), budget=2)
    assert (sorted(few.ids.tolist()), few.complete) == ([6, 7], True)
    many = lexical_candidates(connection, 7, "the", allowed=np.array([2, 4, 6, 7]), budget=2)
    assert (sorted(many.ids.tolist()), many.complete) == ([2, 4], False)
    assert found(connection, "dog milk", allowed=np.array([1, 3])) == [3, 1]


def test_where_every_word_is_common_passages_with_two_of_them_come_first(catalogue: Database) -> None:
    with catalogue.writing() as open_connection:
        lexical_rows.create_table(open_connection, 8)
        texts = ["new"] * 8 + ["model"] * 8 + ["a new model"] * 2
        lexical_rows.insert_rows(open_connection, 8, range(1, 19), texts)
        result = lexical_candidates(open_connection, 8, "new model", budget=6)
    assert not result.complete
    assert (result.used, result.common) == (("new", "model"), ())
    assert result.ids.tolist() == [17, 18, 1, 2]
    assert result.scores[0] > result.scores[2]


@pytest.mark.parametrize("query", ["İSTANBUL", "İstanbul", "istanbul", "I\u0307stanbul"])
def test_a_dot_or_an_accent_of_its_own_splits_no_word(catalogue: Database, query: str) -> None:
    with catalogue.writing() as open_connection:
        lexical_rows.create_table(open_connection, 8)
        texts = ["İstanbul", "stanbul", "A\u030angstr\u006f\u0308m", "e\u030bzz", "ngstrom"]
        lexical_rows.insert_rows(open_connection, 8, range(1, 6), texts)
        asked = (query, "Ångström", "a\u030angstrom", "e\u030bzz")
        assert [lexical_candidates(open_connection, 8, one).ids.tolist() for one in asked] == [
            [1],
            [3],
            [3],
            [4],
        ]


@pytest.mark.parametrize("word", ["йод", "ёлка", "ὀδυσσεύς", "がっこう", "한국어", "café"])
def test_a_letter_and_its_accent_may_be_two_characters_in_any_script(catalogue: Database, word: str) -> None:
    forms = [unicodedata.normalize(form, f"{word} word") for form in ("NFC", "NFD")]
    with catalogue.writing() as open_connection:
        lexical_rows.create_table(open_connection, 8)
        texts = [*forms, "none", "none", "none"]
        lexical_rows.insert_rows(open_connection, 8, range(1, 6), texts)
        for asked in forms:
            result = lexical_candidates(open_connection, 8, asked.removesuffix("word"))
            assert sorted(result.ids.tolist()) == [1, 2]
            assert set(lexical_candidates(open_connection, 8, asked, budget=2).ids.tolist()) == {1, 2}


@pytest.mark.parametrize("text", ["good🙂", "🥰good🥰ness", "₿good", "bad🤔good"])
def test_a_sign_ends_a_word_however_new_it_is(catalogue: Database, text: str) -> None:
    with catalogue.writing() as open_connection:
        lexical_rows.create_table(open_connection, 8)
        lexical_rows.insert_rows(open_connection, 8, [1, 2], [text, "goodwill"])
        for query in ("good", text):
            assert lexical_candidates(open_connection, 8, query).ids.tolist() == [1]


@pytest.mark.long
def test_a_table_that_is_gone_is_told(catalogue: Database) -> None:
    with pytest.raises(UnreadableWordsError), catalogue.reading() as open_connection:
        lexical_candidates(open_connection, 99, "dog")


HOSTILE = [
    "",
    " ",
    "?!",
    "🙂",
    '"',
    "'",
    "''; DROP TABLE lexical_7; --",
    "a AND",
    "NOT",
    "NEAR(dog cat, 2)",
    "words:dog",
    "dog*",
    "^dog",
    "(dog",
    "dog OR (",
    "dog & | ! <-> :*",
    "%s %(x)s :x",
    "\x00dog",
    "the of and is",
    "日本語のテキスト",
    "x" * 10_000,
    "w" + " word" * 2_000,
    " ".join(f"w{i}" for i in range(2_500)),
    "\ud7ff\ue000\uffff",
]


def test_no_query_fails_or_is_read_as_syntax(connection: sa.Connection) -> None:
    for query in HOSTILE:
        ids = set(found(connection, query))
        assert "dog" not in query or ids >= {1, 2}, query


def test_a_query_without_a_known_word_finds_nothing(connection: sa.Connection) -> None:
    for query in ("", "?!", "🙂", "日本語のテキスト", "x" * 10_000, "NOT"):
        assert found(connection, query) == [], query


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=60))
def test_no_text_fails(connection: sa.Connection, query: str) -> None:
    assert (lexical_candidates(connection, 7, query).scores > 0).all()


def test_common_words_are_left_out_where_rarer_ones_are_there(connection: sa.Connection) -> None:
    result = lexical_candidates(connection, 7, "the milk of the dog", budget=5)
    assert (result.used, result.common) == (("milk", "of"), ("dog", "the"))
    assert result.complete
    everything = lexical_candidates(connection, 7, "the milk of the dog", budget=100)
    assert everything.common == ()


def test_a_query_of_nothing_but_common_words_finds_some(connection: sa.Connection) -> None:
    result = lexical_candidates(connection, 7, "the", budget=2)
    assert (sorted(result.ids.tolist()), result.complete) == ([1, 2], False)


def test_words_that_half_of_many_passages_have_are_looked_for_alone_only(catalogue: Database) -> None:
    texts = [f"the {'dog' if number % 100 == 0 else 'cat'} {number}" for number in range(1, 1_101)]
    with catalogue.writing() as connection:
        lexical_rows.create_table(connection, 9)
        lexical_rows.insert_rows(connection, 9, range(1, 1_101), texts)
        result = lexical_candidates(connection, 9, "the dog")
        assert result.ids.tolist() == list(range(100, 1_101, 100))
        assert (result.used, result.common) == (("dog",), ())
        alone = lexical_candidates(connection, 9, "dog")
        np.testing.assert_allclose(result.scores, alone.scores, atol=1e-5)
        assert result.full_score == pytest.approx(alone.full_score, abs=1e-5)
        assert lexical_candidates(connection, 9, "the").ids.size == 1_100


def test_a_full_match_has_the_five_rarest_words_of_a_long_query(connection: sa.Connection) -> None:
    rare = lexical_candidates(connection, 7, "zebra yak xylophone wombat vulture")
    assert rare.full_score == pytest.approx(5 * log(7.5 / 0.5))
    long = lexical_candidates(connection, 7, "dog zebra yak xylophone wombat vulture pier unicorn")
    assert long.full_score == pytest.approx(rare.full_score)


def test_a_match_of_nothing_but_common_words_is_not_full(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        lexical_rows.create_table(connection, 11)
        lexical_rows.insert_rows(connection, 11, range(1, 101), [f"the {number}" for number in range(100)])
        found = lexical_candidates(connection, 11, "the")
        assert found.scores.max() < 0.01 * found.full_score


def test_a_word_that_no_passage_has_makes_a_full_answer_impossible(connection: sa.Connection) -> None:
    with_it = lexical_candidates(connection, 7, "dog zebra")
    assert with_it.full_score == pytest.approx(log(5.5 / 2.5) + log(7.5 / 0.5))
    assert with_it.used == ("dog",)


def test_pieces_of_the_words_are_merged_by_eights(connection: sa.Connection) -> None:
    if connection.dialect.name != "sqlite":
        pytest.skip("FTS5 is SQLite's")
    kept = connection.exec_driver_sql("SELECT v FROM lexical_7_config WHERE k = 'automerge'").scalar_one()
    assert kept == 8


@pytest.mark.long
def test_thousands_of_scored_passages_do_not_set_the_collector_going(connection: sa.Connection) -> None:
    lexical_rows.insert_rows(connection, 7, range(100, 8_100), ["a dog and a cat"] * 8_000)
    assert len(found(connection, "dog cat")) == 8_002  # what is compiled once is compiled now
    collections: list[str] = []

    def heard(phase: str, _: dict[str, int]) -> None:
        collections.append(phase)

    gc.collect()
    gc.callbacks.append(heard)
    try:
        result = lexical_candidates(connection, 7, "dog cat")
    finally:
        gc.callbacks.remove(heard)
    assert result.ids.size == 8_002
    assert collections.count("start") <= 2  # a row each that is held makes eleven
