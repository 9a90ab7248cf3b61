"""The recall that was promised of an index: measured, kept, changed, and what is not claimed."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from naming import Naming
from table_collection import (
    COUNT,
    LIVING,
    any_encoder,
    encoded,
    nearest_by_force,
    rows,
    segments,
)

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.generations import SegmentState
from nearsay.indexer.plans.plan import Plan, PlanKind, RecallContract
from nearsay.indexer.vectors.errors import UnknownCollectionError
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.segment import SegmentKind
from nearsay.indexer.vectors.vector_store import VectorStore
from nearsay.indexer.writing import index_upkeep
from nearsay.indexer.writing.index_upkeep import refresh_index

OpenCollection = Callable[[], Collection]


def test_a_contract_that_an_index_has_to_be_measured_for_is_left_for_later(indexed: Collection) -> None:
    again = indexed.library.collection("table", recall="0.9@5")
    (note,) = again.add_rows(rows(COUNT, COUNT + 1)).notes[1:]
    assert note.endswith(": nearsay index tune table --recall 0.9@5")
    (note,) = indexed.library.collection("table", memory="2GB").add_rows(rows(0, 1)).notes[1:]
    assert note.endswith(": nearsay index tune table --recall 0.95@10 --memory 2000000000")
    assert Plan.from_json(again._record.live().plan).contract == RecallContract()


def test_an_index_that_keeps_no_contract_is_dropped_with_its_plan(indexed: Collection) -> None:
    plan = indexed.tune(memory=1000)
    assert (plan.kind, plan.contract) == (PlanKind.EXACT, RecallContract(0.95, 10, 1000))
    assert plan.note == Naming("no index", "0.95@10", "1 KB", "searched exactly", "mapped")
    assert Plan.from_json(indexed._record.live().plan) == plan
    assert segments(indexed, SegmentKind.INDEX) == []
    assert [hit.id for hit in indexed.search("1", 10)] == nearest_by_force(1, 10, LIVING)


def test_tuning_keeps_the_contract_that_was_given_before(indexed: Collection) -> None:
    indexed.tune(memory="1KB")
    plan = indexed.tune(recall="0.9@5")
    assert plan.contract == RecallContract(0.9, 5, 1000)
    lifted = indexed.tune(memory="none")
    assert (lifted.contract, lifted.kind) == (RecallContract(0.9, 5, None), PlanKind.IVF)
    assert lifted.report[-1].recall is not None
    assert indexed.search("1")[0].lineage.plan == "ivf"


def test_a_contract_given_at_the_first_addition_holds_for_later_builds(open_table: OpenCollection) -> None:
    library = open_table().library
    first = library.collection("mine", encoder=any_encoder(""), recall="0.9@5", memory="1KB")
    first.add_rows(rows(0, 20))
    assert Plan.from_json(first._record.live().plan).contract == RecallContract(0.9, 5, 1000)
    again = library.collection("mine", recall=0.99)
    again.add_rows(rows(20, 30))
    assert Plan.from_json(again._record.live().plan).contract == RecallContract(0.99, 5, 1000)
    library.collection("mine").add_rows(rows(30, 1200), index="now")
    plan = Plan.from_json(again._record.live().plan)
    assert (plan.contract, plan.measured_at) == (RecallContract(0.99, 5, 1000), 1200)
    assert plan.kind is PlanKind.EXACT


def test_a_new_contract_has_the_index_chosen_anew(indexed: Collection) -> None:
    other = indexed.library.collection("table", memory="1KB")
    other.add_rows(rows(COUNT, COUNT + 1), index="now")
    assert Plan.from_json(other._record.live().plan).kind is PlanKind.EXACT
    indexed.library.collection("table", memory="none").rebuild()
    assert Plan.from_json(other._record.live().plan).kind is PlanKind.IVF


def test_a_new_generation_inherits_the_contract(indexed: Collection) -> None:
    indexed.tune(recall="0.8@5")
    other = any_encoder("")
    other.name = "other"
    report = indexed.rebuild(other)
    made = next(row for row in indexed.generations() if row.number == report.generation)
    assert Plan.from_json(made.plan).contract == RecallContract(0.8, 5)


def test_the_users_own_queries_are_encoded_as_queries(indexed: Collection) -> None:
    before = len(encoded(indexed))
    plan = indexed.tune(queries=[str(number) for number in range(COUNT, COUNT + 80)])
    assert plan.queries == "80 given queries"
    assert len(encoded(indexed)) == before  # the encoder keeps what it encodes as passages
    with pytest.raises(BadInputError, match=r"\b3 queries .*10 or more"):
        indexed.tune(queries=["1", "2", "3"])


def test_tuning_that_is_stopped_leaves_the_old_index_and_plan(indexed: Collection) -> None:
    plan = indexed._record.live().plan
    before = segments(indexed, SegmentKind.INDEX)

    def stop(progress: Progress) -> None:
        if progress.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        indexed.tune(recall="0.5@3", progress=stop)
    assert indexed._record.live().plan == plan
    assert segments(indexed, SegmentKind.INDEX) == before
    assert indexed.tune().contract == RecallContract()


def stop_measuring(progress: Progress) -> None:
    if progress.doing and progress.done == 1:
        raise KeyboardInterrupt


def test_an_addition_that_is_stopped_while_measuring_claims_nothing_and_goes_on_when_repeated(
    indexed: Collection,
) -> None:
    before = indexed._record.live().plan
    promising = indexed.library.collection("table", recall="0.8@5")
    with pytest.raises(KeyboardInterrupt):
        promising.add_rows(rows(COUNT, COUNT + 1), index="now", progress=stop_measuring)
    assert indexed._record.live().plan == before
    assert promising.add_rows(rows(COUNT, COUNT + 1), index="now").unchanged == 1
    plan = Plan.from_json(indexed._record.live().plan)
    assert (plan.contract, plan.measured_at) == (RecallContract(0.8, 5), COUNT * 9 // 10 + 1)


def test_a_contract_that_cannot_be_measured_without_faiss_is_not_claimed(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    promising = indexed.library.collection("table", recall="0.8@5")
    with monkeypatch.context() as patch:
        patch.setattr(index_upkeep, "faiss_is_installed", lambda: False)
        (note,) = promising.add_rows(rows(COUNT, COUNT + 1), index="now").notes[1:]
        assert promising.rebuild().notes == (note,)
    assert note == Naming(
        "0.8@5",
        "not measured",
        "0.95@10",
        "stays",
        "pip install 'nearsay[cpu]'",
        "nearsay index tune table --recall 0.8@5",
    )
    assert Plan.from_json(indexed._record.live().plan).contract == RecallContract()
    assert promising.rebuild().notes == ()
    assert Plan.from_json(indexed._record.live().plan).contract == RecallContract(0.8, 5)


def test_a_contract_that_cannot_be_measured_over_damage_is_not_claimed(indexed: Collection) -> None:
    (row, *_) = segments(indexed, SegmentKind.VECTORS)
    with indexed._store.database.writing() as connection:
        generations.set_segment_state(connection, row, SegmentState.QUARANTINED)
    promising = indexed.library.collection("table", recall="0.8@5")
    state = indexed._record.row(), indexed._record.live()
    plan = refresh_index(indexed._store, *state, contract=RecallContract(0.8, 5))
    assert plan.contract == RecallContract()
    note = index_upkeep.unmeasured("table", plan, RecallContract(0.8, 5))
    assert note is not None
    assert note == Naming("quarantine", "nearsay index rebuild table")
    report = promising.rebuild()
    assert (report.restored, len(report.notes)) == (1, 1)  # that the file is whole is all that is said
    assert Plan.from_json(indexed._record.live().plan).contract == RecallContract(0.8, 5)


def test_an_empty_collection_cannot_be_tuned(indexed: Collection) -> None:
    with pytest.raises(UnknownCollectionError, match="there is no collection 'nothing'"):
        indexed.library.collection("nothing").tune()
    indexed.remove(where="id != 'nothing'")
    with pytest.raises(BadInputError, match=r"no passages.*: nearsay documents add"):
        indexed.tune()


def test_a_collection_whose_passages_all_wait_cannot_be_tuned(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, encoder = indexed.library, any_encoder("")

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    waiting = library.collection("waiting", encoder=encoder)
    with monkeypatch.context() as patch:
        patch.setattr(type(encoder), "_window", stopped)
        with pytest.raises(KeyboardInterrupt):
            waiting.add_rows(rows(0, 5))
    assert library.collection("waiting").overview().passages == 5
    with pytest.raises(BadInputError, match=r"no passages with vectors.*: nearsay documents add waiting"):
        library.collection("waiting").tune()


def test_compacting_removes_the_pictures_that_earlier_versions_kept(indexed: Collection) -> None:
    folder = indexed._store.folder / "reports"
    (folder / "1").mkdir(parents=True)
    (folder / "1" / "1.png").write_bytes(b"drawn")
    indexed.compact()
    assert not folder.exists()


def test_the_vectors_are_let_go_of_when_an_index_was_chosen(
    indexed: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[weakref.ref[VectorStore]] = []
    really = index_upkeep.opened_vectors

    def remembered(*given: Any) -> tuple[VectorStore, Any, int]:
        found = really(*given)
        opened.append(weakref.ref(found[0]))
        return found

    monkeypatch.setattr(index_upkeep, "opened_vectors", remembered)
    gc.disable()  # a picture leaves frames in circles, which hold what their callers had
    try:
        indexed.tune(recall="0.9@10")
        assert [kept() for kept in opened] == [None]
    finally:
        gc.enable()
