"""A large collection with its index: built, searched, outgrown, dropped."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pytest
import table_collection
from naming import Naming
from table_collection import (
    COUNT,
    DIMENSION,
    LIVING,
    TABLE,
    flip_last_byte,
    nearest_by_force,
    refresh,
    rows,
    segments,
)

from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.indexer import Collection, collection_writing
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import SegmentState
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans import engine
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.snapshots import snapshot
from nearsay.indexer.vectors.errors import BusyError, DamagedSegmentError
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.vectors.vector_store import VectorStore, unit_length
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


def test_an_addition_may_leave_the_index_for_later(growing: Collection) -> None:
    growing.add_rows(rows(COUNT, COUNT + 900))
    assert len(segments(growing, SegmentKind.INDEX)) == 1
    assert [hit.id for hit in growing.search(str(COUNT + 3), 1, mode="dense")] == [f"d{COUNT + 3}"]
    growing.add_rows(rows(COUNT + 900, COUNT + 901), index="now")
    assert [row.count for row in segments(growing, SegmentKind.INDEX)] == [3601]
    with pytest.raises(BadInputError, match="index is 'never'"):
        growing.add_rows(["a"], index="never")


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
