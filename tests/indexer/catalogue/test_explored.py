"""What was explored goes with what it was explored in, and nothing else goes with it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError
from words_encoder import WordsEncoder

from nearsay.data.document import Document
from nearsay.indexer.catalogue import collections, documents, generations, near_duplicates
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.documents import NewDocuments
from nearsay.indexer.catalogue.explored import leave_documents, leave_generation
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.catalogue.near_duplicates import GateAction, GateRow
from nearsay.indexer.catalogue.passages import prepare
from nearsay.indexer.catalogue.tables import (
    cluster_members,
    clusterings,
    clusters,
    gates,
    maps,
)
from nearsay.indexer.catalogue.tables import documents as document_table
from nearsay.indexer.catalogue.tables import near_duplicates as link_table

_DOCUMENTS = 6
_TABLES = (clusterings, clusters, cluster_members, maps, gates, link_table)


def test_a_generation_goes_with_its_clustering_and_map(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        papers, other = explored(connection, "papers", 2), explored(connection, "other", 1)
        first = generations.all_of(connection, papers.id)[0]
        generations.drop(connection, first)
        assert generations_with(connection, clusterings) == [(papers.id, 2), (other.id, 1)]
        assert generations_with(connection, maps) == [(papers.id, 2), (other.id, 1)]
        kept = set(connection.execute(sa.select(clusterings.c.id)).scalars())
        for part in (clusters, cluster_members):
            assert set(connection.execute(sa.select(part.c.clustering)).scalars()) == kept
        assert count(connection, gates) == 2  # a gate is the collection's, whatever its generations
        assert count(connection, link_table) == 4


def test_forgetting_a_generation_that_was_not_explored_forgets_nothing(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        papers = explored(connection, "papers", 1)
        before = [count(connection, table) for table in _TABLES]
        leave_generation(connection, papers.id, 7)
        assert [count(connection, table) for table in _TABLES] == before


def test_a_collection_goes_with_everything_that_was_explored_in_it(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        papers, other = explored(connection, "papers", 2), explored(connection, "other", 1)
        collections.delete(connection, papers.id)
        for table in (clusterings, maps, gates, link_table):
            assert set(connection.execute(sa.select(table.c.collection_id)).scalars()) == {other.id}
        assert [count(connection, table) for table in _TABLES] == [1, 1, 2, 1, 1, 2]


@pytest.mark.parametrize(
    ("gone", "left"),
    [([2], [(4, 3)]), ([1], [(4, 3)]), ([3], [(2, 1)]), ([1, 4], []), ([5, 6], [(2, 1), (4, 3)]), ([], None)],
)
def test_a_link_goes_with_the_near_duplicate_and_with_the_original(
    catalogue: Database, gone: list[int], left: list[tuple[int, int]] | None
) -> None:
    with catalogue.writing() as connection:
        papers, other = explored(connection, "papers", 1), explored(connection, "other", 1)
        documents.remove(connection, papers.id, document_table.c.number.in_(gone))
        expected = [(2, 1), (4, 3)] if left is None else left
        assert links(connection, papers) == expected
        assert links(connection, other) == [(2, 1), (4, 3)]


def test_links_are_looked_up_and_not_all_read(tmp_path: Path) -> None:
    catalogue = Database(f"sqlite:///{tmp_path / 'catalogue.sqlite'}")
    catalogue.migrate(create=True)
    said: list[str] = []

    def explained(connection: sa.Connection, _: object, statement: str, given: Any, *__: object) -> None:
        if statement.startswith("DELETE"):
            plan = connection.connection.execute(f"EXPLAIN QUERY PLAN {statement}", given)
            said.extend(row[-1] for row in plan if "near_duplicates" in row[-1])

    with catalogue.writing() as connection:
        event.listen(connection, "before_cursor_execute", explained)
        leave_documents(connection, 1, [1, 2, 3])
    catalogue.close()
    assert len(said) == 2
    for plan, column in zip(said, ("document", "original"), strict=True):
        assert f"(collection_id=? AND {column}=?)" in plan


def test_a_document_with_a_link_cannot_go_before_the_link(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        papers = explored(connection, "papers", 1)
    of_it = (document_table.c.collection_id == papers.id) & (document_table.c.number == 5)
    with catalogue.writing() as connection:
        near_duplicates.link(connection, papers.id, [6], [(6, 5, 1.0)], "t")
    with pytest.raises(IntegrityError), catalogue.writing() as connection:
        connection.execute(document_table.delete().where(of_it))
    with catalogue.writing() as connection:
        leave_documents(connection, papers.id, [5])
        connection.execute(link_table.delete().where(link_table.c.document == 2))
        assert links(connection, papers) == [(4, 3)]


def test_what_is_found_anew_takes_the_place_of_what_was_known(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        papers = explored(connection, "papers", 1)
        near_duplicates.link(connection, papers.id, [1, 2, 6], [(6, 2, 0.97)], "t")
        assert links(connection, papers) == [(4, 3), (6, 2)]
        found = near_duplicates.linked(connection, papers.id)
        assert [(one.id, one.original, one.cosine) for one in found] == [
            ("papers4", "papers3", 0.96),
            ("papers6", "papers2", 0.97),
        ]


def test_a_gate_is_set_changed_passed_and_closed(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        papers = collections.create(connection, "papers", "none", "now")
        assert near_duplicates.gate_of(connection, papers.id) is None
        near_duplicates.set_gate(connection, papers.id, GateRow(GateAction.SKIP, 0.9, 5))
        near_duplicates.set_gate(connection, papers.id, GateRow(GateAction.LINK, 0.95, 5))
        near_duplicates.passed(connection, papers.id, 17)
        assert near_duplicates.gate_of(connection, papers.id) == GateRow(GateAction.LINK, 0.95, 17)
        near_duplicates.close_gate(connection, papers.id)
        assert near_duplicates.gate_of(connection, papers.id) is None


def explored(connection: sa.Connection, name: str, times: int) -> CollectionRow:
    """A collection of six documents with so many generations, each with a clustering and a map, two links."""
    row = collections.create(connection, name, "none", "now")
    prepared = [prepare(Document(f"text {n}", id=f"{name}{n}")) for n in range(1, _DOCUMENTS + 1)]
    documents.insert(connection, row.id, NewDocuments.of(prepared, [[(0, 6)]] * _DOCUMENTS), "t")
    encoder = generations.register_encoder(connection, WordsEncoder())
    for number in range(1, times + 1):
        state = GenerationState.LIVE if number == times else GenerationState.RETIRED
        assert generations.begin(connection, row.id, encoder, state, {}) == number
        common = {"collection_id": row.id, "generation": number, "passages": 6, "through": 6}
        common |= {"parameters": {}, "created_at": "t"}
        made = clusterings.insert().values(common | {"method": "kmeans", "report": {}})
        key = connection.execute(made.returning(clusterings.c.id)).scalar_one()
        cluster = {"clustering": key, "number": 1, "level": 0, "name": "one", "named_by_user": False}
        cluster |= {"terms": [], "central": [], "size": 2, "cohesion": 0.5}
        connection.execute(clusters.insert().values(cluster))
        members = [{"clustering": key, "passage": n, "cluster": 1, "cosine": 0.5} for n in (1, 2)]
        connection.execute(cluster_members.insert(), members)
        connection.execute(maps.insert().values(common | {"points": b""}))
    near_duplicates.set_gate(connection, row.id, GateRow(GateAction.LINK, 0.95, 6))
    near_duplicates.link(connection, row.id, [], [(2, 1, 0.96), (4, 3, 0.96)], "t")
    return row


def links(connection: sa.Connection, collection: CollectionRow) -> list[tuple[int, int]]:
    return [(row[0], row[1]) for row in near_duplicates.linked_numbers(connection, collection.id).tolist()]


def count(connection: sa.Connection, table: sa.Table) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def generations_with(connection: sa.Connection, table: sa.Table) -> Sequence[tuple[int, int]]:
    columns = (table.c.collection_id, table.c.generation)
    return [(row[0], row[1]) for row in connection.execute(sa.select(*columns).order_by(*columns))]
