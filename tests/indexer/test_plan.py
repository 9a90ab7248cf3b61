"""How a generation is searched, as the catalogue keeps it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.indexer.plans.plan import KEPT, Check, ContractChange, Measured, Plan, PlanKind, RecallContract
from nearsay.indexer.vectors.errors import CatalogueError

PLAN = Plan(
    kind=PlanKind.IVF,
    shape={"lists": 128},
    parameters={"probes": 8},
    contract=RecallContract(0.9, 5, 1000),
    report=(
        Measured(PlanKind.EXACT, recall=1.0, milliseconds_a_query=2.5),
        Measured(
            PlanKind.IVF,
            {"lists": 128},
            {"probes": 8},
            recall=0.97,
            recall_at_least=0.96,
            milliseconds_a_query=0.25,
            queries_a_second=9000.0,
            bytes=900,
            build_seconds=1.5,
            verdict="taken",
        ),
        Measured(PlanKind.FLAT_FP16, bytes=5000, verdict="not built"),
    ),
    measured_at=1200,
    queries="40 given queries",
    check=Check(0.93, 200, 1300, 0.2, True),
    note="measured",
)

# As it was kept when inverted lists were the only kind.
OLD = {
    "kind": "ivf",
    "lists": 128,
    "probes": 8,
    "recall_target": 0.9,
    "report": [
        {"kind": "exact", "parameters": {}, "recall_at_10": 1.0, "milliseconds_a_query": 2.5},
        {
            "kind": "ivf",
            "parameters": {"lists": 128, "probes": 8},
            "recall_at_10": 0.97,
            "milliseconds_a_query": 0.25,
        },
    ],
    "measured_at": 60_000,
    "note": "",
}


def test_a_plan_without_a_choice_is_exact_with_the_usual_contract() -> None:
    assert Plan() == Plan(PlanKind.EXACT, contract=RecallContract(0.95, 10, None), report=(), note="")


def test_a_plan_is_kept_with_its_whole_report() -> None:
    kept = json.loads(json.dumps(PLAN.to_json()))
    assert kept["kind"] == "ivf"
    assert kept["contract"] == {"recall": 0.9, "at": 5, "memory_bytes": 1000}
    assert kept["report"][1]["parameters"] == {"probes": 8}
    assert kept["report"][2]["recall"] is None
    assert Plan.from_json(kept) == PLAN


_SETTINGS = st.dictionaries(st.text(max_size=5), st.integers(), max_size=2)
_NUMBERS = st.none() | st.floats(0, 1e6)


@given(
    st.builds(
        Plan,
        st.sampled_from(PlanKind),
        _SETTINGS,
        _SETTINGS,
        st.builds(RecallContract, st.floats(0.01, 1), st.integers(1, 100), st.none() | st.integers(1, 2**40)),
        st.lists(
            st.builds(
                Measured,
                st.sampled_from(PlanKind),
                _SETTINGS,
                _SETTINGS,
                _NUMBERS,
                _NUMBERS,
                _NUMBERS,
                _NUMBERS,
                st.none() | st.integers(0, 2**40),
                _NUMBERS,
                st.text(),
            ),
            max_size=3,
        ).map(tuple),
        st.integers(0, 2**31),
        st.text(),
        st.none()
        | st.builds(Check, st.floats(0, 1), st.integers(), st.integers(), st.floats(0, 9), st.booleans()),
        st.text(),
    )
)
def test_every_plan_is_a_round_trip_through_json(plan: Plan) -> None:
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_an_empty_plan_of_an_older_nearsay_is_exact() -> None:
    assert Plan.from_json({}) == Plan()


def test_a_plan_of_an_older_nearsay_is_searched_as_it_was() -> None:
    plan = Plan.from_json(OLD)
    assert (plan.kind, plan.shape, plan.parameters) == (PlanKind.IVF, {"lists": 128}, {"probes": 8})
    assert (plan.contract, plan.measured_at, plan.check) == (RecallContract(0.9, 10), 60_000, None)
    assert [(row.recall, row.milliseconds_a_query) for row in plan.report] == [(1.0, 2.5), (0.97, 0.25)]
    assert plan.warning("papers") is None


def test_fields_of_a_later_nearsay_are_left_out() -> None:
    assert Plan.from_json(PLAN.to_json() | {"replicas": 3}) == PLAN


def test_a_choice_changes_nothing_else() -> None:
    chosen = Plan(note="kept").chosen(PlanKind.IVF, shape={"lists": 128})
    assert chosen == Plan(PlanKind.IVF, shape={"lists": 128}, note="kept")


def test_a_plan_of_a_newer_nearsay_is_refused_with_the_remedy() -> None:
    with pytest.raises(CatalogueError, match=r"'teleport'.*Upgrade"):
        Plan.from_json({"kind": "teleport"})
    with pytest.raises(CatalogueError, match="'teleport'"):
        Plan.from_json({"kind": "exact", "report": [{"kind": "teleport"}]})


def test_a_contract_that_no_longer_holds_is_warned_of_with_the_remedy() -> None:
    assert PLAN.warning("papers") is None
    broken = PLAN.chosen(PLAN.kind, check=Check(0.853, 1000, 21_300, 0.2, False))
    assert broken.warning("papers") == Naming(
        "0.9@5", "1 KB", "no longer", "0.853", "5 nearest", "21,300", "estimated", "nearsay index tune papers"
    )


def test_a_change_of_contract_is_refused_before_anything_is_done() -> None:
    assert KEPT.of(PLAN.to_json()) == PLAN.contract
    assert ContractChange("0.8", "none").of(PLAN.to_json()) == RecallContract(0.8, 5, None)
    with pytest.raises(BadInputError, match="no recall"):
        ContractChange("most")


def test_a_plan_says_whether_its_recall_was_measured_with_the_users_queries() -> None:
    row = (Measured(PlanKind.EXACT, recall=1.0),)
    on_passages = Plan(report=row, queries="1,400 held-out stored vectors")
    with_queries = Plan(report=row, queries="1,000 given queries")
    assert on_passages.to_json()["estimated_on_passages"] is True
    assert "estimated on passages" in on_passages.evidence
    assert with_queries.to_json()["estimated_on_passages"] is False
    assert with_queries.evidence == "1,000 given queries"
    assert not Plan().estimated  # nothing was measured
    check = Check(recall=0.9, queries=200, passages=12, churn=0.2, kept=False)
    assert "estimated on passages" in str(replace(with_queries, check=check).warning("papers"))
