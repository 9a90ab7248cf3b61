"""Candidates under a filter: few that pass, many, and many that lie far from the query."""

import sqlite3

import numpy as np
import pytest
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import event
from table_collection import COUNT, LIVING, TABLE, nearest_by_force

from nearsay.indexer import Collection
from nearsay.indexer.filters import selection
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.filters.selection import Selection, select
from nearsay.indexer.query import ranking
from nearsay.indexer.query.ranking import dense_candidates

THIRD = np.arange(COUNT) % 3
RARE = np.arange(COUNT) % 500 == 7


def found(
    collection: Collection,
    query: int,
    where: Where | None,
    count: int = 10,
    without: frozenset[int] = frozenset(),
) -> tuple[list[str], Selection]:
    snapshot, database = collection.snapshot(), collection.library.store.database
    with database.reading() as connection:
        chosen = select(connection, snapshot, where, without)
        (candidates,) = dense_candidates(connection, snapshot, TABLE[query][None], count, chosen, count)
    assert (np.diff(candidates.scores) <= 0).all()
    return [f"d{number - 1}" for number in candidates.ids.tolist()], chosen


def recall(collection: Collection, where: Where, among: NDArray[np.bool_]) -> float:
    shares = [
        len({*found(collection, query, where)[0]} & {*nearest_by_force(query, 10, among)}) / 10
        for query in range(COUNT, COUNT + 60)
    ]
    return float(np.mean(shares))


@pytest.mark.long
@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("read", [(), ("third", "rare")])
@pytest.mark.parametrize("listed", [20_000, 500, 0])
def test_the_nearest_that_pass_come_back_whichever_way_they_are_found(
    indexed: Collection,
    monkeypatch: pytest.MonkeyPatch,
    read: tuple[str, ...],
    listed: int,
    *,
    columns: bool,
) -> None:
    monkeypatch.setattr(selection, "LISTED", listed)
    if not columns:
        monkeypatch.setattr(selection, "columnar", lambda _: False)
    for name in read:
        indexed.facets(name)
    assert recall(indexed, "third = 1", LIVING & (THIRD == 1)) >= 0.95
    assert recall(indexed, "third != 1 and not rare = true", LIVING & (THIRD != 1) & ~RARE) >= 0.95
    few = LIVING & RARE
    ids, _ = found(indexed, 1, "rare = true", 50)
    assert ids == nearest_by_force(1, int(few.sum()), few)
    assert found(indexed, 1, "third = 5")[0] == []


def test_a_filter_that_keeps_the_far_ones_is_searched_to_the_end(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "LISTED", 100)
    monkeypatch.setattr(ranking, "_MOST_DRAWN", 200)
    farthest = np.argsort(TABLE[:COUNT] @ TABLE[1], kind="stable")[:600]
    among = np.isin(np.arange(COUNT), farthest)
    where = {"id": [f"d{i}" for i in farthest]}
    ids, chosen = found(indexed, 1, where)
    assert chosen.numbers is None
    assert len({*ids} & {*nearest_by_force(1, 10, among & LIVING)}) >= 9
    again = found(indexed, 1, where)[1]
    assert again.numbers is not None  # what was listed once is known
    assert again.numbers.size == int((among & LIVING).sum())


def test_passages_that_are_set_aside_never_come_back(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for listed in (20_000, 0):
        monkeypatch.setattr(selection, "LISTED", listed)
        best = nearest_by_force(1, 12, LIVING & (THIRD == 1))
        aside = frozenset(int(id_[1:]) + 1 for id_ in best[:2])
        assert found(indexed, 1, "third = 1", 10, aside)[0] == best[2:]
        assert not {*best[:2]} & {*found(indexed, 1, None, 50, aside)[0]}


def test_a_known_filter_is_not_asked_of_the_database_again_until_something_changes(
    indexed: Collection,
) -> None:
    statements: list[str] = []
    event.listen(
        indexed.library.store.database.engine,
        "before_cursor_execute",
        lambda _c, _cursor, statement, *_: statements.append(statement),
    )
    first = found(indexed, 1, "rare = true", 50)[0]
    asked = len(statements)
    statements.clear()
    assert found(indexed, 1, {"rare": True}, 50)[0] == first
    assert not any("passages" in statement for statement in statements)
    assert len(statements) < asked
    indexed.remove(first[:1])
    assert found(indexed, 1, "rare = true", 50)[0] == first[1:]
    indexed.add_rows([{"id": first[0], "text": first[0][1:], "rare": True}])
    assert found(indexed, 1, "rare = true", 50)[0] == [f"d{COUNT}", *first[1:]]  # under its new number


def test_true_and_one_are_two_filters(indexed: Collection) -> None:
    assert found(indexed, 1, "rare = 1")[0] == []
    assert found(indexed, 1, "rare = true")[0] != []


def test_few_that_pass_are_listed_and_of_many_it_is_known_which(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    thirds = [i + 1 for i in range(COUNT) if LIVING[i] and THIRD[i] == 1]
    numbers = found(indexed, 1, "third = 1")[1].numbers
    assert numbers is not None
    assert numbers.tolist() == thirds
    monkeypatch.setattr(selection, "LISTED", 500)
    indexed.update(["d1"], metadata={"rare": True})  # a commit: what was known is asked anew
    for _ in range(2):  # worked out, and known
        many = found(indexed, 1, "third = 1")[1]
        assert many.numbers is None
        assert many.chosen is not None
        assert np.flatnonzero(many.chosen).tolist() == thirds
    aside = found(indexed, 1, "third = 1", without=frozenset(thirds[:2]))[1]
    assert aside.chosen is not None
    assert np.flatnonzero(aside.chosen).tolist() == thirds[2:]
    assert found(indexed, 1, "id = 'd1'")[1].numbers is not None


def test_the_selection_has_a_condition_where_it_was_not_worked_out_what_passes(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = found(indexed, 1, "rare = true")[1]
    assert listed.condition is None
    assert not listed.everything
    monkeypatch.setattr(selection, "LISTED", 50)
    assert found(indexed, 1, "third = 1")[1].condition is None
    unlisted = found(indexed, 1, "not id = 'd1'")[1]
    assert unlisted.allowed is None
    assert isinstance(unlisted.condition, sa.ColumnElement)
    assert found(indexed, 1, None)[1].everything


def test_more_candidates_are_checked_than_a_database_takes_parameters(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "LISTED", 0)

    def few_parameters(connection: sqlite3.Connection, *_: object) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 100)

    event.listen(indexed.library.store.database.engine, "checkout", few_parameters)
    among = LIVING & (THIRD == 1)
    ids, chosen = found(indexed, 1, "third = 1 and not id = 'none'", 120)
    assert chosen.allowed is None
    assert len({*ids} & {*nearest_by_force(1, 120, among)}) >= 114
