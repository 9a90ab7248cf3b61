"""A large collection with its index: built, searched, outgrown, dropped."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest
from naming import Naming
from table_collection import (
    COUNT,
    DIMENSION,
    LIVING,
    TABLE,
    TableEncoder,
    flip_last_byte,
    nearest_by_force,
    refresh,
    rows,
    segments,
)

from nearsay.data.errors import MissingExtraError
from nearsay.indexer import Collection, collection_writing
from nearsay.indexer.catalogue import generations
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans import engine
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.snapshots import snapshot
from nearsay.indexer.vectors.errors import BusyError, DamagedSegmentError
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.writing import compaction, index_state, index_upkeep

OpenCollection = Callable[[], Collection]


def test_a_large_collection_is_searched_through_its_index(
    indexed: Collection, open_table: OpenCollection
) -> None:
    plan = Plan.from_json(indexed._record.live().plan)
    assert plan.kind is PlanKind.IVF
    (row,) = segments(indexed, SegmentKind.INDEX)
    assert (row.count, row.first_passage, row.last_passage) == (COUNT * 9 // 10, 1, COUNT)
    right = 0
    for query in range(1, COUNT, 100):
        hits = open_table().search(str(query), 10) if query == 1 else indexed.search(str(query), 10)
        assert hits.notes == ()
        assert hits.qualifying == COUNT * 9 // 10
        assert {hit.lineage.plan for hit in hits} == {"ivf"}
        assert hits[0].id == f"d{query}"
        right += len({hit.id for hit in hits} & set(nearest_by_force(query, 10, LIVING)))
    assert right / 300 >= 0.93


def test_a_small_collection_gets_no_index(
    open_table: OpenCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = open_table()
    monkeypatch.setattr(index_upkeep, "EXACT_UP_TO", COUNT * 9 // 10)
    assert refresh(collection) == Plan()
    assert segments(collection, SegmentKind.INDEX) == []
    assert collection.search("1")[0].lineage.plan == "exact"


def test_removed_documents_never_come_back_through_the_index(indexed: Collection) -> None:
    best = [hit.id for hit in indexed.search("1", 20)]
    indexed.remove(best)
    among = LIVING.copy()
    among[[int(id_[1:]) for id_ in best]] = False
    hits = indexed.search("1", 500)
    assert len(hits) == 500
    assert hits[0].lineage.plan == "ivf"
    assert {hit.id for hit in hits}.isdisjoint(best)
    assert all(int(hit.id[1:]) % 10 for hit in hits)
    assert hits[0].id == nearest_by_force(1, 1, among)[0]


def test_a_filter_holds_for_everything_that_comes_through_the_index(indexed: Collection) -> None:
    hits = indexed.search("1", 10, where="third = 1")
    assert len(hits) == 10
    assert {hit.metadata["third"] for hit in hits} == {1}
    expected = nearest_by_force(1, 10, LIVING & (np.arange(COUNT) % 3 == 1))
    assert len({hit.id for hit in hits} & set(expected)) >= 9


def test_all_that_pass_a_narrow_filter_are_found_however_far_they_lie(indexed: Collection) -> None:
    hits = indexed.search("1", 6, where="rare = true")
    among = LIVING & (np.arange(COUNT) % 500 == 7)
    assert among.sum() == 6
    assert [hit.id for hit in hits] == nearest_by_force(1, 6, among)
    assert hits.notes == ()


def test_as_many_as_there_are_come_back_even_past_the_probed_lists(indexed: Collection) -> None:
    hits = indexed.search("1", COUNT)
    assert [hit.id for hit in hits] == nearest_by_force(1, COUNT * 9 // 10, LIVING)
    assert hits.notes == (Naming(f"2700 of the {COUNT}", "only 2700"),)


def test_what_is_newer_than_the_index_is_found_beside_it(indexed: Collection) -> None:
    (before,) = segments(indexed, SegmentKind.INDEX)
    indexed.add_rows([{"id": "new", "text": "1", "third": 2, "rare": False}, *rows(COUNT, COUNT + 50)])
    assert [row.sha256 for row in segments(indexed, SegmentKind.INDEX)] == [before.sha256]
    hits = indexed.search("1", 10)
    assert [(hit.id, hit.lineage.plan) for hit in hits[:2]] == [("d1", "ivf"), ("new", "ivf")]
    assert hits[0].score == hits[1].score
    assert indexed.search(str(COUNT + 9), 1)[0].id == f"d{COUNT + 9}"
    assert indexed.search("1", 1, where="third = 2")[0].id == "new"
    indexed.remove(["new"])
    assert "new" not in {hit.id for hit in indexed.search("1", 100)}


@pytest.mark.parametrize("kept", [True, False])
def test_an_index_that_has_outgrown_its_lists_is_trained_anew(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    """Once, though an older nearsay kept no queries that it could be measured with."""
    monkeypatch.setattr(index_state, "TAIL", 100)
    indexed.tune(queries=TABLE[:400])
    indexed.add_rows(rows(COUNT, 2 * COUNT), index="later")
    indexed.optimize(newer=True)
    (joined,) = segments(indexed, SegmentKind.INDEX)
    assert joined.count == 2700 + COUNT
    if not kept:
        monkeypatch.setattr(index_upkeep, "_given", lambda *_: None)
    measured_at = [indexed.optimize().measured_at for _ in range(2)]
    assert measured_at == ([5700, 5700] if kept else [2700, 2700])
    (row,) = segments(indexed, SegmentKind.INDEX)
    assert (row.count, row.id) == (5700, joined.id + 1)
    index = indexed.snapshot().index
    assert index is not None
    assert index.lists == 256


@pytest.mark.parametrize("step", ["merged_for_index", "prepare_index"])
@pytest.mark.parametrize("another", [True, False])
def test_a_generation_that_is_dropped_while_its_index_is_made_leaves_the_next_one_alone(
    open_table: OpenCollection, monkeypatch: pytest.MonkeyPatch, step: str, *, another: bool
) -> None:
    collection = open_table()
    collection.rebuild(TableEncoder(name="second"))
    collection.promote()
    made = getattr(collection_writing, step)

    def dropped_meanwhile(*given: Any, **named: Any) -> Any:
        collection.rollback()
        collection.compact(drop_retired=True)
        if another:
            collection.rebuild(TableEncoder(name="third"))
            collection.promote()
        return made(*given, **named)

    monkeypatch.setattr(collection_writing, step, dropped_meanwhile)
    with pytest.raises(BusyError, match="generation 2 of 'table'"):
        collection.tune()
    assert [row.number for row in collection.generations()] == ([1, 3] if another else [1])
    assert all(finding.sound for finding in examine(collection.library))


def test_a_new_index_that_is_not_what_was_written_takes_no_place(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, plan = segments(indexed, SegmentKind.INDEX), indexed._record.live().plan
    prepared = collection_writing.prepare_index

    def damaged(*given: Any, **named: Any) -> Any:
        found = prepared(*given, **named)
        flip_last_byte(found.parts[0].path)
        return found

    monkeypatch.setattr(collection_writing, "prepare_index", damaged)
    with pytest.raises(DamagedSegmentError, match="is not what was written"):
        indexed.tune(recall="0.9@5")
    assert (segments(indexed, SegmentKind.INDEX), indexed._record.live().plan) == (before, plan)
    assert list(indexed.library.store.building.iterdir()) == []


def test_an_addition_measures_and_builds_nothing_unasked_and_says_when_an_index_pays_off(
    open_table: OpenCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_upkeep, "EXACT_UP_TO", 2700)
    collection = open_table()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_upkeep, "tune", None)
        patch.setattr(index_upkeep, "build", None)
        (note,) = collection.add_rows(rows(COUNT, COUNT + 1)).notes[1:]
        assert "2,701 passages have no index" in note
        assert "From 2,700 on" in note
        assert "nearsay index optimize table" in note
        assert collection.search("1")[0].lineage.plan == "exact"
        patch.setattr(index_upkeep, "faiss_is_installed", lambda: False)
        (note,) = collection.add_rows(rows(COUNT, COUNT + 1)).notes[1:]
        assert note.endswith(": pip install 'nearsay[cpu]', then nearsay index optimize table")
        with pytest.raises(MissingExtraError, match=r"pip install 'nearsay\[cpu\]'"):
            collection.optimize()
    assert collection.optimize().kind is PlanKind.IVF
    assert collection.add_rows(rows(COUNT + 1, COUNT + 541)).notes[1:] == ()
    monkeypatch.setattr(index_state, "TAIL", 100)
    (note,) = collection.add_rows(rows(COUNT + 541, COUNT + 601)).notes[1:]
    assert note == Naming("600 passages", "newer")
    assert [row.count for row in segments(collection, SegmentKind.INDEX)] == [2701]
    collection.optimize()
    assert [row.count for row in segments(collection, SegmentKind.INDEX)] == [3301]


def test_a_small_addition_reads_no_passage_numbers(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr(index_upkeep, "living_passages", never)
    assert indexed.add_rows(rows(COUNT, COUNT + 1), index="now").embedded == 1
    assert indexed.search(str(COUNT), 1)[0].id == f"d{COUNT}"


def test_many_segments_are_merged_before_an_index_is_built(
    open_table: OpenCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_MOST_INDEXED", 3)
    monkeypatch.setattr(compaction, "SEGMENT_ROWS", 4000)
    collection = open_table()
    for begin in range(COUNT, COUNT + 60, 20):
        collection.add_rows(rows(begin, begin + 20), index="now")
    monkeypatch.setattr(compaction, "_MOST_INDEXED", 1)
    small = [row.sha256 for row in segments(collection, SegmentKind.VECTORS)[1:]]
    assert len(small) == 3
    before = [(hit.id, hit.score) for hit in collection.search("1", 20)]
    collection.rebuild()
    assert [row.count for row in segments(collection, SegmentKind.VECTORS)] == [COUNT, 60]
    assert [(hit.id, hit.score) for hit in collection.search("1", 20)] == before
    folder = collection._store.segments(collection._record.row().id)
    assert {path.stem for path in folder.iterdir()}.isdisjoint(small)


def test_an_index_that_an_older_nearsay_left_in_its_file_is_opened(
    indexed: Collection, open_table: OpenCollection
) -> None:
    before = [(hit.id, hit.score) for hit in indexed.search("1", 10)]
    plan = indexed._record.live().plan
    row = {"kind": "ivf", "mapped": True, "bytes": 4 * DIMENSION * 128, "verdict": "taken"}
    with indexed._store.database.writing() as connection:
        generations.set_plan(connection, indexed._record.live(), plan | {"mapped": True, "report": [row]})
    collection = open_table()
    hits = collection.search("1", 10)
    assert [(hit.id, hit.score) for hit in hits] == before
    assert (hits.notes, hits[0].lineage.plan) == ((), "ivf")
    assert [finding for finding in examine(collection.library, prove=True) if not finding.sound] == []
    assert collection.rebuild().mended == 0
    assert collection.search("1")[0].lineage.plan == "ivf"


def test_a_rebuild_after_nearly_everything_was_removed_needs_no_index(indexed: Collection) -> None:
    indexed.remove(where="id != 'd7' and id != 'd8'")
    assert indexed.rebuild().mended == 0
    hits = indexed.search("1", 5)
    assert [hit.id for hit in hits] == nearest_by_force(1, 2, np.isin(np.arange(COUNT), [7, 8]))


def test_a_rebuild_after_everything_was_removed_needs_none_either(indexed: Collection) -> None:
    indexed.remove(where="id is not missing")
    indexed.rebuild()
    indexed.compact()
    indexed.rebuild()
    indexed.add_rows(rows(0, 1), index="now")
    assert [hit.id for hit in indexed.search("0", 3)] == ["d0"]


def test_compacting_under_an_index_changes_no_answer(indexed: Collection, open_table: OpenCollection) -> None:
    indexed.remove(where="third = 0")
    before = [(hit.id, hit.score) for hit in indexed.search("1", 50)]
    indexed.compact()
    assert [(hit.id, hit.score) for hit in indexed.search("1", 50)] == before
    assert [(hit.id, hit.score) for hit in open_table().search("1", 50)] == before
    assert [finding for finding in examine(indexed.library) if not finding.sound] == []


def test_without_faiss_an_indexed_collection_is_searched_exactly_with_a_note(
    indexed: Collection, open_table: OpenCollection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "faiss_is_installed", lambda: False)
    hits = open_table().search("1", 10)
    assert hits.notes == (Naming("FAISS is not installed", "searched exactly", "pip install 'nearsay[cpu]'"),)
    assert {hit.lineage.plan for hit in hits} == {"exact"}
    assert [hit.id for hit in hits] == nearest_by_force(1, 10, LIVING)


def test_without_faiss_no_index_is_built(open_table: OpenCollection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_upkeep, "faiss_is_installed", lambda: False)
    collection = open_table()
    assert refresh(collection) == Plan()
    assert segments(collection, SegmentKind.INDEX) == []
    assert [hit.id for hit in collection.search("1", 10)] == nearest_by_force(1, 10, LIVING)


def test_faiss_is_looked_for_without_importing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine.faiss_is_installed()
    monkeypatch.setattr(engine.importlib.util, "find_spec", lambda _: None)
    assert not engine.faiss_is_installed()


def test_many_queries_at_once_find_what_each_finds_alone(indexed: Collection) -> None:
    indexed.add_rows(rows(COUNT, COUNT + 100), index="now")  # a tail that the index does not know
    snapshot = indexed.snapshot()
    queries = TABLE[[1, 2, COUNT + 5, COUNT + 500, 77]]
    wide = np.flatnonzero(snapshot.alive)[::2]
    for k, allowed in ((10, None), (10, wide), (7, np.array([5, 3050])), (COUNT, None), (600, wide)):
        together = snapshot.nearest_many(queries, k, allowed)
        for query, found in zip(queries, together, strict=True):
            alone = snapshot.nearest(query, k, allowed)
            assert found.ids.tolist() == alone.ids.tolist()
            assert found.scores.tolist() == alone.scores.tolist()
            may_be = snapshot.searchable if allowed is None else int(snapshot.alive[allowed].sum())
            assert found.ids.size == min(k, may_be)
    assert snapshot.device == "cpu"


def test_a_generation_of_an_older_nearsay_is_searched_through_its_index(
    indexed: Collection, open_table: OpenCollection
) -> None:
    plan = Plan.from_json(indexed._record.live().plan)
    old = {"kind": "ivf", "lists": 128, "probes": 128, "recall_target": 0.95, "measured_at": 2700}
    old |= {"report": [{"kind": "exact", "parameters": {}, "recall_at_10": 1.0, "milliseconds_a_query": 2.0}]}
    assert plan.shape == {"lists": 128}
    with indexed._store.database.writing() as connection:
        generations.set_plan(connection, indexed._record.live(), old)
    hits = open_table().search("1", 10)
    assert (hits.notes, hits[0].lineage.plan) == ((), "ivf")
    assert [hit.id for hit in hits] == nearest_by_force(1, 10, LIVING)
