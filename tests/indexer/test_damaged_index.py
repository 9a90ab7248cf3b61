"""An index that is damaged or lies, and who finds out."""

from collections.abc import Callable

import numpy as np
import pytest
from naming import Naming
from table_collection import (
    COUNT,
    DIMENSION,
    LIVING,
    TABLE,
    encoded,
    flip_last_byte,
    nearest_by_force,
    path_of,
    refresh,
    replace_index,
    rows,
    segments,
)

from nearsay.indexer import Collection
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.generations import SegmentState
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans.engines import build
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.segment import SegmentKind, VectorSegment
from nearsay.indexer.vectors.vector_store import VectorStore

OpenCollection = Callable[[], Collection]

# Damage


def test_a_damaged_index_is_left_out_with_a_note_and_a_rebuild_mends_it(
    indexed: Collection, open_table: OpenCollection
) -> None:
    (row,) = segments(indexed, SegmentKind.INDEX)
    flip_last_byte(path_of(indexed, row))
    first = open_table()
    hits = first.search("1", 10)
    assert [hit.id for hit in hits] == nearest_by_force(1, 10, LIVING)
    assert {hit.lineage.plan for hit in hits} == {"exact"}
    (note,) = hits.notes
    assert row.sha256 in note
    assert note.endswith(": nearsay index rebuild table")
    assert [row.state for row in segments(first, SegmentKind.INDEX)] == [SegmentState.QUARANTINED]

    second = open_table()
    assert second.search("1", 10).notes == (
        Naming("quarantine", "searched exactly", "nearsay index rebuild table"),
    )
    report = second.rebuild()
    assert (report.mended, report.embedded) == (1, 0)
    assert [row.state for row in segments(second, SegmentKind.INDEX)] == [SegmentState.CURRENT]
    after = second.search("1", 10)
    assert after.notes == ()
    assert {hit.lineage.plan for hit in after} == {"ivf"}
    assert encoded(second) == []


def test_a_missing_index_is_left_out_with_a_note_and_answers_again_when_it_is_back(
    indexed: Collection, open_table: OpenCollection
) -> None:
    (row,) = segments(indexed, SegmentKind.INDEX)
    place = path_of(indexed, row)
    away = place.rename(place.with_name("away"))
    hits = open_table().search("1", 10)
    assert [hit.id for hit in hits] == nearest_by_force(1, 10, LIVING)
    assert {hit.lineage.plan for hit in hits} == {"exact"}
    assert hits.notes == (Naming(row.sha256, "missing", "searched exactly", "nearsay index rebuild table"),)

    away.rename(place)
    hits = open_table().search("1", 10)
    assert {hit.lineage.plan for hit in hits} == {"ivf"}
    assert hits.notes == ()

    place.unlink()
    again = open_table()
    assert (again.rebuild().mended, encoded(again)) == (1, [])
    hits = again.search("1", 10)
    assert ({hit.lineage.plan for hit in hits}, hits.notes) == ({"ivf"}, ())


def test_an_index_damaged_before_anyone_searched_is_mended_by_a_rebuild(indexed: Collection) -> None:
    (row,) = segments(indexed, SegmentKind.INDEX)
    flip_last_byte(path_of(indexed, row))
    assert [finding.sound for finding in examine(indexed.library)].count(False) == 1
    assert indexed.rebuild().mended == 1
    assert all(finding.sound for finding in examine(indexed.library))


def test_adding_names_an_index_in_quarantine_and_replaces_it_when_asked_to_index(
    indexed: Collection, open_table: OpenCollection
) -> None:
    (row,) = segments(indexed, SegmentKind.INDEX)
    flip_last_byte(path_of(indexed, row))
    other = open_table()
    assert len(other.search("1").notes) == 1
    (note,) = other.add_rows(rows(COUNT, COUNT + 1)).notes[1:]
    assert "quarantine" in note
    assert note.endswith("nearsay index rebuild table")
    assert [row.state for row in segments(other, SegmentKind.INDEX)] == [SegmentState.QUARANTINED]
    assert other.add_rows(rows(COUNT + 1, COUNT + 2), index="now").notes[1:] == ()
    assert [row.state for row in segments(other, SegmentKind.INDEX)] == [SegmentState.CURRENT]
    hits = other.search("1")
    assert (hits.notes, hits[0].lineage.plan) == ((), "ivf")


def test_no_index_is_built_while_vectors_are_in_quarantine(open_table: OpenCollection) -> None:
    collection = open_table()
    flip_last_byte(path_of(collection, segments(collection, SegmentKind.VECTORS)[0]))
    with pytest.raises(DamagedSegmentError):
        collection.search("1")
    collection.add_rows(rows(COUNT, COUNT + 1500))
    assert segments(collection, SegmentKind.INDEX) == []
    assert collection.rebuild().mended == 1
    (row,) = segments(collection, SegmentKind.INDEX)
    assert row.count == COUNT * 9 // 10 + 1500
    assert collection.search("1", 1)[0].id == "d1"
    assert [finding for finding in examine(collection.library) if not finding.sound] == []


def test_an_index_is_not_built_over_vectors_that_turn_out_damaged(open_table: OpenCollection) -> None:
    collection = open_table()
    flip_last_byte(path_of(collection, segments(collection, SegmentKind.VECTORS)[0]))
    with pytest.raises(DamagedSegmentError, match=r"damaged.*: nearsay index rebuild table$"):
        refresh(collection)
    assert collection.rebuild().mended == 1
    assert collection.search("1", 1)[0].lineage.plan == "ivf"


# What the doctor says


def test_the_doctor_proves_a_good_index(indexed: Collection) -> None:
    findings = examine(indexed.library, prove=True)
    assert all(finding.sound for finding in findings)
    assert findings[2].detail == Naming("2,700 vectors", "0 unknown", "0 lacking")
    assert findings[-1].detail == Naming("50 of 50")


@pytest.mark.parametrize("left_out", [[2], [1502, 1503], [COUNT - 1, COUNT]])
def test_the_doctor_finds_passages_that_the_index_lacks(indexed: Collection, left_out: list[int]) -> None:
    vectors = indexed.snapshot().vectors
    alive = indexed.snapshot().alive.copy()
    alive[left_out] = False
    index = build(PlanKind.IVF, vectors, vectors.ids[alive[vectors.ids]], COUNT)
    replace_index(indexed, index)
    wrong = [finding for finding in examine(indexed.library) if not finding.sound]
    (finding,) = wrong
    assert finding.detail == Naming(
        f"{2700 - len(left_out):,} vectors",
        "0 unknown",
        f"{len(left_out)} lacking",
        "nearsay index rebuild table",
    )
    indexed.rebuild()
    assert all(finding.sound for finding in examine(indexed.library))


def test_the_doctor_finds_passages_in_the_index_that_have_no_vector(indexed: Collection) -> None:
    taken = indexed.snapshot()
    (row,) = segments(indexed, SegmentKind.VECTORS)
    replaced = VectorSegment(row.sha256, taken.vectors.ids, taken.vectors.segments[0].vectors)
    ids = taken.vectors.ids[taken.alive[taken.vectors.ids]]
    index = build(PlanKind.IVF, VectorStore([replaced], DIMENSION), ids, COUNT)
    index.faiss_index.add_with_ids(TABLE[:1], np.array([COUNT + 1]))
    indexed.add_rows(rows(COUNT, COUNT + 1))
    (tail,) = segments(indexed, SegmentKind.VECTORS)[1:]
    replace_index(indexed, index)
    with indexed._store.database.writing() as connection:
        generations.remove_segment(connection, tail)
    details = [finding.detail for finding in examine(indexed.library) if not finding.sound]
    assert "1 lack a vector" in details[0]
    assert details[1] == Naming("2,701 vectors", "1 unknown", "0 lacking")
