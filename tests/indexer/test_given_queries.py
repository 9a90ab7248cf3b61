"""The user's own queries that chose an index: kept, and measured with again when the collection has grown."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from table_collection import COUNT, DIMENSION, refresh, rows, segments

from nearsay.indexer import Cluster, Collection
from nearsay.indexer.catalogue import collections, generations, refinements
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.refinements import Refinement
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.cluster import indexing
from nearsay.indexer.plans import tuning
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engines import build
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.writing import index_upkeep
from nearsay.training.sentence.query_adapter import QueryAdapter


@pytest.fixture
def doubled(indexed: Collection) -> Collection:
    """A plan that 200 given queries chose, and twice as many passages as it was measured with."""
    plan = indexed.tune(queries=[str(number) for number in range(200)])
    assert (plan.kind, plan.measured_at, plan.estimated) == (PlanKind.IVF, 2700, False)
    indexed.add_rows(rows(COUNT, 2 * COUNT), index="later")
    return indexed


def measured_kinds(monkeypatch: pytest.MonkeyPatch) -> list[PlanKind]:
    """The kinds that are built from now on."""
    built: list[PlanKind] = []

    def noting(kind: PlanKind, *given: Any, **more: Any) -> CandidateIndex:
        built.append(kind)
        return build(kind, *given, **more)

    monkeypatch.setattr(tuning, "build", noting)
    return built


def test_texts_measure_as_what_they_are_searched_for_by(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, taken = [str(number) for number in range(200)], list[NDArray[np.float32]]()
    monkeypatch.setattr(type(indexed._writing), "replace_index", lambda *given: taken.append(given[-1]))
    indexed.tune(queries=texts)
    adapter = QueryAdapter(np.random.default_rng(3).normal(0, 0.3, (DIMENSION, DIMENSION)).astype(np.float32))
    snapshot = indexed.snapshot()
    with indexed.library.store.database.writing() as connection:
        refinements.add(connection, snapshot.collection.id, 1, Refinement(0, adapter, None, {}, ""))
        collections.changed(connection, snapshot.collection.id)
    indexed.tune(queries=texts)
    plain, refined = taken
    np.testing.assert_allclose(refined, adapter(plain), atol=1e-6)


def test_what_has_doubled_is_measured_again_with_the_queries_that_chose_the_plan(
    doubled: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, built = Plan.from_json(doubled._record.live().plan), measured_kinds(monkeypatch)
    plan = doubled.optimize()
    (only,) = segments(doubled, SegmentKind.INDEX)
    assert only.count == 5700
    assert built == [PlanKind.IVF], "the kind that was chosen, and no other"
    assert (plan.kind, plan.measured_at, plan.queries) == (PlanKind.IVF, 5700, before.queries)
    assert plan.shape["lists"] > before.shape["lists"]
    (taken,) = [row for row in plan.report if row.verdict == "taken"]
    assert (taken.shape, taken.parameters) == (plan.shape, plan.parameters)
    assert taken.recall_at_least is not None
    assert taken.recall_at_least >= plan.contract.recall
    index = doubled.snapshot().index
    assert index is not None
    assert index.parameters == plan.parameters


def test_a_kind_that_keeps_the_contract_no_more_is_chosen_anew_with_the_same_queries(
    doubled: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[NDArray[np.float32]] = []
    queries = Plan.from_json(doubled._record.live().plan).queries
    monkeypatch.setattr(index_upkeep, "tune_again", lambda *given, **_: asked.append(given[4]))
    plan = doubled.optimize()
    assert [given.shape for given in asked] == [(200, DIMENSION)]
    assert (plan.measured_at, plan.queries) == (5700, queries)


def test_queries_are_kept_while_they_can_show_what_is_promised(doubled: Collection) -> None:
    generation = doubled._record.live()

    def kept() -> int:
        with doubled.library.store.database.reading() as connection:
            queries = generations.queries_of(connection, generation)
        return 0 if queries is None else len(queries)

    assert kept() == 200
    assert refresh(doubled, always=True).queries == "200 given queries"
    assert kept() == 200
    assert doubled.tune().queries == "200 given queries"
    doubled.tune(queries=[str(number) for number in range(80)])
    assert kept() == 80
    assert doubled.tune().queries == "80 given queries"
    assert doubled.tune(recall=0.99).estimated, "80 queries cannot show .99"
    assert kept() == 0
    doubled.delete()


def test_a_plan_of_queries_that_were_not_kept_stays_when_the_collection_doubles(doubled: Collection) -> None:
    before = Plan.from_json(doubled._record.live().plan)
    with doubled.library.store.database.writing() as connection:  # as an older nearsay left it
        generations.keep_queries(connection, doubled._record.live(), None)
    after = doubled.optimize()
    (only,) = segments(doubled, SegmentKind.INDEX)
    assert only.count == 5700
    assert (after.measured_at, after.queries) == (2700, before.queries)
    assert after.parameters == before.parameters
    index = doubled.snapshot().index
    assert index is not None
    assert index.lists > before.shape["lists"]
    share = before.parameters["probes"] / before.shape["lists"]
    assert index.parameters["probes"] == round(share * index.lists)


@pytest.mark.parametrize("left", [0, 2])
def test_where_nearly_everything_was_removed_given_queries_measure_no_index(
    doubled: Collection, left: int
) -> None:
    doubled.remove(where="id is not missing")
    doubled.add_rows(rows(0, left))
    assert doubled.optimize().kind is PlanKind.EXACT
    assert segments(doubled, SegmentKind.INDEX) == []
    assert len(doubled.search("1", 10)) == left


def test_workers_of_a_cluster_measure_with_the_same_queries(
    doubled: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def measuring(
        _store: Store,
        _collection: CollectionRow,
        _generation: GenerationRow,
        _rows: object,
        plan: Plan,
        *_: Any,
        **how: Any,
    ) -> Any:
        asked.append(how)
        return replace(plan, measured_at=5700), ()

    monkeypatch.setattr(indexing, "index_on_cluster", measuring)
    store = replace(doubled._store, cluster=Cluster())
    row, live = doubled._record.row(), doubled._record.live()
    prepared = index_upkeep.prepare_index(store, row, live, tmp_path)
    assert prepared is not None
    assert [(how["measured"], how["queries"].shape) for how in asked] == [(True, (200, DIMENSION))]
    assert prepared.queries is asked[0]["queries"]
