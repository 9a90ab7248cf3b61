"""How a generation is searched, as the catalogue keeps it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nearsay.indexer import Library
from nearsay.indexer.errors import CatalogueError
from nearsay.indexer.index_upkeep import refresh_index
from nearsay.indexer.plan import Measured, Plan, PlanKind
from nearsay.indexer.vector_store import VectorStore

PLAN = Plan(
    kind=PlanKind.IVF,
    lists=128,
    probes=8,
    recall_target=0.9,
    report=(
        Measured(PlanKind.EXACT, {}, 1.0, 2.5),
        Measured(PlanKind.IVF, {"lists": 128, "probes": 8}, 0.97, 0.25),
    ),
    note="measured",
)


def test_a_plan_without_a_choice_is_exact_with_the_target_of_the_contract() -> None:
    assert Plan() == Plan(PlanKind.EXACT, lists=0, probes=0, recall_target=0.95, report=(), note="")


def test_a_plan_is_kept_with_its_whole_report() -> None:
    kept = json.loads(json.dumps(PLAN.to_json()))
    assert kept["kind"] == "ivf"
    assert kept["report"][1] == {
        "kind": "ivf",
        "parameters": {"lists": 128, "probes": 8},
        "recall_at_10": 0.97,
        "milliseconds_a_query": 0.25,
    }
    assert Plan.from_json(kept) == PLAN


@given(
    st.builds(
        Plan,
        st.sampled_from(PlanKind),
        st.integers(0, 2**31),
        st.integers(0, 2**31),
        st.floats(0, 1),
        st.lists(
            st.builds(
                Measured,
                st.sampled_from(PlanKind),
                st.dictionaries(st.text(max_size=5), st.integers()),
                st.floats(0, 1),
                st.floats(0, 1e6),
            ),
            max_size=3,
        ).map(tuple),
        st.text(),
    )
)
def test_every_plan_is_a_round_trip_through_json(plan: Plan) -> None:
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_an_empty_plan_of_an_older_nearsay_is_exact() -> None:
    assert Plan.from_json({}) == Plan()


def test_fields_of_a_later_nearsay_are_left_out() -> None:
    assert Plan.from_json(PLAN.to_json() | {"replicas": 3}) == PLAN


def test_a_choice_changes_nothing_else() -> None:
    chosen = Plan(recall_target=0.9).chosen(PlanKind.IVF, lists=128)
    assert chosen == Plan(PlanKind.IVF, lists=128, recall_target=0.9)


def test_a_plan_of_a_newer_nearsay_is_refused_with_the_remedy() -> None:
    with pytest.raises(CatalogueError, match=r"'teleport', which this nearsay does not know\. Upgrade"):
        Plan.from_json({"kind": "teleport"})


def test_a_plan_that_was_measured_and_stayed_exact_is_not_measured_at_every_addition(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []

    def build_nothing(
        vectors: VectorStore, alive: NDArray[np.bool_], through: int, plan: Plan
    ) -> tuple[None, Plan]:
        built.append(len(vectors))
        return None, plan.chosen(PlanKind.EXACT)

    monkeypatch.setattr("nearsay.indexer.index_upkeep.build", build_nothing)
    collection = library.collection("notes")
    collection.add_rows([{"id": str(number), "text": "a" * (number % 8 + 1)} for number in range(20)])
    for ids in (range(20, 22), range(22, 24), range(24, 40)):
        collection.add_rows([{"id": str(number), "text": "a b"} for number in ids])
        row, generation = collection._record.row(), collection._record.live()
        refresh_index(library.store, row, generation, exact_up_to=10)
    assert built == [22, 40]
