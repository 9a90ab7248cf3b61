"""Whether a generation still keeps its contract after passages came and went."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pytest
import sqlalchemy as sa
from table_collection import COUNT, any_encoder, flip_last_byte, path_of, rows, segments

from nearsay.data.errors import MissingExtraError
from nearsay.indexer import Collection
from nearsay.indexer.catalogue import generations
from nearsay.indexer.plans.gpu import GpuIndex
from nearsay.indexer.plans.plan import Check, Plan
from nearsay.indexer.snapshots import contract_check
from nearsay.indexer.snapshots.contract_check import check_contract, checked
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.writing import index_state

OpenCollection = Callable[[], Collection]


def plan_of(collection: Collection) -> Plan:
    return Plan.from_json(collection._record.live().plan)


def search_worse(collection: Collection) -> None:
    """Let the plan look into one list only: its recall falls far below the contract."""
    plan = replace(plan_of(collection), parameters={"probes": 1, "factor": 1})
    with collection._store.database.writing() as connection:
        generations.set_plan(connection, collection._record.live(), plan.to_json())
        contract_check.collections.changed(connection, collection._record.row().id)


WARNING = (
    r"recall 0\.95@10 no longer holds: 0\.\d\d\d of the 10 nearest were found at [\d,]+ passages, "
    r"estimated on passages\. Choose"
)


def test_nothing_is_looked_at_while_little_changes(indexed: Collection) -> None:
    indexed.add_rows(rows(COUNT, COUNT + 100), index="now")
    indexed.remove(f"d{i}" for i in range(1, 100, 10))
    assert plan_of(indexed).check is None


def test_growth_by_a_tenth_is_looked_at_once(indexed: Collection) -> None:
    report = indexed.add_rows(rows(COUNT, COUNT + 300), index="now")
    check = plan_of(indexed).check
    assert check is not None
    assert (check.passages, check.churn, check.kept) == (3000, pytest.approx(300 / 2700, abs=1e-4), True)
    assert check.queries in {200, 1000}
    assert check.recall >= 0.95
    assert not any("no longer holds" in note for note in report.notes)
    indexed.add_rows(rows(COUNT + 300, COUNT + 350), index="now")
    assert plan_of(indexed).check == check


def test_the_contract_is_measured_with_the_reach_that_searches_have(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    reaches: list[float] = []
    looked_up = Snapshot.looked_up

    def noted(self: Snapshot, queries: Any, k: int, alive: Any, reach: float = 1.0, *more: Any) -> Any:
        reaches.append(reach)
        return looked_up(self, queries, k, alive, reach, *more)

    monkeypatch.setattr(Snapshot, "looked_up", noted)
    checked(indexed.snapshot(), 0.2)
    assert set(reaches) == {
        1.0
    }  # though each query asks for one more than ten: it is stored, and finds itself
    indexed.snapshot().nearest_many(indexed.snapshot().vectors.rows(np.arange(3)), 100)
    assert reaches[-1] == pytest.approx(10**0.3)


def test_where_a_gpu_answers_the_kept_index_is_measured(indexed: Collection) -> None:
    snapshot = indexed.snapshot()
    assert snapshot.index is not None
    on_gpu = GpuIndex.__new__(GpuIndex)  # without a GPU: whoever asks it anything fails
    on_gpu.stored = snapshot.index
    assert checked(replace(snapshot, index=on_gpu), 0.2) == checked(snapshot, 0.2)


def test_while_segments_say_that_little_changed_passages_are_not_counted(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    conditions: list[str] = []
    count = contract_check.count_of

    def counted(connection: sa.Connection, table: sa.Table, condition: sa.ColumnElement[bool]) -> int:
        conditions.append(str(condition))
        return count(connection, table, condition)

    monkeypatch.setattr(contract_check, "count_of", counted)
    indexed.remove(["d1"])
    assert len(conditions) == 2
    assert not any("passages.number <=" in condition for condition in conditions)
    indexed.remove(f"d{i}" for i in range(2, 400) if i % 10)
    assert any("passages.number <=" in condition for condition in conditions)


def test_a_generation_that_goes_live_again_is_looked_at(indexed: Collection) -> None:
    search_worse(indexed)
    other = any_encoder("")
    other.name = "other"
    indexed.promote(indexed.rebuild(other).generation)
    indexed.add_rows(rows(COUNT, COUNT + 300), index="now")
    assert indexed.warnings() == ()
    assert indexed.rollback() == 1
    (warning,) = indexed.warnings()
    assert re.search(WARNING, warning)
    assert warning in indexed.search("1").notes


def test_removals_are_looked_at_like_growth(indexed: Collection) -> None:
    indexed.remove(f"d{i}" for i in range(400) if i % 10)
    check = plan_of(indexed).check
    assert check is not None
    assert (check.churn, check.passages) == (pytest.approx(360 / 2700, abs=1e-4), 2340)


def test_a_contract_that_no_longer_holds_is_said_wherever_someone_looks(indexed: Collection) -> None:
    search_worse(indexed)
    report = indexed.add_rows(rows(COUNT, COUNT + 300), index="now")
    (note,) = [note for note in report.notes if "no longer holds" in note]
    assert re.search(WARNING, note)
    assert note.endswith(": nearsay index tune table")
    check = plan_of(indexed).check
    assert check is not None
    assert (check.kept, check.queries) == (False, 200)
    assert note in indexed.search("1").notes
    again = indexed.add_rows(rows(COUNT + 300, COUNT + 301), index="now")
    assert note in again.notes


def test_an_index_that_has_doubled_by_what_joined_it_is_looked_at_without_the_lock(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_state, "TAIL", 100)
    looked, removed = contract_check.checked, iter([["d1"]])

    def meanwhile(*given: Any) -> Check:
        for ids in removed:
            assert indexed.remove(ids, wait=0) == 1
        return looked(*given)

    monkeypatch.setattr(contract_check, "checked", meanwhile)
    checks = list[Check | None]()
    for begin, end in ((0, 200), (200, 2000), (2000, 2700), (2700, 3000)):
        indexed.add_rows(rows(COUNT + begin, COUNT + end), index="later")
        indexed.optimize(newer=True)
        checks.append(plan_of(indexed).check)
    assert [row.count for row in segments(indexed, SegmentKind.INDEX)] == [2700 + 3000]
    assert checks[:2] == [None, None]
    assert checks[2] is not None
    assert (checks[2].kept, checks[2].passages) == (True, 2700 + 2700)
    assert checks[3] == checks[2]


def test_one_look_after_most_was_removed_is_enough(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, looks = contract_check.checked, list[Check]()
    monkeypatch.setattr(contract_check, "checked", lambda *given: looks.append(looked(*given)) or looks[-1])
    living = [f"d{number}" for number in range(COUNT) if number % 10]
    indexed.remove(living[:1700])
    assert [look.passages for look in looks] == [1000]
    indexed.remove(living[1700:1701])
    indexed.add_rows(rows(COUNT, COUNT + 1), index="now")
    assert len(looks) == 1


def test_a_look_at_a_plan_that_was_replaced_meanwhile_is_not_kept(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = contract_check.checked

    def meanwhile(*given: Any) -> Check:
        search_worse(indexed)
        return looked(*given)

    monkeypatch.setattr(contract_check, "checked", meanwhile)
    indexed.remove(f"d{number}" for number in range(600) if number % 10)
    assert plan_of(indexed).check is None


def test_a_removal_is_done_though_its_look_cannot_be(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(*_: object) -> NoReturn:
        raise MissingExtraError("Ray is not installed", "ray")

    monkeypatch.setattr(contract_check, "checked", lacks)
    assert indexed.remove(f"d{number}" for number in range(600) if number % 10) == 540
    assert plan_of(indexed).check is None


def test_tuning_again_mends_it(indexed: Collection) -> None:
    search_worse(indexed)
    indexed.add_rows(rows(COUNT, COUNT + 300), index="now")
    assert indexed.search("1").notes != ()
    plan = indexed.tune()
    assert plan.check is None
    assert indexed.search("1").notes == ()
    assert indexed.add_rows(rows(COUNT + 300, COUNT + 301), index="now").notes[1:] == ()


def test_the_check_tells_the_same_recall_as_the_report(indexed: Collection) -> None:
    (row,) = [row for row in plan_of(indexed).report if row.verdict == "taken"]
    assert checked(indexed.snapshot(), 0.0).recall == pytest.approx(row.recall, abs=0.03)


def test_a_small_collection_takes_no_snapshot(open_table: OpenCollection) -> None:
    collection = open_table()

    def never() -> NoReturn:
        raise AssertionError

    assert check_contract(collection._store, collection._record.row(), never, never) is None


def test_damaged_vectors_do_not_stand_in_the_way_of_a_removal(
    indexed: Collection, open_table: OpenCollection
) -> None:
    flip_last_byte(path_of(indexed, segments(indexed, SegmentKind.VECTORS)[0]))
    other = open_table()
    assert other.remove(f"d{i}" for i in range(1000) if i % 10) == 900
    with pytest.raises(DamagedSegmentError):
        other.search("1")
