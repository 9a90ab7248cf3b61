"""Passages that come after the index: they join it, get one of their own, or have everything built anew."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import table_collection
from table_collection import (
    COUNT,
    LIVING,
    TABLE,
    nearest_by_force,
    refresh,
    rows,
    segments,
)

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, collection_writing
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import SegmentState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.snapshots import snapshot
from nearsay.indexer.vectors.errors import BusyError
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.vectors.vector_store import VectorStore, unit_length
from nearsay.indexer.writing import compaction, index_state, index_upkeep

OpenCollection = Callable[[], Collection]


@pytest.fixture
def growing(indexed: Collection, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """Where a hundred newer passages, and a twentieth of what is indexed, are indexed."""
    monkeypatch.setattr(index_state, "TAIL", 100)
    monkeypatch.setattr(index_upkeep, "tune", None)  # an addition measures nothing
    return indexed


@pytest.fixture
def apart(growing: Collection, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """Where newer passages get indexes of their own, as if they lay elsewhere."""
    monkeypatch.setattr(index_upkeep, "_as_sure", lambda *_: False)
    return growing


def test_what_is_newer_joins_the_index(growing: Collection, open_table: OpenCollection) -> None:
    (before,) = segments(growing, SegmentKind.INDEX)
    growing.add_rows(rows(COUNT, COUNT + 120), index="now")
    assert segments(growing, SegmentKind.INDEX) == [before]  # a twentieth of 2,700 is 135
    ends = list[tuple[int, int, int]]()
    for begin, end in ((120, 600), (600, 1300)):
        growing.add_rows(rows(COUNT + begin, COUNT + end), index="now")
        (row,) = segments(growing, SegmentKind.INDEX)
        ends.append((row.count, row.first_passage, row.last_passage))
    assert ends == [(3300, 1, COUNT + 600), (4000, 1, COUNT + 1300)]
    growing.add_rows(rows(COUNT + 1300, COUNT + 1310), index="now")
    living = np.append(LIVING, np.ones(1310, dtype=np.bool_))
    for collection in (growing, open_table()):
        index = collection.snapshot().index
        assert index is not None
        assert (len(index), index.through) == (4000, COUNT + 1300)
        right = 0
        for query in range(1, COUNT + 1310, 100):
            hits = collection.search(str(query), 10, mode="dense")
            assert hits[0].id == nearest_by_force(query, 1, living)[0]
            right += len({hit.id for hit in hits} & set(nearest_by_force(query, 10, living)))
        assert right / 440 >= 0.95
    assert Plan.from_json(growing._record.live().plan).measured_at == 2700
    assert [finding for finding in examine(growing.library, prove=True) if not finding.sound] == []
    folder = growing._store.segments(growing._record.row().id)
    assert {path.stem for path in folder.iterdir()} == {row.sha256 for row in growing.overview().segments}


@pytest.mark.parametrize("newer", [True, False])
def test_an_index_grows_no_larger_than_it_may(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch, newer: bool
) -> None:
    monkeypatch.setattr(index_state, "TAIL", 100)
    (row,) = segments(indexed, SegmentKind.INDEX)
    limit = int(row.bytes * 1.1)
    assert indexed.tune(memory=limit).kind is PlanKind.IVF
    indexed.add_rows(rows(COUNT, COUNT + 600), index="later")
    plan = indexed.optimize(newer=newer)
    assert (plan.kind, plan.contract.memory_bytes, plan.measured_at) == (PlanKind.EXACT, limit, 3300)
    assert segments(indexed, SegmentKind.INDEX) == []
    living = np.append(LIVING, np.ones(600, dtype=np.bool_))
    assert [hit.id for hit in indexed.search("1", 10, mode="dense")] == nearest_by_force(1, 10, living)


@pytest.mark.parametrize(
    ("removed", "newer", "left"), [(200, True, 3900), (1800, True, 2100), (1800, False, 2100)]
)
def test_once_most_was_removed_the_index_is_built_anew(
    growing: Collection, removed: int, newer: bool, left: int
) -> None:
    gone = [hit.id for hit in growing.search("1", removed)]
    growing.add_rows(rows(COUNT, COUNT + 600), index="later")
    growing.optimize(newer=newer)
    growing.remove(gone)
    growing.add_rows(rows(COUNT + 600, COUNT + 1200), index="later")
    growing.optimize(newer=newer)
    (row,) = segments(growing, SegmentKind.INDEX)
    assert row.count == left
    living = np.append(LIVING, np.ones(1200, dtype=np.bool_))
    living[[int(id_[1:]) for id_ in gone]] = False
    assert [hit.id for hit in growing.search("1", 10, mode="dense")] == nearest_by_force(1, 10, living)
    assert [finding for finding in examine(growing.library, prove=True) if not finding.sound] == []


def test_an_index_that_others_joined_stays_a_while_where_others_may_have_it_open(
    growing: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(compaction.GRACE, growing.library.store.database.dialect, 3600.0)
    (before,) = segments(growing, SegmentKind.INDEX)
    growing.add_rows(rows(COUNT, COUNT + 600), index="now")
    (now,) = segments(growing, SegmentKind.INDEX)
    folder = growing._store.segments(growing._record.row().id)
    assert {before.sha256, now.sha256} <= {path.stem for path in folder.iterdir()}


def test_an_index_that_is_too_large_to_be_written_again_and_again_stays(
    growing: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    (before,) = segments(growing, SegmentKind.INDEX)
    monkeypatch.setattr(index_upkeep, "_REWRITTEN", before.bytes - 1)
    for begin, end in ((0, 600), (600, 900)):
        growing.add_rows(rows(COUNT + begin, COUNT + end), index="now")
    first, second = segments(growing, SegmentKind.INDEX)
    assert first == before
    assert (second.count, second.first_passage) == (900, COUNT + 1)


@pytest.mark.parametrize(("removed", "count"), [(0, 900), (0, 3000), (1350, 900)])
def test_newer_passages_that_lie_elsewhere_get_an_index_of_their_own(
    open_table: OpenCollection, monkeypatch: pytest.MonkeyPatch, removed: int, count: int
) -> None:
    """In all directions, while the index was trained on sixty; however many, and whatever it leaves out."""
    monkeypatch.setattr(index_state, "TAIL", 100)
    growing = open_table()
    growing.remove([f"d{number}" for number in np.flatnonzero(LIVING)[::2][:removed]])
    refresh(growing)
    table = TABLE.copy()
    table[COUNT:] = unit_length(
        np.random.default_rng(5).standard_normal(table[COUNT:].shape).astype(np.float32)
    )
    monkeypatch.setattr(table_collection, "TABLE", table)
    growing.add_rows(rows(COUNT, COUNT + count), index="now")
    counts = [(row.count, row.last_passage) for row in segments(growing, SegmentKind.INDEX)]
    assert counts == [(2700 - removed, COUNT), (count, COUNT + count)]


@pytest.mark.long
def test_what_is_newer_gets_an_index_of_its_own(apart: Collection, open_table: OpenCollection) -> None:
    (before,) = segments(apart, SegmentKind.INDEX)
    apart.add_rows(rows(COUNT, COUNT + 120), index="now")
    assert segments(apart, SegmentKind.INDEX) == [before]  # a twentieth of 2,700 is 135
    apart.add_rows(rows(COUNT + 120, COUNT + 600), index="now")
    first, second = segments(apart, SegmentKind.INDEX)
    assert first == before
    assert (second.count, second.first_passage, second.last_passage) == (600, COUNT + 1, COUNT + 600)
    apart.add_rows(rows(COUNT + 600, COUNT + 1300), index="now")
    assert [row.count for row in segments(apart, SegmentKind.INDEX)] == [2700, 600, 700]
    apart.add_rows(rows(COUNT + 1300, COUNT + 1310), index="now")
    for collection in (apart, open_table()):
        index = collection.snapshot().index
        assert index is not None
        assert (len(index), index.through) == (4000, COUNT + 1300)
        living = np.append(LIVING, np.ones(1310, dtype=np.bool_))
        for query in (1, 77, COUNT + 5, COUNT + 900, COUNT + 1305):
            assert [hit.id for hit in collection.search(str(query), 10, mode="dense")] == nearest_by_force(
                query, 10, living
            )
    assert [finding for finding in examine(apart.library, prove=True) if not finding.sound] == []


def test_several_indexes_open_once(apart: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    apart.add_rows(rows(COUNT, COUNT + 600), index="now")
    apart.search("1", 3)
    opened = []
    before = snapshot.open_index_bytes
    monkeypatch.setattr(
        snapshot,
        "open_index_bytes",
        lambda path, *rest, **named: opened.append(path) or before(path, *rest, **named),
    )
    apart.add_rows(rows(COUNT + 600, COUNT + 1300), index="now")
    apart.search("1", 3)
    assert [path.stem for path in opened] == [segments(apart, SegmentKind.INDEX)[-1].sha256]


def test_a_damaged_index_of_several_is_left_out_with_all(
    apart: Collection, open_table: OpenCollection
) -> None:
    apart.add_rows(rows(COUNT, COUNT + 600), index="now")
    second = segments(apart, SegmentKind.INDEX)[1]
    path = apart.library.store.segment(apart.snapshot().collection.id, second.sha256)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    hits = open_table().search("1", 10, mode="dense")
    assert {hit.lineage.plan for hit in hits} == {"exact"}
    assert "rebuild" in " ".join(hits.notes)
    apart.rebuild()
    assert [row.count for row in segments(apart, SegmentKind.INDEX)] == [3300]


def test_optimizing_makes_one_index(apart: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    apart.add_rows(rows(COUNT, COUNT + 600), index="now")
    apart.add_rows(rows(COUNT + 600, COUNT + 610), index="now")
    before = [(hit.id, hit.score) for hit in apart.search("5", 20, mode="dense")]
    plan = apart.optimize()
    (only,) = segments(apart, SegmentKind.INDEX)
    assert (only.count, only.last_passage) == (3310, COUNT + 610)
    assert plan.measured_at == 2700
    assert [(hit.id, hit.score) for hit in apart.search("5", 20, mode="dense")] == before
    apart.optimize()
    assert segments(apart, SegmentKind.INDEX) == [only]


def test_optimizing_what_is_newer_leaves_other_indexes_alone(
    apart: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2,700; then 600, 700 and 850 get their own."""
    before = segments(apart, SegmentKind.INDEX)
    end, counts = COUNT, list[list[int]]()
    for more in (100, 500, 700, 850):
        notes = apart.add_rows(rows(end, end + more), index="later").notes
        assert any("nearsay index optimize table --newer" in note for note in notes) == (more > 100)
        end += more
        apart.optimize(newer=True)
        after = segments(apart, SegmentKind.INDEX)
        assert after[: len(before)] == before
        counts.append([row.count for row in after])
        before = after
    assert counts == [[2700], [2700, 600], [2700, 600, 700], [2700, 600, 700, 850]]
    living = np.append(LIVING, np.ones(end - COUNT, dtype=np.bool_))
    for query in (5, COUNT + 50, COUNT + 1500, end - 5):
        found = [hit.id for hit in apart.search(str(query), 10, mode="dense")]
        assert found[0] == f"d{query}"
        assert len(set(found) & set(nearest_by_force(query, 10, living))) >= 9
    assert [finding for finding in examine(apart.library, prove=True) if not finding.sound] == []


def test_what_is_newer_is_not_indexed_where_it_was_removed_or_merged_with_what_is_indexed(
    growing: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "_MOST_INDEXED", 1)
    monkeypatch.setattr(compaction, "SEGMENT_ROWS", 4000)
    monkeypatch.setattr(index_state, "TAIL", 3000)
    before = segments(growing, SegmentKind.INDEX)
    ends = list[list[int]]()
    for begin in range(COUNT, COUNT + 2040, 510):
        growing.add_rows(rows(begin, begin + 510), index="later")
        growing.optimize(newer=True)
        ends.append([row.last_passage - COUNT for row in segments(growing, SegmentKind.VECTORS)])
    assert ends == [[0, 510], [0, 510, 1020], [0, 510, 1020, 1530], [0, 2040]], (
        "each is written again but once"
    )
    monkeypatch.setattr(index_state, "TAIL", 100)
    growing.add_rows(rows(COUNT + 2040, COUNT + 3000), index="later")
    growing.remove([f"d{number}" for number in range(COUNT, COUNT + 2990)])
    growing.optimize(newer=True)
    assert segments(growing, SegmentKind.INDEX) == before


@pytest.mark.parametrize("joins", [True, False])
def test_indexing_what_is_newer_leaves_what_was_noted_in_the_plan(
    growing: Collection, monkeypatch: pytest.MonkeyPatch, *, joins: bool
) -> None:
    monkeypatch.setattr(index_upkeep, "_as_sure", lambda *_: joins)
    growing.add_rows(rows(COUNT, COUNT + 600), index="later")
    prepare, live = collection_writing.prepare_index, growing._record.live()
    noted = replace(Plan.from_json(live.plan), note="noted meanwhile")

    def meanwhile(*given: Any, **named: Any) -> Any:
        found = prepare(*given, **named)
        with growing._store.database.writing() as connection:
            generations.set_plan(connection, live, noted.to_json())
        return found

    monkeypatch.setattr(collection_writing, "prepare_index", meanwhile)
    assert growing.optimize(newer=True).note == "noted meanwhile"
    assert Plan.from_json(growing._record.live().plan) == noted
    assert [row.count for row in segments(growing, SegmentKind.INDEX)] == ([3300] if joins else [2700, 600])


def test_optimizing_what_has_doubled_chooses_anew(indexed: Collection) -> None:
    indexed.add_rows(rows(COUNT, COUNT + 2600), index="later")
    assert len(segments(indexed, SegmentKind.INDEX)) == 1
    assert indexed.optimize().measured_at == 2700  # 5,300 are not twice as many
    indexed.rebuild()
    assert Plan.from_json(indexed._record.live().plan).measured_at == 2700
    indexed.add_rows(rows(COUNT + 2600, COUNT + 2800), index="later")
    assert indexed.optimize().measured_at == 5500


def test_others_add_while_an_index_is_made_one(apart: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    apart.add_rows(rows(COUNT, COUNT + 600), index="now")
    built = index_upkeep.build

    def meanwhile(*given: Any, **named: Any) -> Any:
        apart.add_rows(rows(COUNT + 600, COUNT + 650), index="now")
        apart.remove(["d1"])
        apart.compact()
        return built(*given, **named)

    monkeypatch.setattr(index_upkeep, "build", meanwhile)
    apart.optimize()
    (only,) = segments(apart, SegmentKind.INDEX)
    assert (only.count, only.last_passage) == (3300, COUNT + 600)
    living = np.append(LIVING, np.ones(650, dtype=np.bool_))
    living[1] = False
    for query in (2, COUNT + 610):
        found = [hit.id for hit in apart.search(str(query), 10, mode="dense")]
        assert found == nearest_by_force(query, 10, living)
    assert [finding for finding in examine(apart.library, prove=True) if not finding.sound] == []
    assert list(apart.library.store.building.iterdir()) == []


@pytest.fixture
def many(growing: Collection, monkeypatch: pytest.MonkeyPatch) -> Collection:
    """With a tail in small segments, which the next addition merges."""
    growing.add_rows(rows(COUNT, COUNT + 20), index="later")
    growing.add_rows(rows(COUNT + 20, COUNT + 40), index="later")
    monkeypatch.setattr(compaction, "_TOGETHER", 3)
    return growing


@pytest.mark.parametrize("merges", [1, 99])
def test_an_index_is_made_though_additions_merge_what_it_was_to_be_made_of(
    many: Collection, monkeypatch: pytest.MonkeyPatch, merges: int
) -> None:
    opened, ends = index_state.open_all, iter(range(COUNT + 60, COUNT + 60 + 20 * merges, 20))

    def meanwhile(*given: Any, **named: Any) -> VectorStore:
        if (end := next(ends, None)) is not None:
            many.add_rows(rows(end - 20, end), index="later")
            if merges > 1:
                many.compact()
        return opened(*given, **named)

    monkeypatch.setattr(index_state, "open_all", meanwhile)
    if merges > 1:
        with pytest.raises(BusyError, match="replaced again"):
            many.optimize()
    else:
        many.optimize()
        (only,) = segments(many, SegmentKind.INDEX)
        assert (only.count, only.last_passage) == (2760, COUNT + 60)
    assert {row.state for row in segments(many, SegmentKind.VECTORS)} == {SegmentState.CURRENT}
    living = np.append(LIVING, np.ones(60, dtype=np.bool_))
    hits = many.search(str(COUNT + 10), 10, mode="dense")
    assert hits.notes == ()
    if merges == 1:
        assert [hit.id for hit in hits] == nearest_by_force(COUNT + 10, 10, living)


@pytest.mark.parametrize("compacts", [False, True])
def test_optimizing_merges_small_segments_while_others_write(
    many: Collection, monkeypatch: pytest.MonkeyPatch, *, compacts: bool
) -> None:
    monkeypatch.setattr(compaction, "_MOST_INDEXED", 1)
    monkeypatch.setattr(compaction, "SEGMENT_ROWS", 4000)
    before = [(hit.id, hit.score) for hit in many.search("1", 20)]
    locked = many._writing.locked

    @contextlib.contextmanager
    def late(*given: Any) -> Iterator[Store]:
        if compacts and given[1] == "merge":
            many.compact()  # somebody else's, before the merged files take their place
        with locked(*given) as store:
            yield store

    monkeypatch.setattr(many._writing, "locked", late)
    many.optimize()
    counts = [row.count for row in segments(many, SegmentKind.VECTORS)]
    assert counts == ([2740] if compacts else [COUNT, 40])
    assert [(hit.id, hit.score) for hit in many.search("1", 20)] == before
    assert list(many.library.store.building.iterdir()) == []
    assert [finding for finding in examine(many.library, prove=True) if not finding.sound] == []


@pytest.mark.parametrize("told", [None, 0.0])
def test_a_writer_is_waited_for_as_long_as_the_index_took_unless_told_otherwise(
    many: Collection, monkeypatch: pytest.MonkeyPatch, told: float | None
) -> None:
    locked = many._writing.locked
    waits: dict[str, float | None] = {}

    def heard(row: CollectionRow, what: str, wait: float | None) -> contextlib.AbstractContextManager[Store]:
        waits[what] = wait
        return locked(row, what, wait)

    monkeypatch.setattr(many._writing, "locked", heard)
    many.optimize(wait=told)
    wait = waits["index"]
    assert wait is not None
    assert wait == 0.0 if told == 0.0 else wait > many.library.store.wait


def test_an_index_that_was_made_for_nothing_takes_no_place(
    apart: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart.add_rows(rows(COUNT, COUNT + 600), index="now")
    built, once = index_upkeep.build, []

    def meanwhile(*given: Any, **named: Any) -> Any:
        if not once:
            once.append(1)
            apart.add_rows(rows(COUNT + 600, COUNT + 1400), index="now")
        return built(*given, **named)

    monkeypatch.setattr(index_upkeep, "build", meanwhile)
    with pytest.raises(BusyError, match="indexed by another process"):
        apart.optimize()
    assert [row.count for row in segments(apart, SegmentKind.INDEX)] == [2700, 600, 800]
    assert list(apart.library.store.building.iterdir()) == []


def test_an_addition_may_leave_the_index_for_later(growing: Collection) -> None:
    growing.add_rows(rows(COUNT, COUNT + 900))
    assert len(segments(growing, SegmentKind.INDEX)) == 1
    assert [hit.id for hit in growing.search(str(COUNT + 3), 1, mode="dense")] == [f"d{COUNT + 3}"]
    growing.add_rows(rows(COUNT + 900, COUNT + 901), index="now")
    assert [row.count for row in segments(growing, SegmentKind.INDEX)] == [3601]
    with pytest.raises(BadInputError, match="index is 'never'"):
        growing.add_rows(["a"], index="never")
